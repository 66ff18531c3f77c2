"""Exact rate, values, stationary law and density ratio against definitions, rational arithmetic and known answers."""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
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
RationalChain = Callable[[Array, Array], tuple[list[Fraction], Fraction, list[Fraction]]]

# Sizes on both sides of the block sizes of state reduction, 64 and 128, and of its strips, 256.
SIZES = [1, 2, 3, 63, 64, 65, 127, 128, 129, 200, 257, 400]


def random_mdp(rng: np.random.Generator, states: int, actions: int, branching: int) -> Array:
    """Sparse random rows and a random cycle through all states: irreducible, some pairs deterministic."""
    cycle = rng.permutation(states)
    following = np.empty(states, dtype=int)
    following[cycle] = np.roll(cycle, -1)
    probabilities = np.zeros((states, actions, states))
    for s in range(states):
        for a in range(actions):
            weights = rng.dirichlet(np.full(branching, 0.5))
            for t, w in zip([following[s], *rng.integers(states, size=branching - 1)], weights):
                probabilities[s, a, t] += w
    return probabilities


def as_sparse(probabilities: Array) -> list[Any]:
    return [sp.csr_array(probabilities[:, a]) for a in range(probabilities.shape[1])]


def chain_mdp(chain: Array, rewards: Array | None = None) -> cs.TabularMDP:
    """One action: the process is the chain."""
    return cs.TabularMDP(chain[:, None], np.zeros((len(chain), 1)) if rewards is None else rewards[:, None])


def law_of(chain: Array) -> Array:
    return cs.exact.stationary_distribution(chain_mdp(chain), np.ones((len(chain), 1)))[:, 0]


def values_of(chain: Array, rewards: Array) -> Array:
    return cs.exact.differential_values(chain_mdp(chain, rewards), np.ones((len(chain), 1)))[:, 0]


def rate_of(chain: Array, rewards: Array) -> float:
    return cs.exact.reward_rate(chain_mdp(chain, rewards), np.ones((len(chain), 1)))


def cesaro_law(chain: Array, period: int) -> Array:
    """`lim 1/T Σ Pᵗ`: for a chain of that period (or a divisor), the average of one period of a very high power."""
    high = np.linalg.matrix_power(chain, period)
    for _ in range(40):  # squaring doubles the error of the row sums each time, so they are put right
        high = high @ high
        high /= high.sum(axis=1, keepdims=True)
    total, power = np.zeros_like(chain), high
    for _ in range(period):
        total, power = total + power, power @ chain
    return total / period


# Properties on random processes.


@pytest.mark.parametrize("states", SIZES)
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_equations_hold_at_every_block_boundary(states: int, storage: str, pair_chain: PairChain) -> None:
    rng = np.random.default_rng(states)
    actions = 2
    probabilities = random_mdp(rng, states, actions, branching=3)
    rewards = rng.normal(size=(states, actions)) * 10
    policy = rng.dirichlet(np.full(actions, 0.4), size=states)
    mdp = cs.TabularMDP(probabilities if storage == "dense" else as_sparse(probabilities), rewards)
    rate = cs.exact.reward_rate(mdp, policy)
    q, law = cs.exact.differential_values(mdp, policy), cs.exact.stationary_distribution(mdp, policy)
    assert q.shape == law.shape == (states, actions)
    chain = pair_chain(probabilities, policy)
    q, law, r = q.ravel(), law.ravel(), rewards.ravel()
    scale = 1 + np.abs(q).max()
    assert np.abs(r - rate + chain @ q - q).max() <= 1e-10 * scale
    assert abs(law @ q) <= 1e-12 * scale
    assert np.abs(law @ chain - law).max() <= 1e-14
    assert law.sum() == pytest.approx(1, abs=1e-13)
    assert law.min() >= 0
    assert rate == pytest.approx(law @ r, abs=1e-12)
    # An independent solver: the definition in MATHS.md with pseudo-inverses replaced by one dense solve over pairs.
    expected = np.linalg.solve(np.eye(len(r)) - chain + law[None, :], r - law @ r)
    np.testing.assert_allclose(q, expected, rtol=0, atol=1e-9 * scale)


@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(1, 3))
def test_dense_and_sparse_agree_and_shifts_of_rewards_pass_through(seed: int, states: int, actions: int) -> None:
    rng = np.random.default_rng(seed)
    probabilities = random_mdp(rng, states, actions, branching=2)
    rewards, policy = rng.normal(size=(states, actions)), rng.dirichlet(np.ones(actions), size=states)
    dense, also_sparse = cs.TabularMDP(probabilities, rewards), cs.TabularMDP(as_sparse(probabilities), rewards)
    moved = cs.TabularMDP(probabilities, 3 * rewards + 5)
    rate, q = cs.exact.reward_rate(dense, policy), cs.exact.differential_values(dense, policy)
    assert cs.exact.reward_rate(also_sparse, policy) == pytest.approx(rate, abs=1e-13)
    np.testing.assert_allclose(cs.exact.differential_values(also_sparse, policy), q, atol=1e-11 * (1 + np.abs(q).max()))
    assert cs.exact.reward_rate(moved, policy) == pytest.approx(3 * rate + 5, abs=1e-12)
    np.testing.assert_allclose(cs.exact.differential_values(moved, policy), 3 * q, atol=1e-11 * (1 + np.abs(q).max()))


@given(st.integers(0, 10**6), st.integers(2, 12))
def test_relabelling_states_relabels_the_answers(seed: int, states: int) -> None:
    rng = np.random.default_rng(seed)
    chain = random_mdp(rng, states, 1, branching=2)[:, 0]
    rewards, order = rng.normal(size=states), rng.permutation(states)
    shuffled = chain[np.ix_(order, order)]
    np.testing.assert_allclose(law_of(shuffled), law_of(chain)[order], rtol=1e-12)
    values = values_of(chain, rewards)
    np.testing.assert_allclose(
        values_of(shuffled, rewards[order]), values[order], atol=1e-11 * (1 + np.abs(values).max())
    )


# The definition: Cesàro averages, from every start.


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3))
def test_rate_is_the_cesaro_average_from_every_start_of_a_periodic_chain(seed: int, period: int, width: int) -> None:
    """States in `period` groups, each leading to the next: exactly periodic."""
    rng = np.random.default_rng(seed)
    size = period * width
    chain = np.zeros((size, size))
    for g in range(period):
        here, there = slice(g * width, (g + 1) * width), ((g + 1) % period) * width
        chain[here, there : there + width] = rng.dirichlet(np.ones(width), size=width)
    rewards = rng.normal(size=size)
    averages = cesaro_law(chain, period)
    np.testing.assert_allclose(averages @ rewards, rate_of(chain, rewards), atol=1e-9)
    np.testing.assert_allclose(averages, np.tile(law_of(chain), (size, 1)), atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_rate_is_the_plain_long_run_average_within_its_bound(seed: int) -> None:
    """No trick with powers: `|1/T Σ_{t<T} (Pᵗ r)(s) − r_π| ≤ 2‖v‖∞/T` from every start, on a periodic chain for odd seeds."""
    rng = np.random.default_rng(seed)
    size = 9
    chain = random_mdp(rng, size, 1, branching=1 if seed % 2 else 3)[:, 0]
    rewards = rng.normal(size=size)
    rate, values = rate_of(chain, rewards), values_of(chain, rewards)
    for horizon in (10, 1_000, 4_001):
        total, expected = np.zeros(size), rewards.copy()
        for _ in range(horizon):
            total += expected
            expected = chain @ expected
        bound = 2 * np.abs(values).max() / horizon
        assert bound < 50 / horizon
        assert np.abs(total / horizon - rate).max() <= bound + 1e-12


def test_values_are_the_cesaro_definition_on_a_periodic_chain() -> None:
    """`q_π(s) = C-lim_T Σ_{t<T} (E[r_t | s] − r_π)`: partial sums oscillate with period 3, their average over it is `q_π`."""
    chain = np.array([[0, 0.25, 0.75, 0], [0, 0, 0, 1.0], [0, 0, 0, 1.0], [1.0, 0, 0, 0]])
    rewards = np.array([1.0, -2.0, 4.0, 3.0])
    rate = (1.0 + (0.25 * -2.0 + 0.75 * 4.0) + 3.0) / 3
    partial, expected, sums = np.zeros(4), rewards.copy(), []
    for _ in range(6):
        partial = partial + expected - rate
        sums.append(partial)
        expected = chain @ expected
    np.testing.assert_allclose(sums[:3], sums[3:], atol=1e-13)  # exactly periodic: the sums repeat for ever
    assert rate_of(chain, rewards) == pytest.approx(rate, abs=1e-14)
    np.testing.assert_allclose(values_of(chain, rewards), np.mean(sums, axis=0), atol=1e-13)


def test_values_are_the_cesaro_definition_on_a_chain_that_mixes() -> None:
    rng = np.random.default_rng(3)
    chain, rewards = rng.dirichlet(np.ones(6), size=6), rng.normal(size=6)
    rate, total, expected = rate_of(chain, rewards), np.zeros(6), rewards.copy()
    for _ in range(500):
        total += expected - rate
        expected = chain @ expected
    np.testing.assert_allclose(values_of(chain, rewards), total, atol=1e-11)


# Transient and absorbing states.


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 80))
def test_transient_states_get_exact_zeros(seed: int, recurrent: int, transient: int) -> None:
    rng = np.random.default_rng(seed)
    size = recurrent + transient
    chain = np.zeros((size, size))
    core = random_mdp(rng, recurrent, 1, branching=2)[:, 0]
    chain[:recurrent, :recurrent] = core
    for s in range(recurrent, size):  # a random earlier state, and possibly any transient one
        chain[s, rng.integers(s)] += 0.5
        chain[s, rng.integers(recurrent, size)] += 0.5
    order = rng.permutation(size)
    chain, rewards = chain[np.ix_(order, order)], rng.normal(size=size)
    expected = np.zeros(size)
    expected[:recurrent] = law_of(core)
    for storage in (np.asarray, as_sparse):
        mdp = cs.TabularMDP(storage(chain[:, None]), rewards[:, None])
        law = cs.exact.stationary_distribution(mdp, np.ones((size, 1)))[:, 0]
        assert (law[order >= recurrent] == 0).all()
        np.testing.assert_allclose(law, expected[order], rtol=1e-11)
        values = cs.exact.differential_values(mdp, np.ones((size, 1)))[:, 0]
        residual = rewards - law @ rewards + chain @ values - values
        assert np.abs(residual).max() <= 1e-10 * (1 + np.abs(values).max())
        assert abs(law @ values) <= 1e-11 * (1 + np.abs(values).max())


def test_absorbing_state_earns_its_own_reward_for_ever() -> None:
    """A countdown into state 0: the rate is r(0), and the values are the rewards above it on the way."""
    size = 150
    chain = np.eye(size, k=-1)
    chain[0, 0] = 1.0
    rewards = np.arange(7.0, size + 7)
    assert rate_of(chain, rewards) == 7.0
    np.testing.assert_array_equal(law_of(chain), np.eye(size)[0])
    np.testing.assert_allclose(values_of(chain, rewards), np.cumsum(rewards - 7.0), rtol=1e-14)


def test_a_policy_decides_which_states_are_recurrent() -> None:
    stay_or_swap = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    mdp = cs.TabularMDP(stay_or_swap, [[1.0, 2.0], [3.0, 4.0]])
    assert cs.exact.reward_rate(mdp, [[0, 1], [1, 0]]) == 3.0  # moves to state 1 and stays
    assert cs.exact.reward_rate(mdp, [[1, 0], [0, 1]]) == 1.0
    assert cs.exact.reward_rate(mdp, [[0, 1], [0, 1]]) == 3.0  # swaps for ever: (2 + 4)/2
    with pytest.raises(cs.MultichainError):
        cs.exact.reward_rate(mdp, [[1, 0], [1, 0]])


def test_one_state_one_action() -> None:
    mdp = cs.TabularMDP([[[1.0]]], [[-3.5]])
    assert cs.exact.reward_rate(mdp, [[1.0]]) == -3.5
    np.testing.assert_array_equal(cs.exact.differential_values(mdp, [[1.0]]), [[0.0]])
    np.testing.assert_array_equal(cs.exact.stationary_distribution(mdp, [[1.0]]), [[1.0]])


def test_one_state_many_actions() -> None:
    rewards = np.arange(5_000.0)[None]
    mdp = cs.TabularMDP(np.ones((1, 5_000, 1)), rewards)
    policy = np.full((1, 5_000), 1 / 5_000)
    assert cs.exact.reward_rate(mdp, policy) == pytest.approx(2499.5, rel=1e-13)
    np.testing.assert_allclose(cs.exact.differential_values(mdp, policy), rewards - 2499.5, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1.0, 1e150, 1e300])
def test_rewards_of_any_size(scale: float) -> None:
    rng = np.random.default_rng(8)
    chain, rewards = rng.dirichlet(np.ones(5), size=5), rng.normal(size=5)
    assert rate_of(chain, scale * rewards) == pytest.approx(scale * rate_of(chain, rewards), rel=1e-12)
    np.testing.assert_allclose(values_of(chain, scale * rewards), scale * values_of(chain, rewards), rtol=1e-10)


def test_rewards_at_the_end_of_the_float_range_give_an_answer_or_an_error_of_ours() -> None:
    chain, rewards = np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([1.6e308, -1.6e308])
    assert rate_of(chain, rewards) == pytest.approx(0, abs=1e293)
    try:
        values = values_of(chain, rewards)
    except cs.CesaroError:
        return
    np.testing.assert_allclose(values, rewards, rtol=1e-10)


# Density ratio.


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 3))
def test_density_ratio_is_the_quotient(seed: int, states: int, actions: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = cs.TabularMDP(random_mdp(rng, states, actions, 2), np.zeros((states, actions)))
    policy = rng.dirichlet(np.ones(actions), size=states)
    sampling = rng.dirichlet(np.ones(states * actions)).reshape(states, actions)
    ratio = cs.exact.density_ratio(mdp, policy, sampling)
    np.testing.assert_allclose(ratio, cs.exact.stationary_distribution(mdp, policy) / sampling, rtol=1e-12)
    assert np.sum(sampling * ratio) == pytest.approx(1, abs=1e-12)


def test_density_ratio_needs_samples_only_where_the_policy_goes() -> None:
    # State 2 is transient, and action 1 is never taken in state 0.
    probabilities = np.zeros((3, 2, 3))
    probabilities[0, :, 1] = probabilities[1, :, 0] = probabilities[2, :, 0] = 1.0
    mdp = cs.TabularMDP(probabilities, np.zeros((3, 2)))
    policy = np.array([[1, 0], [0.5, 0.5], [0.5, 0.5]])
    ratio = cs.exact.density_ratio(mdp, policy, [[0.2, 0.0], [0.3, 0.5], [0.0, 0.0]])
    np.testing.assert_allclose(ratio, [[2.5, 0.0], [0.25 / 0.3, 0.5], [0.0, 0.0]], rtol=1e-14)
    # Where sampling goes and the policy does not, the ratio is zero.
    ratio = cs.exact.density_ratio(mdp, policy, np.full((3, 2), 1 / 6))
    np.testing.assert_allclose(ratio, [[3.0, 0.0], [1.5, 1.5], [0.0, 0.0]], rtol=1e-14)
    with pytest.raises(cs.InputError, match=r"sampling must be positive .* Got 0 at state 1, action 0 .*25"):
        cs.exact.density_ratio(mdp, policy, [[0.5, 0.0], [0.0, 0.5], [0.0, 0.0]])


# Nearly decomposable chains: every entry of the law keeps its digits.


def nearly_decomposable(rng: np.random.Generator, blocks: list[int], coupling: float) -> Array:
    """Dense random blocks, linked in both directions by single entries of about `coupling`, shuffled."""
    size = sum(blocks)
    chain = np.zeros((size, size))
    starts = np.cumsum([0, *blocks])
    for low, high in pairwise(starts):
        chain[low:high, low:high] = rng.dirichlet(np.ones(high - low), size=high - low)
    for k in range(len(blocks)):
        for step in (1, -1):
            other = (k + step) % len(blocks)
            s, t = rng.integers(starts[k], starts[k + 1]), rng.integers(starts[other], starts[other + 1])
            if s != t:
                chain[s, t] = coupling * rng.uniform(0.2, 5)
    order = rng.permutation(size)
    chain = chain[np.ix_(order, order)]
    np.fill_diagonal(chain, 0.0)
    chain *= np.where(chain > 1e-3, 0.999, 1.0)
    np.fill_diagonal(chain, 1 - chain.sum(axis=1))
    assert (np.diag(chain) >= 0).all()
    return chain


def naive_law(chain: Array) -> Array:
    """The stationary law as one would write it down first: normal equations of `d (I − P) = 0, Σ d = 1`."""
    size = len(chain)
    system = np.vstack([(np.eye(size) - chain).T, np.ones(size)])
    return np.linalg.solve(system.T @ system, system.T @ np.append(np.zeros(size), 1.0))


def worst_entry(law: Array, truth: list[Fraction]) -> float:
    return max(abs(float((Fraction(float(x)) - t) / t)) for x, t in zip(law, truth))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("coupling", [1e-3, 1e-8, 1e-12, 1e-15])
def test_nearly_decomposable_law_and_values_against_rational_arithmetic(
    seed: int, coupling: float, rational_chain: RationalChain
) -> None:
    rng = np.random.default_rng(seed)
    chain = nearly_decomposable(rng, [4, 3, 5, 2][: 2 + seed % 3], coupling)
    rewards = rng.normal(size=len(chain))
    law, rate, values = rational_chain(chain, rewards)
    for storage in (np.asarray, as_sparse):
        mdp = cs.TabularMDP(storage(chain[:, None]), rewards[:, None])
        solution = cs.exact.solve(mdp, np.ones((len(chain), 1)))
        assert worst_entry(solution.state_distribution, law) <= 1e-10
        assert solution.reward_rate == pytest.approx(float(rate), abs=1e-12)
        truth = np.array([float(v) for v in values])
        np.testing.assert_allclose(solution.state_values, truth, rtol=0, atol=1e-8 * np.abs(truth).max())


def test_the_naive_solver_fails_where_ours_does_not(rational_chain: RationalChain) -> None:
    """The test above can fail: an ordinary linear solve has no correct digit."""
    chain = nearly_decomposable(np.random.default_rng(0), [4, 3], 1e-12)
    law = rational_chain(chain, np.zeros(7))[0]
    assert worst_entry(naive_law(chain), law) > 1e-3
    assert worst_entry(law_of(chain), law) < 1e-13


def test_nested_scales_against_rational_arithmetic(rational_chain: RationalChain) -> None:
    """Groups within groups, linked by 1e-4, 1e-8 and 1e-12 and in one direction much more than in the other."""
    rng = np.random.default_rng(11)
    size = 16
    strength = {0: 1.0, 1: 1e-4, 2: 1e-8, 3: 1e-12}
    chain = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            if i != j:
                level = max(0, (i ^ j).bit_length() - 1)  # 0: neighbors, 3: other half
                chain[i, j] = strength[level] * rng.uniform(0.01, 0.1) * (100.0 if j > i and level == 3 else 1.0)
    np.fill_diagonal(chain, 1 - chain.sum(axis=1))
    rewards = rng.normal(size=size)
    law, _, values = rational_chain(chain, rewards)
    truth = np.array([float(v) for v in values])
    assert worst_entry(law_of(chain), law) <= 1e-13
    assert worst_entry(naive_law(chain), law) > 1e-4
    np.testing.assert_allclose(values_of(chain, rewards), truth, rtol=0, atol=1e-8 * np.abs(truth).max())


@pytest.mark.parametrize("sizes", [(70, 130), (250, 300), (1, 400)])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_large_nearly_decomposable_chain_with_a_known_law(sizes: tuple[int, int], storage: str) -> None:
    """Two doubly stochastic blocks, entered and left through one state each: every block has constant law, and the flows
    `d_A · a = d_B · b` between the blocks balance exactly."""
    rng = np.random.default_rng(sum(sizes))
    first, second = sizes
    a, b = 3e-12, 1e-13
    chain = np.zeros((first + second, first + second))
    for low, size in ((0, first), (first, second)):
        for _ in range(5):  # an average of random permutations and staying put
            chain[low + np.arange(size), low + rng.permutation(size)] += 0.199
    # Leave through the first state of a block, arrive at the first of the other: balanced in both blocks.
    chain[0, first], chain[first, 0] = a, b
    np.fill_diagonal(chain, 0.0)
    np.fill_diagonal(chain, 1 - chain.sum(axis=1))
    # In each block: d P = d + flow·(e_enter − e_leave), and both are its first state, so the constant stays stationary.
    expected = np.concatenate([np.full(first, b), np.full(second, a)])
    expected /= expected.sum()
    order = rng.permutation(first + second)
    chain = chain[np.ix_(order, order)]
    mdp = cs.TabularMDP(chain[:, None] if storage == "dense" else [sp.csr_array(chain)], np.zeros((len(chain), 1)))
    law = cs.exact.stationary_distribution(mdp, np.ones((len(chain), 1)))[:, 0]
    np.testing.assert_allclose(law, expected[order], rtol=1e-10)
    assert np.abs(naive_law(chain) / expected[order] - 1).max() > 1e-3


@pytest.mark.parametrize("size", [65, 300, 700])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_birth_death_chain_with_broken_links_has_its_product_form(size: int, storage: str) -> None:
    rng = np.random.default_rng(size)
    up, down = rng.uniform(0.1, 0.4, size - 1), rng.uniform(0.1, 0.4, size - 1)
    cut = rng.integers(size - 1, size=5)
    up[cut] *= 1e-12
    down[cut] *= 1e-12
    chain = np.diag(up, 1) + np.diag(down, -1)
    np.fill_diagonal(chain, 1 - chain.sum(axis=1))
    logs = np.concatenate([[0.0], np.cumsum(np.log(up) - np.log(down))])
    expected = np.exp(logs - logs.max())
    expected /= expected.sum()
    mdp = cs.TabularMDP(chain[:, None] if storage == "dense" else [sp.csr_array(chain)], np.zeros((size, 1)))
    law = cs.exact.stationary_distribution(mdp, np.ones((size, 1)))[:, 0]
    np.testing.assert_allclose(law, expected, rtol=1e-10)


# Chains that span more than the range of a float.


@pytest.mark.parametrize(("up", "down"), [(0.1, 0.6), (0.6, 0.1), (0.05, 0.9), (0.3, 0.31)])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_drift_beyond_the_float_range(up: float, down: float, storage: str) -> None:
    """2,000 states with law proportional to (up/down)^k: down to 10^−2500. No warning, no NaN, right where it is a float."""
    size = 2_000
    chain = sp.diags_array([np.full(size - 1, down), np.zeros(size), np.full(size - 1, up)], offsets=[-1, 0, 1]).tolil()
    chain.setdiag(1 - np.asarray(chain.sum(axis=1)).ravel())
    rewards = np.linspace(-1, 1, size)
    dense = chain.toarray()
    mdp = cs.TabularMDP(dense[:, None] if storage == "dense" else [sp.csr_array(chain)], rewards[:, None])
    solution = cs.exact.solve(mdp, np.ones((size, 1)))
    law = solution.state_distribution
    logs = np.arange(size) * np.log(up / down)
    logs -= logs.max()
    logs -= np.log(np.exp(logs).sum())
    representable = logs > np.log(1e-300)
    np.testing.assert_allclose(np.log(law[representable]), logs[representable], rtol=1e-11, atol=1e-11)
    assert np.isfinite(law).all()
    assert (law >= 0).all()
    assert law[logs < -760].sum() == 0
    assert solution.reward_rate == pytest.approx(float(np.exp(logs) @ rewards), rel=1e-10)
    values = solution.state_values
    residual = rewards - solution.reward_rate + dense @ values - values
    assert np.abs(residual).max() <= 1e-10 * (1 + np.abs(values).max())


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize(
    ("half", "ratio", "may_refuse"),
    [
        (20, 1e-4, False),
        (60, 1e-2, False),
        (80, 1e-4, True),  # a valley of 10^−320, within one panel: below the smallest normal float
        (100, 1e-4, True),
        (100, 1e-5, True),
        (30, 1e-12, True),
        (900, 1 / 6, True),  # a valley of 10^−700 that crosses panels
    ],
)
@pytest.mark.parametrize("bump", [0, 5])
def test_two_peaks_beyond_the_float_range_of_each_other(
    half: int, ratio: float, may_refuse: bool, storage: str, bump: int
) -> None:
    """Down into a valley and up again: both peaks keep their digits, or there is an error of ours; never a lost peak."""
    size = 2 * half + 1
    rising = np.arange(size - 1) >= half
    up, down = np.where(rising, 0.4, 0.4 * ratio), np.where(rising, 0.4 * ratio, 0.4)
    up[bump] *= 3 if ratio < 0.1 else 1.4  # not symmetric; in state 0 it also moves the reference to the far peak
    chain = np.diag(up, 1) + np.diag(down, -1)
    np.fill_diagonal(chain, 1 - chain.sum(axis=1))
    logs = np.concatenate([[0.0], np.cumsum(np.log(up) - np.log(down))])
    logs -= logs.max()
    logs -= np.log(np.exp(logs).sum())
    mdp = cs.TabularMDP(chain[:, None] if storage == "dense" else [sp.csr_array(chain)], np.zeros((size, 1)))
    try:
        law = cs.exact.stationary_distribution(mdp, np.ones((size, 1)))[:, 0]
    except cs.ToleranceError:
        assert may_refuse
        return
    representable = logs > np.log(1e-290)
    assert representable[[0, 1, -2, -1]].all()
    np.testing.assert_allclose(law[representable], np.exp(logs[representable]), rtol=1e-9)


@pytest.mark.parametrize("exit_probability", [5e-324, 1e-310, 1e-300])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_exits_at_the_end_of_the_float_range_give_the_truth_or_an_error_of_ours(
    exit_probability: float, storage: str
) -> None:
    """An almost absorbing state: its mass is one to all digits. `1/exit` can overflow; the answer must not become NaN."""
    size = 21
    chain = np.diag(np.full(size - 1, 1e-3), 1) + np.diag(np.full(size - 1, 0.9), -1)
    chain[-1, -2] = 0.0
    chain[-1, 0] = exit_probability  # the only way out of the last state
    np.fill_diagonal(chain, 1 - chain.sum(axis=1))
    mdp = cs.TabularMDP(chain[:, None] if storage == "dense" else [sp.csr_array(chain)], np.zeros((size, 1)))
    try:
        law = cs.exact.stationary_distribution(mdp, np.ones((size, 1)))[:, 0]
    except cs.ToleranceError:
        return
    assert law[-1] == pytest.approx(1, abs=1e-12)


def test_a_group_whose_exit_underflows_to_zero_is_an_error() -> None:
    """Leaving the upper half needs 400 steps of 1e-3 each: a probability below the smallest float."""
    size = 401
    chain = np.diag(np.full(size - 1, 0.9), 1) + np.diag(np.full(size - 1, 1e-3), -1)
    chain[0, 1] = 1e-3
    np.fill_diagonal(chain, 1 - chain.sum(axis=1))
    law = law_of(chain)  # a product form: up/down = 900 per step, so the top state has all but 1/900 of the mass
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.append(1e-3, np.full(size - 2, 0.9))) - np.log(1e-3))])
    expected = np.exp(logs - logs.max())
    np.testing.assert_allclose(law[-60:], (expected / expected.sum())[-60:], rtol=1e-11)
