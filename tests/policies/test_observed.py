"""Observations in messages: what was seen, not a row number; one line, short, nothing hidden."""

from typing import Any

import numpy as np
import pytest

import cesaro as cs
from cesaro.errors import InputError
from cesaro.policies import Finite
from cesaro.policies.base import place


@pytest.mark.parametrize(
    ("observations", "words"),
    [
        (np.array([7, 3]), "3"),
        (np.array([True, False]), "False"),
        (np.array([0.5, 0.1], dtype=np.float32), "0.1"),
        (np.array(["silver", "gold"]), "gold"),
        (np.array(["silver", "very good"], dtype=object), "very good"),
        (np.array(["1", "3"]), "'3'"),
        (np.array(["a", ""]), "''"),
        (np.array(["a", "b, c: 1"]), "'b, c: 1'"),
        (np.array(["a", "two\nlines \x1b[31m\u202e"]), r"'two\nlines \x1b[31m\u202e'"),
        (np.array(["a", "b" * 50]), "b" * 40 + "…"),
        (np.array([[0.0, 0.0], [1.5, -2.0]]), "[1.5, -2.0]"),
        ([4, 5], "5"),
        (
            {"free_servers": np.array([9, 3]), "priority": np.array(["silver", "gold"])},
            "{free_servers: 3, priority: gold}",
        ),
        ({"a\nb": np.array([0, 1.0]), "c": np.array([None, None])}, r"{'a\nb': 1.0, c: None}"),
    ],
)
def test_what_was_seen(observations: Any, words: str) -> None:
    assert place(observations, 1) == f"at the observation {words}"


def test_long_observations_are_cut() -> None:
    for observations in (np.random.default_rng(0).random((1, 5_000)), {f"c{i}": np.zeros(1) for i in range(500)}):
        words = place(observations, 0)
        assert len(words) < 200
        assert words.endswith("…")
    assert place(np.zeros((1, 30)), 0).endswith("0.0, …]")


@pytest.mark.parametrize("features", ["one-hot", "fourier:20"])
def test_the_observation_is_named_however_the_rows_were_cut(features: str) -> None:
    """The policy is asked about distinct states, or about rows of the second block: no row number would be right."""
    rng, rows = np.random.default_rng(0), 70_000
    free = rng.integers(0, 3, rows)
    free[rows - 2] = 7
    log = cs.Transitions(
        {"free": free, "hour": rng.integers(0, 2, rows)},
        rng.integers(0, 2, rows),
        rng.random(rows),
        kinds={"free": "category", "hour": "category"},
    )
    broken = Finite([0, 1], lambda s: np.where((s["free"] == 7)[:, None], [0.5, 0.4], [0.5, 0.5]), name="new")
    with pytest.raises(
        InputError, match=r"'new' .* Got 0\.9 at the observation \{free: 7, hour: [01]\}; add"
    ) as caught:
        cs.evaluate(log, broken, features=features, quiet=True)
    assert "row " not in str(caught.value).partition("Got")[2]
