"""Logs in files of one format and one schema, read as a whole or in pieces, here or over a network.

`FileSet` holds the files that can be read, `FolderColumns` the columns that stand in names of folders, and `FilesSource` makes
one log of both. A format is a subclass, whose docstring says what it needs; `LinesSource` has what any format of text needs:
chunks of whole lines, compression, and going on in the middle of a file.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import ClassVar, NamedTuple, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from cesaro.data import blocks
from cesaro.data.columns import wide
from cesaro.data.roles import Roles
from cesaro.data.settings import carried_settings
from cesaro.data.sources.base import (
    PLACES,
    ChangedError,
    Files,
    Source,
    UnreadableError,
    check_names,
    every_column,
    reading,
)
from cesaro.data.sources.places import File, resumed, retried
from cesaro.errors import InputError
from cesaro.text import Sentence, Wording, visible

_NAMED = 3  # files that a note names
CHUNK = 1 << 24  # bytes of text that are read at once
# How names of compressed files of text end, behind the ending of their format, and Arrow's name for it.
COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_RATIO = 4  # bytes of text per compressed byte, about
_MISSING = "__HIVE_DEFAULT_PARTITION__"  # a folder whose files have no entry in its column
_WHOLE = re.compile(r"[+-]?\d{1,18}")

T = TypeVar("T")


class FileSet:
    """The files of a log, in the order of their rows, less those that cannot be read and were left out.

    Args:
        log: what messages call them together.
        what: a file that can be read, in words.
        skips_bad: whether a file that cannot be read is left out; else it is an error.

    Attributes:
        skipped: files that were left out: "name: reason".
    """

    def __init__(self, log: str, files: Sequence[File], what: str, skips_bad: bool) -> None:
        self._log, self._what, self.skips_bad = log, what, skips_bad
        self._places = {file.path: place for place, file in enumerate(files)}  # before any was left out
        self._left = list(files)
        self.skipped: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[File]:
        return iter(tuple(self._left))  # some may be left out meanwhile

    def __getitem__(self, number: int) -> File:
        return self._left[number]

    def __len__(self) -> int:
        return len(self._left)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the files, in order."""
        return tuple(file.name for file in self._left)

    @property
    def holes(self) -> tuple[int, ...]:
        """Places before which a file was left out."""
        steps = np.diff([self._places[file.path] for file in self._left], prepend=-1)
        return tuple(map(int, np.flatnonzero(steps > 1)))

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence on the files that were left out."""
        if not self.skipped:
            return ()
        shown = named([f"{name} ({reason})" for name, _, reason in (text.partition(": ") for text in self.skipped)])
        count = len(self.skipped) + len(self._left)
        return (f"Left out {len(self.skipped)} of {count} files that cannot be read: {shown}.",)

    def tried(self, file: File, use: Callable[[], T]) -> T | None:
        """The result of `use`; None where the file cannot be read and is left out."""
        try:
            if file.obstacle:
                raise self._hindered(file)
            with self.reading(file):
                return retried(use) if file.is_remote else use()
        except UnreadableError as error:
            if not self.skips_bad:
                raise
            self._leave_out(file, error)
            return None

    @contextmanager
    def reading(self, file: File) -> Iterator[None]:
        """Whatever goes wrong names the file, and how to go on without it where there are others."""
        remedy = self._or_skip("check that it is complete and has the format its name says")
        try:
            with reading(file.name, self._what, remedy=remedy, address=file.address):
                yield
        except KeyError:  # it had these columns when it was opened
            raise ChangedError(self._log, f"other columns in {file.name} than before", file.name) from None

    def _or_skip(self, remedy: str) -> str:
        if len(self._left) == 1:
            return remedy
        skipped = Wording("skip_bad_files=True, --skip-bad-files", "--skip-bad-files")
        return Sentence("{remedy}, or leave such files out ({skipped})", remedy=remedy, skipped=skipped)

    def _hindered(self, file: File) -> UnreadableError:
        sentence = "{name} must be readable, because it may hold a part of the log. Got {obstacle}; {remedy}."
        remedy = self._or_skip("repair or move it")
        said = Sentence(sentence, name=visible(file.name), obstacle=file.obstacle, remedy=remedy)
        return UnreadableError(said, file.obstacle)

    def _leave_out(self, file: File, error: UnreadableError) -> None:
        self._left.remove(file)
        self.skipped = (*self.skipped, f"{file.name}: {error.reason}")
        if not self._left:
            raise InputError.of(
                "{log} must hold a file that can be read. Got {count} that cannot, the last because: {reason}",
                log=self._log,
                count=str(len(self.skipped)),
                reason=error.message,
            ) from None


class FolderColumns:
    """Columns that stand in the names of folders, `agent=1/…`, and in no file: whole numbers, or text as a dictionary.

    Attributes:
        types: by the names of the columns that every file has.
        unshared: keys of folders that are no columns, because some files lack them.
    """

    def __init__(self, files: Sequence[File], names: Sequence[str]) -> None:
        found = {file.path: _folder_keys(file) for file in files}
        every = dict.fromkeys(key for keys in found.values() for key in keys if key not in names)
        self._entries = {
            key: {path: keys[key] for path, keys in found.items()}
            for key in every
            if all(key in keys for keys in found.values())
        }
        self.unshared = [key for key in every if key not in self._entries]
        self.types = {
            key: pa.int64()
            if all(entry is None or _WHOLE.fullmatch(entry) for entry in entries.values())
            else pa.dictionary(pa.int32(), pa.string())
            for key, entries in self._entries.items()
        }

    def column(self, name: str, file: File, rows: int) -> pa.Array:
        """One of these columns, for rows of a file, all of which have the same entry."""
        kind, entry = self.types[name], self._entries[name][file.path]
        if entry is None:
            return pa.array([None] * rows, kind)
        if pa.types.is_int64(kind):
            return pa.array(np.full(rows, int(entry), dtype=np.int64))
        return pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), [entry])

    def described(self, columns: Sequence[str], own: pa.Schema) -> pa.Schema:
        """Fields of columns, some of which stand in the files; `own` has those."""
        fields = [pa.field(name, self.types[name]) if name in self.types else own.field(name) for name in columns]
        return pa.schema(fields, own.metadata)

    def completed(self, file: File, table: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Rows of a file with these columns beside its own, and with wide codes."""
        if any(wide(kind) is not kind for kind in table.schema.types):
            table = table.cast(_widened(table.schema))
        for name in columns:
            if name in self.types:
                table = table.append_column(name, self.column(name, file, len(table)))
        return table.select(columns)


def _folder_keys(file: File) -> dict[str, str | None]:
    parts = [part.partition("=") for part in file.name.split("/")[:-1]]
    return {
        unquote(key): None if value == _MISSING else unquote(value) for key, equals, value in parts if key and equals
    }


class Header(NamedTuple):
    """Opening a file tells its columns, and its rows where that is known before it is read."""

    schema: pa.Schema
    rows: int | None = None


class FilesSource(Source):
    """One or several files of one schema, in order, which can be read in pieces.

    `piece_types` comes first then: it settles the types of the columns, and which files can be read where broken ones shall be
    left out. The source can be pickled before and after.

    A format whose files tell the types of their columns, such as Parquet, is a subclass with `what`, `_header` and `_pieces`.
    Where it can do better it overrides `_whole` (a file in one piece) and `_types` (the types that `_pieces` gives, if not those
    of the header).

    One whose files do not, such as CSV, sets `is_typed` to False (`LinesSource` has), and `_header` gives the type null to
    every column. It finds types by a pass over all files, within `reading` and after `_settle`, which leaves out those that
    cannot be read, and keeps in `_rows` how many rows it met. As only the data tell, it overrides what asks for types:
    `table` and `piece_types`, with the same types in both; `_count`, which `_settle` calls before there are any; `head`,
    `_excerpt` and `nbytes`, which come before such a pass; `_some_column`, if `_pieces` reads only columns whose types were
    found. Text has `written`, so that messages name lines.

    A subclass may use `files`, `_columns` (the columns of each file, in its order), `_rows` (rows that are known), both by
    the path of the file; `_schema` (that of all headers, in the order of the first) and `_folders` (the columns that stand in
    names of folders, which `_own` takes away and `_folders.completed` adds). Fields of its own are set before
    `super().__init__`, which calls `_header`. What `_header` and `_pieces` raise is turned into one sentence by `reading`: a
    ValueError with the reason is enough. Either may be called again where a request over a network failed.

    Args:
        name: what messages call them together.
        files: in the order of their rows.
        skip_bad_files: whether a file that cannot be read is left out, in `table` and in pieces alike.
        notes: sentences on how the files were found.

    Attributes:
        files: those that can be read.
    """

    what: ClassVar[str]  # a file that can be read, in words
    is_typed: ClassVar[bool] = True  # whether opening a file tells the types of its columns

    def __init__(
        self, name: str, files: Sequence[File], skip_bad_files: bool = False, notes: Sequence[str] = ()
    ) -> None:
        self.files = FileSet(name, files, self.what, skip_bad_files)
        self._found_notes = tuple(notes)
        self._rows: dict[str, int] = {}  # by the path of the file, like the next one
        self._columns: dict[str, list[str]] = {}  # in the order of the file
        self._verified: set[str] = set()
        self._schema = self._common_schema()
        self._folders = FolderColumns([file for file in files if not file.obstacle], self._schema.names)
        names = (*self._schema.names, *self._folders.types)
        super().__init__(name, names, carried_settings(name, self._schema.metadata))
        self.types = self._folders.described(names, self._schema) if self.is_typed else None

    def _common_schema(self) -> pa.Schema:
        """The schema of all files, each of which is opened once."""
        first: tuple[File, pa.Schema] | None = None
        for file in self.files:
            header = self.files.tried(file, partial(self._header, file))
            if header is None:
                continue
            self._columns[file.path] = header.schema.names
            check_names(file.name, header.schema.names)
            schema = _widened(header.schema)
            if first is None:
                first = file, schema
            else:
                _same_schema(*first, file, schema)
            if header.rows is not None:
                self._rows[file.path] = header.rows
        assert first is not None
        return first[1]

    @abstractmethod
    def _header(self, file: File) -> Header:
        """Columns and rows of one file; opens it."""

    @abstractmethod
    def _pieces(self, file: File, columns: list[str], start: int) -> Iterator[pa.RecordBatch]:
        """Some columns of one file from row `start`, in batches of any size."""

    @property
    def holes(self) -> tuple[int, ...]:
        return self.files.holes

    @property
    def num_rows(self) -> int | None:
        known = [self._rows.get(file.path) for file in self.files]
        return None if None in known else sum(filter(None, known))

    @property
    def notes(self) -> tuple[str, ...]:
        keys = ", ".join(f'"{visible(key)}"' for key in self._folders.unshared)
        unshared = f"The folders' names hold {keys}, which is not a column because not all files have it."
        return (*self._found_notes, *([unshared] if keys else []), *self.files.notes)

    def stamps(self) -> dict[str, str]:
        return {file.name: file.stamp() for file in self.files}

    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        columns = roles.columns()
        own, tables = self._own(columns), []
        for file in self.files:
            table = self.files.tried(file, partial(self._whole, file, own))
            if table is not None:
                tables.append(self._folders.completed(file, table, columns))
        with reading(self.name, "files of one schema"):
            return pa.concat_tables(tables, promote_options="default"), tuple(zip(self.files.names, map(len, tables)))

    def head(self, columns: Sequence[str], rows: int) -> pa.Table:
        own = self._own(columns)
        pieces = ((file, piece) for file in self.files for piece in self._pieces(file, own, 0))
        return first_rows((self._folders.completed(file, pa.table(piece), columns) for file, piece in pieces), rows)

    def _excerpt(self, rows: int) -> pa.Table:
        try:
            return self._some_rows(self.names, rows)
        except InputError:
            if any(
                file.is_remote for file in self.files
            ):  # a store that does not answer would be waited for again and again
                raise
            readable = [name for name in self.names if self._is_readable(name, rows)]
            if not readable:
                raise
            return self._some_rows(readable, rows)

    def _is_readable(self, column: str, rows: int) -> bool:
        try:
            self._some_rows([column], rows)
        except InputError:
            return False
        return True

    def _some_rows(self, columns: Sequence[str], rows: int) -> pa.Table:
        """Some columns: all rows, or contiguous ones at `PLACES` places where there are more than `rows`."""
        found = []
        counts = self.file_rows()
        if sum(counts) <= rows:
            return self.table(every_column(columns), {})[0]
        starts = np.linspace(0, max(0, sum(counts) - rows // PLACES), PLACES).astype(int)
        for start in starts.tolist():
            number = int(np.searchsorted(np.cumsum(counts), start, side="right"))
            file, within = self.files[number], start - sum(counts[:number])
            with self.files.reading(file):
                pieces = self._pieces(file, self._own(columns), within)
                table = first_rows((pa.table(piece) for piece in pieces), rows // PLACES)
            found.append(self._folders.completed(file, table, columns))
        return pa.concat_tables(found, promote_options="default")

    def piece_types(self, roles: Roles, kinds: Mapping[str, str], *, checked: bool = True) -> pa.Schema:
        """The columns of `roles` with the types that `batches` gives them, which are those of `table`.

        Without `checked`, text that is more likely a mistake than a label is taken as it is.
        """
        own = self._own(roles.columns())
        self._settle(own)
        return self._folders.described(roles.columns(), self._types(own))

    def file_rows(self) -> tuple[int, ...]:
        """Rows of each of `files`."""
        for file in self.files:
            if file.path not in self._rows:
                rows = self.files.tried(file, partial(self._count, file, [self.names[0]]))
                if rows is not None:
                    self._rows[file.path] = rows
        return tuple(self._rows[file.path] for file in self.files)

    def nbytes(self, roles: Roles) -> int:
        """About the bytes that `table` would hold."""
        columns = roles.columns()
        types = self._folders.described(columns, self._types(self._own(columns)))
        widths = {field.name: _width(field.type) for field in types}
        unknown = [name for name, width in widths.items() if width is None]
        known = sum(width for width in widths.values() if width is not None)
        return int((known + self._look(unknown)) * sum(self.file_rows()))

    def _look(self, columns: list[str]) -> float:
        """Bytes per row of some columns, from the first batch there is."""
        for file in self.files if columns else ():
            batch = self.files.tried(file, partial(self._first_batch, file, columns))
            if batch is not None:
                return batch.nbytes / len(batch)
        return 0.0

    def _first_batch(self, file: File, columns: list[str]) -> pa.RecordBatch | None:
        return next(self._pieces(file, columns, 0), None)

    def batches(self, file: int, columns: Sequence[str], start: int = 0) -> Iterator[pa.Table]:
        """Blocks of BLOCK_ROWS rows (the last may have fewer) of one file from row `start`, a multiple of BLOCK_ROWS.

        Values and types are those of `table`. A few blocks are held at most.
        """
        one = self.files[file]
        return (self._folders.completed(one, table, columns) for table in self._blocks(one, self._own(columns), start))

    def _own(self, columns: Sequence[str]) -> list[str]:
        """The columns that stand in the files, or another one, which tells the number of rows."""
        return [column for column in columns if column not in self._folders.types] or [self._some_column()]

    def _some_column(self) -> str:
        return str(self._schema.names[0])

    def _blocks(self, file: File, columns: list[str], start: int = 0) -> Iterator[pa.Table]:
        """Blocks of one file; where a request fails, the next try goes on at the block that it was for."""
        with self.files.reading(file):
            rows = blocks.BLOCK_ROWS
            yield from resumed(file, lambda row: in_blocks(self._pieces(file, columns, row), rows), start)

    def _whole(self, file: File, columns: list[str]) -> pa.Table:
        """All rows of a file, in some columns."""
        tables = list(self._blocks(file, columns))
        return pa.concat_tables(tables) if tables else self._types(columns).empty_table()

    def _settle(self, columns: list[str]) -> None:
        """Leave out the files that cannot be read, if that is wanted."""
        if self.files.skips_bad and not self._verified.issuperset(columns):
            for file in self.files:
                self.files.tried(file, partial(self._count, file, columns))
            self._verified.update(columns)

    def _count(self, file: File, columns: list[str]) -> int:
        """The rows of a file, by reading some of its columns."""
        return sum(map(len, self._blocks(file, columns)))

    def _types(self, columns: list[str]) -> pa.Schema:
        return pa.schema([self._schema.field(column) for column in columns])


def named(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(visible, names[:_NAMED])) + more


def _widened(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(wide(field.type)) for field in schema], schema.metadata)


def _same_schema(file: File, first: pa.Schema, other: File, schema: pa.Schema) -> None:
    if sorted(first.names) == sorted(schema.names):
        for name in first.names:
            mine, theirs = first.field(name).type, schema.field(name).type
            if mine != theirs:
                raise InputError(
                    f"{other.name} must have the schema of {file.name}. Got type {theirs} instead of {mine} in column "
                    f'"{name}"; write both in the same way.'
                )
        return
    name = sorted(set(first.names) ^ set(schema.names) or {schema.names[0]})[0]
    has = other.name if name in schema.names else file.name
    raise InputError(
        f'{other.name} must have the columns of {file.name}. Got "{name}" only in {has}; '
        "write both in the same way, or read them separately."
    )


def first_rows(tables: Iterable[pa.Table], rows: int) -> pa.Table:
    """The first rows of what comes in parts, and no part more than that takes."""
    found: list[pa.Table] = []
    for table in tables:
        found.append(table)
        if sum(map(len, found)) >= rows:
            break
    return pa.concat_tables(found).slice(0, rows)


def in_blocks(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of `rows` each, the last one shorter."""
    held: list[pa.RecordBatch] = []
    missing = rows
    for batch in batches:
        while len(batch) >= missing:
            yield pa.Table.from_batches([*held, batch.slice(0, missing)])
            batch, held, missing = batch.slice(missing), [], rows
        if len(batch):
            held.append(batch)
            missing -= len(batch)
    if held:
        yield pa.Table.from_batches(held)


def _width(kind: pa.DataType) -> float | None:
    """Bytes per row; None where only the data tell."""
    if isinstance(kind, pa.BaseExtensionType):
        return _width(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _width(kind.index_type)
    if pa.types.is_fixed_size_list(kind):
        inner = _width(kind.value_type)
        return None if inner is None else inner * kind.list_size
    if pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind):
        return kind.bit_width / 8
    return 0.0 if pa.types.is_null(kind) else None


class LinesSource(FilesSource):
    """Files of text with a row per line; only the data tell the types of the columns."""

    is_typed = False

    def __init__(
        self, name: str, files: Sequence[File], skip_bad_files: bool = False, notes: Sequence[str] = ()
    ) -> None:
        # Per file (row, byte) where a chunk starts, and the stamp of the file in which it does.
        self._marks: dict[str, tuple[str, list[tuple[int, int]]]] = {}
        super().__init__(name, files, skip_bad_files, notes)

    def _text_size(self) -> int:
        """Bytes of text in all files, about."""
        return sum(file.size * (_RATIO if _codec(file) else 1) for file in self.files)

    def _chunks(self, file: File, place: int = 0) -> Iterator[tuple[int, bytes]]:
        """Whole lines, and the byte at which they start."""
        tail = b""
        for data in resumed(file, partial(text_from, file), place):
            lines = tail + data
            cut = lines.rfind(b"\n") + 1 or lines.rfind(b"\r") + 1
            if cut:
                yield place, lines[:cut]
                place += cut
            tail = lines[cut:]
        if tail:
            yield place, tail

    def _keep_marks(self, file: File, stamp: str, marks: list[tuple[int, int]]) -> None:
        """Remember where chunks of a file start, if it can be read from there."""
        if _codec(file) is None:
            self._marks[file.path] = stamp, marks

    def _mark(self, file: File, row: int) -> tuple[int, int]:
        """The last known start of a chunk up to a row; the start of the file where it has changed since."""
        stamp, marks = self._marks.get(file.path, ("", []))
        known = marks if row and stamp == file.stamp() else ()
        return max((mark for mark in known if mark[0] <= row), default=(0, 0))


def _codec(file: File) -> str | None:
    """Arrow's name for the compression of a file, by the file's name; None: it is not compressed."""
    return next((codec for ending, codec in COMPRESSED.items() if file.name.lower().endswith(ending)), None)


@contextmanager
def opened_text(file: File) -> Iterator[pa.NativeFile]:
    """The text of a file; only what is not compressed can be read at any place."""
    codec = _codec(file)
    with file.opened() as data:
        if codec is None:
            yield data
        else:
            with pa.CompressedInputStream(data, codec) as stream:
                yield stream


def text_from(file: File, place: int) -> Iterator[bytes]:
    """The text of a file from a byte on."""
    with opened_text(file) as stream:
        if _codec(file) is None:
            if stream.size() < place:
                raise _changed(file)
            stream.seek(place)
        else:
            while place:
                passed = len(stream.read(min(place, CHUNK)))
                if not passed:
                    raise _changed(file)
                place -= passed
        while data := stream.read(CHUNK):
            yield data


def _changed(file: File) -> ChangedError:
    return ChangedError(file.name, "less text than before", file.name)
