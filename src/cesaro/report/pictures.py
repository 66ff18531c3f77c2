"""Pictures of one evaluation beside its rates: the log over time, values by state, gains, influence, support.

Each is a `Picture` with a title, a caption that says how to read it, and an alternative text that says what it shows.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.errors import InputError
from cesaro.report.figure import evaluation_rates
from cesaro.report.state_pictures import Picture, along_values, gains, per, table_values
from cesaro.report.style import (
    DIFFERENCE,
    INK,
    LOG,
    LOSS,
    MUTED,
    NARROW,
    TARGET,
    clean,
    drawing,
    figure,
    label,
)
from cesaro.report.words import decimals_of, headline, numbers, percent, share_text

if TYPE_CHECKING:
    from cesaro.estimators.diagnostics.support import Leverages
    from cesaro.evaluation import Evaluation
    from cesaro.views import ActionShares, OverTime

KINDS = ("rates", "reward", "values", "gains", "influence", "support")
# Actions of a bar chart.
_MOST_ACTIONS = 12


def plot(evaluation: "Evaluation", kind: str) -> Any:
    """The figure of that kind."""
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}. Got {kind!r}.")
    if kind == "rates":
        return evaluation_rates(evaluation)
    found = {picture.name: picture for picture in pictures(evaluation, (kind,))}
    if kind not in found:
        why = "the policy is the log itself" if evaluation.is_logged else "this method gives none"
        raise InputError(f"There is no picture of {kind}: {why}; take kind='rates'.")
    return found[kind].figure


def rates_picture(evaluation: "Evaluation") -> Picture:
    return Picture(
        "rates",
        "Rates with intervals",
        f"Points are estimates, lines their {percent(evaluation.confidence)} intervals."
        + ("" if evaluation.is_logged else " The difference is paired row by row."),
        headline(evaluation),
        evaluation_rates(evaluation, wide=False),
    )


def pictures(evaluation: "Evaluation", kinds: tuple[str, ...] = KINDS[1:]) -> list[Picture]:
    """Those of `kinds` that there are."""
    views = evaluation.views
    found: list[Picture] = []
    if "reward" in kinds:
        found.append(_reward(evaluation, views.over_time))
    if "values" in kinds and views.table is not None and np.isfinite(views.table.values).any():
        found.append(table_values(evaluation, views.table))
    if "values" in kinds and views.along:
        found.append(along_values(evaluation, views.along))
    if "gains" in kinds and views.places:
        found.append(gains(evaluation, views.places))
    pulls = views.over_time.influence
    if "influence" in kinds and np.isfinite(pulls).all() and pulls.any() and not evaluation.is_logged:
        found.append(_influence(evaluation, views.over_time))
    if "support" in kinds and (views.leverage is not None or views.actions):
        found.append(_support(evaluation))
    return found


def _order(views: "OverTime") -> str:
    return (
        f"row of the log ({views.trajectories:,} trajectories in turn)" if views.trajectories > 1 else "row of the log"
    )


def _reward(evaluation: "Evaluation", view: "OverTime") -> Picture:
    with drawing():
        made = figure(NARROW, 3.2)
        axes = made.subplots()
        rates = [("the log itself", evaluation.behavior, LOG)]
        if not evaluation.is_logged:
            rates.append((evaluation.name, evaluation.target, TARGET))
        axes.stairs(
            view.reward, view.edges, color=MUTED, linewidth=1.2, baseline=None, label="mean reward of a stretch"
        )
        for name, estimate, color in rates:
            low, high = estimate.interval(evaluation.confidence)
            if math.isfinite(low) and math.isfinite(high):
                axes.axhspan(low, high, color=color, alpha=0.18, linewidth=0)
            if math.isfinite(estimate.value):
                axes.axhline(
                    estimate.value,
                    color=color,
                    linewidth=2,
                    label=f"{label(name, 24)}: {numbers(estimate, evaluation.confidence, decimals_of(evaluation))[0]}",
                )
        for border in view.borders:
            axes.axvline(border, color=MUTED, linewidth=0.8, linestyle=":")
        _rows_axis(axes, view)
        axes.set_ylabel(f"reward, {per(evaluation)}")
        clean(axes, grid="y")
        made.legend(loc="outside upper left", fontsize=10, ncols=1)
    size = int(np.median(np.diff(view.edges)))
    return Picture(
        "reward",
        "Reward over time",
        f"Mean reward of stretches of about {size:,} rows; horizontal lines are rates with their intervals. A trend or a jump "
        f"says that the system changed{'; a step at a dotted line, that another trajectory begins' if view.borders else ''}.",
        f"Mean logged reward in {len(view.reward)} stretches, between {np.nanmin(view.reward):.4g} and "
        f"{np.nanmax(view.reward):.4g}, beside the log's rate of {evaluation.behavior.value:.4g}"
        + ("." if evaluation.is_logged else f" and the target's of {evaluation.target.value:.4g}."),
        made,
    )


def _rows_axis(axes: Any, view: "OverTime") -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.set_xlim(0, view.edges[-1])
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_xlabel(label(_order(view), 40))


def _influence(evaluation: "Evaluation", view: "OverTime") -> Picture:
    with drawing():
        made = figure(NARROW, 2.6)
        axes = made.subplots()
        up = view.influence >= 0
        middles, widths = (view.edges[1:] + view.edges[:-1]) / 2, np.diff(view.edges)
        for chosen, color in ((up, DIFFERENCE), (~up, LOSS)):
            axes.bar(middles[chosen], view.influence[chosen], width=0.9 * widths[chosen], color=color)
        axes.axhline(0, color=INK, linewidth=0.8)
        for border in view.borders:
            axes.axvline(border, color=MUTED, linewidth=0.8, linestyle=":")
        _rows_axis(axes, view)
        axes.set_ylabel(f"pull on the rate,\n{per(evaluation)}")
        clean(axes, grid="y")
    most = int(np.argmax(np.abs(view.influence)))
    return Picture(
        "influence",
        "Influence over time",
        "By how much each stretch of the log pulls the estimate up or down. A single tall bar says that the answer rests on "
        "a few rows.",
        f"The strongest stretch, rows {view.edges[most]:,} to {view.edges[most + 1]:,}, pulls the rate by "
        f"{view.influence[most]:+.2g}"
        + (
            f"; the standard error is {evaluation.standard_error:.2g}."
            if math.isfinite(evaluation.standard_error)
            else "."
        ),
        made,
    )


def _support(evaluation: "Evaluation") -> Picture:
    views = evaluation.views
    leverage, actions = views.leverage, views.actions
    with drawing():
        heights = [*([2.2] if leverage is not None else []), *(_action_height(one) for one in actions)]
        made = figure(NARROW, 0.6 + sum(heights))
        panels = list(made.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0])
        alt = ""
        if leverage is not None:
            alt = _leverage_panel(panels.pop(0), leverage)
        for axes, one in zip(panels, actions):
            _action_panel(axes, one)
        handles, names = made.axes[0].get_legend_handles_labels()
        made.legend(handles[:2], names[:2], loc="outside upper left", fontsize=10, ncols=2)
    beyond = 0.0 if leverage is None else float((leverage.target > leverage.limit * (1 + 1e-6)).mean())
    return Picture(
        "support",
        "The target's actions against the log's",
        "Leverage says how far out of the log a pair of state and action lies. Where the target's pairs lie to the right of the "
        "log's, the answer extrapolates." + _below(actions),
        f"{share_text(beyond)} of the target's pairs lie beyond all but a thousandth of the log's. {alt}".strip(),
        made,
    )


def _below(actions: "tuple[ActionShares, ...]") -> str:
    if not actions:
        return ""
    count = 0 if actions[0].labels is None else len(actions[0].labels)
    cut = f", the {_MOST_ACTIONS} most frequent of {count:,}" if count > _MOST_ACTIONS else ""
    return f" Below: the actions of both at the same states{cut}."


def _leverage_panel(axes: Any, leverage: "Leverages") -> str:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    both = np.concatenate([leverage.logged, leverage.target])
    known = both[np.isfinite(both) & (both > 0)]
    low, high = (np.log10(known.min()), np.log10(known.max())) if len(known) else (0.0, 1.0)
    edges = np.logspace(low - 0.05, high + 0.05, 31)
    never = float(np.isinf(leverage.target).mean())
    for values, color, name in ((leverage.logged, LOG, "the log"), (leverage.target, TARGET, "the target")):
        counts = np.histogram(values[np.isfinite(values)], edges)[0] / max(1, len(values))
        axes.stairs(100 * counts, edges, color=color, linewidth=2, label=name)
        axes.stairs(100 * counts, edges, color=color, alpha=0.15, fill=True)
    axes.axvline(leverage.limit, color=MUTED, linewidth=1, linestyle="--")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}" if 1e-4 <= x < 1e6 else f"{x:.0e}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    what = "leverage: rows of the log\nper row of the pair" if leverage.by_count else "leverage of the\npair's features"
    axes.set_xlabel(f"{what}\n(dashed: 99.9 % of the log)")
    axes.set_ylabel("% of pairs")
    clean(axes, grid="y")
    if never:
        axes.set_title(f"{share_text(never)} of the target's pairs were never logged", fontsize=10)
    return f"{share_text(never)} of the target's pairs were never logged." if never else ""


def _action_height(one: "ActionShares") -> float:
    return 1.7 if one.labels is None else 0.7 + 0.36 * min(_MOST_ACTIONS, len(one.labels))


def _action_panel(axes: Any, one: "ActionShares") -> None:
    if one.labels is None:
        for share, color, name in ((one.logged, LOG, "the log"), (one.target, TARGET, "the target")):
            axes.stairs(100 * share, one.edges, color=color, linewidth=2, label=name)
        axes.set_ylabel("% of rows")
        axes.set_xlabel(label(one.name, 30))
        clean(axes, grid="y")
        return
    often = np.sort(np.argsort(-np.maximum(one.logged, one.target), kind="stable")[:_MOST_ACTIONS])
    places = np.arange(len(often))
    axes.barh(places - 0.2, 100 * one.logged[often], height=0.36, color=LOG, label="the log")
    axes.barh(places + 0.2, 100 * one.target[often], height=0.36, color=TARGET, label="the target")
    axes.set_yticks(places, [label(one.labels[k], 16) for k in often])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"% of rows with this\n{label(one.name, 22)}")
    clean(axes, grid="x", left=False)
