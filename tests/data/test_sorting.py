"""Logs sorted with little memory: the order that a log has in memory, all columns, complete or nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cesaro.cli import app
from cesaro.data import Log, read, sort, sorting
from cesaro.data import log as log_module
from cesaro.errors import InputError

ROWS = 200


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many parts, and blocks that are smaller than they."""
    monkeypatch.setattr(log_module, "BLOCK_ROWS", 16)
    monkeypatch.setattr(sorting, "PART_BYTES", 2000)
    monkeypatch.setattr(sorting, "_GROUP_BYTES", 3000)
    monkeypatch.setattr(sorting, "_GATHERED", 8)


def shuffled(seed: int = 0, *, text: bool = False) -> pa.Table:
    """Trajectories whose rows are anywhere."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(-12, 12, ROWS)
    columns: dict[str, Any] = {
        "id": [f"t{i}" for i in ids] if text else ids,
        "t": rng.permutation(ROWS) * 10,
        "state": rng.choice(["n", "s", "w"], ROWS),
        "action": rng.integers(0, 3, ROWS),
        "reward": rng.normal(size=ROWS),
        "comment": [None if i % 7 else f"row {i}" for i in range(ROWS)],
        "kind": pa.array(rng.choice(["x", "y"], ROWS)).dictionary_encode(),
        "number": np.arange(ROWS),
    }
    return pa.table(columns)


def told(log: Log) -> list[list[Any]]:
    """What the blocks of a log hold."""
    fields = []
    for block in log.blocks():
        states = [block.observations.plain().tolist(), block.next_observations.plain().tolist()]
        codes = None if block.trajectory is None else block.trajectory.tolist()
        fields.append([block.key, block.start, *states, block.rewards.tolist(), codes, block.follows.tolist()])
    return fields


def split(table: pa.Table, folder: Path, *stops: int) -> Path:
    folder.mkdir()
    for i, (start, stop) in enumerate(zip((0, *stops), (*stops, table.num_rows))):
        pq.write_table(table.slice(start, stop - start), folder / f"{i}.parquet", row_group_size=30)
    return folder


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(("trajectory", "time"), [("id", None), (None, "t"), ("id", "t")])
def test_the_order_of_the_log_in_memory(trajectory: str | None, time: str | None, text: bool, tmp_path: Path) -> None:
    table = shuffled(text=text)
    log = split(table, tmp_path / "log", 70, 70, 120)
    assert sort(log, tmp_path / "sorted.parquet", trajectory=trajectory, time=time) == ROWS
    options: dict[str, Any] = {"trajectory": trajectory or False, "time": time or False, "gap": None}
    expected = read(log, **options, stream=False).opened()
    found = read(tmp_path / "sorted.parquet", **options, stream=True).opened()
    assert told(found) == told(expected)
    assert "The rows were sorted" in expected.notes[0]
    result = pq.read_table(tmp_path / "sorted.parquet")
    assert result.schema.equals(table.schema)
    order = result["number"].to_pylist()
    assert sorted(order) == list(range(ROWS))
    assert result.to_pylist() == table.take(order).to_pylist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "sorted.parquet"]


def test_rows_of_one_time_keep_their_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = pa.table({"t": rng.integers(0, 9, ROWS) * 0.5, "number": np.arange(ROWS)})
    pq.write_table(table, tmp_path / "log.parquet")
    sort(tmp_path / "log.parquet", tmp_path / "out.parquet", time="t")
    expected = table.take(pa.array(np.argsort(table["t"].to_numpy(), kind="stable")))
    assert pq.read_table(tmp_path / "out.parquet").equals(expected)


def test_csv_and_arrow(tmp_path: Path) -> None:
    table = shuffled(text=True).drop_columns(["kind"])
    pyarrow.csv.write_csv(table, tmp_path / "log.csv")
    pyarrow.feather.write_feather(table, str(tmp_path / "log.arrow"))
    for name in ("log.csv", "log.arrow"):
        sort(tmp_path / name, tmp_path / "out.parquet", trajectory="id", time="t", force=True)
        result = pq.read_table(tmp_path / "out.parquet")
        assert result.equals(table.take(result["number"].to_pylist()))


def test_what_the_log_says_about_itself_is_kept(tmp_path: Path) -> None:
    table = shuffled().replace_schema_metadata({b"cesaro": b'{"on_termination": "drop"}'})
    pq.write_table(table, tmp_path / "log.parquet")
    sort(tmp_path / "log.parquet", tmp_path / "out.parquet", trajectory="id")
    assert read(tmp_path / "out.parquet").schema.settings.on_termination == "drop"


def refused(match: str, *arguments: Any, **options: Any) -> None:
    with pytest.raises(InputError, match=match):
        sort(*arguments, **options)


def test_nothing_is_written_where_something_is_wrong(tmp_path: Path) -> None:
    log, out = split(shuffled(), tmp_path / "log"), tmp_path / "out.parquet"
    refused('must have the column "nobody" that trajectory= names. Got id, t', log, out, trajectory="nobody")
    refused("sorted by trajectory=, time= or both. Got neither", log, out)
    refused("must end in .parquet", log, tmp_path / "out.csv", time="t")
    refused("must not be part of the log", log, log / "out.parquet", time="t")
    refused("must not be part of the log", str(log / "*.parquet"), log / "out.parquet", time="t")
    refused("no folder one can write to", log, tmp_path / "none" / "out.parquet", time="t")
    refused('"comment" must not have missing entries. Got an empty entry at row 1', log, out, trajectory="comment")
    np.savez(tmp_path / "log.npz", a=np.zeros(3))
    refused("must be Parquet, CSV or Arrow files to be sorted", tmp_path / "log.npz", out, time="a")
    assert not out.exists()


def test_what_is_there_is_replaced_on_demand_alone(tmp_path: Path) -> None:
    log, out = split(shuffled(), tmp_path / "log"), tmp_path / "out.parquet"
    sort(log, out, trajectory="id")
    before = out.read_bytes()
    refused("exists; add --force", log, out, time="t")
    assert out.read_bytes() == before
    sort(log, out, time="t", force=True)
    assert pq.read_table(out)["t"].to_pylist() == sorted(shuffled()["t"].to_pylist())
    out.write_text("notes")
    refused("is no Parquet file, so that --force leaves it alone", log, out, time="t", force=True)


def test_parts_of_an_interrupted_run_are_swept_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, out = split(shuffled(), tmp_path / "log"), tmp_path / "out.parquet"
    with monkeypatch.context() as patch:
        patch.setattr(sorting._Sorter, "_sorted", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            sort(log, out, trajectory="id")
    assert not out.exists()
    assert any((tmp_path / "out.parquet.partial").iterdir())
    sort(log, out, trajectory="id")
    assert not (tmp_path / "out.parquet.partial").exists()
    (tmp_path / "out.parquet.partial").mkdir()
    (tmp_path / "out.parquet.partial" / "mine.txt").write_text("keep me")
    refused("mine.txt' was not written by sort", log, out, trajectory="id", force=True)


def test_command(tmp_path: Path) -> None:
    log, out = split(shuffled(), tmp_path / "log"), tmp_path / "out.parquet"
    arguments = ["sort", str(log), "--trajectory", "id", "--time", "t", "--out", str(out), "--quiet"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert result.output == f"200 rows, sorted: {out}\n"
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "exists; add --force" in result.output
    result = CliRunner().invoke(app, ["sort", str(log), "--out", str(tmp_path / "other.parquet")])
    assert "error: A log is sorted by --trajectory, --time or both." in result.output
