"""Sort a log that is larger than memory, so that it can be read in blocks."""

import fnmatch
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cesaro.data import labels
from cesaro.data.account import reject_empty
from cesaro.data.columns import Place
from cesaro.data.continuing import sorting
from cesaro.data.files import open_path
from cesaro.data.parts import Rows
from cesaro.data.roles import Chosen, Roles
from cesaro.data.sources import Source
from cesaro.errors import InputError
from cesaro.out_folder import OutFolder
from cesaro.progress import row_progress

PART_BYTES = 1 << 27  # sorted in memory at a time
_PARTS = 256  # files that are written at a time
_GROUP_BYTES = 1 << 26  # distributed over them at a time
_GROUP_ROWS = 1 << 18  # in a row group of the result
_GATHERED = 1 << 16  # ids before they are united
_TIMES = 1 << 10  # per block, for borders between parts


def sort(
    log: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    trajectory: str | None = None,
    time: str | None = None,
    force: bool = False,
    quiet: bool = True,
) -> int:
    """Write a log of Parquet, CSV or Arrow files as one Parquet file whose rows are sorted by (trajectory, time).

    Trajectories come in the order in which they first appear, rows of one time in the order in which they are. That is how
    a log is ordered in memory, so that the sorted log gives the same answers. All columns are kept. Rows are distributed to
    parts of about 128 MiB in `OUT.partial/` (larger ones above 32 GiB, so that there are 256 at most), which are sorted in
    memory one by one; a trajectory must fit in memory as a whole, and so must one id of each.

    Args:
        log: path or address of a file, a folder or a pattern.
        out: the Parquet file; it appears when it is complete.
        trajectory: the column of ids; None: the whole log is sorted by time.
        time: the column of times; None: the rows of a trajectory stay in their order.
        force: replace a Parquet file `out`.
        quiet: no progress bars.

    Returns:
        The number of rows.
    """
    source = open_path(os.fspath(log))
    for role, column in (("trajectory", trajectory), ("time", time)):
        if column is not None and column not in source.names:
            raise InputError(
                f'{source.name} must have the column "{column}" that {role}= names. Got {", ".join(source.names[:20])}; '
                "name one of these."
            )
    if trajectory is None and time is None:
        raise InputError("A log is sorted by trajectory=, time= or both. Got neither; name a column.")
    if source.files is None:
        raise InputError(f"{source.name} must be Parquet, CSV or Arrow files to be sorted. Got another format.")
    with _Sorted(out, os.fspath(log), force=force) as folder:
        return _Sorter(source, trajectory, time, folder.path, quiet).run(folder)


class _Sorted(OutFolder):
    """The result, and `OUT.partial/` with the parts."""

    def __init__(self, out: str | os.PathLike[str], log: str, *, force: bool) -> None:
        super().__init__(out, force=force)
        self.log = os.path.abspath(log)

    def check(self) -> None:
        parent = self.out.parent
        if self.out.suffix != ".parquet":
            raise InputError(f"out must end in .parquet. Got {self.out.name!r}.")
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            raise InputError(
                f"'{parent}', which would hold the sorted log, is no folder one can write to; create it or mend that."
            )
        inside = os.path.isdir(self.log) and self.out.is_relative_to(os.path.realpath(self.log))
        if inside or str(self.out) == self.log or fnmatch.fnmatch(str(self.out), self.log):
            raise InputError(f"'{self.out}' must not be part of the log that is sorted; choose another file (--out).")
        if not os.path.lexists(self.out):
            return
        if not self.force:
            raise InputError(f"'{self.out}' exists; add --force to replace it, or choose another file (--out).")
        if not _is_parquet(self.out):
            raise InputError(
                f"'{self.out}' is no Parquet file, so that --force leaves it alone; choose another file (--out)."
            )

    def prepare(self) -> None:
        """Parts of a run that was interrupted are of no use."""
        for file in self.path.iterdir():
            if not file.name.startswith("part-") and file.name != "sorted.parquet":
                raise InputError(f"'{file}' was not written by sort; choose another file (--out), or remove it.")
            file.unlink()

    def appear(self, file: Path) -> None:
        with file.open("rb") as written:
            os.fsync(written.fileno())
        self.check()  # again: hours may have passed
        os.replace(file, self.out)
        shutil.rmtree(self.path)


def _is_parquet(file: Path) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as data:
        return data.read(4) == b"PAR1"


class _Sorter:
    def __init__(self, source: Source, trajectory: str | None, time: str | None, folder: Path, quiet: bool) -> None:
        self._source, self._trajectory, self._time = source, trajectory, time
        self._folder, self._quiet = folder, quiet
        names = tuple(name for name in source.names if name != trajectory)
        roles = Roles(Chosen(names), Chosen(()), source.names[0], trajectory=trajectory)
        types = source.piece_types(roles, {}, checked=False)
        self._files = tuple(zip(source.files or (), source.file_rows()))
        self._rows = sum(rows for _, rows in self._files)
        reject_empty(source.name, self._rows)
        found = pa.schema([types.field(name) for name in source.names])
        self._result = found if source.types is None else source.types
        self._plain = pa.schema([field.with_type(_plain(field.type)) for field in self._result])

    def run(self, folder: _Sorted) -> int:
        block = next(self._blocks(self._source.names)).cast(self._plain)
        rows = max(1, PART_BYTES * len(block) // max(1, block.nbytes), -(-self._rows // _PARTS))
        keys: _Keys
        if self._trajectory is not None:
            keys = _Trajectories(self._trajectory, self._place, rows)
        else:
            keys = _Times(self._time or "", self._place, rows)
        first = 0
        with row_progress("structure", total=self._rows, quiet=self._quiet) as advance:
            for table in self._blocks([keys.column]):
                keys.look(table, first)
                first += len(table)
                advance(len(table))
        files = [self._folder / f"part-{number:03d}.arrows" for number in range(keys.finish())]
        self._distribute(keys, files)
        result = self._folder / "sorted.parquet"
        with (
            row_progress("sorting", total=self._rows, quiet=self._quiet) as advance,
            pq.ParquetWriter(result, self._result, write_page_checksum=True, version="2.6") as writer,
        ):
            for file in files:
                table = self._sorted(keys, file)
                writer.write_table(table, row_group_size=_GROUP_ROWS)
                file.unlink()
                advance(len(table))
        folder.appear(result)
        return self._rows

    def _place(self, column: str, first: int) -> Place:
        return Place(self._source.name, column, self._files, first=first)

    def _blocks(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        for file in range(len(self._files)):
            yield from self._source.batches(file, columns)

    def _groups(self) -> Iterator[pa.Table]:
        """All columns, some blocks at a time."""
        held: list[pa.Table] = []
        for block in self._blocks(self._source.names):
            held.append(self._with_gaps(block.cast(self._plain)))
            if sum(table.nbytes for table in held) >= _GROUP_BYTES:
                yield pa.concat_tables(held)
                held = []
        if held:
            yield pa.concat_tables(held)

    def _with_gaps(self, table: pa.Table) -> pa.Table:
        """Empty text of a CSV file is a missing entry, which Parquet can say."""
        if self._source.types is not None:
            return table
        for place, field in enumerate(table.schema):
            if pa.types.is_string(field.type):
                column = table.column(place)
                gaps = pc.equal(column, "")
                table = table.set_column(place, field, pc.if_else(gaps, pa.scalar(None, field.type), column))
        return table

    def _distribute(self, keys: "_Keys", files: Sequence[Path]) -> None:
        codec = "lz4" if pa.Codec.is_available("lz4") else None
        options = pyarrow.ipc.IpcWriteOptions(compression=codec)
        first = 0
        with (
            row_progress("distributing", total=self._rows, quiet=self._quiet) as advance,
            ExitStack() as stack,
        ):
            schema = self._plain.append(pa.field(_KEY, pa.int64()))
            writers = [
                stack.enter_context(pyarrow.ipc.new_stream(str(file), schema, options=options)) for file in files
            ]
            for table in self._groups():
                codes, parts = keys.codes(table, first)
                table = table.append_column(_KEY, pa.array(codes))
                order = np.argsort(parts, kind="stable")
                counts = np.bincount(parts, minlength=len(files))
                stops = np.cumsum(counts)
                for part in np.flatnonzero(counts):
                    rows = order[stops[part] - counts[part] : stops[part]]
                    writers[part].write_table(table.take(pa.array(rows)))
                first += len(table)
                advance(len(table))

    def _sorted(self, keys: "_Keys", file: Path) -> pa.Table:
        """One part in order, with the types of the log."""
        with pyarrow.ipc.open_stream(str(file)) as stream:
            table = stream.read_all()
        codes, table = table[_KEY].to_numpy(), table.drop_columns([_KEY])
        time = None if self._time is None else labels.times(table[self._time], self._place(self._time, 0))
        order = sorting(codes, time)
        table = table.take(pa.array(order))
        columns = [_typed(column, field.type) for column, field in zip(table.columns, self._result)]
        return pa.Table.from_arrays(columns, schema=self._result)


_KEY = "cesaro sort key"


class _Keys(ABC):
    """Which part a row goes to, by one column, and what it is sorted by there."""

    def __init__(self, column: str, place: Any, rows: int) -> None:
        self.column = column
        self._place, self._part_rows = place, rows

    @abstractmethod
    def look(self, table: pa.Table, first: int) -> None:
        """At the column of some rows, which begin at row `first`."""

    @abstractmethod
    def finish(self) -> int:
        """The number of parts, once all rows were looked at."""

    @abstractmethod
    def codes(self, table: pa.Table, first: int) -> tuple[Rows, Rows]:
        """Per row a code that orders trajectories, and the part that it goes to."""


class _Trajectories(_Keys):
    """Trajectories in order of first appearance, so many to a part that its rows have about the size wanted."""

    def __init__(self, column: str, place: Any, rows: int) -> None:
        super().__init__(column, place, rows)
        self._ids: list[pa.Array] = []
        self._counts: list[Rows] = []
        self._known = 0
        self._parts: Rows = np.zeros(0, dtype=np.int64)

    def look(self, table: pa.Table, first: int) -> None:
        found = labels.identities(table[self.column], self._place(self.column, first))
        self._ids.append(found.values)
        self._counts.append(np.bincount(found.codes, minlength=len(found.values)))
        if sum(map(len, self._ids)) > 2 * self._known + _GATHERED:
            self._unite()

    def _unite(self) -> None:
        found = pa.concat_arrays(self._ids).dictionary_encode()
        counts = np.zeros(len(found.dictionary), dtype=np.int64)
        np.add.at(counts, found.indices.to_numpy(), np.concatenate(self._counts))
        self._ids, self._counts, self._known = [found.dictionary], [counts], len(counts)

    def finish(self) -> int:
        self._unite()
        before = np.cumsum(self._counts[0]) - self._counts[0]
        _, self._parts = np.unique(before // self._part_rows, return_inverse=True)
        return int(self._parts[-1]) + 1

    def codes(self, table: pa.Table, first: int) -> tuple[Rows, Rows]:
        found = labels.identities(table[self.column], self._place(self.column, first))
        known = pc.index_in(found.values, value_set=self._ids[0]).cast(pa.int64()).to_numpy()
        codes = known[found.codes]
        return codes, self._parts[codes]


class _Times(_Keys):
    """One trajectory; parts are stretches of time."""

    def __init__(self, column: str, place: Any, rows: int) -> None:
        super().__init__(column, place, rows)
        self._seen: list[NDArray[Any]] = []
        self._rows = 0
        self._borders: NDArray[Any] = np.zeros(0)

    def look(self, table: pa.Table, first: int) -> None:
        time = labels.times(table[self.column], self._place(self.column, first))
        self._seen.append(time[:: -(-len(time) // _TIMES)])
        self._rows += len(time)

    def finish(self) -> int:
        seen = np.sort(np.concatenate(self._seen))
        parts = -(-self._rows // self._part_rows)
        self._borders = np.unique(seen[np.arange(1, parts) * len(seen) // parts])
        return len(self._borders) + 1

    def codes(self, table: pa.Table, first: int) -> tuple[Rows, Rows]:
        time = labels.times(table[self.column], self._place(self.column, first))
        parts = np.searchsorted(self._borders, time, side="right")
        return np.zeros(len(time), dtype=np.int64), parts


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without a dictionary, which differs from block to block."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _typed(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_dictionary(kind):
        column = column.dictionary_encode()
        indices = [chunk.indices.cast(kind.index_type) for chunk in column.chunks]
        chunks = [
            pa.DictionaryArray.from_arrays(index, chunk.dictionary, ordered=kind.ordered)
            for index, chunk in zip(indices, column.chunks)
        ]
        return pa.chunked_array(chunks, kind)
    return column
