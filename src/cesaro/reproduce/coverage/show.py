"""Coverage in numbers and in a picture: CSV files, what is printed, the verdict, and the figure."""

import math
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cesaro.reproduce import looks, study
from cesaro.reproduce.coverage import systems
from cesaro.reproduce.coverage.config import (
    CONFIDENCE,
    PROMISED,
    PROMISED_LENGTH,
    PROMISED_LIMIT,
    PROMISED_LOGS,
    PROMISED_TRUTH,
)
from cesaro.reproduce.coverage.run import CHAINS, CONTRAST, RULES, SERIES, CoverageCell, CoverageResult, rows
from cesaro.reproduce.looks import BLUE, GREEN, RED

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

# Series in the order of the tables: what intervals are for.
LABELS = {
    ("one-hot", "rate"): "one-hot: rate",
    ("one-hot", "difference"): "one-hot: two targets",
    ("one-hot", "gain"): "one-hot: target - log",
    ("misfit", "rate"): "misfit: rate",
    ("misfit", "difference"): "misfit: two targets",
    ("misfit", "gain"): "misfit: target - log",
    ("ridge", "rate"): "ridge: rate",
    ("ridge", "difference"): "ridge: two targets",
    ("ridge", "gain"): "ridge: target - log",
    ("none", "behavior"): "what the log earned",
}
RULE_LABELS = {
    "default": "default rule",
    "batches": "20 batch means",
    "independent": "independent rows",
}
METHOD_LABELS = {
    "default": "default",
    "doubled": "doubled dual",
    "polynomial": "polynomial:2",
}
# Open marks of the shorter logs.
_SHORTER = ("D", "o", "s", "v")


def files(result: CoverageResult) -> study.Files:
    """The writers of the files that hold the results, but for the manifest."""
    return {
        "coverage.csv": partial(write_cells, result),
        "series.csv": partial(write_series, result),
        "systems.csv": partial(write_systems, result),
        "coverage.png": study.picture(plot, result),
        "systems.png": study.picture(plot_systems, result.systems),
    }


def write_cells(result: CoverageResult, file: Path) -> None:
    """A row per chain, number of trajectories, length and series: coverage, half widths, bias and spread."""
    names = ["chain", "trajectories", "length", "rows", "features", "quantity", "logs", "answered"]
    names += [f"coverage_{rule}" for rule in RULES] + [f"half_width_{rule}" for rule in RULES]
    names += ["bias", "deviation", "deviation_in_the_limit"]
    rows = []
    for cell in result.cells:
        limit = result.problems[cell.chain].deviations[cell.features, cell.quantity] / cell.rows**0.5
        shares = [by_rule[rule] for by_rule in (cell.coverage, cell.half_width) for rule in RULES]
        rows.append([*cell[:6], result.config.logs, cell.answered, *shares, cell.bias, cell.deviation, limit])
    study.write_csv(file, names, rows)


def write_series(result: CoverageResult, file: Path) -> None:
    """A row per chain and series: what is known exactly."""
    names = [
        "chain",
        "features",
        "quantity",
        "truth",
        "without_misfit",
        "autocorrelation_time",
        "deviation_per_root_row",
    ]
    rows = []
    for chain, problem in result.problems.items():
        one, other = problem.rates
        logged = problem.truths["none", "behavior"]
        without = {"rate": one, "difference": one - other, "gain": one - logged, "behavior": logged}
        for key in SERIES:
            known = [problem.truths[key], without[key[1]], problem.times[key], problem.deviations[key]]
            rows.append([chain, *key, *known])
    study.write_csv(file, names, rows)


def write_systems(result: CoverageResult, file: Path) -> None:
    """A row per system, number of rows and method: coverage of limit and truth, bias, width, score and verdicts."""
    study.write_csv(file, systems.SystemCell._fields, result.systems.cells)


def print_tables(result: CoverageResult, console: "Console") -> None:
    """Coverage of the longest logs by rule, then the range for every length."""
    config, last = result.config, result.config.lengths[-1]
    kinds = [(chain, trajectories) for chain in CHAINS for trajectories in config.trajectories]
    heads = [f"{chain}\n{_trajectories(trajectories)}" for chain, trajectories in kinds]
    for rule in RULES:
        title = f"Coverage in %, nominal 95, {last} autocorrelation times: {RULE_LABELS[rule]}"
        table = study.plain_table(title, "interval for", right=heads)
        found = {cell[:2] + cell[4:6]: cell.coverage[rule] for cell in result.promised}
        for key, label in LABELS.items():
            table.add_row(label, *(f"{100 * found[(*kind, *key)]:.1f}" for kind in kinds))
        console.print(table, "", markup=False)
    title = "Lowest and highest coverage in %, default rule, by autocorrelation times"
    table = study.plain_table(title, right=["length", *heads])
    for length in config.lengths:
        by_kind = ([cell for cell in result.cells_at(length) if cell[:2] == kind] for kind in kinds)
        table.add_row(str(length), *(_span(cells, "default") for cells in by_kind))
    console.print(table, "", markup=False)
    _print_systems(result.systems, console)


def _print_systems(found: systems.SystemsResult, console: "Console") -> None:
    """Tables by rows and method, over judged systems and over those that the default was chosen on."""
    for is_judged in (True, False):
        kind = "judged systems" if is_judged else "systems of the choice"
        table = study.plain_table(f"States with numbers, {kind}: coverage in %, the rest in gaps", right=["rows"])
        table.add_column("method", no_wrap=True)
        for name in ("limit", "truth", "fits", "bias", "half", "score", "ok", "ok, misses"):
            table.add_column(name, justify="right", no_wrap=True)
        for count in found.config.rows:
            for method in systems.METHODS:
                over = systems.over(found.over(method, is_judged=is_judged, rows=count))
                shares = [_percent(over[key]) for key in ("covers_limit", "covers", "covers_expressible")]
                numbers = [
                    f"{over[key]:+.2f}" if key == "bias" else f"{over[key]:.2f}"
                    for key in ("bias", "half_width", "score")
                ]
                said = [_percent(over[key]) for key in ("ok", "ok_misses")]
                table.add_row(f"{count:,}", METHOD_LABELS[method], *shares, *numbers, *said)
        console.print(table, "", markup=False)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}" if math.isfinite(share) else ""


def verdict(result: CoverageResult) -> list[str]:
    """Sentences that say what holds."""
    config, last = result.config, result.config.lengths[-1]
    low, high = PROMISED
    found = (
        f"default intervals cover {_span(result.promised, 'default')} % of {config.logs:,} logs in {len(result.promised)} cells "
        f"at {last} autocorrelation times"
    )
    promise = f"promised: {100 * low:g} to {100 * high:g} %"
    if not config.is_full:
        full = f"only for {PROMISED_LOGS:,} logs of {PROMISED_LENGTH} autocorrelation times or more"
        lines = [f"No verdict: {found} ({promise}, but {full})."]
    elif result.outside:
        cells = "; ".join(f"{_words(cell)} {100 * cell.coverage['default']:.1f} %" for cell in result.outside)
        lines = [f"NOT as promised: {found}, {len(result.outside)} of them outside ({promise}): {cells}."]
    else:
        lines = [f"As promised, {found} ({promise})."]
    contrast = (
        f"independent rows cover {_span(result.contrast, 'independent')} % on the sticky chain with misfit features"
    )
    if result.is_telling:
        lines.append(f"The study can tell formulas apart: {contrast}.")
    else:
        lines.append(f"The study proves NOTHING: {contrast}, and not below {100 * CONTRAST:g} % everywhere.")
    lines.append(_on_systems(result.systems))
    refused = [cell for cell in result.cells if cell.answered < 1]
    if refused:
        most = min(refused, key=lambda cell: cell.answered)
        lines.append(
            f"Refused, because the log does not identify the rate, and counted as not covered: at most "
            f"{100 * (1 - most.answered):.1f} % of logs ({_words(most)}, {most.rows} rows); longest logs: "
            f"{100 * (1 - min(cell.answered for cell in result.promised)):.1f} %."
        )
    return lines


def _on_systems(found: systems.SystemsResult) -> str:
    default, *others = (systems.over(found.over(method, is_judged=True)) for method in systems.METHODS)
    scores = ", ".join(
        f"{METHOD_LABELS[name]} {other['score']:.2f}" for name, other in zip(systems.METHODS[1:], others)
    )
    said = (
        f"on judged systems with numbers the default's intervals hold their limit in {_percent(default['covers_limit'])} % and "
        f"the truth in {_percent(default['covers'])} % of logs ({_percent(default['covers_expressible'])} % where polynomials "
        f"hold the values), interval score {default['score']:.2f} ({scores}); {_percent(default['ok'])} % are ok, of which "
        f"{_percent(default['ok_misses'])} % miss"
    )
    promise = f"promised: limit {100 * PROMISED_LIMIT:g} %, truth where it can be held {100 * PROMISED_TRUTH:g} %, least score"
    if not found.config.has_systems:
        return f"No verdict: {said} ({promise}, but only for the full study)."
    return f"{'As promised' if found.is_as_promised else 'NOT as promised'}, {said} ({promise})."


def _span(cells: Iterable[CoverageCell], rule: str) -> str:
    shares = [100 * cell.coverage[rule] for cell in cells]
    return f"{min(shares):.1f}-{max(shares):.1f}"


def _trajectories(count: int) -> str:
    return "1 long" if count == 1 else f"{count} short"


def _words(cell: CoverageCell) -> str:
    return f"{LABELS[cell.features, cell.quantity]}, {cell.chain}, {_trajectories(cell.trajectories)}"


def plot(result: CoverageResult) -> "Figure":
    """Coverage of every interval: a panel per chain and number of trajectories, a line per series."""
    trajectories = result.config.trajectories
    figure = looks.blank(13, 7.6)
    panels = figure.subplots(len(CHAINS), len(trajectories), sharex=True, sharey=True, squeeze=False)
    for chain, row in zip(CHAINS, panels):
        for count, panel in zip(trajectories, row):
            _draw(panel, result, chain, count)
    panels[0, 0].set_yticks(range(len(LABELS)), [label.replace(" - ", " − ") for label in LABELS.values()])
    panels[0, 0].invert_yaxis()
    for panel in panels[-1]:
        panel.set_xlabel(f"% of {result.config.logs:,} logs whose interval holds the truth")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    figure.suptitle(
        "Lengths in autocorrelation times of the chain; filled marks: the longest logs", fontsize=9, color="0.35"
    )
    return figure


def _draw(panel: Any, result: CoverageResult, chain: str, trajectories: int) -> None:
    config, low, high = result.config, *(100 * share for share in PROMISED)
    panel.axvspan(low, high, color="0.87", zorder=0, label=f"promised: {low:g} to {high:g} %")
    panel.axvline(100 * CONFIDENCE, color="0.5", linewidth=0.8, zorder=1)
    own = [cell for cell in result.cells if (cell.chain, cell.trajectories) == (chain, trajectories)]
    at = {key: position for position, key in enumerate(LABELS)}
    for i, length in enumerate(config.lengths):
        cells = [cell for cell in own if cell.length == length]
        heights = [at[cell.features, cell.quantity] for cell in cells]
        is_last = i == len(config.lengths) - 1
        panel.scatter(
            [100 * cell.coverage["default"] for cell in cells],
            heights,
            s=34 if is_last else 16,
            linewidths=0.8,
            facecolors=BLUE if is_last else "white",
            edgecolors=BLUE,
            marker="o" if is_last else _SHORTER[i % len(_SHORTER)],
            zorder=4 + i,
            label=f"default rule, {length} times",
        )
        if is_last:
            for rule, color, marker in (("batches", GREEN, "^"), ("independent", RED, "x")):
                shares = [100 * cell.coverage[rule] for cell in cells]
                label = {"batches": "20 batch means", "independent": "independent rows"}[rule] + f", {length} times"
                panel.scatter(shares, heights, color=color, marker=marker, s=26, zorder=3, label=label)
    longest = rows(config, result.problems[chain])[-1]
    kind = "one trajectory" if trajectories == 1 else f"{trajectories} trajectories"
    panel.set_title(f"{chain} chain, {kind} ({longest:,} rows)", fontsize=11)
    looks.tidy(panel, axis="y", color="0.92")


def plot_systems(found: systems.SystemsResult) -> "Figure":
    """Coverage of the truth and interval scores: a panel each, a line per system, judged ones above."""
    figure = looks.blank(13, 6.4)
    rows = found.config.rows
    panels = figure.subplots(2, len(rows), sharey=True, sharex="row", squeeze=False)
    names = [*systems.JUDGED, *(s.name for s in systems.SYSTEMS if s.name not in systems.JUDGED)]
    styles = dict(zip(systems.METHODS, ((BLUE, "o"), (RED, "x"), (GREEN, "^"))))
    for column, count in enumerate(rows):
        for (title, key, scale), panel in zip(
            (("truth covered, %", "covers", 100), ("interval score", "score", 1)), panels[:, column]
        ):
            for method, (color, marker) in styles.items():
                cells = {cell.system: cell for cell in found.cells if (cell.rows, cell.method) == (count, method)}
                values = [scale * getattr(cells[name], key) for name in names]
                panel.scatter(
                    values, range(len(names)), color=color, marker=marker, s=30, zorder=3, label=METHOD_LABELS[method]
                )
            panel.axhline(len(systems.JUDGED) - 0.5, color="0.5", linewidth=0.8)
            panel.grid(axis="x", color="0.9")
            panel.set_xlabel(title)
            if key == "covers":
                panel.axvline(100 * CONFIDENCE, color="0.5", linewidth=0.8)
                panel.set_title(f"{count:,} rows", fontsize=10)
            else:
                panel.set_xscale("log")
    for row in panels:
        row[0].set_yticks(range(len(names)), names, fontsize=8)
    panels[0, 0].invert_yaxis()
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    return figure
