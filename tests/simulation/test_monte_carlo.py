"""Rates by simulation: batch means and what they say about themselves."""

import json

import numpy as np
import pytest
from scipy import stats

import cesaro as cs
from cesaro.simulation import batch_means


def test_batch_means_of_equal_batches_are_a_t_statistic() -> None:
    rng = np.random.default_rng(0)
    rewards = [rng.standard_normal(60) + 1 for _ in range(20)]
    value, error, batches = batch_means(rewards)
    means = np.concatenate([stream.reshape(2, 30).mean(axis=1) for stream in rewards])
    assert batches == 40
    assert value == pytest.approx(np.mean(rewards), rel=1e-13)
    assert error == pytest.approx(means.std(ddof=1) / np.sqrt(40), rel=1e-12)


@pytest.mark.parametrize(("streams", "batches"), [(1, 40), (3, 42), (20, 40), (30, 60)])
def test_there_are_enough_batches(streams: int, batches: int) -> None:
    rewards = [np.arange(83.0) + stream for stream in range(streams)]
    value, error, found = batch_means(rewards)
    assert found == batches
    assert value == pytest.approx(np.mean(rewards))
    assert error > 0


@pytest.mark.slow
def test_intervals_cover_the_mean_of_correlated_rewards() -> None:
    """300 sets of 20 streams of an AR(1) series (0.8): at least 269 intervals of 95 % hold the mean.

    Batches of 500 steps leave a bias of the variance of about 1 %; with it the test is wrong for about one seed in 6,000.
    """
    rng, covered = np.random.default_rng(1), 0
    for _ in range(300):
        series = np.empty((20, 1_000))
        series[:, 0] = rng.standard_normal(20) / 0.6
        noise = rng.standard_normal((20, 1_000))
        for step in range(1, 1_000):
            series[:, step] = 0.8 * series[:, step - 1] + noise[:, step]
        value, error, batches = batch_means(list(series))
        covered += abs(value) < stats.t.ppf(0.975, batches - 1) * error
    assert covered >= 269
    assert covered < 300  # intervals that always hold it are too long: one seed in five million


def test_the_result_says_what_it_is() -> None:
    rate = cs.monte_carlo_rate("Pendulum-v1", "constant:0", 4_000, seed=2, workers=1, quiet=True)
    assert (rate.steps, rate.streams, rate.batches, rate.truncated, rate.time_limit) == (4_000, 20, 40, 20, 200)
    low, high = rate.interval()
    half = stats.t.ppf(0.975, 39) * rate.standard_error
    assert [low, high] == pytest.approx([rate.value - half, rate.value + half])
    assert rate.interval(0.5)[1] < high
    data = json.loads(json.dumps(rate.to_dict(0.9), allow_nan=False))
    assert data["schema"] == "cesaro-truth/1"
    assert data["interval"] == pytest.approx(list(rate.interval(0.9)))
    assert data["policy"] == {"name": "constant:0"}
    with pytest.raises(cs.InputError, match="confidence must be a number"):
        rate.interval(1.0)


def test_a_log_and_a_truth_of_one_seed_are_independent() -> None:
    """The same policy and seed: means agree within five standard errors (of 4 streams), and are not the same numbers."""
    log = cs.collect("Pendulum-v1", "constant:0", 4_000, streams=4, workers=1, quiet=True)
    rate = cs.monte_carlo_rate("Pendulum-v1", "constant:0", 4_000, streams=4, workers=1, quiet=True)
    mean = float(log.load().rewards.mean())
    assert rate.value != pytest.approx(mean, rel=1e-9)
    assert abs(rate.value - mean) < 5 * 2**0.5 * rate.standard_error


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(cs.InputError, match=r"steps must be at least 40, one per batch. Got 30"):
        cs.monte_carlo_rate("Pendulum-v1", "constant:0", 30, workers=1)
    with pytest.raises(cs.InputError, match=r"at least 40 steps. Got 3"):
        batch_means([np.zeros(3)])
