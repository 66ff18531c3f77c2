"""Writers of every format that is read in pieces, by the ending of the file: the table that tests of all formats go through."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq

from cesaro.data.sources.files import COMPRESSED

Writer = Callable[
    ..., Any
]  # takes a table, a path or an open file, and how many `rows` a part has, if the format has parts

ROWS = 31


def _parquet(table: pa.Table, file: Any, rows: int = ROWS) -> None:
    pq.write_table(table, file, row_group_size=rows)


def _arrow(table: pa.Table, file: Any, rows: int = ROWS, *, new: Callable[..., Any] = pyarrow.ipc.new_file) -> None:
    with new(str(file) if isinstance(file, Path) else file, table.schema) as opened:
        opened.write_table(table, max_chunksize=rows)


def _feather(table: pa.Table, file: Any, rows: int = ROWS) -> None:
    pyarrow.feather.write_feather(table, file, chunksize=rows)


def _csv(table: pa.Table, file: Any, rows: int = ROWS, *, separator: str = ",") -> None:
    pyarrow.csv.write_csv(table, file, pyarrow.csv.WriteOptions(delimiter=separator))


def _compressed(table: pa.Table, file: Any, rows: int = ROWS, *, codec: str) -> None:
    with pa.CompressedOutputStream(str(file) if isinstance(file, Path) else file, codec) as opened:
        _csv(table, opened)


WRITERS: dict[str, Writer] = {
    "parquet": _parquet,
    "csv": _csv,
    "tsv": partial(_csv, separator="\t"),
    **{f"csv{ending}": partial(_compressed, codec=codec) for ending, codec in COMPRESSED.items()},
    "arrow": _arrow,
    "feather": _feather,
    "arrows": partial(_arrow, new=pyarrow.ipc.new_stream),
}
