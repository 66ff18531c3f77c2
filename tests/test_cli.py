"""The command line: quick help, one-line errors, honest verdicts."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cesaro import __version__
from cesaro.cli import app
from cesaro.reproduce import study
from cesaro.reproduce.assumption import Config
from cesaro.reproduce.assumption.run import PUBLISHED, AssumptionResult, TableEntry

COMMAND = [sys.executable, "-c", "from cesaro.cli import main; main()"]


def cesaro(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_version() -> None:
    result = cesaro("--version")
    assert (result.exit_code, result.stdout) == (0, f"cesaro {__version__}\n")


def test_examples_are_written_once(tmp_path: Path) -> None:
    out = tmp_path / "the examples"
    result = cesaro("examples", "--out", out)
    assert result.exit_code == 0, result.output
    assert f"cesaro evaluate '{out}'/queue.parquet" in result.stdout
    assert (out / "queue_policy.py").exists()
    again = cesaro("examples", "--out", out)
    assert (again.exit_code, again.stdout) == (2, "")
    assert "exists; add --force to replace it" in again.stderr
    (out / "mine.py").touch()
    assert "also holds 'mine.py'" in cesaro("examples", "--out", out, "--force").stderr


@pytest.mark.parametrize("arguments", [["--help"], ["reproduce", "--help"], ["reproduce", "assumption", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom cesaro.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    print('loaded:', {'jax', 'matplotlib', 'sklearn', 'numpy', 'scipy'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert "Usage: cesaro" in done.stdout
    assert done.stdout.endswith("loaded: set()\n")


def test_help_survives_a_terminal_without_unicode() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [*COMMAND, "reproduce", "assumption", "--help"]
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert b"--trials" in done.stdout


def test_a_small_run_prints_tables_and_makes_no_promise(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = cesaro("reproduce", "assumption", "--trials", "20", "--out", out, "--quiet")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert max(len(line) for line in lines[:-2]) <= 80
    published = [row for rows in PUBLISHED.values() for row in rows.values()]
    printed = [[float(word) for word in re.findall(r"\((\d\.\d\d)\)", line)] for line in lines]
    assert [tuple(row) for row in printed if row] == published
    said = " ".join(lines[-3:-1])  # the verdict takes two lines
    assert said.startswith("No verdict: largest difference ")
    assert "only for stick-breaking rows and at least 10,000 trials" in said
    assert lines[-1] == f"Results: {out} (assumption.csv, assumption.png, manifest.json)"
    assert sorted(file.name for file in out.iterdir()) == [
        ".cesaro",
        "assumption.csv",
        "assumption.png",
        "manifest.json",
    ]


@pytest.mark.parametrize(
    ("shift", "start"),
    [(0.0, "Reproduced: largest difference 0.000"), (0.04, "NOT reproduced: largest difference 0.040")],
)
def test_the_full_study_gets_a_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shift: float, start: str
) -> None:
    def published(config: Config, *_: object, **__: object) -> AssumptionResult:
        cells = [
            TableEntry(size, sigma, xi, value, config.trials)
            for xi, rows in PUBLISHED.items()
            for size, row in rows.items()
            for sigma, value in zip(config.sigmas, row)
        ]
        cells[0] = TableEntry(5, 0.0, 0.9, 0.70 + shift, config.trials)
        return AssumptionResult(config, tuple(cells))

    monkeypatch.setattr(study, "run", published)
    result = cesaro("reproduce", "assumption", "--out", tmp_path / "out")
    said = " ".join(" ".join(result.stdout.splitlines()[:-1]).split())
    verdict = rf"\) {start}, RMS 0\.\d+ \(promised: at most 0\.03 and 0\.01\)\.$"  # after the last cell of the table
    assert re.search(verdict, said)


def test_quick_is_a_number_of_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Config, "ABOUT", replace(Config.ABOUT, quick={"trials": 3}))
    assert cesaro("reproduce", "assumption", "--quick", "--out", tmp_path / "out").exit_code == 0
    rows = (tmp_path / "out" / "assumption.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert {row.rsplit(",", 1)[1] for row in rows} == {"3"}


def test_the_default_folder_is_made_and_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("reproduce", "assumption", "--trials", "2")
    assert cesaro(*arguments).exit_code == 0
    assert (tmp_path / "out" / "assumption" / "assumption.csv").exists()
    again = cesaro(*arguments)
    assert (again.exit_code, again.stderr.count("\n")) == (2, 1)
    assert "--force" in again.stderr
    assert cesaro(*arguments, "--force").exit_code == 0


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = cesaro("reproduce", "assumption", "--trials", "2", "--out", tmp_path / "out")
    assert result.exit_code in {1, 2}
    assert result.stderr.startswith("error: ")
    assert "No space left on device" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_is_one_line_and_the_same_command_resumes(tmp_path: Path) -> None:
    command = [*COMMAND, "reproduce", "assumption", "--trials", "500", "--quiet", "--out", str(tmp_path / "out")]
    # A shell starts background jobs with interrupts ignored, and children inherit that.
    heed = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", heed, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    pieces = tmp_path / "out.partial" / "pieces"
    deadline = time.monotonic() + 300
    while not list(pieces.glob("*.npz")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, "")
    assert err == "interrupted: the same command resumes where this one stopped.\n"
    assert not (tmp_path / "out").exists()
    arguments = command[len(COMMAND) :]
    other = cesaro(*arguments, "--seed", "1")
    assert other.exit_code == 2
    assert "seed is 0 there and 1 here" in other.stderr
    assert cesaro(*arguments).exit_code == 0
    assert (tmp_path / "out" / "assumption.csv").exists()
