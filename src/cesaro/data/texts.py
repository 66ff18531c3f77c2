"""Text that stands for numbers or dates, and entries that keep a column of such text from being either.

Dates may be written otherwise than 2024-01-31: 31.01.2024, 1/31/2024 2:30 PM, 31 Jan 2024, 202401311430. Misfits are entries
such as 'tbc' among amounts, a sign beside them, or 31.02.2024.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Order: TypeAlias = Literal["day", "month", "year"]
_CLOCK = r"(?: (\d{1,2}):(\d\d)(?::(\d\d))?( [AP]M)?)?"
_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})" + _CLOCK, re.IGNORECASE)
_NAMED_MONTH = re.compile(r"(?:(\d{1,2})([ -])([a-z]{3})\2|([a-z]{3}) (\d{1,2}),? )(\d{4})" + _CLOCK, re.IGNORECASE)
_YEAR_FIRST = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?!\d)")
_YEAR_FIRST_APART = re.compile(r"\d{4}-\d\d-\d\d\b")  # alone or before a space
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# Digits of dates that are whole numbers: to the day, to the minute and to the second; and the years that they have.
DIGITS = frozenset((8, 12, 14))
_YEARS = 1900, 2199
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
BOTH: frozenset[Order] = frozenset(("day", "month"))

# The share of a column's entries that must be numbers, or times, for the others to be mistakes: few texts look like times.
NEARLY, MOST = 0.9, 0.5
# Levels that are looked at first, and the part of them that must be such for all to be tried.
LOOKED_AT, HARDLY = 200, 0.2
_COMMA = re.compile(r"[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?")  # a number with a decimal comma
# A sign stands for money or a unit: "€ 3.18", "EUR 3.18", "12 %", "21.5 °C", "3 kW". Other letters before a number make a name.
_BEFORE = re.compile(r"([^\w\s.,+-]|[A-Z]{3}(?=\s))\s*(?=[+-]?[\d.,])")
_AFTER = re.compile(r"(?<=[\d.,])(\s*[^\w\s.,+-][A-Za-z]?|\s+[^\W\d]+)$")


def orders(text: str) -> frozenset[Order]:
    """The parts that may come first in a date; none where the text is no date. Between points it is always the day.

    Example:
        >>> from cesaro.data.texts import orders
        >>> sorted(orders("05/06/2024")), sorted(orders("05/31/2024 2:30 PM")), sorted(orders("05.06.2024"))
        (['day', 'month'], ['month'], ['day'])
    """
    return frozenset(readings(text))


def readings(text: str) -> dict[Order, datetime]:
    """The times that a date may stand for, by what comes first in it."""
    found = _DATE.fullmatch(text) or _NAMED_MONTH.fullmatch(text)
    if found is None:
        return {}
    hour, minute, second, half = found.groups()[-4:]
    if half is not None and not 1 <= int(hour) <= 12:
        return {}
    hours = int(hour or 0) if half is None else int(hour) % 12 + 12 * (half.strip().upper() == "PM")
    clock = (hours, int(minute or 0), int(second or 0))
    times = {order: _time(*date, *clock) for order, date in _tried(found).items()}
    return {order: time for order, time in times.items() if time is not None}


def is_no_day(text: str) -> bool:
    """Whether a date names a day that its month does not have.

    Example:
        >>> from cesaro.data.texts import is_no_day
        >>> is_no_day("31.02.2024 06:00"), is_no_day("2024-02-30"), is_no_day("31.13.2024"), is_no_day("02/29/2024")
        (True, True, False, False)
    """
    found = _DATE.fullmatch(text) or _NAMED_MONTH.fullmatch(text)
    year_first = _YEAR_FIRST.match(text)
    if found is not None:
        dates = list(_tried(found).values())
    elif year_first is not None:
        year, month, day = map(int, year_first.groups())
        dates = [(year, month, day)]
    else:
        return False
    is_like_one = any(1 <= month <= 12 and 1 <= day <= 31 for _, month, day in dates)
    return is_like_one and all(_time(*date) is None for date in dates)


def _tried(found: re.Match[str]) -> dict[Order, tuple[int, int, int]]:
    """Year, month and day of a date, by what may come first in it."""
    *date, year, _, _, _, _ = found.groups()
    if len(date) == 3:
        first, mark, second = date
        tried: dict[Order, tuple[int, int, int]] = {"day": (int(year), int(second), int(first))}
        return tried if mark == "." else tried | {"month": (int(year), int(first), int(second))}
    day, _, month, name, other = date
    if name is None:
        return {"day": (int(year), _month(month), int(day))}
    return {"month": (int(year), _month(name), int(other))}


def _month(name: str) -> int:
    """The number of a month by the first three letters of its English name; 0: it is none."""
    return _MONTHS.index(name.lower()) + 1 if name.lower() in _MONTHS else 0


def digits(numbers: NDArray[np.int64]) -> frozenset[int]:
    """The number of digits of dates without marks, 20240131 or 202401311430, if all numbers are such; nothing: they are not.

    Example:
        >>> import numpy as np
        >>> from cesaro.data.texts import digits
        >>> digits(np.array([20240131, 20240201])), digits(np.array([20240131, 20240132]))
        (frozenset({8}), frozenset())
    """
    if not len(numbers) or numbers.min() < _YEARS[0] * 10**4:
        return frozenset()
    low, high = len(str(numbers.min())), len(str(numbers.max()))
    if low != high or low not in DIGITS:
        return frozenset()
    every = np.unique(numbers)
    date, clock = np.divmod(every, 10 ** (low - 8))
    year, month, day = date // 10_000, date // 100 % 100, date % 100
    clock = clock * (100 if low == 12 else 1)
    fine = (year >= _YEARS[0]) & (year <= _YEARS[1]) & (month >= 1) & (month <= 12) & (day >= 1)
    fine &= (clock // 10_000 < 24) & (clock // 100 % 100 < 60) & (clock % 100 < 60)
    if not fine.all():
        return frozenset()
    months = (year - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (month - 1)
    longest = ((months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")).astype(np.int64)
    return frozenset((low,)) if (day <= longest).all() else frozenset()


def _time(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> datetime | None:
    try:
        return datetime(year, month, day, hour, minute, second)
    except ValueError:
        return None


def formats(order: Order) -> list[str]:
    """Formats of all dates in which this part comes first, as `orders` tells; with the year first, those that `digits` finds."""
    if order == "year":
        return ["%Y%m%d", "%Y%m%d%H%M", "%Y%m%d%H%M%S"]
    dates = [f"%d{mark}%m{mark}%Y" if order == "day" else f"%m{mark}%d{mark}%Y" for mark in "./-"]
    dates += ["%d %b %Y", "%d-%b-%Y"] if order == "day" else ["%b %d, %Y", "%b %d %Y"]
    return [date + clock for date in dates for clock in _CLOCKS]


def has_comma(text: str) -> bool:
    """Whether a text is a number with a decimal comma."""
    return _COMMA.fullmatch(text.strip()) is not None


def is_number(text: str) -> bool:
    """Whether a CSV reader takes a text for a number: Python also reads 1_000 and the digits of other scripts."""
    if not text.isascii() or "_" in text:
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


class Complaint(NamedTuple):
    """A complaint about a column: what it must hold, what it holds instead, and what to do."""

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
    """The complaint about text among numbers; `entry` is the first such, and `count` how many there are."""
    more, those = ("", "that entry") if count == 1 else (f", one of {count:,} that are no numbers", "those entries")
    return Complaint("must hold numbers or text, not both", f"{entry!r} at {row}{more}", f"correct {those}")


def untimely(entry: str, row: str, count: int = 1) -> Complaint:
    """The complaint about an entry that is no time, or is not written as the other times are."""
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
    if _YEAR_FIRST_APART.match(text):
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
