"""Text from data in messages."""


def printable(text: str) -> str:
    """`text` with line breaks, escape codes and the like written out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
