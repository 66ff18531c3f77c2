"""The coverage study: its chains against brute force, its estimates against `DiffLSTD` on logs, its counts and its verdicts."""

import csv
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

import cesaro as cs
from cesaro.passes.standard_errors import independent, project
from cesaro.reproduce.coverage import Config, show
from cesaro.reproduce.coverage import run as coverage_run
from cesaro.reproduce.coverage.run import (
    CHAINS,
    RULES,
    SERIES,
    CoverageResult,
    KnownChain,
    batch_means,
    intervals,
    known,
    rows,
    simulate,
)
from cesaro.reproduce.study import run

pytestmark = pytest.mark.slow

Array = NDArray[np.float64]
SETTINGS: dict[str, Any] = {
    "logs": 12,
    "lengths": (40, 120),
    "trajectories": (1, 30),
    "rows": (400,),
    "rows_logs": (1,),
    "limits": (0,),
}
SMALL = Config(**SETTINGS)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[CoverageResult, Path]:
    out = tmp_path_factory.mktemp("coverage") / "out"
    return run(SMALL, out, quiet=True), out


@pytest.fixture(scope="module", params=CHAINS)
def problem(request: pytest.FixtureRequest) -> KnownChain:
    return known(request.param, 0.85, 0.1)


def test_the_chains_are_what_the_study_needs() -> None:
    fast, sticky = (known(name, 0.85, 0.1) for name in CHAINS)
    assert fast.autocorrelation_time < 2
    # With fitting features every formula covers; without them and a sticky chain, independent rows do not.
    for found in (fast, sticky):
        assert found.times["one-hot", "rate"] == pytest.approx(1)
        assert found.times["one-hot", "difference"] == pytest.approx(1)
        assert found.truths["one-hot", "rate"] == pytest.approx(found.rates[0])
        assert abs(found.truths["misfit", "rate"] - found.rates[0]) > 0.05
        np.testing.assert_allclose(found.law.sum(axis=1)[:, None] * found.behavior, found.law, atol=1e-12)
        assert all(np.abs(target - found.behavior).max() > 0.2 for target in found.targets)
    assert sticky.times["misfit", "rate"] > 10
    assert sticky.times["none", "behavior"] > 10
    assert sticky.times["misfit", "difference"] > 3
    # Staying in a state with the same probability in every state leaves the rates as they are.
    assert sticky.rates == pytest.approx(fast.rates)


def test_long_run_variances_are_sums_of_autocovariances(problem: KnownChain) -> None:
    # What the log earned, by the first 2,000 autocovariances.
    chain = np.einsum("sat,tb->satb", np.asarray(problem.mdp.probabilities), problem.behavior).reshape(16, 16)
    law, reward = problem.law.ravel(), problem.mdp.rewards.ravel()
    deviation = reward - law @ reward
    power, total = deviation.copy(), float(law @ deviation**2)
    for _ in range(2_000):
        power = chain @ power
        total += 2 * float(law @ (deviation * power))
    assert problem.deviations["none", "behavior"] ** 2 == pytest.approx(total)
    assert problem.times["none", "behavior"] == pytest.approx(total / float(law @ deviation**2))


def test_simulated_logs_follow_the_chain(problem: KnownChain) -> None:
    pairs = simulate(problem, 400, 500, np.random.default_rng(0))
    assert pairs.shape == (400, 501)
    chain = np.einsum("sat,tb->satb", np.asarray(problem.mdp.probabilities), problem.behavior).reshape(16, 16)
    # Starts and ends from the stationary law: 16 shares of 400, 5 standard errors each (error rate 2e-5).
    law = problem.law.ravel()
    for column in (0, -1):
        shares = np.bincount(pairs[:, column], minlength=16) / 400
        assert (np.abs(shares - law) < 5 * np.sqrt(law * (1 - law) / 400)).all()
    counts = np.zeros((16, 16))
    np.add.at(counts, (pairs[:, :-1].ravel(), pairs[:, 1:].ravel()), 1)
    visits = counts.sum(axis=1, keepdims=True)
    assert (np.abs(counts / visits - chain) < 5 * np.sqrt(chain * (1 - chain) / visits) + 1e-3).all()
    assert (counts[chain == 0] == 0).all()


@pytest.mark.parametrize("trajectories", [1, 50])
def test_estimates_are_those_of_a_log_and_a_policy(problem: KnownChain, trajectories: int) -> None:
    pairs = simulate(problem, trajectories, 3_000 // trajectories, np.random.default_rng(1))
    found = intervals(problem, pairs)
    state, action = np.divmod(pairs, 2)
    log = cs.Transitions(
        state[:, :-1].ravel(),
        action[:, :-1].ravel(),
        problem.mdp.rewards[state, action][:, :-1].ravel(),
        state[:, 1:].ravel(),
        trajectory=np.repeat(np.arange(trajectories), 3_000 // trajectories),
    )

    def linear(states: NDArray[np.int64], actions: NDArray[np.int64]) -> Array:
        return np.asarray(problem.features["misfit"][states, actions])

    for kind, features in {"one-hot": "one-hot", "misfit": linear, "ridge": linear}.items():
        ridge = 0.1 if kind == "ridge" else 0.0
        answer = cs.compare(
            log,
            dict(zip(("one", "other"), problem.targets)),
            features=features,
            ridge=ridge,
            quiet=True,
        )
        one = answer.evaluations["one"]
        expected = {"rate": one.target, "difference": answer.differences["one", "other"], "gain": one.difference}
        for quantity, estimate in expected.items():
            default, batches, naive = found[kind, quantity]
            assert default.value == batches.value == naive.value == pytest.approx(estimate.value, abs=1e-9)
            assert default.standard_error == pytest.approx(estimate.standard_error, rel=1e-6)
            assert default.degrees_of_freedom == estimate.degrees_of_freedom
        plain = independent(one.reward_rate, project(one.estimator.sampling_.spans, 0, one.influence))
        assert found[kind, "rate"][2].standard_error == pytest.approx(plain.standard_error, rel=1e-6)
        assert found["none", "behavior"][0].standard_error == pytest.approx(one.behavior.standard_error)


def test_batch_means() -> None:
    series = np.random.default_rng(0).normal(size=400)
    found = batch_means(2.0, series)
    means = [series[20 * k : 20 * k + 20].mean() for k in range(20)]
    assert (found.value, found.degrees_of_freedom) == (2.0, 19)
    assert found.standard_error == pytest.approx(np.std(means, ddof=1) / math.sqrt(20))


def test_counts_are_of_intervals_that_hold_the_truth(small: tuple[CoverageResult, Path]) -> None:
    result, _ = small
    assert len(result.cells) == 2 * 2 * 2 * len(SERIES)
    lengths = rows(SMALL, result.problems["sticky"])
    assert all(count % 60 == 0 for count in lengths)
    assert lengths[1] - 60 < 120 * result.problems["sticky"].autocorrelation_time <= lengths[1]
    # A log from a piece of its own, by hand.
    problem = result.problems["sticky"]
    rng = np.random.default_rng([SMALL.seed, 1, 30, 0])
    pairs = simulate(problem, 50 * 30, lengths[1] // 30, rng)[3 * 30 : 4 * 30]
    for i, count in enumerate(lengths):
        found = intervals(problem, pairs[:, : count // 30 + 1])
        for j, key in enumerate(SERIES):
            assert result.estimates["sticky", 30][i, j, 3] == found[key][0].value
            for k, rule in enumerate(RULES):
                low, high = found[key][k].interval(0.95)
                assert result.half_widths["sticky", 30][i, j, k, 3] == pytest.approx((high - low) / 2)
                every = np.abs(result.estimates["sticky", 30][i, j] - problem.truths[key])
                cell = next(c for c in result.cells if c[:3] == ("sticky", 30, SMALL.lengths[i]) and c[4:6] == key)
                share = np.mean(every <= result.half_widths["sticky", 30][i, j, k])
                assert cell.coverage[rule] == pytest.approx(share)


def test_refused_logs_count_as_not_covered(small: tuple[CoverageResult, Path]) -> None:
    result = small[0]
    broken = {key: values.copy() for key, values in result.estimates.items()}
    broken["fast", 1][-1, 0, :3] = math.nan
    damaged = replace(result, estimates=broken)
    before, after = result.promised[0], damaged.promised[0]
    assert after.answered == 9 / 12
    assert after.coverage["default"] <= min(before.coverage["default"], 9 / 12)
    assert np.isfinite([after.bias, after.deviation]).all()
    assert any(line.startswith("Refused") for line in show.verdict(damaged))


def test_a_log_that_lacks_pairs_is_refused_with_one_hot_features_only() -> None:
    problem = known("fast", 0.85, 0.1)
    found = intervals(problem, simulate(problem, 1, 20, np.random.default_rng(0)))
    assert {key[0] for key in found} == {"misfit", "ridge", "none"}


def test_estimates_have_the_spread_of_the_influence_series() -> None:
    # 150 estimates of long logs: a standard deviation has a relative standard error of 1/√300, 5 of them on either side.
    problem = known("sticky", 0.85, 0.1)
    pairs = simulate(problem, 150, 2_000, np.random.default_rng(3))
    found = [intervals(problem, own[None]) for own in pairs]
    for key in SERIES:
        values = np.array([estimates[key][0].value for estimates in found])
        assert np.std(values) * math.sqrt(2_000) == pytest.approx(problem.deviations[key], rel=5 / math.sqrt(300))
        assert abs(values.mean() - problem.truths[key]) < 5 * np.std(values) / math.sqrt(150)


def test_files_hold_what_was_computed(small: tuple[CoverageResult, Path]) -> None:
    result, out = small
    with (out / "coverage.csv").open(encoding="utf-8", newline="") as stream:
        found = list(csv.DictReader(stream))
    assert len(found) == len(result.cells)
    for row, cell in zip(found, result.cells):
        assert (row["chain"], row["features"], row["quantity"]) == (cell.chain, cell.features, cell.quantity)
        assert float(row["coverage_default"]) == pytest.approx(cell.coverage["default"], rel=1e-5)
        assert float(row["half_width_independent"]) == pytest.approx(cell.half_width["independent"], rel=1e-5)
    with (out / "series.csv").open(encoding="utf-8", newline="") as stream:
        series = list(csv.DictReader(stream))
    assert len(series) == 2 * len(SERIES)
    assert float(series[-1]["truth"]) == pytest.approx(result.problems["sticky"].truths["none", "behavior"], rel=1e-5)


def test_a_log_is_the_same_however_many_there_are(small: tuple[CoverageResult, Path]) -> None:
    result = small[0]
    piece = coverage_run._piece(replace(SMALL, logs=2), result.problems["fast"], 30, 0)
    np.testing.assert_array_equal(piece["estimates"], result.estimates["fast", 30][..., :2])


def with_coverage(result: CoverageResult, config: Config, default: float, naive: float) -> CoverageResult:
    """The result of intervals that cover these shares of 1,000 logs in every cell."""
    size = len(config.lengths), len(SERIES)
    estimates, halves = {}, {}
    for chain, problem in result.problems.items():
        truths = np.array([problem.truths[key] for key in SERIES])
        for trajectories in config.trajectories:
            values = np.tile(truths[None, :, None] + 1, (size[0], 1, config.logs))
            width = np.zeros((*size, len(RULES), config.logs))
            for k, share in enumerate((default, default, naive)):
                width[:, :, k, : round(share * config.logs)] = 2
            estimates[chain, trajectories], halves[chain, trajectories] = values, width
    return CoverageResult(config, result.problems, estimates, halves, result.systems)


def test_the_verdict_is_honest(small: tuple[CoverageResult, Path]) -> None:
    config = Config()
    good = with_coverage(small[0], config, 0.95, 0.4)
    assert not good.outside
    assert good.is_telling
    first, second, third = show.verdict(good)
    assert third.startswith("No verdict: on judged systems")
    assert first.startswith("As promised, default intervals cover 95.0-95.0 % of 1,000 logs in 60 cells at 500 auto")
    assert "The study can tell formulas apart: independent rows cover 40.0-40.0 %" in second
    for share in (0.925, 0.97):
        assert not with_coverage(small[0], config, share, 0.4).outside
    for share in (0.924, 0.971):
        bad = with_coverage(small[0], config, share, 0.4)
        assert len(bad.outside) == 60
        assert show.verdict(bad)[0].startswith("NOT as promised")
    assert "what the log earned, sticky, 50 short 97.1 %" in show.verdict(bad)[0]
    vain = with_coverage(small[0], config, 0.95, 0.8)
    assert not vain.is_telling
    assert "proves NOTHING" in show.verdict(vain)[1]
    assert show.verdict(small[0])[0].startswith("No verdict: default intervals cover")
    parts: tuple[dict[str, Any], ...] = ({"logs": 999}, {"lengths": (50, 499)}, {"trajectories": (1, 50)})
    for part in parts:
        assert not replace(config, **part).is_full


def test_the_plot_has_a_panel_for_every_kind_of_log(small: tuple[CoverageResult, Path]) -> None:
    result = small[0]
    figure: Any = show.plot(result)
    assert len(figure.axes) == 4
    panel = next(axes for axes in figure.axes if axes.get_title().startswith("sticky chain, 30 trajectories"))
    marks = next(c for c in panel.collections if c.get_label() == "default rule, 120 times").get_offsets()
    cells = [c for c in result.promised if c[:2] == ("sticky", 30)]
    np.testing.assert_allclose(marks[:, 0], [100 * c.coverage["default"] for c in cells])
    np.testing.assert_array_equal(marks[:, 1], range(len(SERIES)))


def printed(result: CoverageResult) -> list[str]:
    console = Console(highlight=False, width=80)
    with console.capture() as capture:
        show.print_tables(result, console)
    return capture.get().splitlines()


def test_there_is_a_table_per_rule(small: tuple[CoverageResult, Path]) -> None:
    assert sum(line.startswith("misfit: rate") for line in printed(small[0])) == len(RULES)
