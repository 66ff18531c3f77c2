"""The figure of the stall study; takes a result and computes nothing that takes time."""

from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.reproduce.stall.networks import METHODS, RECORDS, SHARES
from cesaro.reproduce.stall.run import HELD, PROBLEMS, Key, Result
from cesaro.reproduce.stall.show import LABELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colors, which all kinds of color vision tell apart.
_COLORS = {
    "diff-sgq": "#0072B2",
    "diff-gq1": "#E69F00",
    "diff-gq1-no-momentum": "#009E73",
    "diff-gq1-fast-dual": "#CC79A7",
    "residual": "#D55E00",
}
_HELD_STYLES = {"many": ("#D55E00", "o", "six action coordinates"), "one": ("#009E73", "s", "one action coordinate")}


def plot(result: Result) -> "Figure":
    """Times on walks; rates while training; the best TD error with the rate held; q between the two actions."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8.4))
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained")
    panels = figure.subplots(2, 2).ravel()
    for panel, draw in zip(panels, (_draw_walks, _draw_rates, _draw_held, _draw_lines)):
        draw(panel, result)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(which="major", color="0.9", linewidth=0.6)
        panel.set_axisbelow(True)
    return figure


def _draw_walks(panel: Any, result: Result) -> None:
    gaps = [found.gap for found in result.walks]
    for method, exponent, times in (
        ("diff-sgq", result.exponents[0], [found.sgq_time for found in result.walks]),
        ("diff-gq1", result.exponents[1], [found.gq1_time for found in result.walks]),
    ):
        label = f"{LABELS[method]}: gap to the power {exponent:.2f}"
        panel.plot(gaps, times, color=_COLORS[method], marker="o", label=label)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("spectral gap of the target's chain")
    panel.set_ylabel("time constant per pair, step size 1")
    panel.set_title("Slow: exact times on a walk", fontsize=11)
    panel.legend(frameon=False, fontsize=9)


def _draw_rates(panel: Any, result: Result) -> None:
    problem = PROBLEMS["many"]
    steps = result.config.steps * np.arange(1, RECORDS + 1) / RECORDS
    for method in METHODS:
        rates = result.trained[Key("many", method, "behavior", result.config.rows)].rates
        for i, row in enumerate(rates):
            panel.plot(steps, row, color=_COLORS[method], linewidth=1.6, label=None if i else LABELS[method])
    for value, name, style in ((problem.rate, "truth", "--"), (problem.behavior_rate, "log", ":")):
        panel.axhline(value, color="black", linewidth=0.9, linestyle=style, label=name)
    panel.set_xlabel("training steps")
    panel.set_ylabel("r̂")
    panel.set_title("Networks: r̂, started at the log's rate", fontsize=11)
    panel.legend(frameon=False, fontsize=9, ncols=2, loc="center right")


def _draw_held(panel: Any, result: Result) -> None:
    for name in dict.fromkeys(key.problem for key in result.trained if key.method == "held"):
        color, marker, label = _HELD_STYLES[name]
        panel.plot(HELD, result.held(name), color=color, marker=marker, label=label)
        panel.plot(HELD, result.held(name, "held_out_residual"), color=color, marker=marker, linestyle=":", mfc="white")
    panel.plot([], [], color="0.35", linestyle=":", marker="o", mfc="white", label="held-out rows")
    panel.set_yscale("log")
    panel.set_xticks(HELD, ["", "log", "", "truth", ""])
    panel.set_xlabel("rate held at")
    panel.set_ylabel("mean δ² / variance of R")
    panel.set_title("Free: what is left of δ when r̂ is held", fontsize=11)
    panel.legend(frameon=False, fontsize=9)


def _draw_lines(panel: Any, result: Result) -> None:
    panel.plot(SHARES, result.true_line, color="black", linestyle="--", label="truth")
    for method in METHODS:
        line = result.trained[Key("many", method, "behavior", result.config.rows)].line.mean(axis=0)
        panel.plot(SHARES, line, color=_COLORS[method], linewidth=1.6, label=LABELS[method])
    panel.set_xticks([0.0, 0.5, 1.0, 1.5], ["target's", "0.5", "logged", "1.5"])
    panel.set_xlabel("action")
    panel.set_ylabel("mean q, less that of logged actions")
    panel.set_title("q between the target's action and the logged one", fontsize=11)
    panel.legend(frameon=False, fontsize=9)
