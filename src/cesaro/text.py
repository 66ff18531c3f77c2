"""Text that others read: without control codes, without line breaks, without credentials."""

import re
from urllib.parse import unquote

# One slash is left of two where an address was taken for a path.
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]+:/{1,2}"
_ADDRESS = re.compile(rf"\b{_SCHEME}[^\s'\"<>]+")
# Query keys whose values say nothing secret.
_HARMLESS = ("endpoint_override", "scheme", "region", "allow_bucket_creation", "allow_bucket_deletion", "replication")
_HIDDEN = "…"


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
    """What of an address must never be shown, as it stands there and decoded."""
    if not looks_like_address(address):
        return set()
    start, _, query = address.partition("?")
    user = re.split(r":/{1,2}", start, maxsplit=1)[1].rpartition("@")[0]
    found = set(user.split(":", 1)[1:]) | {user if ":" in user else ""}
    found |= {option.partition("=")[2] for option in query.split("&") if option.partition("=")[0] not in _HARMLESS}
    return {secret for text in found for secret in (text, unquote(text)) if secret}
