"""Ctrl-C in `cesaro collect`: one line, and the same command goes on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cesaro.cli import app
from cesaro.engines import local
from cesaro.simulation import collection
from cesaro.simulation.streams import Job, stream

PATIENCE = 300  # seconds, for a machine that has much else to do
LINE = "interrupted: the same command resumes where this one stopped.\n"


def _workers(parent: int) -> int:
    """Worker processes that have begun, from their first moment on."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
    commands = [Path(f"/proc/{child}/cmdline") for child in children]
    return sum(b"popen_loky" in command.read_bytes() for command in commands if command.exists())


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see the workers start")
@pytest.mark.parametrize("delay", [0.0, 0.4])
def test_ctrl_c_shows_one_line_also_while_workers_start(tmp_path: Path, delay: float) -> None:
    # More work than any machine does before the signal: an hour or so, in short streams that need little memory.
    work = ("--steps", "200000000", "--streams", "2000", "--workers", "2")
    arguments = ("collect", "Pendulum-v1", "--policy", "constant:0", *work, "--quiet")
    # Programs in the background ignore Ctrl-C, and their children do too.
    heed = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", heed, str(Path(sys.executable).with_name("cesaro")), *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + PATIENCE
        while _workers(process.pid) < 2:
            assert process.poll() is None, "it ended before two workers started"
            assert time.monotonic() < end, "no two workers started"
            time.sleep(0.01)
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
        out, error = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert (process.returncode, out, error) == (130, "", LINE)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs signals that can be blocked")
@pytest.mark.parametrize("fails", [False, True])
def test_a_held_ctrl_c_comes_at_the_end_also_after_a_failure(fails: bool) -> None:
    went_on = []

    def held() -> None:
        with local.interrupts_held():
            os.kill(os.getpid(), signal.SIGINT)
            went_on.append(True)
            if fails:
                raise ValueError("of the block")

    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a program in the background ignores Ctrl-C
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            held()
        assert went_on
        assert isinstance(caught.value.__context__, ValueError) is fails
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs signals that can be blocked")
def test_a_failure_before_the_block_puts_the_handler_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("no more processes")

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("multiprocessing.resource_tracker.ensure_running", fail)
    with pytest.raises(OSError, match="no more"), local.interrupts_held():
        pytest.fail("the block ran")
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs signals that can be blocked")
def test_a_handler_that_is_not_from_python_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not be put back: nothing may be set in its place."""
    placed: list[object] = []
    with monkeypatch.context() as patched:
        patched.setattr(signal, "getsignal", lambda number: None)
        patched.setattr(signal, "signal", lambda number, handler: placed.append(handler))
        with local.interrupts_held():
            pass
    assert placed == []


def test_a_resumed_collection_says_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "log.parquet"
    arguments = ["collect", "Pendulum-v1", "--policy", "constant:0", "--steps", "1001", "--streams", "4"]
    arguments += ["--workers", "1", "--quiet", "--out", str(out)]

    def two_and_ctrl_c(jobs: Sequence[Job], on_done: Callable[[int, Any], None], **_: Any) -> None:
        for number in (0, 1):
            on_done(number, stream(jobs[number]))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(collection, "run_jobs", two_and_ctrl_c)
        interrupted = CliRunner().invoke(app, arguments)
    assert (interrupted.exit_code, interrupted.stdout, interrupted.stderr) == (130, "", LINE)
    resumed = CliRunner().invoke(app, arguments)
    assert resumed.exit_code == 0, resumed.output
    lines = resumed.stdout.splitlines()
    assert lines[0].startswith("1,001 transitions in 4 streams;")
    assert lines[1] == "Resumed: 501 of these transitions were there already, from a run that was interrupted."
    whole = CliRunner().invoke(app, [*arguments[:-1], str(tmp_path / "whole.parquet")])
    assert "Resumed" not in whole.stdout
    assert whole.stdout.splitlines()[0] == lines[0]
    assert (tmp_path / "whole.parquet").read_bytes() == out.read_bytes()
