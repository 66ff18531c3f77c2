"""A log that is read in blocks gives what the same log gives in memory, bit for bit."""

import os
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from cesaro.data import Block, Log, Values, gaps, read, reader, streamed, windows
from cesaro.data import blocks as block_module
from cesaro.data.sources import places
from cesaro.data.values import Categories
from cesaro.errors import InputError

BLOCK = 8  # instead of 65,536


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_module, "BLOCK_ROWS", BLOCK)
    monkeypatch.setattr(block_module, "STRETCH_BLOCKS", 3)


def both(path: Path, **options: Any) -> tuple[Log, Log]:
    """The same log in blocks and in memory."""
    found = [read(path, **options, stream=stream).opened() for stream in (True, False)]
    assert [log.is_streamed for log in found] == [True, False]
    return found[0], found[1]


def assert_same_arrays(own: Any, other: Any) -> None:
    if own is None or other is None:
        assert own is other
        return
    assert own.dtype == other.dtype
    assert own.shape == other.shape
    if own.dtype == object:
        assert own.tolist() == other.tolist()
    else:
        assert own.tobytes() == other.tobytes()


def assert_same_values(own: Values, other: Values) -> None:
    assert (own.form, own.names, len(own.columns)) == (other.form, other.names, len(other.columns))
    for mine, theirs in zip(own.columns, other.columns):
        assert isinstance(mine, Categories) == isinstance(theirs, Categories)
        if isinstance(mine, Categories) and isinstance(theirs, Categories):
            assert_same_arrays(mine.codes, theirs.codes)
            assert_same_arrays(mine.levels, theirs.levels)
        else:
            assert_same_arrays(mine, theirs)


def assert_same_blocks(own: list[Block], other: list[Block]) -> None:
    assert [(block.key, block.start, len(block)) for block in own] == [
        (block.key, block.start, len(block)) for block in other
    ]
    for mine, theirs in zip(own, other):
        for name in ("observations", "actions", "next_observations"):
            assert_same_values(getattr(mine, name), getattr(theirs, name))
        for name in ("rewards", "weights", "trajectory", "follows", "available"):
            assert_same_arrays(getattr(mine, name), getattr(theirs, name))


def assert_same(own: Log, other: Log) -> None:
    assert own.counts == other.counts
    assert list(own.counts) == list(other.counts)
    assert own.notes == other.notes
    assert own.schema == other.schema
    assert len(own) == len(other)
    assert own.num_rows == other.num_rows
    assert own.stretches == other.stretches
    assert_same_arrays(own.lengths, other.lengths)
    assert_same_arrays(own.action_levels, other.action_levels)
    assert_same_arrays(own.states(), other.states())
    assert_same_blocks(list(own.blocks()), list(other.blocks()))


class Drawn:
    """A random log: a table, how it is split, and how it is read."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.rows = int(self.rng.integers(20, 70))
        self.options: dict[str, Any] = {"weight": False, "trajectory": False, "time": False}
        self.columns: dict[str, Any] = {"reward": self.rng.normal(size=self.rows)}
        has_next = self.maybe()
        self._observations(has_next)
        self._actions()
        self._order()
        if self.maybe():
            self.columns["w"] = self.rng.uniform(size=self.rows) * (self.rng.uniform(size=self.rows) < 0.7) + 1e-3
            self.options["weight"] = "w"
        if has_next and self.maybe():
            self._gaps_where_nothing_is_needed()
        if self.options["action"] == "a_*" and self.maybe():
            self.options["action_bounds"] = self.choice((-0.5, 0.5), (None, [0.2, 1.0]), ([0.0, None], None))

    def maybe(self, share: float = 0.5) -> bool:
        return bool(self.rng.uniform() < share)

    def choice(self, *values: Any) -> Any:
        return values[self.rng.integers(len(values))]

    def _observations(self, has_next: bool) -> None:
        form = self.choice("named", "label", "vector", "list", "number")
        draws: dict[str, Any] = {
            "load": lambda: self.rng.normal(size=self.rows),
            "region": lambda: self.rng.choice(["n", "s", "wü", "x"], self.rows),
            "bin": lambda: self.rng.integers(-3, 3, self.rows),
            "o_0": lambda: self.rng.integers(0, 3, self.rows).astype(np.float32),
            "o_1": lambda: self.rng.normal(size=self.rows),
            "v": lambda: pa.array(self.rng.integers(0, 2, (self.rows, 2)).astype(np.float32).tolist()),
        }
        names = {
            "named": ["load", "region", "bin"],
            "label": [self.choice("region", "bin")],
            "vector": ["o_0", "o_1"],
            "list": ["v"],
            "number": ["load"],
        }[form]
        for name in names:
            self.columns[name] = draws[name]()
            if has_next:
                below = pa.array(self.columns[name]).take(pa.array(np.minimum(np.arange(self.rows) + 1, self.rows - 1)))
                self.columns[f"next_{name}"] = below if self.maybe() else draws[name]()
        self.options["observation"] = "o_*" if form == "vector" else names
        self.options["next_observation"] = [f"next_{name}" for name in names] if has_next else False
        if has_next and form == "vector":
            self.options["next_observation"] = "next_o_*"
        if "bin" in names and self.maybe():
            self.options["kinds"] = {"bin": "category"}

    def _actions(self) -> None:
        if self.maybe():
            self.columns |= {"a_0": self.rng.normal(size=self.rows), "a_1": self.rng.normal(size=self.rows)}
            self.options["action"] = "a_*"
            return
        taken = self.rng.integers(0, 3, self.rows)
        labels = self.choice(np.array(["l", "m", "r"]), np.array([5, 2, 9]))
        self.columns["act"] = labels[taken]
        self.options["action"] = "act"
        if self.maybe():
            others = self.rng.integers(0, 3, self.rows)
            known = np.unique(taken)
            self.columns["available"] = [
                sorted({labels[i].item(), labels[j if j in known else i].item()}) for i, j in zip(taken, others)
            ]

    def _order(self) -> None:
        codes = np.zeros(self.rows, dtype=np.int64)
        if self.maybe(0.6):
            codes = np.sort(self.rng.integers(0, max(1, self.rows // self.choice(2, 10, 30)), self.rows))
            ids = self.rng.permutation(200)[codes] - 100
            self.columns["trajectory"] = [f"t{i}" for i in ids] if self.maybe() else ids
            self.options["trajectory"] = "trajectory"
        flagged = self.maybe(0.6)
        ended = np.zeros(self.rows, dtype=np.bool_)
        if flagged:
            for name in ("terminated", "truncated"):
                self.columns[name] = self.rng.uniform(size=self.rows) < 0.15
                ended |= self.columns[name]
            if self.maybe(0.2):  # every episode of one length
                self.columns["terminated"] = np.zeros(self.rows, dtype=np.bool_)
                self.columns["truncated"] = ended = np.arange(self.rows) % 5 == 4
            self.options |= {
                "on_termination": self.choice("restart", "keep", "drop"),
                "on_truncation": self.choice("restart", "keep", "drop"),
            }
            if "trajectory" not in self.columns:
                codes = np.append(0, np.cumsum(ended)[:-1])
        self.options["reward_lag"] = int(self.maybe(0.3))
        if self.maybe():
            steps = self.rng.choice([1, 1, 1, 2, 7], self.rows) if self.maybe() else np.ones(self.rows, dtype=np.int64)
            time = np.cumsum(steps)
            if self.maybe():  # begins anew in every trajectory
                time = time - np.maximum.accumulate(np.where(np.diff(codes, prepend=-1) > 0, time, 0))
            self.columns["time"] = time if self.maybe() else time * 0.1
            self.options |= {"time": "time", "gap": self.choice(1.5, 3.0, None)}

    def _gaps_where_nothing_is_needed(self) -> None:
        """Missing next observations at rows that are restarted."""
        if self.options.get("on_termination") != "restart" or "terminated" not in self.columns:
            return
        gone = pa.array(self.columns["terminated"])
        for name in [name for name in self.columns if name.startswith("next_")]:
            column = pa.array(self.columns[name])
            self.columns[name] = pa.compute.if_else(gone, pa.nulls(self.rows, column.type), column)

    def write(self, folder: Path) -> Path:
        table = pa.table(self.columns)
        borders = np.sort(self.rng.integers(0, self.rows + 1, self.choice(0, 1, 3)))
        for i, (start, stop) in enumerate(zip(np.append(0, borders), np.append(borders, self.rows))):
            part = table.slice(start, stop - start)
            pq.write_table(part, folder / f"{i}.parquet", row_group_size=int(self.rng.integers(1, 30)))
        return folder


@pytest.mark.parametrize("seeds", [range(start, start + 8) for start in range(0, 32, 8)])
def test_blocks_are_those_of_the_log_in_memory(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        drawn = Drawn(seed)
        own, other = both(drawn.write(folder), **drawn.options)
        assert_same(own, other)
        sent = pickle.loads(pickle.dumps(own))
        for stretch in other.stretches:
            assert_same_blocks(list(sent.blocks(stretch)), list(other.blocks(stretch)))


@pytest.mark.parametrize(("size", "seed"), [(10, 3), (10, 5), (20, 18), (1000, 26)])
def test_samples_are_those_of_the_log_in_memory(
    size: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_module.sample_rows, "__defaults__", (size,))
    drawn = Drawn(seed)
    own, other = both(drawn.write(tmp_path), **drawn.options)
    assert len(other) > 10
    assert other.counts["restarts"]
    for random_state in range(3):
        mine, theirs = own.sample(random_state), other.sample(random_state)
        assert_same_arrays(mine.index, theirs.index)
        assert_same_blocks([mine.rows], [theirs.rows])


def plain(rows: int = 60, **columns: Any) -> pa.Table:
    rng = np.random.default_rng(0)
    given = {"state": rng.integers(0, 4, rows), "action": rng.integers(0, 3, rows), "reward": rng.normal(size=rows)}
    return pa.table({name: column for name, column in (given | columns).items() if column is not None})


def split(table: pa.Table, folder: Path) -> Path:
    """In two files, the second of which begins in the middle of a block."""
    pq.write_table(table.slice(0, 27), folder / "a.parquet", row_group_size=10)
    pq.write_table(table.slice(27), folder / "b.parquet", row_group_size=7)
    return folder


def test_csv_and_arrow_files(tmp_path: Path) -> None:
    table = plain(trajectory=[f"t{i // 13}" for i in range(60)], terminated=[i % 9 == 8 for i in range(60)])
    (tmp_path / "csv").mkdir()
    (tmp_path / "arrow").mkdir()
    for i, part in enumerate((table.slice(0, 27), table.slice(27))):
        pyarrow.csv.write_csv(part, tmp_path / "csv" / f"{i}.csv")
        with pa.ipc.new_file(str(tmp_path / "arrow" / f"{i}.arrow"), part.schema) as file:
            file.write_table(part, max_chunksize=11)
    for folder in ("csv", "arrow"):
        assert_same(*both(tmp_path / folder))


def test_roles_may_share_a_column(tmp_path: Path) -> None:
    tick = np.arange(60) * 1.0
    after: dict[str, Any] = {"next_state": np.full(60, 9), "next_action": np.full(60, 7), "next_tick": tick + 1}
    folder = split(plain(tick=tick, terminated=np.arange(60) % 5 == 0, **after), tmp_path)
    kinds = {"state": "category", "action": "category"}
    own, other = both(folder, observation=["state", "action", "tick"], action="action", time="tick", kinds=kinds)
    assert_same(own, other)
    assert own.action_levels is not None
    assert own.action_levels.tolist() == [0, 1, 2]  # 7 is seen in an observation alone


def test_size_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = split(plain(), tmp_path)
    assert not read(folder).opened().is_streamed
    monkeypatch.setattr(reader, "STREAM_BYTES", 100)
    log = read(folder)
    assert log.opened().is_streamed
    assert log.is_streamed  # what is asked of a handle is answered by what it opens to
    assert log.opened() is log.opened()
    assert log.opened().opened() is log.opened()
    assert len(log) == 59
    assert log.counts["rows"] == 60
    assert not read(folder, stream=False).opened().is_streamed
    assert not read(plain()).opened().is_streamed
    with pytest.raises(InputError, match=r"stream=True needs a log of Parquet, CSV or Arrow files. Got table"):
        read(plain(), stream=True)


class Reads:
    """Notes what is asked of a source."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, log: Any) -> None:
        self.calls: list[tuple[int, tuple[str, ...], int]] = []
        batches = log.origin.source.batches

        def noted(file: int, columns: Any, start: int = 0) -> Any:
            self.calls.append((file, tuple(columns), start))
            return batches(file, columns, start)

        monkeypatch.setattr(log.origin.source, "batches", noted)


def test_only_what_is_needed_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table = plain(state=rng.normal(size=60), action=rng.normal(size=60))
    log = read(split(table, tmp_path), stream=True)
    reads = Reads(monkeypatch, log)
    columns = ("state", "action", "reward")
    opened = log.opened()
    assert reads.calls == [(0, columns, 0)]  # the first row
    list(opened.blocks(opened.stretches[-1]))
    assert reads.calls[1:] == [(1, columns, 24)]
    monkeypatch.setattr(block_module.sample_rows, "__defaults__", (1,))
    opened.sample(0)
    assert len(reads.calls) == 3
    complete = read(split(table.append_column("next_state", table["state"]), tmp_path), stream=True).opened()
    reads = Reads(monkeypatch, complete)
    list(complete.blocks(complete.stretches[0]))
    list(complete.blocks(complete.stretches[1]))
    assert [call[0] for call in reads.calls] == [0, 0]  # nothing stands in the row below, which is in the other file
    labelled = read(split(plain(trajectory=np.arange(60) // 20), tmp_path), stream=True)
    reads = Reads(monkeypatch, labelled)
    labelled.opened()
    assert [call[1] for call in reads.calls[1:]] == [("trajectory", "state", "action")] * 2


def test_pickles_hold_no_data(tmp_path: Path) -> None:
    rows = 5000
    folder = split(plain(rows, state=np.arange(rows) * 0.5, action=np.zeros(rows)), tmp_path)
    log = read(folder, stream=True).opened()
    log.load()
    assert len(pickle.dumps(log)) < 8 * rows


# Order


def refused(match: str, folder: Path, **options: Any) -> None:
    with pytest.raises(InputError, match=match) as caught:
        read(folder, **options, stream=True).opened()
    assert str(caught.value).count("\n") == 0


@pytest.mark.parametrize(("at", "where"), [(5, "row 5 of a.parquet"), (50, "row 23 of b.parquet")])
@pytest.mark.parametrize("text", [False, True])
def test_trajectories_must_be_contiguous(at: int, where: str, text: bool, tmp_path: Path) -> None:
    ids = np.arange(60) // 2
    ids[at:] += 1000
    ids[at] = 1  # again
    folder = split(plain(trajectory=[f"t {i}" for i in ids] if text else ids, time=np.arange(60)), tmp_path)
    folder = folder.rename(tmp_path.parent / f"{tmp_path.name} x")
    command = f"cesaro sort '{folder}' --trajectory trajectory --time time --out SORTED.parquet"
    refused(rf'"trajectory" must keep the rows of a trajectory together.* at {where} .*; sort it: {command}', folder)
    folder.rename(tmp_path)


def test_ids_are_compared_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "_CHECKED", 4)
    log, _ = both(split(plain(trajectory=np.arange(60) // 2), tmp_path))
    assert log.counts["trajectories"] == 30
    ids = [5, *range(1, 60)]
    refused("comes back at row 5 of a.parquet", split(plain(trajectory=ids), tmp_path))


def test_times_must_increase(tmp_path: Path) -> None:
    time = np.arange(60)
    time[40] = 3
    command = "cesaro sort .* --time time --out SORTED.parquet"
    refused(
        f'"time" must increase within a trajectory, .* an earlier time at row 13 of b.parquet .*{command}',
        split(plain(time=time), tmp_path),
    )
    time[40] = time[39]
    folder = split(plain(time=time), tmp_path)
    refused("the same at row 12 of b.parquet .* and row 13 of b.parquet", folder)
    with pytest.raises(InputError, match=r"the same at row 12 of b.parquet .* and row 13 of b.parquet"):
        read(folder).opened()


def test_times_of_episodes_without_ids(tmp_path: Path) -> None:
    ended = np.arange(60) % 10 == 9
    steps = np.arange(60) % 10
    own, other = both(split(plain(time=steps, terminated=ended), tmp_path))
    assert_same(own, other)
    # Times that never repeat order the log as a whole.
    time = np.arange(60) + np.where(np.arange(60) < 30, 100, 0)
    folder = split(plain(time=time, terminated=ended), tmp_path)
    assert "sorted by time" in read(folder).notes[0]
    refused('"time" must increase, .*an earlier time at row 3 of b.parquet', folder)


# Gaps in time


def test_different_steps_are_counted_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    even = np.cumsum(1 + 0.1 * rng.uniform(size=60))
    monkeypatch.setattr(gaps, "DISTINCT", 10)
    assert_same(*both(split(plain(time=even), tmp_path)))  # no step is long
    gap = even + 5 * (np.arange(60) > 30)
    folder = split(plain(time=gap), tmp_path)
    refused(r'"time" must have at most 2\*\*20 different steps .* gap=None', folder)
    assert_same(*both(folder, gap=None))
    monkeypatch.setattr(gaps, "DISTINCT", 60)
    own, other = both(folder)
    assert_same(own, other)
    assert own.counts["cuts"] == 1
    # Trajectories of two steps are judged by the steps of all.
    short = split(plain(time=gap, trajectory=np.arange(60) // 3), tmp_path)
    assert_same(*both(short))
    monkeypatch.setattr(gaps, "DISTINCT", 10)
    refused("at most 2", short)


# Data that are wrong


@pytest.mark.parametrize(
    ("name", "wrong", "options"),
    [
        ("load", float("nan"), {"observation": "load"}),
        ("load", None, {"observation": "load"}),
        ("reward", float("inf"), {}),
        ("w", -1.0, {"weight": "w"}),
        ("terminated", 2, {}),
        ("state", None, {}),
        ("available", [7], {}),
        ("available", [0], {}),
        ("lists", [1.0], {"observation": "lists"}),
        ("next_state", None, {"next_observation": "next_state"}),
    ],
)
@pytest.mark.parametrize("at", [[37], [40, 41, 59]])
def test_wrong_data_get_the_same_sentence(
    name: str, wrong: Any, options: dict[str, Any], at: list[int], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    columns: dict[str, list[Any]] = {
        "load": rng.normal(size=60).tolist(),
        "w": [1.0] * 60,
        "terminated": [0] * 60,
        "available": [[0, 1, 2]] * 60,
        "lists": [[1.0, 2.0]] * 60,
        "next_state": rng.integers(0, 4, 60).tolist(),
        "reward": [1.0] * 60,
        "state": rng.integers(0, 4, 60).tolist(),
        "action": [1, 2, 0] * 20,
    }
    for row in at:
        columns[name][row] = wrong
    folder = split(pa.table(columns), tmp_path)
    options = {"weight": False, "next_observation": False, "observation": "state", **options}
    said = []
    for stream in (False, True):
        with pytest.raises(InputError) as caught:
            list(read(folder, **options, stream=stream).blocks())
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert f"row {at[0] - 27} of b.parquet" in said[1]


@pytest.mark.parametrize(
    ("name", "said"), [("state", "hold lists of one length"), ("then", 'have the width of "state"')]
)
@pytest.mark.parametrize("short", [range(32, 60), [38], range(29, 60, 2)])
def test_lists_of_another_length_in_a_later_block(name: str, said: str, short: Any, tmp_path: Path) -> None:
    columns: dict[str, Any] = {other: [[1.0, 2.0]] * 60 for other in ("state", "then")}
    columns[name] = [[1.0] if row in short else [1.0, 2.0] for row in range(60)]
    split(plain(**columns), tmp_path)
    for stream in (False, True):
        with pytest.raises(
            InputError, match=rf'"{name}" must {said} \(2.*Got 1 entries at row {short[0] - 27} of b.parq'
        ):
            list(read(tmp_path, next_observation="then", stream=stream).blocks())


def test_nothing_is_left_and_no_weight(tmp_path: Path) -> None:
    folder = split(plain(w=[0.0] * 59 + [1.0], terminated=[True] * 60), tmp_path)
    options: dict[str, Any] = {"weight": "w", "on_termination": "drop", "stream": True}
    with pytest.raises(InputError, match=r"must leave at least one transition. Got none of 60 rows .60 terminated"):
        read(folder, **options).opened()
    with pytest.raises(InputError, match='"w" must not be zero in every row'):
        read(folder, weight="w", terminated=False, stream=True).opened()


@pytest.mark.parametrize("many_cores", [False, True])
def test_a_log_must_not_change_while_it_is_read(
    many_cores: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readings are compared with each other, and those of a copy in another process with what opening the log told."""
    monkeypatch.setattr(streamed, "has_many_cores", lambda: many_cores)
    before = set(threading.enumerate())
    table = plain(terminated=[False] * 60)
    log = read(split(table, tmp_path), stream=True).opened()
    copy = pickle.dumps(log)

    def refused(said: str, *logs: Log) -> None:
        for one in logs:
            with pytest.raises(InputError, match=said):
                list(one.blocks())

    changed = "must not change while it is read. Got"
    pq.write_table(table.slice(0, 40), tmp_path / "b.parquet")
    refused(rf"{changed} other entries of column \"state\" in b.parquet than before; run it again", log)
    refused(rf"{changed} another number of rows in b.parquet than before; run it again", pickle.loads(copy))
    split(table.set_column(0, "state", pa.array([9] * 60)), tmp_path)
    refused(rf"{changed} other entries of column \"state\" in a.parquet", log)
    refused(r'"state" must keep its labels while the log is read. Got 9, which is new', pickle.loads(copy))
    split(table.set_column(0, "state", table["state"].cast(pa.int16())), tmp_path)
    refused(rf"{changed} other entries of column \"state\" in a.parquet", log)
    split(table.drop_columns(["state"]), tmp_path)
    refused(rf"{changed} other columns in a.parquet than before", log, pickle.loads(copy))
    split(table, tmp_path)
    assert len(list(log.blocks())) == len(list(pickle.loads(copy).blocks()))
    next(log.blocks())
    assert set(threading.enumerate()) == before


def test_a_change_is_refused_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the file had just been written when it was opened, and has been left alone since it was changed."""
    monkeypatch.setattr(places, "SETTLED", 10**18)
    log = read(split(plain(), tmp_path), stream=True).opened()
    assert sum(map(len, log.blocks())) == 59
    pq.write_table(plain(reward=np.arange(60.0)).slice(27), tmp_path / "b.parquet")
    monkeypatch.setattr(places, "SETTLED", 0)
    for _ in range(20):  # more than the file has blocks
        with pytest.raises(InputError, match=r'other entries of column "reward" in b.parquet'):
            list(log.blocks())


def test_a_block_is_hashed_once_where_its_file_is_untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that has just been written may change again within the same tick of the clock, and is hashed each time."""
    folder, hashed, digest = split(plain(), tmp_path), [], windows.column_digest

    def counted(values: Any) -> bytes:
        hashed.append(values)
        return digest(values)

    monkeypatch.setattr(windows, "column_digest", counted)

    def hashes(log: Log) -> int:
        hashed.clear()
        assert sum(map(len, log.blocks())) == 59
        return len(hashed)

    monkeypatch.setattr(places, "SETTLED", 10**18)
    fresh = read(folder, stream=True).opened()
    every = hashes(fresh)
    assert every == hashes(fresh) > 9
    monkeypatch.setattr(places, "SETTLED", 0)  # some seconds later
    assert every == hashes(fresh) > hashes(fresh) == 0
    settled = read(folder, stream=True).opened()
    assert hashes(settled) > hashes(settled) == 0
    os.utime(folder / "a.parquet")
    assert 0 < hashes(settled) < every
    pq.write_table(plain(reward=np.arange(60.0)).slice(27), folder / "b.parquet")
    with pytest.raises(InputError, match=r'other entries of column "reward" in b.parquet'):
        hashes(settled)


def test_types_that_change_within_a_first_reading(tmp_path: Path) -> None:
    table = plain()
    log = read(split(table, tmp_path), stream=True, terminated=False).opened()
    copy = pickle.loads(pickle.dumps(log))
    blocks = copy.blocks()
    next(blocks)
    pq.write_table(
        table.slice(27).cast(pa.schema([f.with_type(pa.float64()) for f in table.schema])), tmp_path / "b.parquet"
    )
    with pytest.raises(InputError, match=r"must not change while it is read. Got other entries of column"):
        list(blocks)
