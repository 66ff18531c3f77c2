"""Figure 2 in numbers and in the paper's layout: CSV files, tables for the terminal, the verdict in plain words, and pictures."""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.reproduce import looks, study
from cesaro.reproduce.boyan.config import BASELINE, PAPER_METHODS
from cesaro.reproduce.boyan.result import CLEAR, BoyanResult, MethodRuns
from cesaro.reproduce.looks import LABELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

# Columns that name a panel, and methods side by side in one table: 80 characters.
_PANEL, _ABREAST = ("pi0", "mu0"), 4
_LIMIT: dict[str, Any] = {"color": "#333333", "linewidth": 1, "linestyle": (0, (1, 2))}
_LOWEST = 1e-3  # of the error axes


def files(result: BoyanResult) -> study.Files:
    """The writers of the files that hold the results, but for the manifest."""
    return {
        "boyan.csv": partial(write_settings, result),
        "best.csv": partial(write_best, result),
        "boyan.png": study.picture(plot, result),
        "step_size.png": study.picture(plot_step_sizes, result),
    }


def write_settings(result: BoyanResult, file: Path) -> None:
    """A row per panel, method and setting."""
    rows = [
        {
            **_where(panel, method, setting),
            "mean_final_error": float(cell.mean[i]),
            "std_final_error": float(cell.std[i]),
            "diverged_runs": int(cell.diverged[i]),
            "first_divergence": int(cell.first_divergence[i]) if cell.diverged[i] else None,
        }
        for (panel, method), cell in result.cells.items()
        for i, setting in enumerate(cell.settings)
    ]
    study.write_rows([_rounded(row) for row in rows], file)


def write_best(result: BoyanResult, file: Path) -> None:
    """A row per panel and method: its best setting, the claim, and what theory says there."""
    study.write_rows([_rounded(_best_row(result, panel, method)) for panel, method in result.cells], file)


def _best_row(result: BoyanResult, panel: tuple[float, float], method: str) -> dict[str, Any]:
    cell, fit, margin = result.cells[panel, method], result.panels[panel], result.margin(panel, method)
    return {
        **_where(panel, method, {} if cell.best is None else cell.settings[cell.best]),
        "final_error": cell.error,
        "std_final_error": cell.spread,
        "margin_over_gradient_dice": None if margin is None else margin[0],
        "margin_standard_error": None if margin is None else margin[1],
        "beats_gradient_dice": None if margin is None else "yes" if margin[0] > 0 else "no",
        **{name: getattr(cell, name) for name in ("max_step_expected", "max_step_sampled", "time_constant")},
        "representation_error": fit.value_error,
        "ratio_representation_error": fit.ratio_error,
        "td_rate_minus_true_rate": fit.rate_gap,
    }


def _where(panel: tuple[float, float], method: str, setting: Mapping[str, float]) -> dict[str, Any]:
    # All digits, so that a row can be run again.
    numbers = {name: repr(setting[name]) if name in setting else None for name in ("step_size", "ridge", "lam")}
    return {"pi0": panel[0], "mu0": panel[1], "method": method, **numbers}


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Zero for what is zero to rounding."""
    return {name: 0.0 if isinstance(value, float) and abs(value) < 1e-12 else value for name, value in row.items()}


def print_tables(result: BoyanResult, console: "Console") -> None:
    """Final errors and best settings; with features that misfit, also what they cannot express."""
    if result.config.misfit:
        console.print(_fit_table(result), "")
    methods = result.config.methods
    for first in range(0, len(methods), _ABREAST):
        group = methods[first : first + _ABREAST]
        table = study.plain_table("Final error of the best setting: mean over runs (standard deviation)", right=_PANEL)
        settings = study.plain_table("Best setting: step size, ridge, lambda", right=_PANEL)
        for target in (table, settings):
            for method in group:
                target.add_column(LABELS[method], justify="right", overflow="fold")
        for panel in result.panels:
            cells = [result.cells[panel, method] for method in group]
            lowest = min(result.cells[panel, method].error for method in methods)
            table.add_row(*_names(panel), *(looks.final_error(cell, cell.error == lowest) for cell in cells))
            settings.add_row(*_names(panel), *(setting_text(cell) for cell in cells))
        console.print(table, "", settings, "")


def _fit_table(result: BoyanResult) -> "Table":
    title = "What the features cannot express, and the error of the limit without ridge"
    table = study.plain_table(title, right=_PANEL)
    for name in ("of the values", "of the density ratio", "r_TD - r_pi"):
        table.add_column(name, justify="right")
    for panel, fit in result.panels.items():
        table.add_row(*_names(panel), f"{fit.value_error:.3f}", f"{fit.ratio_error:.3f}", f"{fit.rate_gap:+.4f}")
    return table


def _names(panel: tuple[float, float]) -> tuple[str, str]:
    return f"{panel[0]:g}", f"{panel[1]:g}"


def setting_text(cell: MethodRuns) -> str:
    """`2^-9, 0.01, 10`."""
    if cell.best is None:
        return "-"
    setting = cell.settings[cell.best]
    return ", ".join(
        [looks.power(setting["step_size"]), *(f"{value:g}" for name, value in setting.items() if name != "step_size")]
    )


def verdict(result: BoyanResult) -> list[str]:
    """The claim of the paper against these numbers, one paragraph per line."""
    panels, lines = len(result.panels), []
    if tallies := result.tallies:
        lines.append(
            f'The paper: value-based methods "consistently outperform" GradientDICE. Here, in {panels} panels '
            f"(clearly: by more than {CLEAR:g} standard errors of the paired difference over {result.config.runs} runs):"
        )
    for tally in tallies:
        lines.append(
            f"  {LABELS[tally.method]}: lower error in {tally.wins} panels, clearly in {tally.clear_wins}; clearly higher in "
            f"{tally.clear_losses}. Margins {tally.smallest:+.4f} to {tally.largest:+.4f}."
        )
    if (holds := result.claim_holds) is not None:
        lost = {
            method: ", ".join(f"({p:g}, {m:g})" for p, m in result.panels if _is_lost(result, (p, m), method))
            for method in PAPER_METHODS
        }
        losses = "; ".join(f"{LABELS[method]} at {where}" for method, where in lost.items() if where)
        lines.append(
            "Verdict: the claim holds in every panel, for all three methods."
            if holds
            else "Verdict: the claim does NOT hold in every panel for all three methods. At (pi0, mu0), GradientDICE is at least "
            f"as good as {losses}."
        )
    constants = [cell.time_constant for cell in result.cells.values() if cell.has_theory]
    if constants:
        slow = sum(constant > result.config.samples for constant in constants)
        lines.append(
            f"{slow} of {len(constants)} best settings have a time constant above {result.config.samples:,} samples: they are "
            "measured while still on their way."
        )
    lines.append(_about_fit(result))
    is_reduced = result.config.lacks("pi0s", "step_sizes", "ridges", "lams", "runs", "samples")
    if is_reduced or BASELINE not in result.config.methods:
        lines.append("This is not the full study: fewer runs, samples or settings than the paper's.")
    return lines


def _is_lost(result: BoyanResult, panel: tuple[float, float], method: str) -> bool:
    margin = result.margin(panel, method)
    return margin is not None and margin[0] <= 0


def _about_fit(result: BoyanResult) -> str:
    if not result.config.misfit:
        return (
            "There is no representation error here: the features contain q_pi, and r_TD = r_pi in every panel. "
            "Repeat with --misfit for features that do not."
        )
    cells = result.cells.items()
    below = sum(cell.error < abs(result.panels[panel].rate_gap) for (panel, _), cell in cells)
    largest = max(abs(panel.rate_gap) for panel in result.panels.values())
    return (
        f"Features that misfit: without ridge, the limit of the paper's four methods is r_TD, off by up to {largest:.3f}. "
        f"{below} of {len(cells)} best settings end closer to r_pi than that limit: selecting by the truth rewards those "
        "that stop on the way or are shrunk by the ridge."
    )


def plot(result: BoyanResult) -> "Figure":
    """Three rows of panels: mean error of each method's best setting over runs, with ± 1 standard deviation."""
    from matplotlib.lines import Line2D

    rows = result.config.rows
    entries = len(result.config.methods) + result.config.misfit
    figure, axes = _grid(len(rows), len(rows[0]), (2.15, 1.95), gap=0.4, legend_rows=-(-entries // 5))
    # Before anything is drawn: otherwise every band looks for the limits of all panels again.
    axes[0, 0].set_ylim(_LOWEST, 3)
    axes[0, 0].set_xlim(0, result.config.samples)
    for row, panels in zip(axes, rows):
        for axis, panel in zip(row, panels):
            for method in result.config.methods:
                cell, (_, color, style) = result.cells[panel, method], looks.METHODS[method]
                if cell.best is not None:
                    low = np.maximum(cell.curve - cell.band, _LOWEST / 10)
                    axis.fill_between(cell.samples, low, cell.curve + cell.band, color=color, alpha=0.14, linewidth=0)
                    axis.plot(cell.samples, cell.curve, color=color, linestyle=style, linewidth=1.4)
            if result.config.misfit:
                axis.axhline(abs(result.panels[panel].rate_gap), zorder=1, **_LIMIT)
            axis.set_title(f"$\\pi_0 = {panel[0]:g}$, $\\mu_0 = {panel[1]:g}$", fontsize=10, pad=4)
    axes[0, 0].xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value else "0")
    looks.name_all(figure, "samples", "$|\\bar{\\hat{r}} - r_\\pi|$", 0.12)
    handles = [looks.line_of(method) for method in result.config.methods]
    features = "features that misfit" if result.config.misfit else "the paper's features"
    title = f"Boyan's chain, {features}: best setting of each method, {result.config.runs} runs, ± 1 standard deviation"
    if result.config.misfit:
        handles.append(Line2D([], [], **_LIMIT, label="limit without ridge"))
    looks.legend_above(figure, handles, title, 0.08, ncols=5, fontsize=10, title_fontsize=11)
    return figure


def plot_step_sizes(result: BoyanResult) -> "Figure":
    """A row per method, a column per panel of interest: final error at every step size, and how far theory lets it go."""
    from matplotlib.lines import Line2D

    methods, panels = result.config.methods, _panels_of_interest(result)
    figure, axes = _grid(len(methods), len(panels), (3.1, 1.6), gap=0.2, legend_rows=2)
    powers = np.log2(result.config.step_sizes)
    axes[0, 0].set_ylim(_LOWEST * 3, 3)
    axes[0, 0].set_xlim(powers.min() - 0.5, max(powers.max(), 0) + 1.5)
    same_look: dict[str, Any] = {"color": "#555555", "linewidth": 0.9, "linestyle": (0, (1, 1.5))}
    for row, method in zip(axes, methods):
        color = looks.COLORS[method]
        for axis, panel in zip(row, panels):
            cell = result.cells[panel, method]
            lowest, same = _by_step(result, cell)
            axis.plot(powers, same, **same_look, zorder=2)
            axis.plot(powers, lowest, color=color, linewidth=1.6, marker="o", markersize=3, zorder=3)
            gone = ~np.isfinite(same)
            axis.plot(powers[gone], np.full(gone.sum(), 2.2), "x", color="#555555", markersize=4.5, zorder=2)
            for limit, style in ((cell.max_step_sampled, "-"), (cell.max_step_expected, (0, (4, 2)))):
                if math.isfinite(limit):
                    axis.axvline(math.log2(limit), color="#333333", linewidth=1, linestyle=style, zorder=1)
        row[0].set_ylabel(LABELS[method], fontsize=10)
    for axis, panel in zip(axes[0], panels):
        axis.set_title(f"$\\pi_0 = {panel[0]:g}$, $\\mu_0 = {panel[1]:g}$", fontsize=10, pad=4)
    axes[0, 0].xaxis.set_major_formatter(lambda value, _: f"$2^{{{value:.0f}}}$")
    looks.name_all(figure, "step size", "final error", 0.12)
    limit_of = "step limit at the best cell's ridge and λ:"
    handles = [
        Line2D([], [], color="#0072B2", linewidth=1.6, marker="o", markersize=3, label="best over ridge and λ"),
        Line2D([], [], **same_look, label="with the ridge and λ of the best cell"),
        Line2D([], [], color="#555555", linestyle="", marker="x", markersize=4.5, label="… and some run diverged"),
        Line2D([], [], color="#333333", linewidth=1, label=f"{limit_of} mean square"),
        Line2D([], [], color="#333333", linewidth=1, linestyle=(0, (4, 2)), label="… expected update"),
    ]
    order = [0, 3, 1, 4, 2]  # filled by columns: curves left, limits right
    text = f"Step size against final error after {result.config.samples:,} samples"
    looks.legend_above(figure, [handles[i] for i in order], text, 0.08, ncols=3, fontsize=8.5, title_fontsize=11)
    return figure


def _by_step(result: BoyanResult, cell: MethodRuns) -> tuple[Any, Any]:
    """Final error by step size: the lowest over the other settings, and that at the other settings of the best cell."""
    steps = np.array([setting["step_size"] for setting in cell.settings])
    chosen = {} if cell.best is None else cell.settings[cell.best]
    alike = np.array([all(s[k] == v for k, v in chosen.items() if k != "step_size") for s in cell.settings])
    lowest = [cell.mean[steps == step].min() for step in result.config.step_sizes]
    same = [cell.mean[(steps == step) & alike].min() for step in result.config.step_sizes]
    return np.array([math.nan if math.isinf(v) else v for v in lowest]), np.array(same)


def _panels_of_interest(result: BoyanResult) -> list[tuple[float, float]]:
    """Panels from nearly on-policy to far off-policy: (½, ½), and the first column's second and third panel."""
    rows = result.config.rows
    middle = rows[0][len(rows[0]) // 2]
    return list(dict.fromkeys([middle, rows[1][0], rows[2][0]]))


def _grid(rows: int, columns: int, size: tuple[float, float], gap: float, legend_rows: int) -> tuple["Figure", Any]:
    """Panels with shared axes, errors in powers of ten without minor ticks, and room for names and a legend."""
    from matplotlib.ticker import MaxNLocator, NullLocator

    margins = (0.9, 0.2, 0.6, 0.55 + 0.2 * legend_rows)
    figure, axes = looks.grid(rows, columns, size, margins, (gap, 0.22), sharex=True, sharey=True)
    axes[0, 0].set_yscale("log")
    axes[0, 0].yaxis.set_minor_locator(NullLocator())
    axes[0, 0].xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure, axes
