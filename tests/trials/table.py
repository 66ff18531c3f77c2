"""The form of a row in the table of hostile trials, and what must hold for every one of them.

A row is a `Trial`: files, a command, and either the sentence that refuses them or the rate that is the right answer. The
files are made in an empty folder, in which the command then runs. To add one, add a line to the list of its kind.
"""

import json
import os
import re
import shlex
import stat
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from cesaro.cli import app

# Text and bytes are written as they are; a function makes what is at its path itself.
Content = str | bytes | Callable[[Path], object]
Files = Mapping[str, Content]

_COMMAND = get_command(app)  # typer's runner would make it for every trial, which takes longer than most of them
# The words of Python where those of the command line belong.
_ARGUMENT = re.compile(r"(?<![\w'-])[a-z]+(_[a-z]+)*=(None|[\[{'\"])")


def walk() -> dict[str, list[str]]:
    """24 rows of two states. "go" changes the state, and state b earns 1 per step, so that "uniform" earns 1/2 exactly."""
    states, actions = ["a"], ["go", "go", "stay", "go", "stay", "stay", "go", "go", "stay", "go", "go", "stay"] * 2
    for action in actions[:-1]:
        states.append(states[-1] if action == "stay" else "ab"[states[-1] == "a"])
    return {"state": states, "action": actions, "reward": [str(int(state == "b")) for state in states]}


def columns(**changes: str | list[str] | None) -> dict[str, list[str]]:
    """The walk with other columns: a list is the whole column, one text its third entry, None no such column."""
    found = walk()
    for name, change in changes.items():
        if change is None:
            del found[name]
        elif isinstance(change, str):
            found[name] = [*found[name][:2], change, *found[name][3:]]
        else:
            found[name] = change
    return found


def text(**changes: str | list[str] | None) -> str:
    """A CSV file of `columns`."""
    found = columns(**changes)
    return "".join(",".join(line) + "\n" for line in [list(found), *zip(*found.values(), strict=True)])


def log(**changes: str | list[str] | None) -> Files:
    """The walk in log.csv, with other columns."""
    return {"log.csv": text(**changes)}


def table(**changes: pa.Array | None) -> pa.Table:
    """The walk as a table of Arrow, with numbers for rewards and other columns."""
    found = walk()
    arrays = {**found, "reward": [float(reward) for reward in found["reward"]], **changes}
    return pa.table({name: array for name, array in arrays.items() if array is not None})


def parquet(**changes: pa.Array | None) -> Files:
    return {"log.parquet": lambda file: pq.write_table(table(**changes), file)}


def link(target: str) -> Content:
    return lambda path: path.symlink_to(target)


@dataclass(frozen=True)
class Trial:
    """One hostile input.

    Attributes:
        files: by name; folders are made as they are needed.
        says: a part of the line that refuses, or of what an answer says, in which … stands for anything.
        rate: of an answer.
        options: come after the log and the policy.
        policy: what `evaluate` is given.
        log: likewise; the first of the files where it is not said.
        command: stands in the place of all these.
        makes: the names that a success leaves in the folder.
        code: to exit with, where it is neither 0 with a rate nor 2 without one.
    """

    name: str
    files: Files = field(default_factory=log)
    says: str = ""
    rate: float | None = None
    options: str = ""
    policy: str = "uniform"
    log: str | None = None
    command: str = ""
    makes: frozenset[str] = frozenset()
    code: int | None = None

    @property
    def exit_code(self) -> int:
        return self.code if self.code is not None else 2 if self.rate is None else 0

    @property
    def arguments(self) -> list[str]:
        if self.command:
            return shlex.split(self.command)
        given = next(iter(self.files)) if self.log is None else self.log
        return ["evaluate", given, "--policy", self.policy, "--json", "--quiet", *shlex.split(self.options)]


def rows(trials: list[Trial]) -> pytest.MarkDecorator:
    """A test for each trial, by its name."""
    return pytest.mark.parametrize("trial", [pytest.param(trial, id=trial.name) for trial in trials])


def run(trial: Trial, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the files, run the command, and check its words, its exit code and what it left behind."""
    for name, content in trial.files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(file)
        else:
            file.write_bytes(content.encode() if isinstance(content, str) else content)
    before = contents(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["cesaro", *trial.arguments])
    monkeypatch.setattr("typer.testing._get_command", lambda _: _COMMAND, raising=False)
    monkeypatch.setattr("cesaro.progress._SECONDS_BEFORE_A_STAGE", 600.0)
    with warnings.catch_warnings(record=True) as warned, np.errstate():
        warnings.simplefilter("always")
        result = CliRunner().invoke(app, trial.arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    said = result.stdout + result.stderr
    assert (result.exit_code, bool(said)) == (trial.exit_code, True), said
    assert not [str(warning.message) for warning in warned]
    assert "Traceback" not in said
    assert re.search(".*".join(map(re.escape, trial.says.split("…"))), said, re.DOTALL), said
    after = contents(folder)
    assert {name: after.get(name) for name in before} == before
    if trial.exit_code:
        if not result.stderr.startswith("Usage: "):  # what typer says itself
            assert result.stderr.startswith("error: "), said
            assert result.stderr.count("\n") == 1, said
            assert result.stderr[:-1].isprintable()
        assert not _ARGUMENT.search(result.stderr), said
        assert (result.stdout, after) == ("", before)
        return
    assert {name.split("/")[0] for name in after} == {name.split("/")[0] for name in before} | trial.makes
    if trial.rate is not None:
        assert json.loads(result.stdout)["reward_rate"]["value"] == pytest.approx(trial.rate, rel=1e-9, abs=1e-300)


def contents(folder: Path) -> dict[str, bytes]:
    """The content of a folder and below, by name: the bytes of files, where links point to, what else there is.

    Without what Python compiles: it writes that anew where a source changed in a later second than the one before.
    """
    found = {}
    for path in sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts):
        kind = path.lstat().st_mode
        if stat.S_ISLNK(kind):
            content = b"link to " + os.fsencode(os.readlink(path))
        else:
            content = path.read_bytes() if stat.S_ISREG(kind) else str(stat.S_IFMT(kind)).encode()
        found[path.relative_to(folder).as_posix()] = content
    return found
