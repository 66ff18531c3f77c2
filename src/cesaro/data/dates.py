"""Dates that are written with the day or the month first, such as 31.01.2024 and 1/31/2024 2:30 PM."""

import re
from datetime import datetime
from typing import Literal, TypeAlias

Order: TypeAlias = Literal["day", "month"]
_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?: (\d{1,2}):(\d\d)(?::(\d\d))?( [AP]M)?)?", re.IGNORECASE)
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
BOTH: frozenset[Order] = frozenset(("day", "month"))


def orders(text: str) -> frozenset[Order]:
    """What may come first in a date; nothing where it is none. Between points it is always the day.

    Example:
        >>> from cesaro.data.dates import orders
        >>> sorted(orders("05/06/2024")), sorted(orders("05/31/2024 2:30 PM")), sorted(orders("05.06.2024"))
        (['day', 'month'], ['month'], ['day'])
    """
    found = _DATE.fullmatch(text)
    if found is None:
        return frozenset()
    first, mark, second, year, hour, minute, second_of, half = found.groups()
    if half is not None and not 1 <= int(hour) <= 12:
        return frozenset()
    clock = (int(hour or 0), int(minute or 0), int(second_of or 0))
    tried: tuple[tuple[Order, str, str], ...] = (("day", second, first), ("month", first, second))
    return frozenset(
        order for order, month, day in tried[: 1 if mark == "." else 2] if _is_time(year, month, day, clock)
    )


def _is_time(year: str, month: str, day: str, clock: tuple[int, int, int]) -> bool:
    try:
        datetime(int(year), int(month), int(day), *clock)
    except ValueError:
        return False
    return True


def formats(order: Order) -> list[str]:
    """What reads every date of which `orders` says that this comes first."""
    dates = [f"%d{mark}%m{mark}%Y" if order == "day" else f"%m{mark}%d{mark}%Y" for mark in "./-"]
    return [date + clock for date in dates for clock in _CLOCKS]
