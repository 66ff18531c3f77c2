"""The answer as a picture: rates with their intervals, and differences beside zero."""

import math
from collections.abc import Sequence
from typing import Any

from cesaro.comparison import Comparison
from cesaro.evaluation import Evaluation
from cesaro.passes.standard_errors import Estimate
from cesaro.report.style import DIFFERENCE, INK, LOG, NARROW, TARGET, WIDE, clean, drawing, figure, label
from cesaro.report.words import common_decimals, numbers, outcome, percent, spoken, spoken_differences

_ROW_HEIGHT = 0.55

Row = tuple[str, Estimate, str]


def evaluation_rates(evaluation: Evaluation, *, wide: bool = True) -> Any:
    """The target against the log; `wide`: side by side, else one above the other."""
    evaluation = spoken(evaluation)
    rates: list[Row] = [
        (evaluation.name, evaluation.target, TARGET),
        ("the log itself", evaluation.behavior, LOG),
    ]
    if evaluation.is_logged:
        return _draw(rates[1:], [], evaluation, wide)
    return _draw(rates, [(f"{evaluation.name} − the log", evaluation.difference, DIFFERENCE)], evaluation, wide)


def comparison_rates(comparison: Comparison, *, wide: bool = True) -> Any:
    """All policies, best first and those without a rank last, and their paired differences."""
    evaluations = [spoken(one) for one in comparison.listed]
    rates: list[Row] = [(one.name, one.target, LOG if one.is_logged else TARGET) for one in evaluations]
    if not any(one.is_logged for one in evaluations):
        rates.append(("the log itself", evaluations[0].behavior, LOG))
    differences = [(f"{a} − {b}", found, DIFFERENCE) for (a, b), found in spoken_differences(comparison).items()]
    return _draw(rates, differences, evaluations[0], wide)


def _draw(rates: Sequence[Row], differences: Sequence[Row], first: Evaluation, wide: bool) -> Any:
    with drawing():
        panels = [rates, differences] if differences else [rates]
        heights = [0.9 + _ROW_HEIGHT * len(rows) for rows in panels]
        if wide and differences:
            made = figure(WIDE, 0.3 + max(heights))
            axes = made.subplots(1, 2)
        else:
            made = figure(NARROW, sum(heights))
            axes = made.subplots(len(panels), 1, height_ratios=heights, squeeze=False)[:, 0]
        per = first.unit or "per step"
        decimals = common_decimals(estimate for _, estimate, _ in rates)
        _panel(axes[0], rates, first.confidence, f"{outcome(first)} in the long run, {per}", decimals)
        if differences:
            difference = "difference" if first.cost is None else "difference of costs"
            if any(math.isfinite(estimate.standard_error) for _, estimate, _ in differences):
                decimals = common_decimals(estimate for _, estimate, _ in differences)
            _panel(axes[1], differences, first.confidence, f"{difference}, {per}", decimals, signed=True)
            axes[1].axvline(0, color=INK, linewidth=0.8, zorder=0)
    return made


def _panel(
    axes: Any, rows: Sequence[Row], confidence: float, title: str, decimals: int | None, signed: bool = False
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
            axes.annotate(text, at, xytext=(0, 6), textcoords="offset points", ha="center", va="bottom", fontsize=10)
    axes.set_ylim(len(rows) - 0.4, -0.7)
    axes.set_yticks(range(len(rows)), [label(name, 16) for name, _, _ in rows])
    axes.set_xlabel(f"{label(title, 36)}\n({lines})")
    axes.margins(x=0.12)
    axes.locator_params(axis="x", nbins=5)
    axes.tick_params(axis="y", length=0)
    clean(axes, grid="x", left=False)
