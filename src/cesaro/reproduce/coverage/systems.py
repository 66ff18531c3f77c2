"""The default on systems with numbers for states, whose rates are known: does its interval hold the limit, and the truth?

The systems are linear ones with Gaussian noise, and ones with finite actions.
"""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_discrete_lyapunov

from cesaro import policies
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
from cesaro.reproduce.coverage.config import CONFIDENCE, PROMISED_LIMIT, PROMISED_TRUTH, CoverageConfig

# The state's density in a system with finite actions is computed at so many places, up to so far out.
_PLACES, _FAR = 1_201, 6.0
# Steps until a start does not matter.
_WARM = 300
# Systems that the default was chosen on have names; those that it is judged on have numbers, from which they are drawn.
_FIRST_JUDGED = 9_001


# Observations, actions, rewards, next observations.
Columns: TypeAlias = tuple[Array, NDArray[Any], Array, Array]


class ContinuousSystem(Protocol):
    """Something that can be logged, and a target."""

    @property
    def name(self) -> str: ...

    @property
    def truth(self) -> float:
        """The target's rate."""
        ...

    @property
    def logged(self) -> float:
        """The behavior's rate."""
        ...

    @property
    def is_expressible(self) -> bool:
        """Whether polynomials of degree 2 hold the target's values."""
        ...

    @property
    def policy(self) -> Any:
        """The target, as `evaluate` takes it."""
        ...

    def logs(self, count: int, rows: int, rng: np.random.Generator) -> list[Columns]:
        """Logs of one trajectory each, from the stationary law of the behavior."""
        ...


@dataclass(frozen=True)
class LinearGaussian:
    """`x' = A x + b u + noise`, `u` normal around a linear function of `x`, under behavior and target alike.

    A reward is `−Σ x² − 0.1 u²`, or a bump or a wave of the first input; their means under normal laws are closed forms.

    Attributes:
        system: `A`, `[d, d]`.
        push: `b`, `[d]`.
        gains: of behavior and target, each `[d]`.
        reward: "square", "bump" or "wave".
        distractors: inputs that change by themselves and matter to nobody.
        noise: standard deviations of what disturbs states, and of actions.
    """

    name: str
    system: Array
    push: Array
    gains: tuple[Array, Array]
    reward: str = "square"
    distractors: int = 0
    noise: tuple[float, float] = (0.3, 0.5)

    @property
    def is_expressible(self) -> bool:
        return self.reward == "square"

    @cached_property
    def truth(self) -> float:
        return self._rate(self.gains[1])

    @cached_property
    def logged(self) -> float:
        return self._rate(self.gains[0])

    @property
    def policy(self) -> Any:
        return partial(_normal, self.gains[1], self.noise[1])

    def covariance(self, gains: Array) -> Array:
        """The covariance of the stationary law."""
        around = np.outer(self.push, self.push) * self.noise[1] ** 2 + self.noise[0] ** 2 * np.eye(len(self.push))
        return np.asarray(solve_discrete_lyapunov(self.system + np.outer(self.push, gains), around))

    def _rate(self, gains: Array) -> float:
        spread = self.covariance(gains)
        if self.reward == "square":
            return float(-np.trace(spread) - 0.1 * (gains @ spread @ gains + self.noise[1] ** 2))
        variance = float(spread[0, 0])
        if self.reward == "wave":
            return math.sin(1) * math.exp(-2 * variance)
        return math.sqrt(0.25 / (0.25 + variance)) * math.exp(-0.5 / (0.25 + variance))

    def _rewards(self, x: Array, u: Array) -> Array:
        if self.reward == "square":
            return np.asarray(-np.sum(x**2, axis=-1) - 0.1 * u**2)
        if self.reward == "wave":
            return np.sin(2 * x[..., 0] + 1)
        return np.exp(-2 * (x[..., 0] - 1) ** 2)

    def logs(self, count: int, rows: int, rng: np.random.Generator) -> list[Columns]:
        size, gains = len(self.push), self.gains[0]
        x, u = np.empty((rows + 1, count, size)), np.empty((rows + 1, count))
        x[0] = rng.multivariate_normal(np.zeros(size), self.covariance(gains), count)
        for t in range(rows + 1):
            u[t] = x[t] @ gains + self.noise[1] * rng.normal(size=count)
            if t < rows:
                x[t + 1] = (
                    x[t] @ self.system.T + np.outer(u[t], self.push) + self.noise[0] * rng.normal(size=x[t].shape)
                )
        rewards = self._rewards(x, u)
        seen = np.concatenate([x, _wandering(rows + 1, count, self.distractors, rng)], axis=2)
        return [_transitions(seen[:, k], u[:-1, k], rewards[:-1, k]) for k in range(count)]


@dataclass(frozen=True)
class FiniteActions:
    """`x' = 0.9 x + push (a − 1) + noise` with three actions, of which both policies prefer those that lead to a place.

    Attributes:
        center: where the reward `exp(−2 (x − center)²) − 0.1 |a − 1|` is highest.
        slopes: how sharply behavior and target choose.
        places: around which they do.
    """

    name: str
    center: float = 1.0
    push: float = 0.4
    slopes: tuple[float, float] = (0.5, 3.0)
    places: tuple[float, float] = (0.0, 0.7)
    distractors: int = 3

    is_expressible = False

    @cached_property
    def truth(self) -> float:
        return self._rate(1)

    @cached_property
    def logged(self) -> float:
        return self._rate(0)

    @property
    def policy(self) -> Any:
        return policies.Finite([0, 1, 2], lambda seen: self.chances(np.asarray(seen)[:, 0], 1))

    def chances(self, x: Array, which: int) -> Array:
        """Probabilities of the actions, `[n, 3]`, under the behavior (0) or the target (1)."""
        towards = self.slopes[which] * (x - self.places[which])
        weights = np.exp(np.stack([towards, np.full_like(x, 0.3 * which), -towards], axis=1).clip(-50, 50))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def _rate(self, which: int) -> float:
        """The rate by the stationary density on a grid."""
        x = np.linspace(-_FAR, _FAR, _PLACES)
        means = 0.9 * x[:, None] + self.push * (np.arange(3) - 1)
        chain = np.exp(-((x[None, None] - means[:, :, None]) ** 2) / (2 * 0.2**2))
        chain /= chain.sum(axis=2, keepdims=True)
        acting = self.chances(x, which)
        moves = np.einsum("xa,xay->xy", acting, chain)
        law = np.linalg.solve(np.eye(_PLACES) - moves.T + 1.0, np.ones(_PLACES))  # law = law moves, and its sum is one
        return float(np.sum(law[:, None] * acting * self._rewards(x[:, None], np.arange(3)[None])))

    def _rewards(self, x: Array, action: NDArray[Any]) -> Array:
        return np.asarray(np.exp(-2 * (x - self.center) ** 2) - 0.1 * np.abs(action - 1))

    def logs(self, count: int, rows: int, rng: np.random.Generator) -> list[Columns]:
        x, action = np.zeros((_WARM + rows + 1, count)), np.zeros((_WARM + rows + 1, count), dtype=np.int64)
        for t in range(len(x)):
            chances = self.chances(x[t], 0)
            action[t] = (rng.random(count)[:, None] > np.cumsum(chances, axis=1)[:, :2]).sum(axis=1)
            if t + 1 < len(x):
                x[t + 1] = 0.9 * x[t] + self.push * (action[t] - 1) + 0.2 * rng.normal(size=count)
        x, action = x[_WARM:], action[_WARM:]
        seen = np.concatenate([x[:, :, None], _wandering(rows + 1, count, self.distractors, rng)], axis=2)
        return [
            _transitions(seen[:, k], action[:-1, k], self._rewards(x[:-1, k], action[:-1, k])) for k in range(count)
        ]


def _normal(gains: Array, noise: float, seen: Any, rng: np.random.Generator) -> Array:
    x = np.asarray(seen).reshape(len(seen), -1)[:, : len(gains)]
    return np.asarray(x @ gains + noise * rng.normal(size=len(x)))


def _wandering(rows: int, count: int, inputs: int, rng: np.random.Generator) -> Array:
    """Autoregressions of lag one, `[rows, count, inputs]`."""
    steps = rng.normal(size=(rows, count, inputs)) * math.sqrt(1 - 0.9**2)
    steps[0] /= math.sqrt(1 - 0.9**2)
    for t in range(1, rows):
        steps[t] += 0.9 * steps[t - 1]
    return steps


def _transitions(seen: Array, actions: NDArray[Any], rewards: Array) -> Columns:
    return seen[:-1], actions, rewards, seen[1:]


def seen_before() -> tuple[ContinuousSystem, ...]:
    """Systems on which the default was chosen."""
    one = np.array([[0.9]]), np.array([0.5]), (np.array([-0.8]), np.array([-0.3]))
    two = np.array([[0.9, 0.2], [0.0, 0.8]]), np.array([0.0, 0.5]), (np.array([-0.4, -0.6]), np.array([-0.2, -0.35]))
    return (
        LinearGaussian("one input", *one),
        LinearGaussian("two inputs", *two),
        LinearGaussian("four distractors", *one, distractors=4),
        LinearGaussian("bump", *one, reward="bump"),
        FiniteActions("three actions"),
    )


def judged() -> tuple[ContinuousSystem, ...]:
    """Systems that nothing was chosen on, drawn from their numbers."""
    kinds = [(1, "square", 0), (2, "square", 0), (3, "square", 0), (2, "square", 3), (2, "bump", 0), (2, "wave", 0)]
    linear = [_drawn(_FIRST_JUDGED + i, *kind) for i, kind in enumerate(kinds)]
    return (*linear, *(_drawn_finite(_FIRST_JUDGED + len(kinds) + i) for i in range(2)))


def _drawn(seed: int, size: int, reward: str, distractors: int) -> LinearGaussian:
    """Until both policies hold the system, and the target earns something else than the log."""
    rng = np.random.default_rng(seed)
    name = f"{size} input{'s' * (size > 1)}, {reward}{f', {distractors} distractors' if distractors else ''}"
    while True:
        system = rng.normal(size=(size, size)) / math.sqrt(size)
        system *= rng.uniform(0.7, 0.95) / np.abs(np.linalg.eigvals(system)).max()
        push = rng.normal(size=size)
        push *= 0.5 / np.linalg.norm(push)
        gains = rng.normal(size=(2, size)) * 0.4
        radii = [np.abs(np.linalg.eigvals(system + np.outer(push, k))).max() for k in gains]
        apart = np.linalg.norm(gains[1] - gains[0])
        found = LinearGaussian(name, system, push, (gains[0], gains[1]), reward, distractors)
        if max(radii) < 0.95 and 0.2 < apart < 0.6 and abs(found.truth - found.logged) > 0.1 * abs(found.logged):
            return found


def _drawn_finite(seed: int) -> FiniteActions:
    rng = np.random.default_rng(seed)
    center = float(rng.uniform(0.5, 1.5))
    return FiniteActions(
        f"three actions, {seed - _FIRST_JUDGED - 5}",
        center=center,
        push=float(rng.uniform(0.2, 0.5)),
        slopes=(float(rng.uniform(0.3, 0.8)), float(rng.uniform(1.5, 3.0))),
        places=(0.0, float(rng.uniform(0.4, 0.8)) * center),
        distractors=int(rng.integers(1, 5)),
    )


# The default on them.

# The default, what it was before (twice as many dual as primal cosines), and polynomials of degree 2.
METHODS = ("default", "doubled", "polynomial")
SYSTEMS: tuple[ContinuousSystem, ...] = (*seen_before(), *judged())
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


def jobs(config: CoverageConfig) -> dict[str, Callable[[], Arrays]]:
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


def _name(system: ContinuousSystem, rows: int, first: int) -> str:
    return f"default_{SYSTEMS.index(system)}_{rows}_{first}"


def _piece(config: CoverageConfig, number: int, rows: int, first: int, logs: int) -> Arrays:
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


def long_log(system: ContinuousSystem, rng: np.random.Generator) -> Transitions:
    """Many trajectories, one after the other, with ids."""
    parts = system.logs(LONG_TRAJECTORIES, LONG_ROWS // LONG_TRAJECTORIES, rng)
    columns = (np.concatenate(column) for column in zip(*parts))
    return Transitions(*columns, trajectory=np.repeat(np.arange(len(parts)), len(parts[0][0])))


def limit(fitted: DiffLSTD, long: Transitions, policy: Any) -> tuple[float, float]:
    """The rate that the same features give on a very long log, and its standard error."""
    dual = fitted.prepared_.dual
    found = DiffLSTD(fitted.prepared_.map, "same" if dual is None else dual, quiet=True).fit(long, policy)
    return found.reward_rate_, found.standard_error_


class SystemCell(NamedTuple):
    """The answers of a method on a system with logs of some size; shares are of all logs, and a refusal covers nothing.

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
class SystemsResult:
    """The arrays of all pieces of every system and size, one after the other."""

    config: CoverageConfig
    found: dict[tuple[str, int], Arrays]

    @staticmethod
    def of(config: CoverageConfig, pieces: Mapping[str, Arrays]) -> "SystemsResult":
        found = {}
        for rows, logs in zip(config.rows, config.rows_logs):
            for system in SYSTEMS:
                parts = [pieces[_name(system, rows, first)] for first in range(0, logs, _chunk(rows))]
                found[system.name, rows] = {
                    key: np.concatenate([part[key] for part in parts], axis=-1) for key in parts[0]
                }
        return SystemsResult(config, found)

    @cached_property
    def cells(self) -> tuple[SystemCell, ...]:
        return tuple(
            _cell(system, rows, self.found[system.name, rows], number)
            for rows in self.config.rows
            for system in SYSTEMS
            for number in range(len(METHODS))
        )

    def over(self, method: str, *, is_judged: bool, rows: int | None = None) -> list[SystemCell]:
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


def _cell(system: ContinuousSystem, rows: int, found: Arrays, number: int) -> SystemCell:
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

    return SystemCell(
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


def over(cells: list[SystemCell]) -> dict[str, float]:
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
