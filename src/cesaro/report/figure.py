"""The answer as a picture: rates with their intervals, and differences beside zero."""

import math
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cesaro.report.escape import visible
from cesaro.report.text import common_decimals, numbers, percent

if TYPE_CHECKING:
    from cesaro.estimators.influence import Estimate
    from cesaro.evaluation import Comparison, Evaluation

_TARGET, _LOG, _DIFFERENCE = "#2b6cb0", "#6b7785", "#2f855a"
_ROW_HEIGHT, _LABEL_WIDTH, _LABEL_LINES = 0.55, 24, 3

Row = tuple[str, "Estimate", str]


def draw_evaluation(evaluation: "Evaluation", file: Path) -> None:
    """The target against the log."""
    rates: list[Row] = [
        (evaluation.name, evaluation.target, _TARGET),
        ("the log itself", evaluation.behavior, _LOG),
    ]
    difference = (f"{evaluation.name} − the log", evaluation.difference, _DIFFERENCE)
    _draw(rates, [difference], evaluation, file)


def draw_comparison(comparison: "Comparison", file: Path) -> None:
    """All policies, best first, and their paired differences."""
    evaluations = sorted(comparison.evaluations.values(), key=lambda evaluation: -evaluation.reward_rate)
    rates: list[Row] = [(evaluation.name, evaluation.target, _TARGET) for evaluation in evaluations]
    if not any(evaluation.is_logged for evaluation in evaluations):
        rates.append(("the log itself", evaluations[0].behavior, _LOG))
    differences = [
        (f"{a} − {b}", found, _DIFFERENCE) if found.value >= 0 else (f"{b} − {a}", found.negative(), _DIFFERENCE)
        for (a, b), found in comparison.differences.items()
    ]
    _draw(rates, differences, evaluations[0], file)


def _draw(rates: Sequence[Row], differences: Sequence[Row], first: "Evaluation", file: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height = 1.2 + _ROW_HEIGHT * max(len(rates), len(differences))
    figure = Figure(figsize=(10, height), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    per = first.unit or "per step"
    decimals = common_decimals(estimate for _, estimate, _ in rates)
    _panel(left, rates, first.confidence, f"reward in the long run, {per}", decimals)
    if any(math.isfinite(estimate.standard_error) for _, estimate, _ in differences):
        decimals = common_decimals(estimate for _, estimate, _ in differences)
    _panel(right, differences, first.confidence, f"difference, {per}", decimals, signed=True)
    right.axvline(0, color="black", linewidth=0.8, zorder=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a character that the font lacks is drawn as a box
        figure.savefig(file, dpi=150)


def _panel(
    axes: Any, rows: Sequence[Row], confidence: float, label: str, decimals: int | None, signed: bool = False
) -> None:
    lines = "no intervals"
    for place, (_, estimate, color) in enumerate(rows):
        low, high = estimate.interval(confidence)
        has_interval = math.isfinite(low) and math.isfinite(high)
        if math.isfinite(estimate.value):
            axes.plot([estimate.value], [place], "o", color=color, markersize=7)
        if has_interval:
            lines = f"lines: {percent(confidence)} intervals"
            axes.plot([low, high], [place, place], color=color, linewidth=2, solid_capstyle="butt")
        if math.isfinite(estimate.value):
            text, at = numbers(estimate, confidence, decimals, signed=signed)[0], (estimate.value, place)
            axes.annotate(text, at, xytext=(0, 6), textcoords="offset points", ha="center", va="bottom", fontsize=9)
    axes.set_ylim(len(rows) - 0.4, -0.7)
    axes.set_yticks(range(len(rows)), [_label(name) for name, _, _ in rows], parse_math=False)
    axes.set_xlabel(f"{_label(label, 60)}\n({lines})", parse_math=False)
    axes.margins(x=0.12)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", linewidth=0.4, alpha=0.5)


def _label(text: str, width: int = _LABEL_WIDTH) -> str:
    return textwrap.fill(visible(text), width, max_lines=_LABEL_LINES, placeholder=" …")
