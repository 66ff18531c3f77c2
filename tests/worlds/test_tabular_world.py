"""Worlds of discrete logs against exact answers: the rate as rows grow, what counts leave open, and simulated logs."""

from typing import Any

import numpy as np
import pytest

import cesaro as cs
from cesaro import problems
from cesaro.errors import InputError

UNIFORM = np.full((12, 3), 1 / 3)


def _garnet(seed: int = 3) -> cs.TabularMDP:
    return problems.garnet(12, 3, 4, seed).mdp


def _log(mdp: cs.TabularMDP, behavior: Any, rows: int, rng: np.random.Generator) -> cs.Transitions:
    """One long walk."""
    assert isinstance(mdp.probabilities, np.ndarray)
    states, actions = np.empty(rows + 1, np.int64), np.empty(rows, np.int64)
    states[0] = 0
    chances = rng.random((rows, 2))
    pick, step = behavior.cumsum(axis=1), mdp.probabilities.cumsum(axis=2)
    for t in range(rows):
        actions[t] = min(int((chances[t, 0] >= pick[states[t]]).sum()), 2)
        states[t + 1] = min(int((chances[t, 1] >= step[states[t], actions[t]]).sum()), 11)
    rewards = mdp.rewards[states[:-1], actions] + 0.3 * rng.normal(size=rows)
    return cs.Transitions(states[:-1], actions, rewards, states[1:])


def _target(seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(3), size=12)


def _policy(table: np.ndarray) -> Any:
    return cs.policies.Finite([0, 1, 2], lambda states: table[states], name="target")


@pytest.mark.slow
def test_the_rate_converges_to_the_exact_one() -> None:
    """Root mean square errors over 24 logs fall like one over the root of rows: slope −0.5, ± 0.15 (4 standard errors)."""
    mdp, table = _garnet(), _target()
    truth = cs.exact.reward_rate(mdp, table)
    sizes, errors = (500, 2_000, 8_000), []
    for rows in sizes:
        rates = [
            cs.World(quiet=True)
            .fit(_log(mdp, UNIFORM, rows, np.random.default_rng([rows, k])))
            .rate(_policy(table))
            .rate
            for k in range(24)
        ]
        errors.append(np.sqrt(np.mean((np.array(rates) - truth) ** 2)))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.65 < slope < -0.35
    assert errors[-1] < 0.02


@pytest.mark.slow
def test_members_spread_as_rates_do_over_logs() -> None:
    """Within 25 % (3 standard errors of the deviation over 80 logs); fixed seeds."""
    mdp, table = _garnet(), _target()
    rates, spreads = [], []
    for k in range(80):
        found = (
            cs.World(20, quiet=True).fit(_log(mdp, UNIFORM, 1_500, np.random.default_rng([9, k]))).rate(_policy(table))
        )
        rates.append(found.rate)
        spreads.append(found.spread)
    assert np.mean(spreads) == pytest.approx(np.std(rates, ddof=1), rel=0.25)


def test_a_pair_seen_once_is_uncertain() -> None:
    """The other rows of its state lead elsewhere."""
    log = cs.Transitions(
        [0] * 50 + [1] * 50 + [0],
        [0] * 50 + [0] * 50 + [1],
        [0.0] * 50 + [1.0] * 50 + [0.5],
        [1, 0] * 25 + [0, 1] * 25 + [1],
    )
    spread = (
        cs.World(30, quiet=True)
        .fit(log)
        .rate(cs.policies.Finite([0, 1], lambda s: np.stack([s, 1 - s], axis=1) * 1.0))
        .spread
    )
    known = (
        cs.World(30, quiet=True)
        .fit(log)
        .rate(cs.policies.Finite([0, 1], lambda s: np.stack([s * 0 + 1, s * 0], axis=1) * 1.0))
        .spread
    )
    assert spread > 1.5 * known > 0


def test_a_simulated_log_is_like_the_real_one() -> None:
    mdp, table = _garnet(), _target()
    log = _log(mdp, UNIFORM, 20_000, np.random.default_rng(0))
    world = cs.World(quiet=True).fit(log)
    made = world.simulate(_policy(table), 50, 400, np.random.default_rng(1))
    assert made.action_levels is not None
    assert (made.action_levels == [0, 1, 2]).all()
    assert made.counts["trajectories"] == 50
    occupied = np.bincount(made.observations.plain(), minlength=12) / len(made)
    exact = cs.exact.stationary_distribution(mdp, table).sum(axis=1)
    assert np.abs(occupied - exact).max() < 0.03
    again = world.simulate(_policy(table), 50, 400, np.random.default_rng(1))
    assert (again.rewards == made.rewards).all()
    cloned = world.rate("logged")
    assert cloned.rate == pytest.approx(float(log.rewards.mean()), abs=4 * (cloned.spread + cloned.error))
    answer = cs.evaluate(made, _policy(table), quiet=True)  # a simulated log can be evaluated
    assert abs(answer.reward_rate - cs.exact.reward_rate(mdp, table)) < 0.1


def test_what_the_log_does_not_show_is_refused() -> None:
    log = _log(_garnet(), np.tile([0.5, 0.5, 0.0], (12, 1)), 500, np.random.default_rng(0))
    with pytest.raises(InputError, match=r"holds only 0, 1"):
        cs.World(quiet=True).fit(log).rate(cs.policies.Finite([0, 1, 2], lambda s: np.full((len(s), 3), 1 / 3)))
    few = cs.Transitions([0, 1, 0, 1], [0, 1, 0, 1], [0.0, 1.0, 0.0, 1.0], [1, 0, 1, 0])
    with pytest.raises(
        InputError, match=r"comes to 2 pairs of state and action that no row has, such as \(0, 1\), \(1, 0\)"
    ):
        cs.World(quiet=True).fit(few).rate("uniform")


@pytest.mark.slow
def test_parts_that_never_meet_have_no_rate() -> None:
    log = cs.Transitions([0, 1] * 20 + [2, 3] * 20, [0] * 80, [0.0] * 40 + [1.0] * 40, [1, 0] * 20 + [3, 2] * 20)
    found = cs.World(quiet=True).fit(log)
    with pytest.raises(InputError, match="must not depend on the start"):
        found.rate("logged")


def test_evaluate_takes_it() -> None:
    mdp, table = _garnet(), _target()
    answer = cs.evaluate(
        _log(mdp, UNIFORM, 5_000, np.random.default_rng(4)), _policy(table), method="world", quiet=True
    )
    low, high = answer.interval()
    assert low < cs.exact.reward_rate(mdp, table) < high
    width = next(entry for entry in answer.diagnostics if entry.name == "width of the interval")
    difference = abs(answer.reward_rate - answer.behavior.value)
    assert width.value == pytest.approx((high - low) / 2 / difference)
    assert (high - low) / 2 > difference  # the target earns what the log does, within noise,
    assert width.verdict == "caution"  # and its rate is known as well as the log's own
    assert {entry.verdict for entry in answer.diagnostics if entry is not width} == {"ok"}
    assert "learned process" in answer.to_dict()["settings"]["method"]
    assert np.isfinite(answer.difference.standard_error)
    values = answer.estimator.predict([0, 1, 2], [0, 1, 2])
    exact = cs.exact.differential_values(mdp, table)[[0, 1, 2], [0, 1, 2]]
    assert np.corrcoef(values, exact)[0, 1] > 0.8
    assert values.mean() == pytest.approx(0)
    with pytest.raises(InputError, match="features must be 'auto' for a world"):
        cs.evaluate(
            _log(mdp, UNIFORM, 500, np.random.default_rng(4)),
            _policy(table),
            method="world",
            features="linear",
            quiet=True,
        )
