"""Arrow files and streams, also Feather, by record batches."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from cesaro.data.addresses import File
from cesaro.data.file_source import FilesSource, Header


class ArrowSource(FilesSource):
    """Arrow files or streams of one schema. The data are copied out of the file, never mapped."""

    what = "a complete Arrow file"

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
        with _opened(file) as data:
            first, start = _place(data, start)
            opened = _open(data, self._fields(file, columns))
            batches = map(opened.get_batch, range(first, opened.num_record_batches)) if _is_file(opened) else opened
            for batch in batches:
                cut = min(start, len(batch))
                start -= cut
                if cut < len(batch):
                    batch.validate(full=True)
                    yield batch.slice(cut).select(columns)

    def _fields(self, file: File, columns: list[str]) -> list[int]:
        return sorted(map(self._columns[file.path].index, columns))


@contextmanager
def _opened(file: File) -> Iterator[pa.NativeFile]:
    """The file; Arrow takes a request that failed for a message that is broken, and it shall be made again."""
    try:
        with file.opened() as data:
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


def _place(data: pa.NativeFile, start: int) -> tuple[int, int]:
    """The record batch of a file that holds row `start`, and which row of it that is; only one column is looked at."""
    opened = _open(data, [0]) if start else None
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
