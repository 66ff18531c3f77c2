"""The chains of the coverage study: policies, features, and exactly what intervals must hold and how long series remember."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cesaro import exact
from cesaro.checks import Array
from cesaro.data import FeatureTransitions
from cesaro.estimators import DiffLSTD
from cesaro.linear import LinearProblem
from cesaro.mdp import TabularMDP

CHAINS = ("fast", "sticky")
FEATURES = ("one-hot", "misfit", "ridge")
# The rate of a target, the difference of two targets, and the difference of a target and the log.
QUANTITIES = ("rate", "difference", "gain")
# What intervals are for: (features, quantity); what the log earned has no features.
SERIES = (*((features, quantity) for features in FEATURES for quantity in QUANTITIES), ("none", "behavior"))
# States, and the probability of a jump to any of them.
LEVELS, JUMP = 8, 0.6


class Transition(NamedTuple):
    """Every `(s, a, s')` of positive probability in a log, `[N]` each."""

    pair: NDArray[np.intp]
    next_state: NDArray[np.intp]
    probability: Array


@dataclass(frozen=True)
class Known:
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


def known(name: str, stay: float, ridge: float) -> Known:
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
) -> Known:
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
            ready = FeatureTransitions(
                problem.X[space.pair], rewards, expected_features(target, table)[next_state], weights=space.probability
            )
            fitted = DiffLSTD(ridge=ridges[kind], standard_errors="independent", quiet=True).fit(ready)
            influences.append(fitted.influence_ / (len(rewards) * space.probability))
        truths |= quantities(kind, limits[0], limits[1], mean)
        series |= quantities(kind, influences[0], influences[1], rewards - mean)
    pairs = np.einsum("sat,tb->satb", chain, behavior).reshape(law.size, law.size)
    variances = {key: _variances(values, space, pairs, behavior, law.ravel()) for key, values in series.items()}
    return Known(
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


def simulate(problem: Known, count: int, steps: int, rng: np.random.Generator) -> NDArray[np.intp]:
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
