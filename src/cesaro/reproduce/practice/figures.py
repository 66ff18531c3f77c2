"""The figure of the practice study; takes a result and computes nothing."""

from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.reproduce.practice.logs import Subject
from cesaro.reproduce.practice.methods import methods
from cesaro.reproduce.practice.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colors, which color-blind readers can tell apart: closed forms in one, networks in others.
_CLOSED, _NETWORKS = "#0072B2", ("#D55E00", "#E69F00", "#009E73", "#CC79A7")
# Axes reach as far beyond truth and logged rate as these are apart; what is outside gets an arrow at the edge.
_MARGIN = 1.0


def plot(result: Result) -> "Figure":
    """A panel per log: a row per method, a dot per seed, a bar from the least to the largest, a mark at the median."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    config, chosen = result.config, methods(result.config)
    rows = [[s for s in result.truths if s.env == env] for env in config.envs]
    rows = [row for row in rows if row]
    columns = max(len(row) for row in rows)
    figure = Figure(figsize=(2.6 + 2.9 * columns, 0.9 + (0.7 + 0.2 * len(chosen)) * len(rows)))
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained")
    panels = figure.subplots(len(rows), columns, sharey=True, squeeze=False)
    for row, line in zip(rows, panels):
        for panel in line[len(row) :]:
            panel.set_visible(False)
        for subject, panel in zip(row, line):
            _draw(panel, result, subject)
    panels[0][0].set_yticks(range(len(chosen)), [method.label for method in chosen])
    panels[0][0].set_ylim(len(chosen) - 0.5, -0.5)
    for line in panels:
        line[0].tick_params(axis="y", labelsize=8)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    return figure


def _draw(panel: Any, result: Result, subject: Subject) -> None:
    truth, chosen = result.truths[subject], methods(result.config)
    low, high = sorted((truth.rate, truth.behavior))
    margin = _MARGIN * max(high - low, 1e-3)
    low, high = low - margin, high + margin
    for band in range(0, len(chosen), 2):
        panel.axhspan(band - 0.5, band + 0.5, color="0.95", zorder=0)
    panel.axvline(truth.rate, color="black", linewidth=1.4, zorder=2, label="true rate of the target")
    panel.axvline(truth.behavior, color="0.35", linewidth=1.1, linestyle=":", zorder=1, label="mean logged reward")
    for i, method in enumerate(chosen):
        color = _CLOSED if method.name in result.config.maps else _NETWORKS[(i - len(result.config.maps)) % 4]
        found = result.estimate(subject, method)
        values = found.rates[np.isfinite(found.rates)]
        look = {"color": color, "zorder": 4, "clip_on": False}
        if not len(values):
            panel.annotate(
                "no answer", (0.5, i), xycoords=("axes fraction", "data"), fontsize=6, va="center", ha="center"
            )
            continue
        inside = values[(low <= values) & (values <= high)]
        panel.plot(np.clip([found.low, found.high], low, high), [i, i], linewidth=1.2, alpha=0.6, **look)
        panel.scatter(inside, np.full(len(inside), i), s=14, linewidths=0, alpha=0.7, **look)
        if low <= found.value <= high:
            panel.scatter([found.value], [i], s=60, marker="|", linewidths=1.8, **look)
        for outside, edge, arrow in ((values < low, low, "<"), (values > high, high, ">")):
            if outside.any():
                panel.scatter([edge], [i], s=22, marker=arrow, linewidths=0, **look)
    panel.scatter([], [], s=14, linewidths=0, color="0.35", label="a seed (arrow: beyond the axis)")
    panel.scatter([], [], s=60, marker="|", linewidths=1.8, color="0.35", label="median over seeds")
    panel.set_xlim(low, high)
    panel.set_title(f"{subject.env}, noise {subject.sigma:g}", fontsize=9)
    panel.tick_params(axis="x", labelsize=8)
    panel.tick_params(axis="y", length=0)
    panel.spines[["top", "right"]].set_visible(False)
