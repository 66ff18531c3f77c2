"""The figure of the rates study; takes a result and computes nothing."""

from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.checks import Array
from cesaro.reproduce.rates.run import EXPECTED, GUARANTEED, METHODS, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colors, which color-blind readers can tell apart; markers tell them apart in print.
_LOOKS = {"diff-gq1": ("#E69F00", "s"), "diff-gq2": ("#009E73", "^")}
_NAMES = {"diff-gq1": "Diff-GQ1", "diff-gq2": "Diff-GQ2"}


def plot(result: Result) -> "Figure":
    """Squared error to the TD fixed point; error to the true rate with its floor; Diff-GQ2's rate, raw and averaged."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    figure = Figure(figsize=(13, 5.6))
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained")
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
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(which="major", color="0.9", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), frameon=False, fontsize=9)
    return figure


def _draw_solution(panel: Any, result: Result, horizons: Any) -> None:
    for method in METHODS:
        (color, marker), found = _LOOKS[method], result.slopes[method, "solution"]
        panel.plot(horizons, result.means(method, "solution").T, color=color, linewidth=0.5, alpha=0.4)
        label = f"Projected {_NAMES[method]}: slope {found.value:.2f} [{found.low:.2f}, {found.high:.2f}]".replace(
            " -", " −"
        )
        label = label.replace("[-", "[−")
        typical = result.typical(method, "solution")
        panel.plot(horizons, typical, color=color, marker=marker, markersize=5, linewidth=2, label=label)
    top = max(float(result.typical(method, "solution")[0]) for method in METHODS)
    for power, style in ((GUARANTEED, "--"), (EXPECTED, ":")):
        label = f"slope −{-power:g}" + (" (guarantee)" if power == GUARANTEED else " (expected)")
        guide = 1.5 * top * (horizons / horizons[0]) ** power
        panel.plot(horizons, guide, color="0.3", linestyle=style, linewidth=1.2, label=label)
    panel.plot([], [], color="0.35", linewidth=0.5, label="single problems")
    panel.set_ylabel("squared error ‖ū − u$_{\\mathrm{TD}}$‖²")
    panel.set_title("Averaged iterates approach the TD fixed point", fontsize=11)


def _draw_truth(panel: Any, result: Result, horizons: Any) -> None:
    for method in METHODS:
        color, marker = _LOOKS[method]
        truth, rate = (result.root_mean_square(method, quantity) for quantity in ("truth", "rate"))
        style = {"color": color, "marker": marker, "markersize": 5}
        panel.plot(horizons, truth, linewidth=2, label=f"Projected {_NAMES[method]}, to r$_\\pi$", **style)
        panel.plot(horizons, rate, linewidth=1.2, linestyle=":", label="the same, to r$_{\\mathrm{TD}}$", **style)
    label = "floor |r$_{\\mathrm{TD}}$ − r$_\\pi$|, exact"
    panel.axhline(result.floor, color="black", linewidth=1.2, linestyle="--", label=label)
    panel.set_ylabel("root mean square error of the averaged rate")
    panel.set_title("The error to the true rate tends to its floor", fontsize=11)


def _draw_rate(panel: Any, result: Result, horizons: Any) -> None:
    beta = result.config.rate_step_size
    constant, own = f"constant β = {beta:g}", "β = α ∝ N$^{-1/2}$"
    looks = {
        "constant-last": ("#D55E00", "o", "-", f"raw r̂, {constant}"),
        "last": ("#56B4E9", "D", "-", f"raw r̂, {own}"),
        "constant": ("#D55E00", "o", ":", f"running average, {constant}"),
        "rate": ("#56B4E9", "D", ":", f"running average, {own}"),
    }
    for quantity, (color, marker, style, label) in looks.items():
        curve = result.typical("diff-gq2", quantity)
        panel.plot(
            horizons, curve, color=color, marker=marker, markersize=4.5, linestyle=style, linewidth=1.6, label=label
        )
    label = "variance β/(2 − β) Var ½(ρ$_1$ + ρ$_2$), exact"
    panel.plot(horizons, _flat(result, horizons), color="black", linewidth=1.2, linestyle="--", label=label)
    panel.set_ylabel("squared error of the rate to r$_{\\mathrm{TD}}$")
    panel.set_title("Projected Diff-GQ2's rate: raw and averaged", fontsize=11)


def _flat(result: Result, horizons: Any) -> Array:
    return np.full(len(horizons), np.exp(np.log(result.predicted_variance).mean()))
