"""The same log in every format gives the same transitions."""

import os
import shutil
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from cesaro.data import Log, Transitions, Values, read
from cesaro.data.sources import formats
from cesaro.data.sources.files import FilesSource
from cesaro.errors import InputError

from .writers import WRITERS, Writer

ROWS = 40


@pytest.fixture(scope="module")
def arrays() -> dict[str, Any]:
    """A log with D4RL's names: vectors, discrete actions, real next observations, flags and ids over 2**53."""
    rng = np.random.default_rng(5)
    observations = rng.normal(size=(ROWS + 1, 3))
    ends = np.arange(ROWS) % 10 == 9
    return {
        "observations": observations[:-1],
        "actions": rng.integers(0, 3, ROWS),
        "rewards": rng.normal(size=ROWS),
        "next_observations": observations[1:],
        "terminals": ends & (np.arange(ROWS) % 20 == 9),
        "timeouts": ends & (np.arange(ROWS) % 20 == 19),
        "episode_id": 2**53 + np.arange(ROWS) // 10,
    }


@pytest.fixture(scope="module")
def expected(arrays: dict[str, Any]) -> Transitions:
    return Transitions(
        arrays["observations"],
        arrays["actions"],
        arrays["rewards"],
        arrays["next_observations"],
        trajectory=arrays["episode_id"],
        terminated=arrays["terminals"],
        truncated=arrays["timeouts"],
    )


def flat(values: Values) -> list[Any]:
    plain = values.plain()
    return [part.tolist() for part in plain.values()] if isinstance(plain, dict) else [plain.tolist()]


def same(found: Log, expected: Transitions) -> None:
    loaded = found.load()
    for name in ("observations", "actions", "next_observations"):
        mine, theirs = getattr(loaded, name), getattr(expected, name)
        assert mine.form == theirs.form
        assert flat(mine) == flat(theirs)
    for name in ("rewards", "segment", "trajectory", "weights", "available"):
        mine, theirs = getattr(loaded, name), getattr(expected, name)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype
    assert loaded.counts == expected.counts
    assert found.num_rows == expected.num_rows


def as_table(arrays: dict[str, Any]) -> pa.Table:
    return pa.table(
        {
            name: pa.FixedSizeListArray.from_arrays(array.reshape(-1), array.shape[1]) if array.ndim == 2 else array
            for name, array in arrays.items()
        }
    )


def prefixed(arrays: dict[str, Any]) -> pa.Table:
    columns = {}
    for name, array in arrays.items():
        if array.ndim == 2:
            columns.update({f"{name[:-1]}_{j}": array[:, j] for j in range(array.shape[1])})
        else:
            columns[name] = array
    return pa.table(columns)


def _npz(arrays: dict[str, Any], path: Path) -> Path:
    np.savez_compressed(path / "log.npz", **arrays)
    return path / "log.npz"


def _hdf5(arrays: dict[str, Any], path: Path) -> Path:
    with h5py.File(path / "log.hdf5", "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, compression="gzip")
        file["infos/qpos"] = np.zeros(3)
        file["metadata/algorithm"] = "sac"
    return path / "log.hdf5"


def _written(write: Writer, name: str) -> Callable[[dict[str, Any], Path], Path]:
    def make(arrays: dict[str, Any], path: Path) -> Path:
        table = prefixed(arrays) if "prefixed" in name or "csv" in name or "tsv" in name else as_table(arrays)
        write(table, str(path / name))
        return path / name

    return make


def _folder(arrays: dict[str, Any], path: Path) -> Path:
    (path / "log").mkdir()
    table = as_table(arrays)
    for number in range(4):
        pq.write_table(table.slice(number * 10, 10), path / "log" / f"part-{number}.parquet")
    return path / "log"


FORMATS: dict[str, Callable[[dict[str, Any], Path], Any]] = {
    **{ending: _written(write, f"log.{ending}") for ending, write in WRITERS.items()},
    "parquet of one row group": _written(pq.write_table, "log.parquet"),
    "parquet without Arrow's schema": _written(lambda t, p: pq.write_table(t, p, store_schema=False), "log.parquet"),
    "parquet, prefixed": _written(pq.write_table, "prefixed.parquet"),
    "parquet without a file ending": _written(pq.write_table, "log"),
    "feather, compressed": _written(lambda t, p: pyarrow.feather.write_feather(t, p, "lz4"), "log.arrow"),
    "npz": _npz,
    "hdf5": _hdf5,
    "table": lambda arrays, path: as_table(arrays),
    "record batch": lambda arrays, path: as_table(arrays).to_batches()[0],
    "pandas": lambda arrays, path: prefixed(arrays).to_pandas(),
    "pandas with lists": lambda arrays, path: as_table(arrays).to_pandas(),
    "polars": lambda arrays, path: pl.from_arrow(as_table(arrays)),
    "polars, prefixed": lambda arrays, path: pl.from_arrow(prefixed(arrays)),
    "dict": lambda arrays, path: arrays,
    "dict of lists": lambda arrays, path: {name: array.tolist() for name, array in arrays.items()},
}


def test_every_format_that_is_read_in_pieces_has_a_writer() -> None:
    """A new format that is missing in `writers.py` would be left out of most tests of this folder."""
    without = [
        form.name
        for form in formats.FORMATS
        if form.in_pieces is not None and not any(f".{ending}" in form.endings for ending in WRITERS)
    ]
    assert without == []


@pytest.mark.parametrize("name", FORMATS)
def test_every_format(name: str, arrays: dict[str, Any], expected: Transitions, tmp_path: Path) -> None:
    same(read(FORMATS[name](arrays, tmp_path)), expected)


def test_folder_of_files(arrays: dict[str, Any], expected: Transitions, tmp_path: Path) -> None:
    folder = _folder(arrays, tmp_path)
    (folder / "_temporary.parquet").write_bytes(b"")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "x.parquet").write_bytes(b"")
    for source in (folder, str(folder), str(folder / "part-*.parquet"), str(tmp_path / "**" / "part-?.parquet")):
        log = read(source)
        assert log.counts == expected.counts | {"files": 4}
        assert flat(log.load().observations) == flat(expected.observations)
        assert flat(log.load().next_observations) == flat(expected.next_observations)
        assert [block.key for block in log.blocks()] == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_files_that_must_be_sorted_count_as_one(arrays: dict[str, Any], tmp_path: Path) -> None:
    table = as_table(arrays).append_column("step", pa.array(np.arange(ROWS)))
    mixed = table.take(np.random.default_rng(0).permutation(ROWS))
    (tmp_path / "log").mkdir()
    pq.write_table(mixed.slice(0, 15), tmp_path / "log" / "a.parquet")
    pq.write_table(mixed.slice(15), tmp_path / "log" / "b.parquet")
    log = read(tmp_path / "log")
    assert [block.key for block in log.blocks()] == [(0, 0)]
    rank = {code: i for i, code in enumerate(dict.fromkeys(mixed["episode_id"].to_pylist()))}
    order = sorted(range(ROWS), key=lambda i: (rank[arrays["episode_id"][i]], i))
    assert log.load().rewards.tolist() == arrays["rewards"][order].tolist()


NAMED: dict[str, Any] = {
    "load": np.array([0.5, 1.5, -2.0, 0.25]),
    "hour": np.array([1, 2, 23, 0]),
    "region": np.array(["south", "north", "NA", "north"], dtype=object),
    "open": np.array([True, False, True, True]),
    "act": np.array(["accept", "reject", "accept", "accept"], dtype=object),
    "gain": np.array([1, 0, 2, 3]),
}
NAMES: dict[str, Any] = {"observation": ["load", "hour", "region", "open"], "action": "act", "reward": "gain"}


@pytest.mark.parametrize("name", [*WRITERS, "table", "pandas", "polars", "dict", "hdf5"])
def test_named_columns_in_every_format(name: str, tmp_path: Path) -> None:
    table = pa.table(NAMED)
    made: dict[str, Callable[[], Any]] = {
        **{ending: partial(write, table, tmp_path / f"log.{ending}") for ending, write in WRITERS.items()},
        "hdf5": lambda: _hdf5(NAMED, tmp_path),
        "table": lambda: table,
        "pandas": lambda: pd.DataFrame(NAMED).astype({"region": "category"}),
        "polars": lambda: pl.DataFrame(
            {**NAMED, "act": pl.Series(NAMED["act"], dtype=pl.Enum(["reject", "accept", "x"]))}
        ),
        "dict": lambda: NAMED,
    }
    source = made[name]()
    log = read(tmp_path / f"log.{name}" if name in (*WRITERS, "hdf5") else source, **NAMES)
    expected = Transitions(
        {key: NAMED[key] for key in NAMES["observation"]}, NAMED["act"], NAMED["gain"], kinds={"hour": "number"}
    )
    same(log, expected)
    observations = log.load().observations
    assert observations.form == "named"
    assert observations.names == ("load", "hour", "region", "open")
    assert observations.plain()["region"].tolist() == ["south", "north", "NA"]
    assert log.schema.observation.kinds == ("number", "number", "category", "category")
    assert log.action_levels is not None
    assert log.action_levels.tolist() == ["accept", "reject"]


@pytest.fixture(scope="module")
def minari_root(tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, Any]) -> Path:
    """Local Minari data sets: the same log in both storages, and one with a dict space."""
    pytest.importorskip("minari")
    root = tmp_path_factory.mktemp("minari")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(root))
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _make_minari(arrays)
    return root


def _make_minari(arrays: dict[str, Any]) -> None:
    import gymnasium as gym
    import minari
    from minari.data_collector import EpisodeBuffer

    def episodes(observation: Callable[[int, int], Any]) -> list[Any]:
        return [
            EpisodeBuffer(
                id=k,
                observations=observation(10 * k, 10 * k + 10),
                actions=list(arrays["actions"][10 * k : 10 * k + 10]),
                rewards=list(arrays["rewards"][10 * k : 10 * k + 10]),
                terminations=list(arrays["terminals"][10 * k : 10 * k + 10]),
                truncations=list(arrays["timeouts"][10 * k : 10 * k + 10]),
                infos={},
            )
            for k in range(4)
        ]

    def make(name: str, space: Any, data: list[Any], storage: str) -> None:
        minari.create_dataset_from_buffers(
            dataset_id=name,
            buffer=data,
            observation_space=space,
            action_space=gym.spaces.Discrete(3),
            data_format=storage,
            algorithm_name="a",
            author="b",
            author_email="c",
            code_permalink="d",
            description="e",
        )

    whole = np.concatenate([arrays["observations"], arrays["next_observations"][-1:]])
    box = gym.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    for storage in ("hdf5", "arrow"):
        make(f"cesaro/{storage}-v0", box, episodes(lambda a, b: list(whole[a : b + 1])), storage)
    parts = gym.spaces.Dict({"goal": gym.spaces.Discrete(5), "pose": box})
    make(
        "cesaro/parts-v1",
        parts,
        episodes(lambda a, b: {"goal": [i % 5 for i in range(a, b + 1)], "pose": list(whole[a : b + 1])}),
        "hdf5",
    )


@pytest.fixture
def offline(minari_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a network call")

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(minari_root))
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("source", ["minari:cesaro/hdf5-v0", "minari:cesaro/arrow-v0", "cesaro/hdf5-v0"])
def test_minari(source: str, expected: Transitions) -> None:
    same(read(source), expected)


@pytest.mark.usefixtures("offline")
def test_minari_dict_space() -> None:
    log = read("minari:cesaro/parts-v1")
    assert log.num_rows == ROWS
    assert log.schema.observation.kinds == ("category", "number")
    plain = log.load().observations.plain()
    assert list(plain) == ["observation.goal", "observation.pose_0", "observation.pose_1", "observation.pose_2"]
    assert plain["observation.goal"].dtype == np.int64
    alone = read("minari:cesaro/parts-v1", observation="observation.pose")
    assert alone.schema.observation.form == "vector"
    assert alone.schema.roles["next_observation"].columns == ("next_observation.pose",)


@pytest.mark.usefixtures("offline")
def test_minari_that_is_not_here_is_not_fetched(minari_root: Path) -> None:
    for name in ("minari:cesaro/absent-v0", "minari:../hdf5-v0", "minari:"):
        with pytest.raises(InputError, match="must be the id of a Minari data set on this machine"):
            read(name)
    (minari_root / "cesaro" / "broken-v0" / "data").mkdir(parents=True, exist_ok=True)
    with pytest.raises(InputError, match="cesaro/broken-v0 must be a complete Minari data set"):
        read("minari:cesaro/broken-v0")


def _copied(minari_root: Path, storage: str) -> Path:
    """The data of a copy that may be damaged."""
    copy = minari_root / "cesaro" / "copy-v0"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(minari_root / "cesaro" / f"{storage}-v0", copy)
    return copy / "data"


def _external(file: Any) -> None:
    file["episode_1/infos/x"] = h5py.ExternalLink("other.h5", "/x")


def _virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((10,), "f8")
    layout[:] = h5py.VirtualSource("absent.h5", "x", (10,))
    del file["episode_1/rewards"]
    file.create_virtual_dataset("episode_1/rewards", layout)


def _outside(file: Any) -> None:
    del file["episode_1/rewards"]
    file.create_dataset("episode_1/rewards", (10,), "f8", external=[("other.bin", 0, 80)])


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    ("change", "match"),
    [
        (_external, 'data set "episode_1/infos/x" must be written in the file itself. Got a link to another file'),
        (_virtual, 'data set "episode_1/rewards" must be written in the file itself. Got a virtual data set'),
        (_outside, 'data set "episode_1/rewards" must be written in the file itself. Got external storage'),
    ],
)
def test_minari_data_elsewhere_are_refused(change: Callable[[Any], None], match: str, minari_root: Path) -> None:
    with h5py.File(_copied(minari_root, "hdf5") / "main_data.hdf5", "a") as file:
        change(file)
    with pytest.raises(InputError, match=f"^cesaro/copy-v0: {match}"):
        read("minari:cesaro/copy-v0").load()


@pytest.mark.usefixtures("offline")
def test_minari_steps_that_are_missing_are_told(minari_root: Path) -> None:
    """Minari passes over an episode's files that are not there, and gives its id to the next."""
    data = _copied(minari_root, "arrow")
    for file in (data / "1").glob("*.arrow"):
        file.rename(data / "1" / f"_{file.name}")
    match = r"^cesaro/copy-v0 must hold the 40 steps that its metadata count. Got 30, so that some are missing"
    with pytest.raises(InputError, match=match):
        read("minari:cesaro/copy-v0").load()


@pytest.mark.usefixtures("offline")
def test_minari_folders_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "is_dir", refuse)
    with pytest.raises(
        InputError, match=r"^cesaro/hdf5-v0 must be the id of a Minari data set that can be read. Got: .*Perm"
    ):
        read("minari:cesaro/hdf5-v0")


@pytest.mark.parametrize(("package", "extra"), [("h5py", "hdf5"), ("minari", "minari")])
def test_missing_packages_name_the_extra(
    package: str, extra: str, arrays: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minari_root: Path
) -> None:
    source = _hdf5(arrays, tmp_path) if package == "h5py" else "minari:cesaro/hdf5-v0"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(minari_root))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"pip install 'cesaro\[{extra}\]'"):
        read(source)


def test_opening_reads_no_data(arrays: dict[str, Any], tmp_path: Path) -> None:
    path = FORMATS["parquet"](arrays, tmp_path)
    log = read(path)
    content = path.read_bytes()
    path.write_bytes(content[:400])
    assert log.num_rows == ROWS
    assert log.schema.observation.form == "vector"
    assert repr(log) == "Log(log.parquet, 40 rows)"
    with pytest.raises(InputError, match=r"log\.parquet must be a complete Parquet file"):
        log.load()
    path.write_bytes(content)
    assert log.load() is log.load()
    assert [len(block) for block in log.blocks()] == [ROWS]


def test_arrays_of_the_caller_are_copied(arrays: dict[str, Any]) -> None:
    observations = arrays["observations"].copy()
    log = Transitions(observations, arrays["actions"], arrays["rewards"])
    lazy = read({**arrays, "observations": observations}).load()
    observations[:] = np.nan
    for found in (log, lazy):
        plain = found.observations.plain()
        assert np.isfinite(plain).all()
        with pytest.raises(ValueError, match="read-only"):
            plain[0] = 1.0


def test_columns_that_play_no_part_are_not_looked_at(arrays: dict[str, Any]) -> None:
    assert len(read({**arrays, "infos": [object()], "note": "text"}).load()) == ROWS
    frame = prefixed(arrays).to_pandas().assign(infos=[object()] * ROWS)
    assert len(read(frame).load()) == ROWS


def test_named_index_counts_as_columns(arrays: dict[str, Any], expected: Transitions) -> None:
    frame = prefixed(arrays).to_pandas()
    same(read(frame.set_index("episode_id")), expected)
    with pytest.raises(InputError, match="a frame whose index has other names than its columns"):
        read(frame.set_index("episode_id", drop=False))


def test_columns_of_width_one(arrays: dict[str, Any], expected: Transitions) -> None:
    wide = {
        name: array[:, None] if name in ("rewards", "terminals", "timeouts") else array
        for name, array in arrays.items()
    }
    same(read(wide), expected)


def test_overwritten_arrow_file_does_no_harm(arrays: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "log.arrow"
    pyarrow.feather.write_feather(as_table(arrays), path, "uncompressed")
    log = read(path).load()
    before = log.rewards.tolist()
    path.write_bytes(b"\xff" * path.stat().st_size)
    assert log.rewards.tolist() == before


@pytest.mark.parametrize("form", WRITERS)
def test_a_file_that_changes_while_it_is_read_into_memory(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two files is replaced while the other one is read: rows of two versions must not meet."""
    table = pa.table({"state": [0, 1, 0], "action": [0, 1, 1], "reward": [0.0, 1.0, 2.0]})
    write = WRITERS[form]
    for name in "ab":
        write(table, tmp_path / f"{name}.{form}")
    log = read(tmp_path)
    original = FilesSource._own

    def late(self: Any, columns: Any) -> Any:
        new = tmp_path / f"new.{form}"
        write(table.set_column(2, "reward", pa.array([5.0, 6.0, 7.0])), new)
        later = new.stat().st_mtime_ns + 1_000_000  # clocks of file systems may tick every few milliseconds only
        os.utime(new, ns=(later, later))
        new.rename(tmp_path / f"b.{form}")
        return original(self, columns)

    with monkeypatch.context() as patched:
        patched.setattr(FilesSource, "_own", late)
        said = rf"must not change while it is read. Got another size or modification time of b.{form} than before"
        with pytest.raises(InputError, match=said):
            log.load()
    assert len(log.load()) == 5
