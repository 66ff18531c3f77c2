"""A sweep as a picture and as a fragment for notebooks: learning curves, and the last rates of its settings.

Means and standard deviations over seeds for display are all that is computed here.
"""

import base64
import html
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cesaro.checks import Array
from cesaro.learning.result import Sweep
from cesaro.report.style import figure as new_figure
from cesaro.text import visible

# Okabe and Ito's colors, which color-blind readers can tell apart; line styles tell them apart in print.
_LOOKS: tuple[tuple[str, Any], ...] = (
    ("#0072B2", "-"),
    ("#D55E00", (0, (5, 1.5))),
    ("#009E73", (0, (1.2, 1.2))),
    ("#CC79A7", (0, (6, 1.5, 1.2, 1.5))),
    ("#000000", (0, (3, 1))),
)
_FRONT, _ROWS = len(_LOOKS), 12
_GRAY = "#8a8a8a"
_NAME, _LABEL = 60, 72  # characters
# Written out for every cell, since notebooks differ in what they do to tables; the gray suits light and dark pages.
_CELL = "padding:0.25em 0.8em;vertical-align:baseline;white-space:nowrap;border:none;border-bottom:1px solid #8886"
_TABLE = "border-collapse:collapse;table-layout:auto;margin:0.5em 0;font-variant-numeric:tabular-nums"
_ALONE = "Every setting diverged, so that no curve is drawn; take smaller step sizes."


def plot_sweep(sweep: Sweep, truth: float | None, front: Sequence[int] | None, axes: Axes | None) -> Figure:
    """Learning curves, mean over seeds with a band; see `Sweep.plot`, which checks the arguments."""
    if axes is None:
        figure: Any = new_figure(7.5, 4.6)
        axes = figure.subplots()
    else:
        figure = axes.get_figure(root=True)
    with np.errstate(all="ignore"):  # runs that diverged
        _draw(sweep, truth, front, axes)
    assert isinstance(figure, Figure)
    return figure


def _draw(sweep: Sweep, truth: float | None, front: Sequence[int] | None, axes: Axes) -> None:
    values = sweep.reward_rate if truth is None else np.abs(sweep.reward_rate - truth)
    means, spreads = values.mean(axis=1), values.std(axis=1)
    drawn = _drawn(sweep)
    chosen = _in_front(sweep, truth) if front is None else list(dict.fromkeys(front))
    others = [index for index in drawn if index not in set(chosen)]
    for index in others:
        _line(axes, sweep, means[index], color=_GRAY, linewidth=0.6, alpha=0.45, zorder=1, markersize=3)
    handles, labels = [], []
    floor = _floor(means[chosen])
    for place, index in enumerate(chosen):
        color, style = _LOOKS[place % _FRONT]
        if len(sweep.seeds) > 1:
            low, high = means[index] - spreads[index], means[index] + spreads[index]
            low = low if truth is None else np.maximum(low, floor)
            _band(axes, sweep, low, high, color)
        line = _line(axes, sweep, means[index], color=color, linestyle=style, linewidth=1.6, zorder=3, markersize=5)
        handles.append(line)
        labels.append(setting_label(sweep, index) + " (diverged)" * bool(sweep.diverged[index]))
    _frame(axes, means[chosen], spreads[chosen] if len(sweep.seeds) > 1 else 0 * spreads[chosen], truth)
    axes.set_xlim(0, 1.02 * float(sweep.samples[-1]))
    if handles:
        # A label that begins with an underscore would be left out of the legend.
        legend = axes.legend(
            handles,
            [f" {label}" if label.startswith("_") else label for label in labels],
            fontsize=8,
            framealpha=0.85,
            title="the best settings first" if truth is not None and front is None and len(chosen) > 1 else None,
            title_fontsize=8,
            loc="upper left" if len(sweep.samples) == 1 else "best",
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
    if not np.isfinite(means[[*others, *chosen]]).any():
        alone = _ALONE if sweep.diverged.all() else "No finite rate to draw."
        axes.text(0.5, 0.5, alone, transform=axes.transAxes, ha="center", va="center", fontsize=10, wrap=True)
        axes.set_yticks([])
    remarks = textwrap.fill(_remarks(sweep, chosen, others, spread=truth is None and front is None), 96)
    axes.set_xlabel(f"samples consumed\n{remarks}", fontsize=9, parse_math=False)
    axes.set_ylabel("reward rate" if truth is None else f"|reward rate − {truth:.6g}|", parse_math=False)
    axes.set_title(_short(sweep.method), fontsize=11, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(linewidth=0.4, alpha=0.5)


def _line(axes: Axes, sweep: Sweep, curve: Array, **looks: Any) -> Any:
    """A single record has no line, so that it gets a dot."""
    return axes.plot(sweep.samples, curve, marker="o" if len(sweep.samples) == 1 else "", **looks)[0]


def _band(axes: Axes, sweep: Sweep, low: Array, high: Array, color: str) -> None:
    if len(sweep.samples) == 1:
        axes.vlines(sweep.samples, low, high, color=color, linewidth=1.2, zorder=2)
    else:
        axes.fill_between(sweep.samples, low, high, color=color, alpha=0.12, linewidth=0, zorder=2)


def _floor(means: Array) -> float:
    """The lowest error that a logarithmic axis shows: below all curves, since a band may reach zero."""
    good = means[np.isfinite(means) & (means > 0)]
    return float(good.min()) / 3 if good.size else 0.0


def _frame(axes: Axes, means: Array, spreads: Array, truth: float | None) -> None:
    """The axes fit the curves in front; a gray one that runs away does not squeeze them."""
    ends = np.concatenate([means - spreads, means + spreads])
    finite = ends[np.isfinite(ends)]
    if not finite.size:
        return
    bottom, top = float(finite.min()), float(finite.max())
    if truth is None:
        margin = 0.06 * (top - bottom) or 0.1 * abs(top) or 1.0
        axes.set_ylim(bottom - margin, top + margin)
    elif _floor(means) > 0:
        axes.set_yscale("log", nonpositive="mask")
        axes.set_ylim(_floor(means), 1.3 * top)


def _drawn(sweep: Sweep) -> list[int]:
    """Settings of which every run went on to the end."""
    return [int(index) for index in np.flatnonzero(~sweep.diverged)]


def _last(sweep: Sweep) -> Array:
    return np.asarray(sweep.reward_rate[:, :, -1].mean(axis=1))


def _in_front(sweep: Sweep, truth: float | None) -> list[int]:
    """The best by the truth; without it there is no best, and those that are spread over the range of answers stand for all."""
    drawn = _drawn(sweep)
    if truth is not None:
        errors = sweep.final_error(truth)
        return sorted(drawn, key=lambda index: (np.isnan(errors[index]), errors[index]))[:_FRONT]
    if len(drawn) <= _FRONT:
        return drawn
    last = _last(sweep)
    ranked = sorted(drawn, key=lambda index: (np.isnan(last[index]), last[index]))
    # Neither end of the ranking, where settings that did not move, or moved too much, have their place.
    places = np.unique(np.linspace(1, len(ranked) - 2, _FRONT).round().astype(int))
    return [ranked[place] for place in places]


def _remarks(sweep: Sweep, chosen: Sequence[int], others: Sequence[int], *, spread: bool) -> str:
    """Remarks on what the picture shows and leaves out."""
    seeds = len(sweep.seeds)
    remarks = [f"mean of {seeds} seeds ± 1 standard deviation" if seeds > 1 else "one seed"]
    if others:
        picked = f", {len(chosen)} in color are spread over the last mean rates" if spread else ""
        remarks.append(f"gray: {len(others)} other setting{'s' * (len(others) > 1)}{picked}")
    gone = {int(index) for index in np.flatnonzero(sweep.diverged)}
    if gone:
        hidden = len(gone - set(chosen))
        drawn = "not drawn" if hidden == len(gone) else f"{hidden} not drawn" if hidden else "drawn up to there"
        remarks.append(f"{len(gone)} of {len(sweep.settings)} settings diverged in some run: {drawn}")
    return "; ".join(remarks)


def setting_label(sweep: Sweep, index: int) -> str:
    """The numbers of a setting that differ between settings, or all of them where none does."""
    setting = sweep.settings[index]
    swept = [name for name in setting if any(other.get(name) != setting[name] for other in sweep.settings)]
    text = ", ".join(f"{visible(str(name))} = {_number(setting[name])}" for name in swept or setting)
    return textwrap.shorten(text, _LABEL, placeholder=" …") or f"setting {index}"


def _number(value: Any) -> str:
    try:
        return f"{value:.6g}"
    except (TypeError, ValueError):
        return visible(str(value))


def _short(name: Any) -> str:
    text = visible(str(name))
    return text if len(text) <= _NAME else f"{text[: _NAME - 1]}…"


def sweep_html(sweep: Sweep) -> str:
    """One line, a table of settings and the picture, in colors that suit light and dark pages."""
    runs, gone = sweep.diverged_at.size, int((sweep.diverged_at >= 0).sum())
    count, seeds = len(sweep.settings), len(sweep.seeds)
    what = (
        f"{count} setting{'s' * (count > 1)} × {seeds} seed{'s' * (seeds > 1)}, {int(sweep.samples[-1]):,} samples each, "
        f"{gone} of {runs} runs diverged"
    )
    rows = _rows(sweep)
    names = ("setting", "mean final rate", "sd over seeds", "diverged runs")
    head = "".join(_cell(name, "th", "col", left=place == 0) for place, name in enumerate(names))
    body = "".join(_row(sweep, index) for index in rows)
    rest = count - len(rows)
    left = f'<p style="margin:0.3em 0">{rest:,} more settings; to_frame() has all.</p>' if rest else ""
    picture: Any = plot_sweep(sweep, None, None, None)
    data = base64.b64encode(picture._repr_png_()).decode("ascii")
    alt = _text(f"Learning curves of {_short(sweep.method)}: reward rate against samples consumed.")
    return (
        f'<div><p style="margin:0.3em 0"><strong>Sweep of {_text(_short(sweep.method))}</strong>: {_text(what)}</p>'
        f'<div style="overflow-x:auto"><table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f"{left}"
        f'<img alt="{alt}" style="max-width:100%;height:auto;background:#fff" src="data:image/png;base64,{data}"></div>'
    )


def _rows(sweep: Sweep) -> list[int]:
    """All settings, or some of them from the first to the last."""
    count = len(sweep.settings)
    if count <= _ROWS:
        return list(range(count))
    return [round(place) for place in np.linspace(0, count - 1, _ROWS)]


def _row(sweep: Sweep, index: int) -> str:
    """Mean and spread are those of the runs that did not diverge."""
    alive = sweep.reward_rate[index, sweep.diverged_at[index] < 0, -1]
    with np.errstate(all="ignore"):
        shown = [f"{alive.mean():.6g}", f"{alive.std():.2g}" if len(alive) > 1 else "–"] if len(alive) else ["–", "–"]
    gone = sweep.diverged_at.shape[1] - len(alive)
    cells = "".join(_cell(cell, "td") for cell in (*shown, str(gone)))
    return f"<tr>{_cell(setting_label(sweep, index), 'th', 'row', left=True)}{cells}</tr>"


def _cell(text: str, tag: str, scope: str = "", *, left: bool = False) -> str:
    """A header stands over its cells: both are aligned alike and have the same padding."""
    of = f' scope="{scope}"' if scope else ""
    weight = "bold" if scope == "col" else "normal"
    style = f"text-align:{'left' if left else 'right'};font-weight:{weight};{_CELL}"
    return f'<{tag}{of} style="{style}">{_text(text)}</{tag}>'


def _text(text: str) -> str:
    return html.escape(text, quote=True)
