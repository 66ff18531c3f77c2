"""Logs sorted with little memory: the order that a log has in memory, all columns, complete or nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cesaro.cli import app
from cesaro.data import Log, read, sort, sorting
from cesaro.data import blocks as block_module
from cesaro.errors import InputError

ROWS = 200


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many parts, and blocks that are smaller than they."""
    monkeypatch.setattr(block_module, "BLOCK_ROWS", 16)
    monkeypatch.setattr(sorting, "PART_BYTES", 2000)
    monkeypatch.setattr(sorting, "_GROUP_BYTES", 3000)
    monkeypatch.setattr(sorting, "_IDS_BEFORE_UNION", 8)


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
    """The content of the blocks of a log."""
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
    refused("does not exist; create it", log, tmp_path / "none" / "out.parquet", time="t")
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
    refused("was not written by sort, so that --force leaves it alone", log, out, time="t", force=True)
    pq.write_table(shuffled(), out)
    refused("was not written by sort, so that --force leaves it alone", log, out, time="t", force=True)


def test_parts_of_an_interrupted_run_are_swept_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, out = split(shuffled(), tmp_path / "log"), tmp_path / "out.parquet"
    with monkeypatch.context() as patch:
        patch.setattr(sorting._Sorter, "_sorted", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            sort(log, out, trajectory="id")
    assert list(tmp_path.iterdir()) == [log]
    partial = tmp_path / "out.parquet.partial"
    partial.mkdir()
    (partial / ".cesaro").write_text("cesaro-folder/1 sort\nresult part-000.arrows\n")
    (partial / "part-000.arrows").write_text("of a run that was killed")
    sort(log, out, trajectory="id")
    assert not partial.exists()
    partial.mkdir()
    for name in ("mine.txt", "part-time-job.docx"):
        (partial / name).write_text("keep me")
        refused(f"holds '{name}' and is in the way", log, out, trajectory="id", force=True)
        assert (partial / name).read_text() == "keep me"
        (partial / name).unlink()


@pytest.mark.parametrize(
    ("value", "what"), [(None, "an empty entry at row 60 of 1.parquet"), (np.nan, "nan at row 60")]
)
@pytest.mark.parametrize("trajectory", ["id", None])
def test_a_wrong_time_is_named_before_rows_are_distributed(
    trajectory: str | None, value: float | None, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[float | None] = [float(i) for i in range(ROWS)]
    times[130] = times[150] = value
    table = shuffled()
    table = table.set_column(1, "t", pa.array(times, from_pandas=False))
    log = split(table, tmp_path / "log", 70)
    monkeypatch.setattr(sorting._Sorter, "_distribute", lambda *_: pytest.fail("too late"))
    more = r" \(counted from 0\), 2 in all" if value is None else " of 1.parquet"
    refused(f'"t" must .*Got {what}{more}', log, tmp_path / "out.parquet", trajectory=trajectory, time="t")
    assert list(tmp_path.iterdir()) == [log]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    table = shuffled()
    table = table.set_column(0, "id", pa.array(np.arange(ROWS) // 50))
    log, out = split(table, tmp_path / "log", 50, 120), tmp_path / "out.parquet"
    (log / "1.parquet").write_bytes(b"PAR1 and no more")
    refused("1.parquet must be .*--skip-bad-files", log, out, trajectory="id")
    told: list[str] = []
    assert sort(log, out, trajectory="id", skip_bad_files=True, tell=told.append) == 130
    assert len(told) == 1
    assert told[0].startswith("Left out 1 of 3 files that cannot be read: 1.parquet (")
    pq.write_table(table.slice(40, 10), log / "2.parquet")
    match = '"id" must end its trajectories before a file that is left out, .* Got 0 on both sides of one; give time='
    refused(match, log, out, trajectory="id", skip_bad_files=True, force=True, tell=told.append)
    arguments = ["sort", str(log), "--trajectory", "id", "--time", "t", "--out", str(out), "--quiet", "--force"]
    result = CliRunner().invoke(app, [*arguments, "--skip-bad-files"])
    assert result.exit_code == 0, result.output
    assert "Left out 1 of 3 files" in result.output
    assert f"60 rows, sorted: {out}" in result.output


def test_the_command_that_sorts_leaves_out_the_same_files(tmp_path: Path) -> None:
    log = split(shuffled(), tmp_path / "log", 50, 120)
    offered = r"or, if there is enough memory, read it as a whole \(stream=False, --no-stream\)"
    for skips in (False, True):
        words = " --skip-bad-files" if skips else ""
        with pytest.raises(InputError, match=f"--time t{words} --out SORTED.parquet, {offered}"):
            read(log, trajectory="id", time="t", stream=True, skip_bad_files=skips).opened()
        (log / "2.parquet").write_bytes(b"PAR1 and no more")


def changed(**columns: Any) -> pa.Table:
    table = shuffled().slice(70)
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(column))
    return table


@pytest.mark.parametrize(
    ("after", "what"),
    [
        (shuffled().slice(71), 'other entries of column "id" in 1.parquet'),
        (pa.concat_tables([shuffled().slice(70), shuffled()]), "another number of rows in 1.parquet"),
        (changed(id=np.arange(130)), 'other entries of column "id" in 1.parquet'),
        (changed(reward=["x"] * 130), 'other entries of column "reward" in 1.parquet'),
        (changed(id=[0.0] * 130), 'other entries of column "id" in 1.parquet'),
        (shuffled().slice(70).drop_columns(["reward"]), "other columns in 1.parquet than before"),
    ],
)
def test_a_log_that_changes(after: pa.Table, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, out = split(shuffled(), tmp_path / "log", 70), tmp_path / "out.parquet"
    distribute = sorting._Sorter._distribute

    def late(*arguments: Any) -> None:
        pq.write_table(after, log / "1.parquet")
        distribute(*arguments)

    monkeypatch.setattr(sorting._Sorter, "_distribute", late)
    refused(f"log must not change while it is read. Got {what}", log, out, trajectory="id", time="t")
    assert list(tmp_path.iterdir()) == [log]


def test_links_and_addresses_do_not_hide_the_log(tmp_path: Path) -> None:
    log = split(shuffled(), tmp_path / "log", 70)
    (tmp_path / "link").symlink_to(log)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "link.parquet").symlink_to(log / "0.parquet")
    new, match = {"time": "t", "force": True}, "must not be part of the log"
    before = (log / "0.parquet").read_bytes()
    for given in (log, tmp_path / "link", f"file://{log}", f"file://{tmp_path}/link"):
        for folder in (log, tmp_path / "link"):
            refused(match, given, folder / "new.parquet", **new)
            refused(match, f"{given}/*.parquet", folder / "new.parquet", **new)
            refused(match, f"{given}/0.parquet", folder / "0.parquet", **new)
    (log / "a").mkdir()
    (log / "b").mkdir()
    (log / "0.parquet").rename(log / "a" / "0.parquet")
    for pattern in ("link/*/*.parquet", "link/**/*.parquet", "log/**/*.parquet"):
        refused(match, tmp_path / pattern, log / "b" / "new.parquet", **new)
    (log / "a" / "0.parquet").rename(log / "0.parquet")
    refused(match, tmp_path / "other", log / "0.parquet", **new)
    refused(match, log, tmp_path / "other" / "link.parquet", **new)
    refused(match, tmp_path / "other" / "link.parquet", tmp_path / "other" / "link.parquet", **new)
    assert (log / "0.parquet").read_bytes() == before
    assert sort(f"file://{log}/0.parquet", tmp_path / "link" / "new.parquet", time="t") == 70


def test_whole_numbers_of_csv_keep_their_digits(tmp_path: Path) -> None:
    ids = [str(10**19 + i) if i % 9 else "" for i in range(ROWS)]
    columns = {"t": np.arange(ROWS)[::-1], "user": ids, "far": [f"{i}e30" for i in range(ROWS)]}
    lines = [",".join(columns), *(f"{t},{user},{far}" for t, user, far in zip(*columns.values()))]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    sort(tmp_path / "log.csv", tmp_path / "out.parquet", time="t")
    result = pq.read_table(tmp_path / "out.parquet")
    assert result["user"].to_pylist() == [text or None for text in reversed(ids)]
    assert result["far"].to_pylist() == [float(f"{i}e30") for i in reversed(range(ROWS))]
    (tmp_path / "log.csv").write_text("t\n" + "\n".join(str(10**20 * i) for i in (3, 1, 2)))
    sort(tmp_path / "log.csv", tmp_path / "out.parquet", time="t", force=True)
    assert pq.read_table(tmp_path / "out.parquet")["t"].to_pylist() == [1e20, 2e20, 3e20]


def test_types_that_arrow_is_particular_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "PART_BYTES", 1 << 20)
    (tmp_path / "log").mkdir()
    for number in range(2):  # more labels together than an int8 can count
        rows = range(number * 100, number * 100 + 100)
        few = pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), pa.array([f"label {i}" for i in rows]))
        views = pa.array([f"a text of some length {i}" for i in rows], pa.string_view())
        table = pa.table({"t": [-i for i in rows], "few": few, "view": views, "key": rows})
        with pa.ipc.new_file(str(tmp_path / "log" / f"{number}.arrow"), table.schema) as file:
            file.write_table(table)
    sort(tmp_path / "log", tmp_path / "out.parquet", trajectory="view", time="t")
    sort(tmp_path / "log", tmp_path / "out.parquet", time="t", force=True)
    result = pq.read_table(tmp_path / "out.parquet")
    assert result["key"].to_pylist() == list(reversed(range(ROWS)))
    assert result["few"].to_pylist() == [f"label {i}" for i in reversed(range(ROWS))]
    assert pa.types.is_dictionary(result["few"].type)
    assert result["view"].to_pylist() == [f"a text of some length {i}" for i in reversed(range(ROWS))]
    runs = pa.RunEndEncodedArray.from_arrays([3, 5], [1.5, 2.5])
    table = pa.table({"t": range(5), "runs": runs})
    with pa.ipc.new_file(str(tmp_path / "runs.arrow"), table.schema) as file:
        file.write_table(table)
    match = '"runs" must have a type that can be sorted and written. Got type run_end_encoded'
    refused(match, tmp_path / "runs.arrow", tmp_path / "out.parquet", time="t", force=True)


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
