"""The contest: which construction of an interval holds the truth?

    python -m cesaro.suite.contest collect [--only SYSTEM …] [--rows N] [--logs N] [--workers N] --out FOLDER
    python -m cesaro.suite.contest judge FOLDER …

`collect` rehearses the suite's own logs, one file each, and goes on where it was interrupted. `judge` asks every contestant about
what was collected, which takes seconds, and prints the suite's scores. Exam systems are collected with `--exam`, once.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np

from cesaro.diagnostics.worlds import Residual
from cesaro.files import read_values, write_values
from cesaro.progress import progress
from cesaro.rehearsal import Rehearsal, rehearse
from cesaro.suite import design, show
from cesaro.suite.design import BASE
from cesaro.suite.methods import Answer
from cesaro.suite.run import logs_of, seed_of
from cesaro.suite.scoreboard import Row, Scoreboard
from cesaro.suite.system import RELEASE
from cesaro.suite.systems import SYSTEMS, kind_of
from cesaro.suite.truth import truths

SCHEMA = "cesaro-contest/1"
WORLDS = 20
Z = 1.96


# What is collected.


def collected(name: str, rows: int, number: int, file: Path) -> None:
    """Rehearse one log of the base case, the one that the suite asks about."""
    cell = replace(BASE, rows=rows)
    first = number // design.chunk(cell) * design.chunk(cell)
    system = kind_of(name)(cell.mixing, RELEASE)
    log = logs_of(system, cell, first, 0)[number - first]
    found = rehearse(
        log, system.targets[system.main], worlds=WORLDS, random_state=seed_of(name, cell, number, 0), quiet=True
    )
    write_values(file, SCHEMA, {"system": name, "rows": rows, "log": number, **asdict(found)})


def read(file: Path) -> tuple[str, int, int, Rehearsal]:
    """System, rows, number of the log, and its rehearsal."""
    kept = read_values(file, SCHEMA)
    told = kept["residual"]
    own = {field.name: kept[field.name] for field in fields(Rehearsal) if field.name != "residual"}
    found = Rehearsal(**own, residual=None if told is None else Residual(**told))
    return kept["system"], kept["rows"], kept["log"], found


# Who takes part.


def _answer(rate: float, half: float) -> Answer:
    return Answer(rate, rate - half, rate + half, half / Z)


def disagreement(found: Rehearsal) -> Answer:
    """A: the median of candidates; their spread enters beside the median of their standard errors."""
    rates, errors = found.rates[np.isfinite(found.rates)], found.errors[np.isfinite(found.errors)]
    return _answer(float(np.median(rates)), Z * math.hypot(float(np.median(errors)), float(rates.std(ddof=1))))


def world(found: Rehearsal) -> Answer:
    """B: the median world, with the spread of worlds and what held-out rows prove."""
    proven = 0.0 if found.residual is None else max(0.0, abs(found.residual.value) - found.residual.standard_error)
    return _answer(float(np.median(found.truths)), Z * float(found.truths.std(ddof=1)) * math.sqrt(1.08) + proven)


CONTESTANTS: dict[str, Callable[[Rehearsal], Answer]] = {"A: disagreement": disagreement, "B: world": world}


def board(folders: Iterable[Path]) -> Scoreboard:
    """All contestants, and every candidate alone, on what was collected."""
    return Scoreboard.of(row for folder in folders for file in sorted(folder.glob("*.npz")) for row in _rows(file))


def _rows(file: Path) -> Iterator[Row]:
    name, rows, number, found = read(file)
    kind, cell, known = kind_of(name), replace(BASE, rows=rows), truths(name)
    target = next(iter(known.targets))
    answers = {make: contestant(found) for make, contestant in CONTESTANTS.items()}
    for candidate, rate, error in zip(found.candidates, found.rates, found.errors):
        answers[candidate] = _answer(float(rate), Z * float(error))
    for method, answer in answers.items():
        yield Row(
            system=name,
            side=kind.side,
            kind=kind.kind,
            fault=False,
            cell=cell,
            part="main",
            log=number,
            target=target,
            method=method,
            rate=answer.rate,
            low=answer.low,
            high=answer.high,
            standard_error=answer.standard_error,
            verdict="none",
            seconds=math.nan,
            megabytes=math.nan,
            truth=known.targets[target].rate,
            logged=known.logged("medium", "one")[0],
            scale=known.scale(target, "medium", "one", rows),
        )


def _collect(given: argparse.Namespace) -> None:
    names = given.only or [
        name
        for name in SYSTEMS
        if kind_of(name).kind == "continuous"
        and not kind_of(name).fault
        and kind_of(name).side == ("exam" if given.exam else "development")
    ]
    given.out.mkdir(parents=True, exist_ok=True)
    jobs = [
        (name, given.rows, number, file)
        for number in range(given.first, given.logs)
        for name in names
        if not (file := given.out / f"{name}_{given.rows}_{number}.npz").exists()
    ]
    for name in names:
        if kind_of(name).side == "exam" and not given.exam:
            raise SystemExit(f"{name} is an exam system: --exam says that nothing is left to choose.")
    with (
        progress("logs", total=len(jobs)) as advance,
        ProcessPoolExecutor(given.workers) as pool,
    ):
        for job in as_completed([pool.submit(collected, *one) for one in jobs]):
            job.result()
            advance()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    collect = parts.add_parser("collect")
    collect.add_argument("--only", nargs="*")
    collect.add_argument("--exam", action="store_true")
    collect.add_argument("--rows", type=int, default=BASE.rows)
    collect.add_argument("--first", type=int, default=0, help="the first log")
    collect.add_argument("--logs", type=int, default=50, help="logs of each system, counted from 0")
    collect.add_argument("--workers", type=int, default=2)
    collect.add_argument("--out", type=Path, required=True)
    judge = parts.add_parser("judge")
    judge.add_argument("folders", nargs="+", type=Path)
    given = parser.parse_args()
    if given.part == "collect":
        _collect(given)
    else:
        print(show.text(board(given.folders), 140))


if __name__ == "__main__":
    main()
