"""Arrow files and streams, also Feather, by record batches."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from cesaro.data.blocks import BLOCK_ROWS
from cesaro.data.sources.files import FilesSource, Header
from cesaro.data.sources.places import File


class ArrowSource(FilesSource):
    """Arrow files or streams of one schema.

    As a whole the data are copied out of a file. In pieces a file on this machine is mapped, so that a record batch may be of
    any size; one that is compressed or lies elsewhere is held in memory while its rows are read, so that such files should be
    written in record batches of moderate size.
    """

    what = "a complete Arrow file"

    def __init__(
        self, name: str, files: Sequence[File], skip_bad_files: bool = False, notes: Sequence[str] = ()
    ) -> None:
        self._copied: dict[str, bool] = {}  # per file whether record batches are copied out of it
        super().__init__(name, files, skip_bad_files, notes)

    def _header(self, file: File) -> Header:
        with _opened(file) as data:
            opened = _open(data)
            schema = opened.schema
            assert isinstance(schema.names, list)  # names that are not UTF-8 fail here
            return Header(schema, int(opened.count_rows()) if _is_file(opened) else None)

    def _whole(self, file: File, columns: list[str]) -> pa.Table:
        if file.is_remote:
            return super()._whole(file, columns)
        with file.opened() as data:
            table = _open(data, self._fields(file, columns)).read_all().select(columns)
            table.validate(full=True)
        return table

    def _pieces(self, file: File, columns: list[str], start: int) -> Iterator[pa.RecordBatch]:
        with _opened(file, mapped=True) as data:
            if file.path not in self._copied:
                self._copied[file.path] = file.is_remote or _is_copied(data)
            # A choice of columns makes Arrow copy the record batches of a file.
            fields = self._fields(file, columns) if self._copied[file.path] else None
            first, start = _place(data, start, fields)
            opened = _open(data, fields)
            batches = map(opened.get_batch, range(first, opened.num_record_batches)) if _is_file(opened) else opened
            for batch in batches:
                batch = batch.select(columns)
                batch.validate()
                for at in range(min(start, len(batch)), len(batch), BLOCK_ROWS):
                    piece = batch.slice(at, BLOCK_ROWS)
                    piece.validate(full=True)
                    yield piece
                start -= min(start, len(batch))

    def _fields(self, file: File, columns: list[str]) -> list[int]:
        return sorted(map(self._columns[file.path].index, columns))


@contextmanager
def _opened(file: File, mapped: bool = False) -> Iterator[pa.NativeFile]:
    """The file; Arrow takes a request that failed for a message that is broken, and it shall be made again."""
    try:
        with pa.memory_map(file.path) if mapped and not file.is_remote else file.opened() as data:
            yield data
    except pa.ArrowInvalid as error:
        if file.is_remote:
            raise OSError(str(error)) from None
        raise


def _open(data: pa.NativeFile, fields: list[int] | None = None) -> Any:
    """A reader of all columns or of some, in the order of the file."""
    data.seek(0)
    reader = pyarrow.ipc.open_file if data.read(6) == b"ARROW1" else pyarrow.ipc.open_stream
    data.seek(0)
    return reader(data, options=pyarrow.ipc.IpcReadOptions(included_fields=fields))


def _is_copied(data: pa.MemoryMappedFile) -> bool:
    """Whether the first record batch of a file is copied when it is read, as it is where it is compressed; not so a stream's."""
    opened = _open(data)
    if not _is_file(opened) or not opened.num_record_batches:
        return True
    data.seek(0)
    whole = data.read_buffer()
    found = [buffer for column in opened.get_batch(0).columns for buffer in column.buffers() if buffer and buffer.size]
    return any(not 0 <= buffer.address - whole.address < whole.size for buffer in found)


def _place(data: pa.NativeFile, start: int, fields: list[int] | None) -> tuple[int, int]:
    """The record batch of a file that holds row `start`, and which row of it that is; of `fields` only one is looked at."""
    opened = _open(data, None if fields is None else fields[:1]) if start else None
    if opened is None or not _is_file(opened):
        return 0, start
    for number in range(opened.num_record_batches):
        rows = len(opened.get_batch(number))
        if start < rows:
            return number, start
        start -= rows
    return opened.num_record_batches, 0


def _is_file(opened: Any) -> bool:
    return isinstance(opened, pyarrow.ipc.RecordBatchFileReader)
