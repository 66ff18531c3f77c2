"""Logs: transitions with what is known about their order, in blocks that do not depend on how they are read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cesaro.data.assemble import Array, Parts, assemble
from cesaro.data.roles import Chosen, Roles, check_kinds
from cesaro.data.schema import Schema, describe
from cesaro.data.settings import GAP, Settings, check_settings
from cesaro.data.sources import ArraySource, Source
from cesaro.data.unused import unused_ids
from cesaro.data.values import Categories, Column, Index, Values
from cesaro.errors import InputError

BLOCK_ROWS = 65_536


@dataclass(frozen=True)
class Block:
    """Transitions from one stretch of 65,536 rows of one file (fewer at its end, or where rows were dropped).

    Attributes:
        key: (file, block number).
        trajectory: code of the trajectory, in order of first appearance; None: the log has neither ids nor flags.
        segment: code of the contiguous piece: it increases at every border, cut and dropped successor.
        available: which actions were possible, `[n, A]` in the order of `Log.action_levels`.
    """

    key: tuple[int, int]
    observations: Values
    actions: Values
    rewards: Array
    next_observations: Values
    weights: Array | None
    trajectory: NDArray[np.int64] | None
    segment: NDArray[np.int64]
    available: NDArray[np.bool_] | None

    def __len__(self) -> int:
        return len(self.rewards)


class Log:
    """A log of a continuing system; `cesaro.read` makes one. Its data are read on first use.

    Attributes:
        name: the file's name, for messages.
    """

    name: str

    def __init__(
        self,
        source: Source,
        roles: Roles,
        kinds: Mapping[str, str],
        settings: Settings,
        notes: tuple[str, ...] = (),
        unused: tuple[str, ...] = (),
    ) -> None:
        self.name = source.name
        self._source, self._roles, self._kinds, self._settings, self._notes = source, roles, kinds, settings, notes
        self._unused = unused  # columns that could be the ids of trajectories
        self._loaded: Transitions | None = None
        self._schema: Schema | None = None
        if source.types is not None:
            self._schema = describe(self.name, roles, source.types, kinds, settings)

    @property
    def schema(self) -> Schema:
        """Which columns play which part, with their forms and kinds."""
        return self.load().schema if self._schema is None else self._schema

    @property
    def num_rows(self) -> int:
        """Rows that the source holds, dropped ones included."""
        return self.load().num_rows if self._source.num_rows is None else self._source.num_rows

    @property
    def counts(self) -> dict[str, int]:
        """Rows, kept rows, dropped ones by reason, trajectories, episodes, cuts, restarts and files."""
        return self.load().counts

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what was done to the rows."""
        return self.load().notes

    @property
    def action_levels(self) -> NDArray[Any] | None:
        """The sorted labels of discrete actions; None where actions are numbers."""
        return self.load().action_levels

    def load(self) -> "Transitions":
        """The whole log in memory; read once."""
        if self._loaded is None:
            notes = (*self._notes, *unused_ids(self._source, self._unused))
            parts = assemble(self._source, self._roles, self._kinds, self._settings, notes)
            self._loaded = Transitions._of(parts)
        return self._loaded

    def blocks(self) -> Iterator[Block]:
        """The transitions in fixed blocks, in row order; a block whose rows were all dropped is left out."""
        return self.load().blocks()

    def __repr__(self) -> str:
        rows = self._source.num_rows
        return f"Log({self.name}{'' if rows is None else f', {rows} rows'})"


class Transitions(Log):
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

    Example:
        >>> import numpy as np
        >>> from cesaro.data import Transitions
        >>> log = Transitions(["a", "b", "a"], [0, 1, 1], [1.0, 0.0, 2.0], terminated=[0, 0, 1])
        >>> log
        Transitions(3 transitions, 3 rows)
        >>> log.next_observations.plain().tolist()
        ['b', 'a', 'a']
    """

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
    ) -> None:
        settings = check_settings("Transitions", reward_lag, on_termination, on_truncation, gap)
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
        checked = check_kinds("Transitions", kinds, roles)
        self._set(assemble(source, roles, checked, settings, ()))

    @classmethod
    def _of(cls, parts: Parts) -> "Transitions":
        transitions = cls.__new__(cls)
        transitions._set(parts)
        return transitions

    def _set(self, parts: Parts) -> None:
        self.name = parts.name
        self._parts = parts

    @property
    def schema(self) -> Schema:
        return self._parts.schema

    @property
    def num_rows(self) -> int:
        return len(self._parts.rewards)

    @property
    def counts(self) -> dict[str, int]:
        return dict(self._parts.counts)

    @property
    def notes(self) -> tuple[str, ...]:
        return self._parts.notes

    @property
    def action_levels(self) -> NDArray[Any] | None:
        column = self._parts.actions.columns[0]
        return column.levels if isinstance(column, Categories) else None

    @property
    def observations(self) -> Values:
        """`S` of every transition."""
        return self._parts.observations.take(self._kept)

    @property
    def actions(self) -> Values:
        """`A` of every transition."""
        return self._parts.actions.take(self._kept)

    @property
    def rewards(self) -> Array:
        """`R` of every transition, `[n]`."""
        return self._parts.rewards[self._kept]

    @property
    def next_observations(self) -> Values:
        """`S'` of every transition, after restarts."""
        return self._next(self._kept)

    @property
    def weights(self) -> Array | None:
        """The weight of every transition, `[n]`; None: all alike."""
        return None if self._parts.weights is None else self._parts.weights[self._kept]

    @property
    def trajectory(self) -> NDArray[np.int64] | None:
        """The trajectory of every transition, `[n]`, in order of first appearance; None: there are neither ids nor flags."""
        return _codes(self._parts.trajectory, self._kept)

    @property
    def segment(self) -> NDArray[np.int64]:
        """The contiguous piece of every transition, `[n]`: it increases at every border, cut and dropped successor."""
        return self._parts.segment

    @property
    def available(self) -> NDArray[np.bool_] | None:
        """Which actions were possible, `[n, A]` in the order of `action_levels`; None: all, or not logged."""
        return None if self._parts.available is None else self._parts.available[self._kept]

    @property
    def _kept(self) -> Index:
        return _narrowed(self._parts.kept)

    def _next(self, rows: Index) -> Values:
        """Next observations of these rows; a contiguous stretch without a restart copies nothing."""
        parts = self._parts
        first, last = (rows.start, rows.stop - 1) if isinstance(rows, slice) else (int(rows[0]), int(rows[-1]))
        low, high = np.searchsorted(parts.restart_at, (first, last + 1))
        restarts = parts.restart_at[low:high]
        if parts.next_values is not None:
            values = parts.next_values.take(rows)
        elif not isinstance(rows, slice):
            values = parts.observations.take(np.minimum(rows + 1, self.num_rows - 1))
        elif rows.stop < self.num_rows:
            values = parts.observations.take(slice(first + 1, last + 2))
        else:
            values = parts.observations.take(np.minimum(np.arange(first + 1, last + 2), last))
        if not len(restarts):
            return values
        at = restarts - first if isinstance(rows, slice) else np.searchsorted(rows, restarts)
        return _replaced(values, at, parts.observations.take(parts.restart_to[low:high]))

    def load(self) -> "Transitions":
        return self

    def blocks(self) -> Iterator[Block]:
        parts = self._parts
        first = 0
        for file, rows in enumerate(parts.file_rows):
            for number, start in enumerate(range(first, first + rows, BLOCK_ROWS)):
                low, high = np.searchsorted(parts.kept, (start, min(start + BLOCK_ROWS, first + rows)))
                if low < high:
                    yield self._block((file, number), int(low), int(high))
            first += rows

    def _block(self, key: tuple[int, int], low: int, high: int) -> Block:
        parts = self._parts
        rows = _narrowed(parts.kept[low:high])
        return Block(
            key,
            parts.observations.take(rows),
            parts.actions.take(rows),
            parts.rewards[rows],
            self._next(rows),
            None if parts.weights is None else parts.weights[rows],
            _codes(parts.trajectory, rows),
            parts.segment[low:high],
            None if parts.available is None else parts.available[rows],
        )

    def __len__(self) -> int:
        return len(self._parts.kept)

    def __repr__(self) -> str:
        return f"Transitions({len(self)} transitions, {self.num_rows} rows)"


def _put(columns: dict[str, Any], role: str, values: Any, like: Any = None) -> Chosen:
    """Register the arrays of one role under column names; a dict keeps its names."""
    if role == "next_observation" and isinstance(values, Mapping) != isinstance(like, Mapping):
        raise InputError(
            "next_observations must be like observations. Got a dict for one of the two; write both alike."
        )
    if not isinstance(values, Mapping):
        columns[role] = values
        return Chosen((role,))
    if role not in ("observation", "next_observation"):
        raise InputError(f"{role} must be one array. Got a dict; only observations may have named columns.")
    if not values:
        raise InputError(f"{role} must have at least one column. Got an empty dict.")
    names = [str(name) for name in (values if like is None else like)]
    if sorted(names) != sorted(str(name) for name in values):
        raise InputError(
            f"{role} must have the columns of observations ({', '.join(names)}). Got {', '.join(map(str, values))}; "
            "name both alike."
        )
    prefix = "next_" if role == "next_observation" else ""
    by_name = {str(name): array for name, array in values.items()}
    for name in names:
        if prefix + name in columns:
            raise InputError(f'observations must not have a column "{prefix}{name}" beside "{name}"; rename it.')
        columns[prefix + name] = by_name[name]
    return Chosen(tuple(prefix + name for name in names), "several")


def _narrowed(rows: NDArray[np.int64]) -> Index:
    """A slice where the rows are contiguous."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first == len(rows) - 1 else rows


def _codes(codes: NDArray[np.int32] | None, rows: Index) -> NDArray[np.int64] | None:
    return None if codes is None else codes[rows].astype(np.int64)


def _replaced(values: Values, at: NDArray[np.int64], rows: Values) -> Values:
    """A copy of `values` with other rows in some places."""
    columns: list[Column] = []
    for column, other in zip(values.columns, rows.columns):
        if isinstance(column, Categories) and isinstance(other, Categories):
            codes = column.codes.copy()
            codes[at] = other.codes
            columns.append(Categories(codes, column.levels))
        elif not isinstance(column, Categories):
            array = column.copy()
            array[at] = other
            columns.append(array)
    return Values(values.form, values.names, tuple(columns))
