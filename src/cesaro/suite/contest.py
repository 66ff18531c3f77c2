"""The contest: which construction of an interval holds the truth?

    python -m cesaro.suite.contest collect [--only SYSTEM …] [--rows N] [--shift S …] [--logs N] [--workers N] --out FOLDER
    python -m cesaro.suite.contest judge FOLDER … [--beside BOARD …]

`collect` rehearses the suite's own logs of a kind, one file each, and goes on where it was interrupted. `judge` asks every
contestant about what was collected, which takes a minute, and prints the suite's scores. Exam systems are collected once, with
`--exam`.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, fields, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from cesaro import __version__
from cesaro.candidates import Candidate, ask, closed_forms
from cesaro.checks import Array
from cesaro.data import Log, Transitions
from cesaro.diagnostics.worlds import Residual
from cesaro.errors import InputError
from cesaro.files import read_values, write_values
from cesaro.panel import QUANTILE, pooled
from cesaro.passes.prepare import Prepared
from cesaro.progress import progress
from cesaro.rehearsal import Rehearsal, rehearse
from cesaro.suite import design, show
from cesaro.suite.design import Cell
from cesaro.suite.methods import Answer, disagreement, methods
from cesaro.suite.run import about, logs_of, seed_of, together
from cesaro.suite.scoreboard import Row, Scoreboard
from cesaro.suite.system import BEHAVIORS, RELEASE, SHIFTS
from cesaro.suite.systems import SYSTEMS, kind_of
from cesaro.worlds import World
from cesaro.worlds.estimator import MEDIAN

SCHEMA = "cesaro-contest/5"
WORLDS = 20
# Methods of the suite that are asked about the log itself, beside closed forms: the immediate answer, and networks.
BESIDE = ("closed form", *(method.name for method in methods().values() if method.group == "network"))
# Trajectories that tests of the kernel need; of fewer, as many blocks of rows serve.
GROUPS = 10


# What is collected.


def collected(name: str, cell: Cell, number: int, targets: str, file: Path) -> None:
    """Rehearse one log, the one that the suite asks about, for its main target or for all."""
    system, seed = kind_of(name)(cell.mixing, RELEASE), seed_of(name, cell, number, 0)
    log = _log(name, cell, number)
    world = World(WORLDS, random_state=seed, quiet=True).fit(log)
    asked = system.targets if targets == "all" else {system.main: system.targets[system.main]}
    found = {target: _found(log, policy, world, seed) for target, policy in asked.items()}
    about = {"system": name, **asdict(cell), "log": number, "part": targets, **_made()}
    write_values(file, SCHEMA, {**about, "targets": found})


def _made() -> dict[str, Any]:
    """What evidence depends on beside the log: files that differ in it are not judged together."""
    return {"cesaro": __version__, "release": RELEASE, "worlds": WORLDS}


def _found(log: Transitions, policy: Any, world: World, seed: int) -> dict[str, Any]:
    """Answers about the log itself, and a rehearsal or why there is none."""
    known = methods()
    answers = {name: _asked(make, log, policy, seed) for name, make in closed_forms(log).items()}
    answers |= {name: known[name](log, policy, seed).answer for name in BESIDE}
    found = {"answers": {name: answer._asdict() for name, answer in answers.items()}}
    try:
        return {**found, "rehearsal": asdict(rehearse(log, policy, worlds=world, random_state=seed, quiet=True))}
    except InputError as error:
        return {**found, "refused": str(error)}


def _asked(make: Candidate, log: Log, policy: Any, seed: int) -> Answer:
    rate, error, note = ask(make, log, policy, seed)
    return _answer(rate, QUANTILE * error)._replace(note=note)


def _log(name: str, cell: Cell, number: int) -> Transitions:
    size = design.chunk(cell)
    return _logs(name, cell, number // size * size)[number % size]


@lru_cache(4)
def _logs(name: str, cell: Cell, first: int) -> list[Transitions]:
    return logs_of(kind_of(name)(cell.mixing, RELEASE), cell, first, 0)


class Evidence(NamedTuple):
    """What was collected of a log and a target.

    Attributes:
        part: "all" where there are several targets.
        answers: of candidates and of other methods, about the log itself.
        rehearsal: what worlds say; None where they have no rate, and `refused` says why.
    """

    system: str
    cell: Cell
    log: int
    part: str
    target: str
    answers: dict[str, Answer]
    rehearsal: Rehearsal | None
    refused: str = ""

    @property
    def closed_forms(self) -> list[Answer]:
        """Answers in maps of several families, of those that have one with a standard error."""
        return [
            answer
            for name, answer in self.answers.items()
            if name not in BESIDE and math.isfinite(answer.rate) and answer.standard_error > 0
        ]


def read(file: Path) -> list[Evidence]:
    """The evidence on every target of a log.

    Raises:
        InputError: it was collected in another way than evidence is now.
    """
    kept = read_values(file, SCHEMA, remedy="delete it, and collect again")
    if any(kept.get(name) != value for name, value in _made().items()):
        raise InputError(f"'{file}' was collected by another version, release or number of worlds; collect it again.")
    cell = Cell(**{field.name: kept[field.name] for field in fields(Cell)})
    return [
        Evidence(
            kept["system"],
            cell,
            kept["log"],
            kept["part"],
            target,
            {name: Answer(**answer) for name, answer in found["answers"].items()},
            _rehearsal(found["rehearsal"]) if "rehearsal" in found else None,
            found.get("refused", ""),
        )
        for target, found in kept["targets"].items()
    ]


def _rehearsal(kept: dict[str, Any]) -> Rehearsal:
    told = kept["residual"]
    own = {field.name: kept[field.name] for field in fields(Rehearsal) if field.name != "residual"}
    return Rehearsal(**own, residual=None if told is None else Residual(**told))


# Who takes part.


REFUSED = Answer(math.nan, verdict="refused")


def _answer(rate: float, half: float) -> Answer:
    return Answer(rate, rate - half, rate + half, half / QUANTILE)


def median(one: Evidence) -> Answer:
    """A: the median of closed forms; their spread enters beside the median of their standard errors."""
    return disagreement(one.closed_forms)


def averaged(one: Evidence) -> Answer:
    """A: closed forms averaged by their precision; their spread enters beside their standard errors, which do not average out."""
    return _pooled([(answer, "closed form") for answer in one.closed_forms])


def world(one: Evidence) -> Answer:
    """B: the median world, with the spread of worlds and what held-out rows prove."""
    found = one.rehearsal
    if found is None:
        return REFUSED
    residual = found.residual
    proven = 0.0 if residual is None else max(0.0, abs(residual.value) - residual.standard_error)
    count = len(found.truths)
    error = math.hypot(
        float(found.truths.std(ddof=1)) * math.sqrt(1 + MEDIAN / count),
        math.sqrt(float((found.noise**2).mean()) / count),
    )
    return _answer(float(np.median(found.truths)), float(student.ppf(0.975, count - 1)) * error + proven)


def kinds(one: Evidence, *, networks: bool = False, members: int | None = None) -> Answer:
    """A between kinds: closed forms and B, and perhaps networks; by precision again, and what is between them enters.

    Args:
        members: of the world, the first of those that were learned; None: all.
    """
    found = one.rehearsal
    if members is not None and found is not None:
        found = replace(found, truths=found.truths[:members], noise=found.noise[:members])
    answers = [(answer, "closed form") for answer in one.closed_forms]
    answers.append((world(one._replace(rehearsal=found)), "world"))
    if networks:
        answers.append((one.answers["last layer"], "network"))
    return _pooled(answers)


def _pooled(answers: Sequence[tuple[Answer, str]]) -> Answer:
    able = [(answer, kind) for answer, kind in answers if answer.standard_error > 0]
    if not able:
        return REFUSED
    found = pooled(
        [answer.rate for answer, _ in able], [answer.standard_error for answer, _ in able], [kind for _, kind in able]
    )
    return _answer(found.value, QUANTILE * found.error)


def hull(one: Evidence) -> Answer:
    """A between kinds: all that A or B holds."""
    found = [answer for answer in (averaged(one), world(one)) if math.isfinite(answer.rate)]
    if not found:
        return REFUSED
    low, high = min(answer.low for answer in found), max(answer.high for answer in found)
    return _answer((low + high) / 2, (high - low) / 2)


def rehearsed(one: Evidence, *, guard: bool) -> Answer:
    """C: candidates weighed by their errors in worlds; pivots of the weighed answer, each by weights of the other worlds.

    The guard adds what held-out rows say about an error that all worlds share.
    """
    found = one.rehearsal
    if found is None or not found.eligible.any():
        return REFUSED
    able, squares = found.eligible, found.errors**2
    worlds = len(squares)

    def weighed(squares: Array, rates: Array, errors: Array) -> tuple[float, float]:
        weights = np.where(able, 1 / squares.mean(axis=0), 0.0)
        weights /= weights.sum()
        rate = float(weights @ np.where(able, rates, 0.0))
        spread = weights @ np.where(able, rates - rate, 0.0) ** 2
        return rate, math.sqrt(float(weights @ np.where(able, errors, 0.0)) ** 2 + float(spread))

    pivots = []
    for number in range(worlds):
        others = np.arange(worlds) != number
        rate, error = weighed(squares[others], found.rehearsed[number], found.rehearsed_standard_errors[number])
        pivots.append(abs(rate - found.truths[number]) / error)
    place = min(worlds, math.ceil(0.95 * (worlds + 1))) - 1
    rate, error = weighed(squares, found.rates, found.standard_errors)
    half = float(np.maximum(QUANTILE, np.sort(pivots)[place])) * error
    if guard and found.residual is not None:
        half += abs(found.residual.value) + QUANTILE * found.residual.standard_error
    return _answer(rate, half)


def doubly_robust(one: Evidence) -> Answer:
    """D: the world's rate, corrected by what held-out rows say, with a ratio that no candidate has."""
    found = one.rehearsal
    if found is None or found.residual is None:
        return REFUSED
    error = math.hypot(found.residual.standard_error, float(found.truths.std(ddof=1)) / math.sqrt(len(found.truths)))
    return _answer(float(np.median(found.truths)) + found.residual.value, QUANTILE * error)


def kernel_bellman(log: Log, policy: Any, seed: int) -> Answer:
    """D: all rates whose best values leave residuals that random test functions cannot tell from noise; perhaps none."""
    made = Prepared(
        log, policy, features="fourier:200", dual_features="fourier:300", draws=1, random_state=seed, quiet=True
    )
    rows = [made.features_of(block) for block in made.data.blocks()]
    x, x_next, tests, rewards = (
        np.concatenate([np.asarray(getattr(row, name)) for row in rows]) for name in ("x", "x_next", "v", "rewards")
    )
    count = len(rewards)
    by_values, by_rewards, by_one = tests.T @ (x_next - x) / count, tests.T @ rewards / count, tests.mean(axis=0)
    gram = by_values.T @ by_values
    ridge = 1e-6 * np.trace(gram) / len(gram)
    solved = np.linalg.solve(gram + ridge * np.eye(len(gram)), by_values.T)
    left = np.eye(len(by_one)) - by_values @ solved
    one, other = left @ by_one, left @ by_rewards
    rate = float(one @ other / (one @ one))
    residuals = rewards - rate - (x_next - x) @ solved @ (by_rewards - rate * by_one)
    lengths = np.asarray([] if log.lengths is None else log.lengths)
    if len(lengths) < GROUPS:
        lengths = np.diff(np.linspace(0, count, 2 * GROUPS + 1).astype(np.int64))
    sums = np.add.reduceat(tests * residuals[:, None], np.append(0, np.cumsum(lengths)[:-1])) / count
    drawn = np.random.default_rng(seed).normal(size=(300, len(sums))) @ sums @ left.T
    most, least = float(np.quantile((drawn**2).sum(axis=1), 0.95)), float(other @ other - rate * (one @ other))
    if most < least:
        return Answer(rate)
    return _answer(rate, math.sqrt((most - least) / float(one @ one)))


CONTESTANTS: dict[str, Callable[[Evidence], Answer]] = {
    "A median": median,
    "A average": averaged,
    "A kinds": kinds,
    "A kinds, 10 members": partial(kinds, members=10),
    "A three kinds": partial(kinds, networks=True),
    "A hull": hull,
    "B world": world,
    "C rehearsal": partial(rehearsed, guard=True),
    "C no guard": partial(rehearsed, guard=False),
    "D doubly robust": doubly_robust,
}


def board(folders: Iterable[Path], beside: Iterable[Path] = ()) -> Scoreboard:
    """All contestants, and every candidate alone, on what was collected; and what boards of the suite have of the same logs."""
    files = [file for folder in folders for file in sorted(folder.glob("*.npz"))]
    rows = [row for file in files for one in read(file) for row in _rows(one)]
    earlier = [row for folder in beside for row in Scoreboard.read(folder).rows]
    return Scoreboard.of(together(rows, earlier))


def _rows(one: Evidence) -> Iterator[Row]:
    kind, cell = kind_of(one.system), one.cell
    policy = kind(cell.mixing, RELEASE).targets[one.target]
    answers = {title: contestant(one) for title, contestant in CONTESTANTS.items()}
    log, seed = _log(one.system, cell, one.log), seed_of(one.system, cell, one.log, 0)
    answers["D kernel Bellman"] = kernel_bellman(log, policy, seed)
    answers |= {name if name in BESIDE else f"only {name}": answer for name, answer in one.answers.items()}
    for method, answer in answers.items():
        yield Row(
            **about(kind, cell, one.target, RELEASE),
            part=one.part,
            log=one.log,
            method=method,
            **answer._asdict(),
            seconds=math.nan,
            megabytes=math.nan,
        )


def _collect(given: argparse.Namespace) -> None:
    names = given.only or [
        name
        for name in SYSTEMS
        if kind_of(name).kind == "continuous"
        and not kind_of(name).fault
        and kind_of(name).side == ("exam" if given.exam else "development")
    ]
    for name in names:
        if kind_of(name).side == "exam" and not given.exam:
            raise SystemExit(f"{name} is an exam system: --exam says that nothing is left to choose.")
        if kind_of(name).kind != "continuous" or kind_of(name).fault:
            raise SystemExit(f"{name} must be a system with numbers and a right answer, as the contest is about these.")
    if given.first >= given.logs:
        raise SystemExit(f"--first must be below --logs, which counts from 0. Got {given.first} and {given.logs}.")
    given.out.mkdir(parents=True, exist_ok=True)
    cell = Cell(**{field.name: getattr(given, field.name) for field in fields(Cell)})
    jobs = [
        (name, cell, number, given.targets, file)
        for number in range(given.first, given.logs)
        for name in names
        if not (file := given.out / f"{name}_{cell.key}_{given.targets}_{number}.npz").exists()
    ]
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
    for field in fields(Cell):
        some = {"shift": [*SHIFTS], "behavior": [*BEHAVIORS], "mixing": ["usual", "slow"]}.get(field.name)
        collect.add_argument(f"--{field.name}", type=type(field.default), default=field.default, choices=some)
    collect.add_argument("--targets", choices=("main", "all"), default="main")
    collect.add_argument("--first", type=int, default=0, help="the first log")
    collect.add_argument("--logs", type=int, default=50, help="logs of each system, counted from 0")
    collect.add_argument("--workers", type=int, default=2)
    collect.add_argument("--out", type=Path, required=True)
    judge = parts.add_parser("judge")
    judge.add_argument("folders", nargs="+", type=Path)
    judge.add_argument("--beside", nargs="*", type=Path, default=[], help="boards of the suite")
    given = parser.parse_args()
    if given.part == "collect":
        _collect(given)
    else:
        print(show.text(board(given.folders, given.beside), 140))


if __name__ == "__main__":
    main()
