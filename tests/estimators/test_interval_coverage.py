"""`DiffLSTD` against the exact layer: its limit, its rate of convergence, and how often its intervals hold the limit."""

import numpy as np
import pytest
from numpy.typing import NDArray

import cesaro as cs
from cesaro.passes.standard_errors import independent, project
from cesaro.reproduce.coverage.run import KnownChain, known, simulate

pytestmark = pytest.mark.slow  # many logs

Array = NDArray[np.float64]
LOGS = 200
# At 95 % coverage a count of 200 falls outside of 180 to 198 with probability 0.0016.
ACCEPTED = range(180, 199)


def every_transition(problem: cs.LinearProblem, weights: Array | None = None) -> cs.FeatureTransitions:
    pair, next_pair, probability = problem.sample_space
    weights = probability if weights is None else weights
    return cs.FeatureTransitions(problem.X[pair], problem.r[pair], problem.X[next_pair], weights=weights)


PROBLEMS = {
    **{f"random {seed}": cs.problems.random_problem(seed) for seed in range(6)},
    **{f"skewed {seed}": cs.problems.random_problem(seed, concentration=0.3) for seed in range(3)},
    "one-hot": cs.problems.garnet(6, 2, 3, 0),
    "Boyan": cs.problems.boyan_chain(0.3, 0.7),
    "Boyan, on-policy actions": cs.problems.boyan_chain(0.9, 0.9),
}


@pytest.mark.parametrize("ridge", [0.0, 0.01, 0.1, 10.0])
@pytest.mark.parametrize("name", PROBLEMS)
def test_exact_weights_give_the_exact_limit(name: str, ridge: float) -> None:
    problem = PROBLEMS[name]
    fitted = cs.DiffLSTD(ridge=ridge, standard_errors="independent", quiet=True).fit(every_transition(problem))
    limit = problem.limit("diff-gq1", ridge=ridge)
    assert fitted.reward_rate_ == pytest.approx(limit.reward_rate, rel=1e-8, abs=1e-8)
    assert limit.weights is not None
    np.testing.assert_allclose(fitted.weights_, limit.weights, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["random 0", "one-hot", "Boyan"])
def test_exact_weights_of_a_discrete_log_give_the_exact_rate(name: str) -> None:
    problem = PROBLEMS[name]
    actions = problem.mdp.num_actions
    pair, next_pair, probability = problem.sample_space
    log = cs.Transitions(
        pair // actions,
        pair % actions,
        problem.r[pair],
        next_pair // actions,
        trajectory=np.zeros(len(pair), dtype=int),
        weights=probability,
    )
    fitted = cs.DiffLSTD(features="one-hot", quiet=True).fit(log, problem.policy)
    assert fitted.reward_rate_ == pytest.approx(problem.exact.reward_rate, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random 0", "random 3", "Boyan"])
def test_the_error_falls_with_the_root_of_the_rows(name: str) -> None:
    # Independent rows as counts of every transition. The logarithm of a root mean square over 200 logs has a standard error of
    # 1/√400, the slope over these sizes one of 0.0114: 5 on either side (error rate 6e-7), where rows are enough for linearity.
    problem, sizes = PROBLEMS[name], 2 ** np.arange(10, 19, 2)
    truth = problem.td_fixed_point().reward_rate
    assert truth is not None
    rng = np.random.default_rng(0)
    errors = np.empty((len(sizes), LOGS))
    for i, size in enumerate(sizes):
        for j in range(LOGS):
            counts = rng.multinomial(size, problem.sample_space.probability).astype(float)
            data = every_transition(problem, counts)
            errors[i, j] = cs.DiffLSTD(standard_errors="independent", quiet=True).fit(data).reward_rate_ - truth
    slope = np.polyfit(np.log(sizes), np.log(np.sqrt(np.mean(errors**2, axis=1))), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.057)


def logs(problem: KnownChain, rows: int, trajectories: int) -> list[cs.Transitions]:
    pairs = simulate(problem, LOGS * trajectories, rows // trajectories, np.random.default_rng(7))
    state, action = np.divmod(pairs.reshape(LOGS, trajectories, -1), 2)
    ids = np.repeat(np.arange(trajectories), rows // trajectories)
    reward = problem.mdp.rewards[state, action]
    return [
        cs.Transitions(s[:, :-1].ravel(), a[:, :-1].ravel(), r[:, :-1].ravel(), s[:, 1:].ravel(), trajectory=ids)
        for s, a, r in zip(state, action, reward)
    ]


SLOW = pytest.param(50, "clustered", marks=pytest.mark.slow)


@pytest.mark.slow
@pytest.mark.parametrize(("trajectories", "rule"), [(1, "long-run"), SLOW])
def test_default_intervals_cover_the_limit_on_a_sticky_chain(trajectories: int, rule: str) -> None:
    problem = known("sticky", 0.85, 0.1)
    table, truth = problem.features["misfit"], problem.truths
    # What makes the test telling: rows that repeat each other, and features that do not fit.
    assert problem.times["misfit", "rate"] > 10
    assert abs(truth["misfit", "rate"] - problem.rates[0]) > 0.05

    def features(states: NDArray[np.int64], actions: NDArray[np.int64]) -> Array:
        return np.asarray(table[states, actions])

    rates = differences = naive = 0
    for log in logs(problem, 8_000, trajectories):
        one, other = (
            cs.DiffLSTD(features=features, ridge=0.0, quiet=True).fit(log, target) for target in problem.targets
        )
        assert one.sampling_.rule == rule
        low, high = one.interval()
        rates += low <= truth["misfit", "rate"] <= high
        difference = one.sampling_.estimate(one.reward_rate_ - other.reward_rate_, one.influence_ - other.influence_)
        low, high = difference.interval()
        differences += low <= truth["misfit", "difference"] <= high
        low, high = independent(one.reward_rate_, project(one.sampling_.spans, 0, one.influence_)).interval()
        naive += low <= truth["misfit", "rate"] <= high
    assert rates in ACCEPTED
    assert differences in ACCEPTED
    assert naive < 0.6 * LOGS  # 40 % expected


def test_default_intervals_cover_the_rate_of_a_discrete_log() -> None:
    problem = known("fast", 0.85, 0.1)
    covered = 0
    for log in logs(problem, 900, 1):
        low, high = cs.DiffLSTD(quiet=True).fit(log, problem.targets[0]).interval()
        covered += low <= problem.rates[0] <= high
    assert covered in ACCEPTED
