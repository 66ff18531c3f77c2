"""Proposition 1: its bounds hold wherever it applies, and it says why where it does not."""

import numpy as np
import pytest
import scipy.linalg
from numpy.typing import NDArray

import cesaro as cs
from cesaro.linear.error_bounds import projected_norm, weighted_norm

Array = NDArray[np.float64]


def pair_matrix(problem: cs.LinearProblem) -> Array:
    n = problem.policy.size
    assert not isinstance(problem.mdp.probabilities, tuple)
    return np.einsum("sat,tb->satb", problem.mdp.probabilities, problem.policy).reshape(n, n)


def f_is_positive(problem: cs.LinearProblem, xi: float) -> bool:
    """`F ⪰ 0` from its definition, features orthonormalized first so that the cut-off means something."""
    d = problem.d
    basis = scipy.linalg.orth(np.sqrt(d)[:, None] * problem.X, rcond=1e-10) / np.sqrt(d)[:, None]
    D, P = np.diag(d), pair_matrix(problem)
    gram, moved = basis.T @ D @ basis, basis.T @ D @ P @ basis
    F = np.block([[gram, moved], [moved.T, xi**2 * gram]])
    return bool(np.linalg.eigvalsh(F).min() >= -1e-12)


def near_on_policy(seed: int, spread: float) -> cs.LinearProblem:
    """Centred random features and sampling near the stationary law of the target."""
    rng = np.random.default_rng(seed)
    concentration = [1.0, 0.15, 0.05][seed % 3]
    problem = cs.problems.random_problem(seed, 4, 2, 1 + seed % 4, concentration=concentration, on_policy=True)
    noise = rng.dirichlet(np.ones(8)).reshape(4, 2)
    return problem.replace(sampling=(1 - spread) * problem.sampling + spread * noise).centered()


def test_bounds_hold_in_every_case_where_the_proposition_applies() -> None:
    applied = {0.9: 0, 0.99: 0}
    tightest = 0.0
    for seed in range(60):
        for spread in (0.0, 0.05, 0.4):
            problem = near_on_policy(seed, spread)
            for xi in applied:
                result = problem.error_bounds(xi)
                assert result.applies == f_is_positive(problem, xi), (seed, spread, result.reason)
                if not result.applies:
                    assert result.value_bound is None
                    assert result.rate_bound is None
                    assert "does not apply" in result.reason
                    continue
                applied[xi] += 1
                assert result.value_error is not None
                assert result.value_bound is not None
                assert result.rate_error is not None
                assert result.rate_bound is not None
                assert result.value_error <= result.value_bound * (1 + 1e-9) + 1e-9
                assert result.rate_error <= result.rate_bound * (1 + 1e-9) + 1e-9
                tightest = max(tightest, result.value_error / result.value_bound)
    assert applied[0.9] > 30
    assert applied[0.9] < applied[0.99] < 180
    assert tightest > 0.02  # not so loose that anything would pass


def test_every_quantity_matches_its_definition() -> None:
    for seed in range(12):
        problem = near_on_policy(seed, 0.1)
        result = problem.error_bounds(0.99)
        if not result.applies:
            continue
        d, D, P, X = problem.d, np.diag(problem.d), pair_matrix(problem), problem.X
        q = problem.exact.differential_values.ravel()
        one = np.ones_like(q)
        projection = X @ np.linalg.solve(X.T @ D @ X, X.T @ D)

        def least(vector: Array, direction: Array, d: Array = d) -> float:
            """`inf_c ‖vector + c·direction‖_D` by least squares."""
            root = np.sqrt(d)
            c = np.linalg.lstsq((root * direction)[:, None], -root * vector)[0]
            return float(np.linalg.norm(root * (vector + c * direction)))

        root = np.sqrt(d)
        chain_norm = np.linalg.norm(root[:, None] * P / root, 2)
        u = -np.linalg.solve(problem.A, problem.b)
        representation = least(projection @ q - q, projection @ one - one)
        drift = np.sqrt(np.sum((d @ P - d) ** 2 / d))
        assert result.representation_error == pytest.approx(representation, rel=1e-8)
        assert result.value_error == pytest.approx(least(X @ u[1:] - q, one), rel=1e-7, abs=1e-10)
        assert result.rate_error == pytest.approx(abs(u[0] - problem.exact.reward_rate), abs=1e-9)
        bound = (chain_norm + 1) / (1 - 0.99) * representation
        assert result.value_bound == pytest.approx(bound, rel=1e-8)
        assert result.rate_bound == pytest.approx(drift * bound, rel=1e-7)


def test_looser_bounds_of_features_with_a_mean() -> None:
    """From definitions on random MDPs: the bounds hold, are what the formula says, and those at the least ξ are tighter."""
    given = tight_alone = 0
    for seed in range(30):
        for spread in (0.0, 0.05, 0.4):
            centered = near_on_policy(seed, spread)
            rng = np.random.default_rng(seed)
            problem = centered.replace(features=centered.features + 0.3 * rng.normal(size=centered.features.shape[2]))
            result = problem.error_bounds(0.9)
            assert not result.applies
            assert "mean zero" in result.reason
            d, P, X = problem.d, pair_matrix(problem), problem.X
            root = np.sqrt(d)
            basis = scipy.linalg.orth(root[:, None] * X, rcond=1e-10)  # D^½X, orthonormal
            norm = float(np.linalg.norm(basis.T @ (root[:, None] * P / root) @ basis, 2))
            share = float(np.linalg.norm(basis.T @ root))
            drift = float(np.sqrt(np.sum((d @ P - d) ** 2 / d)))
            assert result.projected_norm == pytest.approx(norm, rel=1e-8)
            assert result.constant_share == pytest.approx(share, rel=1e-8)
            assert (result.value_bound is not None) == (norm <= 0.9 and 0.9 + share * drift < 1), seed
            assert (result.tight_value_bound is not None) == (norm + share * drift < 1), seed
            assert ("Looser bounds hold" in result.reason) == (result.value_bound is not None)
            if result.tight_value_bound is None or result.tight_rate_bound is None:
                continue
            factor = (np.linalg.norm(root[:, None] * P / root, 2) + 1) * result.representation_error
            assert result.tight_value_bound == pytest.approx(factor / (1 - norm - share * drift), rel=1e-7)
            u = -np.linalg.solve(problem.A, problem.b)
            rate_error = abs(u[0] - problem.exact.reward_rate)
            difference = X @ u[1:] - problem.exact.differential_values.ravel()
            value_error = np.sqrt(d @ (difference - d @ difference) ** 2)
            slack = 1e-9
            assert value_error <= result.tight_value_bound * (1 + slack) + slack
            assert rate_error <= result.tight_rate_bound * (1 + slack) + slack
            if result.value_bound is None or result.rate_bound is None:
                tight_alone += 1
                continue
            given += 1
            assert result.value_bound == pytest.approx(factor / (0.1 - share * drift), rel=1e-7)
            assert result.tight_value_bound <= result.value_bound
            assert result.tight_rate_bound <= result.rate_bound
    assert given > 15
    assert tight_alone > 5


def test_the_least_xi_gives_bounds_where_the_given_one_is_too_small() -> None:
    found = 0
    for seed in range(30):
        problem = near_on_policy(seed, 0.05)
        result = problem.error_bounds(0.3)
        assert (result.tight_value_bound is not None) == (result.projected_norm < 1)
        if result.applies or result.tight_value_bound is None:
            continue
        found += 1
        assert result.value_bound is None
        assert result.constant_share == 0
        again = problem.error_bounds(result.projected_norm * (1 + 1e-12))
        assert again.applies
        assert again.value_bound == pytest.approx(result.tight_value_bound, rel=1e-6)
        assert again.rate_bound == pytest.approx(result.tight_rate_bound, rel=1e-6)
    assert found > 10


def test_on_policy_the_rate_bound_is_zero() -> None:
    problem = near_on_policy(3, 0.0)
    result = problem.error_bounds(0.99)
    assert result.applies
    assert result.rate_bound == pytest.approx(0, abs=1e-10)
    assert result.rate_error == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("xi", [0.5, 0.9, 0.99])
def test_projected_norm_decides_f(xi: float) -> None:
    """`F ⪰ 0 ⇔ ‖Π P Π‖_D ≤ ξ`, on centred and uncentred, full-rank and rank-deficient features."""
    verdicts = []
    for seed in range(60):
        problem = cs.problems.random_problem(seed, 4, 2, 1 + seed % 4, concentration=[0.2, 2.0][seed % 2])
        if seed % 3 == 0:
            problem = problem.centered()
        if seed % 5 == 0:
            problem = problem.replace(features=np.concatenate([problem.features, 2 * problem.features], axis=2))
        if abs(projected_norm(problem) - xi) < 1e-9:
            continue
        verdicts.append(f_is_positive(problem, xi))
        assert (projected_norm(problem) <= xi) == verdicts[-1], seed
    assert len(verdicts) > 50
    if xi == 0.9:
        assert 5 < sum(verdicts) < len(verdicts) - 5


def test_weighted_norm_of_the_chain_both_ways() -> None:
    """Small chains by a dense norm, larger ones by iteration: the same number."""
    for states in (6, 100, 160):  # 200 pairs are dense, 320 are not
        problem = cs.problems.random_problem(1, states, 2, 2)
        root = np.sqrt(problem.d)
        expected = np.linalg.norm(root[:, None] * pair_matrix(problem) / root, 2)
        assert weighted_norm(problem) == pytest.approx(expected, rel=1e-8)


# Where it does not apply.


def test_reasons_are_told_apart() -> None:
    centered = near_on_policy(3, 0.05)
    assert centered.error_bounds().applies
    assert "mean zero" in centered.replace(features=centered.features + 1.0).error_bounds().reason
    # Coverage: one pair is never sampled.
    sampling = centered.sampling.copy()
    sampling[1, 1] = 0.0
    uncovered = centered.replace(sampling=sampling / sampling.sum()).centered()
    assert "positive for every pair" in uncovered.error_bounds().reason
    # F: nearly deterministic swaps keep projected values large.
    swap = cs.TabularMDP([[[0.001, 0.999]], [[0.999, 0.001]]], [[0.0], [1.0]])
    persistent = cs.LinearProblem(swap, policy=[[1], [1]], sampling=[[0.5], [0.5]], features=[[[1.0]], [[-1.0]]])
    result = persistent.error_bounds(0.9)
    assert "F ⪰ 0" in result.reason
    assert "0.998" in result.reason
    assert not result.applies
    assert persistent.error_bounds(0.999).applies
    # Dependent features.
    doubled = centered.replace(features=np.concatenate([centered.features] * 2, axis=2))
    assert "linearly independent" in doubled.error_bounds().reason
    for problem in (uncovered, persistent, doubled):
        assert problem.error_bounds(0.9).representation_error >= 0


def test_errors_are_reported_even_where_bounds_are_not() -> None:
    problem = cs.problems.random_problem(0)
    result = problem.error_bounds()
    assert not result.applies
    assert result.value_bound is None
    assert result.rate_error == pytest.approx(
        abs(problem.td_fixed_point().reward_rate - problem.exact.reward_rate),  # type: ignore[operator]
        abs=1e-12,
    )
    assert result.value_error is not None


def test_boyans_chain_has_no_representation_error() -> None:
    """Correction 4: `q_π` lies in the span up to a constant, which favors value-based methods."""
    result = cs.problems.boyan_chain(0.1, 0.9).error_bounds()
    assert result.representation_error == pytest.approx(0, abs=1e-12)
    assert result.rate_error == pytest.approx(0, abs=1e-12)
    assert result.value_error == pytest.approx(0, abs=1e-11)
    assert not result.applies


@pytest.mark.parametrize("xi", [0.0, 1.0, -0.5, 1.5, np.nan, "0.9x", None])
def test_xi_must_be_a_number_between_zero_and_one(xi: float) -> None:
    problem = near_on_policy(0, 0.0)
    for call in (problem.error_bounds, problem.assumptions):
        with pytest.raises(cs.InputError, match="xi must be a number > 0 and < 1"):
            call(xi)


def test_multichain_problems_have_no_bounds() -> None:
    mdp = cs.TabularMDP([[[1.0, 0.0]], [[0.0, 1.0]]], [[0.0], [1.0]])
    problem = cs.LinearProblem(mdp, policy=[[1], [1]], sampling=[[0.5], [0.5]], features=[[[1.0]], [[-1.0]]])
    with pytest.raises(cs.MultichainError):
        problem.error_bounds()
