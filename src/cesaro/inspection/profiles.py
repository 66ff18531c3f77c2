"""The profile of one column of a log: its kind, range, levels, missing entries, and its shape in a line."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cesaro.data.columns import basic_type, is_list, is_number, is_text
from cesaro.text import visible

# Text with more levels is no label that a policy sees.
MOST_LABELS = 50
_BARS, _PLACES = "▁▂▃▄▅▆▇█", 12
_SHOWN, _TEXT = 3, 16


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
