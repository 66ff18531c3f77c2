"""Logs: transitions with what is known about their order, in blocks that do not depend on how they are read."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cesaro.data import blocks
from cesaro.data.assemble import Whole, assemble
from cesaro.data.blocks import Array, Block, Rows, Sample, Stretch, narrowed, sample_rows
from cesaro.data.bounds import ActionBounds
from cesaro.data.digests import Found, rows_digest
from cesaro.data.roles import Chosen, Roles, check_kinds
from cesaro.data.schema import Schema
from cesaro.data.settings import GAP, Settings, check_settings
from cesaro.data.sources import ArraySource, ChangedError, Source
from cesaro.data.unused import unused_notes
from cesaro.data.values import Categories, Index, Values
from cesaro.errors import InputError

# State combinations up to here are counted in a table, not sorted.
_TABLE = 1 << 22


@dataclass(frozen=True)
class Origin:
    """What a log was read from, and how it was described.

    Attributes:
        source: holds columns that were not used as well.
        kinds: "number" or "category" per column, where it was chosen.
        inferred: roles whose columns were found by their names.
        denied: roles of which the caller said that the log has none.
        bounds: of the system's actions, where the log itself tells them.
    """

    source: Source
    roles: Roles
    kinds: Mapping[str, str]
    settings: Settings
    inferred: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    bounds: ActionBounds | None = None


class Log(ABC):
    """A log of a continuing system; `cesaro.read` makes one. Its data are read on first use.

    Attributes:
        name: the file's name, for messages.
        is_streamed: whether it is read in blocks again and again, because it is larger than memory should hold.
        origin: what it was read from; None where it was made of arrays.
        stamps: per file its size and the time of its last change when it was opened; empty where it has no files that tell it.
    """

    name: str
    is_streamed = False
    origin: Origin | None = None
    stamps: Mapping[str, str] = MappingProxyType({})
    _states: tuple[NDArray[np.int64] | None] | None = None

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """Which columns play which part, with their forms and kinds."""

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Rows that the source holds, dropped ones included."""

    @property
    @abstractmethod
    def counts(self) -> dict[str, int]:
        """Rows, kept rows, dropped ones by reason, trajectories, episodes, cuts, restarts and files."""

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """Sentences on what was done to the rows."""

    @property
    @abstractmethod
    def action_levels(self) -> NDArray[Any] | None:
        """The sorted labels of discrete actions; None where actions are numbers."""

    @property
    @abstractmethod
    def stretches(self) -> tuple[Stretch, ...]:
        """All blocks, up to 64 of one file together."""

    @property
    @abstractmethod
    def lengths(self) -> NDArray[np.int64] | None:
        """Transitions of every trajectory that has some, in row order; None: the log has neither ids nor flags."""

    @abstractmethod
    def opened(self, *, quiet: bool = True) -> "Log":
        """The log ready for use: in memory, or in blocks where it is large. `quiet`: no progress bar."""

    @abstractmethod
    def load(self) -> "Transitions":
        """The whole log in memory; read once."""

    @abstractmethod
    def blocks(self, stretch: Stretch | None = None) -> Iterator[Block]:
        """The transitions in fixed blocks, in row order, of all stretches or of one; a block without any is left out."""

    @abstractmethod
    def part(self, index: Rows) -> Block:
        """Some transitions, counted from 0, in order."""

    def sample(self, random_state: int) -> Sample:
        """At most 100,000 transitions, chosen by `sample_rows`."""
        index = sample_rows(len(self), random_state)
        return Sample(index, self.part(index))

    @abstractmethod
    def digests(self) -> Found:
        """What has been read so far, as digests per column and block; of a log in memory one of all rows."""

    @abstractmethod
    def changed_since(self, before: Found, *, reread: bool, quiet: bool = True) -> str | None:
        """The file, or the log, whose rows are not those of the digests that an earlier run left; None: they are.

        `reread`: read the blocks again that have a digest there and none here. Later readings are compared with both.
        """

    def states(self) -> NDArray[np.int64] | None:
        """Numbers of the states that occur at S or S', sorted; None where observations are not labels. Read once.

        A state's number counts the levels of its columns, the last column's fastest.
        """
        opened = self.opened()
        if opened._states is None:
            opened._states = (_states(opened),)
        return opened._states[0]

    @abstractmethod
    def __len__(self) -> int:
        """Transitions."""


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
        checked = check_kinds("Transitions", kinds, roles)
        self._set(assemble(source, roles, checked, settings, ()))

    @classmethod
    def _read(
        cls,
        source: Source,
        roles: Roles,
        kinds: Mapping[str, str],
        settings: Settings,
        notes: tuple[str, ...],
        unused: tuple[str, ...],
    ) -> "Transitions":
        """All rows of a source. `unused`: columns without a role that could be the ids of trajectories, or the time."""
        transitions = cls.__new__(cls)
        stamps = source.stamps()
        transitions._set(assemble(source, roles, kinds, settings, (*notes, *unused_notes(source, roles, unused))))
        for name, stamp in source.stamps().items():
            if stamp != stamps[name]:
                got = f"another size or modification time of {name} than before"
                raise ChangedError(source.name, got, name)
        transitions.stamps = stamps
        return transitions

    @classmethod
    def _like(cls, observations: Values, actions: Values, rewards: Array, trajectory: Rows) -> "Transitions":
        """Rows that have the names and kinds of columns of another log; `trajectory` has ids, `[n]`."""
        columns: dict[str, Any] = {}
        kinds: dict[str, str] = {}
        state, action = (_put_values(columns, kinds, values) for values in (observations, actions))
        reward, ids = _free(columns, "reward"), _free(columns, "trajectory")
        columns |= {reward: rewards, ids: trajectory}
        roles = Roles(state, action, reward, trajectory=ids)
        made = cls.__new__(cls)
        settings = check_settings("Transitions", 0, None, None, None)
        made._set(assemble(ArraySource("Transitions", columns), roles, kinds, settings, ()))
        return made

    def _set(self, whole: Whole) -> None:
        self.name = whole.name
        self._whole, self._parts = whole, whole.parts

    @property
    def schema(self) -> Schema:
        return self._whole.schema

    @property
    def num_rows(self) -> int:
        return len(self._parts.rewards)

    @property
    def counts(self) -> dict[str, int]:
        return dict(self._whole.counts)

    @property
    def notes(self) -> tuple[str, ...]:
        return self._whole.notes

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
        return self._parts.next_observations(self._kept)

    @property
    def weights(self) -> Array | None:
        """The weight of every transition, `[n]`; None: all alike."""
        return None if self._parts.weights is None else self._parts.weights[self._kept]

    @property
    def trajectory(self) -> NDArray[np.int64] | None:
        """The trajectory of every transition, `[n]`, in order of first appearance; None: there are neither ids nor flags."""
        return self._parts.codes(self._kept)

    @property
    def segment(self) -> NDArray[np.int64]:
        """The contiguous piece of every transition, `[n]`: it increases at every border, cut and dropped successor."""
        return np.cumsum(~self._parts.follows) - 1

    @property
    def available(self) -> NDArray[np.bool_] | None:
        """Which actions were possible, `[n, A]` in the order of `action_levels`; None: all, or not logged."""
        return None if self._parts.available is None else self._parts.available[self._kept]

    @property
    def _kept(self) -> Index:
        return narrowed(self._parts.kept)

    def opened(self, *, quiet: bool = True) -> "Transitions":
        return self

    def load(self) -> "Transitions":
        return self

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        return blocks.stretches(self._whole.file_rows)

    @property
    def lengths(self) -> NDArray[np.int64] | None:
        return self._lengths

    @cached_property
    def _lengths(self) -> NDArray[np.int64] | None:
        codes = self.trajectory
        if codes is None:
            return None
        return np.diff(np.flatnonzero(codes[1:] != codes[:-1]) + 1, prepend=0, append=len(codes))

    def blocks(self, stretch: Stretch | None = None) -> Iterator[Block]:
        parts, file_rows = self._parts, self._whole.file_rows
        for one in self.stretches if stretch is None else (stretch,):
            first = sum(file_rows[: one.file])
            end = first + file_rows[one.file]
            for number in one.blocks:
                start = first + number * blocks.BLOCK_ROWS
                low, high = np.searchsorted(parts.kept, (start, min(start + blocks.BLOCK_ROWS, end)))
                if low < high:
                    yield parts.block((one.file, number), np.arange(low, high))

    def part(self, index: Rows) -> Block:
        return self._parts.block((0, 0), index)

    def digests(self) -> Found:
        return {"rows": self._digest}

    @cached_property
    def _digest(self) -> NDArray[np.uint8]:
        return rows_digest(self._parts)

    def changed_since(self, before: Found, *, reread: bool, quiet: bool = True) -> str | None:
        return None if np.array_equal(before["rows"], self._digest) else self.name

    def __len__(self) -> int:
        return len(self._parts.kept)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"origin": None}  # it may hold a frame

    def __repr__(self) -> str:
        return f"Transitions({len(self)} transitions, {self.num_rows} rows)"


def _put(columns: dict[str, Any], role: str, values: Any, like: Any = None) -> Chosen:
    """Register the arrays of one role under column names; a dict keeps its names."""
    if role == "next_observation" and isinstance(values, Mapping) != isinstance(like, Mapping):
        raise InputError(
            "next_observations must be like observations. Got a dict for one of the two; give both in the same way."
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
            "name both in the same way."
        )
    prefix = "next_" if role == "next_observation" else ""
    by_name = {str(name): array for name, array in values.items()}
    for name in names:
        if prefix + name in columns:
            raise InputError(f'observations must not have a column "{prefix}{name}" beside "{name}"; rename it.')
        columns[prefix + name] = by_name[name]
    return Chosen(tuple(prefix + name for name in names), "several")


def _put_values(columns: dict[str, Any], kinds: dict[str, str], values: Values) -> Chosen:
    """Register the columns of one role under their names, or under others where another role has these."""
    arrays = [column.labels() if isinstance(column, Categories) else column for column in values.columns]
    if values.form == "vector" and len(values.names) > 1:
        arrays = list(np.asarray(arrays[0]).T)
    names = []
    for name, array in zip(values.names, arrays):
        names.append(_free(columns, name))
        columns[names[-1]] = array
        kinds[names[-1]] = "category" if values.is_discrete or np.asarray(array).dtype == object else "number"
    if values.form == "named":
        return Chosen(tuple(names), "several")
    return Chosen(tuple(names), "single" if len(names) == 1 else "prefixed")


def _free(columns: Mapping[str, Any], name: str) -> str:
    while name in columns:
        name += "_"
    return name


def _states(log: Log) -> NDArray[np.int64] | None:
    found: NDArray[np.int64] | None = None
    for block in log.blocks():
        sizes = state_sizes(block.observations)
        if not block.observations.is_discrete or math.prod(sizes) > 2**62:
            return None
        both = (block.observations, block.next_observations)
        numbers = np.concatenate([state_numbers(values) for values in both])
        size = math.prod(sizes)
        used = np.flatnonzero(np.bincount(numbers, minlength=size)) if size <= _TABLE else np.unique(numbers)
        found = used if found is None else np.union1d(found, used)
    return found


def state_sizes(observations: Values) -> list[int]:
    """Levels of each column of labels."""
    return [len(column.levels) for column in observations.columns if isinstance(column, Categories)]


def state_numbers(observations: Values) -> NDArray[np.int64]:
    """The number of each row's state among all combinations of levels, `[n]`."""
    number = np.zeros(len(observations), dtype=np.int64)
    for size, column in zip(state_sizes(observations), observations.columns):
        assert isinstance(column, Categories)
        number = number * size + column.codes
    return number
