"""Pictures by state: values, and where the target gains and loses."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cesaro.report.style import DIFFERENCE, DIVERGING, INK, LOSS, MUTED, NARROW, TARGET, clean, drawing, figure, label
from cesaro.report.words import percent, share_text

if TYPE_CHECKING:
    from cesaro.evaluation import Evaluation
    from cesaro.views import Along, Place, StateTable

# States of a heat map with a row per state, and levels of one with a column of the observation on each side.
_MOST_STATES, _MOST_LEVELS, _MOST_PANELS = 24, 24, 4
# Actions of a heat map, and places where the target gains or loses.
_MOST_ACTIONS, _MOST_PLACES = 12, 6


class Picture(NamedTuple):
    """One picture of a report."""

    name: str
    title: str
    caption: str
    alt: str
    figure: Any


def per(evaluation: "Evaluation") -> str:
    return label(evaluation.unit or "per step", 26)


def _limits(values: Any) -> float:
    """Symmetric about zero, and not ruled by one outlier."""
    known = np.abs(values[np.isfinite(values)])
    return float(max(np.quantile(known, 0.98), 1e-12)) if len(known) else 1.0


def table_values(evaluation: "Evaluation", table: "StateTable") -> Picture:
    levels = [sorted({state[j] for state in table.states}, key=_natural) for j in range(len(table.columns))]
    gridded = (
        len(levels) == 2
        and max(map(len, levels)) <= _MOST_LEVELS
        and min(map(len, levels)) >= 2
        and len(table.actions) <= _MOST_PANELS
    )
    with drawing():
        made = _grid(table, levels) if gridded else _rows(table)
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
        "How much more (blue) or less (red) than average the target earns over the whole future after this action in this state. "
        f"Empty cells: the log says nothing.{shown}",
        f"The highest value is {table.values[best]:.3g}, {table.actions[best[1]]} at {_state(table, int(best[0]))}; the lowest "
        f"is {table.values[worst]:.3g}, {table.actions[worst[1]]} at {_state(table, int(worst[0]))}.",
        made,
    )


def _state(table: "StateTable", row: int) -> str:
    return ", ".join(f"{name} {entry}" for name, entry in zip(table.columns, table.states[row]))


def _natural(entry: Any) -> tuple[int, Any]:
    """Numbers in their order, other labels by their text."""
    return (0, entry) if isinstance(entry, int | float) else (1, str(entry))


def _grid(table: "StateTable", levels: list[list[Any]]) -> Any:
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
        image = axes.pcolormesh(cells, cmap=DIVERGING, vmin=-most, vmax=most, edgecolors="none")
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


def _rows(table: "StateTable") -> Any:
    """A row per state, a column per action."""
    often = np.sort(np.argsort(-table.share, kind="stable")[:_MOST_STATES])
    count = min(len(table.actions), _MOST_ACTIONS)
    names = [label(", ".join(map(str, table.states[k])), 22) for k in often]
    made = figure(NARROW, 1.1 + max(0.26, 0.19 * max(name.count("\n") + 1 for name in names)) * len(often))
    axes = made.subplots()
    most = _limits(table.values)
    image = axes.pcolormesh(table.values[often, :count], cmap=DIVERGING, vmin=-most, vmax=most)
    axes.set_yticks(np.arange(len(often)) + 0.5, names)
    axes.invert_yaxis()
    axes.set_xticks(np.arange(count) + 0.5, [label(entry, 10) for entry in table.actions[:count]])
    axes.set_xlabel("action")
    axes.set_ylabel(label(", ".join(table.columns), 30))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    made.colorbar(image, ax=axes, label="value", fraction=0.05, pad=0.02).outline.set_visible(False)
    return made


def along_values(evaluation: "Evaluation", along: tuple["Along", ...]) -> Picture:
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
        "How much more or less than average the target earns over the whole future from states with this entry: the mean, and "
        "the range of 80 % of the rows. The columns that tell most about the value come first.",
        f"Column {first.column} tells most: its bins explain {percent(first.explains)} of the variance of the value, from "
        f"{first.value.min():.3g} to {first.value.max():.3g}.",
        made,
    )


def gains(evaluation: "Evaluation", places: tuple["Place", ...]) -> Picture:
    chosen = extremes(places)
    with drawing():
        made = figure(NARROW, 1.0 + 0.5 * len(chosen))
        axes = made.subplots()
        gains = [place.gain for place in chosen]
        axes.barh(range(len(chosen)), gains, color=[DIFFERENCE if gain >= 0 else LOSS for gain in gains], height=0.7)
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_yticks(range(len(chosen)), [label(place.where, 24) for place in chosen], fontsize=10)
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"contribution to the difference,\n{per(evaluation)}")
        axes.locator_params(axis="x", nbins=5)
        clean(axes, grid="x", left=False)
    best, worst = places[0], places[-1]
    share = f"{best.gain:+.2g}, {share_text(best.share)} of the log's rows"
    gained = f"Most gained at {best.where} ({share})" if best.gain > 0 else "Nothing is gained anywhere"
    losing = f"; most lost at {worst.where} ({worst.gain:+.2g})" if worst.gain < 0 else ""
    return Picture(
        "gains",
        "Where the target gains and loses",
        "Where the target acts otherwise than the log did, and what that adds to the difference between the two rates.",
        f"{gained}{losing}.",
        made,
    )


def extremes(places: tuple["Place", ...]) -> list["Place"]:
    """The largest gains and the largest losses, in order."""
    gains = [place for place in places if place.gain > 0][:_MOST_PLACES]
    losses = [place for place in places if place.gain < 0][-_MOST_PLACES:]
    return [*gains, *losses] or list(places[:_MOST_PLACES])
