"""The columns of a log before anybody described it: the profile of each, and text as the numbers or times that it nearly is.

A profile has the kind of a column, its range, levels, missing entries and its shape in a line. A correction is what a column
needs before it can be read as what it seems to be.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cesaro.data.columns import ColumnPlace, basic_type, is_list, is_number, is_plain_text, is_text
from cesaro.data.roles import DEFAULTS
from cesaro.data.sources.base import Source
from cesaro.data.sources.files import FilesSource
from cesaro.data.texts import BOTH, MOST, NEARLY, Nearly, nearly_numbers, nearly_times, orders
from cesaro.inspection.evidence import looked_at
from cesaro.inspection.names import CALENDAR, REWARDS, TIMES, by_name, is_id, means, named_costs
from cesaro.text import option, visible

# Text with more levels is no label that a policy sees.
MOST_LABELS = 50
_BARS, _PLACES = "▁▂▃▄▅▆▇█", 12
_SHOWN, _TEXT = 3, 16
# Text that looks like a date or a time, in whatever form.
_MONTH = r"\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_DATE = re.compile(
    rf"\d{{1,4}}[./-]\d{{1,2}}[./-]\d{{1,4}}\b|.*\b\d{{1,2}}:\d\d\b|.*({_MONTH}.*\b\d{{4}}\b|\b\d{{4}}\b.*{_MONTH})",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Profile:
    """A column of a log.

    Attributes:
        kind: "number", "whole number", "text", "true/false", "date", "list", "empty" or "other".
        rows: that were looked at.
        missing: empty entries among them.
        levels: different entries; None for lists.
        low, high: the ends of numbers and dates; None for others.
        common: the most frequent entries of text and of few whole numbers.
        shape: how numbers and dates are distributed between their ends, or how frequent levels are, as bars.
    """

    name: str
    kind: str
    rows: int
    missing: int
    levels: int | None
    low: str | None
    high: str | None
    common: tuple[str, ...]
    shape: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"common": list(self.common)}


def profile(name: str, column: pa.ChunkedArray) -> Profile:
    """The profile of some rows of a column."""
    kind, rows, missing = _kind(column.type), len(column), column.null_count
    if kind in ("list", "other", "empty"):
        return Profile(name, kind, rows, missing, None, None, None, (), "")
    basic = basic_type(column.type)
    plain = column.cast(basic).drop_null()
    if pa.types.is_binary(basic) or pa.types.is_large_binary(basic):
        return Profile(name, kind, rows, missing, len(plain.unique()), None, None, (), "")
    counted = pc.value_counts(plain)
    counts = counted.field("counts").to_numpy(zero_copy_only=False)
    levels = len(counts)
    if kind in ("text", "true/false"):
        top = np.argsort(-counts, kind="stable")[:_SHOWN]
        common = tuple(_short(counted.field("values")[int(place)].as_py()) for place in top)
        return Profile(name, kind, rows, missing, levels, None, None, common, _bars(np.sort(counts)[::-1][:_PLACES]))
    ends = pc.min_max(plain).as_py()
    low, high = (_short(ends[end]) for end in ("min", "max"))
    if kind == "date":
        plain = plain.cast(pa.int32() if pa.types.is_date32(basic) else pa.int64())
    numbers = plain.cast(pa.float64(), safe=False).to_numpy()
    numbers = numbers[np.isfinite(numbers)]
    bins = min(_PLACES, max(2, levels))
    shape = _bars(np.histogram(numbers, bins)[0]) if levels > 1 and len(numbers) and np.ptp(numbers) < 1e300 else ""
    return Profile(name, kind, rows, missing, levels, low, high, (), shape)


def _kind(wrapped: pa.DataType) -> str:
    kind = basic_type(wrapped)
    if pa.types.is_null(kind):
        return "empty"
    if is_list(kind):
        return "list"
    if is_text(kind):
        return "text"
    if pa.types.is_boolean(kind):
        return "true/false"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "date"
    if pa.types.is_integer(kind):
        return "whole number"
    return "number" if is_number(kind) else "other"


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else visible(str(value))
    return text if len(text) <= _TEXT + 10 else text[:_TEXT] + "…"


def _bars(counts: NDArray[Any] | Sequence[int]) -> str:
    sizes = np.asarray(counts, dtype=np.float64)
    if not len(sizes) or not sizes.max() > 0:
        return ""
    return "".join(_BARS[int(np.ceil(size / sizes.max() * (len(_BARS) - 1)))] for size in sizes)


def complete(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows that have no empty entries in some columns."""
    kept = np.ones(len(table), dtype=np.bool_)
    for name in names:
        if table[name].null_count:
            kept &= pc.is_valid(table[name]).to_numpy()
    return table if kept.all() else table.filter(pa.array(kept))


def holds_unread_times(name: str, found: Profile) -> bool:
    """Whether a column of text holds dates or times in a form that nothing reads."""
    if found.kind != "text" or (found.levels or 0) <= MOST_LABELS or means(name, CALENDAR):
        return False
    return means(name, TIMES) or all(_DATE.match(entry) for entry in found.common)


def unread_times_sentence(name: str, column: pa.ChunkedArray) -> str:
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


@dataclass(frozen=True)
class Correction:
    """A correction that a column needs before it can be read."""

    place: ColumnPlace
    found: Nearly

    def message(self, is_choice: bool = False) -> str:
        """The sentence that `evaluate` says of it; `is_choice`: whether labels would do as well."""
        rule, got, remedy = self.found.complain(self.place.row(self.found.wrong))
        if is_choice:
            remedy += f", or give {option('kind', f'{self.place.column}=category')} if these are labels"
        return self.place.error(rule, got, remedy).message


@dataclass(frozen=True)
class Corrected:
    """The rows of a log as they are once some columns are corrected.

    Attributes:
        table: without the rows that have a wrong time.
        needed: what must be corrected in columns that the table has as numbers or times.
        possible: the same of columns that it has as text, which can be read as labels.
    """

    table: pa.Table
    needed: dict[str, Correction]
    possible: dict[str, Correction]


def corrected(source: Source, table: pa.Table, given: Mapping[str, tuple[str, ...]]) -> Corrected:
    """Read text as the numbers or times that it nearly is.

    Args:
        table: rows of the log.
        given: roles whose columns are known.
    """
    is_known = len(table) < looked_at(source) and not (isinstance(source, FilesSource) and len(source.files) > 1)
    kept = np.ones(len(table), dtype=np.bool_)
    needed: dict[str, Correction] = {}
    possible: dict[str, Correction] = {}
    outcomes = (*given.get("reward", ()), *given.get("cost", ()))
    for number, name in enumerate(table.column_names):
        kind = basic_type(table.schema.field(name).type)
        if not is_plain_text(kind) or name in given.get("trajectory", ()):
            continue
        texts = table[name].cast(kind)
        times, is_outcome = (
            nearly_times(texts, source.is_text),
            name in outcomes if outcomes else _sounds_like_outcome(name),
        )
        found = times or nearly_numbers(texts, MOST if is_outcome else NEARLY)
        if found is None:
            continue
        place = _Place(source.name, name, ((source.name, len(table)),), written=source.written, is_known=is_known)
        is_mixed = source.is_text and not found.fits.all() and not is_id(name)
        if not (is_outcome or is_mixed or times is not None or name in given.get("time", ())):
            possible[name] = Correction(place, found)
            continue
        needed[name] = Correction(place, found)
        table = table.set_column(number, name, found.values)
        if times is not None or means(name, TIMES):
            kept &= found.fits
    return Corrected(table if kept.all() else table.filter(pa.array(kept)), needed, possible)


@dataclass(frozen=True)
class _Place(ColumnPlace):
    """A column of rows that were looked at, whose numbers in the log may be unknown."""

    is_known: bool

    def row(self, index: int) -> str:
        return super().row(index) if self.is_known else "one of the rows that were looked at"


def _sounds_like_outcome(name: str) -> bool:
    return bool(by_name([name], (*DEFAULTS["reward"], *REWARDS)) or named_costs([name]))
