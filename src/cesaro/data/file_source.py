"""Logs in files of one format and one schema, read as a whole or in pieces, here or over a network."""

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
from cesaro.data.addresses import File, resumed, retried
from cesaro.data.columns import wide
from cesaro.data.roles import Chosen, Roles
from cesaro.data.settings import carried_settings
from cesaro.data.sources import PLACES, ChangedError, Files, Source, UnreadableError, check_names, reading
from cesaro.errors import InputError
from cesaro.text import Sentence, Wording, visible

_NAMED = 3  # files that a note names
_MISSING = "__HIVE_DEFAULT_PARTITION__"  # a folder whose files have no entry in its column
_WHOLE = re.compile(r"[+-]?\d{1,18}")

T = TypeVar("T")


class Header(NamedTuple):
    """What opening a file tells: its columns, and its rows where that is known before it is read."""

    schema: pa.Schema
    rows: int | None = None


class FilesSource(Source):
    """One or several files of one schema, in order.

    Args:
        name: what messages call them together.
        files: in the order of their rows.
        skip_bad_files: whether a file that cannot be read is left out, in `table` and in pieces alike.
        notes: sentences on how the files were found.
    """

    what: ClassVar[str]  # a file that can be read, in words
    is_typed: ClassVar[bool] = True  # whether opening a file tells the types of its columns
    files: tuple[str, ...]

    def __init__(
        self, name: str, files: Sequence[File], skip_bad_files: bool = False, notes: Sequence[str] = ()
    ) -> None:
        self.name = name
        self._skip = skip_bad_files
        self._files = list(files)
        self._told = tuple(notes)
        self._constants: dict[str, ConstantColumn] = {}
        self._unshared: list[str] = []  # keys of folders that are no columns
        self._places = {file.path: place for place, file in enumerate(files)}  # before any was left out
        self._rows: dict[str, int] = {}
        self._columns: dict[str, list[str]] = {}  # of each file, in its order
        self._verified: set[str] = set()
        first: tuple[File, pa.Schema] | None = None
        for file in files:
            header = self._tried(file, partial(self._header, file))
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
        self._schema = first[1]
        self._constants, self._unshared = partitions([file for file in files if not file.obstacle], self._schema.names)
        names = (*self._schema.names, *self._constants)
        super().__init__(name, names, carried_settings(name, self._schema.metadata))
        self.types = self._described(names, self._schema) if self.is_typed else None
        self._tell()

    @property
    def local_paths(self) -> tuple[str, ...]:
        """Where those of its files lie that are on this machine."""
        return tuple(file.path for file in self._files if not file.is_remote)

    def stamps(self) -> dict[str, str]:
        return {file.name: file.stamp() for file in self._files}

    def state(self, file: int) -> tuple[int, ...] | None:
        return self._files[file].state()

    @abstractmethod
    def _header(self, file: File) -> Header:
        """Columns and rows of one file; opens it."""

    @abstractmethod
    def _pieces(self, file: File, columns: list[str], start: int) -> Iterator[pa.RecordBatch]:
        """Some columns of one file from row `start`, in batches of any size."""

    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        columns = roles.columns()
        found = self._wholes(self._own(columns))
        tables = [self._completed(file, table, columns) for file, table in zip(self._files, found)]
        files = tuple((file.name, len(table)) for file, table in zip(self._files, tables))
        with reading(self.name, "files of one schema"):
            return pa.concat_tables(tables, promote_options="default"), files

    def head(self, columns: Sequence[str], rows: int) -> pa.Table:
        own = self._own(columns)
        pieces = ((file, piece) for file in self._files for piece in self._pieces(file, own, 0))
        return first_rows((self._completed(file, pa.table(piece), columns) for file, piece in pieces), rows)

    def _excerpt(self, rows: int) -> pa.Table:
        found = []
        counts = self.file_rows()
        if sum(counts) <= rows:
            return self.table(Roles(Chosen(self.names), Chosen(()), self.names[0]), {})[0]
        starts = np.linspace(0, max(0, sum(counts) - rows // PLACES), PLACES).astype(int)
        for start in starts.tolist():
            file = int(np.searchsorted(np.cumsum(counts), start, side="right"))
            within = start - sum(counts[:file])
            pieces = self._pieces(self._files[file], self._own(self.names), within)
            with self._reading(self._files[file]):
                table = first_rows(map(_as_table, pieces), rows // PLACES)
            found.append(self._completed(self._files[file], table, self.names))
        return pa.concat_tables(found, promote_options="default")

    def piece_types(self, roles: Roles, kinds: Mapping[str, str], *, checked: bool = True) -> pa.Schema:
        own = self._own(roles.columns())
        self._settle(own)
        return self._described(roles.columns(), self._types(own))

    def file_rows(self) -> tuple[int, ...]:
        for file in [file for file in self._files if file.path not in self._rows]:
            rows = self._tried(file, partial(self._count, file))
            if rows is not None:
                self._rows[file.path] = rows
                self._tell()
        return tuple(self._rows[file.path] for file in self._files)

    def nbytes(self, roles: Roles) -> int:
        columns = roles.columns()
        types = self._described(columns, self._types(self._own(columns)))
        widths = {field.name: _width(field.type) for field in types}
        unknown = [name for name, width in widths.items() if width is None]
        known = sum(width for width in widths.values() if width is not None)
        return int((known + self._look(unknown)) * sum(self.file_rows()))

    def _look(self, columns: list[str]) -> float:
        """Bytes per row of some columns, from the first batch there is."""
        for file in list(self._files) if columns else ():
            batch = self._tried(file, partial(self._first, file, columns))
            if batch is not None:
                return batch.nbytes / len(batch)
        return 0.0

    def _first(self, file: File, columns: list[str]) -> pa.RecordBatch | None:
        return next(self._pieces(file, columns, 0), None)

    def batches(self, file: int, columns: Sequence[str], start: int = 0) -> Iterator[pa.Table]:
        one = self._files[file]
        tables = self._blocks(one, self._own(columns), start, blocks.BLOCK_ROWS)
        return (self._completed(one, table, columns) for table in tables)

    def _own(self, columns: Sequence[str]) -> list[str]:
        """Those that stand in the files, or another one, which tells the number of rows."""
        return [column for column in columns if column not in self._constants] or [self._some_column()]

    def _some_column(self) -> str:
        return str(self._schema.names[0])

    def _described(self, columns: Sequence[str], own: pa.Schema) -> pa.Schema:
        """Fields of columns, also of those that stand in no file."""
        kinds = {name: pa.field(name, constant.kind) for name, constant in self._constants.items()}
        return pa.schema([kinds.get(name) or own.field(name) for name in columns], own.metadata)

    def _completed(self, file: File, table: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Rows of a file with the columns that stand in no file, and with wide codes."""
        if (schema := _widened(table.schema)) != table.schema:
            table = table.cast(schema)
        for name in columns:
            if name in self._constants:
                table = table.append_column(name, self._constants[name].column(file, len(table)))
        return table.select(columns)

    def _blocks(self, file: File, columns: list[str], start: int, rows: int) -> Iterator[pa.Table]:
        """Blocks of one file; where a request fails, the next try goes on at the block that it was for."""
        with self._reading(file):
            yield from resumed(file, lambda row: in_blocks(self._pieces(file, columns, row), rows), start)

    def _wholes(self, columns: list[str]) -> list[pa.Table]:
        """One table per file that can be read."""
        found = [self._tried(file, partial(self._whole, file, columns)) for file in list(self._files)]
        return [table for table in found if table is not None]

    def _whole(self, file: File, columns: list[str]) -> pa.Table:
        """Some columns of a file."""
        tables = list(self._blocks(file, columns, 0, blocks.BLOCK_ROWS))
        return pa.concat_tables(tables) if tables else self._types(columns).empty_table()

    def _settle(self, columns: list[str]) -> None:
        """Leave out the files that cannot be read, if that is wanted."""
        if self._skip and not self._verified.issuperset(columns):
            for file in list(self._files):
                self._tried(file, partial(self._verify, file, columns))
            self._verified.update(columns)

    def _verify(self, file: File, columns: list[str]) -> None:
        for _ in self._blocks(file, columns, 0, blocks.BLOCK_ROWS):
            pass

    def _count(self, file: File) -> int:
        return sum(map(len, self._pieces(file, [self.names[0]], 0)))

    def _types(self, columns: list[str]) -> pa.Schema:
        return pa.schema([self._schema.field(column) for column in columns])

    @contextmanager
    def _reading(self, file: File) -> Iterator[None]:
        """Whatever goes wrong names the file, and how to go on without it where there are others."""
        remedy = self._or_skip("check that it is complete and has the format its name says")
        try:
            with reading(file.name, self.what, remedy=remedy, address=file.address):
                yield
        except KeyError:  # it had these columns when it was opened
            raise ChangedError(self.name, f"other columns in {file.name} than before", file.name) from None

    def _or_skip(self, remedy: str) -> str:
        if len(self._files) == 1:
            return remedy
        skipped = Wording("skip_bad_files=True, --skip-bad-files", "--skip-bad-files")
        return Sentence("{remedy}, or leave such files out ({skipped})", remedy=remedy, skipped=skipped)

    def _tried(self, file: File, use: Callable[[], T]) -> T | None:
        """What `use` gives; None where the file cannot be read and is left out."""
        try:
            if file.obstacle:
                raise self._hindered(file)
            with self._reading(file):
                return retried(use) if file.is_remote else use()
        except UnreadableError as error:
            if not self._skip:
                raise
            self._leave_out(file, error)
            return None

    def _hindered(self, file: File) -> UnreadableError:
        sentence = "{name} must be readable, because it may hold a part of the log. Got {obstacle}; {remedy}."
        remedy = self._or_skip("repair or move it")
        said = Sentence(sentence, name=visible(file.name), obstacle=file.obstacle, remedy=remedy)
        return UnreadableError(said, file.obstacle)

    def _leave_out(self, file: File, error: UnreadableError) -> None:
        self._files.remove(file)
        self.skipped = (*self.skipped, f"{file.name}: {error.reason}")
        if not self._files:
            count = len(self.skipped)
            raise InputError(
                Sentence(
                    "{log} must hold a file that can be read. Got {count} that cannot, the last because: {reason}",
                    log=self.name,
                    count=str(count),
                    reason=error.message,
                )
            ) from None
        self._tell()

    def _tell(self) -> None:
        """What others see of the files that are left."""
        self.files = tuple(file.name for file in self._files)
        steps = np.diff([self._places[file.path] for file in self._files], prepend=-1)
        self.holes = tuple(map(int, np.flatnonzero(steps > 1)))
        known = all(file.path in self._rows for file in self._files)
        self.num_rows = sum(self._rows[file.path] for file in self._files) if known else None
        self.notes = self._sentences()

    def _sentences(self) -> tuple[str, ...]:
        return (*self._said_of_folders(), *self._said_of_skipped())

    def _said_of_folders(self) -> Iterator[str]:
        yield from self._told
        if self._unshared:
            keys = ", ".join(f'"{visible(key)}"' for key in self._unshared)
            yield f"The folders' names hold {keys}, which is not a column because not all files have it."

    def _said_of_skipped(self) -> tuple[str, ...]:
        if not self.skipped:
            return ()
        shown = named([f"{name} ({reason})" for name, _, reason in (text.partition(": ") for text in self.skipped)])
        count = len(self.skipped) + len(self._files)
        return (f"Left out {len(self.skipped)} of {count} files that cannot be read: {shown}.",)


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


def _as_table(batch: pa.RecordBatch) -> pa.Table:
    return pa.table(batch)


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


class ConstantColumn(NamedTuple):
    """A column with one value in every file: whole numbers, or text as a dictionary.

    Attributes:
        kind: its type.
        values: per path of a file; None: missing.
    """

    kind: pa.DataType
    values: Mapping[str, int | str | None]

    def column(self, file: File, rows: int) -> pa.Array:
        value = self.values[file.path]
        if value is None:
            return pa.array([None] * rows, self.kind)
        if isinstance(value, int):
            return pa.array(np.full(rows, value, dtype=np.int64))
        return pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), [value])


def partitions(files: Sequence[File], names: Sequence[str]) -> tuple[dict[str, ConstantColumn], list[str]]:
    """By name the columns that all folders have and no file, and the keys of folders that some files lack."""
    found = [_keys(file) for file in files]
    every = dict.fromkeys(key for keys in found for key in keys if key not in names)
    shared = [key for key in every if all(key in keys for keys in found)]
    texts = {key: {file.path: keys[key] for file, keys in zip(files, found)} for key in shared}
    return {key: _constant(values) for key, values in texts.items()}, [key for key in every if key not in shared]


def _keys(file: File) -> dict[str, str | None]:
    parts = [part.partition("=") for part in file.name.split("/")[:-1]]
    return {
        unquote(key): None if value == _MISSING else unquote(value) for key, equals, value in parts if key and equals
    }


def _constant(texts: Mapping[str, str | None]) -> ConstantColumn:
    if all(text is None or _WHOLE.fullmatch(text) for text in texts.values()):
        return ConstantColumn(pa.int64(), {path: None if text is None else int(text) for path, text in texts.items()})
    return ConstantColumn(pa.dictionary(pa.int32(), pa.string()), texts)
