"""Transitions in memory: those of arrays or of a log that was read as a whole, and rows whose features are ready.

All rows of a log in memory are assembled at once. Beyond what a window of a log allows they can be sorted, and repeated or
incomplete rows be left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from cesaro import checks
from cesaro.data.assemble import Assembly, Outline
from cesaro.data.blocks import Array, AssembledRows, BlockLayout, Integers, narrowed, taken
from cesaro.data.columns import is_list, unwrapped, vectors
from cesaro.data.continuing import (
    DisorderError,
    Mask,
    Ordered,
    find_structure,
    find_successors,
    order_rows,
    sorting,
)
from cesaro.data.gaps import cuts
from cesaro.data.log import OpenedLog, Origin
from cesaro.data.notes import Tally, reject_empty, unused_notes
from cesaro.data.roles import RoleColumns, Roles, Schema, check_kinds, describe
from cesaro.data.settings import GAP, Settings, check_settings
from cesaro.data.sources.arrays import ArraySource
from cesaro.data.sources.base import ChangedError
from cesaro.data.values import Categories, Column, Index, Values
from cesaro.data.windows import ColumnDigests, rows_digest
from cesaro.errors import InputError

_LARGE = 1 << 27  # bytes
# Parts of one long trajectory that an excerpt has.
_PARTS = 20


class Transitions(OpenedLog):
    """Transitions `(S, A, R, S')` in memory.

    Args:
        observations: `[N]` (integers, text or true/false: discrete states; floats: one number), `[N, d]`, or a dict of
            named columns `[N]`.
        actions: `[N]` (integers, text or true/false: discrete; floats: continuous) or `[N, d]`.
        rewards: `[N]`.
        next_observations: like `observations`; None: the next row of the same trajectory.
        trajectory: ids, `[N]`; None: one trajectory, or one per episode where flags are given.
        time: numbers, dates or timestamps, `[N]`; rows are sorted by it, see `gap`. None: rows are in order.
        terminated: flags, `[N]`: the episode ended with this row by itself.
        truncated: flags, `[N]`: a time limit ended the episode with this row.
        weights: non-negative weight of each row, `[N]`.
        available: actions that were possible: per row a list of labels.
        kinds: "number" or "category" per column name ("observation" and "action" for lone ones).
        reward_lag: 1 where the reward of a row is logged on the next one.
        on_termination: "restart" (default: the next observation is the first one of the next episode), "keep", "drop".
        on_truncation: "keep" (default: the transition stays as it is), "restart", "drop".
        gap: rows are sorted by time, and a trajectory is cut where a step takes more than `gap` times its median step (that
            of all trajectories, where it has fewer than 3 steps). None: time orders the rows and never cuts, for logs whose
            steps take irregular times by nature, such as calls.
        drop_duplicates: whether rows of one trajectory and time that agree in everything else count once.
        drop_incomplete: whether rows with a missing entry are left out; the trajectory is cut there.
        action_bounds: a pair (low, high) that actions are cut to, where the system cut them and the log holds what it was asked
            for. Each is a number, or one per dimension; None on an open side.

    Example:
        >>> import numpy as np
        >>> from cesaro.data import Transitions
        >>> log = Transitions(["a", "b", "a"], [0, 1, 1], [1.0, 0.0, 2.0], terminated=[0, 0, 1])
        >>> log
        Transitions(3 transitions, 3 rows)
        >>> log.next_observations.plain().tolist()
        ['b', 'a', 'a']
    """

    is_streamed = False

    def __init__(
        self,
        observations: Any,
        actions: ArrayLike,
        rewards: ArrayLike,
        next_observations: Any = None,
        *,
        trajectory: ArrayLike | None = None,
        time: ArrayLike | None = None,
        terminated: ArrayLike | None = None,
        truncated: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        available: Any = None,
        kinds: Mapping[str, str] | None = None,
        reward_lag: int = 0,
        on_termination: str | None = None,
        on_truncation: str | None = None,
        gap: float | None = GAP,
        drop_duplicates: bool = False,
        drop_incomplete: bool = False,
        action_bounds: Any = None,
    ) -> None:
        ends = (on_termination, on_truncation)
        drops = (drop_duplicates, drop_incomplete)
        settings = check_settings("Transitions", reward_lag, *ends, gap, None, *drops, action_bounds)
        columns: dict[str, Any] = {}
        roles = Roles(
            _put(columns, "observation", observations),
            _put(columns, "action", actions),
            _put(columns, "reward", rewards).columns[0],
            None if next_observations is None else _put(columns, "next_observation", next_observations, observations),
        )
        singles = {
            "trajectory": trajectory,
            "time": time,
            "terminated": terminated,
            "truncated": truncated,
            "weight": weights,
        }
        given = {role: _put(columns, role, values).columns[0] for role, values in singles.items() if values is not None}
        chosen = None if available is None else _put(columns, "available", available)
        roles = Roles(**{**vars(roles), **given, "available": chosen})
        source = ArraySource("Transitions", columns)
        self._read(Origin(source, roles, check_kinds("Transitions", kinds, roles), settings))

    def _read(self, origin: Origin) -> None:
        whole = _whole(origin)
        self.name, self._rows = origin.source.name, whole.rows
        self._schema, self._layout = whole.schema, BlockLayout(whole.file_rows)
        self._counts, self._notes = whole.counts, whole.notes

    @property
    def observations(self) -> Values:
        """`S` of every transition."""
        return self._rows.observations.take(self._kept)

    @property
    def actions(self) -> Values:
        """`A` of every transition."""
        return self._rows.actions.take(self._kept)

    @property
    def rewards(self) -> Array:
        """`R` of every transition, `[n]`."""
        return self._rows.rewards[self._kept]

    @property
    def next_observations(self) -> Values:
        """`S'` of every transition, after restarts."""
        return self._rows.next_observations(self._kept)

    @property
    def weights(self) -> Array | None:
        """The weight of every transition, `[n]`; None: all alike."""
        return None if self._rows.weights is None else self._rows.weights[self._kept]

    @property
    def trajectory(self) -> NDArray[np.int64] | None:
        """The trajectory of every transition, `[n]`, in order of first appearance; None: there are neither ids nor flags."""
        return self._rows.codes(self._kept)

    @property
    def segment(self) -> NDArray[np.int64]:
        """The contiguous piece of every transition, `[n]`: it increases at every border, cut and dropped successor."""
        return np.cumsum(~self._rows.follows) - 1

    @property
    def available(self) -> NDArray[np.bool_] | None:
        """Which actions were possible, `[n, A]` in the order of `action_levels`; None: all, or not logged."""
        return None if self._rows.available is None else self._rows.available[self._kept]

    @property
    def _kept(self) -> Index:
        return narrowed(self._rows.kept)

    @property
    def action_levels(self) -> NDArray[Any] | None:
        column = self._rows.actions.columns[0]
        return column.levels if isinstance(column, Categories) else None

    def load(self) -> "Transitions":
        return self

    @cached_property
    def lengths(self) -> NDArray[np.int64] | None:
        codes = self.trajectory
        if codes is None:
            return None
        return np.diff(np.flatnonzero(codes[1:] != codes[:-1]) + 1, prepend=0, append=len(codes))

    @cached_property
    def _before(self) -> Integers:
        return np.searchsorted(self._rows.kept, self._layout.starts)

    def _assembled(self, blocks: Sequence[int]) -> Iterator[tuple[Sequence[int], int, AssembledRows]]:
        yield blocks, 0, self._rows

    def digests(self) -> ColumnDigests:
        return {"rows": self._digest}

    @cached_property
    def _digest(self) -> NDArray[np.uint8]:
        return rows_digest(self._rows)

    def changed_since(self, before: ColumnDigests, *, reread: bool, quiet: bool = True) -> str | None:
        return None if np.array_equal(before["rows"], self._digest) else self.name

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"origin": None}  # it may hold a frame

    def __repr__(self) -> str:
        return f"Transitions({len(self)} transitions, {self.num_rows} rows)"


def loaded(origin: Origin) -> Transitions:
    """All rows of a source in memory."""
    source, stamps = origin.source, origin.source.stamps()
    made = Transitions.__new__(Transitions)
    unused = unused_notes(source, origin.roles, origin.unused)
    made._read(replace(origin, notes=(*origin.notes, *unused)))
    for name, stamp in source.stamps().items():
        if stamp != stamps[name]:
            raise ChangedError(source.name, f"another size or modification time of {name} than before", name)
    made.origin, made.stamps = origin, stamps
    return made


def simulated(observations: Values, actions: Values, rewards: Array, trajectory: Integers) -> Transitions:
    """Rows that have the names and kinds of columns of another log; `trajectory` has ids, `[n]`."""
    columns: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    state, action = (_put_values(columns, kinds, values) for values in (observations, actions))
    reward, ids = _free(columns, "reward"), _free(columns, "trajectory")
    columns |= {reward: rewards, ids: trajectory}
    roles = Roles(state, action, reward, trajectory=ids)
    made = Transitions.__new__(Transitions)
    made._read(Origin(ArraySource("Transitions", columns), roles, kinds, Settings(gap=None)))
    return made


def excerpt(log: OpenedLog, most: int, random_state: int) -> Transitions:
    """At most so many transitions of a log, in memory: whole trajectories, chosen at random.

    Of trajectories that are longer than a part of `most` it takes such parts, which are trajectories of their own then.
    """
    lengths = np.array([len(log)]) if log.lengths is None else log.lengths
    longest, ends = most // _PARTS, np.cumsum(lengths)
    pieces = [(low, min(low + longest, end)) for end, n in zip(ends, lengths) for low in range(end - n, end, longest)]
    order = np.random.default_rng([random_state, 11]).permutation(len(pieces))
    sizes = np.diff(np.array(pieces), axis=1)[:, 0]
    chosen = np.sort(order[np.cumsum(sizes[order]) <= most])
    block = log.part(np.concatenate([np.arange(*pieces[place]) for place in chosen]))
    codes, count = np.repeat(np.arange(len(chosen)), sizes[chosen]), len(block)
    made = Transitions.__new__(Transitions)
    made.name, made._schema, made._layout = log.name, log.schema, BlockLayout((count,))
    made._counts, made._notes = {}, ()
    made._rows = AssembledRows(
        block.observations,
        block.next_observations,
        block.actions,
        block.rewards,
        block.weights,
        codes,
        block.available,
        restarts=np.empty(0, np.int64),
        kept=np.arange(count),
        follows=block.follows & (np.diff(codes, prepend=-1) == 0),
    )
    return made


class _Whole(NamedTuple):
    """All rows of a log, and what was done to them; `file_rows`: of the one file that remains where rows were moved."""

    rows: AssembledRows
    schema: Schema
    file_rows: tuple[int, ...]
    counts: dict[str, int]
    notes: tuple[str, ...]


def _whole(origin: Origin) -> _Whole:
    """Read all rows of a source and make transitions of them."""
    source = origin.source
    table, files = source.table(origin.roles, origin.kinds)
    reject_empty(source.name, table.num_rows)
    schema = describe(source.name, origin.roles, table.schema, origin.kinds, origin.settings)
    assembly = _WholeAssembly(Outline(origin, schema, files), table)
    is_large = table.nbytes > _LARGE
    del table  # columns go one by one
    if is_large:
        _release()
    whole = assembly.run()
    if is_large:
        _release()
    return whole


def _release() -> None:
    """Give back the memory that decoding needed, which Arrow would keep beside the arrays."""
    pa.default_memory_pool().release_unused()


class _WholeAssembly(Assembly):
    """All rows of a log, which may be put in order and left out."""

    def run(self) -> _Whole:
        """Order the rows, leave out what is wanted, and find the successor of every row."""
        outline, origin, settings = self.outline, self.outline.origin, self.outline.origin.settings
        notes = [*origin.source.notes, *origin.notes]
        terminated, truncated = self.flags()
        ordered = self._ordered(terminated, truncated)
        gaps = self._gaps(terminated, truncated) if settings.drop_incomplete else {}
        order, tally = ordered.order, Tally(outline.has_next, settings)
        if order is not None:
            repeated = self.rows - len(order)
            if repeated:
                what = "1 row that repeats another" if repeated == 1 else f"{repeated:,} rows that repeat others"
                notes.append(f"Left out {what} of the same trajectory and time.")
                self.rows = len(order)
            terminated, truncated = taken(terminated, order), taken(truncated, order)
            if (order[1:] < order[:-1]).any():
                notes.append(f"The rows were sorted by {_order_key(origin.roles)}.")
        lost = self._lost(ordered)
        if gaps:
            stays, behind = self._leave_out(gaps, order)
            lost = behind if lost is None else lost[stays] | behind
            order = None if order is None or self._kept is None else np.searchsorted(self._kept, order[stays])
            ordered = Ordered(order, taken(ordered.trajectory, stays), taken(ordered.time, stays))
            terminated, truncated = taken(terminated, stays), taken(truncated, stays)
            tally.add_incomplete(len(stays) - self.rows, list(gaps))
            if not self.rows:
                tally.reject_nothing_left(origin.source.name)
        structure = find_structure(self.rows, ordered.trajectory, terminated, truncated, lost)
        cut = cuts(ordered.time, ordered.trajectory, structure.ends_steps, settings.gap)
        found = find_successors(structure, cut, outline.has_next, settings)
        tally.add(structure, found)
        tally.reject_nothing_left(origin.source.name)
        rows, _ = self.assembled(found, ordered.trajectory, order=order)
        tally.cut_actions = self.cut_actions
        if rows.weights is not None and not rows.weights[rows.kept].any():
            raise outline.no_weight()
        in_file_order = order is None and not gaps
        return _Whole(
            rows,
            outline.schema,
            tuple(count for _, count in outline.files) if in_file_order else (self.rows,),
            tally.counts | {"files": len(outline.files)},
            (*notes, *tally.notes()),
        )

    def _ordered(self, terminated: Mask | None, truncated: Mask | None) -> Ordered:
        ended = terminated
        if truncated is not None:
            ended = truncated if ended is None else ended | truncated
        ids, time = self.ids(), self.time()
        codes = None if ids is None else ids.codes
        first = None
        if self._settings.drop_duplicates and time is not None:
            first = self._first_of_equals(codes, time, ended)
        try:
            if first is None:
                return order_rows(codes, time, ended)
            found = order_rows(taken(codes, first), taken(time, first), taken(ended, first))
            return replace(found, order=first if found.order is None else first[found.order])
        except DisorderError as error:
            once = self._first_of_equals(codes, time, ended) if first is None and time is not None else None
            are_equal = once is not None and error.rows[1] not in once
            if first is not None:
                error.rows = (int(first[error.rows[0]]), int(first[error.rows[1]]))
            raise self.outline.disorder(error, are_equal) from None

    def _lost(self, ordered: Ordered) -> Mask | None:
        """Rows before rows that were left out; where time has reordered them, it decides what belongs together."""
        if not self.outline.origin.source.holes or (ordered.order is not None and ordered.time is not None):
            return None
        lost = self.outline.lost(0, self.rows)
        if ordered.order is None or ordered.trajectory is None:
            return lost
        region = np.append(0, np.cumsum(lost)[:-1])[ordered.order]
        apart = (region[1:] != region[:-1]) & (ordered.trajectory[1:] == ordered.trajectory[:-1])
        return np.append(apart, False)

    def _first_of_equals(
        self, codes: NDArray[Any] | None, time: NDArray[Any], ended: NDArray[np.bool_] | None
    ) -> Integers | None:
        """All rows but those that agree with an earlier one in trajectory, time and every column in use; None: no row does."""
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

    def _gaps(self, terminated: Mask | None, truncated: Mask | None) -> dict[str, Mask]:
        """Per column the rows of the table whose entry is missing, also as NaN; only columns that have such rows.

        What follows the end of an episode may be missing where no transition needs it.
        """
        roles, settings = self._roles, self._settings
        values = (*roles.observation.columns, *roles.action.columns)
        single = [roles.reward, *([] if roles.weight is None else [roles.weight])]
        found = {name: self._gaps_of(name) for name in (*values, *single)}
        if roles.available is not None:
            found |= {name: self._gaps_of(name, within=False) for name in roles.available.columns}
        if roles.next_observation is not None:
            unused = np.zeros(self.rows, dtype=np.bool_)
            for ended, rule in ((terminated, settings.on_termination), (truncated, settings.on_truncation)):
                if ended is not None and rule != "keep":
                    unused |= ended
            found |= {name: self._gaps_of(name) & ~unused for name in roles.next_observation.columns}
        return {name: mask for name, mask in found.items() if mask.any()}

    def _gaps_of(self, name: str, *, within: bool = True) -> Mask:
        place = self.place(name)
        column = unwrapped(self._columns[name], place)
        if within and is_list(column.type) and column.null_count < len(column):
            return np.isnan(vectors(column, place, missing=True)).any(axis=1)
        return pc.is_null(column, nan_is_null=True).to_numpy()

    def _leave_out(self, gaps: Mapping[str, Mask], order: Integers | None) -> tuple[Mask, Mask]:
        """Leave out the rows that have gaps.

        A reward that is logged a row late belongs to the row before, so that its own row stays where only it is missing.

        Returns:
            Which rows stay, and which of those lost what the row behind them would tell, both in the order of the rows.
        """
        late = self._roles.reward if self._settings.reward_lag else None
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


def _order_key(roles: Roles) -> str:
    return "trajectory" if roles.time is None else "time" if roles.trajectory is None else "(trajectory, time)"


def _codes(column: pa.ChunkedArray, at: Integers) -> NDArray[np.int64]:
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


def _put(columns: dict[str, Any], role: str, values: Any, like: Any = None) -> RoleColumns:
    """Register the arrays of one role under column names; a dict keeps its names."""
    if role == "next_observation" and isinstance(values, Mapping) != isinstance(like, Mapping):
        raise InputError(
            "next_observations must be like observations. Got a dict for one of the two; give both in the same way."
        )
    if not isinstance(values, Mapping):
        columns[role] = values
        return RoleColumns((role,))
    if role not in ("observation", "next_observation"):
        raise InputError(f"{role} must be one array. Got a dict; only observations may have named columns.")
    if not values:
        raise InputError(f"{role} must have at least one column. Got an empty dict.")
    names = [str(name) for name in (values if like is None else like)]
    if sorted(names) != sorted(str(name) for name in values):
        raise InputError(
            f"{role} must have the columns of observations ({', '.join(names)}). Got {', '.join(map(str, values))}; "
            "name both in the same way."
        )
    prefix = "next_" if role == "next_observation" else ""
    by_name = {str(name): array for name, array in values.items()}
    for name in names:
        if prefix + name in columns:
            raise InputError(f'observations must not have a column "{prefix}{name}" beside "{name}"; rename it.')
        columns[prefix + name] = by_name[name]
    return RoleColumns(tuple(prefix + name for name in names), "several")


def _put_values(columns: dict[str, Any], kinds: dict[str, str], values: Values) -> RoleColumns:
    """Register the columns of one role under their names, or under others where another role has these."""
    parts: Sequence[Column] = values.columns
    if values.form == "vector" and len(values.names) > 1:
        parts = list(np.asarray(parts[0]).T)
    names = []
    for name, column in zip(values.names, parts):
        names.append(_free(columns, name))
        columns[names[-1]] = column.labels() if isinstance(column, Categories) else column
        kinds[names[-1]] = "category" if isinstance(column, Categories) else "number"
    if values.form == "named":
        return RoleColumns(tuple(names), "several")
    return RoleColumns(tuple(names), "single" if len(names) == 1 else "prefixed")


def _free(columns: Mapping[str, Any], name: str) -> str:
    while name in columns:
        name += "_"
    return name


class FeatureTransitions:
    """Rows `(x, R, x')` with `x = x(S, A)` and `x'` the features of `(S', A')`, or their mean over the target's `A'`.

    Args:
        x: features of the pair, `[N, K]`.
        rewards: `[N]`.
        x_next: features after the step under the target policy, `[N, K]`.
        trajectory: which trajectory a row belongs to, `[N]`; None: unknown.
        weights: non-negative weight of each row, `[N]`; None: all alike.

    Example:
        >>> import cesaro as cs
        >>> data = cs.FeatureTransitions([[1.0], [2.0]], [0.5, 1.5], [[2.0], [1.0]])
        >>> data
        FeatureTransitions(2 rows, 1 features)
    """

    def __init__(
        self,
        x: ArrayLike,
        rewards: ArrayLike,
        x_next: ArrayLike,
        *,
        trajectory: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> None:
        self.x = checks.frozen(checks.float_array("x", x, ("row", "feature"), (None, None), largest=checks.LARGEST))
        rows = len(self.x)
        self.rewards = checks.frozen(checks.float_array("rewards", rewards, ("row",), (rows,), largest=checks.LARGEST))
        self.x_next = checks.frozen(
            checks.float_array("x_next", x_next, ("row", "feature"), self.x.shape, largest=checks.LARGEST)
        )
        self.trajectory: NDArray[Any] | None = None
        if trajectory is not None:
            self.trajectory = np.array(trajectory)
            if self.trajectory.shape != (rows,):
                raise InputError(f"trajectory must have shape [row={rows}]. Got {self.trajectory.shape}.")
        self.weights: Array | None = None
        if weights is not None:
            self.weights = checks.float_array("weights", weights, ("row",), (rows,), largest=checks.LARGEST)
            if (self.weights < 0).any() or not self.weights.any():
                raise InputError(
                    f"weights must be non-negative and not all zero. Got a minimum of {self.weights.min():g}; "
                    "drop rows with weight ≤ 0."
                )
            if self.weights[self.weights > 0].min() < checks.SMALLEST:
                raise InputError(
                    f"weights must be 0 or at least {checks.SMALLEST:g}, so that no product is lost. "
                    f"Got {self.weights[self.weights > 0].min():g}; multiply all of them (only their ratios matter)."
                )
            checks.frozen(self.weights)

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        return f"FeatureTransitions({len(self)} rows, {self.x.shape[1]} features)"
