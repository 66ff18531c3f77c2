"""The exact parts, which need no training: time constants on a slowly mixing walk, and limits of the two duals under noise."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import expm

from cesaro import exact
from cesaro.checks import Array
from cesaro.linear import EmpiricalProblem, LinearProblem, rate_force
from cesaro.mdp import TabularMDP
from research.stall.problem import Problem

# The rates are compared after this many time constants of Diff-SGQ.
WAIT = 5.0


class Walk(NamedTuple):
    """A walk on n states, one feature per pair; times are updates at step size 1, divided by the number of pairs.

    Attributes:
        gap: |1 − λ₂| of the target's chain.
        force: 1/E_d[ratio²], the curvature of the best objective in r̂.
        sgq_time, gq1_time: of the slowest direction.
        sgq_share, gq1_share: share of the way from the log's rate to the target's that r̂ has gone after `WAIT` time constants of
            Diff-SGQ, of the expected update started at r̂ = the log's rate, w = 0.
        gq1_limit: the same share in the limit.
    """

    states: int
    gap: float
    force: float
    sgq_time: float
    gq1_time: float
    sgq_share: float
    gq1_share: float
    gq1_limit: float


class Limits(NamedTuple):
    """Closed forms on one log with the right features (all products of inputs): rates in the limit.

    Attributes:
        right_dual: the dual has the same features.
        free_dual: the dual fits every row, the plain mean of δ².
        force: of the features (`rate_force`), with means of next features by the same dual.
    """

    noise: float
    truth: float
    behavior: float
    right_dual: float
    free_dual: float
    force: float


def walk_problem(states: int) -> LinearProblem:
    """Steps left or right on a path; the upper half earns 1. The log steps evenly, the target to the right by 0.75/n more often.

    The drift is scaled so that both laws keep their shape, and with it their overlap, as n grows.
    """
    probabilities = np.zeros((states, 2, states))
    index = np.arange(states)
    probabilities[index, 0, np.maximum(index - 1, 0)] = 1.0
    probabilities[index, 1, np.minimum(index + 1, states - 1)] = 1.0
    rewards = np.repeat((index >= states // 2).astype(float)[:, None], 2, axis=1)
    right = 0.5 + 0.75 / states
    mdp = TabularMDP(probabilities, rewards)
    return LinearProblem(
        mdp,
        policy=np.tile([1 - right, right], (states, 1)),
        sampling=exact.stationary_distribution(mdp, np.full((states, 2), 0.5)),
        features=np.eye(2 * states).reshape(states, 2, 2 * states),
    )


def walk(states: int) -> Walk:
    """Everything about one walk, exactly."""
    problem = walk_problem(states)
    pairs, truth, logged = len(problem.d), problem.exact.reward_rate, problem.mean_reward
    chain = problem.apply_chain(np.eye(pairs))
    gap = float(np.sort(np.abs(1 - np.linalg.eigvals(chain)))[1])
    law = exact.stationary_distribution(problem.mdp, problem.policy).reshape(-1)
    times = {method: problem.stability(method).time_constant(1.0) for method in ("diff-sgq", "diff-gq1")}
    wait = WAIT * times["diff-sgq"]
    shares = {method: (_rate_after(problem, method, logged, wait) - logged) / (truth - logged) for method in times}
    limit = (problem.limit("diff-gq1").reward_rate - logged) / (truth - logged)
    return Walk(
        states,
        gap,
        1 / float((law**2 / problem.d).sum()),
        times["diff-sgq"] / pairs,
        times["diff-gq1"] / pairs,
        shares["diff-sgq"],
        shares["diff-gq1"],
        limit,
    )


def exponents(walks: list[Walk]) -> tuple[float, float]:
    """Slopes of log time against log gap, Diff-SGQ and Diff-GQ1."""
    gaps = np.log([found.gap for found in walks])
    slopes = [
        np.polyfit(gaps, np.log(times), 1)[0]
        for times in ([found.sgq_time for found in walks], [found.gq1_time for found in walks])
    ]
    return float(slopes[0]), float(slopes[1])


def limits(problem: Problem, rows: int, seed: int) -> Limits:
    """Where Diff-GQ1 ends with the right dual and with one that fits every row."""
    log = problem.log(rows, seed)
    x, x_next = products(log.x), products(log.x_next)
    right = EmpiricalProblem(x, log.rewards, x_next).limit("diff-gq1").reward_rate
    free = np.linalg.lstsq(np.column_stack([np.ones(rows), x - x_next]), log.rewards, rcond=1e-10)[0][0]
    force = rate_force(x, x_next, dual=x)
    return Limits(problem.noise, problem.rate, problem.behavior_rate, right, float(free), force)


def products(x: Array) -> Array:
    """All products of two inputs, `[N, K (K + 1) / 2]`."""
    first, second = np.triu_indices(x.shape[1])
    return np.asarray(x[:, first] * x[:, second])


def _rate_after(problem: LinearProblem, method: str, start: float, time: float) -> float:
    """r̂ of the expected update in continuous time, κ' = G κ + h, from r̂ = start and 0 elsewhere."""
    mean = problem.stability(method).mean
    size = mean.layout.size
    affine = np.zeros((size + 1, size + 1))
    affine[:size, :size], affine[:size, size] = mean.G, mean.h
    state = np.zeros(size + 1)
    state[mean.layout.rate], state[size] = start, 1.0
    return float((expm(time * affine) @ state)[mean.layout.rate])
