"""Where memory runs out nothing is said about the file, and none is left out."""

import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cesaro.cli import app
from cesaro.data import read
from cesaro.data.sources.arrow import ArrowSource
from cesaro.data.sources.base import reading
from cesaro.data.sources.parquet import ParquetSource
from cesaro.errors import InputError, is_out_of_memory

ENDINGS = ("parquet", "csv", "arrow", "npz", "hdf5")


def written(folder: Path, ending: str, rows: int = 20) -> Path:
    path = folder / f"log.{ending}"
    numbers = np.arange(rows)
    columns: dict[str, Any] = {"state": numbers % 3, "action": numbers % 2, "reward": numbers * 0.5}
    if ending == "parquet":
        pq.write_table(pa.table(columns), path)
    elif ending == "csv":
        pyarrow.csv.write_csv(pa.table(columns), path)
    elif ending == "arrow":
        pyarrow.feather.write_feather(pa.table(columns), path, "uncompressed")
    elif ending == "npz":
        np.savez_compressed(path, **columns)
    else:
        with h5py.File(path, "w") as file:
            for name, column in columns.items():
                file.create_dataset(name, data=column, compression="gzip")
    return path


SAID: list[Exception] = [
    MemoryError(),
    MemoryError("Unable to allocate 14.9 GiB for an array with shape (1000, 2000000) and data type float64"),
    pa.ArrowMemoryError("malloc of size 8000000064 failed"),
    OSError(12, "Cannot allocate memory"),
    OSError("Memory mapping file failed: [errno 12] Cannot allocate memory"),
    OSError("Can't synchronously read data (memory allocation failed for chunk)"),
    RuntimeError("Unable to synchronously get dataset info (unable to allocate memory)"),
    zlib.error("Error -4 while decompressing data"),
    pa.ArrowInvalid("std::bad_alloc"),
    pa.ArrowException("Unknown error: Failed to launch worker thread: Resource temporarily unavailable"),
]


@pytest.mark.parametrize("error", SAID, ids=repr)
def test_whatever_a_library_says_stays_a_memory_error(error: Exception) -> None:
    assert is_out_of_memory(error)
    with pytest.raises(MemoryError, match=r"^log.npz: ."), reading("log.npz", "complete", RuntimeError, zlib.error):
        raise error


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        zlib.error("Error -3 while decompressing data: invalid distance code"),
        OSError("Can't synchronously read data (inflate() failed)"),
        ValueError("cannot reshape array of size 3 into shape (4,)"),
        pa.ArrowInvalid("Not a Parquet file"),
    ],
    ids=repr,
)
def test_other_errors_are_about_the_file(error: Exception) -> None:
    assert not is_out_of_memory(error)
    with (
        pytest.raises(InputError, match=r"^log.npz must be complete. Got: "),
        reading("log.npz", "complete", zlib.error),
    ):
        raise error


def fail(*args: Any, **options: Any) -> Any:
    raise pa.ArrowMemoryError("malloc of size 8000000064 failed")


PATCHES: dict[str, tuple[Any, str]] = {
    "parquet": (ParquetSource, "_pieces"),
    "csv": (pyarrow.csv, "read_csv"),
    "arrow": (ArrowSource, "_pieces"),
    "npz": (np.lib.format, "read_array"),
    "hdf5": (h5py.Dataset, "__getitem__"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_log_that_does_not_fit(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, ending)
    monkeypatch.setattr(*PATCHES[ending], fail)
    stream = ["--stream"] if ending in ("parquet", "csv", "arrow") else []
    result = CliRunner().invoke(app, ["evaluate", str(path), "--policy", "uniform", "--quiet", *stream])
    assert result.exit_code == 1
    assert "error: not enough memory (" in result.output
    assert "malloc of size 8000000064 failed" in result.output
    assert "complete" not in result.output


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_no_file_is_left_out_for_want_of_memory(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, ending)
    path.rename(tmp_path / f"a.{ending}")
    written(tmp_path, ending)
    monkeypatch.setattr(*PATCHES[ending], fail)
    with pytest.raises(MemoryError):
        read(tmp_path, skip_bad_files=True, stream=True).opened()


LIMITED = """
import resource, sys
import h5py, cesaro, pyarrow.csv
from cesaro.cli import app
from cesaro.data import read
log = read(sys.argv[1], stream=False)
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (48 << 20), resource.RLIM_INFINITY))
try:
    log.load()
except MemoryError as error:
    print("memory:", error)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the limit is set from what the process holds")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_limit_on_memory(ending: str, tmp_path: Path) -> None:
    path = written(tmp_path, ending, 8_000_000)
    done = subprocess.run([sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("memory:"), done.stderr
