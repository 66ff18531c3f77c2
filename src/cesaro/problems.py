"""Known problems. Each is a `LinearProblem` with a default policy, sampling distribution and features to override."""

import math
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from cesaro import checks, exact
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.linear import LinearProblem
from cesaro.mdp import TabularMDP

# Up to this many pairs the default features are one-hot; beyond, RANDOM_FEATURES seeded Gaussian ones.
ONE_HOT_PAIRS = 500
RANDOM_FEATURES = 32
# Chains with more states than this are stored sparse.
DENSE_STATES = 1_000
# Numbers of one array, and servers, whose transitions are a dense matrix.
MOST_NUMBERS, MOST_SERVERS = 100_000_000, 10_000


def boyan_chain(
    pi0: float = 0.5,
    mu0: float = 0.5,
    *,
    policy: ArrayLike | None = None,
    sampling: ArrayLike | None = None,
    features: ArrayLike | None = None,
) -> LinearProblem:
    """Boyan's chain as in Figure 2 of the paper: 13 states, 2 actions, 6 features.

    In `s_i`, `i ≥ 2`, action 0 jumps to `s_{i−2}` and earns 1, action 1 steps to `s_{i−1}` and earns 2; `s_1` leads to `s_0`
    and `s_0` to any state. The target takes action 0 with probability `pi0`, so that its rate is `2 − pi0`; sampling is
    uniform over states and takes action 0 with probability `mu0`. State features interpolate between anchors at
    `s_12, s_8, s_4, s_0`; the action is appended one-hot. These features have rank 5 and contain the constant.
    """
    share = _probability("pi0", pi0), _probability("mu0", mu0)
    states, actions = 13, 2
    probabilities = np.zeros((states, actions, states))
    for s in range(2, states):
        probabilities[s, 0, s - 2] = probabilities[s, 1, s - 1] = 1.0
    probabilities[1, :, 0] = 1.0
    probabilities[0] = 1 / states
    mdp = TabularMDP(probabilities, np.tile([1.0, 2.0], (states, 1)))
    distance = np.abs(np.arange(states)[:, None] - np.array([12, 8, 4, 0]))
    state_features = np.maximum(1 - distance / 4, 0.0)
    default = np.concatenate(
        [np.repeat(state_features[:, None], actions, axis=1), np.tile(np.eye(actions), (states, 1, 1))], axis=2
    )
    target, behavior = (np.tile([p, 1 - p], (states, 1)) for p in share)
    return _problem(mdp, policy, target, sampling, behavior / states, features, default)


def two_state_counterexample(
    *, policy: ArrayLike | None = None, sampling: ArrayLike | None = None, features: ArrayLike | None = None
) -> LinearProblem:
    """Two states on which Diff-SGQ diverges at every step size: `A = [[−1, 6], [−2, 6]]`, eigenvalues 2 and 3.

    `s_1 → s_2 → s_2`, one action, no reward, `x = 1` and `8`, sampled with 6/7 and 1/7. (A reconstruction: the paper prints
    the matrix, not the process.)
    """
    mdp = TabularMDP([[[0.0, 1.0]], [[0.0, 1.0]]], np.zeros((2, 1)))
    defaults = np.ones((2, 1)), np.array([[6 / 7], [1 / 7]]), np.array([[[1.0]], [[8.0]]])
    return _problem(mdp, policy, defaults[0], sampling, defaults[1], features, defaults[2])


def garnet(
    num_states: int = 20,
    num_actions: int = 3,
    branching: int = 3,
    seed: int = 0,
    *,
    policy: ArrayLike | None = None,
    sampling: ArrayLike | None = None,
    features: ArrayLike | None = None,
) -> LinearProblem:
    """A random MDP: every pair leads to `branching` states with random probabilities, and earns a standard normal reward.

    It is irreducible under every policy by construction: one successor of each pair is the next state of a random cycle
    through all states, the others are drawn at random (a state drawn twice adds up). The default policy is Dirichlet(1) in
    each state; default sampling is uniform over states with random actions. Sparse from 1,000 states on.
    """
    S, A, k = _sizes(num_states=num_states, num_actions=num_actions, branching=branching)
    if k > S:
        raise InputError(f"branching must be at most num_states = {S}. Got {k}.")
    rng = np.random.default_rng(checks.count("seed", seed, low=0))
    cycle = rng.permutation(S)
    following = np.empty(S, dtype=np.int64)
    following[cycle] = np.roll(cycle, -1)
    successors = rng.integers(S, size=(S, A, k))
    successors[:, :, 0] = following[:, None]
    weights = rng.dirichlet(np.ones(k), size=(S, A))
    rows = np.repeat(np.arange(S), k)
    matrices = [sp.csr_array((weights[:, a].ravel(), (rows, successors[:, a].ravel())), shape=(S, S)) for a in range(A)]
    mdp = TabularMDP(_storage(matrices, S), rng.normal(size=(S, A)))
    target, behavior = rng.dirichlet(np.ones(A), size=S), rng.dirichlet(np.ones(A), size=S)
    return _problem(mdp, policy, target, sampling, behavior / S, features, _default_features(S, A, rng))


def access_control_queue(
    num_servers: int = 10,
    priorities: Sequence[float] = (1, 2, 4, 8),
    free_probability: float = 0.06,
    *,
    policy: ArrayLike | None = None,
    sampling: ArrayLike | None = None,
    features: ArrayLike | None = None,
) -> LinearProblem:
    """Sutton and Barto's access-control queue (section 10.3): accept (action 1) or reject (0) the customer at the head.

    Accepting earns the customer's priority and takes one free server; without a free server the customer is rejected.
    Then every busy server becomes free with `free_probability`, and the next customer's priority is uniform. State
    `f·len(priorities) + i`: `f` free servers, priority number `i`. The default target rejects the cheaper half of customers
    unless more than half of the servers are free; default sampling is the stationary law of accepting with probability ½.
    """
    from scipy.stats import binom  # takes longer to load than all other problems together

    servers = checks.count("num_servers", num_servers, high=MOST_SERVERS)
    prizes = checks.float_array("priorities", priorities, ("priority",), (None,))
    p = checks.number("free_probability", free_probability, low=0.0, low_open=True, high=1.0)
    levels, states = len(prizes), (servers + 1) * len(prizes)
    by_free = np.zeros((servers + 1, servers + 1))  # free servers after the decision -> free servers next
    for busy in range(servers + 1):
        by_free[servers - busy, servers - busy :] = binom.pmf(np.arange(busy + 1), busy, p)
    after = np.stack([np.arange(servers + 1), np.maximum(np.arange(servers + 1) - 1, 0)], axis=1)  # [free, action]
    next_free = np.repeat(by_free[after], levels, axis=0)  # [state, action, free]
    probabilities = np.repeat(next_free, levels, axis=2) / levels
    free, prize = np.repeat(np.arange(servers + 1), levels), np.tile(prizes, servers + 1)
    rewards = np.stack([np.zeros(states), np.where(free > 0, prize, 0.0)], axis=1)
    mdp = TabularMDP(probabilities, rewards)
    accept = (prize > np.median(prizes)) | (free > servers / 2)
    target = np.stack([~accept, accept], axis=1).astype(float)
    behavior = exact.stationary_distribution(mdp, np.full((states, 2), 0.5)) if sampling is None else None
    return _problem(mdp, policy, target, sampling, behavior, features, _default_features(states, 2))


def birth_death_queue(
    num_states: int = 50,
    arrival: float = 0.3,
    service: Sequence[float] = (0.25, 0.45),
    holding_cost: float = 1.0,
    service_cost: Sequence[float] = (0.0, 5.0),
    *,
    policy: ArrayLike | None = None,
    sampling: ArrayLike | None = None,
    features: ArrayLike | None = None,
) -> LinearProblem:
    """A single-server queue of at most `num_states − 1` customers whose service speed is the action.

    In one step a customer arrives with probability `arrival` or one is served with probability `service[a]`; the reward is
    `−holding_cost · length − service_cost[a]`. The default target serves fast from the third customer on. Default
    sampling is the stationary law of a random speed, mixed evenly with the uniform law, so that long queues are covered.
    """
    S = checks.count("num_states", num_states, low=2, high=MOST_NUMBERS)
    up = checks.number("arrival", arrival, low=0.0, low_open=True, high=1.0)
    down = checks.float_array("service", service, ("action",), (None,))
    cost = checks.float_array("service_cost", service_cost, ("action",), (len(down),))
    if (down <= 0).any() or (up + down > 1).any():
        raise InputError(
            f"service must be positive with arrival + service ≤ 1. Got arrival {up:g} and service {down.tolist()}."
        )
    per_customer = checks.number("holding_cost", holding_cost, low=0.0)
    matrices = []
    for speed in down:
        stay = np.full(S, 1 - up - speed)
        stay[0], stay[-1] = 1 - up, 1 - speed
        matrices.append(
            sp.csr_array(sp.diags_array([np.full(S - 1, speed), stay, np.full(S - 1, up)], offsets=[-1, 0, 1]))
        )
    length, A = np.arange(S), len(down)
    mdp = TabularMDP(_storage(matrices, S), -per_customer * length[:, None] - cost)
    target = np.zeros((S, A))
    target[np.arange(S), np.where(length >= 3, int(np.argmax(down)), int(np.argmin(down)))] = 1.0
    behavior = None
    if sampling is None:
        behavior = 0.5 * exact.stationary_distribution(mdp, np.full((S, A), 1 / A)) + 0.5 / (S * A)
    return _problem(mdp, policy, target, sampling, behavior, features, _default_features(S, A))


def random_problem(
    seed: int,
    num_states: int = 7,
    num_actions: int = 3,
    num_features: int = 3,
    *,
    concentration: float = 1.0,
    on_policy: bool = False,
) -> LinearProblem:
    """A small random problem for property tests: Dirichlet rows, normal rewards, Gaussian features with a random offset.

    `concentration` of the rows, the policy and the sampling distribution: small values give nearly deterministic processes and
    skewed sampling. `on_policy` samples from the target's own stationary law.
    """
    S, A, K = _sizes(num_states=num_states, num_actions=num_actions, num_features=num_features)
    _sizes(num_states=S, num_actions=A, num_next_states=S)
    spread = checks.number("concentration", concentration, low=0.0, low_open=True)
    rng = np.random.default_rng(checks.count("seed", seed, low=0))
    # A small uniform part keeps every chain irreducible however small the concentration.
    probabilities = 0.99 * rng.dirichlet(np.full(S, spread), size=(S, A)) + 0.01 / S
    mdp = TabularMDP(probabilities, rng.normal(size=(S, A)))
    policy = rng.dirichlet(np.full(A, spread), size=S)
    features = rng.normal(size=(S, A, K)) + rng.normal(size=K)
    sampling = 0.99 * rng.dirichlet(np.full(S * A, spread)).reshape(S, A) + 0.01 / (S * A)
    if on_policy:
        policy = 0.9 * policy + 0.1 / A
        sampling = exact.stationary_distribution(mdp, policy)
    return LinearProblem(mdp, policy=policy, sampling=sampling, features=features)


def _problem(
    mdp: TabularMDP,
    policy: ArrayLike | None,
    default_policy: Array,
    sampling: ArrayLike | None,
    default_sampling: Array | None,
    features: ArrayLike | None,
    default_features: Array,
) -> LinearProblem:
    def pick(given: ArrayLike | None, default: Array | None) -> ArrayLike:
        return given if given is not None else np.asarray(default)

    return LinearProblem(
        mdp,
        policy=pick(policy, default_policy),
        sampling=pick(sampling, default_sampling),
        features=pick(features, default_features),
    )


def _default_features(states: int, actions: int, rng: np.random.Generator | None = None) -> Array:
    if states * actions <= ONE_HOT_PAIRS:
        return np.eye(states * actions).reshape(states, actions, -1)
    return (rng or np.random.default_rng(0)).normal(size=(states, actions, RANDOM_FEATURES))


def _storage(matrices: list[sp.csr_array], states: int) -> list[sp.csr_array] | Array:
    if states > DENSE_STATES:
        return matrices
    return np.stack([m.toarray() for m in matrices], axis=1)


def _sizes(**sizes: int) -> list[int]:
    """Counts whose product is the size of an array."""
    found = [checks.count(name, size, high=MOST_NUMBERS) for name, size in sizes.items()]
    if math.prod(found) > MOST_NUMBERS:
        raise InputError(
            f"{' × '.join(sizes)} must be at most {MOST_NUMBERS:,}. Got {' × '.join(f'{size:,}' for size in found)}; take fewer."
        )
    return found


def _probability(name: str, value: float) -> float:
    result = checks.number(name, value, low=0.0)
    if result > 1:
        raise InputError(f"{name} must be a probability. Got {value!r}.")
    return result
