"""Parquet, Arrow, NPZ and HDF5 files that are damaged, lie about themselves, or hold what no log holds; Minari's ids."""

import datetime
import decimal
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

import cesaro as cs

from .table import Content, Files, Trial, parquet, rows, table, text, walk

STATES, ACTIONS, _ = walk().values()
REWARDS = [float(reward) for reward in walk()["reward"]]
ROWS = range(24)
COMPLETE = "must be a complete {} file. Got: {}…; check that it is complete and has the format its name says."
MISSING = 'column "{}" must not have missing entries. Got an empty entry at row 2 (counted from 0); fill it in, or give --drop'
NO_NUMBERS = (
    'column "reward" must hold numbers. Got {} at row 0 (counted from 0) (type {}); convert it or name another column'
)
NO_ARRAY = '"reward" must hold numbers, text or true/false. Got dtype {}; convert it first.'


def parquet_bytes(of: pa.Table) -> bytes:
    pq.write_table(of, file := io.BytesIO())
    return file.getvalue()


def arrow_bytes(of: pa.Table, writer: Any = pa.ipc.new_file) -> bytes:
    with writer(file := io.BytesIO(), of.schema) as out:
        out.write_table(of)
    return file.getvalue()


def patched(content: bytes, start: int, by: bytes) -> bytes:
    """The same with other bytes from there on."""
    start %= len(content)
    return content[:start] + by + content[start + len(by) :]


def metadata(content: bytes) -> Files:
    return {"log.parquet": parquet_bytes(table().replace_schema_metadata({b"cesaro": content}))}


def npy(array: Any) -> bytes:
    np.save(file := io.BytesIO(), array)
    return file.getvalue()


def npy_header(entries: str, version: int = 1) -> bytes:
    """An array that says this about itself, with 24 numbers."""
    header = f"{{{entries}}}\n".encode()
    return (
        b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(2, "little") + header + npy(np.array(REWARDS))[-192:]
    )


def npz(*more: tuple[str, bytes], **changes: Any) -> dict[str, bytes]:
    """The walk as arrays: others, or bytes in their place, and members that come after them."""
    arrays = {"state": np.array(STATES), "action": np.array(ACTIONS), "reward": np.array(REWARDS), **changes}
    members = [(f"{name}.npy", array if isinstance(array, bytes) else npy(array)) for name, array in arrays.items()]
    with zipfile.ZipFile(file := io.BytesIO(), "w") as out:
        for name, content in (*members, *more):
            out.writestr(zipfile.ZipInfo(name), content)
    return {"log.npz": file.getvalue()}


def shape(entries: str, kind: str = "<f8", order: str = "False") -> bytes:
    return npy_header(f"'descr': '{kind}', 'fortran_order': {order}, 'shape': {entries}, ")


def hdf5(**changes: Any) -> Content:
    """The walk as data sets: others, or functions of the file and the name that make them."""
    found = {"state": np.array(STATES, "S"), "action": np.array(ACTIONS, "S"), "reward": REWARDS, **changes}

    def write(path: Path) -> None:
        with h5py.File(path, "w") as file:
            for name, content in found.items():
                if callable(content):
                    content(file, name)
                elif content is not None:
                    file[name] = content

    return write


def spoiled(write: Content, spoil: Callable[[bytes], bytes]) -> Content:
    def both(path: Path) -> None:
        assert callable(write)
        write(path)
        path.write_bytes(spoil(path.read_bytes()))

    return both


def of_type(kind: pa.DataType, values: list[Any]) -> Files:
    return parquet(reward=pa.array(values, kind))


class Points(pa.ExtensionType):  # type: ignore[misc]
    """Numbers under a name of their own, which compare and so have no hash."""

    def __init__(self) -> None:
        super().__init__(pa.float64(), "points")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> "Points":
        return cls()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Points)


WHOLE, ARROW = parquet_bytes(table()), arrow_bytes(table())
POINTS = table(reward=pa.ExtensionArray.from_storage(Points(), pa.array(REWARDS)))
TWICE = pa.Table.from_arrays(
    [*map(pa.array, (STATES, ACTIONS, REWARDS, REWARDS))], ["state", "action", "reward", "reward"]
)
BYTES = pa.array([b"\xff" if state == "a" else b"b" for state in STATES])
HOURS = [datetime.datetime(2024, 10, 27) + datetime.timedelta(hours=row) for row in ROWS]

PARQUET = [
    Trial("plain", parquet(), rate=0.5),
    Trial("cut", {"log.parquet": WHOLE[:-30]}, COMPLETE.format("Parquet", "Parquet magic bytes not found in footer")),
    Trial("no bytes", {"log.parquet": b""}, "log.parquet must hold a log. Got an empty file; check what wrote it."),
    Trial("marks alone", {"log.parquet": b"PAR1PAR1"}, COMPLETE.format("Parquet", "Parquet file size is 8 bytes")),
    Trial(
        "another page",
        {"log.parquet": patched(WHOLE, 30, b"\xff" * 60)},
        COMPLETE.format("Parquet", "Couldn't deserialize"),
    ),
    Trial(
        "another page, streamed",
        {"log.parquet": patched(WHOLE, 30, b"\xff" * 60)},
        COMPLETE.format("Parquet", "Couldn't deserialize"),
        options="--stream",
    ),
    Trial("another footer", {"log.parquet": patched(WHOLE, -300, b"\xff" * 50)}, COMPLETE.format("Parquet", "")),
    Trial(
        "a footer of 2 GB",
        {"log.parquet": patched(WHOLE, -8, b"\xff\xff\xff\x7f")},
        COMPLETE.format("Parquet", "…2147483647"),
    ),
    Trial(
        "an encrypted footer",
        {"log.parquet": WHOLE[:-4] + b"PARE"},
        COMPLETE.format("Parquet", "Could not read encrypted"),
    ),
    Trial("CSV inside", {"log.parquet": text()}, COMPLETE.format("Parquet", "Parquet magic bytes not found")),
    Trial(
        "no rows",
        {"log.parquet": parquet_bytes(table()[:0])},
        "must have at least one row. Got none; check what wrote it.",
    ),
    Trial(
        "no columns",
        {"log.parquet": parquet_bytes(table().select([]))},
        "must have columns. Got none; write the log again.",
    ),
    Trial(
        "a column twice",
        {"log.parquet": parquet_bytes(TWICE)},
        'must have different column names. Got "reward" twice; rename',
    ),
    Trial(
        "metadata that are a list",
        metadata(b"[1]"),
        """metadata "cesaro" must be a JSON object. Got b'[1]'; remove or corr""",
    ),
    Trial(
        "metadata that are cut",
        metadata(b"{"),
        """metadata "cesaro" must be a JSON object. Got b'{' (Expecting…); remove or correct""",
    ),
    Trial(
        "metadata that are no text",
        metadata(b"\xff"),
        r"""metadata "cesaro" must be a JSON object. Got b'\xff' (…invalid start byte); remove or""",
    ),
    Trial(
        "metadata of 5,000 digits",
        metadata(b'{"env": 1' + b"0" * 5000 + b"}"),
        'metadata "cesaro" must be a JSON object.',
    ),
    Trial(
        "metadata of another meaning",
        metadata(b'{"on_truncation": 3}'),
        "metadata on_truncation must be one of keep, restart",
    ),
    Trial("a missing reward", of_type(pa.float64(), [*REWARDS[:2], None, *REWARDS[3:]]), MISSING.format("reward")),
    Trial(
        "no reward at all",
        of_type(pa.null(), [None] * 24),
        'column "reward" must hold numbers. Got no entry at all (type null)',
    ),
    Trial("a missing label", parquet(state=pa.array([*STATES[:2], None, *STATES[3:]])), MISSING.format("state")),
    Trial("decimals", of_type(pa.decimal256(60, 3), [decimal.Decimal(int(r)) * 10**30 for r in REWARDS]), rate=5e29),
    Trial("half precision", of_type(pa.float16(), [np.float16(reward) for reward in REWARDS]), rate=0.5),
    Trial("a dictionary of numbers", parquet(reward=pa.array(REWARDS).dictionary_encode()), rate=0.5),
    Trial(
        "lists of rewards",
        of_type(pa.list_(pa.float64()), [[1.0]] * 24),
        NO_NUMBERS.format("[1.0]", "list<element: double>"),
    ),
    Trial(
        "a structure",
        parquet(state=pa.array([{"x": state} for state in STATES])),
        "Got type struct<x: string>; flatten it into",
    ),
    Trial(
        "a mapping",
        parquet(state=pa.array([[("x", 1)]] * 24, pa.map_(pa.string(), pa.int64()))),
        "Got type map<string, int64",
    ),
    Trial(
        "lists of two lengths",
        parquet(state=pa.array([[1.0] * (1 + (row == 2)) for row in ROWS])),
        "Got 2 entries at row 2 (cou",
    ),
    Trial(
        "empty lists",
        parquet(state=pa.array([[]] * 24, pa.list_(pa.float64()))),
        "lists with at least one entry. Got empty lists;",
    ),
    Trial(
        "lists of lists",
        parquet(state=pa.array([[[1.0]]] * 24)),
        "must hold lists of numbers. Got type list<element: list<",
    ),
    Trial(
        "nan in a list",
        parquet(state=pa.array([[1.0, float("nan") if row == 2 else row] for row in ROWS])),
        'column "state" must be finite. Got nan at row 2 (counted from 0), entry 1; fill it in, or give --drop-incomplete',
    ),
    Trial("labels as bytes", parquet(state=pa.array([state.encode() for state in STATES])), rate=0.5),
    Trial(
        "labels as other bytes",
        parquet(state=BYTES),
        r"""must hold text in UTF-8. Got b'\xff' at row 0 (counted from 0)""",
    ),
    Trial(
        "text that is none",
        parquet(state=BYTES.view(pa.string())),
        'column "state" must hold text in UTF-8. Got other bytes',
    ),
    Trial(
        "text that is none, streamed",
        parquet(state=BYTES.view(pa.string())),
        'column "state" must hold text in UTF-8. Got other bytes',
        options="--stream",
    ),
    Trial("truth values as states", parquet(state=pa.array([state == "a" for state in STATES])), rate=0.5),
    Trial(
        "ids of 64 bits", parquet(trajectory=pa.array([2**64 - 1 - row // 12 for row in ROWS], pa.uint64())), rate=0.5
    ),
    Trial(
        "states of 64 bits",
        parquet(state=pa.array([2**64 - 1] * 24, pa.uint64())),
        "must hold labels of at most 2**63 − 1. Got",
    ),
    Trial(
        "ids as large floats",
        parquet(trajectory=pa.array([2.0**53] * 24)),
        "must hold whole numbers below 2**53 to be labels.",
    ),
    Trial(
        "ids that are nan",
        parquet(trajectory=pa.array([float("nan")] * 24)),
        "must not have missing entries. Got …, 24 in all",
    ),
    Trial(
        "from end to end of nanoseconds",
        parquet(time=pa.array([-(2**63) + 1, *range(22), 2**63 - 1], pa.timestamp("ns"))),
        rate=0.5,
        says="Trajectories were cut at 2 gaps",
    ),
    Trial("a change of clocks", parquet(time=pa.array(HOURS, pa.timestamp("us", "Europe/Berlin"))), rate=0.5),
    Trial("a zone that does not exist", parquet(time=pa.array(HOURS, pa.timestamp("us", "Mars/Olympus"))), rate=0.5),
    Trial("durations", parquet(time=pa.array([datetime.timedelta(hours=row) for row in ROWS])), rate=0.5),
    Trial(
        "times of day",
        parquet(time=pa.array([datetime.time(row) for row in ROWS])),
        "must hold times that can be subtracted. G",
    ),
]
ARROW_FILES = [
    Trial("plain", {"log.arrow": ARROW}, rate=0.5),
    Trial("a stream", {"log.arrow": arrow_bytes(table(), pa.ipc.new_stream)}, rate=0.5),
    Trial("a type of one's own", {"log.arrow": arrow_bytes(POINTS)}, rate=0.5),
    Trial(
        "runs of numbers",
        {"log.arrow": arrow_bytes(table(reward=pa.compute.run_end_encode(pa.array(REWARDS))))},
        rate=0.5,
    ),
    Trial("cut", {"log.arrow": ARROW[:-40]}, COMPLETE.format("Arrow", "Not an Arrow file")),
    Trial(
        "other lengths",
        {"log.arrow": patched(ARROW, 200, b"\xff" * 40)},
        COMPLETE.format("Arrow", "Invalid IPC message"),
    ),
    Trial(
        "another footer",
        {"log.arrow": patched(ARROW, -60, b"\xff" * 30)},
        COMPLETE.format("Arrow", "Verification of flatbuf"),
    ),
    Trial(
        "the first Feather",
        {"log.feather": b"FEA1" + bytes(20) + b"FEA1"},
        COMPLETE.format("Arrow", "Expected to read"),
    ),
]
NPZ = [
    Trial("plain", npz(), rate=0.5),
    Trial("objects", npz(reward=np.array([None] * 24)), COMPLETE.format("NPZ", "Object arrays cannot be loaded")),
    Trial("objects that nobody needs", npz(extra=np.array([None] * 24)), rate=0.5),
    Trial("a member outside", npz(("../evil.npy", npy(np.zeros(24)))), rate=0.5),
    Trial(
        "more rows than bytes",
        npz(reward=shape("(25,)")),
        'array "reward" must be complete. Got 192 bytes; write it again.',
    ),
    Trial(
        "terabytes",
        npz(reward=shape("(1000000000000,)")),
        'array "reward" must be complete. Got 192 bytes; write it again.',
    ),
    Trial(
        "less than no rows",
        npz(reward=shape("(-24,)")),
        COMPLETE.format("NPZ", 'array "reward" has a header whose shape is not made of numbers of rows and entries'),
    ),
    Trial(
        "a header of 4 GB",
        npz(reward=b"\x93NUMPY\x02\x00" + b"\xff" * 4),
        COMPLETE.format("NPZ", "…EOF: reading array header"),
    ),
    Trial(
        "a header that runs code",
        npz(reward=shape("exit()")),
        COMPLETE.format("NPZ", "…malformed node or string on line 1"),
    ),
    Trial("a version to come", npz(reward=npy_header("", 9)), COMPLETE.format("NPZ", "")),
    Trial(
        "no array", npz(reward=b"hello"), COMPLETE.format("NPZ", "…EOF: reading magic string, expected 8 bytes got 5")
    ),
    Trial("complex numbers", npz(reward=np.array(REWARDS, complex)), NO_ARRAY.format("complex128")),
    Trial("records", npz(reward=np.array([(1.0,)] * 24, [("x", "f8")])), NO_ARRAY.format("[('x', '<f8')]")),
    Trial("the other order of bytes", npz(reward=np.array(REWARDS, ">f8")), rate=0.5),
    Trial("the other order of axes", npz(reward=shape("(24,)", order="True")), rate=0.5),
    Trial(
        "dates",
        npz(reward=np.array(REWARDS).astype("M8[s]")),
        "turn the date or time into numbers, for example into the hour",
    ),
    Trial(
        "two lengths",
        npz(reward=np.array(REWARDS[1:])),
        'Got 24 in "state" and 23 in "reward"; check which rows are missing.',
    ),
    Trial(
        "three axes",
        npz(state=np.zeros((24, 2, 2))),
        'array "state" must have shape [row] or [row, entry]. Got (24, 2, 2)',
    ),
    Trial("no axis", npz(reward=np.array(1.0)), 'array "reward" must have shape [row] or [row, entry]. Got ();'),
    Trial(
        "no entries", npz(state=np.zeros((24, 0))), '"state" must have at least one entry per row. Got shape (24, 0).'
    ),
    Trial(
        "two rewards",
        npz(reward=np.zeros((24, 2))),
        NO_NUMBERS.format("[0.0, 0.0]", "fixed_size_list<item: double>[2]"),
    ),
    Trial("one column of rewards", npz(reward=np.array(REWARDS)[:, None]), rate=0.5),
    Trial(
        "another check sum",
        {"log.npz": patched(npz()["log.npz"], 200, b"\xff")},
        COMPLETE.format("NPZ", "Bad CRC-32 for file"),
    ),
    Trial("cut", {"log.npz": npz()["log.npz"][:-30]}, COMPLETE.format("NPZ", "File is not a zip file")),
    Trial(
        "no members", {"log.npz": b"PK\5\6" + bytes(18)}, "log.npz must have columns. Got none; write the log again."
    ),
    Trial(
        "one array without names",
        {"log.npy": npy(np.zeros(3))},
        "must be Parquet, CSV, Arrow/Feather, NPZ or HDF5. Got .npy;",
    ),
]
HDF5 = [
    Trial("plain", {"log.h5": hdf5()}, rate=0.5),
    Trial(
        "cut", {"log.h5": spoiled(hdf5(), lambda content: content[:-200])}, COMPLETE.format("HDF5", "…truncated file")
    ),
    Trial("text", {"log.h5": "hello" * 100}, COMPLETE.format("HDF5", "…file signature not found")),
    Trial(
        "a signature alone",
        {"log.h5": b"\x89HDF\r\n\x1a\n"},
        COMPLETE.format("HDF5", "Unable to synchronously open file"),
    ),
    Trial(
        "terabytes of nothing",
        {"log.h5": hdf5(reward=lambda file, name: file.create_dataset(name, (10**12,), "f8", chunks=(1024,)))},
        'data set "reward" must be written in the file itself. Got rows that were never written; write',
    ),
    Trial(
        "references",
        {
            "log.h5": hdf5(
                reward=lambda file, name: file.create_dataset(name, data=[file.ref] * 24, dtype=h5py.ref_dtype)
            )
        },
        '"reward" must be an array of numbers, text or true/false. Got: Could not convert <HDF5 object reference>',
    ),
    Trial(
        "names for numbers",
        {"log.h5": hdf5(reward=np.array(REWARDS, h5py.enum_dtype({"no": 0, "yes": 1})))},
        rate=0.5,
    ),
    Trial(
        "records", {"log.h5": hdf5(reward=np.array([(1.0,)] * 24, [("x", "f8")]))}, NO_ARRAY.format("[('x', '<f8')]")
    ),
    Trial(
        "bytes without meaning", {"log.h5": hdf5(reward=np.array([np.void(b"12345678")] * 24))}, NO_ARRAY.format("|V8")
    ),
    Trial(
        "a link to itself",
        {"log.h5": hdf5(reward=h5py.SoftLink("/reward"))},
        'data set "reward" must be written in the file itself. Got a link that leads nowhere; write',
    ),
    Trial(
        "a link to nothing",
        {"log.h5": hdf5(reward=h5py.SoftLink("/gone"))},
        'data set "reward" must be written in the file itself. Got a link that leads nowhere; write',
    ),
    Trial("a link to a data set", {"log.h5": hdf5(gain=REWARDS, reward=h5py.SoftLink("/gain"))}, rate=0.5),
    Trial(
        "a group",
        {"log.h5": hdf5(reward=lambda file, name: file.create_group(name))},
        "the columns of reward must be known. Got",
    ),
    Trial(
        "no shape",
        {"log.h5": hdf5(reward=h5py.Empty("f8"))},
        'array "reward" must have shape [row] or [row, entry]. Got ();',
    ),
    Trial(
        "nothing",
        {"log.h5": hdf5(state=None, action=None, reward=None)},
        "log.h5 must have columns. Got none; write the log",
    ),
    Trial(
        "a packed chunk that is damaged",
        {
            "log.h5": spoiled(
                hdf5(
                    state=None,
                    action=None,
                    reward=lambda file, name: file.create_dataset(
                        name, data=np.random.default_rng(0).normal(size=(2048, 3)), compression="gzip"
                    ),
                ),
                lambda content: patched(content, len(content) // 2, b"\xff" * 900),
            )
        },
        COMPLETE.format("HDF5", "Can't synchronously read data (filter returned failure during read)"),
        options="--observation reward --action reward --reward reward",
    ),
]
MINARI = [
    Trial(
        "none of that name",
        {},
        "must be the id of a Minari data set on this machine. Got none of that name",
        log="minari:no/such-v0",
    ),
    Trial(
        "a way out",
        {},
        "../../etc must be the id of a Minari data set on this machine. Got none",
        log="minari:../../etc",
    ),
    Trial(
        "a path",
        {},
        "/etc/passwd must be the id of a Minari data set on this machine. Got none",
        log="minari:/etc/passwd",
    ),
]


@rows(PARQUET)
def test_parquet(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(ARROW_FILES)
def test_arrow(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(NPZ)
def test_npz(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(HDF5)
def test_hdf5(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(MINARI)
def test_minari(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


def test_a_column_of_a_known_type_without_a_hash_that_nobody_needs(tmp_path: Path) -> None:
    pa.register_extension_type(Points())
    try:
        points = pa.ExtensionArray.from_storage(Points(), pa.array(REWARDS))
        pq.write_table(table().append_column("place", points), tmp_path / "log.parquet")
        found = [len(cs.read(tmp_path / "log.parquet", stream=stream).opened()) for stream in (True, False)]
    finally:
        pa.unregister_extension_type("points")
    assert found == [len(REWARDS) - 1] * 2
