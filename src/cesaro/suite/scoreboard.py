"""The scoreboard: a row per answer, and what they say about each method, system by system and over systems."""

import csv
import gzip
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import beta, spearmanr

from cesaro.panel import CONFIDENCE
from cesaro.reproduce import study
from cesaro.suite.design import BASE, LARGE, Cell
from cesaro.suite.methods import KINDS

if TYPE_CHECKING:
    from rich.table import Table

# An answer with verdict ok is false if it errs by more than this part of the scale.
WRONG = 0.1
SIDES = ("development", "exam")
JUDGED = ("ok", "caution", "bad")
# Of the answers with verdict ok at most this part should be false; what could be ok is told from so many logs of a kind or more.
MOST_FALSE, LEAST_LOGS = 0.05, 4
SHOWN_VERDICTS = (*JUDGED, "refused")
LEGEND = (
    "has: share of logs with an answer. error: root mean square, in scales. cover: share of 95 % intervals that hold "
    "the truth; least: on the worst system. half: half width; score: interval score, in scales. rank: correlation over "
    "targets; regret of the first one. ok: share of answers; false ok: those that err by more than 0.1 scales."
)


@dataclass(frozen=True)
class Row:
    """One answer.

    Attributes:
        part: "main", or "all" where several targets were asked about the same log, for ranks.
        logged: what the behavior earns, simulated and not averaged from the log.
        scale: errors are measured in it: |truth − logged|, or five deviations of the log's mean if that is more.
        note: why there is no answer.
    """

    system: str
    side: str
    kind: str
    fault: bool
    cell: Cell
    part: str
    log: int
    target: str
    method: str
    rate: float
    low: float
    high: float
    standard_error: float
    verdict: str
    seconds: float
    megabytes: float
    truth: float
    logged: float
    scale: float
    note: str = ""

    @property
    def is_apart(self) -> bool:
        """Whether truth and log are as far apart as the scale; if not, the answer serves for ranks alone."""
        return abs(self.truth - self.logged) >= (1 - 1e-4) * self.scale  # files hold six digits

    @property
    def error(self) -> float:
        """The error in scales; nan where there is no answer."""
        return (self.rate - self.truth) / self.scale

    @property
    def is_wrong(self) -> bool:
        """Whether it errs by more than a tenth of the scale, or is no answer."""
        return not abs(self.error) <= WRONG

    @property
    def in_standard_errors(self) -> float:
        """The error."""
        return (self.rate - self.truth) / self.standard_error if self.standard_error > 0 else math.nan

    @property
    def covers(self) -> bool:
        """Whether the interval holds the truth; no interval does not."""
        return self.low <= self.truth <= self.high

    @property
    def half_width(self) -> float:
        """Half the width of the interval, in scales."""
        return (self.high - self.low) / 2 / self.scale

    @property
    def interval_score(self) -> float:
        """Width, and what a miss costs, in scales: lower is better."""
        missed = max(self.low - self.truth, 0.0) + max(self.truth - self.high, 0.0)
        return (self.high - self.low + 2 / (1 - CONFIDENCE) * missed) / self.scale


class Score(NamedTuple):
    """The score of a method on a set of logs.

    Attributes:
        answered: share of logs with an answer.
        error: root mean square of errors, in scales, of the answers that there are.
        standard_errors: root mean square of errors in standard errors; one, if these are right.
        coverage: share of logs whose interval holds the truth, with its binomial bounds; nan if the method has no intervals.
        half_width, interval_score: means over intervals that there are, in scales.
        ok: share of answers with verdict ok; nan if the method has no verdicts.
        oks, false_oks: answers with verdict ok, and those of them that err by more than a tenth of the scale.
    """

    logs: int
    answered: float
    error: float
    standard_errors: float
    coverage: float
    coverage_low: float
    coverage_high: float
    half_width: float
    interval_score: float
    ok: float
    oks: int
    false_oks: int
    seconds: float
    megabytes: float


class Judged(NamedTuple):
    """The answers of one verdict.

    Attributes:
        wrong: those that err by more than a tenth of the scale, with the binomial bounds of their share.
        held: those whose interval holds the truth.
    """

    answers: int
    wrong: int
    wrong_low: float
    wrong_high: float
    held: int


class Attainable(NamedTuple):
    """How many close answers could have verdict ok.

    Attributes:
        close: answers that err by at most a tenth of the scale.
        oks: those of them with verdict ok.
        could: those that could have it, at most, by a judge who knows how often answers about a system and a kind of logs are
            close, but not which ones, and who may be wrong with one ok in twenty.
    """

    close: int
    oks: int
    could: float


class Ranks(NamedTuple):
    """How a method orders targets.

    Attributes:
        correlation: Spearman's, of estimated and true rates, a mean over logs.
        regret: how much less the target that ranks first earns than the best, as a part of the best's distance to the worst.
    """

    logs: int
    correlation: float
    regret: float


class Overall(NamedTuple):
    """A method over systems: geometric means of errors, widths and scores, plain means of shares.

    Attributes:
        systems: of which it has an answer at least once; errors, widths and scores are means over these and over answers, so that
            methods that refuse are compared on fewer logs.
        coverage_low, coverage_high, false_ok_low, false_ok_high: binomial bounds of the logs of all systems together.
    """

    systems: int
    answered: float
    error: float
    coverage: float
    coverage_low: float
    coverage_high: float
    least_coverage: float
    half_width: float
    interval_score: float
    correlation: float
    regret: float
    ok: float
    false_ok: float
    false_ok_low: float
    false_ok_high: float
    oks: int
    seconds: float


@dataclass(frozen=True)
class Scoreboard:
    """All answers.

    Attributes:
        with_intervals, with_verdicts: methods that gave an interval, or a verdict, anywhere; others have blanks.
    """

    rows: tuple[Row, ...]
    with_intervals: frozenset[str] = frozenset()
    with_verdicts: frozenset[str] = frozenset()

    @staticmethod
    def of(rows: Iterable[Row]) -> "Scoreboard":
        """A board of all rows that there are."""
        found = tuple(rows)
        intervals = frozenset(row.method for row in found if not math.isnan(row.low))
        return Scoreboard(found, intervals, frozenset(row.method for row in found if row.verdict in JUDGED))

    @staticmethod
    def read(folder: str | Path) -> "Scoreboard":
        """The board of a finished folder: its `answers.csv` or `answers.csv.gz`, to six digits.

        `Scoreboard.of` puts rows of several boards together.
        """
        plain = Path(folder) / "answers.csv"
        with plain.open(newline="", encoding="utf-8") if plain.exists() else gzip.open(f"{plain}.gz", "rt") as file:
            return Scoreboard.of(map(_written, csv.DictReader(file)))

    @cached_property
    def systems(self) -> list[str]:
        """Names of systems with a right answer."""
        return list(dict.fromkeys(row.system for row in self.rows if not row.fault))

    @cached_property
    def faulty(self) -> list[str]:
        """Names of systems without one."""
        return list(dict.fromkeys(row.system for row in self.rows if row.fault))

    @cached_property
    def methods(self) -> list[str]:
        """Names of methods."""
        return list(dict.fromkeys(row.method for row in self.rows))

    @cached_property
    def cells(self) -> list[Cell]:
        """Kinds of logs, the base case first."""
        return list(dict.fromkeys(row.cell for row in self.rows))

    @cached_property
    def sides(self) -> list[str]:
        """Sides that were scored."""
        return [side for side in SIDES if any(row.side == side for row in self.rows)]

    @cached_property
    def kinds(self) -> list[str]:
        """Kinds of systems that were scored."""
        return [kind for kind in KINDS if any(row.kind == kind for row in self.rows)]

    def on_side(self, side: str, kind: str | None = None) -> "Scoreboard":
        """Its systems alone, or those of one kind."""
        rows = tuple(row for row in self.rows if row.side == side and kind in (None, row.kind))
        return Scoreboard(rows, self.with_intervals, self.with_verdicts)

    @cached_property
    def _groups(self) -> dict[tuple[str, str, Cell, str], list[Row]]:
        found: dict[tuple[str, str, Cell, str], list[Row]] = {}
        for row in self.rows:
            found.setdefault((row.method, row.system, row.cell, row.part), []).append(row)
        return found

    def score(self, method: str, system: str, cell: Cell = BASE) -> Score | None:
        """A method's score on a system, for its main target; None: it was not asked, or the target is too close to the log."""
        rows = [row for row in self._groups.get((method, system, cell, "main"), ()) if row.is_apart]
        return self._score(method, rows) if rows else None

    def _score(self, method: str, rows: list[Row]) -> Score:
        answers = [row for row in rows if not math.isnan(row.rate)]
        oks = [row for row in answers if row.verdict == "ok"]
        covered = sum(row.covers for row in rows)
        has_intervals = method in self.with_intervals
        bounds = _bounds(covered, len(rows)) if has_intervals else (math.nan, math.nan)
        return Score(
            logs=len(rows),
            answered=len(answers) / len(rows),
            error=_rms(row.error for row in answers),
            standard_errors=_rms(row.in_standard_errors for row in answers),
            coverage=covered / len(rows) if has_intervals else math.nan,
            coverage_low=bounds[0],
            coverage_high=bounds[1],
            half_width=_mean(row.half_width for row in answers),
            interval_score=_mean(row.interval_score for row in answers),
            ok=len(oks) / len(rows) if method in self.with_verdicts else math.nan,
            oks=len(oks),
            false_oks=sum(row.is_wrong for row in oks),
            seconds=_mean(row.seconds for row in rows),
            megabytes=_mean(row.megabytes for row in rows),
        )

    def ranks(self, method: str, system: str, cell: Cell = BASE) -> Ranks | None:
        """Over the targets of a system; a target without an answer ranks last."""
        rows = self._groups.get((method, system, cell, "all"))
        if rows is None:
            return None
        found = []
        for log in sorted({row.log for row in rows}):
            own = [row for row in rows if row.log == log]
            truths = np.array([row.truth for row in own])
            rates = np.array([-math.inf if math.isnan(row.rate) else row.rate for row in own])
            best, worst = truths.max(), truths.min()
            tied = (rates == rates[0]).all()
            correlation = 0.0 if tied else float(spearmanr(rates, truths).statistic)
            first = truths[rates == rates.max()].mean()  # of those that share the first place, any
            found.append((correlation, (best - first) / (best - worst)))
        return Ranks(len(found), *(float(np.mean(column)) for column in zip(*found)))

    def overall(self, method: str, cell: Cell = BASE) -> Overall | None:
        """Over all systems with a right answer that the method was asked about."""
        scores = [one for name in self.systems if (one := self.score(method, name, cell)) is not None]
        if not scores:
            return None
        ranks = [ranked for name in self.systems if (ranked := self.ranks(method, name, cell)) is not None]
        oks, false = sum(one.oks for one in scores), sum(one.false_oks for one in scores)
        logs = sum(one.logs for one in scores)
        has_intervals = method in self.with_intervals
        covered = round(sum(one.coverage * one.logs for one in scores)) if has_intervals else 0
        bounds = _bounds(covered, logs) if has_intervals else (math.nan, math.nan)
        wrong = _bounds(false, oks) if oks else (math.nan, math.nan)
        return Overall(
            systems=sum(one.answered > 0 for one in scores),
            answered=_mean(one.answered for one in scores),
            error=_geometric(one.error for one in scores),
            coverage=_mean(one.coverage for one in scores),
            coverage_low=bounds[0],
            coverage_high=bounds[1],
            least_coverage=min(one.coverage for one in scores),
            half_width=_geometric(one.half_width for one in scores),
            interval_score=_geometric(one.interval_score for one in scores),
            correlation=_mean(ranked.correlation for ranked in ranks),
            regret=_mean(ranked.regret for ranked in ranks),
            ok=_mean(one.ok for one in scores),
            false_ok=false / oks if oks else math.nan,
            false_ok_low=wrong[0],
            false_ok_high=wrong[1],
            oks=oks,
            seconds=_mean(one.seconds for one in scores),
        )

    def verdicts(self, method: str, faulty: bool = False) -> dict[str, list[Row]]:
        """The answers about main targets by verdict, on systems with a right answer or on faulty ones; none without verdicts."""
        found: dict[str, list[Row]] = {}
        for row in self.rows if method in self.with_verdicts else ():
            if row.method == method and row.fault == faulty and row.part == "main" and (faulty or row.is_apart):
                found.setdefault(row.verdict, []).append(row)
        return found

    def judged(self, method: str, verdict: str) -> Judged | None:
        """How often a verdict was wrong, over all logs of systems with a right answer; None: it was never said."""
        rows = self.verdicts(method).get(verdict)
        if not rows:
            return None
        wrong = sum(row.is_wrong for row in rows)
        return Judged(len(rows), wrong, *_bounds(wrong, len(rows)), sum(row.covers for row in rows))

    def attainable(self, method: str) -> Attainable | None:
        """How many of a method's close answers have verdict ok, and could have; None where it has no verdicts.

        Noise alone decides which answers about logs of one kind are close, and no verdict can tell these from the others: where
        half of them are close, every second ok is false. Kinds of which there are a few answers only are left out.
        """
        groups: dict[tuple[str, Cell], list[Row]] = {}
        for rows in self.verdicts(method).values():
            for row in rows:
                if math.isfinite(row.rate):
                    groups.setdefault((row.system, row.cell), []).append(row)
        kinds = [rows for rows in groups.values() if len(rows) >= LEAST_LOGS]
        if not kinds:
            return None
        counts = sorted(
            ((sum(row.is_wrong for row in rows), len(rows)) for rows in kinds), key=lambda one: one[0] / one[1]
        )
        could, allowed = 0.0, 0.0
        for wrong, logs in counts:
            cost = wrong - MOST_FALSE * logs
            share = 1.0 if cost <= allowed else allowed / cost
            could += share * (logs - wrong)
            allowed -= share * cost
        close = [row for rows in kinds for row in rows if not row.is_wrong]
        return Attainable(len(close), sum(row.verdict == "ok" for row in close), could)

    def summary(self) -> dict[str, Any]:
        """In a few numbers: every method on each side and kind of systems, at both sizes."""
        return {
            f"{side}, {kind}": {
                f"{cell.rows} rows": {
                    method: {key: _rounded(value) for key, value in one._asdict().items()}
                    for method in board.methods
                    if (one := board.overall(method, cell)) is not None
                }
                for cell in (BASE, LARGE)
                if cell in board.cells
            }
            for side in self.sides
            for kind in self.on_side(side).kinds
            for board in [self.on_side(side, kind)]
        }

    def table(self) -> list[dict[str, Any]]:
        """A plain dict for every answer, scores included."""
        return [_plain(row, row.method in self.with_intervals) for row in self.rows]

    def to_frame(self) -> Any:
        """The same as a pandas frame."""
        import pandas

        return pandas.DataFrame(self.table())

    def __str__(self) -> str:
        return _text(self)


def _plain(row: Row, has_intervals: bool) -> dict[str, Any]:
    own = {field.name: getattr(row, field.name) for field in fields(row) if field.name != "cell"}
    cell = {field.name: getattr(row.cell, field.name) for field in fields(row.cell)}
    names: tuple[str, ...] = ("error", "in_standard_errors", "half_width", "interval_score")
    scores = {} if row.fault else {name: getattr(row, name) for name in names}
    return {**own, **cell, **scores, "covers": row.covers if has_intervals and not row.fault else None}


def _written(entries: dict[str, str]) -> Row:
    """A row from a line of `answers.csv`."""
    cell = Cell(**{field.name: _value(field.type, entries[field.name]) for field in fields(Cell)})
    own = {field.name: _value(field.type, entries[field.name]) for field in fields(Row) if field.name != "cell"}
    return Row(cell=cell, **own)


def _value(kind: Any, entry: str) -> Any:
    if kind is bool:
        return entry == "True"
    return math.nan if kind is float and not entry else kind(entry)


def _bounds(hits: int, logs: int) -> tuple[float, float]:
    """Clopper and Pearson's, at 95 %."""
    low = 0.0 if hits == 0 else float(beta.ppf(0.025, hits, logs - hits + 1))
    high = 1.0 if hits == logs else float(beta.ppf(0.975, hits + 1, logs - hits))
    return low, high


def _over(values: Iterable[float], mean: Callable[[list[float]], float]) -> float:
    """The mean of the values that are not nan; what is infinite counts."""
    found = [value for value in values if not math.isnan(value)]
    return mean(found) if found else math.nan


def _mean(values: Iterable[float]) -> float:
    return _over(values, lambda found: float(np.mean(found)))


def _rms(values: Iterable[float]) -> float:
    return _over(values, lambda found: float(np.sqrt(np.mean(np.square(found)))))


def _geometric(values: Iterable[float]) -> float:
    return _over(values, lambda found: float(np.exp(np.mean(np.log(np.maximum(found, 1e-12))))))


def _rounded(value: float) -> float | None:
    return None if not math.isfinite(value) else float(f"{value:.4g}")


def judgements(board: Scoreboard) -> list[tuple[Any, ...]]:
    """Method, verdict and the fields of `Judged`, for every verdict that was said."""
    return [
        (method, verdict, *one)
        for method in board.methods
        for verdict in JUDGED
        if (one := board.judged(method, verdict)) is not None
    ]


def faulty_rows(board: Scoreboard, method: str, system: str) -> list[Row]:
    """The answers of a method about a system without a right one."""
    return [row for rows in board.verdicts(method, faulty=True).values() for row in rows if row.system == system]


def _text(board: Scoreboard, width: int = 120) -> str:
    """All tables."""
    from rich.console import Console

    console = Console(file=StringIO(), width=width)
    for table in tables(board):
        console.print(table)
        console.print()
    written: str = console.file.getvalue()  # type: ignore[attr-defined] # it is a StringIO
    return written.rstrip()


def tables(board: Scoreboard) -> Iterable["Table"]:
    """For the terminal: overall at both sizes, what is varied, what verdicts are worth, and faulty systems; per side."""
    for side in board.sides:
        for kind in board.on_side(side).kinds:
            part = board.on_side(side, kind)
            name = f"{kind} {side} systems"
            for cell in (BASE, LARGE):
                if part.systems and cell in part.cells:
                    yield _overall_table(part, name, cell)
            varied = [cell for cell in part.cells if cell not in (BASE, LARGE)]
            if part.systems and varied:
                yield _varied_table(part, name, varied)
        if judgements(board.on_side(side)):
            yield _verdict_table(board.on_side(side), side)
        if board.on_side(side).faulty:
            yield _fault_table(board.on_side(side), side)


def _overall_table(board: Scoreboard, name: str, cell: Cell) -> "Table":
    table = study.plain_table(f"{len(board.systems)} {name}, {cell.rows:,} rows")
    names = ("method", "has", "error", "cover", "least", "half", "score", "rank", "regr.")
    for column in (*names, "ok", "false ok"):
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    table.caption, table.caption_justify = LEGEND, "left"
    for method in board.methods:
        one = board.overall(method, cell)
        if one is not None:
            shares = (_share(one.coverage), _share(one.least_coverage))
            false = "" if math.isnan(one.false_ok) else f"{one.false_ok:.0%} of {one.oks}"
            table.add_row(
                method,
                _share(one.answered),
                _number(one.error),
                *shares,
                _number(one.half_width),
                _number(one.interval_score),
                _number(one.correlation),
                _number(one.regret),
                _share(one.ok),
                false,
            )
    return table


def _varied_table(board: Scoreboard, name: str, cells: list[Cell]) -> "Table":
    first = board.methods[0]
    table = study.plain_table(f"{first} on {len(board.systems)} {name}, one thing varied at a time")
    for column in ("logs of", "rows", "error", "coverage", "half width", "ok", "false ok"):
        table.add_column(column, justify="left" if column == "logs of" else "right")
    for cell in (BASE, *cells):
        one = board.overall(first, cell)
        if one is not None:
            false = "" if math.isnan(one.false_ok) else f"{one.false_ok:.0%} of {one.oks}"
            table.add_row(
                cell.label,
                f"{cell.rows:,}",
                _number(one.error),
                _share(one.coverage),
                _number(one.half_width),
                _share(one.ok),
                false,
            )
    return table


def _verdict_table(board: Scoreboard, side: str) -> "Table":
    table = study.plain_table(f"{side} systems, all logs: what a verdict is worth")
    for name in ("method", "verdict", "answers", "err by more than 0.1 scales", "intervals that hold"):
        table.add_column(name, justify="left" if name in ("method", "verdict") else "right")
    for method, verdict, answers, wrong, low, high, held in judgements(board):
        share = f"{wrong} ({wrong / answers:.0%}; {low:.0%} to {high:.0%})"
        table.add_row(method, verdict, str(answers), share, f"{held} ({held / answers:.0%})")
    told = [(method, one) for method in board.methods if (one := board.attainable(method)) is not None]
    table.caption_justify = "left"
    table.caption = "\n".join(
        f"{method}: ok on {one.oks} of {one.close} answers that err by at most {WRONG:g} scales; a judge who knew how often "
        f"each kind of logs has them could say ok on {one.could:.0f} with one false ok in {1 / MOST_FALSE:.0f}."
        for method, one in told
    )
    return table


def _fault_table(board: Scoreboard, side: str) -> "Table":
    table = study.plain_table(f"{side} systems without a right answer: verdicts (ok is wrong)")
    for name in ("system", "method", "logs", *SHOWN_VERDICTS):
        table.add_column(name, justify="left" if name in ("system", "method") else "right")
    for system in board.faulty:
        for method in board.methods:
            rows = faulty_rows(board, method, system)
            if rows:
                shares = (
                    f"{sum(row.verdict == verdict for row in rows) / len(rows):.0%}" for verdict in SHOWN_VERDICTS
                )
                table.add_row(system, method, str(len(rows)), *shares)
    return table


def _share(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.0%}"


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"
