"""The comparison behind `make golden`: what it notices, on small folders of results."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def golden(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import golden

    return golden


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks._golden import record

    return record


def result() -> dict[str, Any]:
    return {
        "rate": 0.1,
        "notes": ["one", "two"],
        "nothing": math.nan,
        "none": None,
        "zero": 0.0,
        "rows": 3,
        "inner": {"a": 1, "b": 2},
    }


def write(folder: Path, **results: Any) -> Path:
    folder.mkdir()
    for name, document in results.items():
        (folder / f"{name}.json").write_text(json.dumps(document))
    return folder


def test_equal_results_are_identical(golden: Any, tmp_path: Path) -> None:
    folders = [write(tmp_path / side, one=result(), other={"values": [1, 2]}) for side in ("base", "here")]
    assert golden.compare(*folders) == ([], 2, 11)


@pytest.mark.parametrize(
    ("change", "path", "values"),
    [
        ({"rate": math.nextafter(0.1, 1)}, "rate", ("0.1", "0.10000000000000002")),
        ({"zero": -0.0}, "zero", ("0.0", "-0.0")),
        ({"nothing": 0.0}, "nothing", ("nan", "0.0")),
        ({"rows": 3.0}, "rows", ("3", "3.0")),
        ({"rows": True}, "rows", ("3", "True")),
        ({"notes": ["one", "2"]}, "notes[1]", ("'two'", "'2'")),
        ({"notes": ["one"]}, "notes", ("2 entries", "1 entries")),
        ({"added": {}}, "added", ("missing", "{}")),
        ({"inner": {"b": 2, "a": 1}}, "inner", ("in the order a, b", "in the order b, a")),
    ],
)
def test_every_change_of_a_value_is_noticed(
    golden: Any, tmp_path: Path, change: dict[str, Any], path: str, values: tuple[str, str]
) -> None:
    base = write(tmp_path / "base", case=result())
    here = write(tmp_path / "here", case={**result(), **change})
    lines, *_ = golden.compare(base, here)
    assert lines == [f"case: {path}", f"    BASE  {values[0]}", f"    here  {values[1]}"]


def test_what_is_missing_is_noticed(golden: Any, tmp_path: Path) -> None:
    short = result()
    del short["rate"]
    base, here = write(tmp_path / "base", case=result()), write(tmp_path / "here", case=short, more={})
    lines, *_ = golden.compare(base, here)
    assert lines == ["case: rate", "    BASE  0.1", "    here  missing", "more: BASE has no result"]


def test_a_case_that_fails_everywhere_compares_nothing(golden: Any, tmp_path: Path) -> None:
    folders = [write(tmp_path / side, case={"failed": "ValueError: no"}) for side in ("base", "here")]
    assert golden.compare(*folders)[0] == ["case: fails with both, so that it compares nothing: ValueError: no"]


def test_long_differences_are_cut(golden: Any) -> None:
    (found,) = golden.differences("a" * 1_000 + "b" + "c" * 1_000, "a" * 1_000 + "d" + "c" * 1_000)
    assert "b" in found.base
    assert "d" in found.here
    assert len(found.here) < 200


def test_results_show_every_bit(record: Any, golden: Any, tmp_path: Path) -> None:
    """Arrays, their types, files in archives and the sign of what is no number."""

    def told(array: Any) -> Any:
        np.savez(tmp_path / "arrays.npz", a=array)
        return json.loads(json.dumps(record.plain({"array": array, "file": tmp_path / "arrays.npz"})))

    array = np.array([0.1, np.nan, 3.0])
    known = told(array)
    assert list(golden.differences(known, told(array.copy()))) == []
    for other in (np.nextafter(array, 1), np.array([0.1, -np.nan, 3.0]), array.astype(np.float32), array[None]):
        found = {difference.path.split(".")[0] for difference in golden.differences(known, told(other))}
        assert found == {"array", "file"}


def test_what_differs_between_runs_is_left_out(record: Any, tmp_path: Path) -> None:
    manifest = {
        "created": "today",
        "versions": {"cesaro": "1", "numpy": "2"},
        "parts": [{"run": {"made": "now"}, "a": 1}],
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    assert record.plain(tmp_path) == {"manifest.json": {"versions": {"numpy": "2"}, "parts": [{"a": 1}]}}


def test_without_a_commit_it_says_how_to_use_it(golden: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert golden.main([]) == 2
    assert capsys.readouterr().err.endswith("make golden BASE=COMMIT.\n")
