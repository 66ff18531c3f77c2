"""Discounted fitted Q, the baseline, against a linear solve."""

import numpy as np
import pytest

import cesaro as cs
from cesaro.algorithms.saddle_point import tracked
from cesaro.approximators import MLP
from cesaro.suite.fitted_q import fitted_q

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("plain_starts", "adam_is_allowed")]


def test_fitted_q_solves_the_discounted_equations() -> None:
    # Five states in all proportions: the empirical equations have an exact solution. Averages of runs are within the noise of
    # Adam's last steps, far below the tolerance; the seed is fixed.
    rng = np.random.default_rng(1)
    here, there = rng.integers(5, size=(2, 400))
    rewards = 100 + 3 * here + rng.normal(size=400)
    discount, chain, mean = 0.9, np.zeros((5, 5)), np.zeros(5)
    for state in range(5):
        mean[state] = rewards[here == state].mean()
        chain[state] = np.bincount(there[here == state], minlength=5) / (here == state).sum()
    values = np.linalg.solve(np.eye(5) - discount * chain, mean)
    exact = (1 - discount) * values[there].mean()
    found = fitted_q(
        cs.FeatureTransitions(np.eye(5)[here], rewards, np.eye(5)[there]),
        approximator=MLP(()),
        discount=discount,
        steps=4_000,
        batch_size=64,
        step_size=0.01,
        target=tracked(0.1),
        seeds=3,
    )
    # The mean logged reward is off by more than the tolerance, so that the start does not pass.
    assert abs(rewards.mean() - exact) > 0.1
    np.testing.assert_allclose(found.rates, exact, atol=0.05)
    np.testing.assert_allclose(found.tracked[:, -10:].mean(axis=1), exact, atol=0.1)
