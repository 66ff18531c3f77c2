"""Logs: transitions with what is known about their order, in blocks that do not depend on how they are read."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cesaro.data.roles import Roles
from cesaro.data.schema import Schema, describe
from cesaro.data.settings import Settings
from cesaro.data.sources import Source
from cesaro.data.unused import unused_ids
from cesaro.data.values import Categories, Index, Values
from cesaro.errors import InputError
from cesaro.progress import stage

if TYPE_CHECKING:
    from cesaro.data.streamed import Streamed
    from cesaro.data.transitions import Transitions

Array = NDArray[np.float64]

BLOCK_ROWS = 65_536
# Blocks that are summed up before their sums join the others'.
STRETCH_BLOCKS = 64
# Rows that feature maps are fitted on and diagnostics look at, the same ones in every mode.
SAMPLE = 100_000
# Of a longer log the sample is taken from this many stretches of BLOCK_ROWS transitions.
SPREAD = 256
# A log of more bytes than this is read in blocks again and again, and never held in memory.
STREAM_BYTES = 1 << 28
# State combinations up to here are counted in a table, not sorted.
_TABLE = 1 << 22


@dataclass(frozen=True)
class Block:
    """Transitions from one stretch of 65,536 rows of one file (fewer at its end, or where rows were dropped).

    Attributes:
        key: (file, block number).
        start: transitions of the log before this block.
        trajectory: code of the trajectory, in order of first appearance; None: the log has neither ids nor flags.
        follows: whether the transition goes on from the one before, which may be in the block before.
        available: which actions were possible, `[n, A]` in the order of `Log.action_levels`.
    """

    key: tuple[int, int]
    start: int
    observations: Values
    actions: Values
    rewards: Array
    next_observations: Values
    weights: Array | None
    trajectory: NDArray[np.int64] | None
    follows: NDArray[np.bool_]
    available: NDArray[np.bool_] | None

    def __len__(self) -> int:
        return len(self.rewards)

    def part(self, rows: Index) -> "Block":
        """Some of its rows; a slice copies nothing."""
        return Block(
            self.key,
            self.start + ((rows.start or 0) if isinstance(rows, slice) else 0),
            self.observations.take(rows),
            self.actions.take(rows),
            self.rewards[rows],
            self.next_observations.take(rows),
            None if self.weights is None else self.weights[rows],
            None if self.trajectory is None else self.trajectory[rows],
            self.follows[rows],
            None if self.available is None else self.available[rows],
        )


class Stretch(NamedTuple):
    """At most 64 consecutive blocks of one file: what is summed up, handed to a worker and kept in a checkpoint together.

    Attributes:
        number: its place in the log.
        file: which file.
        blocks: their numbers in it.
    """

    number: int
    file: int
    blocks: range


@dataclass(frozen=True)
class Sample:
    """At most 100,000 transitions, the same ones however the log is read.

    Attributes:
        index: which ones, counted over the log, in order.
        rows: the transitions themselves.
    """

    index: NDArray[np.int64]
    rows: Block


def sample_rows(num_rows: int, random_state: int, size: int = SAMPLE) -> NDArray[np.int64]:
    """At most `size` row numbers, in order; of a very long log they lie in 256 places, so that most of it need not be read."""
    if num_rows <= size:
        return np.arange(num_rows)
    rng = np.random.default_rng([random_state, 0])
    if num_rows <= SPREAD * BLOCK_ROWS:
        return np.sort(rng.choice(num_rows, size, replace=False))
    places = np.sort(rng.choice(num_rows // BLOCK_ROWS, SPREAD, replace=False))
    place, row = np.divmod(np.sort(rng.choice(SPREAD * BLOCK_ROWS, size, replace=False)), BLOCK_ROWS)
    return np.asarray(places[place] * BLOCK_ROWS + row)


def stretches(file_rows: tuple[int, ...]) -> tuple[Stretch, ...]:
    """Of files with so many rows."""
    found: list[Stretch] = []
    for file, rows in enumerate(file_rows):
        blocks = -(-rows // BLOCK_ROWS)
        for first in range(0, blocks, STRETCH_BLOCKS):
            found.append(Stretch(len(found), file, range(first, min(first + STRETCH_BLOCKS, blocks))))
    return tuple(found)


class Log:
    """A log of a continuing system; `cesaro.read` makes one. Its data are read on first use.

    Attributes:
        name: the file's name, for messages.
        is_streamed: whether it is read in blocks again and again, because it is larger than memory should hold.
    """

    name: str
    is_streamed = False
    _states: tuple[NDArray[np.int64] | None] | None = None

    def __init__(
        self,
        source: Source,
        roles: Roles,
        kinds: Mapping[str, str],
        settings: Settings,
        notes: tuple[str, ...] = (),
        unused: tuple[str, ...] = (),
        stream: bool | None = None,
    ) -> None:
        self.name = source.name
        if stream and source.files is None:
            raise InputError(
                f"stream=True needs a log of Parquet, CSV or Arrow files. Got {self.name}, which is read as a whole; leave "
                "stream= out, or write it as Parquet."
            )
        self._stream = stream
        self._source, self._roles, self._kinds, self._settings, self._notes = source, roles, kinds, settings, notes
        self._unused = unused  # columns that could be the ids of trajectories
        self._loaded: Transitions | None = None
        self._streamed: Streamed | None = None
        self._schema: Schema | None = None
        if source.types is not None:
            self._schema = describe(self.name, roles, source.types, kinds, settings)

    @property
    def schema(self) -> Schema:
        """Which columns play which part, with their forms and kinds."""
        return self.opened().schema if self._schema is None else self._schema

    @property
    def num_rows(self) -> int:
        """Rows that the source holds, dropped ones included."""
        return self.opened().num_rows if self._source.num_rows is None else self._source.num_rows

    @property
    def counts(self) -> dict[str, int]:
        """Rows, kept rows, dropped ones by reason, trajectories, episodes, cuts, restarts and files."""
        return self.opened().counts

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what was done to the rows."""
        return self.opened().notes

    @property
    def action_levels(self) -> NDArray[Any] | None:
        """The sorted labels of discrete actions; None where actions are numbers."""
        return self.opened().action_levels

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """All blocks, up to 64 of one file together."""
        return self.opened().stretches

    @property
    def lengths(self) -> NDArray[np.int64] | None:
        """Transitions of every trajectory that has some, in row order; None: the log has neither ids nor flags."""
        return self.opened().lengths

    def opened(self, *, quiet: bool = True) -> "Log":
        """The log ready for use: in memory, or in blocks where it is large. `quiet`: no progress bar."""
        if self._streamed is None:
            stream = self._stream
            if stream is None:
                files = self._source.files is not None and self._loaded is None
                stream = files and self._source.nbytes(self._roles) > STREAM_BYTES
            if not stream:
                with stage("reading the log", quiet=quiet):
                    return self.load()
            from cesaro.data.streamed import Streamed

            parts = self._source, self._roles, self._kinds, self._settings, self._notes, self._unused
            self._streamed = Streamed(*parts, quiet=quiet)
        return self._streamed

    def load(self) -> "Transitions":
        """The whole log in memory; read once."""
        if self._loaded is None:
            from cesaro.data.assemble import assemble
            from cesaro.data.transitions import Transitions

            notes = (*self._notes, *unused_ids(self._source, self._unused))
            whole = assemble(self._source, self._roles, self._kinds, self._settings, notes)
            self._loaded = Transitions._of(whole)
        return self._loaded

    def blocks(self, stretch: Stretch | None = None) -> Iterator[Block]:
        """The transitions in fixed blocks, in row order, of all stretches or of one; a block without any is left out."""
        return self.opened().blocks(stretch)

    def sample(self, random_state: int) -> Sample:
        """At most 100,000 transitions, chosen by `sample_rows`."""
        return self.opened().sample(random_state)

    def states(self) -> NDArray[np.int64] | None:
        """Numbers of the states that occur at S or S', sorted; None where observations are not labels. Read once.

        A state's number counts the levels of its columns, the last column's fastest.
        """
        opened = self.opened()
        if opened._states is None:
            opened._states = (_states(opened),)
        return opened._states[0]

    def __len__(self) -> int:
        """Transitions."""
        return len(self.opened())

    def __repr__(self) -> str:
        rows = self._source.num_rows
        return f"Log({self.name}{'' if rows is None else f', {rows} rows'})"


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
