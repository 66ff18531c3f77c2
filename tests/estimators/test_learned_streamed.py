"""Learned methods on logs that are larger than memory: sorted ones too, with the limit and the standard error of all rows."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import cesaro as cs
from cesaro.algorithms.saddle_point import CURRENT
from cesaro.approximators import MLP
from cesaro.data import blocks, shuffled
from cesaro.estimators.learned import Learned, rows
from cesaro.learning import checkpoints, engine
from cesaro.learning.source import Feed

pytestmark = pytest.mark.usefixtures("plain_starts")

Array = NDArray[np.float64]
ROWS, BLOCK, BUFFER = 8_192, 256, 1_024
SEEDS, STEPS, RIDGE = 10, 12_800, 0.02
# Standard deviation of the median of ten runs, over 40 fits with other seeds: what runs draw, and what was in the buffer.
NOISE = 0.013


class Often:
    """Takes the second action four times in five; the log takes it half of the time."""

    actions = (0, 1)

    def probabilities(self, observations: Any) -> Array:
        return np.tile([0.2, 0.8], (len(observations), 1))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 blocks; the buffer holds an eighth of the rows."""
    monkeypatch.setattr(blocks, "BLOCK_ROWS", BLOCK)
    monkeypatch.setattr(blocks, "STRETCH_BLOCKS", 8)
    monkeypatch.setattr(rows, "BUFFER_BYTES", BUFFER * 2 * 4 * 8)


@cache
def columns() -> dict[str, NDArray[Any]]:
    """Independent transitions, sorted by their reward: the worst order to learn in."""
    rng = np.random.default_rng(3)
    state, action = rng.normal(size=ROWS), rng.integers(0, 2, ROWS)
    after = 0.5 * state + 0.8 * (action - 0.5) + 0.6 * rng.normal(size=ROWS)
    reward = 1 + state + 0.5 * action + 0.3 * rng.normal(size=ROWS)
    order = np.argsort(reward)
    names = ("observation", "action", "reward", "next_observation")
    return {name: values[order] for name, values in zip(names, (state, action, reward, after))}


def in_memory(**more: Any) -> cs.Transitions:
    return cs.Transitions(*columns().values(), **more)


@pytest.fixture
def streamed(tmp_path: Path) -> cs.Log:
    pq.write_table(pa.table(columns()), tmp_path / "log.parquet", row_group_size=500)
    return cs.read(tmp_path / "log.parquet", stream=True)


def features(observations: Any) -> Array:
    return np.stack([np.ones(len(observations)), observations], axis=1)


def learner(**settings: Any) -> Learned:
    """All alike, so that one program is compiled."""
    own: dict[str, Any] = {
        "standard_errors": "independent",
        "ridge": RIDGE,
        "steps": STEPS,
        "seeds": SEEDS,
        "quiet": True,
    }
    return Learned("diff-gq1", features=features, **(own | settings))


@cache
def buffered() -> Learned:
    """From a log in memory whose features are too many to be kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "MAX_NUMBERS", ROWS)
        return learner().fit(in_memory(), Often())


def closed_form(ridge: float) -> cs.DiffLSTD:
    """The limit of the runs, with its standard error."""
    return cs.DiffLSTD(features, "same", ridge, standard_errors="independent", quiet=True).fit(in_memory(), Often())


@pytest.mark.slow
def test_a_sorted_log(streamed: cs.Log) -> None:
    """The limit and its standard error are those of all rows, and runs get there: beyond four standard deviations once in 16,000
    tests. What is read in blocks gives the bits of what is in memory.
    """
    found = learner().fit(streamed, Often())
    assert found.is_buffered_
    assert found.summary_()["drawn_from"].startswith("a shuffle buffer")
    assert {entry.name: entry.verdict for entry in found.diagnostics_}["moved from its start"] == "ok"
    np.testing.assert_array_equal(found.seed_rates_, buffered().seed_rates_)
    assert found.estimate_ == buffered().estimate_
    exact = closed_form(RIDGE)
    assert exact.reward_rate_ - exact.behavior_.value > 0.5
    assert found.limit_ == pytest.approx(exact.reward_rate_, rel=1e-9)
    distance = abs(found.reward_rate_ - found.limit_)
    assert distance < 4 * NOISE
    assert found.learning_error_ >= distance
    assert found.standard_error_ == pytest.approx(np.hypot(exact.standard_error_, found.learning_error_), rel=1e-6)


@pytest.mark.slow
def test_the_order_of_the_log_would_mislead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without random row groups runs end where the last rows are; the distance from the known limit is counted in."""
    monkeypatch.setattr(rows, "MAX_NUMBERS", ROWS)
    monkeypatch.setattr(shuffled, "REACH", 1)
    monkeypatch.setattr(shuffled.ShuffleBuffer, "_order", lambda self, visit: iter(range(ROWS // BLOCK)))
    found = learner().fit(in_memory(), Often())
    assert abs(found.reward_rate_ - found.limit_) > 20 * NOISE
    assert found.learning_error_ == abs(found.reward_rate_ - found.limit_)


@pytest.mark.slow
def test_rows_come_in_proportion_to_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights fall along the sorted log, so that the limit is far from that of rows that count alike."""
    monkeypatch.setattr(rows, "MAX_NUMBERS", ROWS)
    found = learner().fit(in_memory(weights=np.linspace(2, 0, ROWS)), Often())
    assert buffered().limit_ - found.limit_ > 20 * NOISE
    assert abs(found.reward_rate_ - found.limit_) < 4 * NOISE


def test_a_killed_fit_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_NUMBERS", ROWS)
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", -1.0)
    save, file = checkpoints.save, tmp_path / "runs.npz"

    def killed(*arguments: Any) -> None:
        save(*arguments)
        if arguments[2] == 30:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        learner(checkpoint=file).fit(in_memory(), Often())
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 60.0)
    found = learner(checkpoint=file).fit(in_memory(), Often())
    np.testing.assert_array_equal(found.seed_rates_, buffered().seed_rates_)


class Rarely(Often):
    """Acts like `Often` but for states that do not occur."""

    def probabilities(self, observations: Any) -> Array:
        return super().probabilities(np.where(observations > 1e9, 0, observations))


def test_a_fit_does_not_go_on_with_other_rows_or_another_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows that differ are not in the buffer when the runs begin, and the rate hardly depends on them."""
    monkeypatch.setattr(rows, "MAX_NUMBERS", ROWS)
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", -1.0)
    save, begun = checkpoints.save, Feed.source
    held: list[Any] = []

    def killed(*arguments: Any) -> None:
        save(*arguments)
        raise KeyboardInterrupt

    def source(self: Any, record: int, dtype: str) -> Any:
        held.append(begun(self, record, dtype))
        return held[-1]

    def fit(log: cs.Log, policy: Any) -> Any:
        return learner(step_size=0.05, checkpoint=tmp_path / "runs.npz").fit(log, policy)

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "save", killed)
        patched.setattr(Feed, "source", source)
        with pytest.raises(KeyboardInterrupt):
            fit(in_memory(), Often())
    with pytest.raises(cs.InputError, match=r"belongs to another sweep \(different: log\)"):
        fit(in_memory(), Rarely())
    given = columns()
    absent = np.flatnonzero(~np.isin(given["reward"].astype(np.float32), np.asarray(held[0].rewards)))[5]
    reward = given["reward"].copy()
    reward[absent] += 1e-3
    with pytest.raises(cs.InputError, match=r"belongs to another sweep \(different: log\)"):
        fit(cs.Transitions(*{**given, "reward": reward}.values()), Often())


@pytest.mark.slow
def test_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate is known, and that of the log is 0.6 below it."""
    monkeypatch.setattr(rows, "MAX_NUMBERS", ROWS)
    network = MLP(widths=(4,), activation="tanh", head_scale=1.0)
    settings: dict[str, Any] = {"step_size": 0.05, "batch_size": 64, "optimizer": "sgd", "target": CURRENT}
    learner = Learned("diff-sgq", approximator=network, steps=800, seeds=3, quiet=True, **settings)
    found = learner.fit(in_memory(), Often())
    assert found.is_buffered_
    assert found.summary_()["drawn_from"].startswith("a shuffle buffer")
    np.testing.assert_allclose(found.seed_rates_, closed_form(0.0).reward_rate_, atol=0.06)
    np.testing.assert_allclose(found.offline_rates_, closed_form(0.0).reward_rate_, atol=0.06)
