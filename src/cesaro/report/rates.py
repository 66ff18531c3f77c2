"""The answer as a picture: rates with their intervals, and differences beside zero."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cesaro.comparison import Comparison
from cesaro.evaluation import Evaluation
from cesaro.passes.standard_errors import Estimate
from cesaro.rehearsal import Rehearsal
from cesaro.report.style import DIFFERENCE, INK, LOG, LOSS, MUTED, NARROW, TARGET, WIDE, clean, drawing, figure, label
from cesaro.report.words import (
    AT_ONCE,
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
from cesaro.text import visible

_ROW_HEIGHT = 0.55
# Letters of a line beside a row.
_LETTERS = 16
# The weight from which a candidate has a say in what a picture shows, and how strongly others are drawn.
_SOME_WEIGHT, _PALE = 0.05, 0.45
# Room beside what an axis shows, and how far off the log's rate may be to be on it, as parts of its length.
_MARGIN, _FAR = 0.12, 2.0

# A label, a number with its interval, and a color.
Row = tuple[str, Estimate, str]
View = tuple[float, float]


def evaluation_rates(evaluation: Evaluation, *, wide: bool = True) -> Any:
    """The target against the log; `wide`: side by side, else one above the other."""
    evaluation = spoken(evaluation)
    rates: list[Row] = [
        (label(evaluation.name, _LETTERS), evaluation.target, TARGET),
        ("the log itself", evaluation.behavior, LOG),
    ]
    if evaluation.is_logged:
        return _draw(rates[1:], [], evaluation, wide)
    minus = _minus(evaluation.name, "the log", _short_names([evaluation.name]))
    return _draw(rates, [(minus, evaluation.difference, DIFFERENCE)], evaluation, wide)


def comparison_rates(comparison: Comparison, *, wide: bool = True) -> Any:
    """All policies, best first and those without a rank last, and their paired differences."""
    evaluations = [spoken(one) for one in comparison.listed]
    rates: list[Row] = [
        (label(one.name, _LETTERS), one.target, LOG if one.is_logged else TARGET) for one in evaluations
    ]
    if not any(one.is_logged for one in evaluations):
        rates.append(("the log itself", evaluations[0].behavior, LOG))
    short = _short_names([one.name for one in evaluations])
    differences = [(_minus(a, b, short), found, DIFFERENCE) for (a, b), found in spoken_differences(comparison).items()]
    return _draw(rates, differences, evaluations[0], wide)


def _minus(a: str, b: str, short: Mapping[str, str]) -> str:
    """The label of a difference, in which both names can be read: as they are if they fit, else shortened."""
    whole = f"{a} − {b}"
    fitted = label(whole, _LETTERS)
    is_cut = fitted.replace("\n", "").replace(" ", "") != visible(whole).replace(" ", "")
    return f"{short.get(a, a)} −\n{short.get(b, b)}" if is_cut else fitted


def _short_names(names: Sequence[str], letters: int = _LETTERS - 2) -> dict[str, str]:
    """Names of at most so many letters, without their middle where they are longer; numbered where that makes them the same."""
    found = {name: _without_middle(visible(name), letters) for name in names}
    same = [short for short, times in Counter(found.values()).items() if times > 1]
    for number, name in enumerate(names, 1):
        if found[name] in same:
            found[name] = f"{number}: {_without_middle(visible(name), letters - len(str(number)) - 2)}"
    return found


def _without_middle(name: str, letters: int) -> str:
    """The beginning and the end of a long name."""
    kept = letters - 1
    return name if len(name) <= letters else f"{name[: kept - kept // 2]}…{name[len(name) - kept // 2 :]}"


def candidates_figure(evaluation: Evaluation) -> Any:
    """The answer, below it what each candidate says by itself, and last the answer that one closed form gives at once.

    The axis shows the answer and the candidates with some weight in full; an arrow says that an interval goes on. Candidates
    without such a weight, and what is said at once, are paler.
    """
    panel, cost = evaluation.panel, evaluation.cost is not None
    assert panel is not None
    shown = spoken(evaluation)
    said = [
        (
            candidate_name(one.name) + ("" if one.votes else ", no vote"),
            one.estimate.negative() if cost else one.estimate,
            one.weight >= _SOME_WEIGHT,
        )
        for one in panel.opinions
        if one.estimate is not None
    ]
    rows: list[Row] = [
        ("the answer", shown.target, TARGET),
        *((label(name, _LETTERS), found, MUTED) for name, found, _ in said),
        (AT_ONCE.replace(" (", "\n("), shown.limit, TARGET),
    ]
    matters = [True, *(has_weight for _, _, has_weight in said), False]
    with drawing():
        made = figure(NARROW, 1.0 + 0.45 * len(rows))
        axes = made.subplots()
        decimals = common_decimals([shown.target])
        view = _view([row for row, counts in zip(rows, matters) if counts], shown.behavior, shown.confidence)
        title = f"{outcome(shown)} in the long run, {shown.unit or 'per step'}"
        _panel(axes, rows, shown.confidence, title, decimals, view=view, pale=[not counts for counts in matters])
        _log_line(axes, shown.behavior.value, view)
    return made


def _view(rows: Sequence[Row], logged: Estimate, confidence: float) -> View | None:
    """The ends of an axis on which these intervals can be seen, and the log's rate unless that is far; None: nothing is known."""
    ends = [end for _, estimate, _ in rows for end in (estimate.value, *estimate.interval(confidence))]
    known = [end for end in ends if math.isfinite(end)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if not low < high:
        return None
    if low - _FAR * (high - low) <= logged.value <= high + _FAR * (high - low):
        low, high = min(low, logged.value), max(high, logged.value)
    margin = _MARGIN * (high - low)
    return low - margin, high + margin


def _log_line(axes: Any, rate: float, view: View | None) -> None:
    """A dashed line where the log's rate is, or an arrow to that side where it is far away."""
    if view is None or view[0] <= rate <= view[1]:
        axes.axvline(rate, color=LOG, linewidth=1, linestyle="--", zorder=0)
        said, at, side = "the log", rate, "center"
    else:
        left = rate < view[0]
        said, at, side = ("← the log", view[0], "left") if left else ("the log →", view[1], "right")
    place = (at, 1)
    axes.annotate(said, place, xycoords=("data", "axes fraction"), color=LOG, fontsize=9, ha=side, va="bottom")


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
    axes: Any,
    rows: Sequence[Row],
    confidence: float,
    title: str,
    decimals: int | None,
    *,
    signed: bool = False,
    view: View | None = None,
    pale: Sequence[bool] = (),
) -> None:
    """Rates or differences, a line each. `view`: ends of the axis, at which arrows say that a line goes on; else all is shown."""
    lines = "no intervals"
    left, right = (-math.inf, math.inf) if view is None else view
    for place, (_, estimate, color) in enumerate(rows):
        low, high = estimate.interval(confidence)
        alpha = _PALE if place < len(pale) and pale[place] else 1.0
        if math.isfinite(low) and math.isfinite(high):
            lines = f"lines: {level_text(confidence)} intervals"
            seen = [min(max(end, left), right) for end in (low, high)]
            axes.plot(seen, [place, place], color=color, linewidth=2, solid_capstyle="butt", alpha=alpha)
            for end, marker in ((left, "<"), (right, ">")):
                if (low < end) if marker == "<" else (high > end):
                    axes.plot([end], [place], marker, color=color, markersize=7, clip_on=False, alpha=alpha)
        if not math.isfinite(estimate.value):
            continue
        text, at = numbers(estimate, confidence, decimals, signed=signed)[0], min(max(estimate.value, left), right)
        if at == estimate.value:
            axes.plot([at], [place], "o", color=color, markersize=7, alpha=alpha)
        side = "center" if at == estimate.value else "left" if at == left else "right"
        axes.annotate(text, (at, place), xytext=(0, 6), textcoords="offset points", ha=side, va="bottom", fontsize=10)
    axes.set_ylim(len(rows) - 0.4, -0.7)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.set_xlabel(f"{label(title, 36)}\n({lines})")
    axes.margins(x=_MARGIN)
    if view is not None:
        axes.set_xlim(*view)
    axes.locator_params(axis="x", nbins=5)
    axes.tick_params(axis="y", length=0)
    clean(axes, grid="x", left=False)
