"""Columns in, transitions out: convert, order, find successors, check, and say what was done."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cesaro.checks import LARGEST, SMALLEST
from cesaro.data import columns as numbers
from cesaro.data import labels
from cesaro.data.account import Tally, account, reject_empty, reject_nothing_left
from cesaro.data.blocks import Array, Parts, Rows
from cesaro.data.bounds import reject_width
from cesaro.data.columns import (
    ColumnPlace,
    Written,
    basic_type,
    first_true,
    is_list,
    is_text,
    reject_missing,
    to_complete,
    unwrapped,
)
from cesaro.data.continuing import (
    DisorderError,
    Mask,
    Ordered,
    Successors,
    find_structure,
    find_successors,
    order_rows,
    sorting,
)
from cesaro.data.gaps import cuts
from cesaro.data.role_values import NOTHING_KNOWN, Known, Pair, role_values
from cesaro.data.roles import Roles, ignored
from cesaro.data.schema import Schema, describe
from cesaro.data.settings import Settings
from cesaro.data.sources import Files, Source
from cesaro.data.values import Categories, Values
from cesaro.errors import InputError
from cesaro.text import GIVE, Sentence, Wording, argument, switch

_LARGE = 1 << 27  # bytes
_AVAILABLE = "available_"  # before the labels of actions in the names of columns of flags


@dataclass(frozen=True)
class Outline:
    """What a log is taken to be.

    Attributes:
        files: their names and rows.
        missing: counts the missing entries of a column, where the log is read in pieces.
        given: the path that the log was opened by.
        holes: places in `files` before which one was left out.
        skips: whether one was left out at all.
        written: finds an entry in the text of its file.
    """

    name: str
    roles: Roles
    kinds: Mapping[str, str]
    settings: Settings
    schema: Schema
    files: Files
    missing: Callable[[str], int] | None = None
    given: str | None = None
    holes: tuple[int, ...] = ()
    skips: bool = False
    written: Written | None = None

    @property
    def has_next(self) -> bool:
        return self.roles.next_observation is not None

    def lost(self, first: int, rows: int) -> NDArray[np.bool_]:
        """Which of some consecutive rows, in file order, stand before rows that were left out."""
        found = np.zeros(rows, dtype=np.bool_)
        if self.holes:
            starts = np.cumsum([0, *(count for _, count in self.files)])
            last = starts[list(self.holes)] - 1
            last = last[(last >= 0) & (last < starts[-1] - 1)] - first
            found[last[(last >= 0) & (last < rows)]] = True
        return found


class Whole(NamedTuple):
    """A log in memory: every row that its source holds, and what was done to them."""

    name: str
    schema: Schema
    file_rows: tuple[int, ...]
    parts: Parts
    counts: dict[str, int]
    notes: tuple[str, ...]


def assemble(
    source: Source, roles: Roles, kinds: Mapping[str, str], settings: Settings, notes: tuple[str, ...]
) -> Whole:
    """Read `source` and make transitions of its rows."""
    table, files = source.table(roles, kinds)
    reject_empty(source.name, table.num_rows)
    schema = describe(source.name, roles, table.schema, kinds, settings)
    outline = Outline(source.name, roles, kinds, settings, schema, files, holes=source.holes, written=source.written)
    rows = Assembly(outline, table)
    is_large = table.nbytes > _LARGE
    del table  # columns go one by one
    said = [*source.notes, *notes]  # what the source says once it has been read
    if is_large:
        _release()
    whole = _whole(outline, rows, said)
    if is_large:
        _release()
    return whole


def _release() -> None:
    """Give back the memory that decoding needed, which Arrow would keep beside the arrays."""
    pa.default_memory_pool().release_unused()


def _whole(outline: Outline, rows: "Assembly", notes: list[str]) -> Whole:
    settings, has_next = outline.settings, outline.has_next
    terminated, truncated = rows.flags()
    ordered = _ordered(outline, rows, terminated, truncated)
    gaps = rows.gaps(terminated, truncated) if settings.drop_incomplete else {}
    order = ordered.order
    if order is not None:
        repeated = rows.rows - len(order)
        if repeated:
            what = "1 row that repeats another" if repeated == 1 else f"{repeated:,} rows that repeat others"
            notes.append(f"Left out {what} of the same trajectory and time.")
            rows.rows = len(order)
        terminated = None if terminated is None else terminated[order]
        truncated = None if truncated is None else truncated[order]
    if order is not None and (order[1:] < order[:-1]).any():
        roles = outline.roles
        by = "trajectory" if roles.time is None else "time" if roles.trajectory is None else "(trajectory, time)"
        notes.append(f"The rows were sorted by {by}.")
    lost, tally = _lost(outline, ordered, rows.rows), Tally()
    if gaps:
        stays, behind = rows.leave_out(gaps, order)
        lost = behind if lost is None else lost[stays] | behind
        order = None if order is None else rows.renumbered(order[stays])
        ordered = Ordered(order, *(None if one is None else one[stays] for one in (ordered.trajectory, ordered.time)))
        terminated, truncated = (None if one is None else one[stays] for one in (terminated, truncated))
        tally.add_incomplete(len(stays) - rows.rows, list(gaps))
        if not rows.rows:
            reject_nothing_left(outline.name, tally, has_next, settings)
    structure = find_structure(rows.rows, ordered.trajectory, terminated, truncated, lost)
    cut = cuts(ordered.time, ordered.trajectory, structure.ends_steps, settings.gap)
    found = find_successors(structure, cut, has_next, settings)
    tally.add(structure, found)
    reject_nothing_left(outline.name, tally, has_next, settings)
    parts, _ = rows.parts(found, ordered.trajectory, order=order)
    tally.cut_actions = rows.cut_actions
    if parts.weights is not None and not parts.weights[parts.kept].any():
        raise no_weight(outline)
    return Whole(
        outline.name,
        outline.schema,
        tuple(count for _, count in outline.files) if order is None and not gaps else (rows.rows,),
        parts,
        tally.counts | {"files": len(outline.files)},
        (*notes, *account(tally, has_next, settings)),
    )


def _lost(outline: Outline, ordered: Ordered, rows: int) -> NDArray[np.bool_] | None:
    """Rows before rows that were left out; where time has reordered them, it decides what belongs together."""
    if not outline.holes or (ordered.order is not None and ordered.time is not None):
        return None
    lost = outline.lost(0, rows)
    if ordered.order is None or ordered.trajectory is None:
        return lost
    region = np.append(0, np.cumsum(lost)[:-1])[ordered.order]
    apart = (region[1:] != region[:-1]) & (ordered.trajectory[1:] == ordered.trajectory[:-1])
    return np.append(apart, False)


def _codes(column: pa.ChunkedArray, at: Rows) -> NDArray[np.int64]:
    """Equal numbers for equal entries, of some rows; what Arrow cannot compare counts as different."""
    try:
        part = column.take(at)
        part = part if pa.types.is_dictionary(part.type) else part.dictionary_encode()
        indices = part.unify_dictionaries().combine_chunks().indices.cast(pa.int64())  # before -1: they may be unsigned
        return np.asarray(indices.fill_null(-1).to_numpy(), dtype=np.int64)
    except pa.ArrowNotImplementedError:  # lists, maps and the like
        try:
            entries = column.to_pylist()
        except (pa.ArrowException, OverflowError, ValueError):  # dates beyond Python's
            return np.arange(len(at))
        return np.unique([repr(entries[row]) for row in at.tolist()], return_inverse=True)[1].astype(np.int64)


def no_weight(outline: Outline) -> InputError:
    place = ColumnPlace(outline.name, outline.roles.weight or "", outline.files)
    remedy = Sentence("leave {weight} out", weight=argument("weight"))
    return place.error("must not be zero in every row", "no positive weight", remedy)


def _ordered(outline: Outline, rows: "Assembly", terminated: Any, truncated: Any) -> Ordered:
    ended = terminated
    if truncated is not None:
        ended = truncated if ended is None else ended | truncated
    ids, time = rows.ids(), rows.time()
    codes = None if ids is None else ids.codes
    first = None
    if outline.settings.drop_duplicates and time is not None:
        first = rows.first_of_equals(codes, time, ended)
    try:
        if first is None or time is None:
            return order_rows(codes, time, ended)
        found = order_rows(
            None if codes is None else codes[first], time[first], None if ended is None else ended[first]
        )
        return replace(found, order=first if found.order is None else first[found.order])
    except DisorderError as error:
        once = rows.first_of_equals(codes, time, ended) if first is None and time is not None else None
        are_equal = once is not None and error.rows[1] not in once
        if first is not None:
            error.rows = (int(first[error.rows[0]]), int(first[error.rows[1]]))
        raise disorder(outline, error, are_equal) from None


def disorder(outline: Outline, error: DisorderError, are_equal: bool) -> InputError:
    """Two rows of a trajectory that time cannot order; `are_equal`: whether these are one row twice."""
    place = ColumnPlace(outline.name, outline.roles.time or "", outline.files, written=outline.written)
    both = " and ".join(place.row(row) for row in error.rows)
    if error.kind == "flag":
        return place.error("must put the flagged row of an episode last", f"{both} in the other order", "sort the file")
    rule, got = "must be different in every row of a trajectory", f"the same at {both}"
    if are_equal:
        remedy = Sentence("{give} {drop}, because they are equal", give=GIVE, drop=switch("drop_duplicates"))
        return place.error(rule, got, remedy)
    remedy = Sentence(
        "{trajectory}add to the column what tells them apart, such as the hour, or {give} {file} if the file is in order",
        trajectory=""
        if outline.roles.trajectory is not None
        else Sentence(
            "{give} {trajectory} if several trajectories share times, ",
            give=GIVE,
            trajectory=Wording("trajectory=", "--trajectory COLUMN"),
        ),
        give=GIVE,
        file=Wording("no time= (time=False in cesaro.read)", "--ignore time in place of --time"),
    )
    return place.error(rule, got, remedy)


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
    """

    def __init__(
        self,
        outline: Outline,
        table: pa.Table,
        first: int = 0,
        rows: int | None = None,
        known: Mapping[str, Known] | None = None,
    ) -> None:
        self.outline, self.first, self._known = outline, first, known or {}
        self.rows = table.num_rows if rows is None else rows
        self.cut_actions: int | None = None
        self._columns = {name: table[name] for name in table.column_names}
        self._kept: Rows | None = None  # of the table's rows, where others were left out
        self._uses = [column for _, columns in outline.roles.items() for column in columns]

    def place(self, column: str) -> ColumnPlace:
        outline = self.outline
        missing = None if outline.missing is None else partial(outline.missing, column)
        roles = outline.roles
        structural = (roles.trajectory, roles.time, roles.terminated, roles.truncated)
        return ColumnPlace(
            outline.name,
            column,
            outline.files,
            first=self.first,
            missing=missing,
            kept=self._kept,
            is_droppable=column not in structural,
            written=outline.written,
        )

    def column(self, name: str) -> pa.ChunkedArray:
        """A column's data; let go of at the last use, so that at most one column is in memory twice."""
        self._uses.remove(name)
        return self._columns[name] if name in self._uses else self._columns.pop(name)

    def flags(self) -> tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None]:
        """Terminated and truncated."""
        roles = self.outline.roles
        return self._optional(roles.terminated, labels.flags), self._optional(roles.truncated, labels.flags)

    def ids(self) -> labels.Encoded | None:
        """Of trajectories."""
        found: labels.Encoded | None = self._optional(self.outline.roles.trajectory, labels.identities)
        return found

    def time(self) -> NDArray[Any] | None:
        """None also where the column was not read."""
        column = self.outline.roles.time
        found: NDArray[Any] | None = self._optional(column if column in self._columns else None, labels.times)
        return found

    def first_of_equals(
        self, codes: NDArray[Any] | None, time: NDArray[Any], ended: NDArray[np.bool_] | None
    ) -> Rows | None:
        """Rows without those that agree with an earlier one in trajectory, time and every column in use; None: there are none."""
        order = sorting(codes, time)
        same = time[order[1:]] == time[order[:-1]]
        if codes is not None:
            same &= codes[order[1:]] == codes[order[:-1]]
        if not same.any():
            return None
        group = np.append(0, np.cumsum(~same))
        shared = np.append(same, False) | np.append(False, same)
        at, group = order[shared], group[shared]
        keys = [
            group,
            *([] if ended is None else [ended[at]]),
            *(_codes(self._columns[name], at) for name in self._columns),
        ]
        found = np.lexsort((at, *keys))
        equal = np.ones(len(at) - 1, dtype=np.bool_)
        for key in keys:
            equal &= key[found[1:]] == key[found[:-1]]
        again = at[found[1:][equal]]
        return np.delete(np.arange(len(time)), again) if len(again) else None

    def gaps(self, terminated: Mask | None, truncated: Mask | None) -> dict[str, Mask]:
        """Per column the rows of the table whose entry is missing, also as NaN; only columns that have such rows.

        What follows the end of an episode may be missing where no transition needs it.
        """
        roles, settings = self.outline.roles, self.outline.settings
        values = (*roles.observation.columns, *roles.action.columns)
        single = [roles.reward, *([] if roles.weight is None else [roles.weight])]
        found = {name: self._gaps(name) for name in (*values, *single)}
        if roles.available is not None:
            found |= {name: self._gaps(name, within=False) for name in roles.available.columns}
        if roles.next_observation is not None:
            unused = np.zeros(self.rows, dtype=np.bool_)
            for ended, rule in ((terminated, settings.on_termination), (truncated, settings.on_truncation)):
                if ended is not None and rule != "keep":
                    unused |= ended
            found |= {name: self._gaps(name) & ~unused for name in roles.next_observation.columns}
        return {name: mask for name, mask in found.items() if mask.any()}

    def _gaps(self, name: str, *, within: bool = True) -> Mask:
        place = self.place(name)
        column = unwrapped(self._columns[name], place)
        if within and is_list(column.type) and column.null_count < len(column):
            return np.isnan(numbers.vectors(column, place, missing=True)).any(axis=1)
        return pc.is_null(column, nan_is_null=True).to_numpy()

    def leave_out(self, gaps: Mapping[str, Mask], order: Rows | None) -> tuple[Mask, Mask]:
        """Leave out the rows that have gaps.

        A reward that is logged a row late belongs to the row before, so that its own row stays where only it is missing.

        Returns:
            Which rows stay, and which of those lost what the row behind them would tell, both in the order of the rows.
        """
        late = self.outline.roles.reward if self.outline.settings.reward_lag else None
        every = len(next(iter(gaps.values())))
        incomplete = np.zeros(every, dtype=np.bool_)
        for name, mask in gaps.items():
            if name != late:
                incomplete |= mask
        untold = incomplete if late is None or late not in gaps else incomplete | gaps[late]
        at = slice(None) if order is None else order
        stays = ~incomplete[at]
        behind = np.roll(untold[at], -1)[stays]  # after the last row comes the first
        self._kept = np.flatnonzero(~incomplete)
        self._columns = {name: column.filter(pa.array(~incomplete)) for name, column in self._columns.items()}
        self.rows = len(behind)
        return stays, behind

    def renumbered(self, rows: Rows) -> Rows:
        """Rows of the table as they are counted without those that were left out."""
        return rows if self._kept is None else np.searchsorted(self._kept, rows)

    def parts(
        self, found: Successors, trajectory: NDArray[Any] | None, goes_on: bool = False, order: Rows | None = None
    ) -> tuple[Parts, bool]:
        """The rows as transitions, and whether the row below goes on from the last one.

        Args:
            goes_on: whether the first row goes on from the row before.
            order: sorts the rows; None: as they are.
        """
        kept = np.flatnonzero(found.keep)
        rewards = self._rewards(order, kept)
        if self.outline.settings.cost:
            rewards = 0.0 - rewards  # a cost of zero is a reward of zero, not of minus zero
        weights = self._weights(order)
        observations, next_values = self._observations(order, found)
        actions, available = self._actions(order)
        linked = found.linked
        if next_values is not None and len(found.compared):
            below = observations.take(found.compared + 1)
            linked[found.compared] = next_values.take(found.compared).equals(below)
        _freeze(observations, next_values, actions)
        follows = np.append(goes_on, linked[:-1])[kept]
        parts = Parts(
            observations, next_values, actions, rewards, weights, trajectory, available, found.restarts, kept, follows
        )
        return parts, bool(linked[-1])

    def _optional(self, column: str | None, reader: Callable[[pa.ChunkedArray, ColumnPlace], Any]) -> Any:
        return None if column is None else reader(self._single(column), self.place(column))

    def _single(self, name: str) -> pa.ChunkedArray:
        """A column of a role that has one entry per row; arrays `[n, 1]` are taken as `[n]`."""
        column = self.column(name)
        if pa.types.is_fixed_size_list(column.type) and column.type.list_size == 1 and not column.null_count:
            column = pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
        return column

    def _rewards(self, order: Rows | None, kept: Rows) -> Array:
        """Per row its reward; with a lag the entry of the next row, and only those that are used must be there."""
        lag = self.outline.settings.reward_lag
        place = self.place(self.outline.roles.reward)
        raw = numbers.floats(self._single(place.column), place, missing=lag > 0, exact=False)
        raw = raw.astype(np.float64, copy=False)
        if not lag:
            numbers.reject_unusable(raw, place)
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

    def _weights(self, order: Rows | None) -> Array | None:
        if self.outline.roles.weight is None:
            return None
        place = self.place(self.outline.roles.weight)
        weights = numbers.floats(self._single(place.column), place, exact=False).astype(np.float64, copy=False)
        numbers.reject_unusable(weights, place)
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
        names, then = self.outline.roles.observation.columns, self.outline.roles.next_observation
        together = [(name,) for name in names] if then is None else list(zip(names, then.columns))
        return [[(self.column(own), self.place(own)) for own in pair] for pair in together]

    def _observations(self, order: Rows | None, found: Successors) -> tuple[Values, Values | None]:
        role = self.outline.schema.observation
        asked = [name in self.outline.kinds for name in role.columns]
        known = self._known.get("observation", NOTHING_KNOWN)
        pairs = self._observation_pairs()
        if not self.outline.has_next:
            return role_values(role, pairs, asked, order, known=known)[0], None
        wanted = found.keep.copy()
        wanted[found.restarts] = False
        needed = np.zeros(len(pairs[0][0][0]), dtype=np.bool_)
        needed[slice(self.rows) if order is None else order] = wanted
        now, after = role_values(role, pairs, asked, order, needed, known)
        return now, after

    def actions(self, order: Rows | None = None) -> Values:
        """Of every row of the table, cut where the settings have bounds; `order`: the rows that count as cut."""
        role, bounds = self.outline.schema.action, self.outline.settings.action_bounds
        pairs: list[Pair] = [[(self.column(name), self.place(name))] for name in role.columns]
        asked = [name in self.outline.kinds for name in role.columns]
        actions = role_values(role, pairs, asked, None, known=self._known.get("action", NOTHING_KNOWN))[0]
        logged = actions.columns[0]
        if bounds is None or isinstance(logged, Categories):
            return actions
        reject_width(self.outline.name, bounds, 1 if logged.ndim == 1 else logged.shape[1])
        cut = bounds.cut(logged)
        changed = (cut != logged).reshape(len(logged), -1).any(axis=1)
        self.cut_actions = int(np.count_nonzero(changed[slice(self.rows) if order is None else order]))
        return Values(actions.form, actions.names, (cut,))

    def _actions(self, order: Rows | None) -> tuple[Values, NDArray[np.bool_] | None]:
        outline, actions = self.outline, self.actions(order)
        available = None
        if outline.roles.available is not None:
            labelled = actions.columns[0]
            if not isinstance(labelled, Categories):
                raise InputError(
                    Sentence(
                        "{log}: available must come with actions that are labels. Got numbers; {give} {ignored}, or {kinds} if "
                        "the actions are labels.",
                        log=outline.name,
                        give=GIVE,
                        ignored=ignored(["available"]),
                        kinds=Wording("kinds=", "--kind"),
                    )
                )
            names = outline.roles.available.columns
            columns = [self.column(name) for name in names]
            available = available_actions(columns, [self.place(name) for name in names], labelled)
        if order is None:
            return actions, available
        return actions.take(order), None if available is None else available[order]


def _freeze(*roles: Values | None) -> None:
    """Read-only: feature maps and policies see these arrays."""
    for column in (column for values in roles if values is not None for column in values.columns):
        (column.codes if isinstance(column, Categories) else column).flags.writeable = False


def available_actions(
    columns: Sequence[pa.ChunkedArray], places: Sequence[ColumnPlace], actions: Categories
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
    position = {_text(level): i for i, level in enumerate(levels)}
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


def _text(label: Any) -> str:
    return str(label)
