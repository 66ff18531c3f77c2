"""JSON that came from outside, such as a manifest or the metadata of a file: one reader, which refuses what it cannot hold.

Nothing else in the package parses JSON. A document that is refused is a `ValueError` whose text says why in a few words, so that
the caller can name the file, the rule and the remedy.
"""

import json
import math
import os
import stat
from typing import Any, NoReturn

# Ours have fewer than ten levels; whatever walks through a document may then recurse.
MAX_DEPTH = 100
# Ours have kilobytes.
MAX_BYTES = 1 << 28


def parse(text: str | bytes) -> Any:
    """The value of a JSON document.

    Args:
        text: the document; bytes are UTF-8.

    Raises:
        ValueError: it is no JSON, names a key of an object twice, holds a number that a float cannot, or is nested too deeply.

    Example:
        >>> from cesaro.documents import parse
        >>> parse('{"trials": 300}')
        {'trials': 300}
        >>> parse("[" * 100_000)
        Traceback (most recent call last):
        ValueError: nested more than 100 levels deep
    """
    try:
        value = json.loads(
            text.decode() if isinstance(text, bytes) else text,
            object_pairs_hook=_object,
            parse_float=_float,
            parse_constant=_constant,
        )
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _values_inside(outer) if type(inner) in _NESTED]
        if not level:
            return value
    raise ValueError(_TOO_DEEP)


def read(file: str | os.PathLike[str]) -> Any:
    """The value of a JSON file.

    Raises:
        OSError: it cannot be opened or read.
        ValueError: it is no regular file, too large, or `parse` refuses it.
    """
    with open(file, "rb", opener=_without_waiting) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError("no regular file")
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES:,} bytes")
    return parse(data)


_NESTED = (list, dict)
_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to is opened as well, and refused by its kind."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _values_inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:60]!r} occurs twice in one object")
    return found


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:60]} is not a number that a float can hold")
    return number


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")
