"""Columns in, transitions out: convert some rows of a log, check them, and join each with its successor.

An `Assembly` holds the columns of all rows of a log, or of a window of it; `transitions.py` and `streamed.py` say in which order
rows come and which of them are kept.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cesaro.checks import LARGEST, SMALLEST
from cesaro.data import labels
from cesaro.data.blocks import Array, AssembledRows, Integers
from cesaro.data.columns import (
    ColumnPlace,
    basic_type,
    first_true,
    floats,
    is_list,
    is_text,
    list_width,
    reject_missing,
    reject_unusable,
    to_complete,
    unusable_rows,
    unwrapped,
    vectors,
)
from cesaro.data.continuing import DisorderError, Successors
from cesaro.data.log import Origin
from cesaro.data.roles import Schema, SchemaRole, ambiguous, ignored
from cesaro.data.settings import reject_width
from cesaro.data.sources.base import Files
from cesaro.data.values import Categories, Column, Values
from cesaro.errors import InputError
from cesaro.text import GIVE, Sentence, Wording, argument, switch

_STACKED = 4096  # rows at a time when columns become rows, so that both stay in the cache
_AVAILABLE = "available_"  # before the labels of actions in the names of columns of flags


@dataclass(frozen=True)
class Outline:
    """A log whose types and rows are known, for messages and for the conversion of its rows.

    Attributes:
        files: their names and rows.
        missing: counts the missing entries of a column, where the log is read in windows.
    """

    origin: Origin
    schema: Schema
    files: Files
    missing: Callable[[str], int] | None = None

    @property
    def has_next(self) -> bool:
        """Whether next observations have columns of their own."""
        return self.origin.roles.next_observation is not None

    def place(self, column: str) -> ColumnPlace:
        """A column of the whole log, for messages."""
        source = self.origin.source
        return ColumnPlace(source.name, column, self.files, written=source.written)

    def lost(self, first: int, rows: int) -> NDArray[np.bool_]:
        """Which of some consecutive rows, in file order, stand before rows that were left out."""
        found = np.zeros(rows, dtype=np.bool_)
        last = self._before_holes - first
        found[last[(last >= 0) & (last < rows)]] = True
        return found

    @cached_property
    def _before_holes(self) -> Integers:
        """The last row before every file that was left out, where rows are on both sides."""
        starts = np.cumsum([0, *(count for _, count in self.files)])
        last = starts[list(self.origin.source.holes)] - 1
        return last[(last >= 0) & (last < starts[-1] - 1)]

    def no_weight(self) -> InputError:
        """The error of a log no row of which counts."""
        remedy = Sentence("leave {weight} out", weight=argument("weight"))
        place = self.place(self.origin.roles.weight or "")
        return place.error("must not be zero in every row", "no positive weight", remedy)

    def disorder(self, error: DisorderError, are_equal: bool) -> InputError:
        """Two rows of a trajectory that time cannot order; `are_equal`: whether these are one row twice."""
        place = self.place(self.origin.roles.time or "")
        both = " and ".join(place.row(row) for row in error.rows)
        if error.kind == "flag":
            return place.error(
                "must put the flagged row of an episode last", f"{both} in the other order", "sort the file"
            )
        rule, got = "must be different in every row of a trajectory", f"the same at {both}"
        if are_equal:
            remedy = Sentence("{give} {drop}, because they are equal", give=GIVE, drop=switch("drop_duplicates"))
            return place.error(rule, got, remedy)
        remedy = Sentence(
            "{trajectory}add to the column what tells them apart, such as the hour, or {give} {file} if the file is in order",
            trajectory=""
            if self.origin.roles.trajectory is not None
            else Sentence(
                "{give} {trajectory} if several trajectories share times, ",
                give=GIVE,
                trajectory=Wording("trajectory=", "--trajectory COLUMN"),
            ),
            give=GIVE,
            file=Wording("no time= (time=False in cesaro.read)", "--ignore time in place of --time"),
        )
        return place.error(rule, got, remedy)


class KnownColumns(NamedTuple):
    """The levels of labels and the lengths of lists, by column, where the whole log has told them before."""

    levels: Mapping[str, NDArray[Any]]
    widths: Mapping[str, int]


NOTHING_KNOWN = KnownColumns({}, {})
Pair = Sequence[tuple[pa.ChunkedArray, ColumnPlace]]  # a column and, where there is one, its next column


class Assembly:
    """Consecutive rows of a log on their way from columns to transitions.

    Args:
        table: the columns of these rows; where they are some of a larger log, with the row below them as one row more (the
            log's first one below its last).
        first: the row of the log that they begin with.
        rows: how many they are; None: all that the table has.
        known: what the whole log tells of the columns of a role.

    Attributes:
        cut_actions: rows whose action was cut, once they have been read; None where the settings have no bounds.
        by_column: whether vectors lie in memory column by column, as passes over rows that are read again and again want them.
    """

    by_column = False

    def __init__(
        self,
        outline: Outline,
        table: pa.Table,
        first: int = 0,
        rows: int | None = None,
        known: Mapping[str, KnownColumns] | None = None,
    ) -> None:
        self.outline, self.first, self._known = outline, first, known or {}
        self._roles, self._settings = outline.origin.roles, outline.origin.settings
        self.rows = table.num_rows if rows is None else rows
        self.cut_actions: int | None = None
        self._columns = {name: table[name] for name in table.column_names}
        self._kept: Integers | None = None  # of the table's rows, where others were left out
        self._uses = [column for _, columns in self._roles.items() for column in columns]

    def place(self, column: str) -> ColumnPlace:
        """A column of these rows, for messages."""
        missing = self.outline.missing
        return replace(
            self.outline.place(column),
            first=self.first,
            missing=None if missing is None else partial(missing, column),
            of=None if self._kept is None else self._kept.__getitem__,
            is_droppable=column not in self._roles.structural,
        )

    def column(self, name: str) -> pa.ChunkedArray:
        """A column's data; let go of at the last use, so that at most one column is in memory twice."""
        self._uses.remove(name)
        return self._columns[name] if name in self._uses else self._columns.pop(name)

    def flags(self) -> tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None]:
        """The flags `terminated` and `truncated`."""
        roles = self._roles
        return self._optional(roles.terminated, labels.flags), self._optional(roles.truncated, labels.flags)

    def ids(self) -> labels.Encoded | None:
        """The ids of trajectories."""
        found: labels.Encoded | None = self._optional(self._roles.trajectory, labels.identities)
        return found

    def time(self) -> NDArray[Any] | None:
        """The times; None also where the column was not read."""
        column = self._roles.time
        found: NDArray[Any] | None = self._optional(column if column in self._columns else None, labels.times)
        return found

    def assembled(
        self, found: Successors, trajectory: NDArray[Any] | None, goes_on: bool = False, order: Integers | None = None
    ) -> tuple[AssembledRows, bool]:
        """The rows as transitions, and whether the row below goes on from the last one.

        Args:
            goes_on: whether the first row goes on from the row before.
            order: sorts the rows; None: as they are.
        """
        kept = np.flatnonzero(found.keep)
        rewards = self._rewards(order, kept)
        if self._settings.cost:
            rewards = 0.0 - rewards  # a cost of zero is a reward of zero, not of minus zero
        weights = self._weights(order)
        observations, next_values = self._observations(order, found)
        actions, available = self._actions(order)
        linked = found.linked
        if next_values is not None and len(found.compared):
            below = observations.take(found.compared + 1)
            linked[found.compared] = next_values.take(found.compared).equals(below)
        for values in (observations, next_values, actions):
            if values is not None:
                values.freeze()
        follows = np.append(goes_on, linked[:-1])[kept]
        rows = AssembledRows(
            observations, next_values, actions, rewards, weights, trajectory, available, found.restarts, kept, follows
        )
        return rows, bool(linked[-1])

    def _optional(self, column: str | None, reader: Callable[[pa.ChunkedArray, ColumnPlace], Any]) -> Any:
        return None if column is None else reader(self._single(column), self.place(column))

    def _single(self, name: str) -> pa.ChunkedArray:
        """A column of a role that has one entry per row; arrays `[n, 1]` are taken as `[n]`."""
        column = self.column(name)
        if pa.types.is_fixed_size_list(column.type) and column.type.list_size == 1 and not column.null_count:
            column = pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
        return column

    def _rewards(self, order: Integers | None, kept: Integers) -> Array:
        """Per row its reward; with a lag the entry of the next row, and only those that are used must be there."""
        lag = self._settings.reward_lag
        place = self.place(self._roles.reward)
        raw = floats(self._single(place.column), place, missing=lag > 0, exact=False)
        raw = raw.astype(np.float64, copy=False)
        if not lag:
            reject_unusable(raw, place)
            return raw if order is None else raw[order]
        rewards = np.append((raw if order is None else raw[order])[1:], np.nan)
        wrong = ~(np.abs(rewards[kept]) <= LARGEST)
        if wrong.any():
            row = int(kept[np.argmax(wrong)]) + lag
            raise place.error(
                f"must be finite and at most {LARGEST:g} in size where a transition needs it",
                f"{rewards[row - lag]} at {place.row(row if order is None else int(order[row]))}",
                to_complete(1, is_droppable=True),
            )
        return rewards

    def _weights(self, order: Integers | None) -> Array | None:
        if self._roles.weight is None:
            return None
        place = self.place(self._roles.weight)
        weights = floats(self._single(place.column), place, exact=False).astype(np.float64, copy=False)
        reject_unusable(weights, place)
        if (weights < 0).any():
            row = int(np.argmax(weights < 0))
            got = f"{weights[row]:g} at {place.row(row)}"
            raise place.error("must not be negative", got, "give weight 0 to rows that should not count")
        tiny = (weights > 0) & (weights < SMALLEST)
        if tiny.any():
            row = int(np.argmax(tiny))
            rule = f"must be 0 or at least {SMALLEST:g}, so that no product is lost"
            got = f"{weights[row]:g} at {place.row(row)}"
            raise place.error(rule, got, "multiply all weights (only their ratios matter), or give that row weight 0")
        return weights if order is None else weights[order]

    def _observation_pairs(self) -> list[Pair]:
        """Every observation column with its next column, where there are such."""
        names, then = self._roles.observation.columns, self._roles.next_observation
        together = [(name,) for name in names] if then is None else list(zip(names, then.columns))
        return [[(self.column(own), self.place(own)) for own in pair] for pair in together]

    def _observations(self, order: Integers | None, found: Successors) -> tuple[Values, Values | None]:
        role = self.outline.schema.observation
        asked = [name in self.outline.origin.kinds for name in role.columns]
        known = self._known.get("observation", NOTHING_KNOWN)
        pairs = self._observation_pairs()
        if not self.outline.has_next:
            return role_values(role, pairs, asked, order, known=known, by_column=self.by_column)[0], None
        wanted = found.keep.copy()
        wanted[found.restarts] = False
        needed = np.zeros(len(pairs[0][0][0]), dtype=np.bool_)
        needed[slice(self.rows) if order is None else order] = wanted
        now, after = role_values(role, pairs, asked, order, needed, known, self.by_column)
        return now, after

    def actions(self, order: Integers | None = None) -> Values:
        """The actions of the table, cut where the settings have bounds; `order`: the rows that are counted where they are cut."""
        role, bounds = self.outline.schema.action, self._settings.action_bounds
        pairs: list[Pair] = [[(self.column(name), self.place(name))] for name in role.columns]
        asked = [name in self.outline.origin.kinds for name in role.columns]
        known = self._known.get("action", NOTHING_KNOWN)
        actions = role_values(role, pairs, asked, None, known=known, by_column=self.by_column)[0]
        logged = actions.columns[0]
        if bounds is None or isinstance(logged, Categories):
            return actions
        reject_width(self.outline.origin.source.name, bounds, 1 if logged.ndim == 1 else logged.shape[1])
        cut = bounds.cut(logged)
        changed = (cut != logged).reshape(len(logged), -1).any(axis=1)
        self.cut_actions = int(np.count_nonzero(changed[slice(self.rows) if order is None else order]))
        return Values(actions.form, actions.names, (cut,))

    def _actions(self, order: Integers | None) -> tuple[Values, NDArray[np.bool_] | None]:
        actions, chosen = self.actions(order), self._roles.available
        available = None
        if chosen is not None:
            labelled = actions.columns[0]
            if not isinstance(labelled, Categories):
                raise InputError.of(
                    "{log}: available must come with actions that are labels. Got numbers; {give} {ignored}, or {kinds} if "
                    "the actions are labels.",
                    log=self.outline.origin.source.name,
                    ignored=ignored(["available"]),
                    kinds=Wording("kinds=", "--kind"),
                )
            columns = [self.column(name) for name in chosen.columns]
            available = available_actions(columns, [self.place(name) for name in chosen.columns], labelled)
        if order is None:
            return actions, available
        return actions.take(order), None if available is None else available[order]


def role_values(
    role: SchemaRole,
    pairs: list[Pair],
    asked: Sequence[bool],
    order: NDArray[np.int64] | None,
    needed: NDArray[np.bool_] | None = None,
    known: KnownColumns = NOTHING_KNOWN,
    by_column: bool = False,
) -> list[Values]:
    """The role's values and, where every column comes with its next column, the next ones.

    Args:
        pairs: emptied on the way, so that columns are not in memory thrice where rows are reordered.
        asked: whether the caller chose the column's kind.
        needed: rows of the file whose next entries count; the others may be missing (NaN, code −1).
        known: what the whole log tells of its columns, where these are some of its rows.
        by_column: whether the columns of a vector stay one after the other in memory.
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
        return [Values("vector", tuple(names), (_stacked(parts, order, by_column),)) for parts in columns]
    return [Values(role.form, tuple(names), tuple(_reordered(part, order) for part in parts)) for parts in columns]


def _checked(
    name: str, kind: str, pair: Pair, chosen: bool, lone: bool, needed: NDArray[np.bool_] | None, known: KnownColumns
) -> list[tuple[str, list[Column]]]:
    converted = _converted(name, kind, pair, chosen, lone, known)
    if needed is not None:
        for _, arrays in converted:
            _reject_gaps(arrays[1], pair[1][1], needed)
    return converted


def _converted(
    name: str, kind: str, pair: Pair, chosen: bool, lone: bool, known: KnownColumns
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
        codes, levels = labels.labels(plain, [own for _, own in pair], known.levels.get(name))
        return [(name, [Categories(code, levels) for code in codes])]
    arrays: list[NDArray[Any]] = []
    for i, (column, own) in enumerate(pair):
        if listed:
            width = arrays[0].shape[1] if i else known.widths.get(name)
            rule = f'must have the width of "{name}" ({width})' if i else None
            arrays.append(vectors(column, own, missing=i > 0, width=width, rule=rule))
        else:
            arrays.append(floats(column, own, missing=i > 0))
    reject_unusable(arrays[0], place)
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
    wrong = column.codes < 0 if isinstance(column, Categories) else unusable_rows(column)
    if wrong is not None and (wrong & needed).any():
        raise place.error(
            f"must not have missing or infinite entries, or any over {LARGEST:g} in size, where a transition needs them",
            f"one at {place.row(int(np.argmax(wrong & needed)))}",
            Sentence("{complete}, or flag the end of the episode", complete=to_complete(1, place.is_droppable)),
        )


def unlisted(column: pa.ChunkedArray, place: ColumnPlace) -> pa.ChunkedArray:
    """Labels out of lists of one entry; other columns as they are."""
    if not is_list(basic_type(column.type)):
        return column
    column = unwrapped(column, place)
    reject_missing(column, place)
    rule = "must have one entry per row to hold labels"
    width = list_width(column, place, 1, rule)
    if width != 1:
        raise place.error(rule, f"{width}", "split it into one column per entry")
    return pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)


def _reordered(column: Column, order: NDArray[np.int64] | None) -> Column:
    if isinstance(column, Categories):
        return Categories(column.codes if order is None else column.codes[order], column.levels)
    return np.ascontiguousarray(column if order is None else column[order])


def _stacked(columns: Sequence[Column], order: NDArray[np.int64] | None, by_column: bool) -> NDArray[Any]:
    arrays = [column for column in columns if not isinstance(column, Categories)]
    if by_column and order is None:
        return np.stack(arrays).T
    result = np.empty((len(arrays[0]), len(arrays)), dtype=np.result_type(*arrays))
    for start in range(0, len(result), _STACKED):
        stop = start + _STACKED
        rows = slice(start, stop) if order is None else order[start:stop]
        for j, array in enumerate(arrays):
            result[start:stop, j] = array[rows]
    return result


def available_actions(
    columns: Sequence[pa.ChunkedArray], places: Sequence[ColumnPlace], actions: Categories
) -> NDArray[np.bool_]:
    """The actions that were possible, `[n, A]` in the order of the levels; the action that was taken must be among them."""
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
            f"{label!s} taken but not available at {places[0].row(row)}",
            "correct that row",
        )
    return result


def _from_lists(column: pa.ChunkedArray, place: ColumnPlace, levels: NDArray[Any]) -> NDArray[np.bool_]:
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


def _positions(entries: pa.ChunkedArray, rows: NDArray[Any], place: ColumnPlace, levels: NDArray[Any]) -> NDArray[Any]:
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
    except MemoryError:
        raise
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


def _from_flags(
    columns: Sequence[pa.ChunkedArray], places: Sequence[ColumnPlace], levels: NDArray[Any]
) -> NDArray[np.bool_]:
    position = {str(level): i for i, level in enumerate(levels)}
    result = np.zeros((len(columns[0]), len(levels)), dtype=np.bool_)
    for column, place in zip(columns, places):
        label = place.column.removeprefix(_AVAILABLE)
        if not place.column.startswith(_AVAILABLE) or label not in position:
            raise place.error(
                f"must hold lists of labels, or be named {_AVAILABLE}<action> and hold flags",
                f"no action {label!r} in the log",
                f"choose among {', '.join(list(position)[:20])}",
            )
        result[:, position.pop(label)] = labels.flags(column, place)
    if position:
        lost = next(iter(position))
        raise places[0].error("must come with a column for every action", f"none for {lost}", f"add {_AVAILABLE}{lost}")
    return result
