"""Which actions were possible: lists of labels, a mask, or one flag column per action."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cesaro.data.columns import Place, basic_type, first_true, is_list, is_text, reject_missing, unwrapped
from cesaro.data.labels import flags
from cesaro.data.values import Categories

PREFIX = "available_"


def available_actions(
    columns: Sequence[pa.ChunkedArray], places: Sequence[Place], actions: Categories
) -> NDArray[np.bool_]:
    """`[n, A]` in the order of the action's levels; the action that was taken must be among them."""
    if len(columns) == 1 and is_list(basic_type(columns[0].type)):
        result = _from_lists(unwrapped(columns[0], places[0]), places[0], actions.levels)
    else:
        result = _from_flags(columns, places, actions.levels)
    taken = result[np.arange(len(result)), actions.codes]
    if not taken.all():
        row = int(np.argmin(taken))
        label = actions.levels[actions.codes[row]]
        raise places[0].error(
            "must include the action that was taken",
            f"{_text(label)} taken but not available at {places[0].row(row)}",
            "correct that row",
        )
    return result


def _from_lists(column: pa.ChunkedArray, place: Place, levels: NDArray[Any]) -> NDArray[np.bool_]:
    reject_missing(column, place)
    result = np.zeros((len(column), len(levels)), dtype=np.bool_)
    mask = pa.types.is_boolean(basic_type(column.type.value_type)) and levels.dtype != np.bool_
    start = 0
    for chunk in column.chunks:
        entries = unwrapped(pa.chunked_array([chunk.flatten()]), place)
        rows = start + pc.list_parent_indices(chunk).to_numpy(zero_copy_only=False)
        if entries.null_count:
            row = int(rows[first_true(pc.is_null(entries))])
            raise place.error("must not have missing entries", f"one at {place.row(row)}", "remove it from the list")
        if mask:
            if len(entries) != len(chunk) * len(levels) or (np.bincount(rows - start) != len(levels)).any():
                raise place.error(
                    f"must list labels, or one flag for each of the {len(levels)} actions",
                    "lists of flags of another length",
                    "write one flag per action, in the sorted order of the labels",
                )
            result[start : start + len(chunk)] = entries.to_numpy().reshape(len(chunk), -1)
        elif len(entries):
            result[rows, _positions(entries, rows, place, levels)] = True
        start += len(chunk)
    return result


def _positions(entries: pa.ChunkedArray, rows: NDArray[Any], place: Place, levels: NDArray[Any]) -> NDArray[Any]:
    """Which level each listed label is."""
    kind = pa.bool_() if levels.dtype == np.bool_ else pa.int64() if levels.dtype.kind == "i" else pa.large_string()
    found = entries.type
    is_same = {pa.bool_(): pa.types.is_boolean, pa.int64(): pa.types.is_integer, pa.large_string(): is_text}[kind]
    if not is_same(found):
        raise place.error(
            f"must list labels of the type of the action column ({kind})", f"type {found}", "convert one of the two"
        )
    try:
        positions = pc.index_in(entries.cast(kind), value_set=pa.array(levels, kind))
    except pa.ArrowException:
        raise place.error("must list actions that the log has", f"labels beyond {kind}", "correct them") from None
    if positions.null_count:
        i = first_true(pc.is_null(positions))
        raise place.error(
            "must list actions that the log has",
            f"{entries[i].as_py()!r} at {place.row(int(rows[i]))}, which no row took",
            "check its spelling or leave it out",
        )
    return positions.to_numpy()


def _from_flags(columns: Sequence[pa.ChunkedArray], places: Sequence[Place], levels: NDArray[Any]) -> NDArray[np.bool_]:
    position = {_text(level): i for i, level in enumerate(levels)}
    result = np.zeros((len(columns[0]), len(levels)), dtype=np.bool_)
    for column, place in zip(columns, places):
        label = place.column.removeprefix(PREFIX)
        if not place.column.startswith(PREFIX) or label not in position:
            raise place.error(
                f"must hold lists of labels, or be named {PREFIX}<action> and hold flags",
                f"no action {label!r} in the log",
                f"choose among {', '.join(list(position)[:20])}",
            )
        result[:, position.pop(label)] = flags(column, place)
    if position:
        lost = next(iter(position))
        raise places[0].error("must come with a column for every action", f"none for {lost}", f"add {PREFIX}{lost}")
    return result


def _text(label: Any) -> str:
    return str(label)
