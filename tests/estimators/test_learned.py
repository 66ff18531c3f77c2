"""Learned methods on logs: their limits, their standard errors, and what they say when they cannot answer."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

import cesaro as cs
from cesaro.errors import EvaluationWarning
from cesaro.estimators.learned import Learned
from cesaro.estimators.learned.base import seed_numbers
from cesaro.estimators.learned.linear_run import MethodLimit, automatic_steps, run, steps_needed
from cesaro.linear import METHODS, EmpiricalProblem, Stability
from cesaro.linear.stability import limit_point
from cesaro.passes.influence import Series
from cesaro.passes.prepare import FeatureRows

Array = NDArray[np.float64]
ROWS = 400


def misfit(method: str, *, weighted: bool = False) -> cs.FeatureTransitions:
    """Centered features that cannot express the values; a constant for GradientDICE, an offset for Diff-GQ3 (whose limit is zero
    on centered features)."""
    rng = np.random.default_rng(1)
    state = rng.normal(size=(ROWS, 2))
    after = 0.6 * state @ np.array([[1.0, 0.3], [-0.2, 1.0]]) + 0.5 * rng.normal(size=(ROWS, 2))
    rewards = 1 + state[:, 0] + 0.5 * state[:, 1] ** 2 + 0.5 * rng.normal(size=ROWS)
    x, x_next = state - state.mean(axis=0), after - state.mean(axis=0)
    if method == "gradient-dice":
        x, x_next = (np.column_stack([np.ones(ROWS), part]) for part in (x, x_next))
    if method == "diff-gq3":
        x, x_next = x + 0.7, x_next + 0.7
    return cs.FeatureTransitions(x, rewards, x_next, weights=rng.uniform(0.5, 2, ROWS) if weighted else None)


def closed_limit(method: str, data: cs.FeatureTransitions, ridge: float, weights: Array | None = None) -> float:
    """The formulas of the methods' limits, written out over rows (GradientDICE with lam = 1)."""
    x, z, r = data.x, data.x_next - data.x, data.rewards
    d = np.ones(len(r)) if weights is None else weights
    d = d / d.sum()
    y = np.column_stack([np.ones(len(r)), x])
    u = np.column_stack([-np.ones(len(r)), z])
    A, b, C = (d[:, None] * y).T @ u, y.T @ (d * r), (d[:, None] * y).T @ y
    c, g = d @ x, d @ z
    B, C2, b3 = (d[:, None] * x).T @ z, (d[:, None] * x).T @ x, x.T @ (d * r)
    A2, b2 = B - np.outer(c, g), b3 - c * (d @ r)
    A3 = (d[:, None] * x).T @ u
    identity, without_rate = np.eye(len(c)), np.diag([0.0] + [1.0] * len(c))
    solve = np.linalg.solve
    if method == "diff-sgq":
        return float(-solve(A - ridge * without_rate, b)[0])
    if method == "diff-gq1":
        return float(-solve(ridge * without_rate + A.T @ solve(C, A), A.T @ solve(C, b))[0])
    if method == "diff-gq3":
        return float(-solve(ridge * np.eye(len(c) + 1) + A3.T @ solve(C2, A3), A3.T @ solve(C2, b3))[0])
    if method == "gradient-dice":
        theta = solve(B @ solve(C2, B.T) + np.outer(c, c) + ridge * identity, c)
        return float(b3 @ theta)
    left = A2 if method == "diff-gq2" else B
    w = -solve(ridge * identity + left.T @ solve(C2, A2), left.T @ solve(C2, b2))
    return float(d @ (r + z @ w))


def learned(method: str, **settings: object) -> Learned:
    """With as many seeds and steps everywhere, so that a method compiles once."""
    return Learned(method, **({"quiet": True, "standard_errors": "independent", "seeds": 20} | settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("ridge", [0.0, 0.2])
@pytest.mark.parametrize("method", METHODS)
def test_agrees_with_the_closed_form_of_its_limit(method: str, ridge: float) -> None:
    """Every method, centered misfit features: the limit to rounding, the run within four of its own errors, and these below 1 %.

    Twenty seeds, because the spread over five has four degrees of freedom: there four errors are exceeded in 1.6 % of the cases,
    here in 0.08 %.
    """
    data = misfit(method, weighted=True)
    if method == "diff-gq3" and ridge == 0:
        with pytest.raises(cs.InputError, match=r"depends on its start.*take ridge > 0"):
            learned(method).fit(data)
        return
    found = learned(method, ridge=ridge).fit(data)
    assert found.time_constant_ < 1e4
    limit = closed_limit(method, data, ridge, data.weights)
    assert found.limit_ == pytest.approx(limit, rel=1e-9)
    assert abs(found.reward_rate_ - limit) < 4 * found.learning_error_
    assert found.learning_error_ < 0.01 * abs(limit)
    assert found.reached_
    assert not found.diverged_.any()
    assert found.seed_rates_.shape == (20,)
    assert found.reward_rate_ == np.median(found.seed_rates_)


def limit_of(problem: EmpiricalProblem, found: Stability) -> MethodLimit:
    return MethodLimit.of(problem, found.form, limit_point(problem, found))


def series_of(limit: MethodLimit, data: cs.FeatureTransitions) -> Series:
    """Over all rows, the influence less its mean."""
    per_weight = 1.0 if data.weights is None else ROWS / data.weights.sum()
    found = limit.series(FeatureRows(data.x, data.rewards, data.x_next, data.x, data.weights), per_weight)
    assert found.influence.mean() == pytest.approx(0, abs=1e-12)
    return found


@pytest.mark.parametrize(
    ("method", "ridge"), [(m, ridge) for m in METHODS for ridge in (0.0, 0.2) if m != "diff-gq3" or ridge > 0]
)
def test_influence_is_the_derivative_of_the_limit(method: str, ridge: float) -> None:
    """Moving a little weight to a row moves the limit by its influence; Diff-GQ2 draws both samples from the moved weights."""
    data = misfit(method, weighted=True)
    assert data.weights is not None
    problem = EmpiricalProblem(data.x, data.rewards, data.x_next, data.weights)
    limit = limit_of(problem, problem.stability(method, ridge=ridge))
    series = series_of(limit, data)
    if method != "gradient-dice":
        ratio = series.ratio * problem.d
        np.testing.assert_allclose(limit.level, ratio @ data.x / ratio.sum(), atol=1e-10)
    step = 1e-4
    for row in (0, 77, 399):
        moved = []
        for sign in (1, -1):
            weights = problem.d * (1 - sign * step)
            weights[row] += sign * step
            moved.append(closed_limit(method, data, ridge, weights))
        expected = (moved[0] - moved[1]) / (2 * step) * problem.d[row] * ROWS
        assert series.influence[row] == pytest.approx(expected, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("method", ["diff-sgq", "diff-gq1", "diff-gq2", "diff-gq4", "gradient-dice"])
def test_just_identified_series_are_those_of_the_closed_form(method: str) -> None:
    data = misfit(method)
    exact = cs.DiffLSTD(standard_errors="independent").fit(data)
    problem = EmpiricalProblem(data.x, data.rewards, data.x_next)
    limit = limit_of(problem, problem.stability(method))
    series = series_of(limit, data)
    assert limit.at.reward_rate == pytest.approx(exact.reward_rate_, rel=1e-9)
    np.testing.assert_allclose(series.influence, exact.influence_, atol=1e-8)
    np.testing.assert_allclose(series.ratio, exact.density_ratio_, atol=1e-8)


def test_standard_error_joins_both_sources() -> None:
    data = misfit("diff-gq1")
    found = learned("diff-gq1", ridge=0.1).fit(data)
    exact = cs.DiffLSTD(ridge=0.1, standard_errors="independent").fit(data)
    spread = found.seed_rates_.std(ddof=1) * np.sqrt(np.pi / 2 / 20)
    assert found.learning_error_ == pytest.approx(spread)
    assert found.standard_error_ == pytest.approx(np.hypot(exact.standard_error_, spread), rel=1e-9)
    assert 19 <= found.estimate_.degrees_of_freedom <= exact.estimate_.degrees_of_freedom + 19
    np.testing.assert_allclose(found.influence_, exact.influence_, atol=1e-8)


def test_values_are_those_of_the_closed_form() -> None:
    data = misfit("diff-gq1")
    exact = cs.DiffLSTD(ridge=0.1, standard_errors="independent").fit(data)
    found = learned("diff-gq1", ridge=0.1).fit(data)
    difference = found.predict(data.x) - exact.predict(data.x)
    assert np.abs(difference).max() < 0.25 * exact.predict(data.x).std()
    with pytest.raises(cs.InputError, match="no density ratio"):
        found.density_ratio(data.x)


def test_gradient_dice_gives_a_ratio_and_no_values() -> None:
    data = misfit("gradient-dice")
    found = learned("gradient-dice").fit(data)
    ratio = found.density_ratio(data.x)
    assert ratio.mean() == pytest.approx(1, abs=0.05)
    assert np.abs(ratio - found.density_ratio_).max() < 0.3
    with pytest.raises(cs.InputError, match="no values"):
        found.predict(data.x)


def test_divergence_in_expectation_is_refused_with_its_eigenvalue() -> None:
    data = cs.FeatureTransitions([[1.0], [8.0]], [0.0, 0.0], [[8.0], [8.0]], weights=[6.0, 1.0])
    with pytest.raises(cs.InputError, match=r"diff-sgq does not converge.*eigenvalue 3 .*take diff-gq1 or diff-gq2"):
        learned("diff-sgq").fit(data)


def test_runs_that_diverge_say_when_and_why() -> None:
    data = misfit("diff-gq1")
    with pytest.raises(
        cs.InputError, match=r"20 of 20 runs of diff-gq1 diverged \(run 1 at step .*above the largest stable one"
    ):
        learned("diff-gq1", step_size=2.0, steps=25_600).fit(data)


def test_some_diverged_runs_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_a_lost_run(*arguments: object, **settings: object) -> object:
        runs = run(*arguments, **settings)  # type: ignore[arg-type]
        runs.rates[1], runs.diverged_at[1] = np.nan, 321
        return runs

    monkeypatch.setattr("cesaro.estimators.learned.linear_run.run", with_a_lost_run)
    with pytest.warns(EvaluationWarning, match="1 of 20 runs of diff-gq1 diverged .run 2 at step 321"):
        found = learned("diff-gq1", ridge=0.1).fit(misfit("diff-gq1"))
    assert np.flatnonzero(found.diverged_).tolist() == [1]
    assert found.reward_rate_ == np.median(np.delete(found.seed_rates_, 1))
    verdicts = {entry.name: entry.verdict for entry in found.diagnostics_}
    assert verdicts["diverged runs"] == "caution"


@pytest.mark.slow
def test_too_few_steps_are_said_and_counted_in() -> None:
    """A direction that hardly varies takes more steps than any budget, and the rate needs it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2))
    x_next = 0.9 * x + 0.3 * rng.normal(size=(500, 2))
    rewards = 1 + x @ [1.0, 1.0]
    data = cs.FeatureTransitions(x * [1.0, 3e-3], rewards, (x_next + np.array([0.0, 1.0])) * [1.0, 3e-3])
    with pytest.warns(
        EvaluationWarning, match=r"not reached its limit after 25,600 steps .* would need about [\d,]+ at step"
    ):
        found = learned("diff-gq1", steps=25_600).fit(data)
    assert found.time_constant_ > 1e4
    assert found.steps_needed_ is not None
    assert 2 * found.steps_needed_ > found.steps_
    assert found.standard_error_ > abs(found.reward_rate_ - found.limit_)
    low, high = found.interval()
    assert low < found.limit_ < high
    moved = next(entry for entry in found.diagnostics_ if entry.name == "moved from its start")
    assert moved.verdict in ("caution", "bad")
    assert "would do" in moved.remedy


def test_diagnostics_of_a_good_run() -> None:
    found = learned("diff-gq2", ridge=0.1).fit(misfit("diff-gq2"))
    own = {entry.name: entry for entry in found.diagnostics_}
    for name in ("moved from its start", "diverged runs", "step size"):
        assert own[name].verdict == "ok"
    assert "times its spread over seeds" in own["moved from its start"].sentence
    assert found.summary_()["method"] == "diff-gq2 (learned, linear)"
    assert found.diagnostics_ is found.diagnostics_


def test_steps_needed_are_those_of_the_expected_update() -> None:
    problem = EmpiricalProblem(*(getattr(misfit("diff-gq1"), name) for name in ("x", "rewards", "x_next")))
    found = problem.stability("diff-gq1", ridge=0.1)
    limit = limit_of(problem, found)
    needed = steps_needed(found.mean, 0.05, -limit.at.point, 1e-3)
    assert needed is not None
    point = np.zeros(len(limit.at.point))
    for _ in range(needed):
        point = point + 0.05 * (found.mean.G @ point + found.mean.h)
    assert abs(point[found.mean.layout.rate] - limit.at.reward_rate) <= 1e-3
    assert steps_needed(found.mean, 50.0, -limit.at.point, 1e-3) is None
    assert automatic_steps(10, 100, 5) == 25_600
    assert automatic_steps(20_000, 100, 5) == 102_400
    assert automatic_steps(None, 100, 5) == 204_800
    assert automatic_steps(10, 10**6, 5) == 204_800
    assert len(set(seed_numbers(0, 50) + seed_numbers(1, 50))) == 100


def discrete_log(rows: int = 1_500) -> cs.Transitions:
    rng = np.random.default_rng(5)
    action = rng.integers(0, 2, rows)
    state = np.zeros(rows + 1, dtype=np.int64)
    for t in range(rows):
        state[t + 1] = min(2, max(0, state[t] + (1 if rng.random() < 0.3 + 0.4 * action[t] else -1)))
    return cs.Transitions(state[:-1], action, (state[:-1] == 2) + 0.1 * rng.normal(size=rows), state[1:])


@pytest.mark.parametrize("method", ["diff-gq1", "gradient-dice"])
def test_a_discrete_log(method: str) -> None:
    log = discrete_log()
    exact = cs.DiffLSTD().fit(log, "constant:1")
    found = Learned(method, quiet=True).fit(log, "constant:1")
    assert found.limit_ == pytest.approx(exact.reward_rate_, rel=1e-8)
    assert abs(found.reward_rate_ - exact.reward_rate_) < 4 * found.learning_error_
    assert found.sampling_.rule == "long-run"
    assert found.behavior_ == exact.behavior_
    if method == "diff-gq1":
        states, actions = np.arange(3), np.ones(3, dtype=np.int64)
        np.testing.assert_allclose(found.predict(states, actions), exact.predict(states, actions), atol=0.1)
        with pytest.raises(cs.InputError, match="needs observations and actions"):
            found.predict(states)
    else:
        assert found.density_ratio([0, 2], [1, 1])[1] > found.density_ratio([0, 2], [1, 1])[0]


def test_a_pair_without_data_is_refused_and_ridge_warns() -> None:
    log = cs.Transitions([0, 1, 0, 1] * 20, [0, 0, 1, 0] * 20, np.arange(80.0) % 3, [1, 0, 1, 0] * 20)
    with pytest.raises(cs.InputError, match=r"does not identify the rate.*\(1, 1\)"):
        Learned(quiet=True).fit(log, "constant:1")
    with pytest.warns(EvaluationWarning, match="comes from the ridge"):
        Learned(ridge=0.5, quiet=True, standard_errors="long-run").fit(log, "constant:1")


def test_the_policy_logged() -> None:
    log = discrete_log()
    with pytest.warns(EvaluationWarning, match="'logged' is the mean logged reward"):
        found = Learned(quiet=True).fit(log, "logged")
    assert found.reward_rate_ == pytest.approx(log.rewards.mean())
    assert found.summary_()["method"] == "mean logged reward"
    with pytest.raises(cs.InputError, match="has a rate and nothing else"):
        found.predict([0], [0])
    assert all(entry.name != "step size" for entry in found.diagnostics_)


def test_evaluate_and_files(tmp_path: Path) -> None:
    answer = cs.evaluate(discrete_log(), "uniform", method="diff-gq1", ridge=0.01, quiet=True)
    assert answer.settings["steps"] >= 25_600
    assert isinstance(answer.estimator, Learned)
    answer.estimator.save(tmp_path / "learned.npz")
    again = Learned.load(tmp_path / "learned.npz")
    assert again.reward_rate_ == answer.reward_rate
    assert again.summary_() == answer.settings
    states, actions = [0, 1, 2], [0, 1, 0]
    np.testing.assert_array_equal(again.predict(states, actions), answer.estimator.predict(states, actions))


@pytest.mark.slow
def test_parameters_and_repetition() -> None:
    original = learned("diff-gq1", ridge=0.1, random_state=3)
    copy = clone(original)
    assert copy.get_params() == original.get_params()
    data = misfit("diff-gq1")
    first, second = original.fit(data).seed_rates_, copy.fit(data).seed_rates_
    np.testing.assert_array_equal(first, second)
    other = clone(copy).set_params(random_state=4).fit(data)
    assert not np.isin(other.seed_rates_, first).any()
    rounded = clone(copy).set_params(dtype="float32").fit(data)
    np.testing.assert_allclose(rounded.seed_rates_, first, rtol=1e-3)


@pytest.mark.slow
def test_batches() -> None:
    """Four transitions per update: a larger step is stable, and as many updates are less noisy."""
    data = misfit("diff-gq2")
    one, four = (learned("diff-gq2", ridge=0.1, batch_size=size).fit(data) for size in (1, 4))
    assert four.step_size_ > 1.5 * one.step_size_
    assert four.spread_ < one.spread_
    assert abs(four.reward_rate_ - four.limit_) < 4 * four.learning_error_


def test_independent_rows_are_warned_of() -> None:
    with pytest.warns(EvaluationWarning, match="take rows as independent"):
        learned("diff-gq1", ridge=0.1, standard_errors="auto").fit(misfit("diff-gq1"))


def test_too_many_features_of_a_log() -> None:
    states = np.arange(3_000)
    log = cs.Transitions(states, states % 2, np.zeros(3_000), np.roll(states, 1))
    with pytest.raises(cs.InputError, match=r"at most 4,096 features. Got 6,000 \(one-hot.*DiffLSTD"):
        Learned(quiet=True).fit(log, "uniform")


@pytest.mark.slow
def test_many_features_have_no_standard_error() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 1_100)) / 30
    with pytest.warns(EvaluationWarning, match="more than 1,024 features"):
        found = learned("diff-gq1", steps=150, seeds=1).fit(cs.FeatureTransitions(x, rng.normal(size=60), 0.5 * x))
    assert found.steps_ == 150
    assert np.isnan(found.standard_error_)
    assert np.isnan(found.spread_)
    assert np.isfinite(found.reward_rate_)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "td"},
        {"approximator": "mlp9"},
        {"step_size": "large"},
        {"step_size": 0.0},
        {"ridge": -0.1},
        {"ridge": "none"},
        {"steps": 0},
        {"steps": "many"},
        {"batch_size": 0},
        {"seeds": 0},
        {"lam": -1.0},
        {"dtype": "float16"},
        {"standard_errors": "none"},
        {"random_state": -1},
    ],
)
def test_bad_settings(settings: dict[str, object]) -> None:
    with pytest.raises(cs.InputError, match=next(iter(settings))):
        Learned(**({"quiet": True} | settings)).fit(misfit("diff-gq1"))  # type: ignore[arg-type]


def test_lam_of_gradient_dice_must_be_positive() -> None:
    with pytest.raises(cs.InputError, match="lam must be a number > 0"):
        Learned("gradient-dice", lam=0.0).fit(misfit("gradient-dice"))
