"""Logs as Parquet files that `cesaro.read` takes without options."""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cesaro.errors import InputError
from cesaro.files import move
from cesaro.simulation.sink import Sink
from cesaro.simulation.streams import Arrays, Job

_COLUMNS = {
    "trajectory": "trajectory",
    "observation": "observations",
    "action": "actions",
    "reward": "rewards",
    "next_observation": "next_observations",
    "terminated": "terminated",
    "truncated": "truncated",
}


class ParquetSink(Sink):
    """One Parquet file, a row group per stream."""

    def __init__(self, out: str | os.PathLike[str], settings: Mapping[str, Any], *, force: bool = False) -> None:
        super().__init__(out, settings, force=force)
        if self.out.suffix != ".parquet":
            raise InputError(f"out must end in .parquet. Got {self.out.name!r}.")

    def check(self) -> None:
        parent = self.out.parent
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            raise InputError(
                f"'{parent}', which would hold the log, is no folder one can write to; create it or mend that."
            )
        if not os.path.lexists(self.out):
            return
        if not self.force:
            raise InputError(f"'{self.out}' exists; add --force to replace it, or choose another file (--out).")
        if not _is_collected(self.out):
            raise InputError(
                f"'{self.out}' was not written by collect, so that --force leaves it alone; choose another file (--out)."
            )

    def write(self, about: dict[str, Any], job: Job, streams: Iterable[Arrays]) -> None:
        file, writer = self.path / "log.parquet", None
        try:
            for number, stream in enumerate(streams):
                rows = _rows(number, stream, about)
                if writer is None:
                    writer = pq.ParquetWriter(
                        file, rows.schema, use_dictionary=["trajectory"], write_page_checksum=True, version="2.6"
                    )
                writer.write_table(rows, row_group_size=max(1, len(rows)))
        finally:
            if writer is not None:
                writer.close()
        self.check()  # again: hours may have passed
        move(file, self.out)
        shutil.rmtree(self.path)


def table(about: dict[str, Any], streams: Iterable[Arrays]) -> pa.Table:
    """The same log in memory."""
    return pa.concat_tables([_rows(number, stream, about) for number, stream in enumerate(streams)])


def _rows(number: int, stream: Arrays, about: dict[str, Any]) -> pa.Table:
    stream = {**stream, "trajectory": np.full(len(stream["rewards"]), number, dtype=np.int32)}
    columns = {column: _column(stream[name]) for column, name in _COLUMNS.items()}
    return pa.table(columns).replace_schema_metadata({b"cesaro": json.dumps(about).encode()})


def _column(values: NDArray[Any]) -> pa.Array:
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), values.shape[1])


def _is_collected(file: Path) -> bool:
    try:
        return file.is_file() and b"cesaro" in (pq.read_schema(file).metadata or {})
    except (OSError, pa.ArrowException):
        return False
