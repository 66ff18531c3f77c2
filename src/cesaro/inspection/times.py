"""Times of a log: the unit that its steps take, and those that nothing reads."""

import re

import pyarrow as pa

from cesaro.data.texts import BOTH, orders
from cesaro.inspection.names import CALENDAR, TIMES, means
from cesaro.inspection.profiles import MOST_LABELS, Profile
from cesaro.text import visible

_MONTH = r"\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_DATE = re.compile(
    rf"\d{{1,4}}[./-]\d{{1,2}}[./-]\d{{1,4}}\b|.*\b\d{{1,2}}:\d\d\b|.*({_MONTH}.*\b\d{{4}}\b|\b\d{{4}}\b.*{_MONTH})",
    re.IGNORECASE,
)
_DAY = 86_400.0
_UNITS = ((_DAY, "day"), (3_600.0, "hour"), (60.0, "minute"), (1.0, "second"))
# Units of the calendar, with the fewest and the most days that they have.
_CALENDAR = ((7, 7, "week"), (28, 31, "month"), (90, 92, "quarter"), (365, 366, "year"))


def unit_of_step(seconds: float) -> str:
    """The unit that a rate is counted by, where a step takes so long: a unit of time, or a step of several."""
    for fewest, most, word in _CALENDAR:
        if fewest * _DAY <= seconds <= most * _DAY:
            return f"per {word}"
    whole = (
        one for one in _UNITS if seconds >= 0.99 * one[0] and abs(seconds / one[0] - round(seconds / one[0])) < 0.01
    )
    size, word = next(whole, _UNITS[-1])
    number = f"{seconds / size:.3g}"
    return f"per {word}" if number == "1" else f"per step of {number} {word}s"


def is_unread(name: str, found: Profile) -> bool:
    """Whether a column of text holds dates or times in a form that nothing reads."""
    if found.kind != "text" or (found.levels or 0) <= MOST_LABELS or means(name, CALENDAR):
        return False
    return means(name, TIMES) or all(_DATE.match(entry) for entry in found.common)


def of_unread(name: str, column: pa.ChunkedArray) -> str:
    """A sentence on times that are all text: why they cannot be read, and what to write instead."""
    texts = column.drop_null().unique().to_pylist()
    if all(orders(text) == BOTH for text in texts):
        return (
            f'The dates of "{visible(name)}", such as {texts[0]!r}, may have the day or the month first, because no day is over '
            "12; write them as 2024-01-31."
        )
    return (
        f'The times of "{visible(name)}", such as {texts[0]!r}, have a form that cannot be read; write them as 2024-01-31 '
        "14:00:00."
    )
