"""Figure 4 and the appendix's figure in the paper's layout, and the rates beside the truth and the behavior's."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cesaro.reproduce.mujoco.result import LABELS, METHODS, Place, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cesaro.reproduce.mujoco.run import Config

# Okabe and Ito's colors, which color-blind readers can tell apart; line styles tell them apart in print.
_LOOKS: dict[str, tuple[str, Any]] = {
    "diff-sgq": ("#0072B2", "-"),
    "diff-gq1": ("#E69F00", (0, (5, 1.5))),
    "diff-gq2": ("#009E73", (0, (1.2, 1.2))),
    "gradient-dice": ("#D55E00", (0, (6, 1.5, 1.2, 1.5))),
}
_TRUTH: dict[str, Any] = {"color": "#222222", "linewidth": 1.1}
_BEHAVIOR: dict[str, Any] = {"color": "#777777", "linewidth": 1.1, "linestyle": (0, (4, 2))}
_TOP = 2.5  # of the error axes, in units of what an estimate of zero or the mean logged reward errs by
MAIN_SIGMA = 0.9  # of Figure 4; the other noises are in the appendix


def figures_of(config: "Config") -> dict[str, tuple[float, ...]]:
    """The noises in each figure, by name of the file: main text, appendix where there are more noises, and the rates."""
    main = (MAIN_SIGMA,) if MAIN_SIGMA in config.sigmas else config.sigmas[-1:]
    others = tuple(sigma for sigma in config.sigmas if sigma not in main)
    return {"mujoco": main, **({"mujoco_appendix": others} if others else {}), "rates": config.sigmas}


def figures(result: Result) -> dict[str, "Figure"]:
    """By name of the file."""
    return {
        name: plot_rates(result) if name == "rates" else plot(result, sigmas)
        for name, sigmas in figures_of(result.config).items()
    }


def plot(result: Result, sigmas: Sequence[float]) -> "Figure":
    """A row per noise, a column per environment: mean error of each method's best setting, ± 1 standard deviation."""
    from matplotlib.lines import Line2D

    figure, axes = _grid(result, sigmas, (2.6, 2.1))
    for axis, place in _panels(result, sigmas, axes):
        for method in METHODS:
            cell, (color, style) = result.cells[place, method], _LOOKS[method]
            if cell.best is None:
                continue
            curve, band = cell.curve
            axis.fill_between(cell.minibatches, curve - band, curve + band, color=color, alpha=0.14, linewidth=0)
            axis.plot(cell.minibatches, curve, color=color, linestyle=style, linewidth=1.5)
        axis.axhline(result.behavior_error(place), zorder=1, **_BEHAVIOR)
        # A method that is far off without having diverged must not flatten the others.
        most = _TOP * max(abs(result.truths[place[0]].value), result.behavior_error(place))
        axis.set_ylim(0, min(axis.get_ylim()[1], most))
        axis.set_xlim(0, result.config.minibatches)
    handles = [
        Line2D([], [], color=_LOOKS[method][0], linestyle=_LOOKS[method][1], linewidth=1.8, label=LABELS[method])
        for method in METHODS
    ]
    handles.append(Line2D([], [], **_BEHAVIOR, label="mean logged reward"))
    title = f"Networks: best setting of each method, {result.config.runs} runs, ± 1 standard deviation"
    _finish(figure, "minibatches", "$|\\bar{\\hat{r}} - r_\\pi|$", handles, title)
    return figure


def plot_rates(result: Result) -> "Figure":
    """A row per noise, a column per environment: what each method says at its best setting, beside the truth."""
    from matplotlib.lines import Line2D

    figure, axes = _grid(result, result.config.sigmas, (2.6, 1.8))
    for axis, place in _panels(result, result.config.sigmas, axes):
        truth, behavior = result.truths[place[0]], result.behaviors[place]
        axis.axhline(truth.value, zorder=1, **_TRUTH)
        axis.axhline(behavior.value, zorder=1, **_BEHAVIOR)
        for number, method in enumerate(METHODS):
            cell, color = result.cells[place, method], _LOOKS[method][0]
            if cell.best is None:
                continue
            for shift, values, filled in ((-0.15, cell.rates[:, -1], color), (0.15, cell.offline, "white")):
                axis.errorbar(
                    number + shift,
                    values.mean(),
                    yerr=values.std(),
                    color=color,
                    marker="o",
                    markersize=4.5,
                    markerfacecolor=filled,
                    linewidth=1.2,
                    capsize=2,
                )
        axis.set_xlim(-0.6, len(METHODS) - 0.4)
        axis.set_xticks(
            range(len(METHODS)), [LABELS[m].removeprefix("Diff-").replace("GradientDICE", "DICE") for m in METHODS]
        )
    looks: dict[str, Any] = {"color": "#222222", "linestyle": "", "marker": "o", "markersize": 4.5}
    handles = [
        Line2D([], [], **_TRUTH, label="target's rate"),
        Line2D([], [], **_BEHAVIOR, label="mean logged reward"),
        Line2D([], [], **looks, label="$\\hat{r}$"),
        Line2D([], [], **looks, markerfacecolor="white", label="second estimate, over all rows"),
    ]
    title = f"Rates at the best setting: mean over {result.config.runs} runs ± 1 standard deviation"
    _finish(figure, "", "reward per step", handles, title)
    return figure


def _panels(result: Result, sigmas: Sequence[float], axes: Any) -> list[tuple[Any, Place]]:
    """Every panel with its place, named."""
    panels = []
    for row, sigma in zip(axes, sigmas):
        for axis, env in zip(row, result.config.envs):
            axis.set_title(f"{env}, $\\sigma = {sigma:g}$", fontsize=10, pad=4)
            panels.append((axis, (env, sigma)))
    return panels


def _grid(result: Result, sigmas: Sequence[float], size: tuple[float, float]) -> tuple["Figure", Any]:
    """Panels of a size in inches, placed by hand: looking for a layout takes longer than drawing."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, columns = len(sigmas), max(len(result.config.envs), 2)
    left, right, bottom, top, gap, aside = 0.8, 0.2, 0.55, 0.95, 0.45, 0.45
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
    axes = figure.subplots(rows, len(result.config.envs), squeeze=False, gridspec_kw=places)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="#E5E5E5", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.tick_params(labelsize=8)
    return figure, axes


def _finish(figure: "Figure", x: str, y: str, handles: list[Any], title: str) -> None:
    figure.supxlabel(x, fontsize=11, y=0.1 / figure.get_figheight(), va="bottom")
    figure.supylabel(y, fontsize=12, x=0.1 / figure.get_figwidth(), ha="left")
    figure.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 1 - 0.06 / figure.get_figheight()),
        borderaxespad=0,
        ncols=min(len(handles), math.floor(figure.get_figwidth() / 1.6)),
        frameon=False,
        fontsize=9,
        title=title,
        title_fontsize=10,
    )
