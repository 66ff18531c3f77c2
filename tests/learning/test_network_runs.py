"""Runs of networks as a user meets them: interrupted, side by side, diverging, started elsewhere."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cesaro as cs
from cesaro.algorithms import REGISTRY, Objective
from cesaro.algorithms.saddle_point import copied, tracked
from cesaro.approximators import MLP
from cesaro.errors import InputError
from cesaro.learning import engine

pytestmark = pytest.mark.usefixtures("plain_starts")

pytestmark = pytest.mark.slow  # each compiles networks of its own

PROBLEM = cs.problems.random_problem(5, 4, 2, 3)
SLOW = tracked(0.02)
SIZE: dict[str, Any] = {
    "seeds": 2,
    "budget": 400,
    "record_every": 80,
    "window": 80,
    "batch_size": 8,
    "quiet": True,
}


def test_a_network_run_resumes_identically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after two of four records and called again: the same numbers as a run that was not stopped."""
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(engine, "DRAWN_AHEAD", 1)
    arguments: dict[str, Any] = {
        "settings": cs.grid(step_size=[0.003]),
        "seeds": 2,
        "budget": 320,
        "record_every": 80,
        "window": 80,
        "batch_size": 4,
        "approximator": MLP((16,)),
        "target": SLOW,
        "keep_final": True,
        "quiet": True,
    }
    whole = cs.sweep("diff-sgq", PROBLEM, **arguments)
    drawn, calls = engine._drawn, 0

    def stopping(*inputs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return drawn(*inputs)

    with monkeypatch.context() as patched:
        patched.setattr(engine, "_drawn", stopping)
        with pytest.raises(KeyboardInterrupt):
            cs.sweep("diff-sgq", PROBLEM, **arguments, checkpoint=tmp_path / "run.npz")
    resumed = cs.sweep("diff-sgq", PROBLEM, **arguments, checkpoint=tmp_path / "run.npz")
    np.testing.assert_array_equal(resumed.reward_rate, whole.reward_rate)
    for one, other in zip(jax.tree.leaves(resumed.final), jax.tree.leaves(whole.final)):
        np.testing.assert_array_equal(one, other)


def test_lanes_do_not_change_a_network_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """One run at a time or many side by side: the same to rounding, final parameters included."""
    arguments: dict[str, Any] = {
        "settings": cs.grid(step_size=[0.01, 0.1]),
        "seeds": 3,
        "budget": 320,
        "record_every": 80,
        "window": 80,
        "batch_size": 4,
        "approximator": MLP((16, 8)),
        "target": copied(5),
        "keep_final": True,
        "dtype": "float64",
        "quiet": True,
    }
    alone = cs.sweep("diff-sgq", PROBLEM, **arguments)
    monkeypatch.setattr(engine, "CPU_WIDE_NUMBERS", 2**30)
    together = cs.sweep("diff-sgq", PROBLEM, **arguments)
    np.testing.assert_allclose(together.reward_rate, alone.reward_rate, rtol=1e-9, atol=1e-12)
    for one, other in zip(jax.tree.leaves(together.final), jax.tree.leaves(alone.final)):
        assert one.shape[:2] == (2, 3)
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-10)


def test_a_diverging_network_is_flagged_and_never_chosen() -> None:
    result = cs.sweep(
        "diff-gq1",
        PROBLEM,
        settings=cs.grid(step_size=[0.01, 1e4]),
        approximator=MLP((16,)),
        **SIZE,
    )
    assert result.diverged.tolist() == [False, True]
    assert np.isnan(result.reward_rate[1, :, -1]).all()
    assert result.best(truth=0.0).setting["step_size"] == 0.01
    assert result.final_error(0.0)[1] == np.inf


def test_a_checkpoint_of_another_start_is_refused(tmp_path: Path) -> None:
    """Two objectives that differ in where they begin, and in nothing that has a name."""
    base = REGISTRY["diff-gq1"](MLP((4,)), 3)

    def starting_at(rate: float) -> Objective:
        def init(key: Any) -> Any:
            primal, dual = base.init(key)
            return {**primal, "rate": jnp.full((), rate)}, dual

        return base._replace(init=init)

    arguments: dict[str, Any] = {**SIZE, "checkpoint": tmp_path / "run.npz"}
    cs.sweep(starting_at(0.0), PROBLEM, **arguments)
    with pytest.raises(InputError, match=r"belongs to another sweep \(different: .*start"):
        cs.sweep(starting_at(9.0), PROBLEM, **arguments)
