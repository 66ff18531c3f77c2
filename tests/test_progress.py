"""Stages off a terminal: a line for what takes longer than a moment."""

import re
import threading
import time

import numpy as np
import pytest

import cesaro as cs
from cesaro.progress import stage


def wait_for(capsys: pytest.CaptureFixture[str], line: str) -> str:
    said, deadline = "", time.monotonic() + 20
    while line not in said and time.monotonic() < deadline:
        time.sleep(0.01)
        said += capsys.readouterr().err
    return said


def test_a_long_stage_says_once_what_it_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with stage("solving"):
        time.sleep(0.01)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("cesaro.progress._SECONDS_BEFORE_A_STAGE", 0.0)
    with stage("solving"):
        assert wait_for(capsys, "\n") == "solving …\n"
        time.sleep(0.05)
    with stage("solving", quiet=True):
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_stages_within_stages_and_errors_leave_no_timer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = threading.active_count()
    with stage("outer"), stage("inner"):
        assert threading.active_count() == before + 2
    with pytest.raises(ZeroDivisionError), stage("outer"), stage("inner"):
        raise ZeroDivisionError
    assert threading.active_count() == before
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("cesaro.progress._SECONDS_BEFORE_A_STAGE", 0.0)
    with stage("outer"), stage("inner"):
        said = wait_for(capsys, "outer …\n")
        said += "" if "inner" in said else wait_for(capsys, "inner …\n")
    assert sorted(said.splitlines()) == ["inner …", "outer …"]


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def isatty(self) -> bool:
            return False

        def write(self, text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    monkeypatch.setattr("cesaro.progress._SECONDS_BEFORE_A_STAGE", 0.0)
    monkeypatch.setattr("sys.stderr", Closed())
    with stage("solving"):  # an error in the timer's thread would be a warning, and so an error
        time.sleep(0.1)


def test_the_closed_form_shows_every_part_of_its_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cesaro.progress._SECONDS_BETWEEN_LINES", 0.0)
    rng, rows = np.random.default_rng(0), 70_000
    state = rng.integers(0, 3, rows + 1)
    log = cs.Transitions(
        state[:-1], rng.integers(0, 2, rows), rng.random(rows), state[1:], trajectory=np.arange(rows) // 100
    )
    cs.DiffLSTD(quiet=True).fit(log, "uniform")
    assert capsys.readouterr() == ("", "")
    cs.DiffLSTD().fit(log, "uniform")
    lines = [line for line in capsys.readouterr().err.splitlines() if " rows, " in line]
    shown = [re.fullmatch(r"(\w+): ([\d,]+) of 70,000 rows, [\d,]+ rows/s, [\d,]+ s left", line) for line in lines]
    done = [(found[1], found[2]) for found in shown if found is not None]
    blocks = ("65,536", "70,000")
    assert list(dict.fromkeys(done)) == [(label, rows) for label in ("moments", "influence") for rows in blocks]
    assert len(done) == len(lines)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    cs.DiffLSTD().fit(log, "uniform")
    said = capsys.readouterr().err
    assert all(label in said for label in ("moments", "solving", "influence", "70,000 rows", "rows/s"))


def test_parts_of_a_comparison_are_counted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cesaro.progress._SECONDS_BEFORE_A_STAGE", 0.0)
    rng = np.random.default_rng(0)
    log = cs.Transitions(rng.integers(0, 3, 300), rng.integers(0, 2, 300), rng.normal(size=300))
    cs.compare(log, {"a": "constant:0", "b": "constant:1"})
    said = capsys.readouterr().err.splitlines()
    assert said
    assert all(re.match(r"policy [12] of 2: \w+", line) for line in said)
    with stage("solving"):
        assert wait_for(capsys, "\n") == "solving …\n"
