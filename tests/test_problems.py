"""The known problems against their descriptions: literal enumeration, product forms, published matrices."""

from itertools import product
from math import comb
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

import cesaro as cs
from cesaro.mdp import recurrent_classes

Array = NDArray[np.float64]


def dense(problem: cs.LinearProblem) -> Array:
    stored = problem.mdp.probabilities
    return np.stack([m.toarray() for m in stored], axis=1) if isinstance(stored, tuple) else stored


# Boyan's chain.


@pytest.mark.parametrize("pi0", [0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0])
def test_rate_of_boyans_chain(pi0: float) -> None:
    for mu0 in (0.2, 0.5, 1 - pi0):
        problem = cs.problems.boyan_chain(pi0, mu0)
        assert problem.exact.reward_rate == pytest.approx(2 - pi0, abs=1e-12)
        # q_π = r(a) − r_π up to a constant is what makes the rate of any linear method exact there.
        q = problem.exact.differential_values
        np.testing.assert_allclose(q, np.tile([1.0, 2.0], (13, 1)) - (2 - pi0), atol=1e-12)


def test_boyans_chain_as_described() -> None:
    problem = cs.problems.boyan_chain(0.3, 0.8)
    p = dense(problem)
    for i in range(2, 13):
        assert p[i, 0, i - 2] == 1
        assert p[i, 1, i - 1] == 1
    assert (p[1, :, 0] == 1).all()
    np.testing.assert_allclose(p[0], 1 / 13)
    np.testing.assert_array_equal(problem.mdp.rewards, np.tile([1.0, 2.0], (13, 1)))
    np.testing.assert_allclose(problem.policy, np.tile([0.3, 0.7], (13, 1)))
    np.testing.assert_allclose(problem.sampling, np.tile([0.8 / 13, 0.2 / 13], (13, 1)))
    expected: dict[int, list[float]] = {
        12: [1, 0, 0, 0],
        11: [0.75, 0.25, 0, 0],
        10: [0.5, 0.5, 0, 0],
        9: [0.25, 0.75, 0, 0],
        8: [0, 1, 0, 0],
        7: [0, 0.75, 0.25, 0],
        4: [0, 0, 1, 0],
        1: [0, 0, 0.25, 0.75],
        0: [0, 0, 0, 1],
    }
    for state, features in expected.items():
        np.testing.assert_array_equal(
            problem.features[state], [np.append(features, [1, 0]), np.append(features, [0, 1])]
        )
    assert problem.num_features == 6
    assert np.linalg.matrix_rank(problem.X) == 5
    ones = np.ones(26)
    np.testing.assert_allclose(problem.X @ np.linalg.lstsq(problem.X, ones)[0], ones, atol=1e-12)


# The counterexample.


def test_counterexample_has_the_published_matrix() -> None:
    problem = cs.problems.two_state_counterexample()
    np.testing.assert_allclose(problem.A, [[-1, 6], [-2, 6]], atol=1e-13)
    np.testing.assert_allclose(sorted(np.linalg.eigvals(problem.A).real), [2, 3], atol=1e-12)
    np.testing.assert_array_equal(problem.b, [0, 0])
    assert problem.exact.reward_rate == 0
    np.testing.assert_array_equal(problem.exact.stationary_distribution, [[0], [1]])
    point = problem.td_fixed_point()
    assert point.kind == "unique"
    assert point.reward_rate == 0
    assert not problem.stability("diff-sgq").converges
    for method in ("diff-gq1", "diff-gq2"):
        result = problem.stability(method)
        assert result.converges
        # MATHS.md: they need α ≤ 2⁻⁶.
        assert result.max_step_sampled is not None
        assert result.max_step_sampled >= 2.0**-6
        assert result.max_step_sampled < 2.0**-4


# Garnet.


@given(st.integers(0, 10**4), st.integers(1, 8), st.integers(1, 4))
def test_garnet_is_irreducible_under_every_policy(seed: int, states: int, actions: int) -> None:
    rng = np.random.default_rng(seed)
    problem = cs.problems.garnet(states, actions, int(rng.integers(1, states + 1)), seed=seed)
    for _ in range(5):
        policy = np.eye(actions)[rng.integers(actions, size=states)]
        classes = recurrent_classes(problem.mdp.state_chain(policy))
        assert len(classes) == 1
        assert len(classes[0]) == states
    assert (problem.exact.stationary_distribution > 0).all()


@pytest.mark.parametrize(
    ("states", "actions", "branching"), [(1, 1, 1), (5, 2, 1), (20, 3, 3), (30, 2, 30), (1_100, 2, 4)]
)
def test_garnet_has_the_shape_asked_for(states: int, actions: int, branching: int) -> None:
    problem = cs.problems.garnet(states, actions, branching, seed=1)
    assert (problem.mdp.num_states, problem.mdp.num_actions) == (states, actions)
    assert problem.mdp.is_sparse == (states > 1_000)
    p = dense(problem)
    counts = (p > 0).sum(axis=2)
    assert counts.max() <= branching
    assert (counts >= 1).all()
    if branching < states / 5:
        assert np.median(counts) == branching  # coincidences are rare
    pairs = states * actions
    assert problem.num_features == (pairs if pairs <= 500 else 32)
    if pairs <= 500:
        np.testing.assert_array_equal(problem.X, np.eye(pairs))


def test_garnet_is_reproducible_and_seeds_differ() -> None:
    one, same, other = (cs.problems.garnet(15, 2, 3, seed=s) for s in (7, 7, 8))
    for field in ("policy", "sampling", "features"):
        np.testing.assert_array_equal(getattr(one, field), getattr(same, field))
    np.testing.assert_array_equal(dense(one), dense(same))
    np.testing.assert_array_equal(one.mdp.rewards, same.mdp.rewards)
    assert np.abs(dense(one) - dense(other)).max() > 0.1
    assert np.abs(one.mdp.rewards - other.mdp.rewards).max() > 0.1


def test_garnet_with_one_successor_is_a_cycle() -> None:
    """Period = number of states, the uniform law, whatever the policy: periodic chains are legal."""
    problem = cs.problems.garnet(12, 2, 1, seed=3)
    p = dense(problem)
    assert set(np.unique(p)) == {0.0, 1.0}
    chain = problem.mdp.state_chain(problem.policy)
    np.testing.assert_allclose(np.linalg.matrix_power(chain, 12), np.eye(12), atol=1e-14)
    assert np.abs(np.linalg.matrix_power(chain, 5) - np.eye(12)).max() == pytest.approx(1)
    np.testing.assert_allclose(problem.exact.state_distribution, 1 / 12, rtol=1e-13)
    rate = np.mean(np.sum(problem.policy * problem.mdp.rewards, axis=1))
    assert problem.exact.reward_rate == pytest.approx(rate, abs=1e-13)


# The access-control queue.


def literal_queue(servers: int, prizes: tuple[float, ...], p: float) -> tuple[Array, Array]:
    """Sutton and Barto 10.3, by enumerating which busy servers become free. State: (free servers, priority)."""
    levels = len(prizes)
    states = (servers + 1) * levels
    probabilities, rewards = np.zeros((states, 2, states)), np.zeros((states, 2))
    for free, level, action in product(range(servers + 1), range(levels), (0, 1)):
        state = free * levels + level
        accepted = action == 1 and free > 0
        rewards[state, action] = prizes[level] if accepted else 0.0
        left = free - 1 if accepted else free
        busy = servers - left
        for freed in product((0, 1), repeat=busy):
            chance = np.prod([p if f else 1 - p for f in freed])
            for following in range(levels):
                probabilities[state, action, (left + sum(freed)) * levels + following] += chance / levels
    return probabilities, rewards


@pytest.mark.parametrize(
    ("servers", "prizes", "p"),
    [(1, (3.0,), 0.5), (2, (1.0, 5.0), 0.3), (4, (1.0, 2.0, 4.0, 8.0), 0.06), (6, (2.0, 1.0), 0.9)],
)
def test_access_control_queue_against_literal_enumeration(servers: int, prizes: tuple[float, ...], p: float) -> None:
    problem = cs.problems.access_control_queue(servers, prizes, p)
    probabilities, rewards = literal_queue(servers, prizes, p)
    np.testing.assert_allclose(dense(problem), probabilities, atol=1e-14)
    np.testing.assert_array_equal(problem.mdp.rewards, rewards)


def test_best_policy_of_the_access_control_queue() -> None:
    """Policy improvement on exact values ends where relative value iteration does, at a threshold for each priority."""
    problem = cs.problems.access_control_queue()
    assert problem.mdp.num_states == 44
    rewards, probabilities = problem.mdp.rewards, dense(problem)
    policy = np.tile([0.0, 1.0], (44, 1))
    for _ in range(30):  # policy improvement on exact values
        q = cs.exact.differential_values(problem.mdp, policy)
        policy = np.eye(2)[np.argmax(q + np.array([1e-12, 0.0]), axis=1)]
    best = cs.exact.reward_rate(problem.mdp, policy)
    # Relative value iteration, an independent algorithm, finds the same optimum.
    values = np.zeros(44)
    for _ in range(4_000):
        backup = (rewards + probabilities @ values).max(axis=1)
        gain, values = backup - values, backup - backup[0]
    assert np.ptp(gain) < 1e-9
    assert best == pytest.approx(gain.mean(), abs=1e-9)
    assert problem.exact.reward_rate <= best + 1e-12
    greedy = np.argmax(rewards + probabilities @ values, axis=1).reshape(11, 4)
    accepts = policy[:, 1].reshape(11, 4)
    np.testing.assert_array_equal(accepts[1:], greedy[1:])
    assert (np.diff(accepts[1:], axis=0) >= 0).all()  # more free servers, more customers
    assert (np.diff(accepts[1:], axis=1) >= 0).all()  # higher priority first
    assert accepts[1:, 3].all()


@pytest.mark.slow
def test_access_control_queue_against_a_simulation() -> None:
    """60,000 steps of the story itself; the mean reward is within four standard errors (20 batch means)."""
    problem = cs.problems.access_control_queue(3, (1.0, 4.0), 0.2)
    rng = np.random.default_rng(12)
    accept = problem.policy[:, 1].reshape(4, 2)
    free, total = 3, []
    uniform, prizes = rng.random((60_000, 4)).tolist(), rng.integers(2, size=60_000).tolist()
    for u, level in zip(uniform, prizes):
        reward = 0.0
        if free > 0 and u[3] < accept[free, level]:
            reward, free = (1.0, 4.0)[level], free - 1
        total.append(reward)
        free += sum(x < 0.2 for x in u[: 3 - free])
    batches = np.array(total).reshape(20, -1).mean(axis=1)
    error = batches.std(ddof=1) / np.sqrt(20)
    assert error < 0.02
    assert abs(batches.mean() - problem.exact.reward_rate) < 4 * error


def test_access_control_queue_defaults() -> None:
    problem = cs.problems.access_control_queue()
    np.testing.assert_array_equal(problem.X, np.eye(88))
    coin = np.full((44, 2), 0.5)
    np.testing.assert_allclose(problem.sampling, cs.exact.stationary_distribution(problem.mdp, coin), rtol=1e-12)
    accepts = problem.policy[:, 1].reshape(11, 4)
    np.testing.assert_array_equal(accepts[3], [0, 0, 1, 1])
    np.testing.assert_array_equal(accepts[6], [1, 1, 1, 1])
    assert sum(comb(10, k) * 0.06**k * 0.94 ** (10 - k) for k in range(11)) == pytest.approx(1)


# The birth-death queue.


@pytest.mark.parametrize("states", [2, 3, 50, 1_000, 1_500])
def test_birth_death_queue_has_its_product_form(states: int) -> None:
    problem = cs.problems.birth_death_queue(states, 0.3, (0.25, 0.45), holding_cost=2.0, service_cost=(0.5, 4.0))
    assert problem.mdp.is_sparse == (states > 1_000)
    length = np.arange(states)
    fast = length >= 3
    np.testing.assert_array_equal(problem.policy, np.stack([~fast, fast], axis=1))
    service = np.where(fast, 0.45, 0.25)
    logs = np.concatenate([[0.0], np.cumsum(np.log(0.3) - np.log(service[1:]))])
    law = np.exp(logs - logs.max())
    law /= law.sum()
    found = problem.exact.state_distribution
    visible = law > 1e-290
    np.testing.assert_allclose(found[visible], law[visible], rtol=1e-11)
    reward = -2.0 * length - np.where(fast, 4.0, 0.5)
    assert problem.exact.reward_rate == pytest.approx(law @ reward, rel=1e-11)
    # One step by hand.
    p = dense(problem)
    for s, action in ((0, 0), (1, 1), (states - 1, 0)):
        row = np.zeros(states)
        up, down = (0.3 if s < states - 1 else 0.0), ((0.25, 0.45)[action] if s > 0 else 0.0)
        row[min(s + 1, states - 1)] += up
        row[max(s - 1, 0)] += down
        row[s] += 1 - up - down
        np.testing.assert_allclose(p[s, action], row, atol=1e-15)


def test_birth_death_queue_covers_long_queues() -> None:
    problem = cs.problems.birth_death_queue(60)
    assert problem.sampling.min() >= 0.5 / 120
    assert problem.sampling.sum() == pytest.approx(1)
    random_speed = cs.exact.stationary_distribution(problem.mdp, np.full((60, 2), 0.5))
    np.testing.assert_allclose(problem.sampling, 0.5 * random_speed + 0.5 / 120, rtol=1e-12)


def test_birth_death_queue_that_never_rests() -> None:
    """arrival + service = 1: a walk that always moves, except at the ends."""
    problem = cs.problems.birth_death_queue(10, 0.3, (0.7,), service_cost=(0.0,))
    assert np.diag(dense(problem)[:, 0])[1:-1] == pytest.approx(0, abs=1e-16)
    law = (3 / 7) ** np.arange(10)
    np.testing.assert_allclose(problem.exact.state_distribution, law / law.sum(), rtol=1e-12)


# Random problems.


def test_random_problem_is_reproducible_and_as_described() -> None:
    one, same, other = (cs.problems.random_problem(s, 5, 2, 3) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.A, same.A)
    assert np.abs(one.A - other.A).max() > 1e-2
    for concentration in (1e-3, 0.1, 1.0, 100.0):
        problem = cs.problems.random_problem(0, 5, 2, 3, concentration=concentration)
        assert dense(problem).min() >= 0.01 / 5 * (1 - 1e-12)
        assert problem.sampling.min() >= 0.01 / 10 * (1 - 1e-12)
    on_policy = cs.problems.random_problem(0, 5, 2, 3, on_policy=True)
    np.testing.assert_allclose(on_policy.sampling, on_policy.exact.stationary_distribution, rtol=1e-12)
    assert np.abs(on_policy.g).max() < 1e-13


# Overriding, and wrong arguments.


@pytest.mark.parametrize(
    "build",
    [
        cs.problems.boyan_chain,
        cs.problems.two_state_counterexample,
        cs.problems.garnet,
        cs.problems.access_control_queue,
        cs.problems.birth_death_queue,
    ],
)
def test_policy_sampling_and_features_can_be_given(build: Any) -> None:
    shape = build().policy.shape
    policy = np.full(shape, 1 / shape[1])
    sampling = np.full(shape, 1 / np.prod(shape))
    features = np.random.default_rng(0).normal(size=(*shape, 2))
    problem = build(policy=policy, sampling=sampling, features=features)
    np.testing.assert_allclose(problem.policy, policy, rtol=1e-15)
    np.testing.assert_allclose(problem.sampling, sampling, rtol=1e-15)
    np.testing.assert_array_equal(problem.features, features)
    with pytest.raises(cs.InputError, match="policy must have shape"):
        build(policy=np.ones((3, 7)))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("boyan_chain", {"pi0": 1.5}, "pi0 must be a .* Got 1.5"),
        ("boyan_chain", {"pi0": -0.1}, "pi0 must be a .* Got -0.1"),
        ("boyan_chain", {"mu0": np.nan}, "mu0 must be a .* Got nan"),
        ("boyan_chain", {"mu0": "half"}, "mu0 must be a .* Got 'half'"),
        ("garnet", {"num_states": 0}, "num_states must be an integer ≥ 1 and ≤ [0-9,]+. Got 0"),
        ("garnet", {"num_actions": 2.5}, "num_actions must be an integer ≥ 1 and ≤ [0-9,]+. Got 2.5"),
        ("garnet", {"num_states": True}, "num_states must be an integer ≥ 1 and ≤ [0-9,]+. Got True"),
        ("garnet", {"num_states": 3, "branching": 4}, "branching must be at most num_states = 3. Got 4"),
        ("garnet", {"seed": -1}, "seed must be an integer ≥ 0. Got -1"),
        ("garnet", {"seed": None}, "seed must be an integer ≥ 0. Got None"),
        ("access_control_queue", {"num_servers": 0}, "num_servers must be an integer ≥ 1 and ≤ [0-9,]+. Got 0"),
        ("access_control_queue", {"priorities": ()}, "priorities must have shape"),
        ("access_control_queue", {"priorities": (1, np.inf)}, "priorities must be finite. Got inf at priority 1"),
        ("access_control_queue", {"priorities": 5}, "priorities must "),
        ("access_control_queue", {"priorities": None}, "priorities must "),
        ("access_control_queue", {"priorities": "abc"}, "priorities must be a real array"),
        ("access_control_queue", {"free_probability": 0}, "free_probability must be a number > 0 and < 1. Got 0"),
        ("access_control_queue", {"free_probability": 1}, "free_probability must be a number > 0 and < 1. Got 1"),
        ("birth_death_queue", {"num_states": 1}, "num_states must be an integer ≥ 2 and ≤ [0-9,]+. Got 1"),
        ("birth_death_queue", {"arrival": 0}, "arrival must be a number > 0 and < 1. Got 0"),
        ("birth_death_queue", {"arrival": 0.6}, "service must be positive with arrival"),
        ("birth_death_queue", {"service": (0.0, 0.4)}, "service must be positive"),
        ("birth_death_queue", {"service": 0.4}, "service must "),
        ("birth_death_queue", {"service_cost": (1,)}, r"service_cost must have shape \[action=2\]"),
        ("birth_death_queue", {"holding_cost": "high"}, "holding_cost must be a number"),
        ("birth_death_queue", {"holding_cost": None}, "holding_cost must be a number"),
        ("birth_death_queue", {"holding_cost": np.inf}, "holding_cost must be a number"),
        ("random_problem", {"seed": -1}, "seed must be an integer ≥ 0. Got -1"),
        ("random_problem", {"seed": 0, "concentration": 0}, "concentration must be a number > 0. Got 0"),
        ("random_problem", {"seed": 0, "num_features": 0}, "num_features must be an integer ≥ 1 and ≤ [0-9,]+. Got 0"),
    ],
)
def test_wrong_arguments_are_refused(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(cs.InputError, match=message):
        getattr(cs.problems, name)(**arguments)
