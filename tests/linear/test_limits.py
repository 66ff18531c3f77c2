"""Limits of all six methods against the formulas of MATHS.md, the expected recursion, and the theorems about them."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

import cesaro as cs
from cesaro.linear import METHODS

Array = NDArray[np.float64]
RIDGES = [0.01, 0.1, 1.0]


def pieces(p: cs.LinearProblem) -> dict[str, Array]:
    """Every matrix from its definition, with explicit n×n arrays."""
    stored = p.mdp.probabilities
    probabilities = np.stack([m.toarray() for m in stored], axis=1) if isinstance(stored, tuple) else stored
    n, K = p.policy.size, p.features.shape[2]
    chain = np.einsum("sat,tb->satb", probabilities, p.policy).reshape(n, n)
    X, d, r = p.features.reshape(n, K), p.sampling.reshape(n), p.mdp.rewards.reshape(n)
    D, one, Y, e1 = np.diag(d), np.eye(n), np.column_stack([np.ones(n), X]), np.eye(K + 1)[0]
    return {
        "A": Y.T @ D @ (chain - one) @ Y - np.outer(Y.T @ d, e1),
        "b": Y.T @ D @ r,
        "C": Y.T @ D @ Y,
        "A2": X.T @ (D - np.outer(d, d)) @ (chain - one) @ X,
        "b2": X.T @ (D - np.outer(d, d)) @ r,
        "C2": X.T @ D @ X,
        "A3": X.T @ D @ (chain - one) @ Y - np.outer(X.T @ d, e1),
        "b3": X.T @ D @ r,
        "B": X.T @ D @ (chain - one) @ X,
        "c": X.T @ d,
        "g": d @ (chain - one) @ X,
        "mean": np.array([d @ r]),
        "I0": np.diag(1 - e1),
    }


def formula(p: cs.LinearProblem, method: str, eta: float, lam: float) -> tuple[float, Array]:
    """`(r̂*, w*)`, or `(r̂*, θ*)` for GradientDICE, from the table of MATHS.md."""
    m = pieces(p)
    K = p.num_features

    def inv(matrix: Array) -> Array:  # C and C2 are singular on Boyan's chain; A's columns lie in their range
        return np.asarray(np.linalg.pinv(matrix, rcond=1e-12), dtype=np.float64)

    if method == "diff-sgq":
        u = -inv(m["A"] - eta * m["I0"]) @ m["b"]
        return u[0], u[1:]
    if method == "diff-gq1":
        u = -inv(eta * m["I0"] + m["A"].T @ inv(m["C"]) @ m["A"]) @ m["A"].T @ inv(m["C"]) @ m["b"]
        return u[0], u[1:]
    if method == "diff-gq3":
        u = -inv(eta * np.eye(K + 1) + m["A3"].T @ inv(m["C2"]) @ m["A3"]) @ m["A3"].T @ inv(m["C2"]) @ m["b3"]
        return u[0], u[1:]
    if method in ("diff-gq2", "diff-gq4"):
        left = m["A2"] if method == "diff-gq2" else m["B"]
        w = -inv(eta * np.eye(K) + left.T @ inv(m["C2"]) @ m["A2"]) @ left.T @ inv(m["C2"]) @ m["b2"]
        return float(m["mean"][0] + m["g"] @ w), w
    theta = inv(m["B"] @ inv(m["C2"]) @ m["B"].T + lam * np.outer(m["c"], m["c"]) + eta * np.eye(K)) @ (lam * m["c"])
    return float(m["b3"] @ theta), theta


def found(p: cs.LinearProblem, method: str, eta: float, lam: float) -> tuple[float, Array]:
    result = p.limit(method, ridge=eta, lam=lam)
    weights, other = result.weights, result.ratio_weights
    if method == "gradient-dice":
        weights, other = other, weights
    assert other is None
    assert weights is not None
    return result.reward_rate, weights


def off_policy(seed: int) -> cs.LinearProblem:
    problem = cs.problems.random_problem(seed, 4, 2, 1 + seed % 4)
    assert np.abs(problem.c).max() > 1e-3
    assert np.abs(problem.g).max() > 1e-3
    return problem


# The table of MATHS.md.


@pytest.mark.parametrize("method", METHODS)
def test_limits_match_their_formulas(method: str) -> None:
    checked = 0
    for seed in range(25):
        problem = off_policy(seed)
        for eta in RIDGES if method == "diff-gq3" else [0.0, *RIDGES]:
            lam = [1.0, 0.3, 2.5][seed % 3]
            if not problem.stability(method, ridge=eta, lam=lam).converges:
                assert method in ("diff-sgq", "diff-gq4"), (method, seed, eta)
                continue
            rate, weights = found(problem, method, eta, lam)
            expected_rate, expected = formula(problem, method, eta, lam)
            scale = 1 + np.abs(expected).max()
            np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-7 * scale)
            assert rate == pytest.approx(expected_rate, abs=1e-7 * scale)
            checked += 1
    assert checked >= 60


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eta", RIDGES)
def test_limits_on_boyans_chain_match_their_formulas(method: str, eta: float) -> None:
    """Rank-deficient features: the dual variables are not unique, rate and weights are."""
    for pi0, mu0 in ((0.1, 0.1), (0.1, 0.9), (0.5, 0.5), (0.7, 0.3), (0.9, 0.5)):
        problem = cs.problems.boyan_chain(pi0, mu0)
        rate, weights = found(problem, method, eta, 0.5)
        expected_rate, expected = formula(problem, method, eta, 0.5)
        np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-8 * (1 + np.abs(expected).max()))
        assert rate == pytest.approx(expected_rate, abs=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_limits_are_where_the_expected_recursion_goes(method: str) -> None:
    """Run `κ ← κ + α (G κ + h)` from zero to convergence (by squaring the affine map) and compare."""
    checked = 0
    problems = [off_policy(seed) for seed in range(6)]
    problems += [
        cs.problems.boyan_chain(0.1, 0.9),
        cs.problems.garnet(3, 2, 2, seed=4),
        cs.problems.boyan_chain(0.5, 0.5),
    ]
    for problem in problems:
        for eta in (0.0, 0.1):
            result = problem.stability(method, ridge=eta, lam=0.7)
            if not result.converges or not result.determined["reward_rate"]:
                continue
            assert result.max_step_expected is not None
            m = len(result.mean.h)
            affine = np.eye(m + 1)
            affine[:m, :m] += 0.5 * result.max_step_expected * result.mean.G
            affine[:m, m] = 0.5 * result.max_step_expected * result.mean.h
            doublings = int(np.ceil(np.log2(40 * result.time_constant(0.5 * result.max_step_expected)))) + 1
            for _ in range(doublings):
                affine = affine @ affine
            end = affine[:m, m]
            limit = problem.limit(method, ridge=eta, lam=0.7)
            scale = 1 + np.abs(end).max()
            assert limit.reward_rate == pytest.approx(end[result.mean.layout.rate], abs=1e-7 * scale)
            weights = limit.weights if limit.ratio_weights is None else limit.ratio_weights
            assert weights is not None
            if limit.weights_are_unique:
                np.testing.assert_allclose(weights, end[result.mean.layout.weights], rtol=0, atol=1e-6 * scale)
            checked += 1
    assert checked >= 8


def test_diff_gq3_uses_b3() -> None:
    """Correction 2: with `b2` in place of `b3` the limit is another one."""
    for seed in range(5):
        problem = off_policy(seed)
        m, K = pieces(problem), problem.num_features
        rate, weights = found(problem, "diff-gq3", 0.1, 1.0)
        C2 = np.linalg.inv(m["C2"])
        left = np.linalg.inv(0.1 * np.eye(K + 1) + m["A3"].T @ C2 @ m["A3"]) @ m["A3"].T @ C2
        right, printed = -left @ m["b3"], -left @ m["b2"]
        np.testing.assert_allclose([rate, *weights], right, atol=1e-9)
        assert np.abs(printed - right).max() > 1e-3


def test_diff_gq1_and_gq2_limits_differ_from_each_other_with_a_ridge() -> None:
    """Otherwise one test could stand for both."""
    problem = off_policy(3)
    assert abs(found(problem, "diff-gq1", 0.1, 1.0)[0] - found(problem, "diff-gq2", 0.1, 1.0)[0]) > 1e-4
    assert found(problem, "diff-gq1", 0, 1.0)[0] == pytest.approx(found(problem, "diff-gq2", 0, 1.0)[0], abs=1e-9)


def test_limit_minimizes_the_ridge_objective() -> None:
    """`MSPBE₁ + η‖w‖²`, `MSPBE₂ + η‖w‖²` and `MSPBE₃ + η‖u‖²` grow in every direction from the limits of GQ1, GQ2, GQ3."""
    rng = np.random.default_rng(0)
    for seed in range(6):
        problem = off_policy(seed)
        for method, kind in (("diff-gq1", 1), ("diff-gq2", 2), ("diff-gq3", 3)):
            rate, weights = found(problem, method, 0.2, 1.0)

            def objective(r: float, w: Array, kind: int = kind, problem: cs.LinearProblem = problem) -> float:
                penalty = w @ w + (r * r if kind == 3 else 0.0)
                return problem.mspbe(kind, r, w) + 0.2 * float(penalty)

            least = objective(rate, weights)
            for _ in range(10):
                step = rng.normal(size=len(weights) + 1)
                for length in (1e-2, 1.0):
                    moved = objective(rate + length * step[0], weights + length * step[1:])
                    assert moved >= least - 1e-12
                    assert moved > least + 1e-7 or kind == 2  # MSPBE₂ ignores the rate
                moved = objective(rate, weights + 0.1 * step[1:])
                assert moved > least + 1e-7


def test_gradient_dice_estimates_the_density_ratio_with_tabular_features() -> None:
    problem = cs.problems.garnet(4, 2, 2, seed=2)
    limit = problem.limit("gradient-dice")
    assert limit.ratio_weights is not None
    ratio = cs.exact.density_ratio(problem.mdp, problem.policy, problem.sampling)
    np.testing.assert_allclose(limit.ratio_weights, ratio.ravel(), atol=1e-9)
    assert limit.reward_rate == pytest.approx(problem.exact.reward_rate, abs=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_exact_with_tabular_features(method: str) -> None:
    problem = cs.problems.garnet(5, 2, 3, seed=6)
    if method == "diff-sgq" and not problem.stability(method).converges:
        pytest.fail("the problem was chosen so that it converges")
    assert problem.limit(method).reward_rate == pytest.approx(problem.exact.reward_rate, abs=1e-9)


# Where there is no limit.


def test_errors_say_why_there_is_no_limit() -> None:
    counterexample = cs.problems.two_state_counterexample()
    with pytest.raises(cs.NoLimitError, match=r"diff-sgq with ridge 0 has no limit .* eigenvalue 3 .* diverges"):
        counterexample.limit("diff-sgq")
    problem = off_policy(2)
    with pytest.raises(cs.NoLimitError, match="lam > 0"):
        problem.limit("gradient-dice", lam=0)
    with pytest.raises(cs.NoLimitError, match=r"diff-gq3 with ridge 0 .* several rates .* ridge > 0"):
        problem.limit("diff-gq3")
    with pytest.raises(cs.InputError, match="method must be one of"):
        problem.limit("diff-gq9")
    for error in (cs.NoLimitError, cs.ToleranceError):
        assert issubclass(error, cs.CesaroError)
        assert issubclass(error, ArithmeticError)


def contradictory() -> cs.LinearProblem:
    """A cycle of three states, one feature, and sampling between two laws at which `A2` changes sign: `A2 = 0`, `b2 ≠ 0`."""
    cycle = cs.TabularMDP(np.roll(np.eye(3), 1, axis=1)[:, None], [[1.0], [0.0], [0.0]])
    x, moved = np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, -3.0])  # x and (P − I) x

    def a2(share: float) -> float:
        d = (1 - share) * np.array([0.495, 0.495, 0.01]) + share / 3
        return float((d * (x - d @ x)) @ moved)

    share = scipy.optimize.brentq(a2, 0, 1, xtol=1e-16)
    sampling = (1 - share) * np.array([0.495, 0.495, 0.01]) + share / 3
    return cs.LinearProblem(cycle, policy=np.ones((3, 1)), sampling=sampling[:, None], features=x[:, None, None])


def test_no_limit_where_the_equations_contradict_each_other() -> None:
    """Semi-gradient methods drift for ever; the least-squares methods settle at a minimum."""
    broken = contradictory()
    assert np.abs(broken.A2).max() < 1e-14
    assert np.abs(broken.b2).max() > 1e-2
    for method in ("diff-sgq", "diff-gq4"):
        with pytest.raises(cs.NoLimitError, match="no limit"):
            broken.limit(method)
    for method in ("diff-gq1", "diff-gq2"):
        assert broken.limit(method, ridge=0.1).reward_rate == pytest.approx(
            formula(broken, method, 0.1, 1.0)[0], abs=1e-9
        )


# Theorem 2.


def test_theorem_2_bound_on_the_bias_of_the_ridge() -> None:
    """`‖w*_η − w*_0‖ ≤ η ‖C2^{-½} b2‖/σ³`, σ the smallest non-zero singular value of `C2^{-½} A2`, and `A2 w*_0 + b2 = 0`."""
    tight = []
    for seed in range(40):
        problem = off_policy(seed) if seed < 30 else cs.problems.garnet(3, 2, 2, seed=seed)  # one-hot: A2 is singular
        C2 = problem.C2
        root = np.linalg.inv(scipy.linalg.sqrtm(C2).real)
        singular = np.linalg.svd(root @ problem.A2, compute_uv=False)
        sigma = singular[singular > 1e-9 * singular[0]].min()
        start = problem.limit("diff-gq2").weights
        assert start is not None
        residual = problem.A2 @ start + problem.b2
        assert np.abs(residual).max() <= 1e-9 * (1 + np.abs(problem.A2).max() * np.abs(start).max())
        for eta in (1e-8, 1e-4, 1e-2, 1.0):
            weights = problem.limit("diff-gq2", ridge=eta).weights
            assert weights is not None
            distance, bound = np.linalg.norm(weights - start), eta * np.linalg.norm(root @ problem.b2) / sigma**3
            assert distance <= bound * (1 + 1e-6) + 1e-9 * (1 + np.abs(start).max())
            tight.append(float(distance / bound))
    assert max(tight) > 0.5  # the bound is nearly reached, so a slip by a factor would show


# Singular problems: the limit of ridge → 0.


@pytest.mark.parametrize("method", ["diff-gq1", "diff-gq2", "diff-gq4", "gradient-dice"])
@pytest.mark.parametrize("name", ["boyan", "one-hot", "doubled"])
def test_least_norm_solution_is_the_limit_of_vanishing_ridge(method: str, name: str) -> None:
    problem = {
        "boyan": lambda: cs.problems.boyan_chain(0.1, 0.9),
        "one-hot": lambda: cs.problems.garnet(3, 2, 2, seed=1),
        "doubled": lambda: (p := off_policy(3)).replace(features=np.concatenate([p.features, 2 * p.features], axis=2)),
    }[name]()
    at_zero = problem.limit(method)
    weights = at_zero.ratio_weights if method == "gradient-dice" else at_zero.weights
    assert weights is not None
    assert at_zero.weights_are_unique is (method == "gradient-dice" and name == "one-hot")
    errors = []
    for eta in (1e-5, 1e-8):
        near = problem.limit(method, ridge=eta)
        close = near.ratio_weights if method == "gradient-dice" else near.weights
        assert close is not None
        assert near.weights_are_unique
        errors.append(float(np.abs(close - weights).max() + abs(near.reward_rate - at_zero.reward_rate)))
    assert errors[1] <= 1e-3 * (1 + np.abs(weights).max())
    assert errors[1] <= 0.05 * errors[0]  # first order in the ridge


# Units of features.


def rational_solve(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    rows = [[*row, value] for row, value in zip(matrix, right)]
    for k in range(len(rows)):
        pivot = next(i for i in range(k, len(rows)) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(len(rows)):
            if i != k:
                factor = rows[i][k]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k])]
    return [row[-1] for row in rows]


def exact_limit(problem: cs.LinearProblem, method: str, eta: float) -> float:
    """The rate in rational arithmetic from `G κ + h = 0`, for a non-singular `G`."""
    mean = problem.stability(method, ridge=eta).mean
    matrix = [[Fraction(float(x)) for x in row] for row in mean.G]
    return float(rational_solve(matrix, [-Fraction(float(x)) for x in mean.h])[mean.layout.rate])


@pytest.mark.parametrize("scale", [1e-6, 1e-4, 1e-2, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("method", ["diff-gq1", "diff-gq2"])
def test_gradient_methods_converge_whatever_the_units(method: str, scale: float) -> None:
    """Theorems 1 and 2: with a ridge, and without one where `A` is non-singular, `G` is Hurwitz; units cannot change that."""
    for seed in range(8):
        base = cs.problems.random_problem(seed, 4, 2, 2)
        problem = base.replace(features=base.features * np.array([scale, 1.0]))
        for eta in (0.0, 0.1):
            result = problem.stability(method, ridge=eta)
            assert result.converges, (seed, eta, result.reason)
            assert problem.limit(method, ridge=eta).reward_rate == pytest.approx(
                exact_limit(problem, method, eta), abs=1e-6
            )
            if result.max_step_sampled is not None and result.max_step_expected is not None:
                assert result.max_step_sampled <= result.max_step_expected * (1 + 1e-6)


@pytest.mark.parametrize("scale", [1e-6, 1e-4, 1e-2, 1e2, 1e4, 1e6])
def test_unridged_limits_do_not_depend_on_units(scale: float) -> None:
    for seed in range(8):
        base = cs.problems.random_problem(seed, 4, 2, 2)
        problem = base.replace(features=base.features * np.array([scale, 1.0]))
        for method in ("diff-gq1", "diff-gq2"):
            rate, weights = found(base, method, 0, 1.0)
            other_rate, other = found(problem, method, 0, 1.0)
            assert other_rate == pytest.approx(rate, abs=1e-7)
            np.testing.assert_allclose(problem.X @ other, base.X @ weights, atol=1e-6 * (1 + np.abs(weights).max()))
