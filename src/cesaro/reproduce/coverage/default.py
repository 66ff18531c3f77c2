"""The default on systems with numbers for states: does its interval hold the limit, and the truth?"""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from cesaro.checks import Array
from cesaro.data import Transitions
from cesaro.diagnostics import widened, worst
from cesaro.diagnostics.equations import equations
from cesaro.diagnostics.maps import agreement
from cesaro.diagnostics.rows import over_rows
from cesaro.diagnostics.support import support
from cesaro.errors import InputError
from cesaro.estimators import DiffLSTD
from cesaro.features import AUTO_FEATURES, ROWS_PER_FEATURE
from cesaro.files import Arrays
from cesaro.reproduce.coverage.config import CONFIDENCE, PROMISED_LIMIT, PROMISED_TRUTH, Config
from cesaro.reproduce.coverage.systems import System, judged, seen_before

# The default, what it was before (twice as many dual as primal cosines), and polynomials of degree 2.
METHODS = ("default", "doubled", "polynomial")
SYSTEMS: tuple[System, ...] = (*seen_before(), *judged())
JUDGED = tuple(system.name for system in judged())
# Rows of a piece, which is a log at least.
PIECE_ROWS = 40_000
# Rows of the long log that tells a limit: as many trajectories at a time, of the steps that it takes.
LONG_ROWS, LONG_TRAJECTORIES = 400_000, 2_000
# Rows up to which the limit of doubled dual features is computed: it takes a minute where there are 1,600.
MOST_DOUBLED = 20_000
# An answer that is good enough to be ok: it covers, and its error is below this part of the gap between target and log.
CLOSE = 0.1
VERDICTS = ("ok", "caution", "bad", "refused")


def jobs(config: Config) -> dict[str, Callable[[], Arrays]]:
    """The longest logs first, since they take longest."""
    sizes = sorted(zip(config.rows, config.rows_logs), reverse=True)
    return {
        _name(system, rows, first): partial(_piece, config, number, rows, first, min(_chunk(rows), logs - first))
        for rows, logs in sizes
        for first in range(0, logs, _chunk(rows))
        for number, system in enumerate(SYSTEMS)
    }


def _chunk(rows: int) -> int:
    return max(1, min(10, PIECE_ROWS // rows))


def _name(system: System, rows: int, first: int) -> str:
    return f"default_{SYSTEMS.index(system)}_{rows}_{first}"


def _piece(config: Config, number: int, rows: int, first: int, logs: int) -> Arrays:
    """For each method and log, `[methods, logs]`: the estimate, its interval, that of the answer, the limit and its error."""
    system, limits_of = SYSTEMS[number], dict(zip(config.rows, config.limits))
    rng = np.random.default_rng([config.seed, 99, number, rows, first])
    piece = {
        name: np.full((len(METHODS), logs), math.nan)
        for name in ("estimate", "low", "high", "answer_low", "answer_high", "limit", "limit_error")
    }
    said = np.full(logs, VERDICTS.index("refused"))
    for log, columns in enumerate(system.logs(logs, rows, rng)):
        data = Transitions(*columns)
        long = long_log(system, rng) if first + log < limits_of.get(rows, 0) else None
        for method, name in enumerate(METHODS):
            try:
                fitted = fit(name, data, system.policy)
            except InputError:
                continue
            answer = fitted.estimate_
            if name == "default":
                verdict, answer = diagnosed(fitted)
                said[log] = VERDICTS.index(verdict)
            found = (answer.value, *fitted.interval(CONFIDENCE), *answer.interval(CONFIDENCE))
            limits = (math.nan, math.nan)
            if long is not None and (name == "default" or (name == "doubled" and rows <= MOST_DOUBLED)):
                limits = limit(fitted, long, system.policy)
            for key, value in zip(piece, (*found, *limits)):
                piece[key][method, log] = value
    return {**piece, "verdict": said}


def fit(method: str, data: Transitions, policy: Any) -> DiffLSTD:
    """One of the methods on one log."""
    settings: dict[str, Any] = {}
    if method == "polynomial":
        settings = {"features": "polynomial:2"}
    elif method == "doubled":
        actions = 3 if data.actions.is_discrete else 1
        size = max(1, min(AUTO_FEATURES, len(data) // ROWS_PER_FEATURE) // actions)
        settings = {"features": f"fourier:{size}", "dual_features": f"fourier:{2 * size}"}
    return DiffLSTD(**settings, quiet=True).fit(data, policy)


def diagnosed(fitted: DiffLSTD) -> tuple[str, Any]:
    """The verdict, and the estimate as an answer has it; without what concerns learned methods."""
    subject = fitted.subject_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entries = [entry for check in (equations, support, agreement, over_rows) for entry in check(subject)]
    return worst(entries), widened(fitted.estimate_, entries)


def long_log(system: System, rng: np.random.Generator) -> Transitions:
    """Many trajectories, one after the other, with ids."""
    parts = system.logs(LONG_TRAJECTORIES, LONG_ROWS // LONG_TRAJECTORIES, rng)
    columns = (np.concatenate(column) for column in zip(*parts))
    return Transitions(*columns, trajectory=np.repeat(np.arange(len(parts)), len(parts[0][0])))


def limit(fitted: DiffLSTD, long: Transitions, policy: Any) -> tuple[float, float]:
    """What the same features give on a very long log, and the standard error of that."""
    dual = fitted.prepared_.dual
    found = DiffLSTD(fitted.prepared_.map, "same" if dual is None else dual, quiet=True).fit(long, policy)
    return found.reward_rate_, found.standard_error_


class Cell(NamedTuple):
    """What a method gave on a system with logs of some size; shares are of all logs, and a refusal covers nothing.

    Attributes:
        bias, deviation: of the estimates, in gaps between target and log; towards the log is positive.
        covers_limit: share of logs with a known limit whose interval, as wide as noise makes it, holds the limit.
        covers: share of logs whose answer's interval holds the truth.
        half_width: mean of it, in gaps.
        score: mean interval score, in gaps.
        ok: share of logs with verdict ok; nan but for the default.
        ok_misses: share of logs with verdict ok whose interval does not hold the truth.
        close, ok_close: shares of logs whose answer covers and errs little, and of these with verdict ok.
    """

    system: str
    is_judged: bool
    is_expressible: bool
    rows: int
    logs: int
    method: str
    answered: float
    bias: float
    deviation: float
    covers_limit: float
    limits: int
    covers: float
    half_width: float
    score: float
    ok: float
    ok_misses: float
    close: float
    ok_close: float


@dataclass(frozen=True)
class Result:
    """Of every system and size, the arrays of its pieces one after the other."""

    config: Config
    found: dict[tuple[str, int], Arrays]

    @staticmethod
    def of(config: Config, pieces: Mapping[str, Arrays]) -> "Result":
        found = {}
        for rows, logs in zip(config.rows, config.rows_logs):
            for system in SYSTEMS:
                parts = [pieces[_name(system, rows, first)] for first in range(0, logs, _chunk(rows))]
                found[system.name, rows] = {
                    key: np.concatenate([part[key] for part in parts], axis=-1) for key in parts[0]
                }
        return Result(config, found)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(
            _cell(system, rows, self.found[system.name, rows], number)
            for rows in self.config.rows
            for system in SYSTEMS
            for number in range(len(METHODS))
        )

    def over(self, method: str, *, is_judged: bool, rows: int | None = None) -> list[Cell]:
        return [
            cell
            for cell in self.cells
            if (cell.method, cell.is_judged) == (method, is_judged) and rows in (None, cell.rows)
        ]

    def summary(self) -> dict[str, Any]:
        """For judged systems and for those seen before: coverage and scores, means over systems and sizes."""
        return {
            kind: {
                method: {
                    key: round(value, 4) if math.isfinite(value) else None
                    for key, value in over(self.over(method, is_judged=is_judged)).items()
                }
                for method in METHODS
            }
            for kind, is_judged in (("judged", True), ("seen_before", False))
        }

    @property
    def is_as_promised(self) -> bool:
        """On judged systems: coverage of limit and truth, and scores below the others'."""
        default, *others = (self.over(method, is_judged=True) for method in METHODS)
        expressible = [cell.covers for cell in default if cell.is_expressible]
        return (
            over(default)["covers_limit"] >= PROMISED_LIMIT
            and _mean(expressible) >= PROMISED_TRUTH
            and all(_mean([c.score for c in default]) < _mean([c.score for c in other]) for other in others)
        )


def _cell(system: System, rows: int, found: Arrays, number: int) -> Cell:
    gap, truth = abs(system.truth - system.logged), system.truth
    estimate, low, high, limits, error = (found[k][number] for k in ("estimate", "low", "high", "limit", "limit_error"))
    ends = found["answer_low"][number], found["answer_high"][number]
    answered, has_limit = np.isfinite(estimate), np.isfinite(limits)
    covers = (ends[0] <= truth) & (truth <= ends[1])
    outside = np.maximum(0, np.maximum(ends[0] - truth, truth - ends[1]))
    score = (ends[1] - ends[0] + 2 / (1 - CONFIDENCE) * outside) / gap
    half = (high - low) / 2  # the limit is known up to its own error
    near = np.abs(estimate - limits)[has_limit] <= np.hypot(half, 1.96 * error)[has_limit]
    leaning = (estimate - truth) / (system.logged - truth)
    ok = found["verdict"] == VERDICTS.index("ok")
    close = covers & (np.abs(estimate - truth) < CLOSE * gap)
    is_default = METHODS[number] == "default"

    def share(those: Array, among: Array | None = None) -> float:
        whole = np.ones(len(those), bool) if among is None else among
        return float(those[whole].mean()) if whole.any() else math.nan

    return Cell(
        system=system.name,
        is_judged=system.name in JUDGED,
        is_expressible=system.is_expressible,
        rows=rows,
        logs=len(estimate),
        method=METHODS[number],
        answered=share(answered),
        bias=share(leaning, answered),
        deviation=float(leaning[answered].std()) if answered.any() else math.nan,
        covers_limit=share(near),
        limits=int(has_limit.sum()),
        covers=share(covers),
        half_width=share((ends[1] - ends[0]) / 2 / gap, answered),
        score=share(score, answered),
        ok=share(ok) if is_default else math.nan,
        ok_misses=share(~covers, ok) if is_default else math.nan,
        close=share(close) if is_default else math.nan,
        ok_close=share(ok, close) if is_default else math.nan,
    )


def _mean(values: list[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return float(np.mean(known)) if known else math.nan


def over(cells: list[Cell]) -> dict[str, float]:
    """Means over systems and sizes; shares of verdicts are of all logs, and of limits of all logs whose limit is known."""
    ok, close = (sum(getattr(c, name) * c.logs for c in cells) for name in ("ok", "close"))
    misses = sum(c.ok_misses * c.ok * c.logs for c in cells if c.ok > 0)
    known, held = sum(c.limits for c in cells), sum(c.covers_limit * c.limits for c in cells if c.limits)
    ok_close = sum(c.ok_close * c.close * c.logs for c in cells if c.close > 0)
    return {
        "covers_limit": held / known if known else math.nan,
        "covers": _mean([c.covers for c in cells]),
        "covers_expressible": _mean([c.covers for c in cells if c.is_expressible]),
        "bias": _mean([c.bias for c in cells]),
        "half_width": _mean([c.half_width for c in cells]),
        "score": _mean([c.score for c in cells]),
        "ok": ok / sum(c.logs for c in cells),
        "ok_misses": misses / ok if ok > 0 else math.nan,
        "ok_of_close": ok_close / close if close > 0 else math.nan,
    }
