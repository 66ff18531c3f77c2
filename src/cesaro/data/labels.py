"""Arrow columns of labels, flags, ids and times as NumPy arrays. No id passes through a float."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cesaro.data.columns import (
    EXACT,
    ColumnPlace,
    as_times,
    cast,
    example,
    floats,
    is_number,
    is_plain_text,
    is_text,
    reject_missing,
    reject_unusable,
    shown,
    to_numpy,
    unwrapped,
    wide,
)
from cesaro.data.texts import nearly_times

_UNITED = 1 << 16  # labels gathered before their union is made


class Encoded(NamedTuple):
    """Row i holds `values[codes[i]]`; the values are different and not sorted."""

    codes: NDArray[Any]  # −1: missing
    values: pa.Array


class Levels:
    """The labels of a column and of its next column, gathered piece by piece."""

    def __init__(self) -> None:
        self._found: list[pa.Array] = []
        self._known = 0  # labels after the last union

    def add(self, columns: Sequence[pa.ChunkedArray], places: Sequence[ColumnPlace]) -> None:
        self._found += [part.values for part in _encoded_alike(columns, places)]
        if sum(map(len, self._found)) > 2 * self._known + _UNITED:
            self._found = [pa.concat_arrays(self._found).unique()]
            self._known = len(self._found[0])

    def sorted(self, place: ColumnPlace) -> NDArray[Any]:
        """All labels, in order."""
        return _sorted(pa.concat_arrays(self._found).unique(), place)


def labels(
    columns: Sequence[pa.ChunkedArray], places: Sequence[ColumnPlace], levels: NDArray[Any] | None = None
) -> tuple[list[NDArray[np.int32]], NDArray[Any]]:
    """Codes of every column in one common set of sorted levels; only columns after the first may have gaps (−1).

    `levels`: those of the whole log, where the columns hold some of its rows.
    """
    encoded = _encoded_alike(columns, places)
    every = pa.concat_arrays([part.values for part in encoded])
    levels = _sorted(every.unique(), places[0]) if levels is None else levels
    ranks = _ranks(every, places[0], levels)
    ends = np.cumsum([len(part.values) for part in encoded])[:-1]
    return [_mapped(part.codes, own) for part, own in zip(encoded, np.split(ranks, ends))], levels


def _encoded_alike(columns: Sequence[pa.ChunkedArray], places: Sequence[ColumnPlace]) -> list[Encoded]:
    encoded = [_encoded(columns[0], places[0], None)]
    kind = encoded[0].values.type
    return encoded + [_encoded(column, place, kind) for column, place in zip(columns[1:], places[1:])]


def _sorted(values: pa.Array, place: ColumnPlace) -> NDArray[Any]:
    try:
        return values.to_numpy(zero_copy_only=False)[pc.sort_indices(values).to_numpy()]
    except (UnicodeDecodeError, pa.ArrowException) as error:
        if isinstance(error, MemoryError):
            raise
        raise place.error("must hold text in UTF-8", "other bytes", "write the file again as UTF-8") from None


def _ranks(values: pa.Array, place: ColumnPlace, levels: NDArray[Any]) -> NDArray[np.int32]:
    """The place of every value among known levels."""
    if levels.dtype == object:
        found = pc.index_in(values, value_set=pa.array(levels, values.type)).fill_null(-1).to_numpy()
    else:
        plain = values.to_numpy(zero_copy_only=False)
        found = np.minimum(np.searchsorted(levels, plain), len(levels) - 1).astype(np.int32)
        found[levels[found] != plain] = -1
    if (found < 0).any():
        new = shown(values[int(np.argmin(found))])
        raise place.error("must keep its labels while the log is read", f"{new}, which is new", "run it again")
    return found


def _mapped(codes: NDArray[Any], ranks: NDArray[np.int32]) -> NDArray[np.int32]:
    if np.array_equal(ranks, np.arange(len(ranks))):
        return codes.astype(np.int32, copy=False)
    return np.append(ranks, np.int32(-1)).take(codes)


def _encoded(column: pa.ChunkedArray, place: ColumnPlace, kind: pa.DataType | None) -> Encoded:
    """Codes and the values that occur; `kind`: the type they must have, for a column that may have gaps."""
    if kind is None:
        reject_missing(column, place)
    if pa.types.is_dictionary(column.type):
        whole = column.cast(wide(column.type)).combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        codes = whole.indices.cast(pa.int64()).fill_null(-1).to_numpy()
        values = pa.chunked_array([whole.dictionary])
        used = np.zeros(len(values) + 1, dtype=np.bool_)
        used[codes] = True
        if not used[:-1].all():
            values = pa.chunked_array([whole.dictionary.take(pa.array(np.flatnonzero(used[:-1])))])
            codes = np.append(np.cumsum(used[:-1]) - 1, -1)[codes]
        used_by = replace(place.within(lambda value: int(np.argmax(codes == value))), is_droppable=False)
        inner = _encoded(values, used_by, kind)
        return Encoded(np.append(inner.codes, -1)[codes], inner.values)
    column = _as_labels(unwrapped(column, place), place, kind)
    if kind is None:
        reject_missing(column, place)
    if pa.types.is_integer(column.type) and not column.null_count:
        dense = _dense(to_numpy(column))
        if dense is not None:
            return dense
    whole = column.dictionary_encode().combine_chunks()
    codes = whole.indices if not whole.null_count else whole.indices.fill_null(-1)
    return Encoded(codes.to_numpy(), whole.dictionary)


def _dense(values: NDArray[np.int64]) -> Encoded | None:
    """Integers within a range no longer than the column, without a hash table."""
    if not len(values):
        return None
    low, high = int(values.min()), int(values.max())
    if high - low >= len(values):
        return None
    shifted = values - low if low else values
    used = np.bincount(shifted) > 0
    codes = shifted.astype(np.int32)
    if not used.all():
        codes = (np.cumsum(used, dtype=np.int32) - np.int32(1)).take(codes)
    return Encoded(codes, pa.array(np.flatnonzero(used) + low))


def _as_labels(column: pa.ChunkedArray, place: ColumnPlace, kind: pa.DataType | None) -> pa.ChunkedArray:
    """Labels as bool, int64 or text."""
    found = column.type
    if pa.types.is_null(found) and kind is not None:
        return column.cast(kind)
    if pa.types.is_integer(found):
        column = cast(column, pa.int64(), place, "labels of at most 2**63 − 1", "store such ids as text")
    elif pa.types.is_floating(found):
        column = _whole(column, place)
    elif pa.types.is_decimal(found):
        column = cast(column, pa.int64(), place, "labels that are whole numbers", "store such labels as text")
    elif is_text(found):
        column = cast(column, pa.large_string(), place, "text in UTF-8")
    elif not pa.types.is_boolean(found):
        raise place.error(
            "must hold labels (text, whole numbers or true/false)", example(column, place), "convert it to text"
        )
    if kind is not None and column.type != kind:
        raise place.error(
            f"must hold labels of the type of the column it belongs to ({kind})",
            example(column, place),
            "convert one of the two",
        )
    return column


def _whole(column: pa.ChunkedArray, place: ColumnPlace) -> pa.ChunkedArray:
    """Whole floats as int64: what pandas makes of integers with gaps."""
    values = column.cast(pa.float64()).to_numpy()
    gaps = np.isnan(values)
    with np.errstate(invalid="ignore"):
        wrong = ~gaps & ~((np.abs(values) <= EXACT) & (values == np.round(values)))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise place.error(
            "must hold whole numbers below 2**53 to be labels",
            f"{values[row]:g} at {place.row(row)}",
            "store the labels as integers or text",
        )
    return pa.chunked_array([pa.array(np.where(gaps, 0, values).astype(np.int64), mask=gaps)])


def flags(column: pa.ChunkedArray, place: ColumnPlace) -> NDArray[np.bool_]:
    """True and false, or 1 and 0, as Booleans; anything else is refused with its row."""
    column = unwrapped(column, place)
    reject_missing(column, place)
    if pa.types.is_boolean(column.type):
        return to_numpy(column)
    rule, remedy = "must be true/false or 0/1", "write it as a Boolean column"
    if not is_number(column.type):
        raise place.error(rule, example(column, place), remedy)
    values = floats(column, place, exact=False)
    wrong = ~((values == 0) | (values == 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise place.error(rule, f"{values[row]:g} at {place.row(row)}", remedy)
    return values == 1


def identities(column: pa.ChunkedArray, place: ColumnPlace) -> Encoded:
    """Codes of ids in order of first appearance, and the ids."""
    if pa.types.is_dictionary(column.type) and is_text(column.type.value_type):
        coded = _encoded(column, place, None)
        again = pa.array(coded.codes).dictionary_encode()
        return Encoded(again.indices.to_numpy(), coded.values.take(again.dictionary))
    column = unwrapped(column, place)
    reject_missing(column, place)
    if pa.types.is_floating(column.type):
        column = _whole(column, place)
        reject_missing(column, place)
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        raise place.error("must hold one id per row", f"type {column.type}", "name a column of numbers or text")
    if pa.types.is_interval(column.type):
        raise place.error("must hold ids", example(column, place), "name a column of numbers or text")
    if pa.types.is_int64(column.type):
        dense = _dense(to_numpy(column))
        if dense is not None and (dense.codes[1:] >= dense.codes[:-1]).all():
            return dense
    whole = column.dictionary_encode().combine_chunks()
    return Encoded(whole.indices.to_numpy(), whole.dictionary)


def times(column: pa.ChunkedArray, place: ColumnPlace) -> NDArray[Any]:
    """Sortable times: int64 (exact, for integers, dates and timestamps) or float64."""
    column = unwrapped(column, place)
    if is_text(column.type):
        column = as_times(column) or column
    kind, types = column.type, pa.types
    clock = types.is_time(kind) or types.is_interval(kind)
    if clock or not (is_number(kind) or types.is_temporal(kind)):
        nearly = nearly_times(column, in_any_order=False) if is_plain_text(kind) else None
        if nearly is not None:
            raise place.error(*nearly.complain(place.row(nearly.wrong)))
        remedy = (
            "write times as 2024-01-31 14:00:00 or as numbers" if is_text(kind) else "give numbers, dates or timestamps"
        )
        raise place.error("must hold times that can be subtracted", example(column, place), remedy)
    reject_missing(column, place)
    if types.is_uint64(kind):
        return (to_numpy(column) ^ np.uint64(1 << 63)).view(np.int64)  # keeps the order and every difference
    if types.is_date32(kind):
        column = column.cast(pa.int32())
    if types.is_integer(kind) or types.is_temporal(kind):
        return to_numpy(column.cast(pa.int64()))
    values = floats(column, place, exact=False).astype(np.float64, copy=False)
    reject_unusable(values, place, np.finfo(np.float64).max)
    return values
