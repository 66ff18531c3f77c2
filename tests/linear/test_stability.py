"""Convergence, step limits and time constants against brute-force spectral radii and simulated recursions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from numpy.typing import NDArray

import cesaro as cs
from cesaro.linear import METHODS
from cesaro.linear.methods import FORMS

Array = NDArray[np.float64]
Enumerate = Callable[..., Any]

# Distinct panels of Figure 2.
PANELS = sorted({(p, round(m, 1)) for p in (0.1, 0.3, 0.5, 0.7, 0.9) for m in (p, 0.5, 1 - p)})


def radius(matrix: Array) -> float:
    return float(np.abs(np.linalg.eigvals(matrix)).max())


# The sampled update.


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("ridge", "lam", "ratio"), [(0.0, 1.0, 1.0), (0.2, 0.4, 3.0)])
def test_sampled_step_limit_is_where_the_second_moment_explodes(
    method: str, seed: int, ridge: float, lam: float, ratio: float, enumerate_update: Enumerate
) -> None:
    problem = cs.problems.random_problem(seed, 3, 2, 1 + seed % 2 if method == "diff-gq2" else 1 + seed % 3)
    result = problem.stability(method, ridge=ridge, lam=lam, rate_step_ratio=ratio)
    exact = enumerate_update(problem, method, result.mean.layout.names, ridge=ridge, lam=lam, ratio=ratio)
    step = result.max_step_sampled
    if step is None:  # then even a small step lets the second moment grow
        assert radius(exact.second_moment(0.05)) > 1 + 1e-10
        assert not result.converges or method == "diff-gq3"
        return
    assert result.converges
    assert result.max_step_expected is not None
    assert step <= result.max_step_expected * (1 + 1e-9)
    assert radius(exact.second_moment(step * (1 - 1e-4))) < 1
    assert radius(exact.second_moment(step * (1 + 1e-4))) > 1
    assert radius(exact.second_moment(step)) == pytest.approx(1, abs=1e-8)


def test_most_random_problems_have_a_sampled_step_limit() -> None:
    """The branch for None in the test above must not be the common one."""
    found = {
        method: sum(
            cs.problems.random_problem(seed, 3, 2, 1 + seed % 2).stability(method, ridge=0.2).max_step_sampled
            is not None
            for seed in range(5)
        )
        for method in METHODS
    }
    assert all(count >= 4 for count in found.values()), found


def test_diff_gq3_without_ridge_wanders() -> None:
    """`A3` is K×(K+1): some direction of `u` has no drift but is shaken by every sample, so no step is safe."""
    for seed in range(20):
        problem = cs.problems.random_problem(seed, 4, 2, 2)
        assert problem.stability("diff-gq3").max_step_sampled is None
        assert problem.stability("diff-gq3", ridge=0.1).max_step_sampled is not None


@pytest.mark.parametrize(("pi0", "mu0"), [(0.1, 0.9), (0.5, 0.5)])
@pytest.mark.parametrize("method", [m for m in METHODS if m != "diff-gq2"])
def test_sampled_step_limit_on_boyans_chain_bounds_the_rate(
    method: str, pi0: float, mu0: float, enumerate_update: Enumerate
) -> None:
    """Singular features: whatever the idle directions do, from zero and with rewards the second moment of the rate stays
    bounded 5 % below the limit and grows without bound 5 % above it."""
    problem = cs.problems.boyan_chain(pi0, mu0)
    result = problem.stability(method)
    names = result.mean.layout.names
    exact = enumerate_update(problem, method, names)
    step = result.max_step_sampled
    assert step is not None
    m = len(names)
    start = np.zeros((m + 1) ** 2)
    start[-1] = 1.0  # (κ, 1) = (0, 1)
    rate = result.mean.layout.rate * (m + 1) + result.mean.layout.rate

    def moments(factor: float) -> tuple[float, float]:
        power = np.linalg.matrix_power(exact.second_moment_with_noise(factor * step), 1_500)
        once = power @ start
        return float(once[rate]), float((power @ once)[rate])

    early, late = moments(0.95)
    assert late < 1.5 * early
    assert late < 1e4
    early, late = moments(1.05)
    assert late > 3 * early
    assert late > 1e3


def test_sampled_step_limit_of_diff_gq2_on_boyans_chain() -> None:
    """The same by simulation of the second-moment operator over pairs, in its bilinear form."""
    problem = cs.problems.boyan_chain(0.1, 0.9)
    step = problem.stability("diff-gq2").max_step_sampled
    assert step is not None
    pair, next_pair, p = problem.sample_space
    K = problem.num_features
    x, reward = problem.X[pair], problem.r[pair]
    z = problem.X[next_pair] - x
    first, second = (index.ravel() for index in np.meshgrid(np.arange(len(p)), np.arange(len(p)), indexing="ij"))
    weight = p[first] * p[second]
    gap = z[first] - z[second]
    m = 2 * K + 2  # ν, w, r̂, 1
    G = np.zeros((len(weight), m, m))
    G[:, :K, :K] = -x[first][:, :, None] * x[first][:, None]
    G[:, :K, K : 2 * K] = x[first][:, :, None] * gap[:, None]
    G[:, :K, -1] = x[first] * (reward[first] - reward[second])[:, None]
    G[:, K : 2 * K, :K] = -gap[:, :, None] * x[first][:, None]
    G[:, 2 * K, K : 2 * K] = 0.5 * (z[first] + z[second])
    G[:, 2 * K, 2 * K] = -1
    G[:, 2 * K, -1] = 0.5 * (reward[first] + reward[second])
    mean = np.tensordot(weight, G, 1)
    squares = np.einsum("kij,kab->iajb", weight[:, None, None] * G, G, optimize=True).reshape(m * m, m * m)
    eye = np.eye(m)
    start = np.zeros(m * m)
    start[-1] = 1.0
    for factor, bounded in ((0.95, True), (1.05, False)):
        a = factor * step
        operator = np.kron(eye, eye) + a * (np.kron(mean, eye) + np.kron(eye, mean)) + a * a * squares
        power = np.linalg.matrix_power(operator, 1_500)
        early, late = (float(v[2 * K * m + 2 * K]) for v in (power @ start, power @ (power @ start)))
        assert (late < 1.5 * early) if bounded else (late > 3 * early)


def test_quoted_step_limits_on_boyans_chain() -> None:
    """The ranges in MATHS.md run from panel (π0, μ0) = (.1, .9) to panel (.5, .5), η = 0, λ = 1."""
    quoted = {
        "diff-sgq": ((1.2, 0.69), (2.0, 0.69)),
        "diff-gq1": ((0.42, 0.30), (0.99, 0.32)),
        "gradient-dice": ((0.26, 0.18), (1.3, 0.32)),
    }
    for method, rows in quoted.items():
        for (pi0, mu0), (expected, sampled) in zip(((0.1, 0.9), (0.5, 0.5)), rows):
            result = cs.problems.boyan_chain(pi0, mu0).stability(method)
            assert result.max_step_expected is not None
            assert result.max_step_sampled is not None
            assert float(f"{result.max_step_expected:.2g}") == pytest.approx(expected, abs=1e-9)
            assert float(f"{result.max_step_sampled:.2g}") == pytest.approx(sampled, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_step_limits_hold_the_same_after_adding_useless_features(method: str) -> None:
    """A zero feature adds idle directions and nothing else."""
    problem = cs.problems.random_problem(3, 3, 2, 2)
    zero = problem.replace(features=np.concatenate([problem.features, np.zeros((3, 2, 1))], axis=2))
    plain, padded = (p.stability(method, lam=0.7) for p in (problem, zero))
    assert plain.max_step_expected == pytest.approx(padded.max_step_expected, rel=1e-9)
    if method == "diff-gq3":
        assert plain.max_step_sampled is None
        assert padded.max_step_sampled is None
    else:
        assert plain.max_step_sampled == pytest.approx(padded.max_step_sampled, rel=1e-7)
    assert plain.converges == padded.converges


# The expected update.


def still_part(G: Array) -> Array:
    """The projector on the null space of `G` along its range: what the flow of `G` never forgets."""
    right, left = scipy.linalg.null_space(G, rcond=1e-11), scipy.linalg.null_space(G.T, rcond=1e-11)
    return np.asarray(right @ np.linalg.solve(left.T @ right, left.T))


def direct_verdict(G: Array, h: Array) -> tuple[bool, float]:
    """Convergence from the definition, and the largest step, by eigenvalues of `G` itself with a plain cut-off."""
    values = np.linalg.eigvals(G)
    nonzero = values[np.abs(values) > 1e-9 * np.abs(values).max()]
    right, left = scipy.linalg.null_space(G, rcond=1e-11), scipy.linalg.null_space(G.T, rcond=1e-11)
    semisimple = not right.size or np.linalg.svd(left.T @ right, compute_uv=False).min() > 1e-6
    reachable = not left.size or np.abs(left.T @ h).max() < 1e-9 * (1 + np.abs(h).max())
    converges = bool((nonzero.real < 0).all() and semisimple and reachable)
    return converges, float(np.min(-2 * nonzero.real / np.abs(nonzero) ** 2))


@pytest.mark.parametrize("method", METHODS)
def test_convergence_and_expected_step_match_eigenvalues(method: str) -> None:
    verdicts = []
    for seed in range(40):
        problem = cs.problems.random_problem(seed, 4, 2, 1 + seed % 4, concentration=[1.0, 0.1][seed % 2])
        for ridge in (0.0, 0.3):
            result = problem.stability(method, ridge=ridge, lam=0.6)
            converges, step = direct_verdict(result.mean.G, result.mean.h)
            verdicts.append(converges)
            assert result.converges == converges, (seed, ridge, result.reason)
            if not converges:
                assert result.max_step_expected is None
                continue
            assert result.max_step_expected == pytest.approx(step, rel=1e-6)
            eye = np.eye(len(result.mean.h))
            # Directions with eigenvalue zero stay; everything else must shrink below the step and grow above it.
            assert radius(eye + step * (1 - 1e-6) * result.mean.G) <= 1 + 1e-9
            assert radius(eye + step * (1 + 1e-6) * result.mean.G) > 1
    assert sum(verdicts) >= 20
    if method == "diff-sgq":
        assert not all(verdicts)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("problem_name", ["boyan", "one-hot", "random"])
def test_eigenvalues_are_those_of_G(method: str, problem_name: str) -> None:
    problem = {
        "boyan": lambda: cs.problems.boyan_chain(0.3, 0.7),
        "one-hot": lambda: cs.problems.garnet(3, 2, 2, seed=1),
        "random": lambda: cs.problems.random_problem(4, 4, 2, 3),
    }[problem_name]()
    result = problem.stability(method, lam=0.8)
    found, expected = result.eigenvalues, np.linalg.eigvals(result.mean.G)
    assert found.shape == expected.shape
    assert (np.diff(found.real) <= 1e-12).all()
    # As polynomials: products over (t − λ) agree at several points, whatever the order.
    for t in (0.7, 1.3 + 0.4j, 2.9j):
        assert np.prod(t - found) == pytest.approx(np.prod(t - expected), rel=1e-6)
    zeros = result.mean.G.shape[0] - np.linalg.matrix_rank(result.mean.G, tol=1e-10)
    assert np.sum(found == 0) == zeros


def test_diff_sgq_diverges_on_the_counterexample_and_gradient_methods_do_not() -> None:
    problem = cs.problems.two_state_counterexample()
    result = problem.stability("diff-sgq")
    np.testing.assert_allclose(sorted(result.eigenvalues.real), [2, 3], atol=1e-12)
    assert not result.converges
    assert result.max_step_expected is None
    assert result.max_step_sampled is None
    assert result.time_constant(0.1) == np.inf
    assert "diverges" in result.reason
    assert "3" in result.reason
    for method in ("diff-gq1", "diff-gq2"):
        assert problem.stability(method).converges


def test_time_constant_is_the_slowest_rate() -> None:
    for seed in range(10):
        problem = cs.problems.random_problem(seed, 4, 2, 3)
        result = problem.stability("diff-gq1", ridge=0.05)
        slowest = np.min(np.abs(np.linalg.eigvals(result.mean.G).real))
        assert result.time_constant(0.01) == pytest.approx(1 / (0.01 * slowest), rel=1e-9)
        # And it is what it says: after that many small steps of the expected update, the slow direction has shrunk by e.
        alpha = 1e-3 * result.max_step_expected  # type: ignore[operator]
        shrunk = radius(np.eye(len(result.mean.h)) + alpha * result.mean.G) ** result.time_constant(alpha)
        assert shrunk == pytest.approx(np.exp(-1), rel=2e-2)
    for bad in (0, -1, np.nan, "fast"):
        with pytest.raises(cs.InputError, match="step_size must be"):
            result.time_constant(bad)  # type: ignore[arg-type]


def test_time_constant_ignores_directions_that_never_move() -> None:
    result = cs.problems.boyan_chain(0.3, 0.7).stability("diff-gq1")
    values = np.linalg.eigvals(result.mean.G)
    moving = values[np.abs(values) > 1e-9]
    assert len(moving) < len(values)
    assert result.time_constant(0.1) == pytest.approx(10 / np.abs(moving.real).min(), rel=1e-6)


def test_determined_components_do_not_depend_on_the_start() -> None:
    """Let the expected update forget what it can: exactly the determined components keep nothing of the start."""
    checked_false = 0
    for problem in (
        cs.problems.boyan_chain(0.3, 0.7),
        cs.problems.garnet(3, 2, 2, seed=1),
        cs.problems.random_problem(2, 3, 2, 2),
        cs.problems.random_problem(2, 2, 1, 5),
    ):
        for method in METHODS:
            result = problem.stability(method, lam=0.8)
            if not result.converges:
                continue
            assert set(result.determined) == set(result.mean.layout.names)
            agree = np.abs(still_part(result.mean.G)).max(axis=1) < 1e-7
            assert dict(zip(result.mean.layout.names, agree.tolist())) == result.determined
            checked_false += int(np.sum(~agree))
    assert checked_false > 10


# Diff-GQ4.


def unstable_diff_gq4() -> cs.LinearProblem:
    """Skewed sampling and heavy-tailed positive features, found by search: unstable without a ridge."""
    for seed in range(400):
        rng = np.random.default_rng(seed)
        base = cs.problems.random_problem(seed, 4, 2, 2, concentration=0.1)
        problem = base.replace(features=np.exp(2 * rng.normal(size=(4, 2, 2))))
        if not problem.stability("diff-gq4").converges:
            return problem
    raise AssertionError("no unstable problem among 400")


def test_diff_gq4_becomes_stable_as_the_ridge_grows() -> None:
    problem = unstable_diff_gq4()
    result = problem.stability("diff-gq4")
    assert np.linalg.eigvals(result.mean.G).real.max() > 0
    assert result.max_step_expected is None
    with pytest.raises(cs.NoLimitError):
        problem.limit("diff-gq4")
    verdicts = [problem.stability("diff-gq4", ridge=10.0**e).converges for e in range(-6, 7)]
    assert verdicts[-1]
    assert not verdicts[0]
    assert verdicts == sorted(verdicts), "stable from some ridge on"
    assert problem.limit("diff-gq4", ridge=1e6).weights is not None


# The least ridge.


def crossings(problem: cs.LinearProblem, method: str) -> list[float]:
    """Ridges at which `G − ηJ` has an eigenvalue on the imaginary axis: there `(G − ηJ) ⊕ (G − ηJ)` is singular, which is a
    generalized eigenvalue problem in `η`."""
    mean = problem.stability(method).mean
    size = mean.layout.size
    J, eye = np.zeros((size, size)), np.eye(size)
    J[mean.layout.weights, mean.layout.weights] = np.eye(problem.num_features)
    above, below = scipy.linalg.eig(
        np.kron(mean.G, eye) + np.kron(eye, mean.G),
        np.kron(J, eye) + np.kron(eye, J),
        right=False,
        homogeneous_eigvals=True,
    )
    finite = np.abs(below) > 1e-9 * np.abs(above).max()
    found = above[finite] / below[finite]
    found = found[np.abs(found.imag) < 1e-7 * (1 + np.abs(found))].real
    # Pairs of real eigenvalues of opposite sign make the sum singular too.
    return [
        float(ridge)
        for ridge in found
        if ridge > 1e-9 and np.abs(np.linalg.eigvals(mean.G - ridge * J).real).min() < 1e-7
    ]


@pytest.mark.parametrize("method", ["diff-sgq", "diff-gq4"])
def test_min_ridge_is_the_last_one_with_an_eigenvalue_on_the_imaginary_axis(method: str) -> None:
    positive = 0
    for seed in range(40):
        problem = cs.problems.random_problem(seed, 4, 2, 1 + seed % 3, concentration=0.1)
        if seed % 2:
            wild = np.exp(2 * np.random.default_rng(seed).normal(size=problem.features.shape))
            problem = problem.replace(features=wild)
        ridge = problem.stability(method, ridge=0.7).min_ridge
        assert ridge == pytest.approx(max(crossings(problem, method), default=0.0), rel=1e-5), seed
        assert ridge <= FORMS[method].safe_ridge(problem)
        if ridge > 0:
            positive += 1
            assert not problem.stability(method, ridge=0.999 * ridge).converges
        for factor in (1.001, 2.0, 100.0):
            assert problem.stability(method, ridge=factor * ridge + 1e-9).converges
    assert positive >= 8


def test_min_ridge_of_the_counterexample() -> None:
    """`A − ηI₀ = [[−1, 6], [−2, 6 − η]]`: the trace is `5 − η`, the determinant `6 + η`."""
    problem = cs.problems.two_state_counterexample()
    assert problem.stability("diff-sgq").min_ridge == pytest.approx(5, rel=1e-9)
    for method in ("diff-gq1", "diff-gq2", "diff-gq3", "gradient-dice"):
        assert problem.stability(method).min_ridge == 0


def test_min_ridge_is_zero_where_nothing_grows() -> None:
    assert cs.problems.random_problem(4, 4, 2, 3, on_policy=True).stability("diff-sgq").min_ridge == 0
    for method in METHODS:  # zero eigenvalues are no growth
        assert cs.problems.boyan_chain(0.1, 0.9).stability(method).min_ridge == 0
    zero = cs.problems.random_problem(1, 2, 2, 1).replace(features=np.zeros((2, 2, 1)))
    assert zero.stability("diff-gq4").min_ridge == 0


# Problems at the edge.


def test_stability_of_problems_at_the_edge() -> None:
    """One pair; a zero feature; a constant feature; more features than pairs: answers, and no exception."""
    one = cs.TabularMDP([[[1.0]]], [[2.0]])
    two = cs.problems.random_problem(1, 2, 2, 1)
    edge = [
        cs.LinearProblem(one, policy=[[1.0]], sampling=[[1.0]], features=[[[3.0]]]),
        two.replace(features=np.zeros((2, 2, 1))),
        two.replace(features=np.ones((2, 2, 1))),
        two.replace(features=np.random.default_rng(0).normal(size=(2, 2, 7))),
    ]
    for problem in edge:
        for method in METHODS:
            result = problem.stability(method, ridge=0.1, lam=0.5)
            converges, step = direct_verdict(result.mean.G, result.mean.h)
            assert result.converges == converges, (method, result.reason)
            if converges:
                assert result.max_step_expected == pytest.approx(step, rel=1e-6)
                assert result.max_step_sampled is not None
                assert result.max_step_sampled <= step * (1 + 1e-6)


def test_enumeration_that_would_not_fit_is_refused() -> None:
    problem = cs.problems.garnet(3_000, 2, 5, features=np.random.default_rng(0).normal(size=(3_000, 2, 500)))
    with pytest.raises(cs.InputError, match="sampled step limit enumerates"):
        _ = problem.stability("diff-sgq").max_step_sampled


@pytest.mark.parametrize("scale", [1e-9, 1e-6, 1e-3, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("method", METHODS)
def test_units_of_rewards_change_no_step_and_no_verdict(method: str, scale: float) -> None:
    """Rewards enter `h`, and for GradientDICE one row of `G` that nothing reads: rescaling `r̂` undoes their units."""
    for seed in (0, 1):
        problem = cs.problems.random_problem(seed, 4, 2, 2)
        scaled = problem.replace(mdp=cs.TabularMDP(problem.mdp.probabilities, scale * problem.mdp.rewards))
        before, after = (p.stability(method, ridge=0.1) for p in (problem, scaled))
        assert after.converges == before.converges
        assert after.max_step_expected == pytest.approx(before.max_step_expected, rel=1e-6)
        assert after.max_step_sampled == pytest.approx(before.max_step_sampled, rel=1e-6)
        limit = problem.limit(method, ridge=0.1).reward_rate
        assert scaled.limit(method, ridge=0.1).reward_rate == pytest.approx(scale * limit, rel=1e-6)
