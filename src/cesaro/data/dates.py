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
    found = _DATE.fullmatch(text) or _NAMED_MONTH.fullmatch(text)
    if found is None:
        return frozenset()
    *date, year, hour, minute, second_of, half = found.groups()
    if half is not None and not 1 <= int(hour) <= 12:
        return frozenset()
    clock = (int(hour or 0), int(minute or 0), int(second_of or 0))
    tried: tuple[tuple[Order, str, str], ...]
    if len(date) == 3:
        first, mark, second = date
        tried = (("day", second, first), ("month", first, second))
        tried = tried[: 1 if mark == "." else 2]
    else:
        day, _, month, name, other = date
        tried = (("day", _month(month), day),) if name is None else (("month", _month(name), other),)
    return frozenset(order for order, month, day in tried if _is_time(year, month, day, clock))


def _month(name: str) -> str:
    """The number of a month by the first three letters of its English name; 0: it is none."""
    return str(_MONTHS.index(name.lower()) + 1) if name.lower() in _MONTHS else "0"


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


def _is_time(year: str, month: str, day: str, clock: tuple[int, int, int]) -> bool:
    try:
        datetime(int(year), int(month), int(day), *clock)
    except ValueError:
        return False
    return True


def formats(order: Order) -> list[str]:
    """What reads every date of which `orders` says that this comes first; of the year, those of which `digits` tells."""
    if order == "year":
        return ["%Y%m%d", "%Y%m%d%H%M", "%Y%m%d%H%M%S"]
    dates = [f"%d{mark}%m{mark}%Y" if order == "day" else f"%m{mark}%d{mark}%Y" for mark in "./-"]
    dates += ["%d %b %Y", "%d-%b-%Y"] if order == "day" else ["%b %d, %Y", "%b %d %Y"]
    return [date + clock for date in dates for clock in _CLOCKS]
