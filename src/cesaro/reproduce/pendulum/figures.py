"""The figure of the pendulum study; takes a result and computes nothing."""

from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.reproduce.pendulum.result import Result, settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colors, which color-blind readers can tell apart; markers tell them apart in print.
_LOOKS = (("#0072B2", "o"), ("#E69F00", "s"), ("#D55E00", "^"), ("#009E73", "D"))
# Axes reach as far beyond truth and logged rates as these are apart; what is outside gets an arrow at the edge.
_MARGIN = 1.0


def plot(result: Result) -> "Figure":
    """Every estimate: a panel per controller, a band per setting, a line of dots per noise."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    config, chosen = result.config, settings(result.config)
    figure = Figure(figsize=(3.5 + 4.75 * len(config.controllers), 1.8 + 0.42 * len(chosen)))
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained")
    panels = figure.subplots(1, len(config.controllers), sharey=True, squeeze=False)[0]
    for controller, panel in zip(config.controllers, panels):
        _draw(panel, result, controller)
    panels[0].set_yticks(range(len(chosen)), [setting.label for setting in chosen])
    panels[0].get_yticklabels()[0].set_fontweight("bold")
    panels[0].set_ylim(len(chosen) - 0.5, -0.5)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    figure.suptitle(
        f"Each mark is a log of {config.rows:,} rows; arrows: beyond the axis; n/m: only n of m logs were answered",
        fontsize=9,
        color="0.35",
    )
    return figure


def _draw(panel: Any, result: Result, controller: str) -> None:
    config, truth = result.config, result.truths[controller].rate
    logged = [result.behavior(controller, noise) for noise in config.noises]
    low, high = min(truth, *logged), max(truth, *logged)
    margin = _MARGIN * max(high - low, 1e-3)
    low, high = low - margin, high + margin
    panel.axvline(truth, color="black", linewidth=1.4, zorder=2, label="true rate of the target")
    for band in range(0, len(settings(config)), 2):
        panel.axhspan(band - 0.5, band + 0.5, color="0.95", zorder=0)
    for k, (noise, rate) in enumerate(zip(config.noises, logged)):
        color, marker = _LOOKS[k % len(_LOOKS)]
        panel.axvline(rate, color=color, linewidth=1.1, linestyle=":", zorder=1)
        shift = 0.5 * ((k + 0.5) / len(config.noises) - 0.5)
        cells = [cell for cell in result.cells if (cell.controller, cell.noise) == (controller, noise)]
        values = np.array([cell.errors + truth for cell in cells])  # [settings, logs]
        heights = np.broadcast_to((np.arange(len(cells)) + shift)[:, None], values.shape)
        inside = (low <= values) & (values <= high)
        look = {"color": color, "zorder": 4, "clip_on": False}
        panel.scatter(
            values[inside], heights[inside], s=15, marker=marker, linewidths=0, label=f"noise {noise:g}", **look
        )
        for outside, edge, arrow in ((values < low, low, "<"), (values > high, high, ">")):
            if outside.any():
                panel.scatter(np.full(outside.sum(), edge), heights[outside], s=22, marker=arrow, linewidths=0, **look)
        for i, cell in enumerate(cells):
            if cell.answered < len(cell.errors):
                share = f"{cell.answered}/{len(cell.errors)}"
                panel.annotate(share, (high, i + shift), (3, 0), textcoords="offset points", fontsize=6, va="center")
    panel.plot([], [], color="0.35", linewidth=1.1, linestyle=":", label="mean logged reward, by color")
    panel.set_xlim(low, high)
    panel.set_xlabel("reward per step")
    panel.set_title(f"{controller} controller", fontsize=11)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(axis="y", length=0)
