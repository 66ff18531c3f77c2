"""The contest: which construction of an interval holds the truth?

    python -m cesaro.suite.contest collect [--only SYSTEM …] [--rows N] [--shift S …] [--logs N] [--workers N] --out FOLDER
    python -m cesaro.suite.contest judge FOLDER … [--out FOLDER]

`collect` rehearses the suite's own logs of a kind, one file each, and goes on where it was interrupted. `judge` asks every
contestant about what was collected, which takes a minute, and prints who holds the truth, and at what width; `--out` writes that
as a table, with every answer and a picture. Exam systems are collected once, with `--exam`.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, fields, replace
from functools import lru_cache, partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import binomtest

from cesaro import __version__
from cesaro.candidates import Candidate, ask, closed_forms
from cesaro.checks import Array
from cesaro.data import Log, Transitions
from cesaro.diagnostics.worlds import Residual
from cesaro.errors import InputError
from cesaro.files import read_values, write_values
from cesaro.panel import QUANTILE, equivalent, pooled
from cesaro.passes.prepare import Prepared
from cesaro.progress import progress
from cesaro.rehearsal import Rehearsal, rehearse
from cesaro.report import style
from cesaro.reproduce import study
from cesaro.suite import design
from cesaro.suite.design import Cell
from cesaro.suite.methods import Answer, disagreement, methods
from cesaro.suite.run import about, logs_of, seed_of
from cesaro.suite.scoreboard import SIDES, Row, Scoreboard
from cesaro.suite.system import BEHAVIORS, RELEASE, SHIFTS
from cesaro.suite.systems import SYSTEMS, kind_of
from cesaro.worlds import World
from cesaro.worlds.process import median_estimate

if TYPE_CHECKING:
    from rich.table import Table

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
    own = {field.name: kept[field.name] for field in fields(Rehearsal) if field.name in kept.keys() - {"residual"}}
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
    proven = 0.0 if found.residual is None else found.residual.proven
    noise = math.sqrt(float((found.noise**2).mean()) / len(found.noise))
    estimate = median_estimate(found.truths, noise, proven)
    return _answer(estimate.value, QUANTILE * equivalent(estimate))


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
    actions = 1 if log.action_levels is None else len(log.action_levels)  # which all have features of their own
    features, tests_by = (f"fourier:{max(10, count // actions)}" for count in (200, 300))
    made = Prepared(log, policy, features=features, dual_features=tests_by, draws=1, random_state=seed, quiet=True)
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


def board(folders: Iterable[Path]) -> Scoreboard:
    """All contestants, and every candidate alone, on what was collected."""
    files = [file for folder in folders for file in sorted(folder.glob("*.npz"))]
    return Scoreboard.of(row for file in files for one in read(file) for row in _rows(one))


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


# Who is judged, by what.

# Baselines: the fixed map that does best on development, and the immediate answer.
FIXED, IMMEDIATE = "only polynomial:3", "closed form"
RESAMPLED = 2_000


class Standing(NamedTuple):
    """How a contestant did on the systems of a side, with logs of one kind.

    Attributes:
        systems: that it was asked about; a map with too many features is not, and comparisons are on the systems of both.
        coverage: mean over systems of the share of logs whose interval holds the truth; `low` and `high` bound that of all logs.
        least: on the system where it is least.
        score: interval score, in scales, geometric mean over systems; `ratio` divides it by that of the fixed map, with bounds
            from logs that are drawn again.
        error: root mean square error, in scales, likewise; `excess` divides it by that of the best single candidate of each
            system, and `gain` by that of the immediate answer, with bounds.
        width: the largest half width over systems, in half widths that the best candidate's error would need.
        correlation: of ranks over targets; nan where one target was asked.
    """

    method: str
    systems: int
    coverage: float
    low: float
    high: float
    least: float
    score: float
    ratio: float
    ratio_low: float
    ratio_high: float
    error: float
    excess: float
    gain: float
    gain_low: float
    gain_high: float
    width: float
    correlation: float


def standings(judged: Scoreboard, cell: Cell) -> list[Standing]:
    """Every contestant on one side."""
    answers: dict[tuple[str, str], dict[int, Row]] = {}
    for row in judged.rows:
        if row.cell == cell and row.part == "main" and row.is_apart:
            answers.setdefault((row.method, row.system), {})[row.log] = row
    methods = [method for method in judged.methods if any(name == method for name, _ in answers)]
    systems = list(dict.fromkeys(system for _, system in answers))
    singles = [method for method in methods if method.startswith("only ") or method == "B world"]
    errors = {key: _rms([row.error for row in rows.values()]) for key, rows in answers.items()}
    best = {name: float(np.nanmin([errors.get((method, name), np.nan) for method in singles])) for name in systems}
    found = []
    for method in methods:
        own = [system for system in systems if (method, system) in answers]
        mine = [answers[method, system] for system in own]
        held = [[row.covers for row in rows.values()] for rows in mine]
        shares = [float(np.mean(one)) for one in held]
        bounds = binomtest(sum(map(sum, held)), sum(map(len, held))).proportion_ci()
        widths = [_middle(np.median, [row.half_width for row in rows.values()]) for rows in mine]
        scores = [_middle(np.mean, [row.interval_score for row in rows.values()]) for rows in mine]
        ranks = [one.correlation for system in own if (one := judged.ranks(method, system, cell)) is not None]
        found.append(
            Standing(
                method,
                len(own),
                float(np.mean(shares)),
                bounds.low,
                bounds.high,
                min(shares),
                _geometric(scores),
                *_compared(answers, method, FIXED, own, lambda row: row.interval_score),
                _geometric([errors[method, system] for system in own]),
                _geometric([errors[method, system] / best[system] for system in own]),
                *_compared(answers, method, IMMEDIATE, own, lambda row: row.error**2, root=2),
                max(width / (QUANTILE * best[system]) for width, system in zip(widths, own)),
                float(np.mean(ranks)) if ranks else math.nan,
            )
        )
    return found


def _compared(
    answers: Mapping[tuple[str, str], Mapping[int, Row]],
    method: str,
    other: str,
    systems: Sequence[str],
    what: Callable[[Row], float],
    root: int = 1,
) -> tuple[float, float, float]:
    """The geometric mean over systems of a method's mean over another's, on the logs of both, with bounds by resampled logs."""
    pairs = []
    for system in systems:
        mine, theirs = answers[method, system], answers.get((other, system))
        if theirs is None:
            continue
        both = [(what(mine[log]), what(theirs[log])) for log in mine if log in theirs]
        pairs.append(np.array([pair for pair in both if np.isfinite(pair).all()]).reshape(-1, 2))
    if not pairs or not all(map(len, pairs)):
        return math.nan, math.nan, math.nan
    rng = np.random.default_rng(0)
    drawn = np.zeros(RESAMPLED)
    value = 0.0
    for pair in pairs:
        value += float(np.log(pair.mean(axis=0)) @ [1, -1]) / len(pairs)
        means = pair[rng.integers(len(pair), size=(RESAMPLED, len(pair)))].mean(axis=1)
        drawn += np.log(means[:, 0] / means[:, 1]) / len(pairs)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return tuple(float(np.exp(one / root)) for one in (value, low, high))  # type: ignore[return-value] # it has three


def _middle(of: Callable[[list[float]], Any], values: Sequence[float]) -> float:
    """Of the values that there are."""
    kept = [value for value in values if math.isfinite(value)]
    return float(of(kept)) if kept else math.nan


def _rms(values: Sequence[float]) -> float:
    return math.sqrt(_middle(np.mean, [value**2 for value in values]))


def _geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if np.all(np.asarray(values) > 0) else math.nan


def text(judged: Scoreboard, width: int = 150) -> str:
    """A table per side and kind of logs."""
    from rich.console import Console

    console = Console(file=StringIO(), width=width)
    for side in judged.sides:
        part = judged.on_side(side)
        for cell in part.cells:
            console.print(_table(part, side, cell))
            console.print()
    written: str = console.file.getvalue()  # type: ignore[attr-defined] # it is a StringIO
    return written.rstrip()


def _table(part: Scoreboard, side: str, cell: Cell) -> "Table":
    logs = len({(row.system, row.log) for row in part.rows if row.cell == cell})
    table = study.plain_table(f"{side}: {len(part.systems)} systems, {logs} logs of {cell.rows:,} rows ({cell.label})")
    heads = (
        "contestant",
        "coverage",
        "bounds",
        "least",
        "score",
        "of fixed map",
        "error",
        "of best",
        "of immediate",
        "width",
    )
    for name in (*heads, "rank"):
        table.add_column(name, justify="left" if name == "contestant" else "right", no_wrap=True)
    for one in standings(part, cell):
        table.add_row(
            one.method if one.systems == len(part.systems) else f"{one.method} ({one.systems} systems)",
            f"{one.coverage:.1%}",
            f"{one.low:.0%}–{one.high:.0%}",
            f"{one.least:.0%}",
            f"{one.score:.2f}",
            f"{one.ratio:.2f} ({one.ratio_low:.2f}–{one.ratio_high:.2f})",
            f"{one.error:.3f}",
            f"{one.excess:.2f}",
            f"{one.gain:.2f} ({one.gain_low:.2f}–{one.gain_high:.2f})",
            f"{one.width:.1f}",
            "" if math.isnan(one.correlation) else f"{one.correlation:.2f}",
        )
    return table


def picture(judged: Scoreboard, cell: Cell) -> Any:
    """Coverage and interval score of every contestant: a dot per system, a line for the mean; development and exam beside it."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    methods = [*CONTESTANTS, "D kernel Bellman", FIXED, IMMEDIATE]
    with style.drawing():
        figure = style.figure(9, 0.8 + 0.36 * len(methods))
        left, right = figure.subplots(1, 2, sharey=True)
        for shift, (side, color) in enumerate(zip(SIDES, (style.TARGET, style.LOSS))):
            if side not in judged.sides:
                continue
            part = judged.on_side(side)
            for place, method in enumerate(methods):
                scores = [one for name in part.systems if (one := part.score(method, name, cell)) is not None]
                at = place + 0.3 * shift - 0.15
                for axes, found in (
                    (left, [one.coverage for one in scores]),
                    (right, [one.interval_score for one in scores if one.interval_score > 0]),
                ):
                    axes.plot(found, [at] * len(found), "o", color=color, markersize=4, alpha=0.5)
                    if found:
                        middle = float(np.mean(found)) if axes is left else _geometric(found)
                        named = side if place == 0 and axes is left else None
                        axes.plot([middle], [at], "|", color=color, markersize=12, markeredgewidth=2.5, label=named)
        left.axvline(0.95, color=style.INK, linewidth=0.8, linestyle="--", zorder=0)
        left.set(xlabel="share of intervals that hold the truth", xlim=(-0.03, 1.03), ylim=(len(methods) - 0.4, -0.7))
        left.set_yticks(range(len(methods)), methods, fontsize=9)
        right.set(xscale="log", xlabel="interval score, in scales: less is better")
        right.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        right.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        right.xaxis.set_minor_formatter(NullFormatter())
        for axes in (left, right):
            style.clean(axes, grid="x")
        figure.legend(loc="outside upper center", ncols=2)
    return figure


def write(judged: Scoreboard, out: Path) -> None:
    """All answers, the standings as a table, and a picture of the base case, or of what there is."""
    out.mkdir(parents=True, exist_ok=True)
    rows = judged.table()
    names = list(dict.fromkeys(name for row in rows for name in row))
    study.write_csv(out / "answers.csv", names, ([row.get(name) for name in names] for row in rows))
    placed = [
        (side, cell.rows, cell.label, *one)
        for side in judged.sides
        for cell in judged.on_side(side).cells
        for one in standings(judged.on_side(side), cell)
    ]
    study.write_csv(out / "standings.csv", ("side", "rows", "logs_of", *Standing._fields), placed)
    shown = design.BASE if design.BASE in judged.cells else judged.cells[0]
    style.save_png(picture(judged, shown), out / "contest.png")


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
    judge.add_argument("--out", type=Path, help="a folder for the table, every answer and a picture")
    given = parser.parse_args()
    if given.part == "collect":
        _collect(given)
        return
    judged = board(given.folders)
    print(text(judged))
    if given.out is not None:
        write(judged, given.out)


if __name__ == "__main__":
    main()
