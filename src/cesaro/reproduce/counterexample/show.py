"""The counterexample in numbers and in a picture: CSV files, what is printed, the verdict, and the figure."""

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.checks import Array
from cesaro.reproduce import looks, study
from cesaro.reproduce.counterexample.config import METHODS
from cesaro.reproduce.counterexample.run import (
    CLEAR,
    EXPECTED_STEPS,
    PROMISED_STEP,
    CounterexampleResult,
    Growth,
    expected_exponent,
)
from cesaro.reproduce.looks import COLORS, LABELS, power

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

_OFFSETS = {"diff-sgq": 10, "diff-gq1": 13, "diff-gq2": -15}
_MARKERS = {"diff-sgq": "o", "diff-gq1": "s", "diff-gq2": "^"}


def files(result: CounterexampleResult) -> study.Files:
    """The writers of the files that hold the results, but for the manifest."""
    return {
        "counterexample.csv": partial(write_exponents, result),
        "trajectories.csv": partial(write_trajectories, result),
        "counterexample.png": study.picture(plot, result),
    }


def write_exponents(result: CounterexampleResult, file: Path) -> None:
    """A row per method and step size, with the fields of `Growth`."""
    names = list(Growth.__dataclass_fields__)
    study.write_csv(file, names, [[getattr(cell, name) for name in names] for cell in result.cells])


def write_trajectories(result: CounterexampleResult, file: Path) -> None:
    """Natural logarithms of ‖(r̂, w)‖ at the shown step size: of the expected update, and quantiles over sampled runs."""
    rows: list[list[Any]] = []
    for found in result.trajectories:
        quantiles = np.quantile(found.sampled, [0.05, 0.5, 0.95], axis=0)
        columns = zip(found.samples.tolist(), found.expected.tolist(), *quantiles.tolist())
        rows += [[found.method, result.config.shown_step_size, *column] for column in columns]
    study.write_csv(file, ["method", "step_size", "samples", "expected", "sampled_5", "sampled_50", "sampled_95"], rows)


def print_tables(result: CounterexampleResult, console: "Console") -> None:
    """Eigenvalues and step limits, then exponents."""
    table = study.plain_table("Eigenvalues of G; largest constant step, expected update and mean square", "method")
    table.add_column("eigenvalues", overflow="fold")
    for name in ("expected", "sampled"):
        table.add_column(name, justify="right", no_wrap=True)
    for method, found in result.stability.items():
        limits = (
            "none" if step is None else f"{step:.4f}" for step in (found.max_step_expected, found.max_step_sampled)
        )
        table.add_row(LABELS[method], ", ".join(map(_show, found.eigenvalues.tolist())), *limits)
    console.print(table, "")
    title = "Lyapunov exponents: sampled (standard error); log rho(I + step G) of the expected update"
    names = [name for method in METHODS for name in (LABELS[method], "log rho")]
    table = study.plain_table(title, right=["step", *names])
    for row in zip(*(result.of(method) for method in METHODS)):
        cells = (f"{cell.exponent:.3f} ({cell.standard_error:.3f})" for cell in row)
        expected = (f"{cell.expected:.3f}" for cell in row)
        table.add_row(power(row[0].step_size), *(text for pair in zip(cells, expected) for text in pair))
    console.print(table, "")


def verdict(result: CounterexampleResult) -> list[str]:
    """Sentences that say what holds."""
    sgq, steps = result.of("diff-sgq"), [cell.step_size for cell in result.of("diff-sgq")]
    weakest = min(sgq, key=lambda cell: cell.exponent / max(cell.standard_error, 1e-300))
    word = "diverges" if result.expected_update_diverges else "does NOT diverge"
    lines = [
        f"Diff-SGQ, expected update, {word} at every step size: all eigenvalues of A have positive real parts, so that "
        f"|1 + a lambda| > 1 for every a > 0 (spectral radius above 1 at all {len(EXPECTED_STEPS)} steps from "
        f"{power(EXPECTED_STEPS[0])} to {power(EXPECTED_STEPS[-1])})."
    ]
    word = "diverges" if result.sampled_update_diverges else "does NOT clearly diverge"
    lines.append(
        f"Diff-SGQ, sampled, {word} at all {len(sgq)} step sizes from {power(min(steps))} to {power(max(steps))}: exponents "
        f"{min(cell.exponent for cell in sgq):.2f} to {max(cell.exponent for cell in sgq):.2f}, the least clear one "
        f"{weakest.exponent / max(weakest.standard_error, 1e-300):.0f} standard errors above 0 ({CLEAR:g} wanted)."
    )
    if (converge := result.gradient_methods_converge) is None:
        return [*lines, f"Diff-GQ1 and Diff-GQ2: no step size up to {power(PROMISED_STEP)} was run, no verdict."]
    shown = "; ".join(f"{LABELS[method]} {_ends(result, method)}" for method in METHODS[1:])
    word = "converge" if converge else "do NOT clearly converge"
    return [*lines, f"Diff-GQ1 and Diff-GQ2 {word} at all step sizes up to {power(PROMISED_STEP)}: {shown}."]


def _ends(result: CounterexampleResult, method: str) -> str:
    cells = [cell for cell in result.of(method) if cell.step_size <= PROMISED_STEP]
    least = max(cell.exponent for cell in cells)
    closer = min(cell.closer for cell in cells)
    return f"exponents at most {least:.3f}, {closer:.0%} of the runs closer than at the start"


def _show(value: complex) -> str:
    if abs(value.imag) <= 1e-9 * abs(value):
        return f"{value.real:.4g}"
    return f"{value.real:.4g}{value.imag:+.4g}i"


def plot(result: CounterexampleResult) -> "Figure":
    """Left: trajectories at one step size, expected and sampled. Right: Lyapunov exponents against the step size."""
    figure = looks.blank(11, 4.6)
    left, right = figure.subplots(1, 2)
    _draw_trajectories(left, result)
    _draw_exponents(right, result)
    for panel in (left, right):
        looks.tidy(panel)
    return figure


def _draw_trajectories(panel: Any, result: CounterexampleResult) -> None:
    alpha = result.config.shown_step_size
    for found in result.trajectories:
        color, time = COLORS[found.method], found.samples * alpha
        low, high = np.quantile(found.sampled, [0.05, 0.95], axis=0)
        panel.fill_between(time, _exp(low), _exp(high), color=color, alpha=0.18, linewidth=0)
        for one in found.sampled[:5]:
            panel.plot(time, _exp(one), color=color, linewidth=0.6, alpha=0.6)
        panel.plot(time, _exp(found.expected), color=color, linewidth=2)
        # Beside the curve, where it is in the middle of the panel or about to leave it.
        at = np.flatnonzero((np.abs(found.expected) < 12) & (time <= 60))[-1]
        _label(panel, found.method, (time[at], math.exp(found.expected[at])), (10, 2))
    panel.plot([], [], color="0.35", linewidth=2, label="expected update")
    panel.plot([], [], color="0.35", linewidth=0.6, label="sampled, five runs")
    panel.fill_between([], [], [], color="0.35", alpha=0.18, linewidth=0, label="sampled, 5–95 % of runs")
    panel.set_yscale("log")
    lowest = min(float(np.quantile(found.sampled[:, -1], 0.05)) for found in result.trajectories)
    panel.set_ylim(math.exp(max(lowest, -25.0)), 1e9)
    panel.set_xlim(0, result.config.settling)
    panel.set_xlabel("samples × step size")
    panel.set_ylabel("distance ‖(r̂, w)‖ to the solution")
    panel.set_title(f"From (r̂, w) = (1, 1) at step size {_power(alpha)}", fontsize=11)
    panel.legend(loc="upper right", frameon=False, fontsize=9)


def _draw_exponents(panel: Any, result: CounterexampleResult) -> None:
    steps = sorted(result.config.step_sizes)
    steps_at, sampled = result.config.step_sizes.index(steps[0]), f"sampled, ±{CLEAR:g} std. errors"
    fine = np.geomspace(steps[0], steps[-1], 400) if len(steps) > 1 else np.array(steps)
    for method in METHODS:
        color, cells, stability = COLORS[method], result.of(method), result.stability[method]
        panel.plot(fine, [expected_exponent(stability, step) for step in fine], color=color, linewidth=1.3)
        panel.errorbar(
            [cell.step_size for cell in cells],
            [cell.exponent for cell in cells],
            [CLEAR * cell.standard_error for cell in cells],
            color=color,
            marker=_MARKERS[method],
            markersize=5,
            linestyle="none",
            capsize=2,
        )
        _label(panel, method, (steps[0], cells[steps_at].exponent), (-3, _OFFSETS[method]))
        if method == "diff-sgq":
            bounds = sorted((cell.step_size, cell.lower_bound) for cell in cells if cell.lower_bound is not None)
            panel.plot(*zip(*bounds), color=color, linewidth=1.3, linestyle=":")
        elif stability.max_step_sampled is not None:
            panel.axvline(stability.max_step_sampled, color=color, linewidth=1, linestyle="--")
    panel.errorbar([], [], [], color="0.35", marker="o", markersize=5, linestyle="none", capsize=2, label=sampled)
    panel.plot([], [], color="0.35", linewidth=1.3, label="expected update")
    panel.plot([], [], color="0.35", linewidth=1.3, linestyle=":", label="proven lower bound")
    panel.plot([], [], color="0.35", linewidth=1, linestyle="--", label="mean-square step limit")
    panel.axhline(0, color="black", linewidth=0.8)
    panel.set_xscale("log", base=2)
    panel.set_xlabel("step size α")
    panel.set_ylabel("growth of log ‖(r̂, w)‖ per sample, over α")
    panel.set_title("Lyapunov exponents: above 0 diverges, below 0 converges", fontsize=11)
    panel.legend(loc="center left", bbox_to_anchor=(0.0, 0.42), frameon=False, fontsize=9)


def _label(panel: Any, method: str, point: tuple[float, float], offset: tuple[float, float]) -> None:
    panel.annotate(
        LABELS[method], point, xytext=offset, textcoords="offset points", color=COLORS[method], fontweight="bold"
    )


def _exp(logarithms: Array) -> Array:
    return np.exp(np.clip(logarithms, -690, 690))


def _power(step_size: float) -> str:
    exponent = math.log2(step_size)
    return f"$2^{{{exponent:.0f}}}$" if exponent == round(exponent) else f"{step_size:g}"
