"""Figure 2 in the paper's layout, and step size against final error with both stability limits."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.reproduce.boyan_result import LABELS, Cell, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colors, which color-blind readers can tell apart; line styles tell them apart in print.
_LOOKS: dict[str, tuple[str, Any]] = {
    "diff-sgq": ("#0072B2", "-"),
    "diff-gq1": ("#E69F00", (0, (5, 1.5))),
    "diff-gq2": ("#009E73", (0, (1.2, 1.2))),
    "gradient-dice": ("#D55E00", (0, (6, 1.5, 1.2, 1.5))),
    "diff-gq3": ("#CC79A7", "-"),
    "diff-gq4": ("#56B4E9", (0, (5, 1.5))),
    "projected-diff-gq1": ("#000000", (0, (1.2, 1.2))),
    "projected-diff-gq2": ("#7F7F7F", (0, (6, 1.5, 1.2, 1.5))),
}
_LOWEST = 1e-3  # of the error axes


def plot(result: Result) -> "Figure":
    """Three rows of panels: mean error of each method's best setting over runs, with ± 1 standard deviation."""
    rows = result.config.rows
    figure, axes = _grid(len(rows), len(rows[0]), (2.15, 1.95), 0.75)
    for row, panels in zip(axes, rows):
        for axis, panel in zip(row, panels):
            for method in result.config.methods:
                cell, (color, style) = result.cells[panel, method], _LOOKS[method]
                if cell.best is not None:
                    low = np.maximum(cell.curve - cell.band, _LOWEST / 10)
                    axis.fill_between(cell.samples, low, cell.curve + cell.band, color=color, alpha=0.14, linewidth=0)
                    axis.plot(cell.samples, cell.curve, color=color, linestyle=style, linewidth=1.4)
            axis.set_title(f"$\\pi_0 = {panel[0]:g}$, $\\mu_0 = {panel[1]:g}$", fontsize=10, pad=4)
    axes[0, 0].set_yscale("log")
    axes[0, 0].set_ylim(_LOWEST, 3)
    axes[0, 0].set_xlim(0, result.config.samples)
    axes[0, 0].xaxis.set_major_locator(_few_ticks())
    axes[0, 0].xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value else "0")
    figure.supxlabel("samples", fontsize=11)
    figure.supylabel("$|\\bar{\\hat{r}} - r_\\pi|$", fontsize=12)
    features = "features that misfit" if result.config.misfit else "the paper's features"
    _title(figure, f"Boyan's chain, {features}: best setting of each method, {result.config.runs} runs, ± 1 sd", result)
    return figure


def plot_step_sizes(result: Result) -> "Figure":
    """A row per method, a column per panel of interest: final error at every step size, and how far theory lets it go."""
    methods, panels = result.config.methods, _panels_of_interest(result)
    figure, axes = _grid(len(methods), len(panels), (3.1, 1.75), 1.1)
    powers = np.log2(result.config.step_sizes)
    for row, method in zip(axes, methods):
        color = _LOOKS[method][0]
        for axis, panel in zip(row, panels):
            cell = result.cells[panel, method]
            lowest, same = _by_step(result, cell)
            axis.plot(powers, same, color="#555555", linewidth=0.9, linestyle=(0, (1, 1.5)), zorder=2)
            axis.plot(powers, lowest, color=color, linewidth=1.6, marker="o", markersize=3, zorder=3)
            gone = ~np.isfinite(same)
            axis.plot(powers[gone], np.full(gone.sum(), 2.2), "x", color="#555555", markersize=4.5, zorder=2)
            for limit, style in ((cell.max_step_sampled, "-"), (cell.max_step_expected, (0, (4, 2)))):
                if math.isfinite(limit):
                    axis.axvline(math.log2(limit), color="#333333", linewidth=1, linestyle=style, zorder=1)
        row[0].set_ylabel(LABELS[method], fontsize=10)
    for axis, panel in zip(axes[0], panels):
        axis.set_title(f"$\\pi_0 = {panel[0]:g}$, $\\mu_0 = {panel[1]:g}$", fontsize=10, pad=4)
    axes[0, 0].set_yscale("log")
    axes[0, 0].set_ylim(_LOWEST * 3, 3)
    axes[0, 0].set_xlim(powers.min() - 0.5, max(powers.max(), 0) + 1.5)
    axes[0, 0].xaxis.set_major_locator(_few_ticks())
    axes[0, 0].xaxis.set_major_formatter(lambda value, _: f"$2^{{{value:.0f}}}$")
    figure.supxlabel("step size", fontsize=11)
    figure.supylabel("final error", fontsize=11)
    from matplotlib.lines import Line2D

    gray: dict[str, Any] = {"color": "#333333", "linewidth": 1}
    handles = [
        Line2D([], [], color="#0072B2", linewidth=1.6, marker="o", markersize=3, label="best ridge and λ at this step"),
        Line2D([], [], color="#555555", linewidth=0.9, linestyle=(0, (1, 1.5)), label="the overall best ridge and λ;"),
        Line2D([], [], color="#555555", linestyle="", marker="x", markersize=4.5, label="some run diverges;"),
        Line2D([], [], **gray, label="step limit in mean square,"),
        Line2D([], [], **gray, linestyle=(0, (4, 2)), label="of the expected update"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return figure


def _by_step(result: Result, cell: Cell) -> tuple[Any, Any]:
    """Final error by step size: the lowest over the other settings, and that at the other settings of the best cell."""
    steps = np.array([setting["step_size"] for setting in cell.settings])
    chosen = {} if cell.best is None else cell.settings[cell.best]
    alike = np.array([all(s[k] == v for k, v in chosen.items() if k != "step_size") for s in cell.settings])
    lowest = [cell.mean[steps == step].min() for step in result.config.step_sizes]
    same = [cell.mean[(steps == step) & alike].min() for step in result.config.step_sizes]
    return np.array([math.nan if math.isinf(v) else v for v in lowest]), np.array(same)


def _panels_of_interest(result: Result) -> list[tuple[float, float]]:
    """From nearly on-policy to far off-policy: (½, ½), and the first column's second and third panel."""
    rows = result.config.rows
    middle = rows[0][len(rows[0]) // 2]
    return list(dict.fromkeys([middle, rows[1][0], rows[2][0]]))


def _grid(rows: int, columns: int, size: tuple[float, float], extra: float) -> tuple["Figure", Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(0.6 + size[0] * columns, extra + size[1] * rows))
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="#E5E5E5", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.tick_params(labelsize=8)
    return figure, axes


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(5, integer=True)


def _title(figure: "Figure", text: str, result: Result) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=_LOOKS[method][0], linestyle=_LOOKS[method][1], linewidth=1.8, label=LABELS[method])
        for method in result.config.methods
    ]
    figure.legend(
        handles=handles, loc="outside upper center", ncols=4, frameon=False, fontsize=10, title=text, title_fontsize=11
    )
