"""Features of pairs and their means under a policy, against sums written out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cesaro as cs
from cesaro.checks import Array
from cesaro.data.values import Categories, Values
from cesaro.features import FeatureMap, build, sample_rows
from cesaro.features.base import Polynomial
from cesaro.features.encoder import Encoder
from cesaro.features.maps import BasePairs, features_along, fewer, other_kinds
from cesaro.policies import Attached, Finite, attach


@pytest.fixture(scope="module")
def mixed() -> cs.Transitions:
    rng = np.random.default_rng(0)
    observations = {
        "load": rng.normal(5.0, 2.0, 400),
        "hour": rng.integers(0, 24, 400),
        "region": rng.choice(["north", "south", "west"], 400),
        "open": rng.integers(0, 2, 400).astype(bool),
    }
    return cs.Transitions(observations, rng.choice(["go", "stay"], 400), rng.normal(size=400))


def leaning(observations: Any) -> Array:
    go = 1 / (1 + np.exp(-observations["load"] / 5))
    return np.stack([1 - go, go], axis=1)


POLICY = Finite(["stay", "go"], leaning)


def expected(features: FeatureMap, observations: Values, policy: Attached, draws: int = 1) -> Any:
    """The mean of features over what a policy does."""
    return features.expected(observations, features.actions(observations, policy, np.random.default_rng(0), draws))


def test_numbers_are_standardized_and_labels_one_hot(mixed: cs.Transitions) -> None:
    encoder = Encoder(mixed.observations)
    table = encoder(mixed.observations)
    assert encoder.names == (
        *("load", "hour", "region=north", "region=south", "region=west", "open=False", "open=True"),
    )
    np.testing.assert_allclose(table[:, :2].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(table[:, :2].std(axis=0), 1, atol=1e-5)
    np.testing.assert_array_equal(table[:, 2:5].sum(axis=1), 1)


def hours(values: Array, load: Array) -> Values:
    return Values("named", ("hour", "load"), (values, load))


def test_a_column_that_comes_round_by_itself_gets_a_circle() -> None:
    rng = np.random.default_rng(0)
    load, now = rng.normal(size=480), np.arange(480.0) % 24
    encoder = Encoder(hours(now, load), hours((now + 1) % 24, rng.normal(size=480)))
    assert encoder.names == ("sine of hour", "load", "cosine of hour")
    table = encoder(hours(now, load))
    np.testing.assert_allclose(table.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(table.std(axis=0), 1, atol=1e-6)
    np.testing.assert_allclose(table[:, 1], (load - load.mean()) / load.std(), rtol=1e-5)
    steps = np.linalg.norm(np.diff(table[:25, [0, 2]], axis=0), axis=1)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-5)  # from 23 to 0 o'clock, too
    assert Encoder(hours(now, load), hours(rng.permutation(now), load)).names == ("hour", "load")
    assert Encoder(hours(now % 2, load), hours((now + 1) % 2, load)).names == ("hour", "load")


def test_the_closed_form_knows_that_midnight_follows_on_the_hour_before(tmp_path: Path) -> None:
    """Values are linear in the hour's sine and cosine here, and not in the hour itself."""
    hour = np.arange(24 * 200.0) % 24
    rng = np.random.default_rng(0)
    action = rng.normal(size=len(hour))
    rewards = np.sin(2 * np.pi * hour / 24) + action
    log = cs.Transitions({"hour": hour}, action, rewards)
    features = build("linear", log, random_state=0)
    assert features.size == 4  # one, the sine and cosine of the hour, the action
    found = cs.DiffLSTD("linear", quiet=True).fit(log, lambda observations, _: np.ones(len(observations["hour"])))
    assert found.reward_rate_ == pytest.approx(1.0, abs=1e-6)  # features are in single precision
    assert found.standard_error_ < 1e-5
    found.save(tmp_path / "fit.npz")
    back = cs.DiffLSTD.load(tmp_path / "fit.npz")
    np.testing.assert_array_equal(back.predict({"hour": hour}, action), found.predict({"hour": hour}, action))


def test_a_level_that_the_sample_lacks_is_a_zero_vector() -> None:
    levels = np.array(["a", "b", "c"], dtype=object)
    sample = Values("lone", ("s",), (Categories(np.array([0, 0, 2]), levels),))
    encoded = Encoder(sample)(Values("lone", ("s",), (Categories(np.array([1, 2, 0]), levels),)))
    np.testing.assert_array_equal(encoded, [[0, 0], [0, 1], [1, 0]])


def test_a_constant_column_does_no_harm() -> None:
    values = Values("vector", ("x",), (np.full((5, 2), 1e9),))
    assert not Encoder(values)(values).any()


def state_function(observations: Any) -> Array:
    return np.stack([observations["load"], observations["hour"] ** 2], axis=1)


def pair_function(observations: Any, actions: Any) -> Array:
    return np.stack([observations["load"] * (actions == "go"), observations["hour"]], axis=1)


def test_no_remedy_names_what_is_in_use(mixed: cs.Transitions) -> None:
    for spec, others in {
        "linear": ("polynomial:2", "fourier"),
        "polynomial:2": ("fourier", "smooth"),
        "polynomial:3": ("polynomial:2", "fourier"),
        "fourier:9": ("polynomial:2", "smooth"),
        "smooth:0": ("polynomial:2", "fourier"),
        pair_function: ("polynomial:2", "fourier"),
    }.items():
        features = build(spec, mixed, random_state=0)
        assert [one.python for one in other_kinds(features)] == [f'features="{name}"' for name in others]
        assert ("linear" in fewer(features)) == (spec != "linear")


@pytest.mark.parametrize("spec", ["linear", "fourier:9", "polynomial:2", state_function, pair_function])
def test_the_expectation_runs_over_all_actions(spec: Any, mixed: cs.Transitions) -> None:
    features, attached = build(spec, mixed, random_state=0), attach(POLICY, mixed)
    after = mixed.next_observations
    got = expected(features, after, attached)
    probabilities = attached.probabilities(after.plain())
    assert probabilities is not None
    mean = np.zeros((len(after), features.size))
    for code in range(2):
        constant = Values("lone", ("action",), (Categories(np.full(len(after), code), mixed.action_levels),))  # type: ignore[arg-type]
        mean += probabilities[:, code, None] * np.asarray(features.pairs(after, constant))
    np.testing.assert_allclose(got, mean, atol=1e-5)


def test_actions_interact_with_state_features(mixed: cs.Transitions) -> None:
    features = build("linear", mixed, random_state=0)
    x = np.asarray(features.pairs(mixed.observations, mixed.actions)).reshape(len(mixed), 2, -1)
    chosen = mixed.actions.joint().codes
    rows = np.arange(len(mixed))
    assert not x[rows, 1 - chosen].any()
    np.testing.assert_array_equal(x[rows, chosen, 0], 1)


def test_continuous_actions_are_drawn_and_averaged() -> None:
    rng = np.random.default_rng(1)
    log = cs.Transitions(rng.normal(size=(300, 3)), rng.normal(size=(300, 2)), rng.normal(size=300))
    features = build("linear", log, random_state=0)

    def noisy(observations: Any, rng: np.random.Generator) -> Array:
        return observations[:, :2] + rng.normal(size=(len(observations), 2))

    attached = attach(noisy, log)
    after = log.next_observations
    mean = expected(features, after, attached, draws=400)
    exact = expected(features, after, attach(lambda observations: observations[:, :2], log))
    # 400 draws leave a standard deviation of 0.05 per entry; of 1,500 entries the largest is below 5 of them
    np.testing.assert_allclose(mean, exact, atol=0.25)
    assert features.size == 1 + 3 + 2


def test_finitely_many_continuous_actions_need_no_draw() -> None:
    rng = np.random.default_rng(5)
    log = cs.Transitions(rng.normal(size=(300, 2)), rng.uniform(-1, 1, size=300), rng.normal(size=300))
    features = build("fourier:7", log, random_state=0)
    chances = np.array([0.2, 0.5, 0.3])
    policy = Finite([-1.0, 0.0, 1.0], lambda observations: np.tile(chances, (len(observations), 1)))
    got = expected(features, log.next_observations, attach(policy, log))
    parts = [expected(features, log.next_observations, attach(f"constant:{a}", log)) for a in (-1.0, 0.0, 1.0)]
    np.testing.assert_allclose(got, sum(c * np.asarray(part) for c, part in zip(chances, parts)), atol=1e-5)
    est = cs.DiffLSTD("fourier:7", quiet=True).fit(log, policy)
    assert "draws" not in est.summary_()


def test_lone_numbers_reach_functions_as_the_log_has_them() -> None:
    rng = np.random.default_rng(2)
    log = cs.Transitions(rng.normal(size=200), rng.normal(size=200), rng.normal(size=200))

    def pairs(observations: Any, actions: Any) -> Array:
        assert observations.shape == actions.shape == (len(observations),)
        return np.stack([observations, observations * actions], axis=1)

    est = cs.DiffLSTD(pairs, ridge=1e-3, quiet=True).fit(log, lambda observations: 0.5 * observations)
    assert np.isfinite(est.reward_rate_)


def test_default_sizes_are_bounded_by_the_data() -> None:
    rng = np.random.default_rng(3)

    def size(rows: int) -> int:
        log = cs.Transitions(rng.normal(size=(rows, 2)), rng.normal(size=rows), rng.normal(size=rows))
        return build("auto", log, random_state=0).size

    # Polynomials and splines of three inputs, and a component per 25 rows; the last row has no successor.
    assert size(1_051) == 10 + 21 + 42
    assert 10 + 21 + 100 < size(60_000) <= 10 + 21 + 320  # some would be rounding
    assert size(300) == 10 + 11  # 24 features may come first, and 31 would


def test_more_than_4096_dense_features_name_the_column() -> None:
    rng = np.random.default_rng(4)
    observations = {"customer": np.arange(5_000).astype(str), "load": rng.normal(size=5_000)}
    log = cs.Transitions(observations, rng.integers(0, 2, 5_000), rng.normal(size=5_000))
    with pytest.raises(cs.InputError, match=r"column 'customer' alone gives 4,999"):
        cs.DiffLSTD(quiet=True).fit(log, "uniform")


def test_the_sample_is_the_same_every_time() -> None:
    np.testing.assert_array_equal(sample_rows(10, 0), np.arange(10))
    rows = sample_rows(300_000, 3)
    np.testing.assert_array_equal(rows, sample_rows(300_000, 3))
    assert len(rows) == len(np.unique(rows)) == 100_000
    assert not np.array_equal(rows, sample_rows(300_000, 4))


def test_features_of_the_row_below_are_not_made_again() -> None:
    """Only those of rows that nothing follows, here the ends of three trajectories and of all rows."""
    rng, made = np.random.default_rng(0), [0]

    class Counted(Polynomial):
        def __call__(self, inputs: Any) -> Any:
            made[0] += len(inputs)
            return super().__call__(inputs)

    inputs = rng.normal(size=(2, 1001)).astype(np.float32)
    base = Counted(inputs.T, 2)
    here, there = BasePairs(base, inputs[:, :-1]), BasePairs(base, inputs[:, 1:].copy())
    there.states[:, [99, 500, 501]] += 1
    found = features_along(here, there, 64)
    assert made[0] == 1000 + 4
    for pairs, features in zip((here, there), found):
        np.testing.assert_allclose(features, pairs.features(slice(0, 1000), 64), rtol=1e-6, atol=1e-6)
