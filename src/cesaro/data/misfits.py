"""Entries that keep a column of text from being numbers or times: 'tbc' among amounts, a sign beside them, 31.02.2024."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cesaro.data.dates import is_no_day, readings

# Of the entries of a column, the part that must be numbers, or times, for the others to be mistakes: few texts look like times.
NEARLY, MOST = 0.9, 0.5
# Levels that are looked at first, and the part of them that must be such for all to be tried.
LOOKED_AT, HARDLY = 200, 0.2
_COMMA = re.compile(r"[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?")  # a number with a decimal comma
# A sign stands for money or a unit: "€ 3.18", "EUR 3.18", "12 %", "21.5 °C", "3 kW". Other letters before a number make a name.
_BEFORE = re.compile(r"([^\w\s.,+-]|[A-Z]{3}(?=\s))\s*(?=[+-]?[\d.,])")
_AFTER = re.compile(r"(?<=[\d.,])(\s*[^\w\s.,+-][A-Za-z]?|\s+[^\W\d]+)$")
_YEAR_FIRST = re.compile(r"\d{4}-\d\d-\d\d\b")


def has_comma(text: str) -> bool:
    return _COMMA.fullmatch(text.strip()) is not None


def is_number(text: str) -> bool:
    """Whether a CSV reader takes it for one: Python also reads 1_000 and the digits of other scripts."""
    if not text.isascii() or "_" in text:
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


class Complaint(NamedTuple):
    """What a column must hold, what it holds instead, and what to do."""

    rule: str
    got: str
    remedy: str


class Nearly(NamedTuple):
    """A column of text that is numbers or times but for its misfits.

    Attributes:
        values: the numbers or times, with a usual number or nothing in place of misfits.
        fits: which rows are numbers or times, or empty.
        wrong: the first row that is to be corrected.
        complain: what to say of it, given the name of that row.
    """

    values: pa.ChunkedArray
    fits: NDArray[np.bool_]
    wrong: int
    complain: Callable[[str], Complaint]


def mixed(entry: str, row: str, count: int) -> Complaint:
    """Of text among numbers: the first such entry, and how many there are."""
    more, those = ("", "that entry") if count == 1 else (f", one of {count:,} that are no numbers", "those entries")
    return Complaint("must hold numbers or text, not both", f"{entry!r} at {row}{more}", f"correct {those}")


def untimely(entry: str, row: str, count: int = 1) -> Complaint:
    """Of an entry that is not written as the other times are, or is none."""
    rule = "must hold times, all of one form"
    if is_no_day(entry):
        return Complaint(rule, f"{entry!r} at {row}{_such(count)}, a day that does not exist", "correct it")
    return Complaint(rule, f"{entry!r} at {row}{_such(count)}", "correct it, or write it as the other entries")


def _such(count: int) -> str:
    return "" if count == 1 else f", one of {count:,} such entries"


def nearly_numbers(texts: pa.ChunkedArray, share: float = NEARLY) -> Nearly | None:
    """Text of which at least a share is numbers, alone or beside one and the same sign; None: it is not."""
    levels, codes = _encoded(texts)
    if _are_hardly(levels, _number):
        return None
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    read = [_number(level) for level in levels]
    weights: dict[str, int] = {}
    for found, count in zip(read, counts.tolist()):
        if found is not None and found[1]:
            weights[found[1]] = weights.get(found[1], 0) + count
    sign = max(weights, key=weights.__getitem__, default="")
    fits = np.array([found is not None and found[1] in ("", sign) for found in read])
    if counts[fits].sum() < share * counts.sum():
        return None
    numbers = np.array([found[0] if found is not None and fit else np.nan for found, fit in zip(read, fits)])
    usual = np.sort(np.repeat(numbers[fits], counts[fits]))[int(counts[fits].sum()) // 2]
    numbers[~fits] = usual
    whole = all("." not in level and "," not in level for level, fit in zip(levels, fits) if fit)
    kind = (
        pa.int64() if whole and bool((np.abs(numbers) < 2**53).all() & (numbers == np.round(numbers)).all()) else None
    )
    misfits = int(counts[~fits].sum())
    strange = ~fits if misfits else np.array([not is_number(level) for level in levels])
    count = int(counts[strange].sum())
    wrong = _first(codes, strange if count else fits)

    def complain(row: str) -> Complaint:
        entry = levels[codes[wrong]]
        if misfits:
            return mixed(entry, row, count)
        if not count:
            return Complaint("must hold numbers", f"{entry!r} at {row} (type {texts.type})", "convert it")
        remedy = f"write the numbers alone, without {sign!r}" if sign else "write the numbers with a decimal point"
        return Complaint("must hold numbers", f"{entry!r} at {row}{_such(count)}", remedy)

    return Nearly(_column(numbers, codes, kind or pa.float64()), ~_at(codes, ~fits), wrong, complain)


def nearly_times(texts: pa.ChunkedArray, in_any_order: bool) -> Nearly | None:
    """Text most of which is times, and not all of one form; None: it is not.

    Args:
        in_any_order: whether dates may begin with the day or the month.
    """
    levels, codes = _encoded(texts)
    if _are_hardly(levels, partial(_times, in_any_order=in_any_order)):
        return None
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    read = [_times(level, in_any_order) for level in levels]
    if counts[[bool(found) for found in read]].sum() < MOST * counts.sum():
        return None
    weights: dict[str, int] = {}
    for found, count in zip(read, counts.tolist()):
        for form in found:
            weights[form] = weights.get(form, 0) + count
    form = max(weights, key=weights.__getitem__)
    fits = np.array([form in found for found in read])
    if fits.all():
        return None
    wrong, count = _first(codes, ~fits), int(counts[~fits].sum())
    times = [found[form].astimezone(UTC) if form == "zone" else found.get(form) for found in read if form in found]
    values = pa.array(times, pa.timestamp("us", "UTC" if form == "zone" else None))
    places = np.cumsum(fits) - 1
    taken = pa.array(np.where(_at(codes, fits), places[codes], -1), mask=~_at(codes, fits))
    return Nearly(
        pa.chunked_array([values.take(taken)]),
        ~_at(codes, ~fits),
        wrong,
        lambda row: untimely(levels[codes[wrong]], row, count),
    )


def _number(text: str) -> tuple[float, str] | None:
    """A number and the sign beside it; None: it is no number."""
    text, sign = text.strip(), ""
    if not is_number(text) and not has_comma(text):
        for side in (_BEFORE.match(text), _AFTER.search(text)):
            if side is not None:
                sign, text = side.group(1).strip(), text[: side.start()] + text[side.end() :]
                break
    if has_comma(text):
        text = text.replace(",", ".")
    return (float(text), sign) if is_number(text) and np.isfinite(float(text)) else None


def _times(text: str, in_any_order: bool) -> dict[str, datetime]:
    """The times that a text may stand for, by its form."""
    if _YEAR_FIRST.match(text):
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            return {}
        return {"year" if time.tzinfo is None else "zone": time}
    return {str(order): time for order, time in readings(text).items()} if in_any_order else {}


def _encoded(texts: pa.ChunkedArray) -> tuple[list[str], NDArray[np.int64]]:
    """The different entries, and the number of each row's entry; −1: it is empty."""
    encoded = pc.dictionary_encode(texts.combine_chunks())
    return encoded.dictionary.to_pylist(), pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(
        np.int64
    )


def _are_hardly(levels: Sequence[str], read: Callable[[str], object]) -> bool:
    """Whether a look at some levels tells that few of them can be read, so that the others need not be tried."""
    some = levels[:: max(1, len(levels) // LOOKED_AT)]
    return sum(bool(read(level)) for level in some) < HARDLY * len(some) or not some


def _at(codes: NDArray[np.int64], levels: Sequence[bool] | NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows with some of the levels."""
    return (codes >= 0) & np.asarray(levels)[codes]


def _first(codes: NDArray[np.int64], levels: NDArray[np.bool_]) -> int:
    return int(np.argmax(_at(codes, levels)))


def _column(numbers: NDArray[np.float64], codes: NDArray[np.int64], kind: Any) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(numbers[codes], mask=codes < 0).cast(kind)])
