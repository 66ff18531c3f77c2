"""Python objects of different types in one column: which row is the first that differs."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from cesaro.errors import InputError
from cesaro.text import visible

_SHOWN = 60  # characters


def reject_mixed(where: str, values: Any) -> None:
    """Name the first row whose type differs from that of the rows before; to be called where a conversion failed."""
    frame = type(values).__module__.split(".")[0] == "pandas"
    rows = [(row, value) for row, value in enumerate(_listed(values)) if not _is_missing(value, frame)]
    _compare(where, rows, _family)
    if rows and _family(rows[0][1]) == "list":
        entries = [(row, entry) for row, value in rows for entry in _listed(value) if not _is_missing(entry, False)]
        _compare(where, entries, _family)
        _compare(where, entries, type)
    else:
        _compare(where, rows, type)


def _compare(where: str, rows: list[tuple[int, Any]], kind: Callable[[Any], Any]) -> None:
    for row, value in rows:
        if kind(value) != kind(rows[0][1]):
            before = type(rows[0][1]).__name__
            shown = visible(repr(value))
            shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…"
            raise InputError(
                f"{visible(where)} must be an array of numbers, text or true/false, not of several types. "
                f"Got {shown} ({type(value).__name__}) at row {row} (counted from 0) after {before}; "
                "convert the column to one type."
            ) from None


def _listed(values: Any) -> Iterable[Any]:
    if type(values).__module__.split(".")[0] == "polars":
        return list(values.to_list())
    return list(values)


def _is_missing(value: Any, frame: bool) -> bool:
    """None; what pandas takes for missing only in its own columns, because elsewhere it is a type of its own."""
    if value is None:
        return True
    return frame and (type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value))


def _family(value: Any) -> str:
    """Types that one column may mix."""
    if isinstance(value, bool | np.bool_):
        return "flag"
    if isinstance(value, int | float | np.integer | np.floating):
        return "number"
    if isinstance(value, str | bytes):
        return "text"
    if isinstance(value, list | tuple | np.ndarray):
        return "list"
    return type(value).__name__
