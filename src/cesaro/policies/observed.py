"""Which observation a rule is broken at, in words: rows have other numbers in a block, among distinct states and in a file."""

import re
from typing import Any

import numpy as np

from cesaro.text import visible

Observations = Any  # what `Values.plain()` gives: an array [n] or [n, d], or a dict of arrays [n]

_WORD = re.compile(r"[^\W\d_](?:[\w .-]*[\w.-])?")
_LONGEST, _LONGEST_VALUE, _MOST_NUMBERS = 160, 40, 24


def place(observations: Observations, row: int) -> str:
    """`at the observation {free_servers: 3, priority: gold}`: what was seen in that row, on one line."""
    if isinstance(observations, dict):
        seen = "{" + ", ".join(f"{_text(name)}: {_text(column[row])}" for name, column in observations.items()) + "}"
    else:
        seen = _text(np.asarray(observations)[row])
    return f"at the observation {_short(seen, _LONGEST)}"


def _text(value: Any) -> str:
    """A number or a word as it is, other text in quotes, so that 3 and '3' differ."""
    if isinstance(value, np.ndarray):
        numbers = value.ravel()
        more = ", …" if len(numbers) > _MOST_NUMBERS else ""
        return "[" + ", ".join(map(_text, numbers[:_MOST_NUMBERS])) + more + "]"
    if isinstance(value, str):
        plain = str(value)
        return _short(plain if _WORD.fullmatch(plain) else visible(repr(plain)), _LONGEST_VALUE)
    return _short(visible(str(value)), _LONGEST_VALUE)


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
