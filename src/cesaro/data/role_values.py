"""The columns of one role as `Values`, in row order; the next observations beside the observations."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cesaro.checks import LARGEST
from cesaro.data import columns as numbers
from cesaro.data.columns import ColumnPlace, basic_type, is_list
from cesaro.data.labels import labels
from cesaro.data.schema import SchemaRole, ambiguous
from cesaro.data.values import Categories, Column, Values
from cesaro.text import Sentence

_STACKED = 4096  # rows at a time when columns become rows, so that both stay in the cache


class Known(NamedTuple):
    """What the whole log tells of its columns: the levels of labels and the lengths of lists."""

    levels: Mapping[str, NDArray[Any]]
    widths: Mapping[str, int]


NOTHING_KNOWN = Known({}, {})
Pair = Sequence[tuple[pa.ChunkedArray, ColumnPlace]]  # a column and, where there is one, its next column


def role_values(
    role: SchemaRole,
    pairs: list[Pair],
    asked: Sequence[bool],
    order: NDArray[np.int64] | None,
    needed: NDArray[np.bool_] | None = None,
    known: Known = NOTHING_KNOWN,
) -> list[Values]:
    """The role's values and, where every column comes with its next column, the next ones.

    Args:
        pairs: emptied on the way, so that columns are not in memory thrice where rows are reordered.
        asked: whether the caller chose the column's kind.
        needed: rows of the file whose next entries count; the others may be missing (NaN, code −1).
        known: what the whole log tells of its columns, where these are some of its rows.
    """
    assert role.form is not None
    lone = len(role.columns) == 1
    names: list[str] = []
    columns: list[list[Column]] = [[] for _ in pairs[0]]
    for name, kind, chosen in zip(role.columns, role.kinds, asked):
        for part, arrays in _checked(name, kind, pairs.pop(0), chosen, lone, needed, known):
            names.append(part)
            for target, array in zip(columns, arrays):
                target.append(array)
    if order is not None:
        pa.default_memory_pool().release_unused()
    if role.form == "vector" and np.ndim(columns[0][0]) == 1:  # else it was a column of lists
        return [Values("vector", tuple(names), (_stacked(parts, order),)) for parts in columns]
    return [Values(role.form, tuple(names), tuple(_reordered(part, order) for part in parts)) for parts in columns]


def _checked(
    name: str, kind: str, pair: Pair, chosen: bool, lone: bool, needed: NDArray[np.bool_] | None, known: Known
) -> list[tuple[str, list[Column]]]:
    converted = _converted(name, kind, pair, chosen, lone, known)
    if needed is not None:
        for _, arrays in converted:
            _reject_gaps(arrays[1], pair[1][1], needed)
    return converted


def _converted(
    name: str, kind: str, pair: Pair, chosen: bool, lone: bool, known: Known
) -> list[tuple[str, list[Column]]]:
    """One column and its next column; a list among several columns becomes one column per entry."""
    first, place = pair[0]
    listed = is_list(basic_type(first.type))
    for column, own in pair[1:]:
        if is_list(basic_type(column.type)) != listed and not pa.types.is_null(column.type):
            raise own.error(
                f'must have the form of "{name}" ({first.type})', f"type {column.type}", "write both in the same way"
            )
    if kind == "category":
        plain = [unlisted(column, own) for column, own in pair]
        codes, levels = labels(plain, [own for _, own in pair], known.levels.get(name))
        return [(name, [Categories(code, levels) for code in codes])]
    arrays: list[NDArray[Any]] = []
    for i, (column, own) in enumerate(pair):
        if listed:
            width = arrays[0].shape[1] if i else known.widths.get(name)
            rule = f'must have the width of "{name}" ({width})' if i else None
            arrays.append(numbers.vectors(column, own, missing=i > 0, width=width, rule=rule))
        else:
            arrays.append(numbers.floats(column, own, missing=i > 0))
    numbers.reject_unusable(arrays[0], place)
    for (_, own), array in zip(pair[1:], arrays[1:]):
        if array.shape != arrays[0].shape:
            got = f"{array.shape[1]} entries per row"
            raise own.error(
                f'must have the width of "{name}" ({arrays[0].shape[1]})', got, "write both in the same way"
            )
    with np.errstate(over="ignore"):
        arrays = [array.astype(arrays[0].dtype, copy=False) for array in arrays]
    if not listed:
        return [(name, list(arrays))]
    inner = basic_type(basic_type(first.type).value_type)
    if (
        lone
        and not chosen
        and arrays[0].shape[1] == 1
        and not (pa.types.is_floating(inner) or pa.types.is_decimal(inner))
    ):
        raise ambiguous(place.log, name, f"lists of one entry of type {inner}")
    if lone:
        return [(name, list(arrays))]
    return [(f"{name}_{j}", [array[:, j] for array in arrays]) for j in range(arrays[0].shape[1])]


def _reject_gaps(column: Column, place: ColumnPlace, needed: NDArray[np.bool_]) -> None:
    wrong = column.codes < 0 if isinstance(column, Categories) else numbers.unusable_rows(column)
    if wrong is not None and (wrong & needed).any():
        raise place.error(
            f"must not have missing or infinite entries, or any over {LARGEST:g} in size, where a transition needs them",
            f"one at {place.row(int(np.argmax(wrong & needed)))}",
            Sentence("{complete}, or flag the end of the episode", complete=numbers.to_complete(1, place.is_droppable)),
        )


def unlisted(column: pa.ChunkedArray, place: ColumnPlace) -> pa.ChunkedArray:
    """Labels out of lists of one entry; other columns as they are."""
    if not is_list(basic_type(column.type)):
        return column
    column = numbers.unwrapped(column, place)
    numbers.reject_missing(column, place)
    rule = "must have one entry per row to hold labels"
    width = numbers.list_width(column, place, 1, rule)
    if width != 1:
        raise place.error(rule, f"{width}", "split it into one column per entry")
    return pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)


def _reordered(column: Column, order: NDArray[np.int64] | None) -> Column:
    if isinstance(column, Categories):
        return Categories(column.codes if order is None else column.codes[order], column.levels)
    return np.ascontiguousarray(column if order is None else column[order])


def _stacked(columns: Sequence[Column], order: NDArray[np.int64] | None) -> NDArray[Any]:
    arrays = [column for column in columns if not isinstance(column, Categories)]
    result = np.empty((len(arrays[0]), len(arrays)), dtype=np.result_type(*arrays))
    for start in range(0, len(result), _STACKED):
        stop = start + _STACKED
        rows = slice(start, stop) if order is None else order[start:stop]
        for j, array in enumerate(arrays):
            result[start:stop, j] = array[rows]
    return result
