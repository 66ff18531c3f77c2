"""Parquet files, by row groups."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cesaro.data.blocks import BLOCK_ROWS
from cesaro.data.sources.files import FilesSource, Header
from cesaro.data.sources.places import File
from cesaro.engines.local import has_many_cores

# Files here are read through a small buffer, so that memory does not grow with the row groups; elsewhere a request costs
# more than bytes, and the columns of a row group come in few large ones, if they are not huge.
_BUFFER = 1 << 18
_REQUESTED = 1 << 28  # bytes


class ParquetSource(FilesSource):
    """One or several Parquet files of one schema. Text comes as a dictionary, and checksums of pages are verified."""

    what = "a complete Parquet file"

    def _header(self, file: File) -> Header:
        with file.opened() as data, pq.ParquetFile(data) as opened:
            schema = opened.schema_arrow
            assert isinstance(schema.names, list)  # names that are not UTF-8 fail here
            return Header(schema, int(opened.metadata.num_rows))

    def _whole(self, file: File, columns: list[str]) -> pa.Table:
        """Flat columns at once and from a mapped file, the fastest way; lists piecewise, or they would need thrice the memory."""
        nested = any(pa.types.is_nested(self._schema.field(column).type) for column in columns)
        if not nested and not file.is_remote:
            with pq.ParquetFile(file.path, memory_map=True, **self._checked(columns)) as opened:
                return opened.read(columns=columns).select(columns)
        return super()._whole(file, columns)

    def _pieces(self, file: File, columns: list[str], start: int) -> Iterator[pa.RecordBatch]:
        with self._opened(file, columns) as opened:
            for group in range(opened.num_row_groups):
                rows = opened.metadata.row_group(group).num_rows
                if start >= rows:
                    start -= rows
                    continue
                for batch in opened.iter_batches(
                    BLOCK_ROWS, row_groups=[group], columns=columns, use_threads=has_many_cores()
                ):
                    cut = min(start, len(batch))
                    start -= cut
                    if cut < len(batch):
                        yield batch.slice(cut).select(columns)

    @contextmanager
    def _opened(self, file: File, columns: list[str]) -> Iterator[pq.ParquetFile]:
        with file.opened() as data:
            metadata = pq.read_metadata(data)
            ahead = file.is_remote and _largest_group(metadata, columns) <= _REQUESTED
            how: dict[str, Any] = {"pre_buffer": True} if ahead else {"pre_buffer": False, "buffer_size": _BUFFER}
            with pq.ParquetFile(data, metadata=metadata, **how, **self._checked(columns)) as opened:
                yield opened

    def _types(self, columns: list[str]) -> pa.Schema:
        types = {field.name: field for field in super()._types(columns)}
        text = pa.dictionary(pa.int32(), pa.string())
        return pa.schema([f.with_type(text) if pa.types.is_string(f.type) else f for f in types.values()])

    def _checked(self, columns: list[str]) -> dict[str, Any]:
        text = [column for column in columns if pa.types.is_string(self._schema.field(column).type)]
        return {"read_dictionary": text, "page_checksum_verification": True}


def _largest_group(metadata: pq.FileMetaData, columns: list[str]) -> int:
    """Bytes of the largest row group in these columns, as they lie in the file."""
    sizes = [0]
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        found = map(group.column, range(group.num_columns))
        sizes.append(sum(one.total_compressed_size for one in found if one.path_in_schema.split(".")[0] in columns))
    return max(sizes)
