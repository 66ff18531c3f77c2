"""The command line names its own options where Python messages name arguments."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cesaro.cli import app
from cesaro.commands.wording import command_line


def said(file: Path, *options: str) -> str:
    result = CliRunner().invoke(app, ["evaluate", str(file), "--policy", "uniform", "--quiet", *options])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
    return result.stderr


def rows(file: Path, head: str, row: str, count: int = 40) -> Path:
    lines = [row.format(t=t, half=t // 2, state=t % 3, action=t % 2) for t in range(count)]
    file.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return file


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    return rows(tmp_path / "calls.csv", "load,hour,action,reward", "{t}.5,{state},{action},{t}")


def test_no_observation_column(calls: Path) -> None:
    assert said(calls).endswith("; give --observation COLUMN.\n")


def test_unknown_column(calls: Path) -> None:
    error = said(calls, "--observation", "laod")
    assert 'must have the column "laod" that --observation names' in error
    assert error.endswith('did you mean "load"?\n')


def test_columns_with_a_comma(calls: Path) -> None:
    error = said(calls, "--observation", "load,hour")
    assert error.endswith("; repeat the option: --observation load --observation hour.\n")


def test_a_column_that_is_taken(calls: Path) -> None:
    error = said(calls, "--observation", "load", "--observation", "reward")
    assert '("reward" is already used as observation); give --reward COLUMN.' in error


def test_equal_times(tmp_path: Path) -> None:
    file = rows(tmp_path / "log.csv", "state,action,reward,time", "{state},{action},1,{half}")
    assert said(file).endswith("remove one of them, or give --trajectory COLUMN.\n")


def test_ambiguous_done(tmp_path: Path) -> None:
    file = rows(tmp_path / "log.csv", "state,action,reward,done", "{state},{action},1,0")
    remedy = "--ignore terminated --ignore truncated"
    assert said(file).endswith(f"; give --terminated done, or {remedy} to leave it out.\n")
    assert said(file, "--ignore", "done").endswith(f"; for that column: {remedy}.\n")


def test_text_among_numbers(tmp_path: Path) -> None:
    file = rows(tmp_path / "log.csv", "the load,action,reward", "{state},{action},1")
    with file.open("a", encoding="utf-8") as stream:
        stream.write("closed,0,1\n")
    error = said(file, "--observation", "the load")
    assert error.endswith("correct that entry, or give --kind 'the load=category' if these are labels.\n")


def test_notes(tmp_path: Path) -> None:
    file = rows(tmp_path / "log.csv", "state,action,reward,weight", "{state},{action},{t},1")
    result = CliRunner().invoke(app, ["evaluate", str(file), "--policy", "uniform", "--quiet", "--ridge", "0.1"])
    assert result.exit_code == 0, result.output
    assert "give --weight weight if rows shall count by it" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("python", "command"),
    [
        ('as observation="obs_*" says', "as --observation 'obs_*' says"),
        ('pass kinds={"a": "category"} or kinds={"a": "number"}.', "give --kind a=category or --kind a=number."),
        ("pass available=False, or kinds= if so.", "give --ignore available, or --kind if so."),
        ("leave weight= out", "leave --weight out"),
        (
            "add it, or pass next_observation= (False: take the next row).",
            "add it, or give --next-observation, or --ignore next_observation to take the next row.",
        ),
        ("give next_observation=, longer trajectories", "give --next-observation, longer trajectories"),
        ("method='magic' has no setting steps.", "method='magic' has no setting steps."),
        ("reward_lag must be 0 or 1. Got 2.", "reward_lag must be 0 or 1. Got 2."),
    ],
)
def test_other_sentences(python: str, command: str) -> None:
    assert command_line(python) == command
