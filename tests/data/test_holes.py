"""No transition leads over a file that was left out."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from cesaro.data import Log, read
from cesaro.data import blocks as block_module

ROWS = 300
STATE: dict[str, Any] = {"observation": "x", "action": "a", "reward": "r"}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_module, "BLOCK_ROWS", 16)


def table(**columns: Any) -> pa.Table:
    rows = np.arange(ROWS)
    return pa.table({"x": rows * 1.0, "a": rows % 2, "r": rows * 0.5} | columns)


def written(folder: Path, whole: pa.Table, ending: str = "parquet") -> Path:
    """Three files, the second of which is broken."""
    for number in range(3):
        part, path = whole.slice(number * 100, 100), folder / f"{number}.{ending}"
        pq.write_table(part, path) if ending == "parquet" else pyarrow.csv.write_csv(part, path)
    with (folder / f"1.{ending}").open("wb") as broken:
        broken.write(b"PAR1" if ending == "parquet" else b"x,a,r\n1,2\n")
    return folder


def both(folder: Path, **options: Any) -> list[Log]:
    found: list[Log] = [
        read(folder, **STATE, **options, skip_bad_files=True, stream=stream).opened() for stream in (False, True)
    ]
    assert found[0].counts == found[1].counts
    assert found[0].notes == found[1].notes
    return found


def transitions(log: Log) -> list[tuple[float, float, bool]]:
    """Observation, next observation, whether it goes on from the one before."""
    return [
        (float(now), float(then), bool(goes_on))
        for block in log.blocks()
        for now, then, goes_on in zip(block.observations.plain(), block.next_observations.plain(), block.follows)
    ]


EXPECTED = [(float(row), row + 1.0, row not in (0, 200)) for row in range(299) if row < 99 or row >= 200]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("roles", ["nothing", "ids", "times", "flags"])
def test_rows_before_a_hole_have_no_successor(roles: str, ending: str, tmp_path: Path) -> None:
    columns = {"nothing": {}, "ids": {"i": np.zeros(ROWS, np.int64)}, "times": {"t": np.arange(ROWS)}}
    columns["flags"] = {"e": np.arange(ROWS) == 250}
    options = {"nothing": {}, "ids": {"trajectory": "i"}, "times": {"time": "t"}, "flags": {"terminated": "e"}}
    for log in both(written(tmp_path, table(**columns[roles]), ending), **options[roles]):
        expected = [(now, then, goes_on and not (roles == "flags" and now == 251)) for now, then, goes_on in EXPECTED]
        assert transitions(log) == expected
        assert log.counts["cuts"] == log.counts["dropped: left out"] == 1
        assert log.counts["trajectories"] == (2 if roles == "flags" else 1)
        assert "Trajectories were cut at 1 place where files were left out." in log.notes
        if roles == "ids":
            assert log.lengths is not None
            assert log.lengths.tolist() == [198]


@pytest.mark.parametrize("given", [{}, {"trajectory": "i"}])
def test_next_columns(given: dict[str, str], tmp_path: Path) -> None:
    whole = table(n=np.arange(ROWS) + 1.0, i=np.zeros(ROWS, np.int64))
    for log in both(written(tmp_path, whole), next_observation="n", **given):
        kept = [row for row in range(ROWS) if row < 100 or row >= 200]
        assert transitions(log) == [(float(row), row + 1.0, row not in (0, 200)) for row in kept]
        assert log.counts["cuts"] == 1
        assert log.counts["kept"] == 200


def test_no_restart_after_a_hole(tmp_path: Path) -> None:
    whole = table(e=(np.arange(ROWS) % 50) == 49)
    for log in both(written(tmp_path, whole), terminated="e"):
        assert (49.0, 50.0, True) in transitions(log)
        assert 99.0 not in [now for now, _, _ in transitions(log)]
        assert log.counts["cuts"] == 0
        assert log.counts["dropped: left out"] == 1
        assert not [note for note in log.notes if note.startswith("Trajectories were cut")]


def test_the_reward_is_not_taken_from_behind_a_hole(tmp_path: Path) -> None:
    for log in both(written(tmp_path, table(n=np.arange(ROWS) + 1.0)), next_observation="n", reward_lag=1):
        assert [now for now, _, _ in transitions(log)] == [row for row in range(299) if row < 99 or row >= 200]


def test_a_step_over_a_hole_is_no_gap(tmp_path: Path) -> None:
    time = np.arange(ROWS) + np.where(np.arange(ROWS) >= 250, 1000, 0)
    for log in both(written(tmp_path, table(t=time)), time="t"):
        assert log.counts["cuts"] == 2
        assert any("cut at 1 gap of more" in note for note in log.notes)


def test_reordered_rows(tmp_path: Path) -> None:
    """Every file holds both trajectories: without times all go on in file order; times say it themselves."""
    columns = {"i": np.arange(ROWS) // 50 % 2, "t": np.arange(ROWS)}
    folder = written(tmp_path, table(**columns))
    found = transitions(read(folder, **STATE, trajectory="i", skip_bad_files=True).load())
    assert [(now, then) for now, then, _ in found if then - now != 1] == []
    log = read(folder, **STATE, trajectory="i", time="t", gap=None, skip_bad_files=True).load()
    assert [(now, then) for now, then, _ in transitions(log) if then - now != 1] == [(49.0, 200.0), (99.0, 250.0)]


def test_holes_at_the_ends(tmp_path: Path) -> None:
    written(tmp_path, table())
    (tmp_path / "1.parquet").rename(tmp_path / "9.parquet")
    pq.write_table(table().slice(100, 100), tmp_path / "1.parquet")
    (tmp_path / "-1.parquet").write_bytes(b"PAR1")
    for log in both(tmp_path):
        assert log.counts["cuts"] == 0
        assert len(log) == ROWS - 1
