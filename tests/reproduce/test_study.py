"""The folder protocol: resume, refuse, replace, never half a result."""

import json
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cesaro import __version__
from cesaro.errors import InputError
from cesaro.files import Arrays
from cesaro.progress import progress
from cesaro.reproduce.study import SCHEMA, Folder, check_workers, compute, manifest

FILES = [".cesaro", "manifest.json", "result.txt"]
SETTINGS = {"study": "demo", "trials": 3, "sigmas": (0.0, 0.1)}


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def finish(out: Path, text: str = "new", settings: dict[str, Any] = SETTINGS, *, force: bool = False) -> None:
    with Folder(out, settings, force=force) as work:
        work.file("result.txt").write_text(text, encoding="utf-8")
        work.finish(manifest("demo", settings, command="", seed=0, summary={}))


def interrupt(out: Path, settings: dict[str, Any] = SETTINGS) -> None:
    """Leave a partial folder with one piece."""
    with Folder(out, settings) as work:
        work.store("a", {"x": np.arange(3)})


def test_pieces_survive_an_interruption(tmp_path: Path) -> None:
    interrupt(tmp_path / "out")
    with Folder(tmp_path / "out", SETTINGS) as work:
        stored = work.load("a")
        assert stored is not None
        np.testing.assert_array_equal(stored["x"], [0, 1, 2])
        assert work.load("b") is None


def test_a_finished_folder_holds_the_results_and_nothing_else(tmp_path: Path) -> None:
    interrupt(tmp_path / "out")
    finish(tmp_path / "out")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    assert names(tmp_path / "out") == FILES


def test_other_settings_are_refused_by_name_with_both_values(tmp_path: Path) -> None:
    interrupt(tmp_path / "out")
    with (
        pytest.raises(InputError, match=r"\(trials is 3 there and 4 here\); repeat that command .* delete that folder"),
        Folder(tmp_path / "out", {**SETTINGS, "trials": 4}),
    ):
        pass
    with (
        pytest.raises(InputError, match="extra is unset there and 1 here"),
        Folder(tmp_path / "out", {**SETTINGS, "extra": 1}),
    ):
        pass


def test_pieces_of_another_version_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(tmp_path / "out")
    monkeypatch.setattr("cesaro.folders.__version__", "9.9")
    with (
        pytest.raises(InputError, match=f"cesaro is {re.escape(__version__)} there and 9.9 here"),
        Folder(tmp_path / "out", SETTINGS),
    ):
        pass


def test_an_existing_folder_is_refused_without_force(tmp_path: Path) -> None:
    finish(tmp_path / "out", "old")
    with pytest.raises(InputError, match="exists; add --force to replace it"):
        finish(tmp_path / "out", "new")
    assert (tmp_path / "out" / "result.txt").read_text(encoding="utf-8") == "old"


def test_force_keeps_the_old_folder_until_the_new_one_is_complete(tmp_path: Path) -> None:
    out = tmp_path / "out"
    finish(out, "old")
    with Folder(out, SETTINGS, force=True) as work:
        work.file("result.txt").write_text("new", encoding="utf-8")
        assert (out / "result.txt").read_text(encoding="utf-8") == "old"
        work.finish(manifest("demo", SETTINGS, command="", seed=0, summary={}))
    assert (out / "result.txt").read_text(encoding="utf-8") == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_kill_between_the_two_renames_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    out = tmp_path / "out"
    finish(out, "old")
    rename = Path.rename

    def stopped(self: Path, target: Path) -> Path:
        if self.name == "out.partial":
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", stopped)
        if is_killed:
            patch.setattr(Folder, "_give_up", lambda folder: folder._held.close())
        with pytest.raises(KeyboardInterrupt):
            finish(out, "new", force=True)
    assert out.exists() is not is_killed
    if is_killed:
        (replaced,) = tmp_path.glob(".out.????????.replaced")
        assert (replaced / "result.txt").read_text(encoding="utf-8") == "old"
        with pytest.raises(InputError, match="exists; add --force"):  # and it is back
            finish(out, "new")
    assert (out / "result.txt").read_text(encoding="utf-8") == "old"
    finish(out, "new", force=True)
    assert (out / "result.txt").read_text(encoding="utf-8") == "new"
    assert names(tmp_path) == ["out"]


def test_a_study_of_0_1_is_replaced_file_by_file(tmp_path: Path) -> None:
    """It has no ledger: the manifest says which study wrote it, and so which names are its own."""
    out = tmp_path / "out"
    with Folder(out, SETTINGS) as work:
        work.file("rates.csv").write_text("old", encoding="utf-8")
        work.finish(manifest("rates", SETTINGS, command="", seed=0, summary={}))
    (out / ".cesaro").unlink()
    (out / "result.txt").touch()
    with pytest.raises(InputError, match=r"also holds 'result\.txt', which a study did not write"):
        finish(out, force=True)
    (out / "result.txt").unlink()
    finish(out, force=True)
    assert names(out) == FILES
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("content", [None, "{", '{"schema": "other/1"}', "[]"])
def test_force_never_deletes_a_folder_that_no_study_wrote(tmp_path: Path, content: str | None) -> None:
    out = tmp_path / "photos"
    out.mkdir()
    (out / "cat.png").touch()
    if content is not None:
        (out / "manifest.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match="was not written by a study"):
        finish(out, force=True)
    assert (out / "cat.png").exists()
    assert not (tmp_path / "photos.partial").exists()


def test_a_folder_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Folder(out, SETTINGS) as work:
        out.mkdir()
        with pytest.raises(InputError, match="exists; add --force"):
            work.finish({})
    out.rmdir()
    finish(out)
    assert (out / "result.txt").exists()


def test_a_file_in_the_way_is_refused_even_with_force(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("out", "link"):
        with pytest.raises(InputError, match=r"exists and is a (file|link), not a folder"):
            finish(tmp_path / name, force=True)


def test_the_parent_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="does not exist; create it"):
        finish(tmp_path / "missing" / "out")
    with pytest.raises(InputError, match="is not a folder; create it"):
        finish(tmp_path / "file" / "out")


def test_the_parent_must_be_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Permissions do not bind the superuser, so that the answer of the system is what is replaced here.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match=f"'{re.escape(str(tmp_path))}', .* is not writable"):
        finish(tmp_path / "out")
    monkeypatch.undo()

    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", read_only)
    with pytest.raises(InputError, match=r"cannot be made \(Read-only file system\)"):
        finish(tmp_path / "out")


@pytest.mark.parametrize("content", ["", "{", "[1]", '"text"', "\x00", "[" * 100_000])
def test_corrupt_settings_are_refused(tmp_path: Path, content: str) -> None:
    interrupt(tmp_path / "out")
    (tmp_path / "out.partial" / "settings.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"settings\.json' is not readable JSON.*; delete the folder"):
        finish(tmp_path / "out")


def test_a_strange_partial_folder_is_refused_but_one_from_an_early_kill_is_not(tmp_path: Path) -> None:
    partial = tmp_path / "out.partial"
    partial.mkdir()
    (partial / ".cesaro").write_text("cesaro-fol", encoding="utf-8")  # killed in the very first write
    finish(tmp_path / "out")
    assert names(tmp_path / "out") == FILES

    (tmp_path / "mine.partial").mkdir()
    (tmp_path / "mine.partial" / "notes.txt").touch()
    with pytest.raises(InputError, match=r"holds 'notes\.txt' and is in the way"):
        finish(tmp_path / "mine")
    assert names(tmp_path / "mine.partial") == ["notes.txt"]
    interrupt(tmp_path / "lost")
    (tmp_path / "lost.partial" / "settings.json").unlink()
    with pytest.raises(InputError, match=r"holds no settings\.json"):
        finish(tmp_path / "lost")


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    who = rf"process {os.getpid()} on .*, since 2.*"
    with (
        Folder(tmp_path / "out", SETTINGS),
        pytest.raises(
            InputError,
            match=rf"Another run is at work in '.*out\.partial' \({who}\); wait for it",
        ),
        Folder(tmp_path / "out", SETTINGS),
    ):
        pass
    interrupt(tmp_path / "out")  # the lock is gone


def test_a_spoiled_piece_counts_as_missing(tmp_path: Path) -> None:
    interrupt(tmp_path / "out")
    file = tmp_path / "out.partial" / "pieces" / "a.npz"
    whole = file.read_bytes()
    with Folder(tmp_path / "out", SETTINGS) as work:
        for spoiled in (b"", whole[: len(whole) // 2], b"text"):
            file.write_bytes(spoiled)
            assert work.load("a") is None


def test_a_write_that_fails_half_way_leaves_the_old_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Folder(tmp_path / "out", SETTINGS) as work:
        work.store("a", {"x": np.zeros(1)})

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            work.store("a", {"x": np.ones(1)})
        stored = work.load("a")
        assert stored is not None
        assert stored["x"] == 0


@pytest.mark.parametrize("workers", [1, 3])
def test_compute_runs_only_what_is_missing_and_keeps_the_order(tmp_path: Path, workers: int) -> None:
    calls: list[str] = []

    def job(name: str) -> Callable[[], Arrays]:
        def piece() -> Arrays:
            calls.append(name)
            return {"x": np.array(name)}

        return piece

    interrupt(tmp_path / "out")
    names = ["d", "c", "b", "a"]
    with Folder(tmp_path / "out", SETTINGS) as work:
        jobs = {name: job(name) for name in names}
        assert list(compute(work, jobs, label="demo", workers=workers, quiet=True)) == names
        assert sorted(calls) == ["b", "c", "d"]
        compute(work, jobs, label="demo", workers=workers, quiet=True)
        assert sorted(calls) == ["b", "c", "d"]


def test_compute_keeps_what_was_done_before_a_failure_and_starts_nothing_more(tmp_path: Path) -> None:
    started = threading.Event()

    def good() -> Arrays:
        return {"x": np.zeros(1)}

    def bad() -> Arrays:
        raise ZeroDivisionError

    def late() -> Arrays:
        started.wait(0.2)
        return {"x": np.zeros(1)}

    jobs: dict[str, Callable[[], Arrays]] = {
        "good": good,
        "bad": bad,
        "late": late,
        **{f"z{i}": late for i in range(50)},
    }
    with Folder(tmp_path / "out", SETTINGS) as work:
        with pytest.raises(ZeroDivisionError):
            compute(work, jobs, label="demo", quiet=True)
        assert work.load("good") is not None
        assert work.load("z49") is None


def test_workers_are_checked() -> None:
    with pytest.raises(InputError, match=r"must be an integer ≥ 1 and ≤ 1,024\. Got 0"):
        check_workers(0)


def test_progress_is_a_line_now_and_then_and_nothing_when_quiet(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for quiet in (True, False):
        with progress("demo", total=4, quiet=quiet) as advance:
            advance()
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("cesaro.progress._SECONDS_BETWEEN_LINES", 0.0)
    with progress("demo", total=4, done=2) as advance:
        advance()
    assert capsys.readouterr() == ("", "demo: 3 of 4 pieces\n")


def test_progress_is_a_bar_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress("demo", total=2) as advance:
        advance()
    out, err = capsys.readouterr()
    assert out == ""
    assert "demo" in err


def test_manifest_repeats_the_study_and_names_no_place() -> None:
    found, again = (
        manifest("demo", SETTINGS, command="cesaro reproduce demo", seed=7, summary={"rms": 0.1}) for _ in range(2)
    )
    assert found["schema"] == SCHEMA
    assert found["command"] == "cesaro reproduce demo"
    assert found["seed"] == 7
    assert found["versions"].keys() - {"jax"} == {"cesaro", "python", "numpy", "scipy"}
    text = json.dumps(found)
    assert os.sep + "home" not in text
    assert os.getcwd() not in text
    assert {**found, "created": ""} == {**again, "created": ""}
