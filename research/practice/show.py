"""The practice study in numbers and in a picture: CSV files, what is printed, the verdict, and the figure."""

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.reproduce import looks, study
from research.practice.held import SHARES
from research.practice.logs import Subject
from research.practice.methods import methods
from research.practice.run import CLEAR, MOVES, NEAR, Estimate, PracticeResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

# Closed forms in one color, networks in others.
_CLOSED, _NETWORKS = looks.BLUE, (looks.RED, looks.ORANGE, looks.GREEN, looks.PURPLE)
# Axes reach as far beyond truth and logged rate as these are apart; what is outside gets an arrow at the edge.
_MARGIN = 1.0


def files(result: PracticeResult) -> study.Files:
    """The writers of the files that hold the results, but for the manifest."""
    return {
        "practice.csv": partial(write_estimates, result),
        "seeds.csv": partial(write_seeds, result),
        "methods.csv": partial(write_methods, result),
        **({"held.csv": partial(write_held, result)} if result.held else {}),
        "practice.png": study.picture(plot, result),
    }


def write_estimates(result: PracticeResult, file: Path) -> None:
    """A row per log and method; relative errors are nan where the gap is no yardstick."""
    names = ["env", "sigma", "rows", "method", "truth", "truth_standard_error", "behavior", "is_clear", "seeds"]
    names += ["answered", "median", "low", "high", "error", "relative_error", "offline", "moved", "note"]
    rows = []
    for e in result.estimates:
        truth = e.truth
        known = [truth.rows, e.method.label, truth.rate, truth.standard_error, truth.behavior, int(truth.is_clear)]
        relative = e.relative_error if truth.is_clear else math.nan
        found = [len(e.rates), int(np.isfinite(e.rates).sum()), e.value, e.low, e.high, e.error, relative]
        rows.append([e.subject.env, e.subject.sigma, *known, *found, e.offline, e.moved, e.note])
    study.write_csv(file, names, rows)


def write_seeds(result: PracticeResult, file: Path) -> None:
    """A row per log, method and seed."""
    rows = [
        [e.subject.env, e.subject.sigma, e.method.label, seed, float(rate), float(rate) - e.truth.rate]
        for e in result.estimates
        for seed, rate in enumerate(e.rates)
    ]
    study.write_csv(file, ["env", "sigma", "method", "seed", "estimate", "error"], rows)


def write_methods(result: PracticeResult, file: Path) -> None:
    """A row per method over the logs; "seconds" is the only number of the study that differs between reruns."""
    names = ["method", "mean_relative_error", "median_relative_error", "worst_relative_error", "answered", "logs"]
    names += ["nearest", "not_nearer_than_behavior", "spread", "near_behavior", "still_moving", "seconds"]
    study.write_csv(file, names, ([method.label, *score] for method, score in result.scores.items()))


def write_held(result: PracticeResult, file: Path) -> None:
    """A row per log and held rate."""
    rows = [
        [subject.env, subject.sigma, share, truth.behavior + share * truth.gap, *residuals]
        for subject, found in result.held.items()
        for truth in (result.truths[subject],)
        for share, residuals in zip(SHARES, found.tolist())
    ]
    study.write_csv(file, ["env", "sigma", "share", "held_rate", "residual", "held_out_residual"], rows)


def print_tables(result: PracticeResult, console: "Console") -> None:
    """Estimates by environment, then methods over all logs."""
    config = result.config
    for env in config.envs:
        own = [subject for subject in result.truths if subject.env == env]
        if not own:
            continue
        rows = max(result.truths[subject].rows for subject in own)
        table = study.plain_table(f"{env}, {rows:,} rows, by noise: median over seeds, least … largest")
        table.add_column("", no_wrap=True)
        for subject in own:
            table.add_column(f"{subject.sigma:g}", justify="right")  # wraps where a terminal is narrow
        table.add_row("true rate", *(_plain(result.truths[subject].rate) for subject in own))
        table.add_row("mean logged reward", *(_plain(result.truths[subject].behavior) for subject in own))
        for method in methods(config):
            table.add_row(method.label, *(_range(result.estimate(subject, method)) for subject in own))
        console.print(table, "", markup=False)

    if result.held:
        table = study.plain_table("Least mean squared TD error with the rate held, over var R: trained on (held out)")
        table.add_column("log", no_wrap=True)
        for share in SHARES:
            name = {0.0: "logged mean", 1.0: "truth"}.get(share, f"{share:g} of the way")
            table.add_column(name, justify="right")
        for subject, found in result.held.items():
            table.add_row(subject.label, *(f"{seen:.4f} ({unseen:.4f})" for seen, unseen in found.tolist()))
        console.print(table, "", markup=False)

    if not result.clear:
        return
    title = f"Over {_logs(len(result.clear))}, |error| and span of seeds in gaps |truth − mean logged|"
    table = study.plain_table(title)
    table.add_column("method", no_wrap=True)
    for name in ("mean", "median", "worst", "span", "nearest", "no gain", "s per log"):
        table.add_column(name, justify="right", no_wrap=True)
    for method, score in result.scores.items():
        errors = [_plain(value) for value in (score.mean, score.median, score.worst, score.spread)]
        table.add_row(method.label, *errors, str(score.nearest), str(score.beaten), f"{score.seconds:.1f}")
    console.print(table, "", markup=False)


def verdict(result: PracticeResult) -> list[str]:
    """Sentences that say what was found."""
    clear, logs = result.clear, len(result.truths)
    lines = []
    if len(clear) < logs:
        rest = ", ".join(subject.label for subject in result.truths if subject not in clear)
        lines.append(
            f"Without a yardstick, as truth and behavior are within {CLEAR:g} standard errors: {rest}; no score counts them."
        )
    if not clear:
        return lines
    return [*lines, _order(result), _counts(result), _behavior(result), *_moving(result), *_refused(result)]


def _order(result: PracticeResult) -> str:
    ranked = sorted((s.mean, m.label) for m, s in result.scores.items() if s.answered == s.logs)
    parts = [f"{label} {mean:.2f}" for mean, label in ranked]
    if not parts:
        return "No method answered on every log."
    return f"Mean |estimate − truth| / |behavior − truth| (1 = the mean logged reward): {', '.join(parts)}."


def _counts(result: PracticeResult) -> str:
    scores = sorted(result.scores.items(), key=lambda item: -item[1].nearest)
    parts = [f"{method.label} {score.nearest}" for method, score in scores if score.nearest]
    return f"Nearest to the truth, of {_logs(len(result.clear))}: {', '.join(parts) or 'none'}."


def _behavior(result: PracticeResult) -> str:
    """Does Diff-GQ1 stay near the behavior's rate?"""
    own = [e.closed for e in result.gq1 if math.isfinite(e.closed)]
    if not own:
        return "Neural Diff-GQ1 gave no answer."
    near = sum(abs(share) <= NEAR for share in own)
    said = "stays" if near > len(own) / 2 else "does NOT stay"
    return (
        f"Neural Diff-GQ1 {said} near the mean logged reward: within {100 * NEAR:g} % of the gap on {near} of {_logs(len(own))}; "
        f"it closes {100 * float(np.median(own)):.0f} % of the gap (median)."
    )


def _moving(result: PracticeResult) -> list[str]:
    parts = [f"{m.label} on {s.moving} of {_logs(s.logs)}" for m, s in result.scores.items() if s.moving]
    if not parts:
        return []
    rule = f"some seed's rate moved by more than {100 * MOVES:g} % of the gap in its last quarter"
    return [f"NOT settled ({rule}): {', '.join(parts)}."]


def _refused(result: PracticeResult) -> list[str]:
    parts = []
    for e in result.estimates:
        lost = int((~np.isfinite(e.rates)).sum())
        if lost:
            why = f": {e.note.rstrip('.')}" if e.note else ""
            parts.append(f"{e.method.label} on {e.subject.label} ({lost} of {len(e.rates)} seeds{why})")
    return [f"Without an answer: {'; '.join(parts)}."] if parts else []


def _range(e: Estimate) -> str:
    if not math.isfinite(e.value):
        return "-"
    return _plain(e.value) if len(e.rates) == 1 else f"{e.value:.2f}, {e.low:.2f} … {e.high:.2f}"


def _logs(count: int) -> str:
    return "1 log" if count == 1 else f"{count} logs"


def _plain(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "-"


def plot(result: PracticeResult) -> "Figure":
    """A panel per log: a row per method, a dot per seed, a bar from the least to the largest, a mark at the median."""
    config, chosen = result.config, methods(result.config)
    rows = [[s for s in result.truths if s.env == env] for env in config.envs]
    rows = [row for row in rows if row]
    columns = max(len(row) for row in rows)
    figure = looks.blank(2.6 + 2.9 * columns, 0.9 + (0.7 + 0.2 * len(chosen)) * len(rows))
    panels = figure.subplots(len(rows), columns, sharey=True, squeeze=False)
    for row, line in zip(rows, panels):
        for panel in line[len(row) :]:
            panel.set_visible(False)
        for subject, panel in zip(row, line):
            _draw(panel, result, subject)
    panels[0][0].set_yticks(range(len(chosen)), [method.label for method in chosen])
    panels[0][0].set_ylim(len(chosen) - 0.5, -0.5)
    for line in panels:
        line[0].tick_params(axis="y", labelsize=8)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    return figure


def _draw(panel: Any, result: PracticeResult, subject: Subject) -> None:
    truth, chosen = result.truths[subject], methods(result.config)
    low, high = sorted((truth.rate, truth.behavior))
    margin = _MARGIN * max(high - low, 1e-3)
    low, high = low - margin, high + margin
    for band in range(0, len(chosen), 2):
        panel.axhspan(band - 0.5, band + 0.5, color="0.95", zorder=0)
    panel.axvline(truth.rate, color="black", linewidth=1.4, zorder=2, label="true rate of the target")
    panel.axvline(truth.behavior, color="0.35", linewidth=1.1, linestyle=":", zorder=1, label="mean logged reward")
    for i, method in enumerate(chosen):
        color = _CLOSED if method.name in result.config.maps else _NETWORKS[(i - len(result.config.maps)) % 4]
        found = result.estimate(subject, method)
        values = found.rates[np.isfinite(found.rates)]
        look = {"color": color, "zorder": 4, "clip_on": False}
        if not len(values):
            panel.annotate(
                "no answer", (0.5, i), xycoords=("axes fraction", "data"), fontsize=6, va="center", ha="center"
            )
            continue
        inside = values[(low <= values) & (values <= high)]
        panel.plot(np.clip([found.low, found.high], low, high), [i, i], linewidth=1.2, alpha=0.6, **look)
        panel.scatter(inside, np.full(len(inside), i), s=14, linewidths=0, alpha=0.7, **look)
        if low <= found.value <= high:
            panel.scatter([found.value], [i], s=60, marker="|", linewidths=1.8, **look)
        for outside, edge, arrow in ((values < low, low, "<"), (values > high, high, ">")):
            if outside.any():
                panel.scatter([edge], [i], s=22, marker=arrow, linewidths=0, **look)
    panel.scatter([], [], s=14, linewidths=0, color="0.35", label="a seed (arrow: beyond the axis)")
    panel.scatter([], [], s=60, marker="|", linewidths=1.8, color="0.35", label="median over seeds")
    panel.set_xlim(low, high)
    panel.set_title(f"{subject.env}, noise {subject.sigma:g}", fontsize=9)
    panel.tick_params(axis="x", labelsize=8)
    panel.tick_params(axis="y", length=0)
    panel.spines[["top", "right"]].set_visible(False)
