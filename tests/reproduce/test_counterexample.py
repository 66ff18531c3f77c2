"""The counterexample study against closed forms, a literal transcription of the updates, and an exact exponent."""

import csv
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from cesaro import problems
from cesaro.learning.source import draw, source
from cesaro.reproduce.counterexample import Config, show
from cesaro.reproduce.counterexample.config import METHODS
from cesaro.reproduce.counterexample.run import (
    CounterexampleResult,
    expected_exponent,
    expected_trajectory,
    lower_bound,
    marks,
    spectral_radius,
    trajectories,
)
from cesaro.reproduce.study import run

pytestmark = pytest.mark.slow

Array = NDArray[np.float64]
SMALL = Config(step_sizes=(2.0**-6, 2.0**-4, 1.0), runs=20)
PROBLEM = problems.two_state_counterexample()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[CounterexampleResult, Path]:
    out = tmp_path_factory.mktemp("counterexample") / "out"
    return run(SMALL, out, quiet=True), out


def states(seed: int) -> NDArray[np.int64]:
    """The states of the first 320 samples of a run: 0 with probability 6/7, else 1."""
    with jax.enable_x64(True):
        key = jax.random.fold_in(jax.random.key(jnp.uint32(seed)), 1)
        return np.asarray(draw(source(PROBLEM, "float64").cumulative, key, jnp.asarray(0), 320), np.int64)


def literal(method: str, alpha: float, seen: NDArray[np.int64]) -> Array:
    """MATHS.md, line by line, with x(s1) = 1, x(s2) = 8 and s2 after every state; rows of (r̂, w) after each update."""
    x, following = np.array([1.0, 8.0])[seen], 8.0
    rate, w = 1.0, 1.0
    nu = np.zeros(2)
    found = [(rate, w)]
    if method == "diff-gq2":
        for x1, x2 in x.reshape(-1, 2):
            rho1, rho2 = (following - x1) * w, (following - x2) * w
            dual = x1 * nu[1]
            nu, w, rate = (
                nu + alpha * (rho1 - rho2 - dual) * np.array([0.0, x1]),
                w + alpha * ((x1 - following) - (x2 - following)) * dual,
                rate + alpha * (0.5 * (rho1 + rho2) - rate),
            )
            found.append((rate, w))
        return np.array(found)
    for x1 in x:
        y, delta = np.array([1.0, x1]), -rate + following * w - x1 * w
        if method == "diff-sgq":
            rate, w = rate + alpha * delta, w + alpha * delta * x1
        else:
            dual = float(y @ nu)
            nu, rate, w = (
                nu + alpha * (delta - dual) * y,
                rate + alpha * dual,
                w + alpha * (x1 - following) * dual,
            )
        found.append((rate, w))
    return np.array(found)


@pytest.mark.parametrize("method", METHODS)
def test_sampled_trajectories_are_the_updates_of_the_paper(method: str) -> None:
    config = Config(step_sizes=(2.0**-4,), shown_step_size=2.0**-4, runs=20, settling=20, seed=2)
    found, at = trajectories(config, method, 2.0**-4), marks(config, method, 2.0**-4)
    per_update = 2 if method == "diff-gq2" else 1
    assert at[-1] * per_update == 320
    for row, seed in zip(found[:3], (40, 41, 42)):
        by_hand = literal(method, 2.0**-4, states(seed))
        np.testing.assert_allclose(row, np.log(np.linalg.norm(by_hand[at], axis=1)), rtol=0, atol=1e-9)


def test_streams_belong_to_the_run() -> None:
    drawn = np.stack([states(seed) for seed in range(10)])
    assert len(np.unique(drawn, axis=0)) == 10
    # 3,200 draws: 5 standard errors, error rate 6e-7.
    assert drawn.mean() == pytest.approx(1 / 7, abs=5 * math.sqrt(6 / 49 / drawn.size))


def test_the_sampled_exponent_at_step_size_one_is_the_exact_one() -> None:
    # At α = 1 the second state's matrix [[0, 0], [−8, 1]] is singular and leads back to the direction (0, 1), so that cycles
    # between its occurrences are independent. After n samples of the first state, with probability (6/7)ⁿ/7, a cycle multiplies
    # by |55 − 49·7ⁿ|/6, and it takes 7 samples on average.
    n = np.arange(200)
    exact = float((6 / 7) ** n / 7 @ np.log([abs(55 - 49 * 7**k) / 6 for k in range(200)])) / 7
    config = Config(step_sizes=(1.0,), shown_step_size=1.0, runs=20, horizon=1_000, settling=2)
    norms = trajectories(config, "diff-sgq", 1.0)
    growth = (norms[:, -1] - norms[:, 0]) / 1_000
    error = growth.std(ddof=1) / math.sqrt(20)
    # 6 standard errors of 20 runs (Student's t, error rate 1e-5); the first and the last cycle are cut: a few units in 1,000.
    assert growth.mean() == pytest.approx(exact, abs=6 * error + 0.005)
    assert error < 0.02


def test_the_expected_update_follows_the_eigenvectors() -> None:
    # (1, 1) = (3, 2) − (2, 1), which belong to the eigenvalues 3 and 2.
    stability, alpha, at = PROBLEM.stability("diff-sgq"), 2.0**-5, np.array([0, 1, 7, 640])
    found = expected_trajectory(stability, alpha, at)
    exact = (1 + 3 * alpha) ** at[:, None] * [3.0, 2.0] - (1 + 2 * alpha) ** at[:, None] * [2.0, 1.0]
    np.testing.assert_allclose(found, np.log(np.linalg.norm(exact, axis=1)), rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_the_expected_update_is_the_mean_of_the_sampled_one(method: str) -> None:
    # One update from the start, averaged over every sample or pair of samples with its probability.
    alpha, chance = 2.0**-4, np.array([6 / 7, 1 / 7])
    pairs = [[i, j] for i in range(2) for j in range(2)] if method == "diff-gq2" else [[0], [1]]
    mean = sum(np.prod(chance[pair]) * literal(method, alpha, np.array(pair))[-1] for pair in pairs)
    found = expected_trajectory(PROBLEM.stability(method), alpha, np.array([0, 1]))
    np.testing.assert_allclose(found[1], math.log(np.linalg.norm(mean)), rtol=1e-12)


def test_the_spectral_radius_exceeds_one_at_every_step_size() -> None:
    stability = PROBLEM.stability("diff-sgq")
    for step in np.geomspace(1e-9, 1e6, 200):
        assert spectral_radius(stability, step) == pytest.approx(1 + 3 * step, rel=1e-12)
        assert expected_exponent(stability, step) > 0


def test_the_lower_bound_is_positive_but_next_to_one() -> None:
    # det(I + αG) is 1 + 6α in the first state and 1 − α in the second.
    for step in (1e-6, 2.0**-10, 0.3, 0.9999, 1.0001, 3.0, 1e6):
        exact = (6 / 7 * math.log(1 + 6 * step) + 1 / 7 * math.log(abs(1 - step))) / 2 / step
        assert lower_bound(PROBLEM, step) == pytest.approx(exact, rel=1e-9)
        assert exact > 0
    assert lower_bound(PROBLEM, 1.0) == -math.inf


def test_diff_sgq_diverges_and_the_gradient_methods_converge(small: tuple[CounterexampleResult, Path]) -> None:
    result, _ = small
    assert result.expected_update_diverges
    # Each exponent is more than 30 standard errors from 0, where 3 (error rate 0.0013 each) are asked for.
    assert result.sampled_update_diverges
    assert all(cell.exponent > 30 * cell.standard_error for cell in result.of("diff-sgq"))
    assert result.gradient_methods_converge
    for method in METHODS[1:]:
        cell = next(cell for cell in result.of(method) if cell.step_size == 2.0**-6)
        assert cell.closer == 1
        assert cell.log_distance < math.log(math.sqrt(2)) - 10
    for found in result.trajectories:
        np.testing.assert_allclose(found.sampled[:, 0], math.log(math.sqrt(2)), rtol=1e-12)
        assert found.expected[0] == pytest.approx(math.log(math.sqrt(2)))
        assert found.samples[-1] == (20 if found.method == "diff-sgq" else 100) * 64
        # Log norms stay within a few units of the expected update's over the whole way.
        assert np.abs(np.median(found.sampled, axis=0) - found.expected).max() < 6


def test_the_gradient_methods_need_small_steps(small: tuple[CounterexampleResult, Path]) -> None:
    for method in METHODS[1:]:
        limit = small[0].stability[method].max_step_sampled
        assert limit is not None
        assert 2.0**-6 < limit < 2.0**-5
        assert next(cell for cell in small[0].of(method) if cell.step_size == 2.0**-4).is_positive


def test_files_hold_what_was_computed(small: tuple[CounterexampleResult, Path]) -> None:
    result, out = small
    with (out / "counterexample.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row, cell in zip(rows, result.cells, strict=True):
        assert row["method"] == cell.method
        assert float(row["exponent"]) == pytest.approx(cell.exponent, rel=1e-5)
        assert float(row["expected"]) == pytest.approx(cell.expected, rel=1e-5)
        assert (row["lower_bound"] == "") == (cell.lower_bound is None)
    trajectories_csv = (out / "trajectories.csv").read_text(encoding="utf-8")
    assert trajectories_csv.count("\n") == 1 + sum(len(found.samples) for found in result.trajectories)
    found = result.summary()["methods"]["diff-sgq"]
    assert found["eigenvalues"] == [[3.0, 0.0], [2.0, 0.0]]
    assert found["max_step_sampled"] is None


def test_the_verdict_is_honest(small: tuple[CounterexampleResult, Path]) -> None:
    result = small[0]
    text = " ".join(show.verdict(result))
    assert "NOT" not in text
    assert "diverges at all 3 step sizes from 2^-6 to 2^0" in text
    unclear = replace(result, cells=tuple(replace(cell, exponent=2 * cell.standard_error) for cell in result.cells))
    text = " ".join(show.verdict(unclear))
    assert "sampled, does NOT clearly diverge" in text
    assert "do NOT clearly converge" in text
    large = replace(result, cells=tuple(cell for cell in result.cells if cell.step_size > 2.0**-6))
    assert "no verdict" in show.verdict(large)[-1]
    assert large.summary()["gradient_methods_converge"] is None


def test_the_plot_shows_every_method(small: tuple[CounterexampleResult, Path]) -> None:
    panels: list[Any] = show.plot(small[0]).axes
    left, right = panels
    for panel in (left, right):
        assert {text.get_text() for text in panel.texts} == {"Diff-SGQ", "Diff-GQ1", "Diff-GQ2"}
    drawn = {tuple(container.lines[0].get_ydata()) for container in right.containers}
    assert drawn >= {tuple(cell.exponent for cell in small[0].of(method)) for method in METHODS}


def printed(result: CounterexampleResult) -> list[str]:
    console = Console(highlight=False, width=80)
    with console.capture() as capture:
        show.print_tables(result, console)
    return capture.get().splitlines()


def test_tables_show_eigenvalues_and_steps(small: tuple[CounterexampleResult, Path]) -> None:
    lines = printed(small[0])
    assert any(line.split() == ["Diff-SGQ", "3,", "2", "none", "none"] for line in lines)
    assert [line.split()[0] for line in lines if line.strip().startswith("2^-")] == ["2^-6", "2^-4"]
    assert "Diff-GQ1 and Diff-GQ2 converge" in show.verdict(small[0])[-1]
