"""LinearProblem: matrices against their definitions, the sample space, projected errors, and its small operations.

Each assumption on problems built to break just that one, and no exception on any problem. The bounds of Proposition 1 hold
wherever it applies, and it says why where it does not.
"""

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given
from numpy.typing import NDArray

import cesaro as cs
from cesaro.linear.problem import projected_norm, weighted_norm

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


# The assumptions of the theory.


NAMES = ["unichain", "coverage", "independent-columns", "non-constant", "fixed-point", "F-positive", "zero-mean"]


def sound() -> cs.LinearProblem:
    """Everything holds: on-policy, centred, two independent features, fast mixing."""
    return cs.problems.random_problem(4, 6, 2, 2, concentration=5.0, on_policy=True).centered()


def broken(problem: cs.LinearProblem, xi: float = 0.99) -> list[str]:
    report = problem.assumptions(xi)
    assert [entry.name for entry in report] == NAMES
    assert len(report) == 7
    for entry in report:
        assert np.isfinite(entry.margin)
        assert entry.holds == (entry.margin > 0) or entry.margin == 0
        assert not (entry.margin < 0 and entry.holds)
        assert entry.sentence.endswith(".")
        assert "\n" not in entry.sentence
        assert "nan" not in entry.sentence
        assert report[entry.name] is entry
    return [entry.name for entry in report if not entry.holds]


def test_a_sound_problem_meets_every_assumption() -> None:
    assert broken(sound()) == []


def test_coverage_alone() -> None:
    problem = sound()
    policy = problem.policy.copy()
    policy[2] = [1.0, 0.0]
    problem = problem.replace(policy=policy)
    sampling = cs.exact.stationary_distribution(problem.mdp, policy)
    problem = problem.replace(sampling=sampling).centered()
    assert broken(problem) == ["coverage"]
    entry = problem.assumptions()["coverage"]
    assert "1 of 12" in entry.sentence
    assert "0.00%" in entry.sentence
    assert entry.margin == pytest.approx(-1 / 12)
    # Where the target goes, the sentence says how much of its time that is.
    gap = sound().sampling.copy()
    gap[0, 0] = 0.0
    entry = sound().replace(sampling=gap / gap.sum()).assumptions()["coverage"]
    share = sound().exact.stationary_distribution[0, 0]
    assert f"{share:.2%}" in entry.sentence


def test_dependent_columns() -> None:
    problem = sound()
    doubled = problem.replace(features=np.concatenate([problem.features, problem.features[..., :1] * 7], axis=2))
    assert broken(doubled) == ["independent-columns", "non-constant"]  # a zero combination is a constant too
    entry = doubled.assumptions()["independent-columns"]
    assert "rank-deficient (rank 2 of 3)" in entry.sentence
    assert entry.margin == pytest.approx(-1 / 3)
    assert "zero" in doubled.assumptions()["non-constant"].sentence
    with_zero = problem.replace(features=np.concatenate([problem.features, np.zeros((6, 2, 1))], axis=2))
    assert broken(with_zero) == ["independent-columns", "non-constant"]


def test_constant_in_the_span() -> None:
    """The constant is no centred feature and is kept by every chain, so zero mean and F ⪰ 0 break with it."""
    problem = sound()
    x = problem.features
    with_one = problem.replace(features=np.concatenate([x, np.ones((6, 2, 1))], axis=2))
    assert broken(with_one) == ["non-constant", "F-positive", "zero-mean"]
    hidden = problem.replace(features=np.concatenate([x, 2 * x[..., :1] - 5], axis=2))
    assert "non-constant" in broken(hidden)
    assert "independent-columns" not in broken(hidden)
    assert "contain the constant" in hidden.assumptions()["non-constant"].sentence


def test_mean_of_features_alone() -> None:
    problem = sound()
    shifted = problem.replace(features=problem.features + 0.05)
    assert broken(shifted) == ["zero-mean"]
    entry = shifted.assumptions()["zero-mean"]
    size = np.sqrt(np.diag(shifted.C2))
    assert entry.margin == pytest.approx(-np.max(np.abs(shifted.c) / size), rel=1e-6)
    assert "centered()" in entry.sentence
    assert broken(shifted.centered()) == []


def test_contraction_alone() -> None:
    """A chain that swaps two halves nearly always keeps a feature's size."""
    swap = cs.TabularMDP([[[0.02, 0.98]], [[0.98, 0.02]]], [[0.0], [1.0]])
    problem = cs.LinearProblem(swap, policy=[[1], [1]], sampling=[[0.5], [0.5]], features=[[[1.0]], [[-1.0]]])
    assert broken(problem, 0.9) == ["F-positive"]
    assert broken(problem, 0.97) == []
    assert problem.assumptions(0.9)["F-positive"].margin == pytest.approx(0.9 - 0.96, abs=1e-12)


def test_no_fixed_point_and_many() -> None:
    problem = sound()
    assert problem.assumptions()["fixed-point"].margin > 0
    one_hot = cs.problems.garnet(4, 2, 2)
    entry = one_hot.assumptions()["fixed-point"]
    assert entry.holds
    assert "infinitely many" in entry.sentence
    assert "all with the rate" in entry.sentence
    # x = (1, 2, 4) on a 3-cycle with the sampling that makes A2 vanish: see test_fixed_point.
    cycle = cs.TabularMDP(np.roll(np.eye(3), 1, axis=1)[:, None], [[1.0], [0.0], [0.0]])
    x, moved = np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, -3.0])
    low, high = 0.0, 1.0
    for _ in range(200):
        share = (low + high) / 2
        d = (1 - share) * np.array([0.495, 0.495, 0.01]) + share / 3
        low, high = (share, high) if (d * (x - d @ x)) @ moved > 0 else (low, share)
    contradictory = cs.LinearProblem(cycle, policy=np.ones((3, 1)), sampling=d[:, None], features=x[:, None, None])
    entry = contradictory.assumptions()["fixed-point"]
    assert not entry.holds
    assert entry.margin < 0
    assert "no TD fixed point" in entry.sentence
    same = contradictory.replace(mdp=cs.TabularMDP(cycle.probabilities, np.ones((3, 1))))
    assert "disagree on the rate" in same.assumptions()["fixed-point"].sentence


def test_boyans_chain_is_rank_deficient_and_contains_the_constant() -> None:
    for pi0, mu0 in ((0.1, 0.9), (0.5, 0.5), (0.9, 0.9)):
        report = cs.problems.boyan_chain(pi0, mu0).assumptions()
        assert not report["independent-columns"].holds
        assert "rank-deficient (rank 5 of 6)" in report["independent-columns"].sentence
        assert not report["non-constant"].holds
        assert "contain the constant" in report["non-constant"].sentence
        assert report["unichain"].holds
        assert report["coverage"].holds
        assert report["fixed-point"].holds
        text = repr(report)
        assert "rank-deficient" in text
        assert "NO" in text
        assert len(text.splitlines()) == 8


def test_multichain_policies_are_reported_not_raised() -> None:
    mdp = cs.TabularMDP(np.eye(3)[:, None], [[0.0], [1.0], [2.0]])
    for sampling in ([[0.2], [0.3], [0.5]], [[0.4], [0.6], [0.0]]):
        problem = cs.LinearProblem(mdp, policy=np.ones((3, 1)), sampling=sampling, features=[[[1.0]], [[2.0]], [[0.5]]])
        assert "unichain" in broken(problem)
        entry = problem.assumptions()["unichain"]
        assert entry.margin == -2
        assert "3 groups" in entry.sentence


def test_transient_states_are_told_and_periodic_chains_hold() -> None:
    problem = cs.problems.two_state_counterexample()
    entry = problem.assumptions()["unichain"]
    assert entry.holds
    assert "1 of 2 states are left for good" in entry.sentence
    assert cs.problems.garnet(5, 1, 1).assumptions()["unichain"].holds


def test_margin_of_the_chain_falls_as_it_falls_apart() -> None:
    margins = []
    for coupling in (1e-1, 1e-3, 1e-6, 1e-9):
        mdp = cs.TabularMDP([[[1 - coupling, coupling]], [[coupling, 1 - coupling]]], [[0.0], [1.0]])
        problem = cs.LinearProblem(mdp, policy=[[1], [1]], sampling=[[0.5], [0.5]], features=[[[1.0]], [[-1.0]]])
        margins.append(problem.assumptions()["unichain"].margin)
        assert margins[-1] == pytest.approx(2 * coupling, rel=1.0)
    assert margins == sorted(margins, reverse=True)


@pytest.mark.parametrize("features", [1, 2, 5, 30])
def test_no_exception_on_random_and_degenerate_problems(features: int) -> None:
    rng = np.random.default_rng(features)
    for seed in range(6):
        problem = cs.problems.random_problem(seed, 3, 2, features, concentration=[1.0, 0.01][seed % 2])
        broken(problem)
        broken(problem.replace(features=np.zeros((3, 2, features))))
        broken(problem.replace(features=np.ones((3, 2, features))))
        broken(problem.replace(features=problem.features * 10.0 ** rng.uniform(-6, 6, features)))
        point_mass = np.zeros((3, 2))
        point_mass[1, 0] = 1.0
        broken(problem.replace(sampling=point_mass))
    one = cs.LinearProblem(
        cs.TabularMDP([[[1.0]]], [[1.0]]), policy=[[1]], sampling=[[1]], features=np.ones((1, 1, features))
    )
    broken(one)


def test_units_of_features_change_no_verdict() -> None:
    problem = sound()
    for scales in ([1e-6, 1.0], [1.0, 1e6], [1e-6, 1e6]):
        assert broken(problem.replace(features=problem.features * np.array(scales))) == []
    boyan = cs.problems.boyan_chain()
    scaled = boyan.replace(features=boyan.features * 10.0 ** np.linspace(-6, 6, 6))
    assert broken(scaled) == broken(boyan)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(cs.InputError, match=r"name must be one of unichain, coverage, .* Got 'ergodic'"):
        sound().assumptions()["ergodic"]


def test_report_of_a_large_sparse_process() -> None:
    """More states than the exact sensitivity covers, and 3,000 pairs: answers in a moment, by estimation."""
    problem = cs.problems.garnet(1_500, 2, 5)
    report = problem.assumptions()
    assert report["unichain"].holds
    chain = sp.csr_array(problem.mdp.state_chain(problem.policy)).toarray()
    exact = 1 / np.linalg.norm(np.linalg.inv(np.eye(1_500) - chain + 1 / 1_500), np.inf)
    assert report["unichain"].margin == pytest.approx(exact, rel=0.5)


def test_margin_of_a_slow_chain_is_found_and_repeatable() -> None:
    """A queue of 1,100: GMRES is slow on it, and an estimate that stops early or draws at random would show."""
    problem = cs.problems.birth_death_queue(1_100)
    margins = [problem.assumptions()["unichain"].margin for _ in range(2)]
    chain = sp.csr_array(problem.mdp.state_chain(problem.policy)).toarray()
    exact = 1 / np.linalg.norm(np.linalg.inv(np.eye(1_100) - chain + 1 / 1_100), np.inf)
    assert margins[0] == margins[1]
    assert exact / 2 <= margins[0] <= 2 * exact


# Proposition 1.


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
