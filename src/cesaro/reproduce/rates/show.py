"""Tables of the rates study: CSV files, what is printed, and the verdict."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.reproduce import study
from cesaro.reproduce.rates.run import EXPECTED, GUARANTEED, METHODS, Result

if TYPE_CHECKING:
    from rich.console import Console

LABELS = {"diff-gq1": "Projected Diff-GQ1", "diff-gq2": "Projected Diff-GQ2"}
# Series in the order of the printed table: what they are.
SERIES = {
    ("diff-gq1", "solution"): "GQ1: averaged rate and weights",
    ("diff-gq1", "weights"): "GQ1: averaged weights",
    ("diff-gq1", "rate"): "GQ1: averaged rate",
    ("diff-gq2", "solution"): "GQ2: averaged rate and weights",
    ("diff-gq2", "weights"): "GQ2: averaged weights",
    ("diff-gq2", "rate"): "GQ2: averaged rate, beta = alpha",
    ("diff-gq2", "last"): "GQ2: raw rate, beta = alpha",
    ("diff-gq2", "constant"): "GQ2: averaged rate, constant beta",
    ("diff-gq2", "constant-last"): "GQ2: raw rate, constant beta",
}
_QUANTITIES = ("solution", "weights", "rate", "truth", "last", "constant", "constant-last")


def write_errors(result: Result, file: Path) -> None:
    """A row per method, problem and horizon: mean squared errors over runs, `Result.errors` says of what."""
    names = ["method", "problem", "horizon", "step_size", "runs", *_QUANTITIES, "solution_standard_error", "floor"]
    config, rows = result.config, []
    for method in METHODS:
        for i, problem in enumerate(result.chosen):
            for j, horizon in enumerate(config.horizons):
                means = [
                    float(result.errors[method, name][i, j].mean()) if (method, name) in result.errors else None
                    for name in _QUANTITIES
                ]
                spread = float(result.errors[method, "solution"][i, j].std(ddof=1) / np.sqrt(config.runs))
                step = problem.step_size(config, method, horizon)
                rows.append([method, problem.number, horizon, step, config.runs, *means, spread, problem.floor**2])
    study.write_csv(file, names, rows)


def write_problems(result: Result, file: Path) -> None:
    """A row per problem: what is known of it exactly."""
    names = ["problem", "margin", "reward_rate", "td_reward_rate", "floor", "solution_norm", "radius", "rate_variance"]
    names += [f"{what}_{method}" for what in ("max_step", "time_constant") for method in METHODS]
    rows: list[list[Any]] = []
    for problem in result.chosen:
        known = [problem.margin, problem.truth, float(problem.solution[0]), problem.floor, problem.size]
        known += [result.config.radius_factor * problem.size, problem.rate_variance]
        known += [table[method] for table in (problem.max_steps, problem.time_constants) for method in METHODS]
        rows.append([problem.number, *known])
    study.write_csv(file, names, rows)


def print_tables(result: Result, console: "Console") -> None:
    """Errors by horizon, then slopes."""
    table = study.plain_table("Typical squared error to the TD fixed point; RMS error to the true rate")
    for name in ("samples", "GQ1 squared", "GQ2 squared", "GQ1 to truth", "GQ2 to truth"):
        table.add_column(name, justify="right", no_wrap=True)
    columns = [result.typical(method, "solution") for method in METHODS]
    columns += [result.root_mean_square(method, "truth") for method in METHODS]
    for j, horizon in enumerate(result.config.horizons):
        table.add_row(str(horizon), *(f"{column[j]:.3g}" for column in columns))
    table.add_row("floor", "", "", *[f"{result.floor:.3g}"] * 2)
    console.print(table, "")
    table = study.plain_table("Slope of log squared error against log samples, with 95 % interval")
    table.add_column("series", no_wrap=True)
    table.add_column("all horizons", justify="right", no_wrap=True)
    table.add_column("longer half", justify="right", no_wrap=True)
    for series, label in SERIES.items():
        found = (slopes[series] for slopes in (result.slopes, result.late_slopes))
        table.add_row(label, *(f"{s.value:.2f} [{s.low:.2f}, {s.high:.2f}]" for s in found))
    console.print(table, "", markup=False)


def verdict(result: Result) -> list[str]:
    """Sentences that say what holds."""
    slopes = [(LABELS[method], result.slopes[method, "solution"]) for method in METHODS]
    found = ", ".join(f"{label} {s.value:.2f} [{s.low:.2f}, {s.high:.2f}]" for label, s in slopes)
    power = f"N^{GUARANTEED:g}"
    start = (
        f"As guaranteed, squared errors fall at least like {power}"
        if result.guarantee_holds
        else f"NOT clear that squared errors fall at least like {power}"
    )
    lines = [f"{start}: mean slopes over problems {found}; about {EXPECTED:g} was expected."]
    worst = max(slopes, key=lambda pair: float(pair[1].by_problem.max()))
    number = result.chosen[int(np.argmax(worst[1].by_problem))].number
    lines.append(f"Flattest single problem: {worst[1].by_problem.max():.2f} ({worst[0]}, problem {number}).")
    raw = result.means("diff-gq2", "constant-last")[:, -1] / result.predicted_variance
    beta = result.config.rate_step_size
    lines.append(
        f"Diff-GQ2's raw rate with constant beta = {beta:g} keeps its variance: {raw.mean():.2f} times the predicted one "
        f"at {result.config.horizons[-1]:,} samples (mean over problems)."
    )
    return lines
