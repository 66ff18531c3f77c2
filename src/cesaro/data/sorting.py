"""Sort a log that is larger than memory, so that it can be read in blocks."""

import fnmatch
import glob
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cesaro.data import labels
from cesaro.data.blocks import BlockLayout, Integers
from cesaro.data.columns import ColumnPlace, shown
from cesaro.data.continuing import sorting
from cesaro.data.notes import reject_empty
from cesaro.data.sources.base import ChangedError, every_column
from cesaro.data.sources.files import FilesSource
from cesaro.data.sources.formats import IN_PIECES, open_path
from cesaro.data.sources.places import place
from cesaro.data.windows import Window, Windows
from cesaro.errors import InputError
from cesaro.folders import OutFolder
from cesaro.progress import row_progress
from cesaro.text import Sentence, argument, is_address

PART_BYTES = 1 << 27  # sorted in memory at a time
_PARTS = 256  # files that are written at a time
_GROUP_BYTES = 1 << 26  # distributed over them at a time
_GROUP_ROWS = 1 << 18  # in a row group of the result
_IDS_BEFORE_UNION = 1 << 16  # collected before they are united
_TIMES = 1 << 10  # per block, for borders between parts
_KEY = "key"  # the last column of a part, known by its place: the log may have one of this name
_WRITTEN: dict[str, Any] = {"write_page_checksum": True, "version": "2.6"}
_MARK = b"cesaro-sorted"  # in the metadata of a file that we wrote


def sort(
    log: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    trajectory: str | None = None,
    time: str | None = None,
    force: bool = False,
    skip_bad_files: bool = False,
    quiet: bool = True,
    tell: Callable[[str], object] = print,
) -> int:
    """Write a log of Parquet, CSV or Arrow files as one Parquet file whose rows are sorted by (trajectory, time).

    Trajectories come in the order in which they first appear, rows of one time in the order in which they are. That is how
    a log is ordered in memory, so that the sorted log gives the same answers. All columns are kept. Rows are distributed to
    parts of about 128 MiB in `OUT.partial/` (larger ones above 32 GiB, so that there are 256 at most), which are sorted in
    memory one by one; a trajectory must fit in memory as a whole, and so must one id of each. Whole numbers of a CSV file
    that no int64 holds are kept as text.

    Args:
        log: path or address of a file, a folder or a pattern.
        out: the Parquet file; it appears when it is complete.
        trajectory: the column of ids; None: the whole log is sorted by time.
        time: the column of times; None: the rows of a trajectory stay in their order.
        force: replace a file `out` that was sorted by this function.
        skip_bad_files: whether files that cannot be read are left out.
        quiet: no progress bars.
        tell: is called with each sentence on how the log was read, such as which files were left out.

    Returns:
        The number of rows.
    """
    source = open_path(os.fspath(log), skip_bad_files)
    for role, column in (("trajectory", trajectory), ("time", time)):
        if column is not None and column not in source.names:
            raise InputError.of(
                '{log} must have the column "{column}" that {role} names. Got {names}; name one of these.',
                log=source.name,
                column=column,
                role=argument(role),
                names=", ".join(source.names[:20]),
            )
    if trajectory is None and time is None:
        raise InputError.of(
            "A log is sorted by {trajectory}, {time} or both. Got neither; name a column.",
            trajectory=argument("trajectory"),
            time=argument("time"),
        )
    if not isinstance(source, FilesSource):
        raise InputError(f"{source.name} must be {IN_PIECES} files to be sorted. Got another format.")
    with SortedFile(
        out, os.fspath(log), [file.path for file in source.files if not file.is_remote], force=force
    ) as folder:
        sorter = _Sorter(source, trajectory, time, folder, quiet)
        for note in source.notes:
            tell(note)
        return sorter.run()


class SortedFile(OutFolder):
    """The result, and `OUT.partial/` with the parts, which go with the work, whatever its end.

    Args:
        log: as it was given.
        files: where those of its files lie that are on this machine.
    """

    WRITER = "sort"
    WRITTEN_BY = "sort"
    ENDING = ".parquet"

    def __init__(self, out: str | os.PathLike[str], log: str, files: Sequence[str], *, force: bool) -> None:
        super().__init__(out, force=force)
        if is_address(log):
            found = place(log) if log.lower().startswith("file:") else None
            log = "" if found is None else os.path.join(found.path, found.pattern)
        self._log, self._files = log, files

    def is_ours(self) -> bool:
        return has_mark(self.out, _MARK)

    def check(self) -> None:
        if self._is_part():
            raise InputError(f"'{self.out}' must not be part of the log that is sorted; choose another file (--out).")
        super().check()

    def _is_part(self) -> bool:
        """Whether `OUT` is a file of the log, or would be one when the log is read again; links lead nowhere else."""
        out = {str(self.out), _in_real_folder(self.out), os.path.realpath(self.out)}
        if any(out & {os.path.abspath(file), _in_real_folder(file), os.path.realpath(file)} for file in self._files):
            return True
        if os.path.isdir(self._log):
            folder = os.path.realpath(self._log)
            return any(Path(path).is_relative_to(folder) for path in out)
        if not self._log or os.path.exists(self._log):
            return False
        folders = {os.path.realpath(os.path.dirname(file)) for file in self._files}
        beside = os.path.dirname(_in_real_folder(self.out)) in folders
        if beside and fnmatch.fnmatch(self.out.name, os.path.basename(self._log)):
            return True
        parts = Path(os.path.abspath(self._log)).parts
        fixed = list(takewhile(lambda part: not glob.has_magic(part), parts))
        rest = [part for part in parts[len(fixed) :] if part != "**"]  # a star stands for folders as well here
        patterns = [
            os.path.join(start, *rest) for start in (os.path.join(*fixed), os.path.realpath(os.path.join(*fixed)))
        ]
        return any(fnmatch.fnmatch(path, pattern) for path in out for pattern in patterns)


def _in_real_folder(file: str | Path) -> str:
    """The path of a file, which may itself be a link, by the real name of its folder."""
    return os.path.join(os.path.realpath(os.path.dirname(file)), os.path.basename(file))


def has_mark(file: Path, mark: bytes) -> bool:
    """Whether the metadata of a Parquet file have an entry of this name."""
    try:
        return mark in (pq.read_schema(file).metadata or {})
    except (OSError, pa.ArrowException):
        return False


class _Sorter:
    def __init__(
        self, source: FilesSource, trajectory: str | None, time: str | None, folder: SortedFile, quiet: bool
    ) -> None:
        self._source, self._trajectory, self._time = source, trajectory, time
        self._folder, self._quiet = folder, quiet
        names = [name for name in source.names if name != trajectory]
        roles = replace(every_column(names or source.names), trajectory=trajectory, time=time)
        types = source.piece_types(roles, {}, checked=False)
        rows = source.file_rows()  # before the names: a file may be left out here
        self._files = tuple(zip(source.files.names, rows))
        self._rows = sum(rows)
        reject_empty(source.name, self._rows)
        self._windows = Windows(source, BlockLayout(rows))
        found = source.types or pa.schema([types.field(name) for name in source.names])
        self._plain = pa.schema([field.with_type(_plain(field.type)) for field in found])
        metadata = {**(found.metadata or {}), _MARK: b"1"}
        self._result = pa.schema([field.with_type(_stored(field.type)) for field in found], metadata)

    def run(self) -> int:
        block = next(self._blocks(self._source.names)).table
        self._reject_types(block.slice(0, 1))
        block = block.cast(self._plain)
        rows = max(1, PART_BYTES * len(block) // max(1, block.nbytes), -(-self._rows // _PARTS))
        keys: _Keys
        if self._trajectory is not None:
            starts = np.cumsum([0, *(count for _, count in self._files)])
            keys = _Trajectories(self._trajectory, self._place, rows, starts[list(self._source.holes)])
        else:
            keys = _Times(self._time or "", self._place, rows)
        with row_progress("structure", total=self._rows, quiet=self._quiet) as advance:
            for window in self._blocks(list(dict.fromkeys(filter(None, (self._trajectory, self._time))))):
                keys.look(window.table, window.first)
                self._reject_times(window.table, window.first)
                advance(window.rows)
        if isinstance(keys, _Trajectories) and self._time is None:
            keys.reject_torn()
        files = self._folder.files([f"part-{number:03d}.arrows" for number in range(keys.finish())])
        self._distribute(keys, files)
        result = self._folder.file("sorted.parquet")
        with (
            row_progress("sorting", total=self._rows, quiet=self._quiet) as advance,
            pq.ParquetWriter(result, self._result, **_WRITTEN) as writer,
        ):
            for file in files:
                table = self._sorted(file)
                writer.write_table(table, row_group_size=_GROUP_ROWS)
                file.unlink()
                advance(len(table))
        self._folder.appear(result)
        return self._rows

    def _place(self, column: str, first: int) -> ColumnPlace:
        missing = partial(self._windows.missing, column)
        return ColumnPlace(
            self._source.name, column, self._files, first=first, missing=missing, written=self._source.written
        )

    def _blocks(self, columns: Sequence[str]) -> Iterator[Window]:
        """Some columns of all rows, as many as there were and of the types that they had."""
        types = [self._plain.field(column).type for column in columns]
        for window in self._windows.read(columns, below=False):
            if list(map(_plain, window.table.schema.types)) != types:
                raise ChangedError(self._source.name, "other types than before", "")
            yield window

    def _reject_types(self, table: pa.Table) -> None:
        """Refuse a type that cannot be written before hours have passed."""
        for field, plain, stored in zip(table.schema, self._plain, self._result):
            one = pa.schema([plain])
            try:
                taken = table.select([field.name]).cast(one).take(pa.array([0]))
                with pyarrow.ipc.new_stream(pa.BufferOutputStream(), one) as stream:
                    stream.write_table(taken)
                column = _typed(taken.column(0), stored.type)
                pq.write_table(pa.table([column], pa.schema([stored])), pa.BufferOutputStream(), **_WRITTEN)
            except MemoryError:
                raise
            except pa.ArrowException:
                kind = f"type {field.type}"
                raise self._place(field.name, 0).error(
                    "must have a type that can be sorted and written", kind, "convert it to numbers, text or lists"
                ) from None

    def _reject_times(self, table: pa.Table, first: int) -> None:
        if self._time is not None:
            labels.times(table[self._time], self._place(self._time, first))

    def _groups(self) -> Iterator[tuple[int, pa.Table]]:
        """All columns, some blocks at a time, and the row that they begin with."""
        held: list[pa.Table] = []
        first = 0
        for window in self._blocks(self._source.names):
            self._reject_times(window.table, window.first)
            held.append(window.table.cast(self._plain))
            if sum(table.nbytes for table in held) >= _GROUP_BYTES or window.is_last:
                yield first, pa.concat_tables(held)
                first, held = window.first + window.rows, []

    def _distribute(self, keys: "_Keys", files: Sequence[Path]) -> None:
        codec = "lz4" if pa.Codec.is_available("lz4") else None
        options = pyarrow.ipc.IpcWriteOptions(compression=codec)
        with (
            row_progress("distributing", total=self._rows, quiet=self._quiet) as advance,
            ExitStack() as stack,
        ):
            schema = self._plain.append(pa.field(_KEY, pa.int64()))
            writers = [
                stack.enter_context(pyarrow.ipc.new_stream(str(file), schema, options=options)) for file in files
            ]
            for first, table in self._groups():
                found = keys.codes(table, first)
                if found is None:
                    raise ChangedError(self._source.name, "other ids than before", "")
                codes, parts = found
                table = table.append_column(_KEY, pa.array(codes))
                order = np.argsort(parts, kind="stable")
                counts = np.bincount(parts, minlength=len(files))
                stops = np.cumsum(counts)
                for part in np.flatnonzero(counts):
                    rows = order[stops[part] - counts[part] : stops[part]]
                    writers[part].write_table(table.take(pa.array(rows)))
                advance(len(table))

    def _sorted(self, file: Path) -> pa.Table:
        """One part in order, with the types of the log."""
        with pyarrow.ipc.open_stream(str(file)) as stream:
            table = stream.read_all()
        last = table.num_columns - 1
        codes, table = table.column(last).to_numpy(), table.remove_column(last)
        time = None if self._time is None else labels.times(table[self._time], self._place(self._time, 0))
        order = sorting(codes, time)
        table = table.take(pa.array(order))
        columns = [_typed(column, field.type) for column, field in zip(table.columns, self._result)]
        return pa.Table.from_arrays(columns, schema=self._result)


class _Keys(ABC):
    """The keys of rows by one column: the part that a row goes to, and what it is sorted by there."""

    def __init__(self, column: str, place: Any, rows: int) -> None:
        self.column = column
        self._place, self._part_rows = place, rows

    @abstractmethod
    def look(self, table: pa.Table, first: int) -> None:
        """Look at the column of some rows, which begin at row `first`."""

    @abstractmethod
    def finish(self) -> int:
        """The number of parts, once all rows were looked at."""

    @abstractmethod
    def codes(self, table: pa.Table, first: int) -> tuple[Integers, Integers] | None:
        """Per row a code that orders trajectories, and the part that it goes to; None: some row was not looked at."""


class _Trajectories(_Keys):
    """Trajectories in order of first appearance, so many to a part that its rows have about the size wanted.

    Args:
        holes: rows before which a file was left out.
    """

    def __init__(self, column: str, place: Any, rows: int, holes: Integers) -> None:
        super().__init__(column, place, rows)
        self._holes = holes
        self._spans: list[Integers] = []  # per id the holes before its first row and before its last, `[ids, 2]`
        self._ids: list[pa.Array] = []
        self._counts: list[Integers] = []
        self._known = 0
        self._parts: Integers = np.zeros(0, dtype=np.int64)

    def look(self, table: pa.Table, first: int) -> None:
        found = labels.identities(table[self.column], self._place(self.column, first))
        self._ids.append(found.values)
        self._counts.append(np.bincount(found.codes, minlength=len(found.values)))
        self._spans.append(np.full((len(found.values), 2), np.searchsorted(self._holes, first, side="right")))
        if sum(map(len, self._ids)) > 2 * self._known + _IDS_BEFORE_UNION:
            self._unite()

    def _unite(self) -> None:
        found = pa.concat_arrays(self._ids).dictionary_encode()
        counts = np.zeros(len(found.dictionary), dtype=np.int64)
        codes, spans = found.indices.to_numpy(), np.concatenate(self._spans)
        np.add.at(counts, codes, np.concatenate(self._counts))
        last = np.zeros(len(counts), dtype=np.int64)
        np.maximum.at(last, codes, spans[:, 1])
        first = np.copy(last)
        np.minimum.at(first, codes, spans[:, 0])
        self._ids, self._counts, self._known = [found.dictionary], [counts], len(counts)
        self._spans = [np.stack([first, last], axis=1)]

    def finish(self) -> int:
        self._unite()
        before = np.cumsum(self._counts[0]) - self._counts[0]
        _, self._parts = np.unique(before // self._part_rows, return_inverse=True)
        return int(self._parts[-1]) + 1

    def reject_torn(self) -> None:
        """Refuse what goes on after rows that are missing, where no time will show that they are."""
        self._unite()
        torn = self._spans[0][:, 0] < self._spans[0][:, 1]
        if torn.any():
            raise self._place(self.column, 0).error(
                "must end its trajectories before a file that is left out, because nothing would show the gap in them",
                f"{shown(self._ids[0][int(np.argmax(torn))])} on both sides of one",
                Sentence("give {time}, or correct the file", time=argument("time")),
            )

    def codes(self, table: pa.Table, first: int) -> tuple[Integers, Integers] | None:
        found = labels.identities(table[self.column], self._place(self.column, first))
        known = pc.index_in(found.values, value_set=self._ids[0])
        if known.null_count:
            return None
        codes = known.cast(pa.int64()).to_numpy()[found.codes]
        return codes, self._parts[codes]


class _Times(_Keys):
    """One trajectory; parts are spans of time."""

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

    def codes(self, table: pa.Table, first: int) -> tuple[Integers, Integers]:
        time = labels.times(table[self.column], self._place(self.column, first))
        parts = np.searchsorted(self._borders, time, side="right")
        return np.zeros(len(time), dtype=np.int64), parts


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without a dictionary, which differs from block to block, and without views, which cannot be taken apart."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type in the result; all files together may have more labels than the indices of one can tell apart."""
    return pa.dictionary(pa.int32(), _plain(kind), kind.ordered) if pa.types.is_dictionary(kind) else _plain(kind)


def _typed(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_dictionary(kind):
        chunks = [
            pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary, ordered=kind.ordered)
            for chunk in column.dictionary_encode().chunks
        ]
        return pa.chunked_array(chunks, kind)
    return column
