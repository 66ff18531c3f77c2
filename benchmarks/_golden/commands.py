"""Cases of the command line and its studies."""

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks._golden.case import CASES, case
from benchmarks._golden.interrupt import CTRL_C, interrupt_when
from benchmarks._golden.record import repeatable


def command(*words: str) -> dict[str, Any]:
    """The exit code of a command and what it prints; `app` of the module that pyproject.toml of the tree names.

    The function named there takes this process for its own, and its output with it.
    """
    app = import_module(os.environ["GOLDEN_COMMAND"].partition(":")[0]).app
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["cesaro", *words]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code: Any = 0
            try:
                app(prog_name="cesaro")
            except SystemExit as ended:
                code = ended.code or 0
    finally:
        sys.argv = before
    lines = (stream.getvalue().splitlines(keepends=True) for stream in (out, err))
    return {"words": list(words), "code": code, **dict(zip(("stdout", "stderr"), lines))}


COLUMNS = ("--observation", "state", "--observation", "day", "--kind", "state=category", "--quiet")


@case
def command_evaluate() -> dict[str, Any]:
    words = ("evaluate", "discrete", "--policy", "policy.py:target", *COLUMNS)
    return {
        "text": command(*words),
        "options": command(*words, "--ridge", "0.1", "--confidence", "0.8", "--seed", "3", "--unit", "€"),
        "compare": command("compare", *words[1:], "--policy", "uniform", "--policy", "old=logged"),
        "json": repeatable(json.loads("".join(command(*words, "--json")["stdout"]))),
    }


@case
def command_evaluate_resumed() -> dict[str, Any]:
    """Interrupted with its progress in `OUT.partial`, and run again."""
    words = ("evaluate", "discrete", "--policy", "policy.py:target", *COLUMNS, "--stream", "--out")
    told: dict[str, Any] = {}

    def interrupted() -> None:
        told["interrupted"] = command(*words, "answer")

    CTRL_C.within(interrupted, lambda: command(*words[:-1]), "answer.partial")
    told["left"] = sorted(file.name for file in Path("answer.partial").iterdir())
    told["resumed"] = command(*words, "answer")
    told |= {name: Path("answer") / name for name in ("evaluation.json", "report.txt")}
    return told | {"files": sorted(file.name for file in Path("answer").iterdir())}


@case
def command_sort() -> dict[str, Any]:
    table = pq.read_table("episodes")
    pq.write_table(table.take(np.random.default_rng(0).permutation(len(table))), "mixed.parquet")
    told = command(
        "sort", "mixed.parquet", "--out", "sorted.parquet", "--trajectory", "agent", "--time", "time", "--quiet"
    )
    return {"command": told, "rows": pq.read_table("sorted.parquet").to_pydict(), "file": Path("sorted.parquet")}


@case
def command_help() -> dict[str, Any]:
    names = ("evaluate", "compare", "collect", "truth", "train-target", "sort", "doctor", "reproduce")
    studies = ("assumption", "boyan", "counterexample", "rates", "coverage", "mujoco")
    asked = [(), *((name,) for name in names), *(("reproduce", study) for study in studies), ("--version",)]
    return {" ".join(words): command(*words, *(() if "--version" in words else ("--help",))) for words in asked}


@case
def wrong_commands() -> dict[str, Any]:
    asked = [
        "evaluate",
        "evaluate discrete",
        "evaluate nothing.parquet --policy uniform",
        "evaluate discrete --policy uniform --observation stat",
        "evaluate discrete --policy uniform --observation state,day",
        "evaluate discrete --policy nobody --observation state",
        "evaluate discrete --policy uniform --policy logged --observation state",
        "compare discrete --policy uniform --observation state",
        "evaluate discrete --policy uniform --observation state --method magic",
        "evaluate discrete --policy uniform --observation state --ridge -1",
        "evaluate discrete --policy uniform --observation state --confidence 2",
        "evaluate discrete --policy uniform --observation state --kind state=colour",
        "evaluate discrete --policy uniform --observation state --set wings=2",
        "evaluate discrete --policy constant:fly --observation state",
        "evaluate episodes --policy uniform --observation level --trajectory agents",
        "evaluate discrete --policy missing.py:target --observation state --out nowhere/answer",
        "reproduce",
        "reproduce boyan --quick --runs 3",
        "reproduce --from nothing.json",
        "sort discrete --out sorted.csv --time when",
        "fly",
    ]
    return {words: command(*words.split()) for words in asked}


def study(name: str, *options: str) -> dict[str, Any]:
    told = command("reproduce", name, *options, "--quiet", "--workers", "1", "--out", "study")
    return {"command": told, "files": Path("study")}


STUDIES = {
    "assumption": ("--trials", "20"),
    "boyan": ("--quick",),
    "counterexample": ("--quick",),
    "rates": ("--quick",),
    "coverage": ("--quick",),
}
for _name, _options in STUDIES.items():
    CASES[f"study-{_name}"] = partial(study, _name, *_options)


@case
def study_resumed() -> dict[str, Any]:
    """Interrupted after its first piece, and run again."""
    words = ("reproduce", "assumption", "--trials", "100", "--quiet", "--workers", "1", "--out", "study")
    interrupt_when(lambda: any(Path("study.partial").glob("pieces/*.npz")), lambda: command(*words))
    if not Path("study.partial").exists():
        raise RuntimeError("the study ended before it could be interrupted")
    return {"command": command(*words), "files": Path("study")}
