"""Residuals with the rate held, where they are known."""

from typing import Any

import numpy as np
import pytest

import cesaro as cs
from research.practice import Config
from research.practice.held import SHARES, held_residuals
from research.practice.logs import Case

pytestmark = pytest.mark.usefixtures("plain_starts", "adam_is_allowed")


def act(observations: Any) -> Any:
    return observations.sum(axis=1, keepdims=True)


@pytest.mark.slow
def test_where_no_values_help_the_residual_is_the_distance() -> None:
    """Every next pair is the pair itself, so that q cancels: δ² is var R + (share · gap)², whatever was learned."""
    rng, gap = np.random.default_rng(0), -1.5
    states, rewards = rng.normal(size=(2_000, 2)), rng.normal(2.0, 0.7, size=2_000)
    log = cs.Transitions(states, act(states), rewards, states)
    case = Case(log, cs.policy(act), (rewards.mean() + gap, 0.0), (rewards.mean(), 0.0))
    config = Config(widths=(8,), steps=20, batch_size=16)
    found = held_residuals(config, case)["held"]
    parts = rewards[:1_800], rewards[1_800:]
    expected = [[((part - rewards.mean() - share * gap) ** 2).mean() for part in parts] for share in SHARES]
    np.testing.assert_allclose(found, np.array(expected) / rewards.var(), rtol=1e-4)
    assert found[-1, 0] > 1.3 * found[0, 0]
