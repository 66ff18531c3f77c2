"""Files beside those of a log, arrays with hostile headers, and HDF5 data that lie in other files."""

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as pq

from .table import Content, Files, Trial, link, rows, table, text, walk

HALF = 12  # rows of the walk in each of two files
LEFT_OUT = "Left out 1 of 3 files that cannot be read: {} ({})."
BESIDE = (
    "error: {} must be readable, because it may hold a part of the log. Got {}; repair or move it, or leave such files out "
    "(--skip-bad-files).\n"
)


def beside(name: str, content: Content) -> Files:
    """The walk in two Parquet files of a folder, with something beside them."""
    whole = table()
    return {
        "logs/a.parquet": lambda file: pq.write_table(whole.slice(0, HALF), file),
        "logs/z.parquet": lambda file: pq.write_table(whole.slice(HALF), file),
        f"logs/{name}": content,
    }


def _round(path: Path) -> None:
    path.symlink_to(path.name)


FOLDERS: list[tuple[str, str, Content, str]] = [
    ("broken link", "m.parquet", link("absent"), "a broken link"),
    ("broken link to a folder, perhaps", "day=3", link("absent"), "a broken link"),
    ("link to itself", "m.parquet", _round, "what cannot be opened (Too many levels of symbolic links)"),
    ("named pipe", "m.parquet", os.mkfifo, "a named pipe"),
    ("link to a device", "m.parquet", link("/dev/zero"), "a device"),
    ("empty folder with the name of a file", "m.parquet", Path.mkdir, "a folder without logs"),
    ("named pipe in a folder", "sub/m.parquet", os.mkfifo, "a named pipe"),
]


def archive(header: str) -> Content:
    """The walk in numbers, where the rewards have this header."""

    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as file:
            for name, array in numbers().items():
                content = io.BytesIO()
                np.save(content, array)
                if name == "reward":
                    start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode("latin1")
                    content = io.BytesIO(start + array.tobytes())
                file.writestr(f"{name}.npy", content.getvalue())

    return write


def numbers() -> dict[str, Any]:
    found = walk()
    return {
        "state": np.array([state == "b" for state in found["state"]], np.int64),
        "action": np.array([action == "go" for action in found["action"]], np.int64),
        "reward": np.array(found["reward"], np.float64),
    }


def hdf5(write: Callable[[Any], object]) -> Content:
    """The walk in numbers, where `write` adds the rewards; others lie in other.h5 and other.bin."""

    def make(path: Path) -> None:
        columns = numbers()
        columns["reward"].tofile(path.with_name("other.bin"))
        with h5py.File(path.with_name("other.h5"), "w") as other:
            other["reward"] = columns["reward"]
        with h5py.File(path, "w") as file:
            file["state"], file["action"] = columns["state"], columns["action"]
            write(file)

    return make


def linked(target: Any) -> Callable[[Any], object]:
    return lambda file: file.__setitem__("reward", target)


def virtual(source: str) -> Callable[[Any], object]:
    layout = h5py.VirtualLayout((24,), "f8")
    layout[:] = h5py.VirtualSource(source, "reward", (24,))
    return lambda file: file.create_virtual_dataset("reward", layout)


def external(file: Any) -> None:
    file.create_dataset("reward", (24,), "f8", external=[("other.bin", 0, 24 * 8)])


def own(file: Any) -> None:
    file["inside/reward"] = numbers()["reward"]
    file["reward"] = h5py.SoftLink("inside/reward")


HEADER = 'error: log.npz must be a complete NPZ file. Got: array "reward" has a header {}'
ELSEWHERE = 'error: log.h5: data set "reward" must be written in the file itself. Got {}; write the file again'
PLAIN = "{{'descr': {}, 'fortran_order': False, 'shape': {}, }}\n"

TRIALS = [
    *(Trial(name, beside(file, content), BESIDE.format(file, got), log="logs") for name, file, content, got in FOLDERS),
    *(
        Trial(
            f"{name}, left out",
            beside(file, content),
            LEFT_OUT.format(file, got),
            log="logs",
            options="--skip-bad-files",
            code=0,
        )
        for name, file, content, got in FOLDERS
    ),
    Trial("named pipe that a pattern matches", beside("m.parquet", os.mkfifo), "a named pipe", log="logs/*.parquet"),
    Trial(
        "broken link on the way of a pattern",
        beside("m", link("absent")),
        "m must be readable",
        log="logs/**/*.parquet",
    ),
    Trial("names of no log", beside("x.sock", os.mkfifo), rate=0.5, log="logs"),
    Trial("link to the folder itself", beside("again", link(".")), "Read only once, …: again.", rate=0.5, log="logs"),
    Trial(
        "link to a file of the folder",
        beside("m.parquet", link("a.parquet")),
        "Read only once, …: m.parquet.",
        rate=0.5,
        log="logs",
    ),
    Trial(
        "hidden file", beside("_m.parquet", b"no log"), "Left out _m.parquet: names that begin", rate=0.5, log="logs"
    ),
    Trial("other format beside", beside("m.npz", b"no log"), "are read, and not m.npz.", rate=0.5, log="logs"),
    Trial("compressed copy", {"logs/a.csv": text(), "logs/a.csv.gz": b""}, "must hold every file once", log="logs"),
    Trial("header of parentheses", {"log.npz": archive("(" * 9_000)}, HEADER.format("that cannot be read")),
    Trial("header of minus signs", {"log.npz": archive("-" * 9_000 + "1")}, HEADER.format("that cannot be read")),
    Trial("header of 5,000 digits", {"log.npz": archive("9" * 5_000)}, HEADER.format("that cannot be read")),
    Trial(
        "header with a truth value",
        {"log.npz": archive(PLAIN.format("'<f8'", "(True, 24)"))},
        HEADER.format("whose shape"),
    ),
    Trial(
        "header with two minus signs",
        {"log.npz": archive(PLAIN.format("'<f8'", "(-24, -1)"))},
        HEADER.format("whose shape"),
    ),
    Trial(
        "entries without bytes",
        {"log.npz": archive(PLAIN.format("'<U0'", f"({10**15},)"))},
        HEADER.format("whose type"),
    ),
    Trial("header of Python 2", {"log.npz": archive(PLAIN.format("'<f8'", "(24L,)"))}, rate=0.5),
    Trial(
        "external link",
        {"log.h5": hdf5(linked(h5py.ExternalLink("other.h5", "/reward")))},
        ELSEWHERE.format("a link to another file"),
    ),
    Trial(
        "external link to nothing",
        {"log.h5": hdf5(linked(h5py.ExternalLink("no.h5", "/x")))},
        ELSEWHERE.format("a link to another file"),
    ),
    Trial("virtual data set", {"log.h5": hdf5(virtual("other.h5"))}, ELSEWHERE.format("a virtual data set, …")),
    Trial(
        "virtual data set of nothing",
        {"log.h5": hdf5(virtual("absent.h5"))},
        ELSEWHERE.format("a virtual data set, …"),
    ),
    Trial("external storage", {"log.h5": hdf5(external)}, ELSEWHERE.format("external storage: …")),
    Trial(
        "rows that nobody wrote",
        {"log.h5": hdf5(lambda file: file.create_dataset("reward", (24,), "f8"))},
        ELSEWHERE.format("rows that were never written"),
    ),
    Trial("soft link within the file", {"log.h5": hdf5(own)}, rate=0.5),
]


@rows(TRIALS)
def test_reading(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)
