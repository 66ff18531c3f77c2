"""Text from data stays text: no control codes of terminals, no line breaks, nothing that cannot be printed."""

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(text: str) -> str:
    """`text` on one line, with everything that has no shape of its own written as an escape.

    Example:
        >>> from cesaro.text import visible
        >>> print(visible("free €\\n\\x1b[31m"))
        free €\\n\\x1b[31m
    """
    return "".join(
        character.encode("unicode_escape").decode() if unicodedata.category(character) in _HIDDEN else character
        for character in text
    )
