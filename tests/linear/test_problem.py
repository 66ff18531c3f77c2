"""LinearProblem: matrices against their definitions, the sample space, projected errors, and its small operations."""

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from numpy.typing import NDArray

import cesaro as cs

Array = NDArray[np.float64]
PairChain = Callable[[Array, Array], Array]


def dense_probabilities(problem: cs.LinearProblem) -> Array:
    stored = problem.mdp.probabilities
    return np.stack([m.toarray() for m in stored], axis=1) if isinstance(stored, tuple) else stored


def as_sparse(problem: cs.LinearProblem) -> cs.LinearProblem:
    matrices = [sp.csr_array(dense_probabilities(problem)[:, a]) for a in range(problem.mdp.num_actions)]
    return problem.replace(mdp=cs.TabularMDP(matrices, problem.mdp.rewards))


# Matrices.


@given(
    seed=st.integers(0, 10**6),
    states=st.integers(1, 5),
    actions=st.integers(1, 3),
    features=st.integers(1, 6),
    is_sparse=st.booleans(),
)
def test_matrices_match_their_definitions(
    seed: int, states: int, actions: int, features: int, is_sparse: bool, pair_chain: PairChain
) -> None:
    problem = cs.problems.random_problem(seed, states, actions, features)
    P = pair_chain(dense_probabilities(problem), problem.policy)
    if is_sparse:
        problem = as_sparse(problem)
    n = states * actions
    d, r = np.empty(n), np.empty(n)
    X = np.empty((n, features))
    for s in range(states):
        for a in range(actions):
            d[s * actions + a], r[s * actions + a] = problem.sampling[s, a], problem.mdp.rewards[s, a]
            X[s * actions + a] = problem.features[s, a]
    D, one, e1 = np.diag(d), np.eye(n), np.eye(features + 1)[0]
    Y = np.column_stack([np.ones(n), X])
    covariance = D - np.outer(d, d)
    expected = {
        "A": Y.T @ D @ (P - one) @ Y - np.outer(Y.T @ d, e1),
        "b": Y.T @ D @ r,
        "C": Y.T @ D @ Y,
        "A2": X.T @ covariance @ (P - one) @ X,
        "b2": X.T @ covariance @ r,
        "C2": X.T @ D @ X,
        "A3": X.T @ D @ (P - one) @ Y - np.outer(X.T @ d, e1),
        "b3": X.T @ D @ r,
        "B": X.T @ D @ (P - one) @ X,
        "c": X.T @ d,
        "g": d @ (P - one) @ X,
        "X": X,
        "d": d,
        "r": r,
        "difference": (P - one) @ X,
    }
    for name, value in expected.items():
        found = getattr(problem, name)
        assert found.shape == value.shape, name
        np.testing.assert_allclose(found, value, rtol=0, atol=1e-13 * (1 + np.abs(X).max() ** 2), err_msg=name)
    assert problem.mean_reward == pytest.approx(d @ r, abs=1e-13)
    np.testing.assert_allclose(problem.apply_chain(X), P @ X, atol=1e-13 * (1 + np.abs(X).max()))


def test_a2_and_b2_do_not_see_an_offset_of_features() -> None:
    problem = cs.problems.random_problem(0, 5, 2, 3)
    for offset in (1.0, 1e3, 1e6):
        shifted = problem.replace(features=problem.features + offset)
        np.testing.assert_allclose(shifted.b2, problem.b2, atol=1e-15 * offset + 1e-13)
        np.testing.assert_allclose(shifted.A2, problem.A2, atol=2e-15 * offset + 1e-13)


# The sample space.


@given(seed=st.integers(0, 10**6), states=st.integers(1, 5), actions=st.integers(1, 3), is_sparse=st.booleans())
def test_sample_space_is_the_joint_distribution(
    seed: int, states: int, actions: int, is_sparse: bool, pair_chain: PairChain
) -> None:
    rng = np.random.default_rng(seed)
    problem = cs.problems.garnet(states, actions, min(2, states), seed=seed)
    policy = np.where(rng.random((states, actions)) < 0.5, 0.0, problem.policy)
    policy[np.arange(states), rng.integers(actions, size=states)] += 0.1  # some actions are never taken
    sampling = np.where(rng.random((states, actions)) < 0.3, 0.0, problem.sampling)
    sampling[rng.integers(states), rng.integers(actions)] += 0.1  # some pairs are never sampled
    problem = problem.replace(policy=policy / policy.sum(axis=1, keepdims=True), sampling=sampling / sampling.sum())
    P = pair_chain(dense_probabilities(problem), problem.policy)
    if is_sparse:
        problem = as_sparse(problem)
    pair, next_pair, probability = problem.sample_space
    joint = np.zeros_like(P)
    np.add.at(joint, (pair, next_pair), probability)
    np.testing.assert_allclose(joint, problem.sampling.reshape(-1, 1) * P, atol=1e-16)
    assert probability.sum() == pytest.approx(1, abs=1e-13)
    assert (probability > 0).all()
    assert len({*zip(pair.tolist(), next_pair.tolist())}) == len(pair) == np.count_nonzero(joint)


# Projected Bellman errors.


def projection(basis: Array, d: Array) -> Array:
    """`Π = B (BᵀDB)⁺ BᵀD`."""
    return basis @ np.linalg.pinv(basis.T @ np.diag(d) @ basis, rcond=1e-11) @ basis.T @ np.diag(d)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3), st.integers(1, 4))
def test_mspbe_matches_projections(seed: int, states: int, actions: int, features: int) -> None:
    problem = cs.problems.random_problem(seed, states, actions, features)
    rng = np.random.default_rng(seed)
    w, rate = rng.normal(size=features), float(rng.normal())
    d, X = problem.d, problem.X
    bellman = problem.r + problem.difference @ w
    Y = np.column_stack([np.ones(len(d)), X])

    def norm(values: Array) -> float:
        return float(d @ values**2)

    expected = {
        1: norm(projection(Y, d) @ (bellman - rate)),
        2: norm(projection(X, d) @ (bellman - d @ bellman)),
        3: norm(projection(X, d) @ (bellman - rate)),
        4: norm(projection(X, d) @ (bellman - rate)),
    }
    for kind, value in expected.items():
        assert problem.mspbe(kind, rate, w) == pytest.approx(value, rel=1e-6, abs=1e-9)
    assert problem.mspbe(2, None, w) == problem.mspbe(2, rate, w)


def test_mspbe_in_the_form_of_the_paper() -> None:
    """`‖A u + b‖²_{C⁻¹}` and its variants, which the gradient methods descend."""
    for seed in range(10):
        p = cs.problems.random_problem(seed, 5, 2, 3)
        u = np.random.default_rng(seed).normal(size=4)
        rate, w = float(u[0]), u[1:]
        for kind, residual, matrix in (
            (1, p.A @ u + p.b, p.C),
            (2, p.A2 @ w + p.b2, p.C2),
            (3, p.A3 @ u + p.b3, p.C2),
            (4, p.A3 @ u + p.b3, p.C2),
        ):
            assert p.mspbe(kind, rate, w) == pytest.approx(
                float(residual @ np.linalg.solve(matrix, residual)), rel=1e-8
            )


def test_mspbe_vanishes_at_fixed_points_and_is_least_at_limits() -> None:
    for problem in (cs.problems.random_problem(1), cs.problems.boyan_chain(0.3, 0.7), cs.problems.garnet(4, 2, 2)):
        point = problem.td_fixed_point()
        assert point.weights is not None
        for kind in (1, 2, 3, 4):
            assert 0 <= problem.mspbe(kind, point.reward_rate, point.weights) <= 1e-18
        limit = problem.limit("diff-gq2", ridge=0.5)
        assert limit.weights is not None
        assert problem.mspbe(2, None, limit.weights) > 1e-8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 0.0, [0, 0, 0]), "kind must be 1, 2, 3 or 4. Got 5"),
        (("1", 0.0, [0, 0, 0]), "kind must be 1, 2, 3 or 4. Got '1'"),
        ((1, None, [0, 0, 0]), "reward_rate must be a number. Got None"),
        ((1, "high", [0, 0, 0]), "reward_rate must be a number. Got 'high'"),
        ((1, np.nan, [0, 0, 0]), "reward_rate must be a number. Got nan"),
        ((1, 0.0, [0, 0]), r"weights must have shape \[feature=3\]. Got \(2,\)"),
        ((1, 0.0, [0, np.nan, 0]), "weights must be finite. Got nan at feature 1"),
        ((1, 0.0, "abc"), "weights must be a real array"),
    ],
)
def test_mspbe_refuses_what_it_cannot_use(arguments: Any, message: str) -> None:
    with pytest.raises(cs.InputError, match=message):
        cs.problems.random_problem(0).mspbe(*arguments)


# centered, replace, repr.


@given(st.integers(0, 10**6))
def test_centered_features_have_mean_zero_and_the_same_fixed_point(seed: int) -> None:
    problem = cs.problems.random_problem(seed, 4, 2, 3)
    centered = problem.centered()
    np.testing.assert_allclose(centered.c, 0, atol=1e-14)
    shift = problem.features - centered.features
    np.testing.assert_allclose(shift, np.broadcast_to(problem.c, shift.shape), atol=1e-13)
    np.testing.assert_allclose(centered.A2, problem.A2, atol=1e-12)
    before, after = problem.td_fixed_point(), centered.td_fixed_point()
    assert after.reward_rate == pytest.approx(before.reward_rate, abs=1e-8 / max(before.conditioning, 1e-8))
    assert centered.mdp is problem.mdp


def test_replace_exchanges_one_field_and_leaves_the_original() -> None:
    problem = cs.problems.random_problem(0)
    before = problem.A.copy()
    uniform = np.full((7, 3), 1 / 3)
    other = problem.replace(policy=uniform)
    np.testing.assert_array_equal(other.policy, uniform)
    np.testing.assert_array_equal(other.sampling, problem.sampling)
    np.testing.assert_array_equal(problem.A, before)
    assert np.abs(other.A - before).max() > 1e-3
    assert problem.replace().features is not None
    other = problem.replace(sampling=uniform / 7, features=np.ones((7, 3, 1)))
    assert other.num_features == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"feature": np.ones((7, 3, 1))}, r"replace\(\) takes mdp, policy, sampling, features. Got feature"),
        ({"rewards": 1, "gamma": 0.9}, "Got gamma, rewards"),
        ({"mdp": np.eye(2)}, "mdp must be a TabularMDP. Got ndarray"),
        ({"features": np.ones((7, 3))}, r"features must have shape \[state=7, action=3, feature\]. Got \(7, 3\)"),
        ({"features": np.ones((7, 3, 0))}, r"features must have shape .* Got \(7, 3, 0\)"),
        ({"features": np.full((7, 3, 2), np.inf)}, "features must be finite. Got inf at state 0, action 0, feature 0"),
        ({"features": "one-hot"}, "features must be a real array"),
    ],
)
def test_replace_refuses_what_does_not_fit(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(cs.InputError, match=message):
        cs.problems.random_problem(0).replace(**changes)


def test_repr_says_what_it_is() -> None:
    assert repr(cs.problems.boyan_chain()) == "LinearProblem(TabularMDP(13 states, 2 actions, dense), 6 features)"


def test_dense_and_sparse_problems_agree_on_everything() -> None:
    problem = cs.problems.random_problem(3, 5, 2, 3)
    other = as_sparse(problem)
    assert other.mdp.is_sparse
    assert other.td_fixed_point().reward_rate == pytest.approx(problem.td_fixed_point().reward_rate, abs=1e-11)
    for method in ("diff-sgq", "diff-gq2", "gradient-dice"):
        one, two = (p.stability(method, ridge=0.1) for p in (problem, other))
        assert two.max_step_sampled == pytest.approx(one.max_step_sampled, rel=1e-8)
        assert other.limit(method, ridge=0.1).reward_rate == pytest.approx(
            problem.limit(method, ridge=0.1).reward_rate, abs=1e-10
        )
    centered, other_centered = problem.centered(), other.centered()
    bounds, other_bounds = centered.error_bounds(), other_centered.error_bounds()
    assert other_bounds.value_error == pytest.approx(bounds.value_error, abs=1e-9)
    assert [a.holds for a in other.assumptions()] == [a.holds for a in problem.assumptions()]
