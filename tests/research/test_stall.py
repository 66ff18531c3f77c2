"""The stall study: its problem against simulation and the Bellman equation, its measures against closed forms, its verdict."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cesaro as cs
from cesaro import problems
from cesaro.approximators import MLP
from cesaro.linear import rate_force
from cesaro.reproduce import stall as documented
from cesaro.reproduce.study import run
from research.stall import Config, show
from research.stall import exact as stall_exact
from research.stall import networks as stall_networks
from research.stall.config import HELD, PROBLEMS, Key, keys
from research.stall.networks import CURVES, METHODS, SHARES
from research.stall.problem import Problem
from research.stall.run import StallResult

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("plain_starts", "adam_is_allowed")]

SMALL: dict[str, Any] = {
    **Config.ABOUT.quick,
    "walks": (6, 12),
    "rows": 600,
    "steps": 24,
    "held_steps": 12,
    "width": 4,
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[StallResult, Path]:
    out = tmp_path_factory.mktemp("stall") / "out"
    return run(Config(**SMALL), out, quiet=True), out


@pytest.mark.parametrize("settings", [{}, {"actions": 1}, {"memory": 0.0, "actions": 3}])
def test_without_noise_the_values_solve_the_bellman_equation_on_every_row(settings: dict[str, Any]) -> None:
    problem = Problem(**settings)
    rows = problem.log(600, 0)
    error = rows.rewards - problem.rate + problem.values(rows.x_next) - problem.values(rows.x)
    # Values leave out the constant, the same at both ends.
    np.testing.assert_allclose(error, 0, atol=1e-10)


def test_rates_are_those_of_long_simulations() -> None:
    problem = Problem(noise=0.2)
    logged = problem.log(100_000, 3).rewards
    target = replace(problem, exploration=0.0).log(100_000, 4).rewards
    for rewards, rate in ((logged, problem.behavior_rate), (target, problem.rate)):
        # 500 trajectories of 200 steps, independent of each other: 5 standard errors, error rate 1e-6 each.
        means = rewards.reshape(200, 500).mean(axis=0)
        assert rewards.mean() == pytest.approx(rate, abs=5 * means.std(ddof=1) / np.sqrt(500))
    assert problem.rate > problem.behavior_rate + 1


def test_actions_move_from_the_target_to_the_log() -> None:
    problem = Problem(actions=2)
    x = problem.log(200, 0).x
    np.testing.assert_array_equal(problem.along_actions(x, 1.0)[:, :4], x[:, :4])
    np.testing.assert_allclose(problem.along_actions(x, 1.0), x, atol=1e-12)
    np.testing.assert_allclose(problem.along_actions(x, 0.0)[:, 4:], x[:, :4] @ problem.control.T, atol=1e-12)


def test_the_force_is_one_over_the_second_moment_of_the_density_ratio() -> None:
    # On a known chain with one feature per pair: rows repeated by their probability make the expectation exact.
    problem = problems.garnet(num_states=5, num_actions=2, seed=3)
    law = problem.exact.stationary_distribution.reshape(-1)
    exact = 1 / float((law**2 / problem.d).sum())
    root = np.sqrt(problem.d)[:, None]
    change = -root * problem.difference
    weights = np.linalg.lstsq(change, root[:, 0], rcond=1e-12)[0]
    assert float(((root[:, 0] - change @ weights) ** 2).sum()) == pytest.approx(exact, rel=1e-9)
    # From sampled rows the function gives it with means of next features only: the noise of single draws would count as force.
    pair, next_pair, probability = problem.sample_space
    drawn = np.random.default_rng(1).choice(len(probability), p=probability, size=20_000)
    x, x_next = problem.X[pair[drawn]], problem.X[next_pair[drawn]]
    assert rate_force(x, x_next, dual=x) == pytest.approx(exact, rel=0.08)  # 6 logs: errors up to 0.04
    assert rate_force(x, (x + problem.difference[pair[drawn]])) == pytest.approx(exact, rel=0.08)
    assert rate_force(x, x_next) > 1.2 * exact
    # It is one over the second moment of the ratio that the closed form implies, which the effective sample size counts.
    data = cs.FeatureTransitions(x, problem.r[pair[drawn]], x_next)
    ratio = cs.DiffLSTD(ridge=0.0, standard_errors="independent", quiet=True).fit(data).density_ratio_
    assert rate_force(x, x_next, dual=x) == pytest.approx(1 / float((ratio**2).mean()), rel=1e-6)
    # And the function itself, on plain rows.
    rng = np.random.default_rng(0)
    x, x_next = rng.standard_normal((2, 50, 3))
    best = np.linalg.lstsq(x - x_next, np.ones(50), rcond=None)[0]
    assert rate_force(x, x_next) == pytest.approx(float(((1 - (x - x_next) @ best) ** 2).mean()), rel=1e-10)


def test_the_force_stays_where_the_pages_name_it() -> None:
    assert documented.rate_force is rate_force


def test_the_walk_needs_squared_time_and_gets_there() -> None:
    walks = [stall_exact.walk(states) for states in (6, 12, 24)]
    sgq, gq1 = stall_exact.exponents(walks)
    assert sgq == pytest.approx(-1, abs=1e-6)
    assert -2.1 < gq1 < -1.8
    for found in walks:
        assert found.sgq_time == pytest.approx(1 / found.gap, rel=1e-6)
        assert found.gq1_limit == pytest.approx(1, abs=1e-6)
        assert found.sgq_share > 0.95
    assert walks[-1].gq1_share < 0.1


def test_a_dual_that_fits_every_row_is_misled_by_noise_and_by_nothing_else() -> None:
    without, noisy = (stall_exact.limits(Problem(actions=1, noise=noise), 20_000, 0) for noise in (0.0, 0.2))
    assert without.free_dual == pytest.approx(without.truth, abs=1e-6)
    assert without.right_dual == pytest.approx(without.truth, abs=1e-6)
    way = noisy.truth - noisy.behavior
    # Over logs the right dual errs by about 0.06 of the way; the other one by about 0.65.
    assert abs(noisy.right_dual - noisy.truth) < 0.25 * way
    assert noisy.free_dual < noisy.truth - 0.4 * way


def test_networks_are_read_back_as_they_are() -> None:
    function = MLP((5, 5))(3, bias=False)
    params = jax.jit(function.init)(jax.random.key(1))
    params = jax.tree.map(lambda leaf: leaf + 0.3, params)  # biases too
    vector = np.asarray(stall_networks._vector(params), np.float64)
    x = np.random.default_rng(0).standard_normal((7, 3))
    layers = stall_networks.network(vector, (3, 5, 5, 1))
    there = np.asarray(function.apply(params, jnp.asarray(x, jnp.float32)))
    np.testing.assert_allclose(stall_networks.apply(layers, x), there, rtol=1e-5, atol=1e-5)


def test_a_start_at_the_solution_starts_there() -> None:
    problem = Problem(actions=1)
    rows = problem.log(2_000, 0)
    values = stall_networks.true_values(problem, rows, steps=24, seed=0, width=4)
    leaves = [np.asarray(leaf).ravel() for leaf in jax.tree.leaves(values)]
    objective = stall_networks._started(stall_networks.residual, MLP((4, 4)), 4, values)
    primal, _ = jax.jit(objective.init)(jax.random.key(5))
    np.testing.assert_array_equal(np.concatenate(leaves), np.asarray(stall_networks._vector(primal["values"])))


def test_the_held_rate_is_held_and_starts_are_shifts(small: tuple[StallResult, Path]) -> None:
    result, _ = small
    problem = PROBLEMS["many"]
    for share in HELD:
        rates = result.trained[Key("many", "held", f"{share:g}", 600)].rates
        expected = problem.behavior_rate + share * (problem.rate - problem.behavior_rate)
        np.testing.assert_allclose(rates, expected, rtol=1e-6)
    for method in METHODS:
        found = result.trained[Key("many", method, "behavior", 600)]
        # At most 24 steps of Adam, each of about 1e-3.
        assert np.abs(found.rates - problem.behavior_rate).max() < 0.05
        assert found.curves.shape == (1, 12, len(CURVES))
        assert np.isnan(found.curves[0, 0, CURVES.index("dual_error")]) == (not method.startswith("diff-gq1"))
        assert found.line[0, SHARES.index(1.0)] == pytest.approx(0, abs=1e-6)
    # Hardly trained, δ is R less its mean: the variance of the rewards.
    assert result.held("many")[HELD.index(0.0)] == pytest.approx(1, abs=0.25)


def test_files_hold_what_was_computed(small: tuple[StallResult, Path]) -> None:
    result, out = small
    text = (out / "networks.csv").read_text(encoding="utf-8")
    assert text.count("\n") == 1 + len(keys(result.config))


def test_the_verdict_is_honest(small: tuple[StallResult, Path]) -> None:
    result = small[0]

    def with_residuals(here: float, there: float) -> StallResult:
        trained = dict(result.trained)
        for share, value in ((0.0, here), (1.0, there)):
            key = Key("many", "held", f"{share:g}", 600)
            curves = trained[key].curves.copy()
            curves[:, -1, CURVES.index("residual")] = value * result.variances["many"]
            trained[key] = trained[key]._replace(curves=curves)
        return replace(result, trained=trained)

    for here, there, flat in ((0.01, 0.012, True), (0.03, 0.01, False), (0.3, 0.3, False)):
        changed = with_residuals(here, there)
        assert changed.is_flat is flat
        word = "does not tell" if flat else "tells"
        assert f"{word} the log's rate from the truth ({here:.2%} and {there:.2%}" in show.verdict(changed)[2]


def test_the_plot_shows_every_method(small: tuple[StallResult, Path]) -> None:
    panels: list[Any] = show.plot(small[0]).axes
    assert len(panels) == 4
    labels = {text.get_text() for text in panels[1].get_legend().get_texts()}
    assert labels == {*(show.LABELS[method] for method in METHODS), "truth", "log"}
