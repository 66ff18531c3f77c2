"""Pictures of one evaluation beside its rates: the log over time, values by state, gains, influence, support,
and of a learned world the rollouts and the occupancy.

Each is a `Picture` with a title, a caption that says how to read it, and an alternative text that says what it shows.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cesaro.diagnostics.support import Leverages
from cesaro.errors import InputError
from cesaro.evaluation import Evaluation
from cesaro.rehearsal import Rehearsal
from cesaro.report.rates import candidates_figure, evaluation_rates, rehearsal_figure
from cesaro.report.style import (
    DIFFERENCE,
    DIVERGING,
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
from cesaro.report.words import (
    decimals_of,
    headline,
    level_text,
    limit_sentence,
    numbers,
    outcome,
    panel_sentence,
    share_text,
    sign,
    spoken,
)
from cesaro.views import Along, OverTime, Place, Rollouts, Shares, StateTable

KINDS = (
    "rates",
    "candidates",
    "rehearsal",
    "reward",
    "values",
    "gains",
    "influence",
    "support",
    "rollouts",
    "occupancy",
)
# Of a learned world alone.
OF_WORLDS = ("rollouts", "occupancy")
# Actions of a bar chart or a heat map.
_MOST_ACTIONS = 12
# States of a heat map with a row per state, and levels of one with a column of the observation on each side.
_MOST_STATES, _MOST_LEVELS, _MOST_PANELS = 24, 24, 4
# Places where the target gains or loses.
_MOST_PLACES = 6
# Letters of a line above the axes, which stands there because a unit may be long.
_TITLE = 40


class Picture(NamedTuple):
    """One picture of a report."""

    name: str
    title: str
    caption: str
    alt: str
    figure: Any


def plot(evaluation: Evaluation, kind: str) -> Any:
    """The figure of that kind."""
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}. Got {kind!r}.")
    if kind == "rates":
        return evaluation_rates(evaluation)
    found = {picture.name: picture for picture in pictures(evaluation, (kind,))}
    if kind not in found:
        raise InputError(f"There is no picture of {kind}: {_missing(evaluation, kind)}; take kind='rates'.")
    return found[kind].figure


def _missing(evaluation: Evaluation, kind: str) -> str:
    """The reason that an evaluation has no picture of this kind."""
    if evaluation.is_logged:
        return "the policy is the log itself"
    if kind == "candidates":
        return "one candidate was asked alone"
    if kind == "rehearsal":
        return "the question was not rehearsed, which effort='full' does where a learned process has a vote"
    if kind in OF_WORLDS and evaluation.panel is None and evaluation.estimator.kind != "world":
        return "the target was run in no learned process"
    if kind in ("gains", "influence", "rollouts") and evaluation.estimator.facts_.spread == 0:
        return "all rewards are equal"
    if kind not in OF_WORLDS:
        return "this method gives none"
    is_discrete = evaluation.views.table is not None
    return "the log is discrete, and the rate in its process is exact" if is_discrete else "all columns are constant"


def rates_picture(evaluation: Evaluation) -> Picture:
    """The picture of the rates with their intervals."""
    return Picture(
        "rates",
        "Rates with intervals",
        f"Points are estimates, lines their {level_text(evaluation.confidence)} intervals."
        + (" The difference is paired." if evaluation.is_paired and not evaluation.is_logged else ""),
        headline(evaluation),
        evaluation_rates(evaluation, wide=False),
    )


def pictures(evaluation: Evaluation, kinds: tuple[str, ...] = KINDS[1:]) -> list[Picture]:
    """The pictures of an evaluation of these kinds, as far as it has them."""
    views = evaluation.views
    found: list[Picture] = []
    if "candidates" in kinds and evaluation.panel is not None:
        found.append(_candidates(evaluation))
    if "rehearsal" in kinds and evaluation.rehearsal is not None:
        found.append(_rehearsal(evaluation.rehearsal))
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
    if "rollouts" in kinds and views.rollouts is not None:
        found.append(_rollouts(evaluation, views.rollouts))
    if "occupancy" in kinds and views.occupancy:
        found.append(_occupancy(views.occupancy))
    return found


def _candidates(evaluation: Evaluation) -> Picture:
    return Picture(
        "candidates",
        "What each candidate says",
        f"Points are estimates, lines their {level_text(evaluation.confidence)} intervals: the answer, what it is made of (paler "
        "where that has less than 5 % of the weight, or no vote), and last what one closed form says at once (effort none): its "
        "interval is about the limit of that closed form, and may reach outside of the answer's. At an arrow a line goes on. "
        f"The dashed line is what the log {'earned' if evaluation.cost is None else 'cost'}.",
        f"{panel_sentence(evaluation)} {limit_sentence(evaluation)}",
        candidates_figure(evaluation),
    )


def _rehearsal(rehearsal: Rehearsal) -> Picture:
    return Picture(
        "rehearsal",
        "Rehearsal in learned systems",
        "By how much closed forms are wrong on logs that were simulated in systems learned from this one, where the answer is "
        "known: a point per system. Points that are far from zero, all to one side, or hollow say that such a candidate errs on "
        f"systems like yours. {rehearsal.covers}",
        rehearsal.summary,
        rehearsal_figure(rehearsal),
    )


def _order(views: OverTime) -> str:
    return (
        f"row of the log ({views.trajectories:,} trajectories in turn)" if views.trajectories > 1 else "row of the log"
    )


def _reward(evaluation: Evaluation, view: OverTime) -> Picture:
    evaluation, earned = spoken(evaluation), sign(evaluation) * view.reward
    noun = "reward" if evaluation.cost is None else "cost"
    with drawing():
        made = figure(NARROW, 3.4)
        axes = made.subplots()
        rates = [("the log itself", evaluation.behavior, LOG)]
        if not evaluation.is_logged:
            rates.append((evaluation.name, evaluation.target, TARGET))
        axes.stairs(earned, view.edges, color=MUTED, linewidth=1.2, baseline=None, label=f"mean {noun} of a stretch")
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
        axes.set_title(label(f"{outcome(evaluation)}, {evaluation.unit or 'per step'}", _TITLE))
        clean(axes, grid="y")
        made.legend(loc="outside upper left", fontsize=10, ncols=1)
    size = int(np.median(np.diff(view.edges)))
    return Picture(
        "reward",
        f"{noun.capitalize()} over time",
        f"Mean {noun} of stretches of about {size:,} rows; horizontal lines are rates with their intervals. A trend or a jump "
        f"says that the system changed{'; a step at a dotted line, that another trajectory begins' if view.borders else ''}.",
        f"Mean logged {noun} in {len(earned)} stretches, between {np.nanmin(earned):.4g} and "
        f"{np.nanmax(earned):.4g}, beside the log's rate of {evaluation.behavior.value:.4g}"
        + ("." if evaluation.is_logged else f" and the target's of {evaluation.target.value:.4g}."),
        made,
    )


def _rows_axis(axes: Any, view: OverTime) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.set_xlim(0, view.edges[-1])
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_xlabel(label(_order(view), 40))


def _influence(evaluation: Evaluation, view: OverTime) -> Picture:
    with drawing():
        made = figure(NARROW, 2.6)
        axes = made.subplots()
        up, pulls = view.influence >= 0, sign(evaluation) * view.influence
        middles, widths = (view.edges[1:] + view.edges[:-1]) / 2, np.diff(view.edges)
        for chosen, color in ((up, DIFFERENCE), (~up, LOSS)):
            axes.bar(middles[chosen], pulls[chosen], width=0.9 * widths[chosen], color=color)
        axes.axhline(0, color=INK, linewidth=0.8)
        for border in view.borders:
            axes.axvline(border, color=MUTED, linewidth=0.8, linestyle=":")
        _rows_axis(axes, view)
        pulled = "rate" if evaluation.cost is None else "cost"
        axes.set_title(label(f"pull on the {pulled}, {evaluation.unit or 'per step'}", _TITLE))
        clean(axes, grid="y")
    most = int(np.argmax(np.abs(view.influence)))
    return Picture(
        "influence",
        "Influence over time",
        "By how much each stretch of the log pulls the estimate up or down. A single tall bar says that the answer rests on "
        "a few rows.",
        f"The strongest stretch, rows {view.edges[most]:,} to {view.edges[most + 1]:,}, pulls the rate by "
        f"{pulls[most]:+.2g}"
        + (
            f"; the standard error is {evaluation.standard_error:.2g}."
            if math.isfinite(evaluation.standard_error)
            else "."
        ),
        made,
    )


def _support(evaluation: Evaluation) -> Picture:
    views = evaluation.views
    leverage, actions = views.leverage, views.actions
    with drawing():
        heights = [*([2.2] if leverage is not None else []), *(_shares_height(one) for one in actions)]
        made = figure(NARROW, 0.6 + sum(heights))
        panels = list(made.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0])
        alt = ""
        if leverage is not None:
            alt = _leverage_panel(panels.pop(0), leverage)
        for axes, one in zip(panels, actions):
            _shares_panel(axes, one)
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


def _rollouts(evaluation: Evaluation, view: Rollouts) -> Picture:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    evaluation, shown = spoken(evaluation), sign(evaluation)
    noun, target = "reward" if evaluation.cost is None else "cost", evaluation.target
    low, high = target.interval(evaluation.confidence)
    members = len(view.rates)
    with drawing():
        made = figure(NARROW, 3.4)
        axes = made.subplots()
        if math.isfinite(low) and math.isfinite(high):
            axes.axhspan(low, high, color=TARGET, alpha=0.18, linewidth=0)
        for number, earned in enumerate(view.reward):
            name = f"mean {noun} in one of {members} members" if number == 0 else None
            axes.stairs(shown * earned, view.edges, color=MUTED, linewidth=1, baseline=None, label=name)
        decimals = decimals_of(evaluation)
        for name, estimate, color in (
            ("the log itself", evaluation.behavior, LOG),
            (evaluation.name, target, TARGET),
        ):
            said = f"{label(name, 24)}: {numbers(estimate, evaluation.confidence, decimals)[0]}"
            axes.axhline(estimate.value, color=color, linewidth=2, label=said)
        axes.plot(np.full(members, view.edges[-1]), shown * view.rates, "o", color=TARGET, markersize=4, clip_on=False)
        axes.axvline(view.burn_in, color=MUTED, linewidth=1, linestyle="--")
        axes.set_xlim(0, view.edges[-1])
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.set_xlabel("step of the rollouts\n(dashed: rates count from here)")
        axes.set_title(label(f"{outcome(evaluation)}, {evaluation.unit or 'per step'}", _TITLE))
        clean(axes, grid="y")
        made.legend(loc="outside upper left", fontsize=10, ncols=1)
    rates = shown * view.rates
    return Picture(
        "rollouts",
        f"{noun.capitalize()} in the learned process",
        f"Mean {noun} of the target in each of {members} members of the learned process, step by step; points on the right are "
        "their rates, the line of the target is their median with its interval. Lines that lie apart say that the log leaves the "
        "process open; one that still climbs or falls after the dashed line, that the rollouts have not settled.",
        f"Rates of the {members} members, over the last {view.edges[-1] - view.burn_in:,} of {view.edges[-1]:,} steps, lie "
        f"between {rates.min():.4g} and {rates.max():.4g}; the log's is {shown * view.logged:.4g}.",
        made,
    )


def _occupancy(columns: tuple[Shares, ...]) -> Picture:
    with drawing():
        heights = [_shares_height(one) for one in columns]
        made = figure(NARROW, 0.6 + sum(heights))
        panels = made.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, one in zip(panels, columns):
            _shares_panel(axes, one)
        made.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", fontsize=10, ncols=2)
    first = columns[0]
    return Picture(
        "occupancy",
        "Where the target goes",
        "What the columns hold in the log, and in the target's rollouts in the learned process; those that differ most come "
        "first. Where the target is and the log is not, this process is a guess.",
        f"Column {first.name} differs most: the log and the target have {share_text(first.common)} of their rows in common.",
        made,
    )


def _below(actions: tuple[Shares, ...]) -> str:
    if not actions:
        return ""
    count = 0 if actions[0].labels is None else len(actions[0].labels)
    cut = f", the {_MOST_ACTIONS} most frequent of {count:,}" if count > _MOST_ACTIONS else ""
    return f" Below: the actions of both at the same states{cut}."


def _leverage_panel(axes: Any, leverage: Leverages) -> str:
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


def _shares_height(one: Shares) -> float:
    return 1.7 if one.labels is None else 0.7 + 0.36 * min(_MOST_ACTIONS, len(one.labels))


def _shares_panel(axes: Any, one: Shares) -> None:
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


# By state.


def per(evaluation: Evaluation) -> str:
    return label(evaluation.unit or "per step", 26)


def _limits(values: Any) -> float:
    """Symmetric about zero, and not ruled by one outlier."""
    known = np.abs(values[np.isfinite(values)])
    return float(max(np.quantile(known, 0.98), 1e-12)) if len(known) else 1.0


def table_values(evaluation: Evaluation, table: StateTable) -> Picture:
    """Values of a discrete log: by state and action."""
    is_cost = evaluation.cost is not None
    table, colors = replace(table, values=sign(evaluation) * table.values), DIVERGING + ("_r" if is_cost else "")
    levels = [sorted({state[j] for state in table.states}, key=_natural) for j in range(len(table.columns))]
    gridded = (
        len(levels) == 2
        and max(map(len, levels)) <= _MOST_LEVELS
        and min(map(len, levels)) >= 2
        and len(table.actions) <= _MOST_PANELS
    )
    with drawing():
        made = _grid(table, levels, colors) if gridded else _rows(table, colors)
    known = np.where(np.isfinite(table.values), table.values, -np.inf)
    best, worst = (
        np.unravel_index(int(np.argmax(part)), part.shape)
        for part in (known, np.where(np.isfinite(table.values), -table.values, -np.inf))
    )
    shown = ""
    if not gridded and len(table.states) > _MOST_STATES:
        shown = f" The {_MOST_STATES} states with most rows of {len(table.states) + table.left_out:,} are shown."
    if not gridded and len(table.actions) > _MOST_ACTIONS:
        shown += f" The first {_MOST_ACTIONS} of {len(table.actions):,} actions are shown."
    return Picture(
        "values",
        "Values by state",
        f"How much {'less (blue) or more' if is_cost else 'more (blue) or less'} (red) than average the target "
        f"{'costs' if is_cost else 'earns'} over the whole future after this action in this state. "
        f"Empty cells: the log says nothing.{shown}",
        f"The highest value is {table.values[best]:.3g}, {table.actions[best[1]]} at {_state(table, int(best[0]))}; the lowest "
        f"is {table.values[worst]:.3g}, {table.actions[worst[1]]} at {_state(table, int(worst[0]))}.",
        made,
    )


def _state(table: StateTable, row: int) -> str:
    return ", ".join(f"{name} {entry}" for name, entry in zip(table.columns, table.states[row]))


def _natural(entry: Any) -> tuple[int, Any]:
    """Numbers in their order, other labels by their text."""
    return (0, entry) if isinstance(entry, int | float) else (1, str(entry))


def _grid(table: StateTable, levels: list[list[Any]], colors: str) -> Any:
    """A panel per action, a column of the observation on each axis."""
    across, down = (0, 1) if len(levels[0]) >= len(levels[1]) else (1, 0)
    columns, rows = levels[across], levels[down]
    count = len(table.actions)
    made = figure(NARROW, 0.9 + count * (0.55 + 0.26 * len(rows)))
    panels = made.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    most = _limits(table.values)
    image = None
    for axes, action in zip(panels, range(count)):
        cells = np.full((len(rows), len(columns)), np.nan)
        for k, state in enumerate(table.states):
            cells[rows.index(state[down]), columns.index(state[across])] = table.values[k, action]
        image = axes.pcolormesh(cells, cmap=colors, vmin=-most, vmax=most, edgecolors="none")
        axes.set_yticks(np.arange(len(rows)) + 0.5, [label(entry, 14) for entry in rows])
        axes.invert_yaxis()
        axes.set_title(label(f"action: {table.actions[action]}", 22))
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    step = -(-len(columns) // 12)
    panels[-1].set_xticks(np.arange(len(columns))[::step] + 0.5, [label(entry, 8) for entry in columns[::step]])
    panels[-1].set_xlabel(label(table.columns[across], 30))
    made.colorbar(image, ax=panels, label="value", fraction=0.05, pad=0.02).outline.set_visible(False)
    return made


def _rows(table: StateTable, colors: str) -> Any:
    """A row per state, a column per action."""
    often = np.sort(np.argsort(-table.share, kind="stable")[:_MOST_STATES])
    count = min(len(table.actions), _MOST_ACTIONS)
    names = [label(", ".join(map(str, table.states[k])), 22) for k in often]
    made = figure(NARROW, 1.1 + max(0.26, 0.19 * max(name.count("\n") + 1 for name in names)) * len(often))
    axes = made.subplots()
    most = _limits(table.values)
    image = axes.pcolormesh(table.values[often, :count], cmap=colors, vmin=-most, vmax=most)
    axes.set_yticks(np.arange(len(often)) + 0.5, names)
    axes.invert_yaxis()
    axes.set_xticks(np.arange(count) + 0.5, [label(entry, 10) for entry in table.actions[:count]])
    axes.set_xlabel("action")
    axes.set_ylabel(label(", ".join(table.columns), 30))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    made.colorbar(image, ax=axes, label="value", fraction=0.05, pad=0.02).outline.set_visible(False)
    return made


def along_values(evaluation: Evaluation, along: tuple[Along, ...]) -> Picture:
    """Values along the columns of the observation."""
    earns = "earns"
    if evaluation.cost is not None:
        earns, along = "costs", tuple(replace(one, value=-one.value, low=-one.high, high=-one.low) for one in along)
    with drawing():
        made = figure(NARROW, 0.4 + 1.9 * len(along))
        panels = made.subplots(len(along), 1, squeeze=False)[:, 0]
        for axes, one in zip(panels, along):
            at = np.arange(len(one.labels)) if one.centers is None else one.centers
            error = np.stack([np.maximum(one.value - one.low, 0), np.maximum(one.high - one.value, 0)])
            if one.centers is None:
                axes.errorbar(at, one.value, error, fmt="o", color=TARGET, linewidth=1.5)
                axes.set_xticks(at, [label(entry, 10) for entry in one.labels])
            else:
                axes.fill_between(at, one.low, one.high, color=TARGET, alpha=0.2, linewidth=0)
                axes.plot(at, one.value, "o-", color=TARGET, markersize=3.5)
            axes.axhline(0, color=MUTED, linewidth=0.8)
            axes.set_xlabel(label(one.column, 30))
            axes.set_ylabel("value")
            clean(axes, grid="y")
    first = along[0]
    return Picture(
        "values",
        "Values along the leading columns",
        f"How much more or less than average the target {earns} over the whole future from states with this entry: the mean, and "
        "the range of 80 % of the rows. The columns that tell most about the value come first.",
        f"Column {first.column} matters most: its bins explain {level_text(first.explains)} of the variance of the value, from "
        f"{first.value.min():.3g} to {first.value.max():.3g}.",
        made,
    )


def gains(evaluation: Evaluation, places: tuple[Place, ...]) -> Picture:
    """Places where the target gains or loses most, as bars."""
    chosen, shown = extremes(places), sign(evaluation)
    with drawing():
        made = figure(NARROW, 1.0 + 0.5 * len(chosen))
        axes = made.subplots()
        colors = [DIFFERENCE if place.gain >= 0 else LOSS for place in chosen]
        axes.barh(range(len(chosen)), [shown * place.gain for place in chosen], color=colors, height=0.7)
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_yticks(range(len(chosen)), [label(place.where, 24) for place in chosen], fontsize=10)
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"contribution to the difference,\n{per(evaluation)}")
        axes.locator_params(axis="x", nbins=5)
        clean(axes, grid="x", left=False)
    best, worst = places[0], places[-1]
    share = f"{shown * best.gain:+.2g}, {share_text(best.share)} of the log's rows"
    gained = f"Most gained at {best.where} ({share})" if best.gain > 0 else "Nothing is gained anywhere"
    losing = f"; most lost at {worst.where} ({shown * worst.gain:+.2g})" if worst.gain < 0 else ""
    return Picture(
        "gains",
        "Where the target gains and loses",
        "Where the target acts differently from the log, and what that adds to the difference between the two rates."
        + ("" if evaluation.cost is None else " What lowers the cost is a gain."),
        f"{gained}{losing}.",
        made,
    )


def extremes(places: tuple[Place, ...]) -> list[Place]:
    """The largest gains and the largest losses, in order."""
    gains = [place for place in places if place.gain > 0][:_MOST_PLACES]
    losses = [place for place in places if place.gain < 0][-_MOST_PLACES:]
    return [*gains, *losses] or list(places[:_MOST_PLACES])
