"""Tables of the stall study: CSV files, what is printed, and the verdict."""

from pathlib import Path
from typing import TYPE_CHECKING

from cesaro.reproduce import study
from cesaro.reproduce.stall.exact import WAIT, Limits, Walk
from cesaro.reproduce.stall.networks import CURVES
from cesaro.reproduce.stall.run import HELD, PROBLEMS, Key, Result

if TYPE_CHECKING:
    from rich.console import Console

LABELS = {
    "diff-sgq": "Diff-SGQ",
    "diff-gq1": "Diff-GQ1",
    "diff-gq1-no-momentum": "Diff-GQ1, no momentum",
    "diff-gq1-fast-dual": "Diff-GQ1, fast dual",
    "residual": "exact dual",
    "held": "rate held",
}


def write_walks(result: Result, file: Path) -> None:
    """A row per walk."""
    study.write_csv(file, Walk._fields, result.walks)


def write_limits(result: Result, file: Path) -> None:
    """A row per noise."""
    study.write_csv(file, Limits._fields, result.limits)


def write_trained(result: Result, file: Path) -> None:
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


def print_tables(result: Result, console: "Console") -> None:
    """The walks, the noise, the networks, the rates held."""
    table = study.plain_table(f"Walks: times per pair at step 1; share of the way after {WAIT:g} Diff-SGQ times")
    for name in ("states", "gap", "SGQ time", "GQ1 time", "SGQ share", "GQ1 share"):
        table.add_column(name, justify="right", no_wrap=True)
    for w in result.walks:
        times = f"{w.sgq_time:.4g}", f"{w.gq1_time:.4g}"
        table.add_row(str(w.states), f"{w.gap:.4f}", *times, f"{w.sgq_share:.2f}", f"{w.gq1_share:.2f}")
    console.print(table, "")
    table = study.plain_table("Noise, closed forms with the right features: rate by dual")
    for name in ("noise", "log", "truth", "same features", "fits every row"):
        table.add_column(name, justify="right", no_wrap=True)
    for found in result.limits:
        values = found.behavior, found.truth, found.right_dual, found.free_dual
        table.add_row(f"{found.noise:g}", *(f"{value:.3f}" for value in values))
    console.print(table, "")
    table = study.plain_table("Networks: share of the way (0 log, 1 truth); held-out TD error / var R")
    for name in ("problem", "method", "start", "rows"):
        table.add_column(name, no_wrap=True)
    for name in ("share", "error", "LSTD"):
        table.add_column(name, justify="right", no_wrap=True)
    for key in result.of_methods:
        error = result.curve(key, "held_out_residual") / result.variances[key.problem]
        shown = f"{result.share(key):.2f}", f"{error:.3f}", f"{_closed_share(result, key):.2f}"
        table.add_row(key.problem, LABELS[key.method], key.start, str(key.rows), *shown)
    console.print(table, "")
    table = study.plain_table("Rate held at a share of the way: TD error in % of var R, training (held out)")
    table.add_column("problem", no_wrap=True)
    for share in HELD:
        table.add_column(f"{share:g}", justify="right", no_wrap=True)
    for name in dict.fromkeys(key.problem for key in result.trained if key.method == "held"):
        pairs = zip(result.held(name), result.held(name, "held_out_residual"))
        table.add_row(name, *(f"{100 * seen:.2f} ({100 * unseen:.2f})" for seen, unseen in pairs))
    console.print(table, "")


def verdict(result: Result) -> list[str]:
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


def _closed_share(result: Result, key: Key) -> float:
    problem = PROBLEMS[key.problem]
    found = float(result.trained[key].closed_form.mean())
    return (found - problem.behavior_rate) / (problem.rate - problem.behavior_rate)
