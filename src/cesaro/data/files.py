"""Log files: Parquet, CSV and Arrow. Opening reads names, types and sizes; the data wait."""

import glob
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from cesaro.data.array_files import Hdf5Source, NpzSource
from cesaro.data.csv_file import CsvSource, first_rows
from cesaro.data.printable import printable
from cesaro.data.roles import Roles
from cesaro.data.settings import carried_settings
from cesaro.data.sources import Files, Source, check_names, reading
from cesaro.errors import InputError

PARQUET = (".parquet", ".parq", ".pq")
CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".csv.bz2")
ARROW = (".arrow", ".feather", ".ipc", ".arrows")
HDF5 = (".hdf5", ".h5", ".hdf")
_PIECE = 65_536  # rows
_MAGIC = ((b"PAR1", PARQUET[0]), (b"ARROW1", ARROW[0]), (b"PK\x03\x04", ".npz"), (b"\x89HDF", HDF5[0]))


def open_path(text: str) -> Source:
    """The source behind a path: a file, a folder of Parquet files or a pattern."""
    if not text.strip():
        raise InputError(f"A log's path must not be empty. Got {text!r}; name a file, a folder or a pattern.")
    path = Path(text)
    name = path.name or text
    try:
        exists, folder = path.exists(), path.is_dir()
    except (OSError, ValueError):
        exists = folder = False
    if folder:
        files = sorted(
            file
            for file in path.rglob("*")
            if file.suffix.lower() in PARQUET
            and file.is_file()
            and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
        )
        if not files:
            raise InputError(
                f"{name} must hold Parquet files. Got a folder without any; name a file or another folder."
            )
        return ParquetSource(name, files)
    if not exists and glob.has_magic(text):
        files = sorted(Path(file) for file in glob.glob(text, recursive=True))
        if not files:
            raise InputError(f"{printable(text)} must match files. Got none; check the folder and the pattern.")
        other = next((file for file in files if file.suffix.lower() not in PARQUET), None)
        if other is not None:
            raise InputError(f"{text} must match Parquet files only. Got {other.name}; narrow the pattern.")
        other = next((file for file in files if not file.is_file()), None)
        if other is not None:
            raise InputError(f"{text} must match files only. Got {other.name}, {_sort(other)}; narrow the pattern.")
        return ParquetSource(name, files)
    if not exists:
        raise InputError(
            f"{printable(text)} must be an existing file, folder or pattern. Got no such file; check the path."
        )
    if not path.is_file():
        raise InputError(
            f"{printable(name)} must be a regular file or a folder. Got {_sort(path)}; copy what it gives into a file."
        )
    return _open_file(path)


def _sort(path: Path) -> str:
    """What lies at a path that is no regular file; it must not be opened, which may wait forever."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return "a broken link"
    sorts = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return sorts.get(stat.S_IFMT(mode), "a device")


def _open_file(path: Path) -> Source:
    with reading(path.name, "a readable file"), path.open("rb") as file:
        start = file.read(8)
    if not start:
        raise InputError(f"{path.name} must hold a log. Got an empty file; write it again.")
    lower = path.name.lower()
    if lower.endswith(CSV):
        return CsvSource(path)
    suffix = path.suffix.lower()
    if suffix not in (*PARQUET, *ARROW, *HDF5, ".npz"):
        suffix = next((known for magic, known in _MAGIC if start.startswith(magic)), "")
    if suffix in PARQUET:
        return ParquetSource(path.name, [path])
    if suffix in ARROW:
        return ArrowSource(path)
    if suffix == ".npz":
        return NpzSource(path)
    if suffix in HDF5:
        return Hdf5Source(path)
    raise InputError(
        f"{path.name} must be Parquet, CSV, Arrow/Feather, NPZ or HDF5. Got {path.suffix or 'no file ending'}; "
        "rename it to say what it is, or read it yourself and pass the table."
    )


class ParquetSource(Source):
    """One or several Parquet files of one schema, in the order of their names."""

    def __init__(self, name: str, files: Sequence[Path]) -> None:
        self._files = files
        rows = []
        first: pa.Schema | None = None
        for file in files:
            with reading(file.name, "a complete Parquet file"), pq.ParquetFile(file) as opened:
                schema = opened.schema_arrow
                names = schema.names
                rows.append(int(opened.metadata.num_rows))
            check_names(file.name, names)
            if first is None:
                first = schema
            else:
                _same_schema(files[0], first, file, schema)
        assert first is not None
        super().__init__(name, first.names, carried_settings(name, first.metadata))
        self.types = first
        self.num_rows = sum(rows)

    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        columns = roles.columns()
        tables = []
        for file in self._files:
            with reading(file.name, "a complete Parquet file"):
                tables.append(self._read(file, columns))
        files = tuple((file.name, len(table)) for file, table in zip(self._files, tables))
        with reading(self.name, "Parquet files of one schema"):
            return pa.concat_tables(tables, promote_options="default"), files

    def head(self, columns: Sequence[str], rows: int) -> pa.Table:
        return first_rows(self._batches(list(columns)), rows)

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        for file in self._files:
            with pq.ParquetFile(file) as opened:
                yield from opened.iter_batches(_PIECE, columns=columns)

    def _read(self, file: Path, columns: list[str]) -> pa.Table:
        """Flat columns at once and from a mapped file, the fastest way; lists piecewise, or they would need thrice the memory."""
        assert self.types is not None
        types = [self.types.field(column).type for column in columns]
        text = [column for column, kind in zip(columns, types) if pa.types.is_string(kind)]
        checked: dict[str, Any] = {"read_dictionary": text, "page_checksum_verification": True}
        if not any(pa.types.is_nested(kind) for kind in types):
            with pq.ParquetFile(file, memory_map=True, **checked) as opened:
                return opened.read(columns=columns).select(columns)
        with pq.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False, **checked) as opened:
            batches = list(opened.iter_batches(_PIECE, columns=columns))
            if not batches:
                return opened.schema_arrow.empty_table().select(columns)
            return pa.Table.from_batches(batches).select(columns)


def _same_schema(file: Path, first: pa.Schema, other: Path, schema: pa.Schema) -> None:
    if sorted(first.names) == sorted(schema.names):
        for name in first.names:
            mine, theirs = first.field(name).type, schema.field(name).type
            if mine != theirs:
                raise InputError(
                    f"{other.name} must have the schema of {file.name}. Got type {theirs} instead of {mine} in column "
                    f'"{name}"; write both alike.'
                )
        return
    name = sorted(set(first.names) ^ set(schema.names) or {schema.names[0]})[0]
    has = other.name if name in schema.names else file.name
    raise InputError(
        f'{other.name} must have the columns of {file.name}. Got "{name}" only in {has}; '
        "write both alike or read them apart."
    )


class ArrowSource(Source):
    """An Arrow file or stream, also Feather. The data are copied out of the file, never mapped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with reading(path.name, "a complete Arrow file"), pa.OSFile(str(path)) as file:
            self.types = self._open(file).schema
            names = self.types.names
        super().__init__(path.name, names, carried_settings(path.name, self.types.metadata))

    @staticmethod
    def _open(file: Any, fields: list[int] | None = None) -> Any:
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        options = pyarrow.ipc.IpcReadOptions(included_fields=fields)
        return (
            pyarrow.ipc.open_file(file, options=options) if is_file else pyarrow.ipc.open_stream(file, options=options)
        )

    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        columns = roles.columns()
        fields = sorted(self.names.index(column) for column in columns)
        with reading(self.name, "a complete Arrow file"), pa.OSFile(str(self._path)) as file:
            table = self._open(file, fields).read_all().select(columns)
            table.validate(full=True)
        return table, ((self.name, len(table)),)

    def head(self, columns: Sequence[str], rows: int) -> pa.Table:
        fields = sorted(self.names.index(column) for column in columns)
        with pa.OSFile(str(self._path)) as file:
            opened = self._open(file, fields)
            is_file = isinstance(opened, pyarrow.ipc.RecordBatchFileReader)
            batches = map(opened.get_batch, range(opened.num_record_batches)) if is_file else opened
            table = first_rows(batches, rows)
            table.validate(full=True)
        return table
