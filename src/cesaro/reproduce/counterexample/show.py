"""Tables of the counterexample study: CSV files, what is printed, and the verdict."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.reproduce import study
from cesaro.reproduce.counterexample.run import CLEAR, EXPECTED_STEPS, METHODS, PROMISED_STEP, Cell, Result

if TYPE_CHECKING:
    from rich.console import Console

LABELS = {"diff-sgq": "Diff-SGQ", "diff-gq1": "Diff-GQ1", "diff-gq2": "Diff-GQ2"}


def write_exponents(result: Result, file: Path) -> None:
    """A row per method and step size, with the fields of `Cell`."""
    names = list(Cell.__dataclass_fields__)
    study.write_csv(file, names, [[getattr(cell, name) for name in names] for cell in result.cells])


def write_trajectories(result: Result, file: Path) -> None:
    """Natural logarithms of ‖(r̂, w)‖ at the shown step size: of the expected update, and quantiles over sampled runs."""
    rows: list[list[Any]] = []
    for found in result.trajectories:
        quantiles = np.quantile(found.sampled, [0.05, 0.5, 0.95], axis=0)
        columns = zip(found.samples.tolist(), found.expected.tolist(), *quantiles.tolist())
        rows += [[found.method, result.config.shown_step_size, *column] for column in columns]
    study.write_csv(file, ["method", "step_size", "samples", "expected", "sampled_5", "sampled_50", "sampled_95"], rows)


def print_tables(result: Result, console: "Console") -> None:
    """Eigenvalues and step limits, then exponents."""
    table = study.plain_table("Eigenvalues of G; largest constant step, expected update and mean square")
    table.add_column("method", no_wrap=True)
    table.add_column("eigenvalues", overflow="fold")
    table.add_column("expected", justify="right", no_wrap=True)
    table.add_column("sampled", justify="right", no_wrap=True)
    for method, found in result.stability.items():
        limits = (
            "none" if step is None else f"{step:.4f}" for step in (found.max_step_expected, found.max_step_sampled)
        )
        table.add_row(LABELS[method], ", ".join(map(_show, found.eigenvalues.tolist())), *limits)
    console.print(table, "")
    title = "Lyapunov exponents: sampled (standard error); log rho(I + step G) of the expected update"
    table = study.plain_table(title)
    table.add_column("step", justify="right", no_wrap=True)
    for method in METHODS:
        table.add_column(LABELS[method], justify="right", no_wrap=True)
        table.add_column("log rho", justify="right", no_wrap=True)
    for row in zip(*(result.of(method) for method in METHODS)):
        cells = (f"{cell.exponent:.3f} ({cell.standard_error:.3f})" for cell in row)
        expected = (f"{cell.expected:.3f}" for cell in row)
        table.add_row(power(row[0].step_size), *(text for pair in zip(cells, expected) for text in pair))
    console.print(table, "")


def verdict(result: Result) -> list[str]:
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


def power(step_size: float) -> str:
    """`2^-6` for a power of two."""
    exponent = math.log2(step_size)
    return f"2^{exponent:.0f}" if exponent == round(exponent) else f"{step_size:g}"


def _ends(result: Result, method: str) -> str:
    cells = [cell for cell in result.of(method) if cell.step_size <= PROMISED_STEP]
    least = max(cell.exponent for cell in cells)
    closer = min(cell.closer for cell in cells)
    return f"exponents at most {least:.3f}, {closer:.0%} of the runs closer than at the start"


def _show(value: complex) -> str:
    if abs(value.imag) <= 1e-9 * abs(value):
        return f"{value.real:.4g}"
    return f"{value.real:.4g}{value.imag:+.4g}i"
