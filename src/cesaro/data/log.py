"""A log: what it was read from, and what can be asked of it, before and after it is opened."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cesaro.data.blocks import AssembledRows, Block, BlockLayout, Integers, Sample, Stretch, joined, sample_rows
from cesaro.data.roles import Roles, Schema
from cesaro.data.settings import ActionBounds, Settings
from cesaro.data.sources.base import Source
from cesaro.data.values import Categories, Values

if TYPE_CHECKING:
    from cesaro.data.transitions import Transitions
    from cesaro.data.windows import ColumnDigests

# State combinations up to here are counted in a table, not sorted.
_TABLE = 1 << 22


@dataclass(frozen=True)
class Origin:
    """A source of columns, and how these were described.

    Attributes:
        source: holds columns that were not used as well.
        kinds: "number" or "category" per column, where it was chosen.
        inferred: roles whose columns were found by their names.
        denied: roles of which the caller said that the log has none.
        bounds: of the system's actions, where the log itself tells them.
        notes: sentences on how the columns were chosen.
        unused: columns without a role that could be the ids of trajectories, or the time.
    """

    source: Source
    roles: Roles
    kinds: Mapping[str, str]
    settings: Settings
    inferred: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    bounds: ActionBounds | None = None
    notes: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


class Log(ABC):
    """A log of a continuing system; `cesaro.read` makes one. Its data are read on first use.

    Whatever is asked about its rows is answered by the log that it opens to.

    Attributes:
        name: the file's name, for messages.
        origin: what it was read from; None where it was made of arrays.
    """

    name: str
    origin: Origin | None = None

    @abstractmethod
    def opened(self, *, quiet: bool = True) -> "OpenedLog":
        """The log ready for use: in memory, or in blocks where it is large. `quiet`: no progress bar."""

    @abstractmethod
    def load(self) -> "Transitions":
        """The whole log in memory; read once."""

    @property
    def is_streamed(self) -> bool:
        """Whether it is read in blocks again and again, because it is larger than memory should hold."""
        return self.opened().is_streamed

    @property
    def schema(self) -> Schema:
        """Which columns play which part, with their forms and kinds."""
        return self.opened().schema

    @property
    def num_rows(self) -> int:
        """Rows that the source holds, dropped ones included."""
        return self.opened().num_rows

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

    def blocks(self, stretch: Stretch | None = None) -> Iterator[Block]:
        """The transitions in fixed blocks, in row order, of all stretches or of one; a block without any is left out."""
        return self.opened().blocks(stretch)

    def part(self, index: Integers) -> Block:
        """Some transitions, counted from 0, in order."""
        return self.opened().part(index)

    def sample(self, random_state: int) -> Sample:
        """At most 100,000 transitions, chosen by `sample_rows`."""
        index = sample_rows(len(self), random_state)
        return Sample(index, self.part(index))

    def states(self) -> NDArray[np.int64] | None:
        """Numbers of the states that occur at S or S', sorted; None where observations are not labels. Read once.

        A state's number counts the levels of its columns, the last column's fastest.
        """
        return self.opened().states()

    def __len__(self) -> int:
        """The number of transitions."""
        return len(self.opened())


class OpenedLog(Log):
    """A log whose rows are at hand, which opens to itself: in memory (`Transitions`), or in windows of its files (`Streamed`).

    Both hand out the same blocks by one path: `_assembled` gives rows, all at once or block by block, and `_before` says which
    transitions of them belong to which block.

    Attributes:
        stamps: per file its size and the time of its last change when it was opened; empty where it has no files that tell it.
    """

    is_streamed: bool
    stamps: Mapping[str, str] = MappingProxyType({})
    _schema: Schema
    _layout: BlockLayout
    _counts: Mapping[str, int]
    _notes: tuple[str, ...]

    @property
    @abstractmethod
    def _before(self) -> Integers:
        """Transitions before every block, and in all, `[blocks + 1]`."""

    @abstractmethod
    def _assembled(self, blocks: Sequence[int]) -> Iterator[tuple[Sequence[int], int, AssembledRows]]:
        """Rows that hold these blocks, in order: some of the blocks, the transitions before the rows, and the rows."""

    @property
    @abstractmethod
    def action_levels(self) -> NDArray[Any] | None: ...

    @property
    @abstractmethod
    def lengths(self) -> NDArray[np.int64] | None: ...

    @abstractmethod
    def digests(self) -> "ColumnDigests":
        """Digests of what has been read so far, per column and block; of a log in memory one of all rows."""

    @abstractmethod
    def changed_since(self, before: "ColumnDigests", *, reread: bool, quiet: bool = True) -> str | None:
        """The file, or the log, whose rows are not those of the digests that an earlier run left; None: they are.

        `reread`: read the blocks again that have a digest there and none here. Later readings are compared with both.
        """

    def opened(self, *, quiet: bool = True) -> "OpenedLog":
        return self

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def num_rows(self) -> int:
        return self._layout.num_rows

    @property
    def counts(self) -> dict[str, int]:
        return dict(self._counts)

    @property
    def notes(self) -> tuple[str, ...]:
        return self._notes

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        return self._layout.stretches

    def blocks(self, stretch: Stretch | None = None) -> Iterator[Block]:
        before = self._before
        for blocks, first, rows in self._assembled(self._layout.blocks(stretch)):
            for block in blocks:
                index = np.arange(before[block] - first, before[block + 1] - first)
                if len(index):
                    yield rows.block(self._layout.key(block), index, first)

    def part(self, index: Integers) -> Block:
        places = np.searchsorted(self._before, index, side="right") - 1
        found = []
        for blocks, first, rows in self._assembled(np.unique(places).tolist()):
            low, high = np.searchsorted(places, (blocks[0], blocks[-1] + 1))
            found.append(rows.block((0, 0), index[low:high] - first, first))
        return joined(found)

    def states(self) -> NDArray[np.int64] | None:
        return self._states

    @cached_property
    def _states(self) -> NDArray[np.int64] | None:
        found: NDArray[np.int64] | None = None
        for block in self.blocks():
            size = math.prod(state_sizes(block.observations))
            if not block.observations.is_discrete or size > 2**62:
                return None
            both = (block.observations, block.next_observations)
            numbers = np.concatenate([state_numbers(values) for values in both])
            used = np.flatnonzero(np.bincount(numbers, minlength=size)) if size <= _TABLE else np.unique(numbers)
            found = used if found is None else np.union1d(found, used)
        return found

    def __len__(self) -> int:
        return int(self._before[-1])


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


def state_codes(numbers: NDArray[np.int64], sizes: Sequence[int]) -> list[NDArray[np.int64]]:
    """The code of each column at states with these numbers, as `state_numbers` gives them; `sizes`: the levels of each column."""
    codes: list[NDArray[np.int64]] = []
    for size in reversed(sizes):
        numbers, code = np.divmod(numbers, size)
        codes.append(code)
    return codes[::-1]
