"""Text that others read: without control codes, line breaks and credentials, and in the words of who reads it."""

import difflib
import re
import shlex
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote

# One slash is left of two where an address was taken for a path.
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]+:/{1,2}"
_ADDRESS = re.compile(rf"\b{_SCHEME}[^\s'\"<>]+")
# Query keys whose values say nothing secret.
_HARMLESS = ("endpoint_override", "scheme", "region", "allow_bucket_creation", "allow_bucket_deletion", "replication")
_HIDDEN = "…"
_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def visible(text: str) -> str:
    """`text` on one line, with every character that has no shape of its own written as an escape.

    Example:
        >>> from cesaro.text import visible
        >>> print(visible("free €\\n\\x1b[31m"))
        free €\\n\\x1b[31m
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def percent(share: float) -> str:
    """A share as people write it; small ones keep a digit.

    Example:
        >>> from cesaro.text import percent
        >>> percent(0.5), percent(0.0321), percent(0.0)
        ('50 %', '3.2 %', '0 %')
    """
    return f"{100 * share:.2g} %" if 0 < share < 0.1 else f"{100 * share:.0f} %"


def in_words(count: int) -> str:
    """A small count as a word, and a larger one in digits.

    Example:
        >>> from cesaro.text import in_words
        >>> in_words(6), in_words(1_200)
        ('six', '1,200')
    """
    return _COUNTS[count] if 0 <= count < len(_COUNTS) else f"{count:,}"


def shortened(value: Any) -> str:
    """A value as Python writes it; of one with many digits the order of magnitude."""
    if isinstance(value, int) and abs(value) >= 10**30:
        return f"about {'-' if value < 0 else ''}10**{int(abs(value).bit_length() * 0.30103)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def nearest(text: str, known: Iterable[str]) -> str | None:
    """The known text that was probably meant, whatever its case; None: none is like it.

    Example:
        >>> from cesaro.text import nearest
        >>> nearest("open", ["SHUT", "OPEN"]), nearest("rewards", ["reward", "cost"]), nearest("x", ["reward"])
        ('OPEN', 'reward', None)
    """
    folded = {one.casefold(): one for one in known}
    found = difflib.get_close_matches(text.casefold(), folded, n=1)
    return folded[found[0]] if found else None


class Wording(NamedTuple):
    """One thing in two vocabularies: as a Python call names it, and as the command line does."""

    python: str
    command_line: str

    @property
    def capitalized(self) -> "Wording":
        """The same at the start of a sentence."""
        return Wording(self.python.capitalize(), self.command_line.capitalize())


# "Pass an argument", but "give an option".
GIVE = Wording("pass", "give")


def argument(name: str, value: str | None = None) -> Wording:
    """A keyword argument of a function, and the option of the same name, with or without a value.

    Example:
        >>> from cesaro.text import argument
        >>> argument("next_observation", "the next")
        Wording(python='next_observation="the next"', command_line="--next-observation 'the next'")
    """
    return Wording(f"{name}=" if value is None else f'{name}="{visible(value)}"', option(name, value))


def switch(name: str) -> Wording:
    """A keyword argument that is True, and the option of the same name."""
    return Wording(f"{name}=True", option(name))


def option(name: str, value: str | None = None) -> str:
    """An option of the command line as one would type it."""
    flag = f"--{name.replace('_', '-')}"
    return flag if value is None else f"{flag} {shlex.quote(visible(value))}"


class Sentence(str):
    """A message, or a part of one, that names arguments of a function, which the command line calls options.

    As a string it has the words of Python. Only the template is ever taken as a format: fields are inserted as they are, whatever
    they hold.

    Args:
        template: the text, with the names of fields in braces.
        fields: text, wordings, and sentences, whose own fields are worded likewise.

    Example:
        >>> from cesaro.text import GIVE, Sentence, argument
        >>> note = Sentence("The times repeat; {give} {trajectory}.", give=GIVE, trajectory=argument("trajectory", "a {b}"))
        >>> print(note)
        The times repeat; pass trajectory="a {b}".
        >>> print(note.command_line)
        The times repeat; give --trajectory 'a {b}'.
    """

    template: str
    fields: dict[str, str | Wording]

    def __new__(cls, template: str, /, **fields: str | Wording) -> "Sentence":
        words = {name: field.python if isinstance(field, Wording) else field for name, field in fields.items()}
        sentence = super().__new__(cls, template.format(**words))
        sentence.template, sentence.fields = template, fields
        return sentence

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.template,), self.fields

    @property
    def command_line(self) -> str:
        """The sentence in the words of the command line."""
        words = {
            name: field.command_line if isinstance(field, Wording) else for_command_line(field)
            for name, field in self.fields.items()
        }
        return self.template.format(**words)


def for_command_line(text: str) -> str:
    """The text in the words of the command line; text that is no `Sentence` as it is."""
    return text.command_line if isinstance(text, Sentence) else text


def is_address(text: str) -> bool:
    """Whether the text names a place by a scheme, `s3://…`, and not by a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None


def looks_like_address(text: str) -> bool:
    """Whether the text is an address, or one that lost a slash where it was taken for a path."""
    return re.match(_SCHEME, text) is not None


def shown_address(text: str) -> str:
    """An address as a whole without its credentials, whatever characters these hold; other text as `redacted` gives it.

    Example:
        >>> from cesaro.text import shown_address
        >>> shown_address("s3://me:my 'secret'@bucket/logs")
        's3://…@bucket/logs'
    """
    return _without_credentials(text) if looks_like_address(text) else redacted(text)


def redacted(text: str, address: str = "") -> str:
    """`text` without the credentials of any address that it quotes, and without those of `address` wherever they stand.

    Example:
        >>> from cesaro.text import redacted
        >>> redacted("cesaro evaluate 's3://me:secret@bucket/logs?region=us-east-1&access_key=me' --policy uniform")
        "cesaro evaluate 's3://…@bucket/logs?region=us-east-1&access_key=…' --policy uniform"
    """
    text = _ADDRESS.sub(lambda found: _without_credentials(found.group()), text)
    for secret in sorted(_secrets(address), key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return text


def _without_credentials(address: str) -> str:
    start, mark, query = address.partition("?")
    scheme, slashes, rest = re.split(r"(:/{1,2})", start, maxsplit=1)
    user, at, rest = rest.rpartition("@")
    if at and (":" in user or not scheme.lower().startswith(("abfs", "az"))):
        user = _HIDDEN  # all before the last @, because a key may hold a slash; a container of Azure is no secret
    return f"{scheme}{slashes}{user}{at}{rest}{mark}" + "&".join(map(_shown_option, query.split("&")))


def _shown_option(option: str) -> str:
    key, equals, _ = option.partition("=")
    return option if key in _HARMLESS or not equals else f"{key}={_HIDDEN}"


def _secrets(address: str) -> set[str]:
    """The parts of an address that must never be shown, as they stand there and decoded."""
    if not looks_like_address(address):
        return set()
    start, _, query = address.partition("?")
    user = re.split(r":/{1,2}", start, maxsplit=1)[1].rpartition("@")[0]
    found = set(user.split(":", 1)[1:]) | {user if ":" in user else ""}
    found |= {option.partition("=")[2] for option in query.split("&") if option.partition("=")[0] not in _HARMLESS}
    return {secret for text in found for secret in (text, unquote(text)) if secret}
