"""Blocks of transitions, in which every log is worked through: the same ones however the log is read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cesaro.data.values import Categories, Column, Index, Values, rows_of

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Rows of a block; files are read in pieces of this size, too.
BLOCK_ROWS = 65_536
# Blocks that are summed up before their sums join the others'.
STRETCH_BLOCKS = 64
# Rows that feature maps are fitted on and diagnostics look at, the same ones in every mode.
SAMPLE = 100_000
# Places, of BLOCK_ROWS transitions each, that the sample of a longer log is taken from.
SPREAD = 256


@dataclass(frozen=True)
class Block:
    """Transitions of 65,536 consecutive rows of one file (fewer at its end, or where rows were dropped).

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
        start = self.start + ((rows.start or 0) if isinstance(rows, slice) else 0)
        return replace(self, start=start, **{name: taken(column, rows) for name, column in self._columns.items()})

    @property
    def _columns(self) -> dict[str, Any]:
        """Everything that has an entry per row."""
        return {name: column for name, column in vars(self).items() if name not in ("key", "start")}


def taken(column: Any, rows: Index) -> Any:
    """Rows of an array or of `Values`; None stays None."""
    if column is None:
        return None
    return column.take(rows) if isinstance(column, Values) else rows_of(column, rows)


def joined(blocks: Sequence[Block]) -> Block:
    """Blocks as one, with the key and the start of the first; vectors lie in memory row by row, however the blocks hold them."""
    columns: dict[str, Any] = {}
    for name, first in blocks[0]._columns.items():
        every = [block._columns[name] for block in blocks]
        if first is not None:
            columns[name] = joined_values(every) if isinstance(first, Values) else np.concatenate(every)
    return replace(blocks[0], **columns)


def joined_values(parts: Sequence[Values]) -> Values:
    """Rows of one code space, one part after the other."""
    columns: list[Column] = []
    for place, first in enumerate(parts[0].columns):
        every = [part.columns[place] for part in parts]
        if isinstance(first, Categories):
            codes = np.concatenate([column.codes for column in every if isinstance(column, Categories)])
            columns.append(Categories(codes, first.levels))
        else:
            numbers = np.concatenate([column for column in every if not isinstance(column, Categories)])
            columns.append(np.ascontiguousarray(numbers))
    return Values(parts[0].form, parts[0].names, tuple(columns))


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


class RowBlocks(Protocol):
    """Rows in blocks, as passes go over them: an opened log, or what stands for one.

    Every method gives the same rows and blocks each time it is asked.
    """

    @property
    def is_streamed(self) -> bool:
        """Whether blocks are read from files each time."""
        ...

    @property
    def lengths(self) -> Integers | None:
        """Rows of every trajectory, in order; None: there are no trajectories."""
        ...

    @property
    def stretches(self) -> "tuple[Stretch, ...]":
        """All blocks, up to STRETCH_BLOCKS of one file together."""
        ...

    def blocks(self, stretch: "Stretch | None" = None) -> Iterator[Any]:
        """The blocks of all stretches or of one, in order; a block without rows is left out."""
        ...

    def __len__(self) -> int: ...


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


class BlockLayout:
    """Which rows of which files are which block of a log; blocks are counted over all files.

    Args:
        file_rows: rows of every file.

    Attributes:
        block_rows: rows of a block, unless it is the last one of its file.
        starts: rows of the log before every block, and in all, `[blocks + 1]`.
    """

    def __init__(self, file_rows: Sequence[int]) -> None:
        self.block_rows = BLOCK_ROWS
        ends = np.cumsum(file_rows)
        starts = [np.arange(end - rows, end, BLOCK_ROWS) for end, rows in zip(ends, file_rows)]
        self.starts = np.concatenate([*starts, ends[-1:]])
        self._blocks_before = np.cumsum([0, *map(len, starts)])

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self.starts) - 1

    @property
    def num_rows(self) -> int:
        """Rows of all files."""
        return int(self.starts[-1])

    def rows(self, block: int) -> int:
        """The number of rows of a block."""
        return int(self.starts[block + 1] - self.starts[block])

    def key(self, block: int) -> tuple[int, int]:
        """The file of a block, and its number there."""
        file = int(np.searchsorted(self._blocks_before, block, side="right")) - 1
        return file, block - int(self._blocks_before[file])

    def blocks(self, stretch: Stretch | None = None) -> range:
        """The blocks of a stretch, or of the whole log."""
        if stretch is None:
            return range(len(self))
        first = int(self._blocks_before[stretch.file])
        return range(first + stretch.blocks.start, first + stretch.blocks.stop)

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """All blocks, up to STRETCH_BLOCKS of one file together."""
        found: list[Stretch] = []
        for file, blocks in enumerate(np.diff(self._blocks_before).tolist()):
            for first in range(0, blocks, STRETCH_BLOCKS):
                found.append(Stretch(len(found), file, range(first, min(first + STRETCH_BLOCKS, blocks))))
        return tuple(found)


@dataclass(frozen=True)
class AssembledRows:
    """Consecutive rows of a log, ordered and converted; `kept` are those that are transitions.

    The next observation of row i is row i of `next_values`, or the observation of row i + 1 where that is None. That of the
    rows `restarts` is the observation of row i + 1 in any case. After the last row comes the first. Some rows of a larger
    log have the row below them as one row more, which is not kept.

    Attributes:
        follows: per kept row, whether the transition goes on from the one before.
    """

    # Checkpoints know the rows of a log in memory by a digest that these names and their order are part of.
    observations: Values
    next_values: Values | None
    actions: Values
    rewards: Array
    weights: Array | None
    trajectory: NDArray[np.int64] | NDArray[np.int32] | None
    available: NDArray[np.bool_] | None
    restarts: Integers
    kept: Integers
    follows: NDArray[np.bool_]

    def next_observations(self, rows: Index) -> Values:
        """The next observations of some rows; contiguous ones without a restart copy nothing."""
        count = len(self.observations)
        first, last = (rows.start, rows.stop - 1) if isinstance(rows, slice) else (int(rows[0]), int(rows[-1]))
        low, high = np.searchsorted(self.restarts, (first, last + 1))
        restarts = self.restarts[low:high]
        if self.next_values is not None:
            values = self.next_values.take(rows)
        elif not isinstance(rows, slice):
            values = self.observations.take(np.minimum(rows + 1, count - 1))
        elif rows.stop < count:
            values = self.observations.take(slice(first + 1, last + 2))
        else:
            values = self.observations.take(np.minimum(np.arange(first + 1, last + 2), last))
        if isinstance(rows, slice):
            at = restarts - first
        elif len(restarts):
            at = np.searchsorted(rows, restarts)
            at, restarts = at[rows[at] == restarts], restarts[rows[at] == restarts]  # others may lie between the rows
        if not len(restarts):
            return values
        return values.replaced(at, self.observations.take((restarts + 1) % count))

    def block(self, key: tuple[int, int], index: Integers, before: int = 0) -> Block:
        """These transitions, counted over the kept rows, in order; `before`: transitions of the log before those."""
        rows = narrowed(self.kept[index])
        return Block(
            key,
            before + int(index[0]),
            self.observations.take(rows),
            self.actions.take(rows),
            rows_of(self.rewards, rows),
            self.next_observations(rows),
            taken(self.weights, rows),
            self.codes(rows),
            rows_of(self.follows, narrowed(index)),
            taken(self.available, rows),
        )

    def codes(self, rows: Index) -> NDArray[np.int64] | None:
        """The trajectories of some rows."""
        return None if self.trajectory is None else rows_of(self.trajectory, rows).astype(np.int64)


def narrowed(rows: Integers) -> Index:
    """A slice where the rows are contiguous."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first == len(rows) - 1 else rows
