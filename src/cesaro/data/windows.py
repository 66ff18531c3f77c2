"""A source in windows: the rows of a block, and the row below them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cesaro.data.digests import Digests
from cesaro.data.sources import ChangedError, Source


class Window(NamedTuple):
    """A block's rows.

    Attributes:
        block: its number in the log.
        key: (file, number in the file).
        first: the row of the log that it begins with.
        rows: how many they are.
        is_last: whether no row follows.
        table: the rows and, where it is wanted and there is one, the row below.
    """

    block: int
    key: tuple[int, int]
    first: int
    rows: int
    is_last: bool
    table: pa.Table


@dataclass(frozen=True)
class Windows:
    """The blocks of all files, in order. A block that is not what it was when it was first read is an error."""

    source: Source
    file_rows: tuple[int, ...]
    block_rows: int
    digests: Digests = field(init=False)
    states: tuple[tuple[int, ...] | None, ...] = field(init=False)  # of the files, before any block was read

    def __post_init__(self) -> None:
        object.__setattr__(self, "digests", Digests(len(self)))
        object.__setattr__(self, "states", tuple(map(self.source.state, range(len(self.file_rows)))))

    @cached_property
    def _blocks_before(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(-(-rows // self.block_rows) for rows in self.file_rows)])

    @cached_property
    def _rows_before(self) -> NDArray[np.int64]:
        return np.cumsum([0, *self.file_rows])

    def __len__(self) -> int:
        return int(self._blocks_before[-1])

    def number(self, key: tuple[int, int]) -> int:
        """Of a block among all."""
        return int(self._blocks_before[key[0]]) + key[1]

    def key(self, block: int) -> tuple[int, int]:
        file = int(np.searchsorted(self._blocks_before, block, side="right")) - 1
        return file, block - int(self._blocks_before[file])

    def rows(self, block: int) -> int:
        file, number = self.key(block)
        return min(self.block_rows, self.file_rows[file] - number * self.block_rows)

    def read(
        self,
        columns: Sequence[str],
        start: int = 0,
        stop: int | None = None,
        *,
        wrapped: pa.Table | None = None,
        below: bool = True,
    ) -> Iterator[Window]:
        """The blocks from `start` to before `stop`.

        Args:
            wrapped: the row that stands below the last one of the log.
            below: whether the row below is wanted, for which one block more is read.
        """
        stop = len(self) if stop is None else stop
        tables = self._tables(columns, start)
        after = next(tables)
        for block in range(start, stop):
            table, is_last = after, block == len(self) - 1
            if not is_last and (below or block + 1 < stop):
                after = next(tables)
            under = wrapped if is_last else after
            both = [table, under.select(columns).slice(0, 1)] if below and under is not None else [table]
            file, number = key = self.key(block)
            first = int(self._rows_before[file]) + number * self.block_rows
            yield Window(block, key, first, len(table), is_last, pa.concat_tables(both))

    def missing(self, column: str) -> int:
        """Missing entries of a column in the whole log."""
        return sum(table[column].null_count for table in self._tables([column], 0))

    def _tables(self, columns: Sequence[str], block: int) -> Iterator[pa.Table]:
        """From this block on."""
        while block < len(self):
            file, number = self.key(block)
            for table in self.source.batches(file, columns, number * self.block_rows):
                if self.key(block)[0] != file or len(table) != self.rows(block):
                    raise self.changed(file, "another number of rows")
                is_untouched = self.states[file] is not None and self.states[file] == self.source.state(file)
                for name in columns:
                    if is_untouched and self.digests.is_known(name, block):
                        continue
                    if not self.digests.agree(name, block, table[name]):
                        raise self.changed(file, f'other entries of column "{name}"')
                yield table
                block += 1
                if block == len(self):
                    return
            if block < len(self) and self.key(block)[0] == file:
                raise self.changed(file, "another number of rows")

    def changed(self, file: int, got: str) -> ChangedError:
        name = (self.source.files or ())[file]
        return ChangedError(self.source.name, f"{got} in {name} than before", name)
