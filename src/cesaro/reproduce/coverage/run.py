"""The coverage study: logs of chains whose limits are known exactly, on each the intervals by several rules, and what they hold.

`systems` does the same for the default on systems with numbers for states.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cesaro import exact
from cesaro.checks import Array
from cesaro.closed_forms.growth import NOISE
from cesaro.closed_forms.tabular import NotIdentified
from cesaro.data import FeatureTransitions
from cesaro.estimators import DiffLSTD, Estimate
from cesaro.features import COMPONENTS
from cesaro.files import Arrays
from cesaro.linear import LinearProblem
from cesaro.mdp import TabularMDP
from cesaro.passes.standard_errors import COSINES, ENOUGH_CLUSTERS, independent, project
from cesaro.reproduce.coverage import systems
from cesaro.reproduce.coverage.config import CONFIDENCE, PROMISED, CoverageConfig
from cesaro.reproduce.coverage.systems import SystemsResult
from cesaro.reproduce.study import Jobs, Study

CHAINS = ("fast", "sticky")
FEATURES = ("one-hot", "misfit", "ridge")
# The rate of a target, the difference of two targets, and the difference of a target and the log.
QUANTITIES = ("rate", "difference", "gain")
# What intervals are for: (features, quantity); what the log earned has no features.
SERIES = (*((features, quantity) for features in FEATURES for quantity in QUANTITIES), ("none", "behavior"))
# States, and the probability of a jump to any of them.
LEVELS, JUMP = 8, 0.6
RULES = ("default", "batches", "independent")
# Independent rows must cover less than this on the sticky chain with misfit features, or the study proves nothing.
CONTRAST = 0.8
# Batch means: as many of equal length, with Student's t.
BATCHES = 20
# Logs in a piece.
CHUNK = 50


# The chains, and what is known of them exactly.


class Transition(NamedTuple):
    """Every `(s, a, s')` of positive probability in a log, `[N]` each."""

    pair: NDArray[np.intp]
    next_state: NDArray[np.intp]
    probability: Array


@dataclass(frozen=True)
class KnownChain:
    """A chain, its policies and features, and what the exact layer says of them.

    Attributes:
        behavior: the policy of the log, `[S, A]`.
        targets: the candidate and the alternative, `[S, A]` each.
        features: by name, `[S, A, K]`.
        ridges: by features.
        law: long-run share of pairs under the behavior, `[S, A]`.
        truths: what intervals must hold, by series.
        times: autocorrelation times of the influence series (long-run over plain variance), by series.
        deviations: `√T` times the standard error in the limit of long logs, by series.
        rates: the true rates of the targets; they differ from the truths where features do not fit.
    """

    name: str
    mdp: TabularMDP
    behavior: Array
    targets: tuple[Array, Array]
    features: dict[str, Array]
    ridges: dict[str, float]
    law: Array
    truths: dict[tuple[str, str], float]
    times: dict[tuple[str, str], float]
    deviations: dict[tuple[str, str], float]
    rates: tuple[float, float]

    @property
    def autocorrelation_time(self) -> float:
        """The longest of all series."""
        return max(self.times.values())


def known(name: str, stay: float, ridge: float) -> KnownChain:
    """A level from 0 to 7 that the action pushes up or down, unless it jumps to any; middle levels earn most.

    The behavior pushes up more the lower the level is; the targets push up below the middle, or almost everywhere. Misfit
    features are linear in the level for each action, while values are curved.

    Args:
        name: "fast" or "sticky".
        stay: probability that the sticky chain stays where it is for a step.
        ridge: of the features "ridge", which otherwise are the misfit ones.
    """
    level = np.arange(LEVELS) / (LEVELS - 1)
    chain = np.full((LEVELS, 2, LEVELS), JUMP / LEVELS)
    for action, step in enumerate((-1, 1)):
        chain[np.arange(LEVELS), action, np.clip(np.arange(LEVELS) + step, 0, LEVELS - 1)] += 1 - JUMP
    if name == "sticky":
        chain = (1 - stay) * chain + stay * np.eye(LEVELS)[:, None]
    mdp = TabularMDP(chain, 4 * (level * (1 - level))[:, None] - 0.5 * level[:, None] * np.array([0.0, 1.0]))
    behavior = _pushing(0.7 - 0.4 * level)
    targets = tuple(_pushing(np.where(np.arange(LEVELS) < below, 0.9, 0.2)) for below in (4, 6))
    both, up = np.ones(2), np.array([0.0, 1.0])
    linear = np.stack([np.outer(level, both), np.outer(np.ones(LEVELS), up), np.outer(level, up)], axis=2)
    one_hot = np.eye(2 * LEVELS).reshape(LEVELS, 2, 2 * LEVELS)
    ridges = dict.fromkeys(FEATURES, 0.0) | {"ridge": ridge}
    return _solved(
        name, mdp, behavior, (targets[0], targets[1]), {"one-hot": one_hot, "misfit": linear, "ridge": linear}, ridges
    )


def _pushing(probability: Array) -> Array:
    return np.stack([1 - probability, probability], axis=1)


def _solved(
    name: str,
    mdp: TabularMDP,
    behavior: Array,
    targets: tuple[Array, Array],
    features: dict[str, Array],
    ridges: dict[str, float],
) -> KnownChain:
    """Truths from the exact layer; autocorrelation times from the influence of every transition at its exact weight."""
    law = exact.stationary_distribution(mdp, behavior)
    chain = np.asarray(mdp.probabilities)
    state, action, next_state = np.nonzero(law[:, :, None] * chain)
    space = Transition(state * 2 + action, next_state, law[state, action] * chain[state, action, next_state])
    rewards = mdp.rewards[state, action]
    mean = float(space.probability @ rewards)
    truths, series = {("none", "behavior"): mean}, {("none", "behavior"): rewards - mean}
    for kind, table in features.items():
        limits, influences = [], []
        for target in targets:
            problem = LinearProblem(mdp, policy=target, sampling=law, features=table)
            limits.append(problem.limit("diff-gq1", ridge=ridges[kind]).reward_rate)
            transitions = FeatureTransitions(
                problem.X[space.pair], rewards, expected_features(target, table)[next_state], weights=space.probability
            )
            fitted = DiffLSTD(ridge=ridges[kind], standard_errors="independent", quiet=True).fit(transitions)
            influences.append(fitted.influence_ / (len(rewards) * space.probability))
        truths |= quantities(kind, limits[0], limits[1], mean)
        series |= quantities(kind, influences[0], influences[1], rewards - mean)
    pairs = np.einsum("sat,tb->satb", chain, behavior).reshape(law.size, law.size)
    variances = {key: _variances(values, space, pairs, behavior, law.ravel()) for key, values in series.items()}
    return KnownChain(
        name=name,
        mdp=mdp,
        behavior=behavior,
        targets=targets,
        features=features,
        ridges=ridges,
        law=law,
        truths=truths,
        times={key: long_run / plain for key, (plain, long_run) in variances.items()},
        deviations={key: math.sqrt(long_run) for key, (_, long_run) in variances.items()},
        rates=(exact.reward_rate(mdp, targets[0]), exact.reward_rate(mdp, targets[1])),
    )


def quantities(features: str, one: Any, other: Any, logged: Any) -> dict[tuple[str, str], Any]:
    """The series of some features, from those of the two targets and of the log."""
    return {(features, "rate"): one, (features, "difference"): one - other, (features, "gain"): one - logged}


def expected_features(target: Array, features: Array) -> Array:
    """`x̄(s)`, `[S, K]`."""
    return np.asarray(np.einsum("sa,sak->sk", target, features))


def _variances(values: Array, space: Transition, chain: Array, behavior: Array, law: Array) -> tuple[float, float]:
    """The variance of a function of the transition, and its long-run variance `Var + 2 Σ Cov`, by the fundamental matrix."""
    plain = float(space.probability @ values**2)
    expected = np.bincount(space.pair, weights=space.probability * values, minlength=len(law)) / law
    later = np.linalg.solve(np.eye(len(law)) - chain + law, expected).reshape(behavior.shape)
    following = np.einsum("sa,sa->s", behavior, later)[space.next_state]
    return plain, plain + 2 * float(space.probability @ (values * following))


def simulate(problem: KnownChain, count: int, steps: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """`count` trajectories of pairs under the behavior, from its stationary law, `[count, steps + 1]`."""
    chain = np.asarray(problem.mdp.probabilities)
    cumulative = np.cumsum(np.einsum("sat,tb->satb", chain, problem.behavior).reshape(problem.law.size, -1), axis=1)
    start = np.cumsum(problem.law.ravel())
    uniform = rng.random((steps + 1, count))
    pairs = np.empty((steps + 1, count), dtype=np.intp)
    pairs[0] = np.searchsorted(start[:-1], uniform[0], side="right")
    for t in range(steps):
        pairs[t + 1] = (cumulative[pairs[t], :-1] <= uniform[t + 1, :, None]).sum(axis=1)
    return pairs.T


def rows(config: CoverageConfig, problem: KnownChain) -> tuple[int, ...]:
    """Rows of a log for each length: rounded up, so that trajectories and batches are equal."""
    unit = math.lcm(BATCHES, *config.trajectories)
    return tuple(math.ceil(length * problem.autocorrelation_time / unit) * unit for length in config.lengths)


# What intervals hold.


class CoverageCell(NamedTuple):
    """The coverage of one series in logs of one kind.

    Attributes:
        rows: of a log.
        answered: share of logs with an estimate; the rest was refused, as the log did not identify the rate.
        coverage: share of all logs whose interval holds the truth, by rule.
        half_width: mean of the intervals' half widths, by rule.
        bias: mean error of the estimates.
        deviation: standard deviation of the estimates.
    """

    chain: str
    trajectories: int
    length: int
    rows: int
    features: str
    quantity: str
    answered: float
    coverage: dict[str, float]
    half_width: dict[str, float]
    bias: float
    deviation: float


@dataclass(frozen=True)
class CoverageResult:
    """Estimates and half widths of every log.

    Attributes:
        problems: the chains, by name.
        estimates: by (chain, trajectories), `[lengths, series, logs]`; nan where refused.
        half_widths: the same by rule, `[lengths, series, rules, logs]`.
        systems: the default on systems with numbers for states.
    """

    config: CoverageConfig
    problems: dict[str, KnownChain]
    estimates: dict[tuple[str, int], Array]
    half_widths: dict[tuple[str, int], Array]
    systems: SystemsResult

    @cached_property
    def cells(self) -> tuple[CoverageCell, ...]:
        """Every cell, shortest logs first."""
        found = []
        for i, length in enumerate(self.config.lengths):
            for (chain, trajectories), estimates in self.estimates.items():
                problem = self.problems[chain]
                for j, key in enumerate(SERIES):
                    errors, halves = estimates[i, j] - problem.truths[key], self.half_widths[chain, trajectories][i, j]
                    answered = np.isfinite(errors)
                    covered = np.abs(errors) <= halves  # nan is not
                    some = bool(answered.any())
                    found.append(
                        CoverageCell(
                            chain,
                            trajectories,
                            length,
                            rows(self.config, problem)[i],
                            *key,
                            answered=float(answered.mean()),
                            coverage={rule: float(covered[k].mean()) for k, rule in enumerate(RULES)},
                            half_width={
                                rule: float(halves[k, answered].mean()) if some else math.nan
                                for k, rule in enumerate(RULES)
                            },
                            bias=float(errors[answered].mean()) if some else math.nan,
                            deviation=float(errors[answered].std()) if some else math.nan,
                        )
                    )
        return tuple(found)

    def cells_at(self, length: int) -> tuple[CoverageCell, ...]:
        return tuple(cell for cell in self.cells if cell.length == length)

    @property
    def promised(self) -> tuple[CoverageCell, ...]:
        """The cells of the longest logs."""
        return self.cells_at(self.config.lengths[-1])

    @property
    def outside(self) -> tuple[CoverageCell, ...]:
        """Cells of the longest logs whose default intervals cover too little or too much."""
        low, high = PROMISED
        return tuple(cell for cell in self.promised if not low <= cell.coverage["default"] <= high)

    @property
    def contrast(self) -> tuple[CoverageCell, ...]:
        """Single rates and differences of targets with misfit features on the sticky chain, longest logs."""
        return tuple(
            cell
            for cell in self.promised
            if (cell.chain, cell.features) == ("sticky", "misfit") and cell.quantity in ("rate", "difference")
        )

    @property
    def is_telling(self) -> bool:
        """Whether the study could have failed: independent rows cover too little where they should."""
        return all(cell.coverage["independent"] < CONTRAST for cell in self.contrast)

    def summary(self) -> dict[str, Any]:
        """The findings in JSON values."""

        def span(cells: tuple[CoverageCell, ...], rule: str) -> list[float]:
            shares = [cell.coverage[rule] for cell in cells]
            return [round(min(shares), 4), round(max(shares), 4)]

        return {
            "autocorrelation_times": {
                name: round(problem.autocorrelation_time, 4) for name, problem in self.problems.items()
            },
            "rows": {name: list(rows(self.config, problem)) for name, problem in self.problems.items()},
            "cells": len(self.promised),
            "cells_outside": len(self.outside),
            "coverage": {str(length): span(self.cells_at(length), "default") for length in self.config.lengths},
            "coverage_batches": {str(length): span(self.cells_at(length), "batches") for length in self.config.lengths},
            "coverage_independent_contrast": span(self.contrast, "independent"),
            "is_telling": self.is_telling,
            "answered": round(min(cell.answered for cell in self.cells), 4),
            "systems": self.systems.summary(),
        }


# The work.


class CoverageStudy(Study[CoverageConfig, CoverageResult]):
    """Some logs of a chain with as many trajectories, or of a system with as many rows, are a piece."""

    @cached_property
    def problems(self) -> dict[str, KnownChain]:
        """The chains by name."""
        return {name: known(name, self.config.stay, self.config.ridge) for name in CHAINS}

    def depends_on(self) -> dict[str, Any]:
        """Numbers of the default rule."""
        return {"cosines": COSINES, "enough_clusters": ENOUGH_CLUSTERS, "noise": NOISE, "components": COMPONENTS}

    def jobs(self) -> Jobs:
        chains = {
            _name(chain, trajectories, first): partial(_piece, self.config, problem, trajectories, first)
            for first in range(0, self.config.logs, CHUNK)
            for chain, problem in self.problems.items()
            for trajectories in self.config.trajectories
        }
        return {**chains, **systems.jobs(self.config)}

    def result(self, pieces: Mapping[str, Arrays]) -> CoverageResult:
        config = self.config
        parts: dict[str, dict[tuple[str, int], Array]] = {"estimates": {}, "half_widths": {}}
        for chain in self.problems:
            for trajectories in config.trajectories:
                for what, by_kind in parts.items():
                    chunks = [pieces[_name(chain, trajectories, k)][what] for k in range(0, config.logs, CHUNK)]
                    by_kind[chain, trajectories] = np.concatenate(chunks, axis=-1)
        on_systems = SystemsResult.of(config, pieces)
        return CoverageResult(config, self.problems, parts["estimates"], parts["half_widths"], on_systems)


STUDY = CoverageStudy


def _name(chain: str, trajectories: int, first: int) -> str:
    return f"{chain}_{trajectories}_{first}"


def _piece(config: CoverageConfig, problem: KnownChain, trajectories: int, first: int) -> Arrays:
    """The logs from number `first` on, at most `CHUNK`; a log is the same however many there are."""
    rng = np.random.default_rng([config.seed, CHAINS.index(problem.name), trajectories, first])
    lengths, logs = rows(config, problem), min(CHUNK, config.logs - first)
    pairs = simulate(problem, CHUNK * trajectories, lengths[-1] // trajectories, rng)
    estimates = np.full((len(lengths), len(SERIES), logs), math.nan)
    halves = np.full((len(lengths), len(SERIES), len(RULES), logs), math.nan)
    for log in range(logs):
        own = pairs[log * trajectories : (log + 1) * trajectories]
        for i, count in enumerate(lengths):
            for key, by_rule in intervals(problem, own[:, : count // trajectories + 1]).items():
                j = SERIES.index(key)
                estimates[i, j, log] = by_rule[0].value
                halves[i, j, :, log] = [found.standard_error * _quantile(found.degrees_of_freedom) for found in by_rule]
    return {"estimates": estimates, "half_widths": halves}


@cache
def _quantile(degrees_of_freedom: float) -> float:
    return Estimate(0.0, 1.0, degrees_of_freedom).interval(CONFIDENCE)[1]


def intervals(problem: KnownChain, pairs: NDArray[np.intp]) -> dict[tuple[str, str], tuple[Estimate, ...]]:
    """Estimates for all series on one log, by the rules in their order; a refused estimate is not there.

    Args:
        pairs: of each trajectory, the last one after the end of the log, `[trajectories, steps + 1]`.
    """
    pair, next_state = pairs[:, :-1].ravel(), pairs[:, 1:].ravel() // 2
    trajectory = np.repeat(np.arange(len(pairs)), pairs.shape[1] - 1)
    rewards = problem.mdp.rewards.ravel()[pair]
    found: dict[tuple[str, str], tuple[Estimate, ...]] = {}
    for kind, table in problem.features.items():
        try:
            one, other = (
                DiffLSTD(ridge=problem.ridges[kind], quiet=True).fit(
                    FeatureTransitions(
                        table.reshape(-1, table.shape[2])[pair],
                        rewards,
                        expected_features(target, table)[next_state],
                        trajectory=trajectory,
                    )
                )
                for target in problem.targets
            )
        except NotIdentified:
            continue
        values = quantities(kind, one.reward_rate_, other.reward_rate_, one.behavior_.value)
        series = quantities(kind, one.influence_, other.influence_, one.behavior_influence_)
        if not found:
            found["none", "behavior"] = _by_rule(one, one.behavior_.value, one.behavior_influence_)
        found |= {key: _by_rule(one, values[key], series[key]) for key in values}
    return found


def _by_rule(fitted: DiffLSTD, value: float, series: Array) -> tuple[Estimate, ...]:
    return (
        fitted.sampling_.over_time().estimate(value, series),
        batch_means(value, series),
        independent(value, project(fitted.sampling_.spans, 0, series)),
    )


def batch_means(value: float, series: Array) -> Estimate:
    """Means of equal batches as independent observations."""
    means = series.reshape(BATCHES, -1).mean(axis=1)
    return Estimate(value, float(means.std(ddof=1)) / math.sqrt(BATCHES), BATCHES - 1)
