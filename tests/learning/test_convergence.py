"""Sampled runs end where `LinearProblem` says, and diverge where it says so."""

from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import cesaro as cs
from cesaro.algorithms import REGISTRY, Objective
from cesaro.approximators import Approximator, Function, linear

Array = NDArray[np.float64]

METHODS = tuple(REGISTRY)
# α_k = 20/(k + 600): from 1/30 on, which every chosen problem bears, and 20·|Re λ| ≥ 2 for the slowest direction.
STEP, OFFSET = 20.0, 600.0
BUDGET, SEEDS, PROBLEMS = 60_000, 16, 6
# Two-sided probability of one comparison to fail by chance.
ERROR_RATE = 1e-6
BOUND = float(stats.t.isf(ERROR_RATE / 2, SEEDS - 1))
# What float32 may add over tens of thousands of steps, relative to 1 + |limit|.
ROUNDING = 2e-5


def ridges(method: str) -> tuple[float, float]:
    return (0.5, 1.0) if method == "diff-gq3" else (0.0, 0.5)


def is_suitable(problem: cs.LinearProblem, method: str, ridge: float) -> bool:
    """Whether 60,000 samples suffice, judged from the mean dynamics alone."""
    result = problem.stability(method, ridge=ridge)
    if not result.converges or not all(result.determined.values()):
        return False
    assert result.max_step_sampled is not None
    return float(np.abs(result.eigenvalues.real).min()) >= 0.1 and result.max_step_sampled >= 0.05


@cache
def suitable_problems(method: str) -> list[cs.LinearProblem]:
    """The first six random problems (S = 7, A = 3, K = 3) that are suitable at both ridges."""
    found: list[cs.LinearProblem] = []
    for seed in range(200):
        problem = cs.problems.random_problem(seed)
        if all(is_suitable(problem, method, ridge) for ridge in ridges(method)):
            found.append(problem)
        if len(found) == PROBLEMS:
            return found
    raise AssertionError(f"only {len(found)} of 200 random problems suit {method}")


class Bias(NamedTuple):
    """How far the *expected* iterate still is from the limit: over the second half on average, and at the end."""

    averaged: Array
    final: Array


def exact_bias(problem: cs.LinearProblem, method: str, ridge: float, steps: int) -> Bias:
    """From `E κ_{k+1} − κ* = (I + α_k G)(E κ_k − κ*)`, started at zero: a product per eigenvalue."""
    mean = problem.stability(method, ridge=ridge).mean
    eigenvalues, vectors = np.linalg.eig(mean.G)
    start = np.linalg.solve(vectors, np.linalg.solve(mean.G, mean.h))
    factors = np.cumprod(1 + (STEP / (np.arange(steps) + OFFSET))[:, None] * eigenvalues, axis=0)
    return Bias(*((vectors @ (shrunk * start)).real for shrunk in (factors[steps // 2 :].mean(axis=0), factors[-1])))


def assert_mean(runs: Array, expected: Array | float, allowance: Array | float, what: str) -> None:
    """The mean over seeds (first axis) lies within `BOUND` standard errors plus the allowance of `expected`."""
    distance = np.abs(runs.mean(axis=0) - expected)
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    limit = BOUND * error + allowance + ROUNDING * (1 + np.abs(expected))
    assert (distance <= limit).all(), f"{what}: {distance} from {expected} with standard error {error}"


@pytest.mark.parametrize("method", METHODS)
def test_every_method_converges_to_its_limit(method: str) -> None:
    """On six random problems with two ridges each, from sixteen seeds.

    Compared are the rate averaged over the second half, the last weights, and the difference that the ridge makes (same
    samples, so that it shows up an order of magnitude more sharply): 54 two-sided t-tests per method at 1e-6 each, error
    rate below 4e-4 for all six. The bias of the expected iterate is known exactly and allowed for; it is at most 1e-4.
    """
    settings = cs.grid(step_size=STEP, offset=OFFSET, power=1.0, ridge=ridges(method))
    steps = BUDGET // (2 if method == "diff-gq2" else 1)
    sharpness = []
    for number, problem in enumerate(suitable_problems(method)):
        result = cs.sweep(
            method,
            problem,
            settings=settings,
            seeds=range(number * SEEDS, (number + 1) * SEEDS),
            budget=BUDGET,
            record_every=BUDGET // 2,
            window=BUDGET // 2,
            schedule="robbins-monro",
            record=("weights",),
        )
        assert (result.diverged_at == -1).all()
        limits = []
        for i, ridge in enumerate(ridges(method)):
            limit = problem.limit(method, ridge=ridge)
            layout = problem.stability(method, ridge=ridge).mean.layout
            bias = exact_bias(problem, method, ridge, steps)
            assert abs(bias.averaged[layout.rate]) < 1e-4
            what = f"{method}, ridge {ridge}, problem {number}"
            rate_bias = float(abs(bias.averaged[layout.rate]))
            assert_mean(result.reward_rate[i, :, -1], limit.reward_rate, rate_bias, f"rate of {what}")
            weights = limit.ratio_weights if method == "gradient-dice" else limit.weights
            assert weights is not None
            weight_bias = np.abs(bias.final[layout.weights])
            assert_mean(result.records["weights"][i, :, -1], weights, weight_bias, f"weights of {what}")
            limits.append(limit.reward_rate)
        made = result.reward_rate[1, :, -1] - result.reward_rate[0, :, -1]
        assert_mean(made, limits[1] - limits[0], 2e-4, f"effect of the ridge on {method}, problem {number}")
        sharpness.append(abs(limits[1] - limits[0]) / (made.std(ddof=1) / np.sqrt(SEEDS)))
    assert np.median(sharpness) > 3 * BOUND, "a limit with the wrong ridge would be noticed"


@pytest.mark.slow
def test_diff_gq3_without_ridge_minimizes_its_objective() -> None:
    """MSPBE₃ goes to zero although the rate it ends at is not determined.

    What is left of it is noise in proportion to the step size: from 6,000 to 60,000 samples it falls by 60,600/6,600 = 9.2. The
    median over sixteen seeds has a standard deviation of about .4 in the logarithm of that ratio, so .17 for the mean over six
    problems; between 5 and 17 is 3.6 of them on either side (error rate below 4e-4). On every problem less than a tenth of
    the start is left (measured: 1.5 % at most).
    """
    ratios, spread = [], []
    for number, problem in enumerate(suitable_problems("diff-gq3")):
        nonzero = problem.stability("diff-gq3").eigenvalues
        assert np.abs(nonzero[np.abs(nonzero) > 1e-9].real).min() > 0.1
        with pytest.raises(cs.NoLimitError):
            problem.limit("diff-gq3")
        result = cs.sweep(
            "diff-gq3",
            problem,
            settings=cs.grid(step_size=STEP, offset=OFFSET, power=1.0),
            seeds=SEEDS,
            budget=BUDGET,
            record_every=BUDGET // 10,
            window=BUDGET // 10,
            schedule="robbins-monro",
            record=("weights", "last_reward_rate"),
        )
        rates, weights = result.records["last_reward_rate"][0], result.records["weights"][0]
        error = np.array([[problem.mspbe(3, rates[s, j], weights[s, j]) for j in (0, 9)] for s in range(SEEDS)])
        early, late = np.median(error, axis=0)
        start = problem.mspbe(3, 0.0, np.zeros(3))
        assert late < 0.1 * start, f"problem {number}: MSPBE₃ {late}, at the start {start}"
        ratios.append(early / late)
        spread.append(rates[:, -1].std())
    assert 5 < np.exp(np.mean(np.log(ratios))) < 17
    assert np.median(spread) > 0.02, "the rates themselves do not agree"


# Divergence.

UPDATES, BATCH = 5_000, 64


def skewed_problem(seed: int) -> cs.LinearProblem:
    """Nearly deterministic transitions, sampling from Dirichlet(.1) over pairs, two positive heavy-tailed features."""
    rng = np.random.default_rng([seed, 99])
    base = cs.problems.random_problem(seed, num_features=2, concentration=0.1)
    features = np.exp((1 + seed % 2) * rng.normal(size=(7, 3, 2)))
    sampling = 0.99 * rng.dirichlet(np.full(21, 0.1)).reshape(7, 3) + 0.01 / 21
    features /= np.sqrt(np.einsum("sa,sak->", sampling, features**2))
    return base.replace(features=features, sampling=sampling)


def noise(problem: cs.LinearProblem, method: str) -> float:
    """`E ‖G_k‖²` (Frobenius) of the sampled update, from MATHS.md's table."""
    space = problem.sample_space
    x = problem.X[space.pair]
    z = problem.X[space.next_pair] - x
    xx, zz = (x**2).sum(axis=1), (z**2).sum(axis=1)
    by_sample = (1 + xx) * (1 + zz) if method == "diff-sgq" else xx * (1 + zz + xx) + (1 + zz) + zz * xx
    return float(space.probability @ by_sample)


def clear_step(problem: cs.LinearProblem, method: str) -> tuple[bool, float] | None:
    """Whether the mean dynamics diverge, and a step at which 5,000 minibatches of 64 must show it; None if unclear.

    Unstable: the fastest mode grows by e²⁵, in steps so small that noise (`α E‖G_k‖²/64`) takes off a quarter of its rate at
    most and that `α|λ| ≤ ½` for every mode. Stable: half the largest step of single samples, and the slowest mode shrinks by e²⁰.
    """
    result = problem.stability(method)
    real = float(result.eigenvalues.real.max())
    if result.converges:
        assert result.max_step_sampled is not None
        step = result.max_step_sampled / 2
        return (False, step) if -real * step * UPDATES >= 20 else None
    if real <= 0:
        return None
    step = 25 / (real * UPDATES)
    radius = float(np.abs(result.eigenvalues).max())
    return (True, step) if step * noise(problem, method) / BATCH <= real / 4 and step * radius <= 0.5 else None


@pytest.mark.slow
@pytest.mark.parametrize("method", ["diff-sgq", "diff-gq4"])
def test_divergence_is_where_it_is_predicted(method: str) -> None:
    """The first six clearly unstable and the first ten clearly stable problems: all agree, for both seeds."""
    unstable: list[tuple[cs.LinearProblem, float]] = []
    stable: list[tuple[cs.LinearProblem, float]] = []
    for seed in range(400):
        problem = skewed_problem(seed)
        verdict = clear_step(problem, method)
        if verdict is not None:
            (unstable if verdict[0] else stable).append((problem, verdict[1]))
        if len(unstable) >= 6 and len(stable) >= 10:
            break
    unstable, stable = unstable[:6], stable[:10]
    assert (len(unstable), len(stable)) == (6, 10)
    for group in (unstable, stable):
        for problem, step in group:
            result = cs.sweep(
                method,
                problem,
                settings=cs.grid(step_size=step),
                seeds=2,
                budget=UPDATES * BATCH,
                record_every=UPDATES * BATCH // 10,
                window=UPDATES * BATCH // 10,
                batch_size=BATCH,
                record=("weights",),
            )
            diverged = result.diverged_at >= 0
            assert (diverged == (group is unstable)).all(), problem.stability(method).reason
            if group is unstable:
                # e¹⁴ (to a million) of e²⁵ at the fastest.
                assert (result.diverged_at > 0.3 * UPDATES * BATCH).all()
            else:
                limit = problem.limit(method).weights
                assert limit is not None
                distance = np.linalg.norm(result.records["weights"][0, :, -1] - limit, axis=-1)
                assert (distance < 2 * np.linalg.norm(limit)).all(), "it stays near the limit"


def test_the_counterexample() -> None:
    """Diff-SGQ diverges from (1, 1) although every reward is zero; Diff-GQ1 and Diff-GQ2 at α = 2⁻⁶ do not.

    The start is set through the approximator and, for the rate, through the objective.
    """

    def at_one(num_inputs: int, *, bias: bool) -> Function:
        base = linear(num_inputs, bias=bias)
        return base if bias else Function(lambda key: {"weights": jnp.ones(num_inputs)}, base.apply)

    def started(method: str) -> Objective:
        first: list[Approximator] = [at_one]  # the primal is built first; the dual starts at zero

        def approximator(num_inputs: int, *, bias: bool) -> Function:
            return (first.pop() if first else linear)(num_inputs, bias=bias)

        objective = REGISTRY[method](approximator, 1)

        def init(key: Any) -> Any:
            primal, dual = objective.init(key)
            return {**primal, "rate": jnp.ones(())}, dual

        return objective._replace(init=init)

    problem = cs.problems.two_state_counterexample()
    step = 2.0**-6
    budget = int(20 / step) * 2
    for method, diverges in (("diff-sgq", True), ("diff-gq1", False), ("diff-gq2", False)):
        result = cs.sweep(
            started(method),
            problem,
            settings=cs.grid(step_size=step),
            seeds=8,
            budget=budget,
            record_every=64,
            window=64,
        )
        assert ((result.diverged_at >= 0) == diverges).all()
        if not diverges:
            assert np.abs(result.reward_rate[:, :, -1]).max() < 0.5
