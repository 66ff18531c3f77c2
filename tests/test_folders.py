"""Folders that we write: only what their ledger names is removed, and one run holds them from the start."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import cesaro as cs
from cesaro import files
from cesaro.cli import app
from cesaro.errors import InputError
from cesaro.folders import Ledger, OutFolder
from cesaro.report import folder as report
from cesaro.report.folder import ReportFolder


class Letters(OutFolder):
    """A folder, whose progress is one file."""

    WRITER = "letters"
    WRITTEN_BY = "this test"


class Letter(OutFolder):
    """A single file."""

    WRITER = "letter"
    WRITTEN_BY = "this test"
    ENDING = ".txt"

    def is_ours(self) -> bool:
        return self.out.read_text().startswith("Dear")


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def write(out: Path, text: str = "new", *, force: bool = False) -> None:
    with Letters(out, force=force) as folder:
        folder.file("kept/a", progress=True).write_text("half")
        folder.file("sent/a.txt").write_text(text)
        folder.rename()


def send(out: Path, text: str = "Dear", *, force: bool = False) -> None:
    with Letter(out, force=force) as folder:
        file = folder.file("draft.txt")
        file.write_text(text)
        folder.appear(file)


def test_a_finished_folder_holds_its_results_and_their_names(tmp_path: Path) -> None:
    write(tmp_path / "out")
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == [".cesaro", "sent"]
    ledger = Ledger.read(tmp_path / "out")
    assert ledger is not None
    assert (ledger.writer, ledger.names["sent/a.txt"]) == ("letters", "result")


def test_names_are_known_before_their_files_are(tmp_path: Path) -> None:
    with Letters(tmp_path / "out") as folder:
        file = folder.file("sent/a.txt")
        assert not file.exists()
        ledger = Ledger.read(folder.path)
        assert ledger is not None
        assert list(ledger.names) == ["sent/", "sent/a.txt"]
        with pytest.raises(ValueError, match="line break"):
            folder.file("a\nb")


def test_an_error_leaves_progress_or_nothing(tmp_path: Path) -> None:
    def fail(*, progress: bool) -> None:
        with Letters(tmp_path / "out") as folder:
            folder.file("a.txt", progress=progress).write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail(progress=False)
    assert names(tmp_path) == []
    with pytest.raises(KeyboardInterrupt):
        fail(progress=True)
    assert names(tmp_path / "out.partial") == [".cesaro", "a.txt"]
    write(tmp_path / "out")
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("name", ["../thesis.tex", "/etc/passwd", "sent/../../thesis.tex", "..", ".", ""])
def test_a_ledger_reaches_no_file_outside(tmp_path: Path, name: str) -> None:
    thesis, out = tmp_path / "thesis.tex", tmp_path / "out"
    thesis.write_text("years of work")
    for folder in (out, tmp_path / "out.partial"):
        folder.mkdir()
        (folder / ".cesaro").write_text(f"cesaro-folder/1 letters\nresult {name}\nresult ../\nresult ../thesis.tex\n")
    write(out, force=True)
    assert thesis.read_text() == "years of work"
    assert names(tmp_path) == ["out", "thesis.tex"]


def test_a_link_among_our_names_is_not_followed(tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    write(out)
    (out / "sent").rename(other)
    (out / "sent").symlink_to(other)
    with pytest.raises(InputError, match="also holds 'sent', which this test did not write"):
        write(out, force=True)
    assert names(other) == ["a.txt"]


def test_a_file_that_others_put_there_meanwhile_stops_the_rename(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, "old")
    with Letters(out, force=True) as folder:
        folder.file("a.txt").write_text("new")
        (out / "notes.md").write_text("mine")
        with pytest.raises(InputError, match=r"also holds 'notes\.md'"):
            folder.rename()
    assert names(tmp_path) == ["out"]
    assert names(out) == [".cesaro", "notes.md", "sent"]


def test_what_others_put_beside_our_work_meanwhile_stays(tmp_path: Path) -> None:
    with Letters(tmp_path / "out") as folder:
        folder.file("a.txt").write_text("half")
        (folder.path / "notes.md").write_text("mine")
    assert names(tmp_path / "out.partial") == [".cesaro", "notes.md"]


def test_a_single_file_appears_and_leaves_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    send(out, "Dear all")
    assert (out.read_text(), names(tmp_path)) == ("Dear all", ["out.txt"])
    with pytest.raises(InputError, match=r"exists; add --force to replace it, or choose another file"):
        send(out)
    send(out, "Notes", force=True)
    with pytest.raises(InputError, match="was not written by this test, so that --force leaves it alone"):
        send(out, force=True)
    assert out.read_text() == "Notes"
    with pytest.raises(InputError, match=r"out must end in \.txt\. Got 'out\.csv'"):
        send(tmp_path / "out.csv")


def test_a_kill_after_a_file_has_appeared_leaves_nothing_for_long(tmp_path: Path) -> None:
    """The next run removes `OUT.partial/`, also where it has nothing else to do; not that of a run that is yet to finish."""
    out, partial = tmp_path / "out.txt", tmp_path / "out.txt.partial"
    out.write_text("Dear")
    about = out.stat()
    partial.mkdir()
    (partial / ".cesaro").write_text("cesaro-folder/1 letter\nprogress a\nresult draft.txt\n")
    (partial / "a").touch()
    for note, is_left in (("", True), (f"moved {about.st_ino} {about.st_mtime_ns}\n", False)):
        with (partial / ".cesaro").open("a") as ledger:
            ledger.write(note)
        with pytest.raises(InputError, match="exists; add --force"):
            send(out)
        assert partial.exists() is is_left


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_child_that_ends_inside_takes_nothing_away(tmp_path: Path) -> None:
    """As one that a policy has forked."""
    with Letters(tmp_path / "out") as folder:
        folder.file("a.txt").write_text("half")
        if (child := os.fork()) == 0:
            folder.__exit__(None, None, None)
            folder._held.close()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert names(folder.path) == [".cesaro", ".cesaro.lock", "a.txt"]
        folder.rename()
    assert names(tmp_path / "out") == [".cesaro", "a.txt"]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log that must not be read."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("state,action,reward\n")

    def read(*_: Any, **__: Any) -> None:
        raise AssertionError("the log is read")

    monkeypatch.setattr("cesaro.data.read", read)
    return tmp_path / "log.csv"


def said(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments, "--quiet"])
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.output
    return result.stderr


EVALUATE = ("evaluate", "log.csv", "--policy", "uniform")
COMPARE = ("compare", "log.csv", "--policy", "a=uniform", "--policy", "b=uniform")


def in_a_thread(function: Callable[[], Any]) -> Any:
    """Threads share no files that they hold; processes do not either."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("command", [EVALUATE, COMPARE])
def test_a_second_run_into_one_folder_ends_at_once(command: tuple[str, ...], tmp_path: Path) -> None:
    with ReportFolder(tmp_path / "out"):
        error = said(*command, "--out", "out")
    assert f"Another run is at work in '{tmp_path}/out.partial' (process {os.getpid()} on " in error
    assert error.endswith("); wait for it or choose another output folder (--out).\n")
    assert names(tmp_path) == ["log.csv"]


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize(("command", "held"), [(EVALUATE, "c.npz"), (COMPARE, "c_2.npz")])
def test_a_second_run_with_one_checkpoint_ends_at_once(command: tuple[str, ...], held: str, tmp_path: Path) -> None:
    with files.holding(tmp_path / held):
        error = in_a_thread(lambda: said(*command, "--checkpoint", "c.npz"))
    assert f"Another run is at work with '{tmp_path}/{held}' (process {os.getpid()} on " in error
    assert error.endswith("); wait for it or choose another file.\n")
    assert names(tmp_path) == ["log.csv"]


@pytest.mark.parametrize(
    "use",
    [
        lambda data, file: cs.DiffLSTD(checkpoint=file, quiet=True).fit(data),
        lambda data, file: cs.Learned("diff-gq1", checkpoint=file, quiet=True).fit(data),
        lambda data, file: cs.sweep("diff-gq1", data, checkpoint=file, quiet=True),
    ],
)
def test_one_fit_at_a_time_has_a_checkpoint(use: Callable[[Any, Path], Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = cs.FeatureTransitions(*(rng.normal(size=size) for size in ((50, 1), 50, (50, 1))))
    file = tmp_path / "c.npz"
    with files.holding(file), pytest.raises(InputError, match="Another run is at work with"):
        in_a_thread(lambda: use(data, file))
    assert names(tmp_path) == []


def test_an_answer_is_not_drawn_for_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = np.random.default_rng(0).integers(0, 2, 200)
    found = cs.evaluate(cs.Transitions(np.cumsum(action) % 3, action, 1.0 * action), "uniform", quiet=True)

    def drawn(*_: Any) -> None:
        raise AssertionError("pictures are drawn")

    monkeypatch.setattr(report, "pictures", drawn)
    with ReportFolder(tmp_path / "out"), pytest.raises(InputError, match="Another run is at work in"):
        found.save(tmp_path / "out")
    assert names(tmp_path) == []
