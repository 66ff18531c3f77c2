"""The figure of the coverage study; takes a result and computes nothing."""

from typing import TYPE_CHECKING, Any

from cesaro.reproduce.coverage.chains import CHAINS
from cesaro.reproduce.coverage.run import CONFIDENCE, PROMISED, Result, rows
from cesaro.reproduce.coverage.show import LABELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colors, which color-blind readers can tell apart; markers tell them apart in print.
_BLUE, _RED, _GREEN = "#0072B2", "#D55E00", "#009E73"
# Open marks of the shorter logs.
_SHORTER = ("D", "o", "s", "v")


def plot(result: Result) -> "Figure":
    """Coverage of every interval: a panel per chain and number of trajectories, a line per series."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    trajectories = result.config.trajectories
    figure = Figure(figsize=(13, 7.6))
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained")
    panels = figure.subplots(len(CHAINS), len(trajectories), sharex=True, sharey=True, squeeze=False)
    for chain, row in zip(CHAINS, panels):
        for count, panel in zip(trajectories, row):
            _draw(panel, result, chain, count)
    panels[0, 0].set_yticks(range(len(LABELS)), [label.replace(" - ", " − ") for label in LABELS.values()])
    panels[0, 0].invert_yaxis()
    for panel in panels[-1]:
        panel.set_xlabel(f"% of {result.config.logs:,} logs whose interval holds the truth")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    figure.suptitle(
        "Lengths in autocorrelation times of the chain; filled marks: the longest logs", fontsize=9, color="0.35"
    )
    return figure


def _draw(panel: Any, result: Result, chain: str, trajectories: int) -> None:
    config, low, high = result.config, *(100 * share for share in PROMISED)
    panel.axvspan(low, high, color="0.87", zorder=0, label=f"promised: {low:g} to {high:g} %")
    panel.axvline(100 * CONFIDENCE, color="0.5", linewidth=0.8, zorder=1)
    own = [cell for cell in result.cells if (cell.chain, cell.trajectories) == (chain, trajectories)]
    at = {key: position for position, key in enumerate(LABELS)}
    for i, length in enumerate(config.lengths):
        cells = [cell for cell in own if cell.length == length]
        heights = [at[cell.features, cell.quantity] for cell in cells]
        is_last = i == len(config.lengths) - 1
        panel.scatter(
            [100 * cell.coverage["default"] for cell in cells],
            heights,
            s=34 if is_last else 16,
            linewidths=0.8,
            facecolors=_BLUE if is_last else "white",
            edgecolors=_BLUE,
            marker="o" if is_last else _SHORTER[i % len(_SHORTER)],
            zorder=4 + i,
            label=f"default rule, {length} times",
        )
        if is_last:
            for rule, color, marker in (("batches", _GREEN, "^"), ("independent", _RED, "x")):
                shares = [100 * cell.coverage[rule] for cell in cells]
                label = {"batches": "20 batch means", "independent": "independent rows"}[rule] + f", {length} times"
                panel.scatter(shares, heights, color=color, marker=marker, s=26, zorder=3, label=label)
    longest = rows(config, result.problems[chain])[-1]
    kind = "one trajectory" if trajectories == 1 else f"{trajectories} trajectories"
    panel.set_title(f"{chain} chain, {kind} ({longest:,} rows)", fontsize=11)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", color="0.92", linewidth=0.6)
    panel.set_axisbelow(True)
