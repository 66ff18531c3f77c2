"""Smooth features: what they hold, how many components a log can bear, and whether the rate still leans towards the log."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.preprocessing import SplineTransformer

import cesaro as cs
from cesaro.closed_forms import growth
from cesaro.estimators import diff_lstd
from cesaro.features.base import Smooth, Splines, _regressed, times
from cesaro.features.maps import BasePairs
from cesaro.passes import prepare
from cesaro.passes.prepare import HELD
from cesaro.passes.run import run_pass
from cesaro.policies import Finite

A, B, LOGGED, TARGET = (
    np.array([[0.9, 0.2], [0, 0.8]]),
    np.array([0, 0.5]),
    np.array([-0.4, -0.6]),
    np.array([-0.2, -0.35]),
)
TRUTH, LOG_RATE = -0.7774493, -0.6623975  # by the discrete Lyapunov equation


def linear_gaussian(seed: int, rows: int = 5_000) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    x, u = np.zeros((rows + 1, 2)), np.zeros(rows + 1)
    for t in range(rows + 1):
        u[t] = x[t] @ LOGGED + 0.5 * rng.normal()
        if t < rows:
            x[t + 1] = A @ x[t] + B * u[t] + 0.3 * rng.normal(size=2)
    return x[:-1], u[:-1], (-(x**2).sum(1) - 0.1 * u**2)[:-1], x[1:]


def target(observations: Any, rng: np.random.Generator) -> Any:
    return observations @ TARGET + 0.5 * rng.normal(size=len(observations))


def fit(features: Any, log: Any, **settings: Any) -> cs.DiffLSTD:
    return cs.DiffLSTD(features, quiet=True, **settings).fit(log, target)


def inputs(rows: int = 3_000, columns: int = 3) -> Any:
    return np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)


def test_components_are_beyond_polynomials_and_splines_and_of_unit_size() -> None:
    sample = inputs()
    made = Smooth(sample, 40, 0, most=100)
    found = made(sample).astype(np.float64)
    core, components = found[:, : made.first], found[:, made.first :]
    assert (made.first, made.components, found.shape[1]) == (10 + 3 * 7, 40, made.size)
    np.testing.assert_allclose(core.T @ components / len(sample), 0, atol=2e-4)
    np.testing.assert_allclose(components.T @ components / len(sample), np.eye(40), atol=2e-3)


def test_what_comes_before_components_is_regressed_on_as_lapack_does_it() -> None:
    rng = np.random.default_rng(0)
    core = rng.normal(size=(500, 12))
    core[:, 3], core[:, 7] = core[:, 0] - 2 * core[:, 1], 1.0  # one column says nothing new
    outputs = core @ rng.normal(size=(12, 30)) + rng.normal(size=(500, 30))
    told, along = _regressed(core, outputs)
    expected, _, rank, _ = np.linalg.lstsq(core, outputs, rcond=1e-7)
    assert rank == 11
    np.testing.assert_allclose(told, expected, atol=1e-12)
    np.testing.assert_allclose(along, core @ expected, atol=1e-12)


def test_few_rows_of_many_columns_are_regressed_on() -> None:
    rng = np.random.default_rng(0)
    core, outputs = rng.normal(size=(20, 30)), rng.normal(size=(20, 5))
    told, along = _regressed(core, outputs)
    np.testing.assert_allclose(told, np.linalg.lstsq(core, outputs)[0], atol=1e-12)
    np.testing.assert_allclose(along, outputs, atol=1e-12)
    state, action = rng.normal(size=(41, 45)), rng.normal(size=40)
    log = cs.Transitions(state[:-1], action, state[1:, 0], state[1:])
    assert "40 rows" in str(cs.evaluate(log, lambda observations: observations[:, 0], effort="none", quiet=True))


def test_fewer_components_are_the_beginning() -> None:
    sample = inputs()
    made = Smooth(sample, 40, 0, most=100)
    for components in (0, 5, 40):
        smaller = made.with_components(components)
        assert smaller.size == made.first + components
        np.testing.assert_allclose(smaller(sample[:50]), made(sample[:50])[:, : smaller.size], atol=1e-4)


def test_few_rows_leave_splines_out_then_products() -> None:
    sample = inputs(columns=6)
    sizes = [Smooth(sample, 0, 0, most=most).size for most in (100, 40, 10)]
    assert sizes == [28 + 42, 28, 7]


def test_splines_are_of_inputs_with_many_values_and_linear_beyond_them() -> None:
    sample = np.concatenate([inputs(columns=1), np.tile([[0.0], [1.0]], (1_500, 1))], axis=1).astype(np.float32)
    made = Splines(sample)
    assert (made.inputs.tolist(), made.size) == ([0], 7)
    far = made(np.array([[8, 0], [9, 0], [10, 0]], np.float32)).astype(np.float64)
    np.testing.assert_allclose(far[2] - far[1], far[1] - far[0], atol=1e-4)


@pytest.mark.parametrize("knots", [2, 6, 15])
def test_splines_are_those_of_scikit_learn(knots: int) -> None:
    sample = inputs(columns=3)
    made = Splines(sample, knots)
    asked = np.concatenate([3 * sample[:500], made.knots.astype(np.float32)])
    theirs = SplineTransformer(degree=3, knots=made.knots, extrapolation="linear", include_bias=False).fit(made.knots)
    np.testing.assert_allclose(made(asked), theirs.transform(asked), rtol=1e-6, atol=1e-13)


@pytest.mark.parametrize("sure", [True, False])
def test_components_that_cannot_be_chosen_are_not_made(sure: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 5, 10, 20, … the largest number below all of them: the answer is the same, draws of actions included."""
    log = cs.Transitions(*linear_gaussian(0))
    policy = (lambda observations: observations @ TARGET) if sure else target
    made: list[int] = []

    def spied(work: Any, prepared: Any, running: Any) -> Any:
        made.append(prepared.map.components)
        return run_pass(work, prepared, running)

    monkeypatch.setattr(diff_lstd, "run_pass", spied)
    bounded = cs.DiffLSTD(quiet=True).fit(log, policy)
    monkeypatch.setattr(diff_lstd, "bounded", lambda prepared: prepared)
    whole = cs.DiffLSTD(quiet=True).fit(log, policy)
    first, second, every, same = made
    assert first == 5 * 2 ** int(np.log2(every / 5)) < every
    assert second == same == bounded.prepared_.map.components  # type: ignore[union-attr]
    assert abs(bounded.reward_rate_ - whole.reward_rate_) < 1e-5 * whole.standard_error_
    assert bounded.standard_error_ == pytest.approx(whole.standard_error_, rel=1e-4)


def formed(pairs: BasePairs, vectors: Any) -> Any:
    """Features times vectors, components included."""
    return lambda rows, tile: times(pairs.features(rows, tile), vectors)


@pytest.mark.parametrize("most", [HELD, 0])
@pytest.mark.parametrize("policy", [target, lambda observations: observations @ TARGET])
def test_both_passes_see_the_same_actions_and_make_features_once(
    policy: Any, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 12,000 rows, which are five pieces in all features and fewer in those that are chosen."""
    monkeypatch.setattr(prepare, "HELD", most)
    log = cs.Transitions(*linear_gaussian(0, 12_000))
    made, called = [0], Smooth.__call__

    def counted(base: Smooth, inputs: Any) -> Any:
        made[0] += len(inputs)
        return called(base, inputs)

    monkeypatch.setattr(Smooth, "__call__", counted)
    found = cs.DiffLSTD("smooth:20", quiet=True).fit(log, policy)
    assert found.prepared_._held is None  # they are let go
    # Of x and of x', once: a sample, from which the map is made, is not asked for features again.
    assert made[0] == 2 * len(log)
    # The second pass over a long log forms no components, so that it corrects how the first one rounded them.
    if not most:
        assert abs(found.totals_.correction) < 1e-6 * found.standard_error_
        monkeypatch.setattr(BasePairs, "multiplier", formed)
        found = cs.DiffLSTD("smooth:20", quiet=True).fit(log, policy)
    assert abs(found.totals_.correction) < 1e-9 * found.standard_error_
    passed: list[int] = []

    def spied(work: Any, prepared: Any, running: Any) -> Any:
        passed.append(prepared.map.components)
        return run_pass(work, prepared, running)

    monkeypatch.setattr(diff_lstd, "run_pass", spied)
    monkeypatch.setattr(growth, "NOISE", 1.05)
    grown = cs.DiffLSTD(quiet=True).fit(log, policy)
    assert passed[0] > passed[1]
    assert abs(grown.totals_.correction) < 1e-5 * grown.standard_error_  # features round by those beside them


@pytest.mark.slow
def test_the_rate_does_not_lean_towards_the_log() -> None:
    """Of 95 % intervals on 12 logs fewer than 9 cover with probability 2e-4; the mean error is within 4 standard errors."""
    fits = [fit("auto", cs.Transitions(*linear_gaussian(seed))) for seed in range(12)]
    covered = sum(low <= TRUTH <= high for low, high in (one.interval() for one in fits))
    errors = np.array([one.reward_rate_ - TRUTH for one in fits])
    assert covered >= 9
    assert abs(errors.mean()) < 4 * errors.std(ddof=1) / np.sqrt(12)


def test_irrelevant_columns_and_finite_actions() -> None:
    """The truth, .5812, was six standard errors outside of the interval in Fourier features."""

    def softmax(x: Any, gain: float, center: float, bias: float) -> Any:
        z = np.exp(np.stack([gain * (x - center), 0 * x + bias, -gain * (x - center)], 1))
        return z / z.sum(1, keepdims=True)

    rng, rows = np.random.default_rng(0), 5_000
    x, a = rng.normal(size=(rows + 1, 4)), np.zeros(rows, int)
    for t in range(rows):
        a[t] = rng.choice(3, p=softmax(x[t : t + 1, 0], 0.5, 0, 0)[0])
        x[t + 1] = 0.9 * x[t] + 0.2 * rng.normal(size=4)
        x[t + 1, 0] += 0.4 * (a[t] - 1)
    r = np.exp(-2 * (x[:-1, 0] - 1) ** 2) - 0.1 * abs(a - 1)
    policy = Finite([0, 1, 2], lambda o: softmax(o[:, 0], 3, 0.7, 0.3))
    found = cs.DiffLSTD(quiet=True).fit(cs.Transitions(x[:-1], a, r, x[1:]), policy)
    low, high = found.interval()
    assert low <= 0.5812 <= high
    assert high - low < 0.05


def test_noise_decides_and_a_number_is_kept() -> None:
    log = cs.Transitions(*linear_gaussian(0))
    assert fit("smooth:7", log).features_.count("7 leading Fourier components") == 1
    assert "20 leading Fourier components" in fit("smooth", log).features_
    assert "20 leading Fourier components" in fit("auto", log).features_
    assert "Fourier" not in fit("smooth:0", log).features_
    few = cs.Transitions(*linear_gaussian(0, 200))
    assert "Fourier" not in fit("splines", few).features_


def test_a_file_gives_the_same_values(tmp_path: Path) -> None:
    x, u, r, after = linear_gaussian(0, 2_000)
    fitted = fit("smooth", cs.Transitions(x, u, r, after))
    fitted.save(tmp_path / "fitted.npz")
    loaded = cs.DiffLSTD.load(tmp_path / "fitted.npz")
    np.testing.assert_array_equal(loaded.predict(x[:9], u[:9]), fitted.predict(x[:9], u[:9]))


def test_a_streamed_log_gives_the_same_bits(tmp_path: Path) -> None:
    x, u, r, after = linear_gaussian(0, 2_000)
    columns = {"x_0": x[:, 0], "x_1": x[:, 1], "action": u, "reward": r, "n_0": after[:, 0], "n_1": after[:, 1]}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    rates = [
        fit(
            "smooth",
            cs.read(tmp_path / "log.parquet", observation="x_*", next_observation="n_*", stream=stream),
        ).reward_rate_
        for stream in (False, True)
    ]
    assert rates[0] == rates[1]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("splines:1", "N in splines:N must be an integer ≥ 2 and ≤ 100. Got 1"),
        ("splines:101", "Got 101"),
        ("smooth:4097", "≤ 4,096. Got 4097"),
        ("smooth:x", "features must be 'smooth' or 'smooth:<whole number>'"),
    ],
)
def test_wrong_numbers_get_one_sentence(features: str, message: str) -> None:
    with pytest.raises(cs.InputError, match=message):
        fit(features, cs.Transitions(*linear_gaussian(0, 200)))
