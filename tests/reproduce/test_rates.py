"""The rates study: its problems, its runs against a transcription of the projected updates, its slopes and its floor."""

import csv
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray
from rich.console import Console

from cesaro.errors import InputError
from cesaro.learning import Sweep
from cesaro.learning.source import draw, source
from cesaro.reproduce.rates import Config, show
from cesaro.reproduce.rates import run as rates_run
from cesaro.reproduce.rates.config import METHODS
from cesaro.reproduce.rates.run import DELTAS, GUARANTEED, ChosenProblem, RatesResult, choose, slope, typical
from cesaro.reproduce.study import run

pytestmark = pytest.mark.slow

Array = NDArray[np.float64]
# Few problems, easy ones, and short horizons, but enough runs for a slope.
HORIZONS = (256, 512, 1024, 2048, 4096)
SETTINGS = {"problems": 4, "concentration": 1.0, "horizons": HORIZONS, "runs": 60, "resamples": 200}
SMALL = Config(**SETTINGS)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[RatesResult, Path]:
    out = tmp_path_factory.mktemp("rates") / "out"
    return run(SMALL, out, quiet=True), out


def projected(
    config: Config, chosen: ChosenProblem, method: str, which: int
) -> Iterator[tuple[int, Array, float, float]]:
    """One run at the shortest horizon, as in MATHS.md: after every update its samples, ū, the raw r̂, and its β = α."""
    problem, radius = chosen.problem, config.radius_factor * float(np.linalg.norm(chosen.solution))
    alpha = config.step_share * chosen.max_steps[method]
    seed = (config.seed * config.problems + chosen.position) * config.runs + which
    key = jax.random.fold_in(jax.random.key(jnp.uint32(seed)), 1)
    rows = np.asarray(draw(source(problem, "float32").cumulative, key, jnp.int32(0), config.horizons[0]))
    x, following = problem.X[problem.sample_space.pair[rows]], problem.X[problem.sample_space.next_pair[rows]]
    reward = problem.r[problem.sample_space.pair[rows]]

    def ball(vector: Array) -> Array:
        return np.asarray(vector * min(1.0, radius / max(float(np.linalg.norm(vector)), 1e-300)))

    width = problem.num_features
    if method == "diff-gq1":
        nu, u, mean = np.zeros(width + 1), np.zeros(width + 1), np.zeros(width + 1)
        for k in range(len(rows)):
            y, z = np.append(1.0, x[k]), np.append(-1.0, following[k] - x[k])
            nu, u = ball(nu + alpha * (reward[k] + z @ u - y @ nu) * y), ball(u - alpha * z * (y @ nu))
            mean = mean + (u - mean) / (k + 1)
            yield k + 1, mean, float(u[0]), alpha
        return
    nu, w, rate, mean_w, mean_rate = np.zeros(width), np.zeros(width), 0.0, np.zeros(width), 0.0
    for k in range(0, len(rows), 2):
        (x1, _), (z1, z2), (r1, r2) = x[k : k + 2], following[k : k + 2] - x[k : k + 2], reward[k : k + 2]
        dual = float(x1 @ nu)
        rate = rate + alpha * (0.5 * (r1 + z1 @ mean_w + r2 + z2 @ mean_w) - rate)
        nu, w = ball(nu + alpha * (r1 - r2 + (z1 - z2) @ w - dual) * x1), ball(w - alpha * (z1 - z2) * dual)
        number = k // 2 + 1
        mean_w, mean_rate = mean_w + (w - mean_w) / number, mean_rate + (rate - mean_rate) / number
        yield k + 2, np.append(mean_rate, mean_w), rate, alpha


@pytest.mark.parametrize("method", METHODS)
def test_runs_are_the_projected_updates_of_the_paper(small: tuple[RatesResult, Path], method: str) -> None:
    result, _ = small
    for chosen in result.chosen[:2]:
        *_, (samples, average, raw, alpha) = projected(SMALL, chosen, method, 7)
        assert samples == SMALL.horizons[0]
        assert alpha == chosen.step_size(SMALL, method, samples)
        found = {name: result.errors[method, name][chosen.position, 0, 7] for name in ("solution", "truth", "last")}
        # Learning is in float32.
        assert found["solution"] == pytest.approx(np.sum((average - chosen.solution) ** 2), rel=1e-3)
        assert found["truth"] == pytest.approx((average[0] - chosen.truth) ** 2, rel=1e-3)
        assert found["last"] == pytest.approx((raw - chosen.solution[0]) ** 2, rel=1e-3)


def test_each_horizon_has_its_own_step_size() -> None:
    chosen, _ = choose(SMALL)
    steps = [chosen[0].step_size(SMALL, "diff-gq1", horizon) for horizon in SMALL.horizons]
    np.testing.assert_allclose(steps, chosen[0].max_steps["diff-gq1"] / 2 * (np.array(HORIZONS) / 256) ** -0.5)


def test_ends_are_taken_from_the_right_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    # Every number says where it stands: 10,000 · setting + 100 · record + run.
    chosen, _ = choose(replace(SMALL, problems=1))

    def numbered(config: Config, problem: ChosenProblem, method: str) -> Sweep:
        setting, seed, record = np.meshgrid(np.arange(10.0), np.arange(3.0), np.arange(16.0), indexing="ij")
        values = 10_000 * setting + 100 * record + seed
        extra = {"weights": values[..., None], "last_reward_rate": -values}
        return Sweep(method, [{}] * 10, np.arange(3), np.arange(16), values, np.full((10, 3), -1), extra)

    monkeypatch.setattr(rates_run, "learn", numbered)
    piece = rates_run._piece(SMALL, chosen[0], "diff-gq2")
    expected = 20_000 * np.arange(5)[:, None] + 100 * np.array([0, 1, 3, 7, 15])[:, None] + np.arange(3)
    np.testing.assert_array_equal(piece["rate"], expected)
    np.testing.assert_array_equal(piece["weights"][..., 0], expected)
    np.testing.assert_array_equal(piece["last"], -expected)
    np.testing.assert_array_equal(piece["constant"], expected + 10_000)
    np.testing.assert_array_equal(piece["constant-last"], -expected - 10_000)


@pytest.mark.parametrize("settings", [{}, {"concentration": 0.1, "off_policy": 1.0, "xi": 0.9, "seed": 1}])
def test_every_problem_satisfies_the_assumptions(settings: dict[str, float]) -> None:
    config = Config(**{**SETTINGS, **settings})  # type: ignore[arg-type]
    chosen, rejected = choose(config)
    numbers = [problem.number for problem in chosen]
    assert numbers == sorted(set(numbers))
    assert numbers[0] >= 1_000 * config.seed
    assert sorted([*numbers, *rejected]) == list(range(1_000 * config.seed, numbers[-1] + 1))
    for known in chosen:
        assert all(assumption.holds for assumption in known.problem.assumptions(config.xi))
        np.testing.assert_allclose(known.problem.A @ known.solution + known.problem.b, 0, atol=1e-9)
        assert np.linalg.svd(known.problem.A, compute_uv=False)[-1] > 1e-6
        assert known.floor == pytest.approx(known.problem.error_bounds(config.xi).rate_error)
        assert known.margin >= 0
        pair, next_pair, chance = known.problem.sample_space
        rho = known.problem.r[pair] + (known.problem.X[next_pair] - known.problem.X[pair]) @ known.solution[1:]
        halves = np.array([(chance[i] * chance, 0.5 * (rho[i] + rho)) for i in range(len(rho))])
        mean = np.sum(halves[:, 0] * halves[:, 1])
        assert mean == pytest.approx(known.solution[0])
        assert known.rate_variance == pytest.approx(np.sum(halves[:, 0] * (halves[:, 1] - mean) ** 2))
    if settings:
        assert rejected
        for number in rejected:
            assert not all(
                assumption.holds for assumption in rates_run.candidate(config, number).assumptions(config.xi)
            )


def test_impossible_assumptions_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates_run, "CANDIDATES", 5)
    with pytest.raises(InputError, match=r"Only 0 of 5 random problems satisfy all assumptions at ξ = 0.001"):
        run(Config(xi=0.001), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_slopes_of_known_power_laws() -> None:
    horizons = 2.0 ** np.arange(8, 14)
    random = np.random.default_rng(0)
    scale = random.lognormal(size=(12, 1, 1))
    exact = np.broadcast_to(scale * horizons[:, None] ** -0.7, (12, 6, 30))
    found = slope(exact, np.log(horizons), 100, 0)
    assert (found.value, found.low, found.high) == pytest.approx((-0.7, -0.7, -0.7))
    # Squared normal errors: the interval holds the truth, and is as wide as twelve times thirty runs make it.
    noisy = slope(exact * random.normal(size=exact.shape) ** 2, np.log(horizons), 500, 0)
    assert noisy.low < -0.7 < noisy.high
    centered = np.log(horizons) - np.log(horizons).mean()
    error = math.sqrt(2 / 30 / 12 / float(np.sum(centered**2)))
    assert 2 * error < noisy.high - noisy.low < 7 * error
    assert noisy.by_problem.shape == (12,)
    # Problems that differ make it wider.
    powers = np.linspace(-1, -0.4, 12)[:, None, None]
    spread = slope(np.broadcast_to(horizons[:, None] ** powers, (12, 6, 30)), np.log(horizons), 500, 0)
    assert spread.value == pytest.approx(-0.7)
    assert spread.high - spread.low == pytest.approx(4 * np.std(powers) / math.sqrt(12), rel=0.2)


def test_quantiles_and_constants_of_known_laws() -> None:
    """Squared normal errors in three dimensions, scaled by the bound's own N^(−½): slopes of −½ and chi-square quantiles."""
    random = np.random.default_rng(0)
    config = replace(SMALL, runs=4_000)
    chosen = choose(SMALL)[0]
    scale = np.array([1.0, 10.0, 0.1, 3.0])[:, None, None] * (np.array(HORIZONS) / 5)[:, None] ** -0.5
    errors = scale * random.chisquare(3, size=(4, 5, 4_000))
    result = RatesResult(
        config, chosen, (), {(method, name): errors for method in METHODS for name in ("solution", "weights")}
    )
    for delta in DELTAS:
        quantile = float(scipy.stats.chi2.ppf(1 - delta, 3))
        # Standard errors are at most 0.018 of the quantiles; 8 of these.
        np.testing.assert_allclose(result.quantiles("diff-gq2", "weights", delta), quantile * scale[..., 0], rtol=0.15)
        needed = result.constants("diff-gq1", delta)
        expected = quantile / (8 + 2 * math.log(2 / delta)) * np.array([1.0, 10.0, 0.1, 3.0])[:, None]
        np.testing.assert_allclose(needed, np.broadcast_to(expected, (4, 5)), rtol=0.15)
        assert typical(needed).shape == (5,)
        found = slope(errors[..., :200], np.log(HORIZONS), 200, 0, delta)
        assert found.low < -0.5 < found.high
        assert found.high - found.low < 0.2


def test_slopes_errors_and_floor_of_a_small_run(small: tuple[RatesResult, Path]) -> None:
    result, _ = small
    # The bootstrap's standard error is about 0.03: five of them on either side (error rate 6e-7). Diff-GQ1 is steeper than −1
    # because its first step sizes are not far from the stability limit, where noise is amplified.
    assert -1.27 < result.slopes["diff-gq1", "solution"].value < -0.95
    assert -1.13 < result.slopes["diff-gq2", "solution"].value < -0.82
    assert -1.15 < result.late_slopes["diff-gq2", "weights"].value < -0.75
    assert result.slopes["diff-gq1", "solution"].high < GUARANTEED
    # No slope at all where the variance stays: four problems with 60 runs at five horizons.
    constant = result.slopes["diff-gq2", "constant-last"]
    assert constant.low - 0.1 < 0 < constant.high + 0.1
    # 240 squared normal errors: 5 standard errors of their mean, error rate 6e-7, and a little that is left of the start.
    raw = result.means("diff-gq2", "constant-last")[:, -1] / result.predicted_variance
    assert raw.mean() == pytest.approx(1, abs=5 * math.sqrt(2 / 240) + 0.1)
    for method in METHODS:
        assert (result.errors[method, "solution"] >= result.errors[method, "weights"]).all()
        floors = np.array([problem.floor for problem in result.chosen])
        truth, rate = (np.sqrt(result.means(method, name)[:, -1]) for name in ("truth", "rate"))
        assert (np.abs(truth - floors) <= rate + 1e-12).all()  # the triangle inequality
    assert result.floor == pytest.approx(np.sqrt(np.mean(floors**2)))


def test_files_hold_what_was_computed(small: tuple[RatesResult, Path]) -> None:
    result, out = small
    with (out / "rates.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 2 * 4 * 5
    row = next(r for r in rows if (r["method"], r["problem"], r["horizon"]) == ("diff-gq2", "1", "1024"))
    assert float(row["solution"]) == pytest.approx(result.means("diff-gq2", "solution")[1, 2], rel=1e-5)
    assert float(row["constant-last"]) == pytest.approx(result.means("diff-gq2", "constant-last")[1, 2], rel=1e-5)
    assert float(row["floor"]) == pytest.approx(result.chosen[1].floor ** 2, rel=1e-5)
    assert float(row["quantile_0.9"]) == pytest.approx(
        np.quantile(result.errors["diff-gq2", "weights"][1, 2], 0.9), rel=1e-5
    )
    assert all((r["constant"] == "") == (r["method"] == "diff-gq1") for r in rows)
    with (out / "problems.csv").open(encoding="utf-8", newline="") as stream:
        assert [int(r["problem"]) for r in csv.DictReader(stream)] == [problem.number for problem in result.chosen]
    summary = result.summary()
    assert summary["problems"] == [0, 1, 2, 3]
    assert summary["guarantee_is_probable"]
    assert set(summary["needed_constants"]) == {f"{m} {delta:g}" for m in METHODS for delta in DELTAS}


def test_the_verdict_is_honest(small: tuple[RatesResult, Path]) -> None:
    result = small[0]
    flat = {series: np.broadcast_to(errors[:, :1], errors.shape) for series, errors in result.errors.items()}
    stuck = replace(result, errors=flat)
    assert stuck.slopes["diff-gq1", "solution"].value == pytest.approx(0, abs=1e-12)
    assert not stuck.guarantee_holds
    assert show.verdict(stuck)[0].startswith("NOT clear that squared errors fall at least like N^-0.5")
    falling = {series: errors / np.array(HORIZONS)[:, None] for series, errors in flat.items()}
    good = replace(result, errors=falling)
    assert good.guarantee_holds
    assert show.verdict(good)[0].startswith("As guaranteed")
    assert "-1.00 [-1.00, -1.00]" in show.verdict(good)[0]
    assert "holds of quantiles over runs" in show.verdict(good)[2]
    assert "needs falls from 256 to 4,096 samples" in show.verdict(good)[2]
    assert not stuck.guarantee_is_probable
    assert "is NOT clear of quantiles" in show.verdict(stuck)[2]
    assert "does NOT fall" in show.verdict(stuck)[2]


def test_the_plot_has_slopes_guides_and_the_floor(small: tuple[RatesResult, Path]) -> None:
    result = small[0]
    panels: list[Any] = show.plot(result).axes
    legends = [[text.get_text() for text in panel.get_legend().get_texts()] for panel in panels]
    found = result.slopes["diff-gq1", "solution"].value
    assert legends[0][0].startswith(f"Projected Diff-GQ1: slope −{-found:.2f} [−")
    assert {"slope −0.5 (guarantee)", "slope −1 (expected)"} <= set(legends[0])
    assert legends[0].count("0.95 quantile over runs") == 2
    floor = next(line for line in panels[1].lines if line.get_label().startswith("floor"))
    assert set(floor.get_ydata()) == {result.floor}
    raw = next(line for line in panels[2].lines if line.get_label().startswith("raw r̂, constant"))
    np.testing.assert_allclose(raw.get_ydata(), result.typical("diff-gq2", "constant-last"))


def printed(result: RatesResult) -> list[str]:
    console = Console(highlight=False, width=80)
    with console.capture() as capture:
        show.print_tables(result, console)
    return capture.get().splitlines()


def test_tables_show_horizons_series_and_deltas(small: tuple[RatesResult, Path]) -> None:
    lines = printed(small[0])
    firsts = [line.split()[0] for line in lines if line.strip()[:1].isdigit()]
    assert firsts == [*(str(horizon) for horizon in HORIZONS), *(f"{delta:g}" for delta in DELTAS)]
    assert sum(line.startswith(("GQ1:", "GQ2:")) for line in lines) == 9
    assert "Flattest single problem" in show.verdict(small[0])[1]
