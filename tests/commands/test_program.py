"""The program as a process: descriptors and signals, whatever a policy does to them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-c", "from cesaro.cli import main; main()"]
PATIENCE = 120  # seconds, for a machine that has much else to do
SLOW = pytest.mark.slow  # a process takes seconds to start
LOUD = """
import atexit, os, subprocess, sys, threading
print("at import")
atexit.register(lambda: print("at the end", flush=True))
def f(observations, rng):
    print("print")
    os.write(1, b"write\\n")
    subprocess.run([sys.executable, "-S", "-c", "print('child')"])
    threading.Timer(0.05, print, ["thread"]).start()
    return ["go"] * len(observations)
def closes(observations, rng):
    sys.stdout.close()
    return ["go"] * len(observations)
def twice(observations, rng):
    try:
        os.close(1)
    except OSError:
        pass
    return ["go"] * len(observations)
def waits(observations, rng):
    open("waits", "w").close()
    threading.Event().wait(600)
caught = []
def swallows(observations, rng):
    open("waits", "w").close()
    try:
        threading.Event().wait(600)
    except BaseException:
        caught.append(True)
        if len(caught) > 1:
            raise
    return ["go"] * len(observations)
def stays(observations, rng, depth=5):
    # An interruption may come while Python jumps back to `try`: the caller has one too.
    while True:
        try:
            if depth:
                stays(observations, rng, depth - 1)
            open("waits", "w").close()
            threading.Event().wait(600)
        except BaseException:
            pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = "".join(f"{'ab'[row % 2]},{('go', 'stay')[row % 3 > 0]},{row % 2}\n" for row in range(60))
    (tmp_path / "log.csv").write_text(f"state,action,reward\n{lines}")
    (tmp_path / "p.py").write_text(LOUD)
    return tmp_path


def arguments(policy: str, *options: str) -> list[str]:
    return [*PROGRAM, "evaluate", "log.csv", "--policy", policy, "--quiet", *options]


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", ["p.py:f", pytest.param("p.py:closes", marks=SLOW), pytest.param("p.py:twice", marks=SLOW)]
)
def test_the_answer_is_one_document_whatever_a_policy_prints_or_closes(folder: Path, policy: str) -> None:
    done = subprocess.run(arguments(policy, "--json"), cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"].startswith("cesaro-evaluation/")
    assert "at import" in done.stderr
    if policy == "p.py:f":
        assert all(word in done.stderr for word in ("print", "write", "child", "thread", "at the end"))


@SLOW
def test_an_output_that_is_closed_full_or_broken(folder: Path) -> None:
    def run(redirection: str) -> subprocess.CompletedProcess[str]:
        line = ["/bin/sh", "-c", f'"$@" {redirection}', "sh", *arguments("uniform", "--json")]
        return subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)

    closed = run(">&-")
    assert (closed.returncode, closed.stdout, "Traceback" in closed.stderr) == (0, "", False)
    assert "schema" not in closed.stderr
    full = run(">/dev/full")
    line = "error: [Errno 28] No space left on device; once that is fixed, run it again."
    assert (full.returncode, full.stderr.splitlines()[-1]) == (1, line)
    read, write = os.pipe()
    os.close(read)
    broken = subprocess.run(
        arguments("uniform", "--json"), cwd=folder, stdout=write, stderr=subprocess.PIPE, text=True, timeout=PATIENCE
    )
    helped = subprocess.run([*PROGRAM, "--help"], stdout=write, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    os.close(write)
    for ended in (broken, helped):
        assert (ended.returncode, ended.stderr) == (141, "")


def stopped(folder: Path, line: Sequence[str], *signals: int, pause: float = 0.0) -> tuple[int, str, str]:
    """The exit code and the output of a program that gets signals while its policy is at work, under `nohup`, too."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # programs start with what this one does about a signal
    try:
        process = subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGHUP, before)
    try:
        end = time.monotonic() + PATIENCE
        while not (folder / "waits").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.02)
        for number in signals:
            process.send_signal(number)
            time.sleep(pause)
        out, error = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    return process.returncode, out, error


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 129, marks=SLOW)])
def test_a_signal_is_one_line_as_ctrl_c_is(folder: Path, number: signal.Signals, code: int) -> None:
    line = f"at import\ninterrupted by {number.name}: nothing was written.\nat the end\n"
    assert stopped(folder, arguments("p.py:waits"), number) == (code, "", line)


@SLOW
def test_a_signal_that_a_policy_swallows_comes_again(folder: Path) -> None:
    code, _, error = stopped(folder, arguments("p.py:swallows"), signal.SIGTERM)
    assert (code, "interrupted by SIGTERM" in error) == (143, True)


@SLOW
def test_a_second_signal_ends_what_the_first_did_not(folder: Path) -> None:
    code, _, _ = stopped(folder, arguments("p.py:stays"), signal.SIGTERM, signal.SIGTERM, pause=1.5)
    assert code == -signal.SIGTERM


@SLOW
def test_nohup_stays(folder: Path) -> None:
    ignore = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    line = [sys.executable, "-c", ignore, *arguments("p.py:waits")]
    code, _, error = stopped(folder, line, signal.SIGHUP, signal.SIGTERM, pause=0.5)
    assert (code, "interrupted by SIGTERM" in error, "SIGHUP" in error) == (143, True, False)
