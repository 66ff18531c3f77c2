"""Whatever a file or a table holds: a log or one sentence, never an exception from inside a dependency."""

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cesaro.data import Transitions, read
from cesaro.errors import InputError

fuzzed = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

_INTEGERS = st.sampled_from([0, 1, 2, -1, 127, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1])
_FLOATS = st.sampled_from([0.0, 1.0, 0.5, -2.0, 65504.0, 1e30, 1e308, 2.0**53, 2.0**63, float("nan"), float("inf")])
_TEXT = st.sampled_from(["", "a", "b", "1", "NA", "nan", "ü", "a\x00", "x" * 300])


def _clipped(kind: pa.DataType) -> st.SearchStrategy[int]:
    info = np.iinfo(kind.to_pandas_dtype())
    return _INTEGERS.filter(lambda value: info.min <= value <= info.max)


_KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    *(
        (kind, _clipped(kind))
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    ),
    (pa.float64(), _FLOATS),
    (pa.float32(), _FLOATS),
    (pa.float16(), st.sampled_from([0.0, 1.0, 0.5, -2.0, 65504.0, float("nan"), float("inf")])),
    (pa.bool_(), st.booleans()),
    (pa.string(), _TEXT),
    (pa.large_string(), _TEXT),
    (pa.string_view(), _TEXT),
    (pa.binary(), st.binary(max_size=3)),
    (pa.binary(2), st.binary(min_size=2, max_size=2)),
    (pa.decimal128(5, 2), st.decimals("-9.99", "9.99", places=2)),
    (pa.decimal128(38, 0), st.sampled_from([decimal.Decimal(0), decimal.Decimal(7), decimal.Decimal(10) ** 37])),
    (pa.decimal256(60, 3), st.decimals("-9", "9", places=3)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), st.datetimes().map(lambda t: t.replace(tzinfo=datetime.UTC))),
    (pa.timestamp("ns"), st.sampled_from([0, 1, 2**62])),
    (pa.time32("s"), st.times().map(lambda t: t.replace(microsecond=0))),
    (pa.duration("ms"), st.sampled_from([datetime.timedelta(0), datetime.timedelta(1)])),
    (pa.null(), st.none()),
    (pa.list_(pa.float64()), st.lists(_FLOATS, max_size=3)),
    (pa.list_(pa.int64()), st.lists(st.integers(0, 3), min_size=1, max_size=1)),
    (pa.list_(pa.string()), st.lists(_TEXT, max_size=2)),
    (pa.list_(pa.float32(), 2), st.lists(_FLOATS, min_size=2, max_size=2)),
    (pa.large_list(pa.float64()), st.lists(st.floats(-1, 1), min_size=2, max_size=2)),
    (pa.list_(pa.list_(pa.float64())), st.lists(st.lists(_FLOATS, max_size=1), max_size=1)),
    (pa.struct([("x", pa.float64())]), st.fixed_dictionaries({"x": _FLOATS})),
    (pa.map_(pa.string(), pa.int64()), st.just([("a", 1)])),
    (pa.month_day_nano_interval(), st.just((1, 2, 3))),
]


@st.composite
def columns(draw: st.DrawFn, rows: int, encoded: bool) -> pa.ChunkedArray:
    """A column of any type, tame or wild, with or without gaps, in one or two chunks."""
    kind, values = draw(st.sampled_from(_KINDS))
    if draw(st.booleans()):
        kind, values = draw(st.sampled_from(_KINDS[:14]))
    entries = st.none() | values if draw(st.integers(0, 3)) == 0 else values
    array = pa.array(draw(st.lists(entries, min_size=rows, max_size=rows)), kind)
    wrap = draw(st.sampled_from(["plain", "plain", "dictionary", "unsigned", "run-end"])) if encoded else "plain"
    try:
        if wrap == "dictionary":
            array = array.dictionary_encode()
        elif wrap == "unsigned":
            array = array.dictionary_encode().cast(pa.dictionary(pa.uint8(), array.type))
        elif wrap == "run-end":
            array = pa.compute.run_end_encode(array)
    except pa.ArrowException:
        pass
    cut = draw(st.integers(0, rows))
    return pa.chunked_array([array.slice(0, cut), array.slice(cut)])


_ROLES = ["next_observation", "trajectory", "time", "terminated", "truncated", "weight", "available"]


@st.composite
def tables(draw: st.DrawFn, encoded: bool = True) -> tuple[pa.Table, dict[str, Any]]:
    rows = draw(st.integers(0, 5))
    plain: Callable[[], pa.ChunkedArray] = lambda: pa.chunked_array([pa.array(np.arange(rows) / 2)])  # noqa: E731
    data = {
        name: draw(columns(rows, encoded)) if draw(st.booleans()) else plain()
        for name in ("observation", "action", "reward")
    }
    options: dict[str, Any] = {}
    for role in draw(st.lists(st.sampled_from(_ROLES), max_size=3, unique=True)):
        data[role] = draw(columns(rows, encoded))
        options[role] = role
    if draw(st.booleans()):
        data["more"] = draw(columns(rows, encoded))
        options["observation"] = ["observation", "more"]
        options["next_observation"] = False
        data.pop("next_observation", None)
    if draw(st.booleans()):
        options["kinds"] = {
            draw(st.sampled_from(["observation", "action"])): draw(st.sampled_from(["number", "category"]))
        }
    options["reward_lag"] = draw(st.sampled_from([0, 0, 1]))
    return pa.table(data), options


def check(log: Transitions) -> None:
    """Check what holds for every accepted log."""
    assert len(log) > 0
    blocks = list(log.blocks())
    assert sum(map(len, blocks)) == len(log)
    for block in blocks:
        for values in (block.observations, block.next_observations, block.actions):
            assert len(values) == len(block)
            plain = values.plain()
            for array in plain.values() if isinstance(plain, dict) else [plain]:
                assert array.dtype.kind in "fibO"
                if array.dtype.kind == "f":
                    assert np.isfinite(array).all()
                elif array.dtype.kind == "O":
                    assert all(isinstance(label, str) for label in array)
        assert np.isfinite(block.rewards).all()
        assert block.weights is None or (np.isfinite(block.weights).all() and (block.weights >= 0).all())


def attempt(source: Any, **options: Any) -> None:
    try:
        log = read(source, **options).load()
    except InputError as error:
        text = str(error)
        assert text.endswith((".", "?"))
        assert text.isprintable()
        assert _name(source) in text
        return
    check(log)


def _name(source: Any) -> str:
    """The name of a log in messages."""
    if isinstance(source, Path):
        return source.name
    return "table" if isinstance(source, pa.Table) else "arrays" if isinstance(source, dict) else "frame"


@pytest.mark.slow
@given(tables())
@settings(fuzzed, max_examples=350)
def test_any_table(case: tuple[pa.Table, dict[str, Any]]) -> None:
    table, options = case
    attempt(table, **options)


@given(tables())
@settings(fuzzed)
def test_any_table_whose_times_repeat(case: tuple[pa.Table, dict[str, Any]]) -> None:
    """Rows of equal time are compared entry by entry, whatever their types."""
    table, options = case
    table = table.drop_columns(["time"]) if "time" in table.column_names else table
    attempt(table.append_column("time", pa.array(np.zeros(len(table)))), **options | {"time": "time"})


@given(tables(), st.sampled_from(["parquet", "arrow"]))
@settings(fuzzed, max_examples=80)
def test_any_table_in_a_file(tmp_path: Path, case: tuple[pa.Table, dict[str, Any]], suffix: str) -> None:
    table, options = case
    path = tmp_path / f"log.{suffix}"
    try:
        pq.write_table(table, path) if suffix == "parquet" else pyarrow.feather.write_feather(table, path)
    except (pa.ArrowException, OSError):
        return  # the format has no such type
    attempt(path, **options)


@pytest.mark.slow
@given(tables(encoded=False))
@settings(fuzzed, max_examples=80)
def test_any_pandas_frame(case: tuple[pa.Table, dict[str, Any]]) -> None:
    table, options = case
    try:
        frame = table.to_pandas()
    except (pa.ArrowException, ValueError, OverflowError, TypeError, NotImplementedError):
        return  # pandas cannot hold it
    attempt(frame, **options)


@pytest.mark.slow
@given(tables(encoded=False))
@settings(fuzzed, max_examples=80)
def test_any_polars_frame(case: tuple[pa.Table, dict[str, Any]]) -> None:
    table, options = case
    if any(pa.types.is_decimal256(kind) or pa.types.is_interval(kind) for kind in table.schema.types):
        return  # Polars panics
    try:
        frame = pl.from_arrow(table)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException, ValueError, TypeError):
        return  # Polars cannot hold it
    attempt(frame, **options)


_OBJECTS = st.lists(
    st.sampled_from([None, 0, 1, 2**70, 0.5, float("nan"), True, "a", b"\xff", [1], (2.0,), {"x": 1}, object()])
    | st.dates()
    | st.decimals("-9", "9", places=1),
    min_size=3,
    max_size=3,
)


@pytest.mark.slow
@given(_OBJECTS, st.sampled_from(["observation", "action", "reward", "trajectory", "time", "terminated"]))
@settings(fuzzed, max_examples=125)
def test_any_objects_in_a_frame(objects: list[Any], role: str) -> None:
    column = np.empty(3, dtype=object)
    column[:] = objects
    tame: dict[str, Any] = {name: np.arange(3) / 2 for name in ("observation", "action", "reward")}
    attempt(pd.DataFrame({**tame, role: pd.Series(column)}))
    attempt(pl.DataFrame({**tame, role: pl.Series(objects, dtype=pl.Object)}))
    attempt({**tame, role: objects})
    attempt({**tame, role: column})


_SUFFIXES = ["parquet", "csv", "arrow", "npz", "hdf5", "tsv", "feather", "dat", "csv.gz"]


@given(st.binary(max_size=200), st.sampled_from(_SUFFIXES))
@fuzzed
def test_random_bytes(tmp_path: Path, data: bytes, suffix: str) -> None:
    path = tmp_path / f"log.{suffix}"
    path.write_bytes(data)
    attempt(path)


def _small() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "observations": rng.normal(size=(6, 2)),
        "actions": np.array([0, 1, 0, 1, 1, 0]),
        "rewards": rng.normal(size=6),
        "terminals": np.array([0, 0, 1, 0, 0, 1], dtype=bool),
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One good file of each format."""
    folder = tmp_path_factory.mktemp("whole")
    arrays = _small()
    table = pa.table({**arrays, "observations": pa.FixedSizeListArray.from_arrays(arrays["observations"].ravel(), 2)})
    pq.write_table(table, folder / "log.parquet")
    pyarrow.feather.write_feather(table, folder / "log.arrow", compression="uncompressed")
    np.savez(folder / "log.npz", **arrays)
    with h5py.File(folder / "log.hdf5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    lines = ["obs_0,obs_1,action,reward,terminated"]
    lines += [f"{x[0]},{x[1]},{a},{r},{int(t)}" for x, a, r, t in zip(*arrays.values())]
    (folder / "log.csv").write_text("\n".join(lines))
    return folder


@given(data=st.data())
@settings(fuzzed, max_examples=125)
def test_damaged_files(tmp_path: Path, whole: Path, data: st.DataObject) -> None:
    suffix = data.draw(st.sampled_from(["parquet", "arrow", "npz", "hdf5", "csv"]))
    content = bytearray((whole / f"log.{suffix}").read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    # Bits flipped within HDF5's own structures can hang or end the process inside its C library, so these are only cut.
    flips = 0 if suffix == "hdf5" else data.draw(st.integers(0, 3))
    for _ in range(flips if content else 0):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / f"log.{suffix}"
    path.write_bytes(bytes(content))
    attempt(path)


_CELLS = st.sampled_from(
    ["1", "0", "-2.5", "1e400", "nan", "NA", "", "true", "a", '"q"', "2020-01-01", "18446744073709551616"]
)


@given(st.lists(st.lists(_CELLS, min_size=2, max_size=4), max_size=6), st.sampled_from(["\n", "\r\n", "\n\n"]))
@fuzzed
def test_random_csv(tmp_path: Path, rows: list[list[str]], newline: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(newline.join(["state,action,reward", *(",".join(row) for row in rows)]))
    attempt(path)


_ARRAYS = st.sampled_from(
    [
        np.arange(3),
        np.arange(3) / 2,
        np.arange(6).reshape(3, 2),
        np.zeros((3, 1), dtype=int),
        np.zeros((3, 0)),
        np.zeros((3, 2, 2)),
        np.zeros(4),
        np.zeros(()),
        np.array([1, "a", None], dtype=object),
        np.array([[1], [2, 3], [4]], dtype=object),
        np.array([1j, 2, 3]),
        np.array(["a", "b", "c"]),
        np.array([b"a", b"\xff", b"c"]),
        np.arange(3, dtype=">f8"),
        np.arange(3, dtype=np.longdouble),
        np.arange(3, dtype=np.uint64) + np.uint64(2**63),
        np.arange(3).astype("datetime64[D]"),
        np.arange(3).astype("datetime64[M]"),
        np.array([(1, 2)] * 3, dtype="i4,i4"),
        np.ma.masked_array(np.arange(3.0), mask=[False, True, False]),
        np.ma.masked_array(np.ones((3, 2)), mask=np.eye(3, 2, dtype=bool)),
        [1, "a", 2.0],
        [1, None, 2],
        [[1.0, 2.0], [3.0], [4.0, 5.0]],
        [np.float32(1), np.float32(2), np.float32(3)],
        [{"a": 1}] * 3,
        [object()] * 3,
        [2**70, 1, 2],
        (0, 1, 1),
        range(3),
        [],
        "abc",
        b"abc",
        None,
        5,
        {1, 2, 3},
        {"x": np.arange(3)},
        pa.array([1, 2, 3]),
    ]
)


@pytest.mark.slow
@given(st.fixed_dictionaries({"observation": _ARRAYS, "action": _ARRAYS, "reward": _ARRAYS}), _ARRAYS)
@settings(fuzzed, max_examples=200)
def test_any_arrays(arrays: dict[str, Any], more: Any) -> None:
    attempt(arrays)
    tame = {"observation": np.arange(3) / 2, "action": np.arange(3) / 2, "reward": np.arange(3) / 2}
    for role in ("observation", "action", "reward", "trajectory", "terminated", "available"):
        attempt({**tame, role: more})
    try:
        log = Transitions(arrays["observation"], arrays["action"], arrays["reward"])
    except InputError:
        return
    check(log)


_D4RL = ["observations", "actions", "rewards", "next_observations", "terminals", "timeouts"]
_NUMERIC = ["?", "i1", "u1", ">i2", "i4", "u4", "i8", "u8", ">u8", "f2", "f4", ">f4", "f8", ">f8", "g", "c8", "c16"]
_OTHER = ["S2", "S1", "U3", ">U2", "V3", "M8[s]", "M8[ns]", "M8[Y]", "m8[ms]", "i4,f8", "O", "3f4"]


@st.composite
def wild_arrays(draw: st.DrawFn, rows: int) -> Any:
    """Any dtype out of random bytes: NaN, infinities, dates out of range and broken text included."""
    dtype = np.dtype(draw(st.sampled_from(_NUMERIC) | st.sampled_from(_OTHER)))
    shape = draw(st.sampled_from([(rows,)] * 16 + [(rows, 1), (rows, 2), (rows, 0), (rows, 2, 2), (rows + 1,), ()]))
    size = int(np.prod(shape))
    if dtype.hasobject:
        array = np.empty(shape, dtype=object)
        array[...] = draw(st.sampled_from(["a", "ü", 1, None, 0.5]))
        return array
    if dtype.kind == "U":
        return np.array(draw(st.lists(_TEXT, min_size=size, max_size=size)), dtype=dtype).reshape(shape)
    if draw(st.booleans()) and dtype.kind in "biufcSMm":
        return np.resize(np.arange(2), shape).astype(dtype)
    if dtype.kind == "b":
        return np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=dtype).reshape(shape)
    length = size * dtype.itemsize
    data = draw(st.binary(min_size=length, max_size=length))
    return np.frombuffer(data, dtype.base if dtype.subdtype else dtype)[:size].reshape(shape)


@st.composite
def array_logs(draw: st.DrawFn) -> dict[str, Any]:
    """D4RL's keys; some of their arrays wild."""
    rows = draw(st.sampled_from([3, 4, 2, 1, 0]))
    arrays: dict[str, Any] = {"observations": np.zeros((rows, 2)), "actions": np.zeros(rows), "rewards": np.zeros(rows)}
    for name in draw(st.lists(st.sampled_from(_D4RL), min_size=1, max_size=3, unique=True)):
        arrays[name] = draw(wild_arrays(rows))
    return arrays


@pytest.mark.slow
@given(array_logs())
@settings(fuzzed, max_examples=100)
def test_any_arrays_in_npz(tmp_path: Path, arrays: dict[str, Any]) -> None:
    path = tmp_path / "log.npz"
    np.savez(path, **arrays)
    attempt(path)


def _special(file: h5py.File, name: str, rows: int, kind: str) -> None:
    """Types that only HDF5 has."""
    if kind == "empty":
        file[name] = h5py.Empty("f8")
    elif kind == "group":
        file.create_group(name)
    elif kind == "link":
        file[name] = h5py.SoftLink("/absent")
    elif kind == "reference":
        file.create_dataset(name, data=[file.ref] * rows, shape=(rows,), dtype=h5py.ref_dtype)
    elif kind == "enum":
        file.create_dataset(name, data=np.zeros(rows, int), dtype=h5py.enum_dtype({"a": 0, "b": 1}))
    elif kind == "ragged":
        data = file.create_dataset(name, (rows,), dtype=h5py.vlen_dtype(np.float32))
        for row in range(rows):
            data[row] = np.ones(row % 3)
    else:
        file.create_dataset(name, data=[b"a", b"\xc3", b"\xc3\xbc", b""][:rows], dtype=h5py.string_dtype())


_SPECIAL = ["empty", "group", "link", "reference", "enum", "ragged", "text"]


@pytest.mark.slow
@given(array_logs(), st.sampled_from([None, *_SPECIAL]), st.sampled_from(_D4RL))
@settings(fuzzed, max_examples=100)
def test_any_arrays_in_hdf5(tmp_path: Path, arrays: dict[str, Any], special: str | None, role: str) -> None:
    path = tmp_path / "log.hdf5"
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            if special is None or name != role:
                try:
                    file[name] = array
                except (TypeError, ValueError, OSError, AttributeError, UnicodeError):
                    file.pop(name, None)  # HDF5 has no such type
        if special is not None:
            _special(file, role, len(arrays["observations"]) if arrays["observations"].ndim else 1, special)
    attempt(path)
