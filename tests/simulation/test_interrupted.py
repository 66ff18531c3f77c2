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
from cesaro.simulation import collection
from cesaro.simulation.streams import Job, stream

LINE = "interrupted: the same command resumes where this one stopped.\n"


def _workers(parent: int) -> int:
    """Worker processes that have begun, from their first moment on."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
    commands = [Path(f"/proc/{child}/cmdline") for child in children]
    return sum(b"popen_loky" in command.read_bytes() for command in commands if command.exists())


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see the workers start")
@pytest.mark.parametrize("delay", [0.0, 0.4])
def test_ctrl_c_shows_one_line_also_while_workers_start(tmp_path: Path, delay: float) -> None:
    arguments = ("collect", "Pendulum-v1", "--policy", "constant:0", "--steps", "3000000", "--workers", "2", "--quiet")
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
        end = time.monotonic() + 60
        while _workers(process.pid) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
        out, error = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert (process.returncode, out, error) == (130, "", LINE)


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
