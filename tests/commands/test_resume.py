"""`cesaro evaluate` on a streamed log: killed in the middle, the same command goes on, and gives the same answer."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cesaro.cli import app
from cesaro.data import blocks
from cesaro.passes import checkpoint as pass_checkpoint

# Small blocks, and progress after each of them; the last arguments are those of the command line.
DRIVER = """
import sys
from cesaro.data import blocks
from cesaro.passes import checkpoint as pass_checkpoint
blocks.BLOCK_ROWS, blocks.STRETCH_BLOCKS, pass_checkpoint.SECONDS = 512, 3, 0.0
from cesaro.cli import main
sys.argv = ["cesaro", *sys.argv[1:]]
main()
"""
LOG = ("log", "--observation", "level", "--stream", "--quiet")
POLICY = """
import os, time
import numpy as np
from cesaro.policies import Finite

def chances(observations):
    with open(os.environ["CALLS"], "a") as calls:
        calls.write(".")
    time.sleep(float(os.environ.get("SLOWLY", 0)))
    return np.where(observations[:, None] > 0, [0.2, 0.8], [0.7, 0.3])

target = Finite([0, 1], chances)
"""
LABELS = """
def by_label(observations):
    chances(np.zeros(1))
    return np.where((observations == "l0")[:, None], [0.2, 0.8], [0.7, 0.3])

labels = Finite([0, 1], by_label)
"""


def start(folder: Path, calls: str, command: str, *arguments: str, slowly: float = 0.0) -> subprocess.Popen[str]:
    """`calls`: a file with a byte for every call of the policy."""
    line = [sys.executable, "-c", DRIVER, command, *LOG, *arguments]
    return subprocess.Popen(
        line,
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "SLOWLY": str(slowly), "CALLS": calls},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows, level = 6_000, 0.0
    levels, actions = np.empty(rows), rng.integers(0, 2, rows)
    for t in range(rows):
        levels[t] = level = 0.7 * level + 0.3 * actions[t] - 0.15 + rng.normal(0, 0.3)
    (tmp_path / "log").mkdir()
    table = pa.table({"level": levels, "action": actions, "reward": levels - 0.1 * actions})
    for part in range(2):
        pq.write_table(table.slice(3_000 * part, 3_000), tmp_path / "log" / f"{part}.parquet")
    (tmp_path / "policy.py").write_text(POLICY)
    return tmp_path


def _kill(slow: subprocess.Popen[str], is_ready: Callable[[], bool]) -> None:
    """Kill a command as soon as it has come so far."""
    deadline = time.monotonic() + 60
    while not is_ready():
        assert slow.poll() is None, slow.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    slow.send_signal(signal.SIGKILL)
    slow.communicate()


def answer(text: str) -> dict[str, Any]:
    return {**json.loads(text), "run": None}


@pytest.mark.slow
@pytest.mark.usefixtures("blank_pictures")
def test_killed_runs_resume(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is killed is a process of its own; before it and after it the same command runs here."""
    options = ("--policy", "policy.py:target", "--features", "fourier:10")
    slow = start(folder, "first", "evaluate", *options, "--out", "killed", slowly=0.1)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 512)
    monkeypatch.setattr(blocks, "STRETCH_BLOCKS", 3)
    monkeypatch.setattr(pass_checkpoint, "SECONDS", 0.0)

    def evaluate(calls: str, out: str) -> None:
        monkeypatch.setenv("CALLS", calls)
        result = CliRunner().invoke(app, ["evaluate", *LOG, *options, "--out", out])
        assert (result.exit_code, result.stderr) == (0, ""), result.output

    evaluate("whole", "plain")
    kept = folder / "killed.partial" / "passes.npz"
    _kill(slow, lambda: kept.exists() and (folder / "first").stat().st_size >= 20)  # in the second pass
    assert not (folder / "killed").exists()
    assert kept.exists()
    evaluate("second", "killed")
    found, expected = (answer((folder / name / "evaluation.json").read_text()) for name in ("killed", "plain"))
    assert found == expected
    assert not kept.parent.exists()
    assert not list((folder / "killed").glob("*.npz"))
    calls = [(folder / name).stat().st_size for name in ("second", "whole")]
    assert calls[0] <= calls[1] - 10  # it went on, and did not begin anew


@pytest.mark.slow
def test_killed_rehearsals_resume(folder: Path) -> None:
    """`kill -9` after the log and some of the systems were asked about: the same command goes on, with the same bits."""
    table = pa.table(
        {
            "level": [f"l{k % 3}" for k in range(900)],
            "action": [k * k % 7 % 2 for k in range(900)],
            "reward": [k % 3 for k in range(900)],
        }
    )
    pq.write_table(table, folder / "small.parquet")
    options = ("small.parquet", "--policy", "policy.py:labels", "--observation", "level", "--worlds", "6", "--quiet")
    (folder / "policy.py").write_text(POLICY + LABELS)

    def begin(calls: str, out: str, slowly: float) -> subprocess.Popen[str]:
        line = [sys.executable, "-c", DRIVER, "rehearse", *options, "--out", out]
        environment = {**os.environ, "SLOWLY": str(slowly), "CALLS": calls}
        return subprocess.Popen(
            line, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )

    slow = begin("first", "killed", 0.2)
    kept = folder / "killed.partial" / "rehearsing.npz"
    _kill(slow, kept.exists)
    assert not (folder / "killed").exists()
    for calls, out in (("second", "killed"), ("whole", "plain")):
        done = begin(calls, out, 0.0)
        told, errors = done.communicate()
        assert (done.returncode, errors) == (0, ""), told
    for name in ("rehearsal.json", "rehearsal.txt", "errors.png"):
        assert (folder / "killed" / name).read_bytes() == (folder / "plain" / name).read_bytes()
    assert not kept.parent.exists()
    assert not list((folder / "killed").glob("*.npz"))
    assert (folder / "second").stat().st_size < (folder / "whole").stat().st_size
