"""Figure 2: the paper's grid, an independent recomputation, selection, both features, the verdict."""

import csv
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import cesaro as cs
from cesaro.errors import InputError
from cesaro.reproduce.boyan import Config, learn, show
from cesaro.reproduce.boyan import run as boyan_run
from cesaro.reproduce.boyan.config import BASELINE, EXTRA_METHODS, PAPER_METHODS, STARTS, misfit_features
from cesaro.reproduce.boyan.result import BoyanResult, MethodRuns, PanelFit
from cesaro.reproduce.looks import LABELS
from cesaro.reproduce.study import run

pytestmark = pytest.mark.slow  # sweeps that take seconds to compile

# Three panels; at the largest step size every method diverges.
SMALL = Config(pi0s=(0.1,), step_sizes=(2.0**-6, 2.0**-4, 8.0), ridges=(0.0, 0.1), lams=(0.1, 1.0), runs=3, samples=200)


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[BoyanResult, Path]:
    out = tmp_path_factory.mktemp("boyan") / "out"
    return run(SMALL, out, quiet=True), out


# The study is the paper's.


def test_the_grid_is_the_papers() -> None:
    config = Config()
    steps, ridges, lams = [2.0**-k for k in range(1, 21)], [0.0, 0.01, 0.1], [0.0, 0.1, 1.0, 10.0]
    expected = {
        "diff-sgq": {(a, None, None) for a in steps},
        "diff-gq1": {(a, eta, None) for a in steps for eta in ridges},
        "diff-gq2": {(a, eta, None) for a in steps for eta in ridges},
        "gradient-dice": {(a, eta, lam) for a in steps for eta in ridges for lam in lams},
    }
    assert tuple(expected) == config.methods
    for method, wanted in expected.items():
        settings = config.settings(method)
        found = {(s["step_size"], s.get("ridge"), s.get("lam")) for s in settings}
        assert found == wanted
        assert len(settings) == len(wanted)
    assert (config.runs, config.samples) == (30, 5_000)
    assert config.run_steps == 682_500_000


def test_fifteen_panels_of_which_thirteen_differ() -> None:
    config = Config()
    columns = (0.1, 0.3, 0.5, 0.7, 0.9)
    assert [[p for p, _ in row] for row in config.rows] == [list(columns)] * 3
    assert [[m for _, m in row] for row in config.rows] == [list(columns), [0.5] * 5, [0.9, 0.7, 0.5, 0.3, 0.1]]
    assert len(config.panels) == len(set(config.panels)) == 13


def test_extra_methods_and_their_grid() -> None:
    config = Config(methods=PAPER_METHODS + EXTRA_METHODS)
    assert [len(config.settings(method)) for method in EXTRA_METHODS] == [60, 60, 20, 20]
    assert set(LABELS) == set(config.methods)


@pytest.mark.parametrize("misfit", [False, True])
def test_the_fit_of_the_features(misfit: bool) -> None:
    """The paper's features give the exact rate in every panel, the others in none; and GradientDICE has the same limit."""
    config = Config(misfit=misfit)
    for panel in config.panels:
        problem = config.problem(*panel)
        found = boyan_run._panel(config, panel)
        assert found.truth == pytest.approx(2 - panel[0], abs=1e-12)
        assert problem.limit("gradient-dice").reward_rate == pytest.approx(found.truth + found.rate_gap, abs=1e-9)
        assert problem.limit("diff-gq1").reward_rate == pytest.approx(found.truth + found.rate_gap, abs=1e-9)
        if misfit:
            assert abs(found.rate_gap) > 5e-4
            assert found.value_error > 0.2
        else:
            assert abs(found.rate_gap) < 1e-12
            assert found.value_error < 1e-12
        assert found.ratio_error > 0.03


def test_misfit_features_are_independent_and_contain_the_constant() -> None:
    X = misfit_features().reshape(26, 5)
    assert np.linalg.matrix_rank(X) == 5
    np.testing.assert_allclose(X @ [1, 1, 1, 1, 0], 1)
    ratios = [
        [boyan_run._panel(Config(misfit=misfit), panel).ratio_error for misfit in (False, True)]
        for panel in Config().panels
    ]
    # The density ratio fits as well with either features, so that what differs is how well values fit.
    assert all(0.8 < changed / original < 1.25 for original, changed in ratios)


# The numbers are those of the engine.


@pytest.mark.slow
def test_recorded_errors_equal_a_recomputation(small: tuple[BoyanResult, Path]) -> None:
    """Every setting of two methods, once more: alone, and by the definition."""
    result, out = small
    recorded = rows(out / "boyan.csv")
    for method in ("diff-gq2", BASELINE):
        panel = (0.1, 0.9)
        chain = cs.problems.boyan_chain(*panel)
        for setting in SMALL.settings(method):
            if setting["step_size"] == 8.0:
                continue
            runs = cs.sweep(method, chain, settings=[setting], seeds=3, budget=200).reward_rate[0, :, -1]
            error = np.abs(runs - 1.9)
            cells = [
                row
                for row in recorded
                if (row["pi0"], row["mu0"], row["method"]) == ("0.1", "0.9", method)
                and all(float(row[name]) == value for name, value in setting.items())
            ]
            assert len(cells) == 1
            assert float(cells[0]["mean_final_error"]) == pytest.approx(error.mean(), rel=1e-5)
            assert float(cells[0]["std_final_error"]) == pytest.approx(error.std(), rel=1e-4, abs=1e-7)
            assert (cells[0]["diverged_runs"], cells[0]["first_divergence"]) == ("0", "")
    best = result.cells[(0.1, 0.9), "diff-sgq"]
    assert best.best is not None
    again = cs.sweep(
        "diff-sgq", cs.problems.boyan_chain(0.1, 0.9), settings=[best.settings[best.best]], seeds=3, budget=200
    )
    np.testing.assert_allclose(best.curve, np.abs(again.reward_rate[0] - 1.9).mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(best.final, np.abs(again.reward_rate[0, :, -1] - 1.9), rtol=1e-5)


def test_a_setting_that_diverged_is_never_the_best(small: tuple[BoyanResult, Path]) -> None:
    result, out = small
    for cell in result.cells.values():
        assert cell.best is not None
        gone = cell.diverged > 0
        assert gone.any()
        assert not gone[cell.best]
        assert cell.error == cell.mean[~gone].min()
        assert np.isinf(cell.mean[gone]).all()
    diverged = [row for row in rows(out / "boyan.csv") if row["diverged_runs"] != "0"]
    assert {row["step_size"] for row in diverged} == {"8.0"}
    assert all(row["mean_final_error"] == row["std_final_error"] == "" for row in diverged)
    assert all(1 <= int(row["first_divergence"]) <= 200 for row in diverged)
    text = (out / "boyan.csv").read_text(encoding="utf-8") + (out / "best.csv").read_text(encoding="utf-8")
    assert not re.search(r"nan|inf", text)


def test_a_method_without_a_finite_setting_is_reported_as_such(tmp_path: Path) -> None:
    config = replace(SMALL, methods=("diff-sgq", BASELINE), step_sizes=(8.0,))
    result = run(config, tmp_path / "out", quiet=True)
    assert all(cell.best is None for cell in result.cells.values())
    assert result.tallies == []
    assert result.claim_holds is None
    assert result.summary()["methods"]["diff-sgq"]["mean_final_error"] is None
    assert printed(result).count("all diverged") == 6
    best = rows(tmp_path / "out" / "best.csv")
    assert {row["final_error"] for row in best} == {row["step_size"] for row in best} == {""}


def test_best_rows_hold_the_claim_and_the_theory(small: tuple[BoyanResult, Path]) -> None:
    result, out = small
    found = rows(out / "best.csv")
    assert [(float(row["pi0"]), float(row["mu0"]), row["method"]) for row in found] == [
        (*panel, method) for panel in SMALL.panels for method in SMALL.methods
    ]
    for row in found:
        panel, method = (float(row["pi0"]), float(row["mu0"])), row["method"]
        others = {name: float(row[name]) for name in ("ridge", "lam") if row[name]}
        stability = cs.problems.boyan_chain(*panel).stability(method, **others)
        assert float(row["max_step_expected"]) == pytest.approx(stability.max_step_expected, rel=1e-5)
        assert float(row["max_step_sampled"]) == pytest.approx(stability.max_step_sampled, rel=1e-5)
        per_step = 2 if method == "diff-gq2" else 1
        constant = per_step * stability.time_constant(float(row["step_size"]))
        assert float(row["time_constant"]) == pytest.approx(constant, rel=1e-5)
        assert row["td_rate_minus_true_rate"] == row["representation_error"] == "0"
        if method == BASELINE:
            assert row["beats_gradient_dice"] == row["margin_over_gradient_dice"] == ""
        else:
            dice = result.cells[panel, BASELINE].error
            assert float(row["margin_over_gradient_dice"]) == pytest.approx(dice - float(row["final_error"]), abs=1e-5)
            assert (row["beats_gradient_dice"] == "yes") == (float(row["final_error"]) < dice)


def test_the_authors_start_is_another_start() -> None:
    config = replace(SMALL, methods=("diff-sgq",), step_sizes=(2.0**-20,))
    zero, random = (learn(replace(config, start=start), (0.1, 0.5), "diff-sgq").reward_rate for start in STARTS)
    assert not np.allclose(zero, random, rtol=1e-3)


def test_runs_of_other_seeds_are_other_streams() -> None:
    config = replace(SMALL, methods=("diff-sgq",), step_sizes=(2.0**-4,))
    assert learn(config, (0.1, 0.5), "diff-sgq").seeds.tolist() == [0, 1, 2]
    assert learn(replace(config, seed=2), (0.1, 0.5), "diff-sgq").seeds.tolist() == [6, 7, 8]


def test_balls_must_hold_the_solutions(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"'radius' .* at least 2\.03, the norm of the largest solution. Got 2.0 instead"
    ):
        run(Config(methods=("projected-diff-gq1",), radius=2.0), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


# The comparison and what is said about it.


def cell(method: str, final: list[float], *, time_constant: float = 100.0) -> MethodRuns:
    one, runs = np.ones(1), np.array(final)
    return MethodRuns(
        method,
        [{"step_size": 0.25}],
        mean=runs.mean(keepdims=True),
        std=runs.std(keepdims=True),
        diverged=0 * one,
        first_divergence=-one,
        best=0,
        final=runs,
        samples=one,
        curve=one,
        band=one,
        max_step_expected=1.0,
        max_step_sampled=math.nan,
        time_constant=time_constant,
    )


def made_up(errors: dict[str, list[float]], *, gap: float = 0.0, misfit: bool = False) -> BoyanResult:
    config = Config(methods=tuple(errors), pi0s=(0.5,), misfit=misfit)
    panel = (0.5, 0.5)
    fit = PanelFit(*panel, truth=1.5, value_error=0.0, ratio_error=0.1, rate_gap=gap)
    return BoyanResult(config, {panel: fit}, {(panel, method): cell(method, final) for method, final in errors.items()})


def printed(result: BoyanResult, width: int = 80) -> str:
    console = Console(highlight=False, width=width)
    with console.capture() as capture:
        show.print_tables(result, console)
    return capture.get() + "\n".join(show.verdict(result))


def test_margins_are_paired() -> None:
    result = made_up({"diff-sgq": [0.1, 0.3], BASELINE: [0.3, 0.4]})
    margin = result.margin((0.5, 0.5), "diff-sgq")
    assert margin is not None
    assert margin == pytest.approx((0.15, 0.05))
    assert result.margin((0.5, 0.5), BASELINE) is None
    (tally,) = result.tallies
    assert (tally.wins, tally.clear_wins, tally.clear_losses) == (1, 1, 0)
    assert result.claim_holds is None


def test_the_verdict_says_what_the_numbers_say() -> None:
    better, worse = [0.1, 0.12], [0.3, 0.31]
    result = made_up({"diff-sgq": better, "diff-gq1": better, "diff-gq2": better, BASELINE: worse})
    assert result.claim_holds
    assert "Verdict: the claim holds in every panel, for all three methods." in printed(result)
    result = made_up({"diff-sgq": better, "diff-gq1": better, "diff-gq2": worse, BASELINE: [0.2, 0.21]})
    assert not result.claim_holds
    text = printed(result)
    assert "the claim does NOT hold" in text
    assert "GradientDICE is at least as good as Diff-GQ2 at (0.5, 0.5)." in text
    assert "Diff-GQ2: lower error in 0 panels, clearly in 0; clearly higher in 1. Margins -0.1000 to -0.1000." in text
    assert "There is no representation error here" in text
    assert "--misfit" in text


def test_the_verdict_counts_what_selection_by_the_truth_rewards() -> None:
    result = made_up({"diff-sgq": [0.1, 0.12], BASELINE: [0.3, 0.31]}, gap=-0.2, misfit=True)
    text = " ".join(printed(result).split())
    assert "off by up to 0.200. 1 of 2 best settings end closer to r_pi than that limit" in text
    assert "-0.2000" in text
    slow = replace(result, cells={key: replace(c, time_constant=1e9) for key, c in result.cells.items()})
    assert "2 of 2 best settings have a time constant above 5,000 samples" in printed(slow)


def test_tables_fit_a_terminal(small: tuple[BoyanResult, Path]) -> None:
    text = printed(made_up({method: [0.01234, 0.56789] for method in PAPER_METHODS + EXTRA_METHODS}))
    console_lines = text.split("The paper:")[0].splitlines()
    assert max(len(line) for line in console_lines) <= 80
    assert sum("0.2901 (0.2778)" in line for line in console_lines) == 2
    small_lines = printed(small[0]).split("The paper:")[0].splitlines()
    assert max(len(line) for line in small_lines) <= 80
    assert any(re.search(r"2\^-[46], 0(\.1)?, (0\.)?1", line) for line in small_lines)


def test_the_figure_has_the_papers_layout(small: tuple[BoyanResult, Path]) -> None:
    result = small[0]
    figure = show.plot(result)
    assert [axis.get_title() for axis in figure.axes] == [
        f"$\\pi_0 = 0.1$, $\\mu_0 = {mu0:g}$" for mu0 in (0.1, 0.5, 0.9)
    ]
    for axis, panel in zip(figure.axes, result.panels):
        assert len(axis.lines) == len(axis.collections) == 4
        for line, method in zip(axis.lines, SMALL.methods):
            np.testing.assert_array_equal(line.get_ydata(), result.cells[panel, method].curve)
    assert len({line.get_color() for line in figure.axes[0].lines}) == 4
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [LABELS[m] for m in SMALL.methods]


def test_step_sizes_are_drawn_with_both_limits(small: tuple[BoyanResult, Path]) -> None:
    result = small[0]
    figure = show.plot_step_sizes(result)
    assert len(figure.axes) == 4 * 3
    panels = [(0.1, 0.1), (0.1, 0.5), (0.1, 0.9)]
    for i, axis in enumerate(figure.axes):
        found = result.cells[panels[i % 3], SMALL.methods[i // 3]]
        drawn = [(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in axis.lines]
        upright = [x[0] for x, y in drawn if y.tolist() == [0, 1]]
        assert upright == pytest.approx([math.log2(found.max_step_sampled), math.log2(found.max_step_expected)])
        lowest = drawn[1][1]
        assert np.nanmin(lowest) == found.error
        assert np.isnan(lowest[-1])  # diverged


def test_the_summary_counts_panels(small: tuple[BoyanResult, Path]) -> None:
    found = small[0].summary()
    assert (found["panels"], found["largest_error_of_the_td_fixed_point"]) == (3, 0)
