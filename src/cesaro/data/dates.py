"""Dates that are written otherwise than 2024-01-31: 31.01.2024, 1/31/2024 2:30 PM, 31 Jan 2024, 202401311430."""

import re
from datetime import datetime
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Order: TypeAlias = Literal["day", "month", "year"]
_CLOCK = r"(?: (\d{1,2}):(\d\d)(?::(\d\d))?( [AP]M)?)?"
_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})" + _CLOCK, re.IGNORECASE)
_NAMED_MONTH = re.compile(r"(?:(\d{1,2})([ -])([a-z]{3})\2|([a-z]{3}) (\d{1,2}),? )(\d{4})" + _CLOCK, re.IGNORECASE)
_YEAR_FIRST = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?!\d)")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# Digits of dates that are whole numbers: to the day, to the minute and to the second; and the years that they have.
DIGITS = frozenset((8, 12, 14))
_YEARS = 1900, 2199
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
BOTH: frozenset[Order] = frozenset(("day", "month"))


def orders(text: str) -> frozenset[Order]:
    """What may come first in a date; nothing where it is none. Between points it is always the day.

    Example:
        >>> from cesaro.data.dates import orders
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
        >>> from cesaro.data.dates import is_no_day
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
    """How many digits all of some numbers have that are dates without marks, 20240131 or 202401311430; nothing: they are none.

    Example:
        >>> import numpy as np
        >>> from cesaro.data.dates import digits
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
    """What reads every date of which `orders` says that this comes first; of the year, those of which `digits` tells."""
    if order == "year":
        return ["%Y%m%d", "%Y%m%d%H%M", "%Y%m%d%H%M%S"]
    dates = [f"%d{mark}%m{mark}%Y" if order == "day" else f"%m{mark}%d{mark}%Y" for mark in "./-"]
    dates += ["%d %b %Y", "%d-%b-%Y"] if order == "day" else ["%b %d, %Y", "%b %d %Y"]
    return [date + clock for date in dates for clock in _CLOCKS]
