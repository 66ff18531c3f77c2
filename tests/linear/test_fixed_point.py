"""TD fixed points: unique, none or many, and what does not depend on the units of features."""

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from numpy.typing import NDArray

import cesaro as cs

Array = NDArray[np.float64]


def cycle(rewards: list[float], sampling: list[float], features: list[list[float]]) -> cs.LinearProblem:
    """A deterministic cycle with one action."""
    size = len(rewards)
    mdp = cs.TabularMDP(np.roll(np.eye(size), 1, axis=1)[:, None], np.array(rewards)[:, None])
    d = np.array(sampling)[:, None]
    return cs.LinearProblem(mdp, policy=np.ones((size, 1)), sampling=d / d.sum(), features=np.array(features)[:, None])


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 3))
def test_unique_fixed_point_solves_the_equations(seed: int, states: int, actions: int) -> None:
    rng = np.random.default_rng(seed)
    problem = cs.problems.random_problem(seed, states, actions, int(rng.integers(1, states * actions)))
    point = problem.td_fixed_point()
    if point.conditioning < 1e-8:
        return
    assert point.kind == "unique"
    assert point.rate_is_unique
    assert point.rank == problem.num_features
    assert point.reward_rate is not None
    assert point.weights is not None
    u = np.append(point.reward_rate, point.weights)
    scale = 1 + np.abs(problem.A).max() * np.abs(u).max()
    assert np.abs(problem.A @ u + problem.b).max() <= 1e-9 * scale
    np.testing.assert_allclose(u, -np.linalg.solve(problem.A, problem.b), rtol=0, atol=1e-6 * scale)
    for method in ("diff-gq1", "diff-gq2"):
        assert problem.mspbe(1, point.reward_rate, point.weights) <= 1e-12 * scale**2
        assert problem.limit(method).reward_rate == pytest.approx(point.reward_rate, abs=1e-5 * scale)


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 3), st.integers(1, 5))
def test_on_policy_the_rate_is_exact_whatever_the_features(seed: int, states: int, actions: int, features: int) -> None:
    problem = cs.problems.random_problem(seed, states, actions, features, on_policy=True)
    point = problem.td_fixed_point()
    assert point.kind in ("unique", "many")
    assert point.rate_is_unique
    assert point.reward_rate == pytest.approx(problem.exact.reward_rate, abs=1e-9)


def test_sampling_from_elsewhere_biases_the_rate() -> None:
    """The property above is about on-policy sampling, not about the test problem."""
    errors = [
        abs((p := cs.problems.random_problem(seed)).td_fixed_point().reward_rate - p.exact.reward_rate)  # type: ignore[operator]
        for seed in range(10)
    ]
    assert min(errors) > 1e-4


# Many.


@pytest.mark.parametrize(("pi0", "mu0"), [(0.1, 0.1), (0.1, 0.9), (0.5, 0.5), (0.9, 0.5)])
def test_many_fixed_points_with_one_rate_on_boyans_chain(pi0: float, mu0: float) -> None:
    problem = cs.problems.boyan_chain(pi0, mu0)
    point = problem.td_fixed_point()
    assert point.kind == "many"
    assert point.rate_is_unique
    assert point.reward_rate == pytest.approx(2 - pi0, abs=1e-12)
    assert point.rank == np.linalg.matrix_rank(problem.A2, tol=1e-10) == 4
    least_norm(problem, point)


@pytest.mark.parametrize("seed", range(6))
def test_many_fixed_points_with_one_rate_for_one_hot_features(seed: int) -> None:
    problem = cs.problems.garnet(4, 2, 2, seed=seed)
    point = problem.td_fixed_point()
    assert point.kind == "many"
    assert point.rate_is_unique
    assert point.rank == 7
    assert point.reward_rate == pytest.approx(problem.exact.reward_rate, abs=1e-10)
    assert point.weights is not None
    # Values are determined up to a constant; least norm makes their plain mean zero.
    q = problem.exact.differential_values.ravel()
    np.testing.assert_allclose(point.weights, q - q.mean(), atol=1e-9)
    least_norm(problem, point)


def least_norm(problem: cs.LinearProblem, point: object) -> None:
    """Against the pseudo-inverse, which knows nothing of scaling."""
    weights = point.weights  # type: ignore[attr-defined]
    assert np.abs(problem.A2 @ weights + problem.b2).max() <= 1e-11
    expected = -np.linalg.pinv(problem.A2, rcond=1e-10) @ problem.b2
    np.testing.assert_allclose(weights, expected, atol=1e-9)


def test_copies_and_zeros_of_features_leave_the_rate() -> None:
    problem = cs.problems.random_problem(5, 4, 2, 2)
    base = problem.td_fixed_point()
    x = problem.features
    for extra in (
        x[..., :1],
        -3 * x[..., 1:],
        np.zeros_like(x[..., :1]),
        x[..., :1] + 2 * x[..., 1:],
        np.ones_like(x[..., :1]),
    ):
        point = problem.replace(features=np.concatenate([x, extra], axis=2)).td_fixed_point()
        assert point.kind == "many"
        assert point.rate_is_unique
        assert point.reward_rate == pytest.approx(base.reward_rate, abs=1e-10)


def test_many_fixed_points_that_disagree_on_the_rate() -> None:
    """`A2 = 0` and constant rewards: every `w` solves, and `r̂ = 1 + g·w` with `g ≠ 0` takes every value."""
    sampling = sampling_without_slope()
    problem = cycle([1.0, 1.0, 1.0], sampling, [[1.0], [2.0], [4.0]])
    assert np.abs(problem.A2).max() < 1e-14
    assert abs(problem.g[0]) > 1e-2
    point = problem.td_fixed_point()
    assert point.kind == "many"
    assert not point.rate_is_unique
    assert point.rank == 0
    assert point.reward_rate == pytest.approx(1.0, abs=1e-12)  # of the least-norm solution w = 0
    assert point.weights is not None
    np.testing.assert_allclose(point.weights, [0.0], atol=1e-12)
    with pytest.raises(cs.NoLimitError, match="several rates"):
        problem.limit("diff-gq1")


def test_a_single_constant_feature_determines_nothing_but_the_mean_reward() -> None:
    """`x = 1`: no value is learned, and the only rate that fits is the mean reward under sampling."""
    base = cs.problems.random_problem(7, 4, 2, 1)
    for constant in (1.0, -250.0, 1e-5):
        problem = base.replace(features=np.full((4, 2, 1), constant))
        point = problem.td_fixed_point()
        assert point.kind == "many"
        assert point.rate_is_unique
        assert point.reward_rate == pytest.approx(problem.d @ problem.r, abs=1e-12)
        assert point.weights is not None
        np.testing.assert_allclose(point.weights, [0.0], atol=1e-9)


def test_zero_features_and_one_pair() -> None:
    zero = cs.problems.random_problem(7, 4, 2, 1).replace(features=np.zeros((4, 2, 2)))
    one = cs.LinearProblem(cs.TabularMDP([[[1.0]]], [[2.5]]), policy=[[1]], sampling=[[1]], features=[[[3.0]]])
    for problem in (zero, one):
        point = problem.td_fixed_point()
        assert point.kind == "many"
        assert point.rate_is_unique
        assert point.reward_rate == pytest.approx(problem.d @ problem.r, abs=1e-12)
        assert point.weights is not None
        np.testing.assert_allclose(point.weights, 0.0, atol=1e-12)


def test_more_features_than_pairs() -> None:
    problem = cs.problems.random_problem(3, 2, 2, 9)
    point = problem.td_fixed_point()
    assert point.kind == "many"
    assert point.rate_is_unique
    assert point.rank == 3
    assert point.reward_rate == pytest.approx(problem.exact.reward_rate, abs=1e-9)  # the features say everything
    least_norm(problem, point)


# None.


def sampling_without_slope() -> list[float]:
    """Sampling of a 3-cycle with `x = (1, 2, 4)` at which `A2 = 0`."""
    x, moved = np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, -3.0])
    low, high = np.array([0.495, 0.495, 0.01]), np.full(3, 1 / 3)

    def a2(share: float) -> float:
        d = (1 - share) * low + share * high
        return float((d * (x - d @ x)) @ moved)

    share = scipy.optimize.brentq(a2, 0, 1, xtol=1e-16)
    return [float(x) for x in (1 - share) * low + share * high]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("reward_scale", [1e-8, 1.0, 1e8])
def test_no_fixed_point_where_the_equations_contradict_each_other(scale: float, reward_scale: float) -> None:
    problem = cycle([reward_scale, 0.0, 0.0], sampling_without_slope(), [[scale], [2 * scale], [4 * scale]])
    point = problem.td_fixed_point()
    assert point.kind == "none"
    assert point.reward_rate is None
    assert point.weights is None
    assert point.rank == 0
    assert point.residual == pytest.approx(1)


def test_no_fixed_point_beside_a_harmless_feature() -> None:
    """The contradiction is in one direction only: rank 1 of 2."""
    sampling = np.outer(sampling_without_slope(), [0.5, 0.5])
    # Two independent copies side by side: the first feature lives on the 3-cycle, the second on a coin.
    chain = np.kron(np.roll(np.eye(3), 1, axis=1), np.full((2, 2), 0.5))
    mdp = cs.TabularMDP(chain[:, None], (np.array([1.0, 0, 0])[:, None] + np.array([0.0, 1.0])).reshape(-1, 1))
    x = np.stack([np.repeat([1.0, 2.0, 4.0], 2), np.tile([1.0, -1.0], 3)], axis=1)
    problem = cs.LinearProblem(mdp, policy=np.ones((6, 1)), sampling=sampling.reshape(6, 1), features=x[:, None])
    point = problem.td_fixed_point()
    assert point.kind == "none"
    assert point.rank == 1
    second = problem.replace(features=x[:, None, 1:])
    assert second.td_fixed_point().kind == "unique"


# Units.


@pytest.mark.parametrize("name", ["unique", "boyan", "one-hot"])
@pytest.mark.parametrize("seed", range(4))
def test_units_of_features_change_nothing(name: str, seed: int) -> None:
    problem = {
        "unique": lambda: cs.problems.random_problem(seed, 4, 2, 4),
        "boyan": lambda: cs.problems.boyan_chain(0.3, 0.7),
        "one-hot": lambda: cs.problems.garnet(3, 2, 2, seed=seed),
    }[name]()
    scales = 10.0 ** np.random.default_rng(seed).uniform(-6, 6, problem.num_features)
    scaled = problem.replace(features=problem.features * scales)
    before, after = problem.td_fixed_point(), scaled.td_fixed_point()
    assert (after.kind, after.rank, after.rate_is_unique) == (before.kind, before.rank, before.rate_is_unique)
    assert after.reward_rate == pytest.approx(before.reward_rate, abs=1e-8)
    assert before.weights is not None
    assert after.weights is not None
    # Predictions up to what is not determined: a constant where the constant is in the span.
    q, q_scaled = problem.X @ before.weights, scaled.X @ after.weights
    if before.kind == "many":
        q, q_scaled = q - problem.d @ q, q_scaled - problem.d @ q_scaled
    np.testing.assert_allclose(q_scaled, q, atol=1e-6 * (1 + np.abs(q).max()))


@pytest.mark.parametrize("offset", [1.0, 1e3, 1e6])
def test_an_offset_of_features_changes_no_prediction(offset: float) -> None:
    """Values are determined up to a constant, so shifting a feature may shift `Xw` by a constant and nothing else."""
    for seed in range(5):
        problem = cs.problems.random_problem(seed, 4, 2, 2)
        shifted = problem.replace(features=problem.features + offset)
        before, after = problem.td_fixed_point(), shifted.td_fixed_point()
        assert after.kind == "unique"
        assert after.reward_rate == pytest.approx(before.reward_rate, abs=1e-15 * offset**2 + 1e-8)
        assert before.weights is not None
        assert after.weights is not None
        np.testing.assert_allclose(after.weights, before.weights, atol=1e-8 + 1e-9 * offset)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e6, 1e12])
def test_units_of_rewards_scale_the_answer(scale: float) -> None:
    for problem in (cs.problems.random_problem(1), cs.problems.boyan_chain(0.3, 0.7)):
        scaled = problem.replace(mdp=cs.TabularMDP(problem.mdp.probabilities, scale * problem.mdp.rewards))
        before, after = problem.td_fixed_point(), scaled.td_fixed_point()
        assert after.kind == before.kind
        assert before.reward_rate is not None
        assert after.reward_rate == pytest.approx(scale * before.reward_rate, rel=1e-9)


def test_constant_rewards_have_the_constant_rate() -> None:
    """`b2` is then rounding noise, which must not turn "many" into "none"."""
    for problem in (
        cs.problems.boyan_chain(0.3, 0.7),
        cs.problems.garnet(4, 2, 2, seed=0),
        cs.problems.random_problem(0),
    ):
        for level in (0.0, 0.1, -7.3, 1e9):
            same = problem.replace(mdp=cs.TabularMDP(problem.mdp.probabilities, np.full(problem.policy.shape, level)))
            point = same.td_fixed_point()
            assert point.kind == problem.td_fixed_point().kind
            assert point.reward_rate == pytest.approx(level, rel=1e-10, abs=1e-12)


def test_near_dependence_is_resolved_down_to_the_stated_tolerance() -> None:
    """A feature and its copy with a relative change of 1e-4 … 1e-8, far above 1e-12: still unique, and the rate right."""
    base = cs.problems.random_problem(2, 5, 2, 3)
    for change in (1e-4, 1e-6, 1e-8):
        features = np.stack([base.features[..., 0], base.features[..., 0] + change * base.features[..., 1]], axis=-1)
        point = base.replace(features=features).td_fixed_point()
        same_span = base.replace(features=base.features[..., :2]).td_fixed_point()
        assert point.kind == "unique"
        assert point.reward_rate == pytest.approx(same_span.reward_rate, abs=1e-15 / change + 1e-9)
