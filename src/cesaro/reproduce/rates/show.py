"""Convergence in numbers and in a picture: CSV files, what is printed, the verdict, and the figure."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.checks import Array
from cesaro.reproduce import looks, study
from cesaro.reproduce.rates.config import METHODS
from cesaro.reproduce.rates.run import BOUNDED, DELTAS, EXPECTED, GUARANTEED, RatesResult, typical

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

LABELS = {method: f"Projected {looks.LABELS[method]}" for method in METHODS}
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
_LOOKS = {"diff-gq1": (looks.ORANGE, "s"), "diff-gq2": (looks.GREEN, "^")}


def files(result: RatesResult) -> study.Files:
    """The writers of the files that hold the results, but for the manifest."""
    return {
        "rates.csv": partial(write_errors, result),
        "problems.csv": partial(write_problems, result),
        "rates.png": study.picture(plot, result),
    }


def write_errors(result: RatesResult, file: Path) -> None:
    """A row per method, problem and horizon: mean squared errors over runs, `RatesResult.errors` says of what, and quantiles of
    what the method's lemma bounds."""
    names = ["method", "problem", "horizon", "step_size", "runs", *_QUANTITIES, "solution_standard_error", "floor"]
    names += [f"quantile_{1 - delta:g}" for delta in DELTAS]
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
                over_runs = [float(result.quantiles(method, BOUNDED[method], delta)[i, j]) for delta in DELTAS]
                known = [method, problem.number, horizon, step, config.runs]
                rows.append([*known, *means, spread, problem.floor**2, *over_runs])
    study.write_csv(file, names, rows)


def write_problems(result: RatesResult, file: Path) -> None:
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


def print_tables(result: RatesResult, console: "Console") -> None:
    """Errors by horizon, then slopes, then what holds with which probability."""
    names = ("samples", "GQ1 squared", "GQ2 squared", "GQ1 to truth", "GQ2 to truth")
    table = study.plain_table("Typical squared error to the TD fixed point; RMS error to the true rate", right=names)
    columns = [result.typical(method, "solution") for method in METHODS]
    columns += [result.root_mean_square(method, "truth") for method in METHODS]
    for j, horizon in enumerate(result.config.horizons):
        table.add_row(str(horizon), *(f"{column[j]:.3g}" for column in columns))
    table.add_row("floor", "", "", *[f"{result.floor:.3g}"] * 2)
    console.print(table, "")
    title = "Slope of log squared error against log samples, with 95 % interval"
    table = study.plain_table(title, "series", right=("all horizons", "longer half"))
    for series, label in SERIES.items():
        found = (slopes[series] for slopes in (result.slopes, result.late_slopes))
        table.add_row(label, *(f"{s.value:.2f} [{s.low:.2f}, {s.high:.2f}]" for s in found))
    console.print(table, "", markup=False)
    title = "With probability 1 - delta: slopes of quantiles over runs, largest needed K0"
    table = study.plain_table(title, right=("delta", "GQ1 slope", "GQ2 slope", "GQ1 K0", "GQ2 K0"))
    for delta in DELTAS:
        found = (result.quantile_slopes[method, delta] for method in METHODS)
        slopes_shown = [f"{s.value:.2f} [{s.low:.2f}, {s.high:.2f}]" for s in found]
        needed = (typical(result.constants(method, delta)) for method in METHODS)
        table.add_row(f"{delta:g}", *slopes_shown, *(f"{k.max():.2g}" for k in needed))
    console.print(table, "", markup=False)


def verdict(result: RatesResult) -> list[str]:
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
    lines.append(_probable(result))
    raw = result.means("diff-gq2", "constant-last")[:, -1] / result.predicted_variance
    beta = result.config.rate_step_size
    lines.append(
        f"Diff-GQ2's raw rate with constant beta = {beta:g} keeps its variance: {raw.mean():.2f} times the predicted one "
        f"at {result.config.horizons[-1]:,} samples (mean over problems)."
    )
    return lines


def _probable(result: RatesResult) -> str:
    """A sentence on what holds with probability 1 - delta."""
    (method, delta), worst = max(result.quantile_slopes.items(), key=lambda entry: entry[1].high)
    needed = {key: typical(result.constants(*key)) for key in result.quantile_slopes}
    falls = all(found[-1] < found[0] for found in needed.values())
    first, last = (f"{result.config.horizons[i]:,}" for i in (0, -1))
    rises = [f"{needed[name, DELTAS[-1]][-1] / needed[name, DELTAS[0]][-1]:.2g}" for name in METHODS]
    holds = "holds" if result.guarantee_is_probable else "is NOT clear"
    return (
        f"The same {holds} of quantiles over runs, delta from {DELTAS[0]:g} to {DELTAS[-1]:g}: the flattest has slope "
        f"{worst.value:.2f} [{worst.low:.2f}, {worst.high:.2f}] ({LABELS[method]}, delta = {delta:g}). The constant K0 that the "
        f"bound needs {'falls' if falls else 'does NOT fall'} from {first} to {last} samples at every delta; at {last}, that of "
        f"{DELTAS[-1]:g} is {' and '.join(rises)} times that of {DELTAS[0]:g}."
    )


def plot(result: RatesResult) -> "Figure":
    """Squared error to the TD fixed point; error to the true rate with its floor; Diff-GQ2's rate, raw and averaged."""
    from matplotlib.ticker import LogLocator, NullFormatter

    figure = looks.blank(13, 5.6)
    panels = figure.subplots(1, 3)
    for panel, fill in zip(panels, (_draw_solution, _draw_truth, _draw_rate)):
        fill(panel, result, np.array(result.config.horizons))
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.yaxis.set_minor_formatter(NullFormatter())
    panels[1].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panels[1].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    for panel in panels:
        panel.set_xlabel("samples N (a run of its own for each N)")
        looks.tidy(panel)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), frameon=False, fontsize=9)
    return figure


def _draw_solution(panel: Any, result: RatesResult, horizons: Any) -> None:
    for method in METHODS:
        (color, marker), found = _LOOKS[method], result.slopes[method, "solution"]
        panel.plot(horizons, result.means(method, "solution").T, color=color, linewidth=0.5, alpha=0.4)
        label = (
            f"Projected {looks.LABELS[method]}: slope {found.value:.2f} [{found.low:.2f}, {found.high:.2f}]".replace(
                " -", " −"
            )
        )
        label = label.replace("[-", "[−")
        middle = result.typical(method, "solution")
        panel.plot(horizons, middle, color=color, marker=marker, markersize=5, linewidth=2, label=label)
        high = typical(result.quantiles(method, "solution", DELTAS[-1]))
        label = f"{1 - DELTAS[-1]:g} quantile over runs"
        panel.plot(horizons, high, color=color, linestyle="-.", linewidth=1.2, label=label)
    top = max(float(result.typical(method, "solution")[0]) for method in METHODS)
    for power, style in ((GUARANTEED, "--"), (EXPECTED, ":")):
        label = f"slope −{-power:g}" + (" (guarantee)" if power == GUARANTEED else " (expected)")
        guide = 1.5 * top * (horizons / horizons[0]) ** power
        panel.plot(horizons, guide, color="0.3", linestyle=style, linewidth=1.2, label=label)
    panel.plot([], [], color="0.35", linewidth=0.5, label="single problems")
    panel.set_ylabel("squared error ‖ū − u$_{\\mathrm{TD}}$‖²")
    panel.set_title("Averaged iterates approach the TD fixed point", fontsize=11)


def _draw_truth(panel: Any, result: RatesResult, horizons: Any) -> None:
    for method in METHODS:
        color, marker = _LOOKS[method]
        truth, rate = (result.root_mean_square(method, quantity) for quantity in ("truth", "rate"))
        style = {"color": color, "marker": marker, "markersize": 5}
        panel.plot(horizons, truth, linewidth=2, label=f"Projected {looks.LABELS[method]}, to r$_\\pi$", **style)
        panel.plot(horizons, rate, linewidth=1.2, linestyle=":", label="the same, to r$_{\\mathrm{TD}}$", **style)
    label = "floor |r$_{\\mathrm{TD}}$ − r$_\\pi$|, exact"
    panel.axhline(result.floor, color="black", linewidth=1.2, linestyle="--", label=label)
    panel.set_ylabel("root mean square error of the averaged rate")
    panel.set_title("The error to the true rate tends to its floor", fontsize=11)


def _draw_rate(panel: Any, result: RatesResult, horizons: Any) -> None:
    beta = result.config.rate_step_size
    constant, own = f"constant β = {beta:g}", "β = α ∝ N$^{-1/2}$"
    styles = {
        "constant-last": (looks.RED, "o", "-", f"raw r̂, {constant}"),
        "last": (looks.SKY, "D", "-", f"raw r̂, {own}"),
        "constant": (looks.RED, "o", ":", f"running average, {constant}"),
        "rate": (looks.SKY, "D", ":", f"running average, {own}"),
    }
    for quantity, (color, marker, style, label) in styles.items():
        curve = result.typical("diff-gq2", quantity)
        panel.plot(
            horizons, curve, color=color, marker=marker, markersize=4.5, linestyle=style, linewidth=1.6, label=label
        )
    label = "variance β/(2 − β) Var ½(ρ$_1$ + ρ$_2$), exact"
    panel.plot(horizons, _flat(result, horizons), color="black", linewidth=1.2, linestyle="--", label=label)
    panel.set_ylabel("squared error of the rate to r$_{\\mathrm{TD}}$")
    panel.set_title("Projected Diff-GQ2's rate: raw and averaged", fontsize=11)


def _flat(result: RatesResult, horizons: Any) -> Array:
    return np.full(len(horizons), np.exp(np.log(result.predicted_variance).mean()))
