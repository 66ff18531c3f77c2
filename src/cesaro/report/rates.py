"""The answer as a picture: rates with their intervals, and differences beside zero."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cesaro.comparison import Comparison
from cesaro.evaluation import Evaluation
from cesaro.passes.standard_errors import Estimate
from cesaro.rehearsal import Rehearsal
from cesaro.report.style import DIFFERENCE, INK, LOG, LOSS, MUTED, NARROW, TARGET, WIDE, clean, drawing, figure, label
from cesaro.report.words import (
    candidate_name,
    common_decimals,
    level_text,
    numbers,
    outcome,
    rehearsed_name,
    spoken,
    spoken_differences,
    spoken_rehearsal,
)

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


def candidates_figure(evaluation: Evaluation) -> Any:
    """The answer, and below it what each candidate says by itself; the interval of the closed form's limit lies inside."""
    panel, cost = evaluation.panel, evaluation.cost is not None
    assert panel is not None
    shown = spoken(evaluation)
    said = [
        (candidate_name(one.name) + ("" if one.votes else ", no vote"), one.estimate)
        for one in panel.opinions
        if one.estimate is not None
    ]
    rows: list[Row] = [
        ("the answer", shown.target, TARGET),
        *((name, found.negative() if cost else found, MUTED) for name, found in said),
    ]
    with drawing():
        made = figure(NARROW, 1.0 + 0.45 * len(rows))
        axes = made.subplots()
        decimals = common_decimals([shown.target])
        _panel(axes, rows, shown.confidence, f"{outcome(shown)} in the long run, {shown.unit or 'per step'}", decimals)
        axes.axvline(shown.behavior.value, color=LOG, linewidth=1, linestyle="--", zorder=0)
        axes.annotate(
            "the log",
            (shown.behavior.value, 1),
            xycoords=("data", "axes fraction"),
            color=LOG,
            fontsize=9,
            ha="center",
            va="bottom",
        )
        low, high = shown.limit.interval(shown.confidence)
        axes.plot([low, high], [0.22, 0.22], color=TARGET, linewidth=1, alpha=0.6)
    return made


def rehearsal_figure(rehearsal: Rehearsal) -> Any:
    """By how much each candidate was wrong in every world; hollow where its interval did not hold what the target earns there."""
    rehearsal = spoken_rehearsal(rehearsal)
    rows, worlds = rehearsal.table, len(rehearsal.truths)
    with drawing():
        made = figure(NARROW, 1.2 + 0.45 * len(rows))
        axes = made.subplots()
        for place, row in enumerate(rows):
            errors, held = rehearsal.in_worlds(row["candidate"])
            spread = np.linspace(-0.22, 0.22, worlds) + place
            axes.plot(errors[held], spread[held], "o", color=TARGET, markersize=4, alpha=0.8)
            axes.plot(errors[~held], spread[~held], "o", markerfacecolor="none", color=LOSS, markersize=4)
        axes.axvline(0, color=INK, linewidth=0.8, zorder=0)
        axes.set_ylim(len(rows) - 0.4, -0.7)
        axes.set_yticks(range(len(rows)), [label(rehearsed_name(rehearsal, row["candidate"]), 16) for row in rows])
        off = "error" if rehearsal.cost is None else "error of the cost"
        what = label(f"{off} in {worlds} systems, {rehearsal.unit or 'per step'}", 36)
        axes.set_xlabel(f"{what}\n(hollow: outside of its interval)")
        axes.locator_params(axis="x", nbins=5)
        axes.tick_params(axis="y", length=0)
        clean(axes, grid="x", left=False)
    return made


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
            lines = f"lines: {level_text(confidence)} intervals"
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
