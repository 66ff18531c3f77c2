"""The scale benchmark: its parts on a small log, and what it concludes from numbers."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def scale(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import scale

    return scale


def test_a_small_log_runs_through_and_agrees_with_plain_numpy(
    scale: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    file = tmp_path / "terms.json"
    options = ["--sizes", "2e4", "--repeats", "1", "--cores", "1", "--here"]
    scale.main([*options, "--folder", str(tmp_path), "--json", str(file)])
    found = json.loads(file.read_text())
    assert found["cores"] == 1
    (one,) = found["sizes"]
    assert one["rows"] == 20_000
    parts = [one[name] for name in ("opening", "moments", "solving", "influence")]
    assert min(parts) > 0
    assert sum(parts) == pytest.approx(one["seconds"])
    assert found["alternative"]["difference"] < 1e-6
    assert found["alternative"]["rate"] == pytest.approx(one["rate"], rel=1e-6)
    assert abs(one["rate"] + 0.78) < 4 * one["standard_error"]
    assert min(found["pieces"].values()) > 0
    measured = ("float32", "float64", "cores")
    assert found["shares"].keys() == {f"{name}, {kind}" for name in ("moments", "both") for kind in measured}
    assert {path.name for path in tmp_path.iterdir()} == {"terms.json"}, "logs are removed"
    assert cores is None or os.sched_getaffinity(0) == cores
    scale.main(["--terms", str(file)])
    printed = capsys.readouterr().out
    assert "not slower" in printed
    assert printed.count("1e+11") == 5


@pytest.mark.slow
def test_tasks_of_a_cluster_are_counted(scale: Any, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    from benchmarks._scale_log import write_log

    write_log(tmp_path / "log", 5_000)
    found = scale.isolated(scale.cases.on_ray, str(tmp_path / "log"), 1)
    assert found["tasks"] == 2  # of each pass, one stretch
    assert found["task_bytes"] > 1_000
    assert min(found[name] for name in ("task_seconds", "driver_seconds", "possible")) > 0


def test_a_disk_without_room_is_said(
    scale: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scale, "FREE_BYTES", 10**15)
    with pytest.raises(SystemExit, match="--folder"):
        scale.main(["--sizes", "1e3", "--here", "--folder", str(tmp_path)])
    assert "1,000   skipped: needs" in capsys.readouterr().out


def test_the_line_is_fitted_by_relative_residuals(scale: Any) -> None:
    rows = [10**6, 10**7, 5 * 10**7]
    a, b, residuals = scale.line(rows, [0.5 + 2e-6 * n for n in rows])
    assert (a, b) == (pytest.approx(0.5), pytest.approx(2e-6))
    assert max(map(abs, residuals)) < 1e-9
    _, _, residuals = scale.line(rows, [2.5, 22.0, 200.0])
    assert max(map(abs, residuals)) > 0.02


def test_predictions_add_up(scale: Any) -> None:
    """One stretch per core at most: more cores than stretches change nothing, and half the nodes take twice the time."""
    terms = {"fixed": 1.0, "row": 2e-6, "row_bytes": 44.0, "structure": 1e-7, "task": 0.0, "merge": 0.0}
    terms["task_bytes"] = 1e5
    stretch = 64 * 65_536
    one = scale.predict(terms, 16 * stretch, 1, 16)
    assert one["computing"] == pytest.approx(stretch * 2e-6)
    assert one["seconds"] == pytest.approx(1.0 + one["computing"])
    assert one["tasks"] == 32
    assert scale.predict(terms, 16 * stretch, 4, 16)["seconds"] == one["seconds"]
    assert scale.predict(terms, 64 * stretch, 2, 16)["computing"] == pytest.approx(2 * one["computing"])
    slow = scale.predict(terms | {"merge": 10.0}, 16 * stretch, 1, 16)
    assert slow["seconds"] == pytest.approx(1.0 + 320.0)
    thin = scale.predict(terms, 16 * stretch, 1, 16, bandwidth=1e6)
    assert thin["seconds"] == pytest.approx(1.0 + 2 * 16 * stretch * 44e-6)
