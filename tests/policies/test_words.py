"""The policies that have a word, where a newcomer uses them."""

import numpy as np
import pytest

import cesaro as cs
from cesaro.policies import attach, policy


@pytest.mark.slow
def test_uniform_on_a_box_draws_between_its_bounds() -> None:
    log = cs.collect("Pendulum-v1", "uniform", 2_000, streams=2, workers=1, quiet=True).load()
    actions = np.asarray(log.actions.plain(), dtype=np.float64)
    assert -2 <= actions.min() < -1.9
    assert 1.9 < actions.max() <= 2
    # The mean of 2,000 uniform draws has the standard error 0.026: five of them, error rate 6e-7.
    assert abs(actions.mean()) < 0.13
    assert abs(np.mean(np.abs(actions) < 1) - 0.5) < 0.06
    again = cs.collect("Pendulum-v1", "uniform", 2_000, streams=2, workers=2, quiet=True).load()
    np.testing.assert_array_equal(again.actions.plain(), actions)


def test_uniform_truth_on_a_box() -> None:
    rate = cs.monte_carlo_rate("Pendulum-v1", "uniform", 2_000, streams=2, workers=1, quiet=True)
    assert rate.policy == {"name": "uniform"}
    assert rate.value < 0


def test_uniform_without_bounds_names_the_environment() -> None:
    gymnasium = pytest.importorskip("gymnasium")

    def unbounded() -> object:
        made = gymnasium.make("Pendulum-v1")
        made.unwrapped.action_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
        return made.unwrapped

    with pytest.raises(cs.InputError, match=r"those of the environment .*unbounded are continuous") as error:
        cs.collect(unbounded, "uniform", 100, streams=2, workers=1, quiet=True)
    assert "the log" not in str(error.value)
    assert "without bounds on some side; write a function" in str(error.value)


def test_uniform_on_a_continuous_log_has_no_bounds() -> None:
    log = cs.collect("Pendulum-v1", "constant:0", 100, streams=2, workers=1, quiet=True)
    with pytest.raises(
        cs.InputError, match=r"those of the log table are continuous \(1 number\) without bounds; read them with"
    ):
        attach(policy("uniform"), log)


@pytest.mark.parametrize(
    ("env", "text", "sentence"),
    [
        ("Pendulum-v1", "constant:1,2", "the 1 numbers of an action of the environment Pendulum-v1"),
        ("CartPole-v1", "constant:2", "an action of the environment CartPole-v1: 0, 1"),
    ],
)
def test_constant_names_the_environment(env: str, text: str, sentence: str) -> None:
    with pytest.raises(cs.InputError, match=sentence):
        cs.collect(env, text, 100, streams=2, workers=1, quiet=True)


def test_shipped_alone_names_what_there_is() -> None:
    with pytest.raises(cs.InputError, match="must name its environment") as error:
        policy("shipped")
    for env in cs.simulation.shipped():
        assert f"shipped:{env}" in str(error.value)
    assert "shipped:HalfCheetah-v5" in str(error.value)
