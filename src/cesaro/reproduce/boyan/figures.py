"""Figure 2 in the paper's layout, and step size against final error with both stability limits."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.reproduce.boyan.result import LABELS, Cell, Result

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
_LIMIT: dict[str, Any] = {"color": "#333333", "linewidth": 1, "linestyle": (0, (1, 2))}
_LOWEST = 1e-3  # of the error axes


def plot(result: Result) -> "Figure":
    """Three rows of panels: mean error of each method's best setting over runs, with ± 1 standard deviation."""
    from matplotlib.lines import Line2D

    rows = result.config.rows
    entries = len(result.config.methods) + result.config.misfit
    figure, axes = _grid(len(rows), len(rows[0]), (2.15, 1.95), gap=0.4, legend_rows=-(-entries // 5))
    for row, panels in zip(axes, rows):
        for axis, panel in zip(row, panels):
            for method in result.config.methods:
                cell, (color, style) = result.cells[panel, method], _LOOKS[method]
                if cell.best is not None:
                    low = np.maximum(cell.curve - cell.band, _LOWEST / 10)
                    axis.fill_between(cell.samples, low, cell.curve + cell.band, color=color, alpha=0.14, linewidth=0)
                    axis.plot(cell.samples, cell.curve, color=color, linestyle=style, linewidth=1.4)
            if result.config.misfit:
                axis.axhline(abs(result.panels[panel].rate_gap), zorder=1, **_LIMIT)
            axis.set_title(f"$\\pi_0 = {panel[0]:g}$, $\\mu_0 = {panel[1]:g}$", fontsize=10, pad=4)
    axes[0, 0].set_ylim(_LOWEST, 3)
    axes[0, 0].set_xlim(0, result.config.samples)
    axes[0, 0].xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value else "0")
    _name_axes(figure, "samples", "$|\\bar{\\hat{r}} - r_\\pi|$")
    handles = [
        Line2D([], [], color=_LOOKS[method][0], linestyle=_LOOKS[method][1], linewidth=1.8, label=LABELS[method])
        for method in result.config.methods
    ]
    features = "features that misfit" if result.config.misfit else "the paper's features"
    title = f"Boyan's chain, {features}: best setting of each method, {result.config.runs} runs, ± 1 standard deviation"
    if result.config.misfit:
        handles.append(Line2D([], [], **_LIMIT, label="limit without ridge"))
    _legend(figure, handles, title, 5, 10)
    return figure


def plot_step_sizes(result: Result) -> "Figure":
    """A row per method, a column per panel of interest: final error at every step size, and how far theory lets it go."""
    from matplotlib.lines import Line2D

    methods, panels = result.config.methods, _panels_of_interest(result)
    figure, axes = _grid(len(methods), len(panels), (3.1, 1.6), gap=0.2, legend_rows=2)
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
    axes[0, 0].set_ylim(_LOWEST * 3, 3)
    axes[0, 0].set_xlim(powers.min() - 0.5, max(powers.max(), 0) + 1.5)
    axes[0, 0].xaxis.set_major_formatter(lambda value, _: f"$2^{{{value:.0f}}}$")
    _name_axes(figure, "step size", "final error")
    limit_of = "step limit at the best cell's ridge and λ:"
    handles = [
        Line2D([], [], color="#0072B2", linewidth=1.6, marker="o", markersize=3, label="best over ridge and λ"),
        Line2D(
            [],
            [],
            color="#555555",
            linewidth=0.9,
            linestyle=(0, (1, 1.5)),
            label="with the ridge and λ of the best cell",
        ),
        Line2D([], [], color="#555555", linestyle="", marker="x", markersize=4.5, label="… and some run diverged"),
        Line2D([], [], color="#333333", linewidth=1, label=f"{limit_of} mean square"),
        Line2D([], [], color="#333333", linewidth=1, linestyle=(0, (4, 2)), label="… expected update"),
    ]
    order = [0, 3, 1, 4, 2]  # filled by columns: curves left, limits right
    text = f"Step size against final error after {result.config.samples:,} samples"
    _legend(figure, [handles[i] for i in order], text, 3, 8.5)
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


def _grid(rows: int, columns: int, size: tuple[float, float], gap: float, legend_rows: int) -> tuple["Figure", Any]:
    """Panels of a size in inches with shared axes, an error axis in powers of ten, and room for names and a legend.

    Placed by hand and without minor ticks, since looking for a layout takes longer than all learning of a quick run.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    left, right, bottom, top, aside = 0.9, 0.2, 0.6, 0.55 + 0.2 * legend_rows, 0.22
    width, height = left + right + size[0] * columns, bottom + top + size[1] * rows
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    places = {
        "left": left / width,
        "right": 1 - right / width,
        "bottom": bottom / height,
        "top": 1 - top / height,
        "hspace": gap / (size[1] - gap),
        "wspace": aside / (size[0] - aside),
    }
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True, gridspec_kw=places)
    axes[0, 0].set_yscale("log")
    axes[0, 0].yaxis.set_minor_locator(NullLocator())
    axes[0, 0].xaxis.set_major_locator(_few_ticks())
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="#E5E5E5", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.tick_params(labelsize=8)
    return figure, axes


def _name_axes(figure: "Figure", x: str, y: str) -> None:
    figure.supxlabel(x, fontsize=11, y=0.12 / figure.get_figheight(), va="bottom")
    figure.supylabel(y, fontsize=12, x=0.12 / figure.get_figwidth(), ha="left")


def _legend(figure: "Figure", handles: list[Any], title: str, columns: int, size: float) -> None:
    figure.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 1 - 0.08 / figure.get_figheight()),
        borderaxespad=0,
        ncols=columns,
        frameon=False,
        fontsize=size,
        title=title,
        title_fontsize=11,
    )


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(5, integer=True)
