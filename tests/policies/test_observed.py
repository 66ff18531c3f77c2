"""Observations in messages: what was seen, not a row number; one line, short, nothing hidden."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import cesaro as cs
from cesaro.errors import InputError
from cesaro.policies import Finite, attach
from cesaro.policies.observed import place


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


# One column, or several: the same names

RNG = np.random.default_rng(0)


def by_name(seen: Any) -> Any:
    return np.where(seen["x"] > 1, "go", "stop")


def of_pandas(seen: "pd.DataFrame") -> Any:
    return seen["x"].map(lambda x: "go" if x > 1 else "stop")


def of_polars(seen: pl.DataFrame) -> Any:
    return seen.select(pl.when(pl.col("x") > 1).then(pl.lit("go")).otherwise(pl.lit("stop"))).to_series()


COLUMNS = {"x": [0.5, 1.5, 2.5, 0.0], "y": ["a", "b", "a", "b"], "action": ["go", "stop"] * 2, "reward": [0.0] * 4}


@pytest.mark.parametrize("observation", ["x", ["x"], ["x", "y"], ["x", "reward"]])
@pytest.mark.parametrize("function", [by_name, of_pandas, of_polars])
def test_a_policy_finds_its_column_however_many_there_are(function: Any, observation: Any) -> None:
    log = cs.read({**COLUMNS, "earned": [1.0] * 4}, observation=observation, reward="earned")
    seen = next(iter(log.blocks())).observations.plain()
    attached = attach(function, log)
    assert attached.sample(seen, np.random.default_rng(0)).tolist() == [1, 0, 0]
    probabilities = Finite(["go", "stop"], lambda seen: np.column_stack([seen["x"] > 1, seen["x"] <= 1]).astype(float))
    assert np.asarray(attach(probabilities, log).probabilities(seen)).tolist() == [[0, 1], [1, 0], [1, 0]]


def test_vectors_have_names_too() -> None:
    log = cs.read(
        {"obs_0": [0.0, 2.0], "obs_1": [1.0, 3.0], "action": [0, 1], "reward": [0.0, 0.0]}, observation="obs_*"
    )
    seen = next(iter(log.blocks())).observations.plain()
    assert attach(lambda seen: (seen["obs_1"] > seen[:, 0]).astype(int), log).sample(seen, RNG).tolist() == [1]
    listed = cs.Transitions(np.zeros((3, 2)), [0, 1, 0], np.zeros(3))
    assert (
        attach(lambda seen: seen["observation"][:, 0].astype(int), listed).sample(np.zeros((3, 2)), RNG).tolist()
        == [0] * 3
    )


def test_old_policies_get_an_array_that_acts_as_one() -> None:
    """Arithmetic, masks, views and work in place are those of a plain array, and the log stays as it is."""
    log = cs.Transitions(np.array([0.5, 1.5, 2.5]), ["go", "stop", "go"], np.zeros(3))
    kinds = []

    def old(seen: Any) -> Any:
        kinds.extend([type(seen + 1), type(seen > 1), type(np.where(seen > 1, 1, 0)), type(seen.max())])
        seen *= 2
        assert len(seen) == 3
        assert seen.tolist() == [1.0, 3.0, 5.0]
        return ["go" if float(one) > 2 else "stop" for one in seen]

    seen = np.array([0.5, 1.5, 2.5])
    assert attach(old, log).sample(seen, np.random.default_rng(0)).tolist() == [1, 0, 0]
    assert seen.tolist() == [0.5, 1.5, 2.5]
    assert kinds == [np.ndarray, np.ndarray, np.ndarray, np.float64]


def test_a_column_that_is_not_there_is_named() -> None:
    log = cs.read({**COLUMNS}, observation="x")
    with pytest.raises(InputError, match=r"KeyError .*: 'z'; .*If the log has that column, add observation=\"z\"\.$"):
        attach(lambda seen: seen["z"], log).sample(np.zeros(2), np.random.default_rng(0))
    with pytest.raises(
        InputError, match="it must accept the log's observations, a pandas frame with the columns 'x', 'y'"
    ):
        attach(lambda_of_frame, cs.read(COLUMNS, observation=["x", "y"])).sample(
            {"x": np.zeros(2), "y": np.array(["a", "b"])}, np.random.default_rng(0)
        )


def lambda_of_frame(seen: pd.DataFrame) -> Any:
    return seen["z"]
