"""The stall study in numbers and in a picture: CSV files, what is printed, the verdict, and the figure."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.reproduce import looks, study
from research.stall.config import HELD, PROBLEMS, Key
from research.stall.exact import WAIT, Limits, Walk
from research.stall.networks import CURVES, METHODS, RECORDS, SHARES
from research.stall.run import StallResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

LABELS = {
    "diff-sgq": "Diff-SGQ",
    "diff-gq1": "Diff-GQ1",
    "diff-gq1-no-momentum": "Diff-GQ1, no momentum",
    "diff-gq1-fast-dual": "Diff-GQ1, fast dual",
    "residual": "exact dual",
    "held": "rate held",
}
_COLORS = dict(zip(METHODS, (looks.BLUE, looks.ORANGE, looks.GREEN, looks.PURPLE, looks.RED)))
_HELD_STYLES = {"many": (looks.RED, "o", "six action coordinates"), "one": (looks.GREEN, "s", "one action coordinate")}


def files(result: StallResult) -> study.Files:
    """The writers of the files that hold the results, but for the manifest."""
    return {
        "walks.csv": partial(write_walks, result),
        "noise.csv": partial(write_limits, result),
        "networks.csv": partial(write_trained, result),
        "stall.png": study.picture(plot, result),
    }


def write_walks(result: StallResult, file: Path) -> None:
    """A row per walk."""
    study.write_csv(file, Walk._fields, result.walks)


def write_limits(result: StallResult, file: Path) -> None:
    """A row per noise."""
    study.write_csv(file, Limits._fields, result.limits)


def write_trained(result: StallResult, file: Path) -> None:
    """A row per training and seed, at the end; "share" is r̂'s share of the way from the log's rate to the truth."""
    names = [
        *Key._fields,
        "run",
        "truth",
        "behavior",
        "reward_variance",
        "rate",
        "share",
        *CURVES,
        "closed_form",
        "force",
    ]
    rows = []
    for key, found in result.trained.items():
        problem = PROBLEMS[key.problem]
        for i, rates in enumerate(found.rates):
            share = (rates[-1] - problem.behavior_rate) / (problem.rate - problem.behavior_rate)
            known = [problem.rate, problem.behavior_rate, result.variances[key.problem]]
            ends = [float(value) for value in (rates[-1], share, *found.curves[i, -1])]
            rows.append([*key, i, *known, *ends, float(found.closed_form[i]), float(found.force[i])])
    study.write_csv(file, names, rows)


def print_tables(result: StallResult, console: "Console") -> None:
    """The walks, the noise, the networks, the rates held."""
    title = f"Walks: times per pair at step 1; share of the way after {WAIT:g} Diff-SGQ times"
    table = study.plain_table(title, right=("states", "gap", "SGQ time", "GQ1 time", "SGQ share", "GQ1 share"))
    for w in result.walks:
        times = f"{w.sgq_time:.4g}", f"{w.gq1_time:.4g}"
        table.add_row(str(w.states), f"{w.gap:.4f}", *times, f"{w.sgq_share:.2f}", f"{w.gq1_share:.2f}")
    console.print(table, "")
    names = ("noise", "log", "truth", "same features", "fits every row")
    table = study.plain_table("Noise, closed forms with the right features: rate by dual", right=names)
    for found in result.limits:
        values = found.behavior, found.truth, found.right_dual, found.free_dual
        table.add_row(f"{found.noise:g}", *(f"{value:.3f}" for value in values))
    console.print(table, "")
    title, words = (
        "Networks: share of the way (0 log, 1 truth); held-out TD error / var R",
        ("problem", "method", "start"),
    )
    table = study.plain_table(title, *words, "rows", right=("share", "error", "LSTD"))
    for key in result.of_methods:
        error = result.curve(key, "held_out_residual") / result.variances[key.problem]
        shown = f"{result.share(key):.2f}", f"{error:.3f}", f"{_closed_share(result, key):.2f}"
        table.add_row(key.problem, LABELS[key.method], key.start, str(key.rows), *shown)
    console.print(table, "")
    title = "Rate held at a share of the way: TD error in % of var R, training (held out)"
    table = study.plain_table(title, "problem", right=[f"{share:g}" for share in HELD])
    for name in dict.fromkeys(key.problem for key in result.trained if key.method == "held"):
        pairs = zip(result.held(name), result.held(name, "held_out_residual"))
        table.add_row(name, *(f"{100 * seen:.2f} ({100 * unseen:.2f})" for seen, unseen in pairs))
    console.print(table, "")


def verdict(result: StallResult) -> list[str]:
    """Sentences that say what was found, with the numbers they rest on."""
    sgq, gq1 = result.exponents
    free = max(result.limits, key=lambda found: found.noise)
    lines = [
        f"Slow: on walks the time grows as gap^{sgq:.2f} for Diff-SGQ and as gap^{gq1:.2f} for Diff-GQ1; both end at the truth.",
        f"Noise: at {free.noise:g} a dual that fits every row leads to {free.free_dual:.3f} and one with the right features to "
        f"{free.right_dual:.3f} (truth {free.truth:.3f}, log {free.behavior:.3f}).",
    ]
    here, there = (float(result.held("many")[HELD.index(share)]) for share in (0.0, 1.0))
    word = "does not tell" if result.is_flat else "tells"
    lines.append(
        f"Free: without noise the best TD error {word} the log's rate from the truth ({here:.2%} and {there:.2%} of var R)."
    )
    shares = ", ".join(
        f"{LABELS[key.method]} {result.share(key):.2f}"
        for key in result.of_methods
        if (key.problem, key.start) == ("many", "behavior")
    )
    return [*lines, f"Share of the way from the log's rate to the truth on that problem: {shares}."]


def _closed_share(result: StallResult, key: Key) -> float:
    problem = PROBLEMS[key.problem]
    found = float(result.trained[key].closed_form.mean())
    return (found - problem.behavior_rate) / (problem.rate - problem.behavior_rate)


def plot(result: StallResult) -> "Figure":
    """Times on walks; rates while training; the best TD error with the rate held; q between the two actions."""
    figure = looks.blank(11, 8.4)
    panels = figure.subplots(2, 2).ravel()
    for panel, draw in zip(panels, (_draw_walks, _draw_rates, _draw_held, _draw_lines)):
        draw(panel, result)
        looks.tidy(panel)
    return figure


def _draw_walks(panel: Any, result: StallResult) -> None:
    gaps = [found.gap for found in result.walks]
    for method, exponent, times in (
        ("diff-sgq", result.exponents[0], [found.sgq_time for found in result.walks]),
        ("diff-gq1", result.exponents[1], [found.gq1_time for found in result.walks]),
    ):
        label = f"{LABELS[method]}: gap to the power {exponent:.2f}"
        panel.plot(gaps, times, color=_COLORS[method], marker="o", label=label)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("spectral gap of the target's chain")
    panel.set_ylabel("time constant per pair, step size 1")
    panel.set_title("Slow: exact times on a walk", fontsize=11)
    panel.legend(frameon=False, fontsize=9)


def _draw_rates(panel: Any, result: StallResult) -> None:
    problem = PROBLEMS["many"]
    steps = result.config.steps * np.arange(1, RECORDS + 1) / RECORDS
    for method in METHODS:
        rates = result.trained[Key("many", method, "behavior", result.config.rows)].rates
        for i, row in enumerate(rates):
            panel.plot(steps, row, color=_COLORS[method], linewidth=1.6, label=None if i else LABELS[method])
    for value, name, style in ((problem.rate, "truth", "--"), (problem.behavior_rate, "log", ":")):
        panel.axhline(value, color="black", linewidth=0.9, linestyle=style, label=name)
    panel.set_xlabel("training steps")
    panel.set_ylabel("r̂")
    panel.set_title("Networks: r̂, started at the log's rate", fontsize=11)
    panel.legend(frameon=False, fontsize=9, ncols=2, loc="center right")


def _draw_held(panel: Any, result: StallResult) -> None:
    for name in dict.fromkeys(key.problem for key in result.trained if key.method == "held"):
        color, marker, label = _HELD_STYLES[name]
        panel.plot(HELD, result.held(name), color=color, marker=marker, label=label)
        panel.plot(HELD, result.held(name, "held_out_residual"), color=color, marker=marker, linestyle=":", mfc="white")
    panel.plot([], [], color="0.35", linestyle=":", marker="o", mfc="white", label="held-out rows")
    panel.set_yscale("log")
    panel.set_xticks(HELD, ["", "log", "", "truth", ""])
    panel.set_xlabel("rate held at")
    panel.set_ylabel("mean δ² / variance of R")
    panel.set_title("Free: what is left of δ when r̂ is held", fontsize=11)
    panel.legend(frameon=False, fontsize=9)


def _draw_lines(panel: Any, result: StallResult) -> None:
    panel.plot(SHARES, result.true_line, color="black", linestyle="--", label="truth")
    for method in METHODS:
        line = result.trained[Key("many", method, "behavior", result.config.rows)].line.mean(axis=0)
        panel.plot(SHARES, line, color=_COLORS[method], linewidth=1.6, label=LABELS[method])
    panel.set_xticks([0.0, 0.5, 1.0, 1.5], ["target's", "0.5", "logged", "1.5"])
    panel.set_xlabel("action")
    panel.set_ylabel("mean q, less that of logged actions")
    panel.set_title("q between the target's action and the logged one", fontsize=11)
    panel.legend(frameon=False, fontsize=9)
