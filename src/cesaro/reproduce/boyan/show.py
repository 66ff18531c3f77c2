"""Figure 2 in numbers: CSV files, tables for the terminal, and the verdict in plain words."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cesaro.learning.settings import Setting
from cesaro.reproduce import study
from cesaro.reproduce.boyan.result import BASELINE, CLEAR, LABELS, PAPER_METHODS, Cell, Result
from cesaro.reproduce.boyan.run import Config

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Methods side by side in one table: 80 columns.
_ABREAST = 4


def write_settings(result: Result, file: Path) -> None:
    """A row per panel, method and setting."""
    _write_csv(
        file,
        (
            {
                **_where(panel, method, setting),
                "mean_final_error": float(cell.mean[i]),
                "std_final_error": float(cell.std[i]),
                "diverged_runs": int(cell.diverged[i]),
                "first_divergence": int(cell.first_divergence[i]) if cell.diverged[i] else None,
            }
            for (panel, method), cell in result.cells.items()
            for i, setting in enumerate(cell.settings)
        ),
    )


def write_best(result: Result, file: Path) -> None:
    """A row per panel and method: its best setting, the claim, and what theory says there."""
    _write_csv(file, (_best_row(result, panel, method) for panel, method in result.cells))


def _best_row(result: Result, panel: tuple[float, float], method: str) -> dict[str, Any]:
    cell, facts, margin = result.cells[panel, method], result.panels[panel], result.margin(panel, method)
    return {
        **_where(panel, method, {} if cell.best is None else cell.settings[cell.best]),
        "final_error": cell.error,
        "std_final_error": cell.spread,
        "margin_over_gradient_dice": None if margin is None else margin[0],
        "margin_standard_error": None if margin is None else margin[1],
        "beats_gradient_dice": None if margin is None else "yes" if margin[0] > 0 else "no",
        **{name: getattr(cell, name) for name in ("max_step_expected", "max_step_sampled", "time_constant")},
        "representation_error": facts.value_error,
        "ratio_representation_error": facts.ratio_error,
        "td_rate_minus_true_rate": facts.rate_gap,
    }


def _where(panel: tuple[float, float], method: str, setting: Mapping[str, float]) -> dict[str, Any]:
    # All digits, so that a row can be run again.
    numbers = {name: repr(setting[name]) if name in setting else None for name in ("step_size", "ridge", "lam")}
    return {"pi0": panel[0], "mu0": panel[1], "method": method, **numbers}


def _write_csv(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    table = list(rows)
    study.write_csv(file, table[0], (map(_rounded, row.values()) for row in table))


def _rounded(value: Any) -> Any:
    """Zero for what is zero to rounding."""
    return 0.0 if isinstance(value, float) and abs(value) < 1e-12 else value


def print_tables(result: Result, console: "Console") -> None:
    """Final errors and best settings; with features that misfit, also what they cannot express."""
    if result.config.misfit:
        console.print(_fit_table(result), "")
    methods = result.config.methods
    for first in range(0, len(methods), _ABREAST):
        group = methods[first : first + _ABREAST]
        table = _table("Final error of the best setting: mean over runs (standard deviation)")
        settings = _table("Best setting: step size, ridge, lambda")
        for target in (table, settings):
            for method in group:
                target.add_column(LABELS[method], justify="right", overflow="fold")
        for panel in result.panels:
            cells = [result.cells[panel, method] for method in group]
            lowest = min(result.cells[panel, method].error for method in methods)
            table.add_row(*_names(panel), *(_final(cell, cell.error == lowest) for cell in cells))
            settings.add_row(*_names(panel), *(setting_text(cell) for cell in cells))
        console.print(table, "", settings, "")


def _fit_table(result: Result) -> "Table":
    table = _table("What the features cannot express, and the error of the limit without ridge")
    for name in ("of the values", "of the density ratio", "r_TD - r_pi"):
        table.add_column(name, justify="right")
    for panel, facts in result.panels.items():
        table.add_row(*_names(panel), f"{facts.value_error:.3f}", f"{facts.ratio_error:.3f}", f"{facts.rate_gap:+.4f}")
    return table


def _table(title: str) -> "Table":
    table = study.plain_table(title)
    for name in ("pi0", "mu0"):
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _names(panel: tuple[float, float]) -> tuple[str, str]:
    return f"{panel[0]:g}", f"{panel[1]:g}"


def _final(cell: Cell, is_lowest: bool) -> str:
    if cell.best is None:
        return "all diverged"
    text = f"{cell.error:.4f} ({cell.spread:.4f})"
    return f"[bold]{text}[/bold]" if is_lowest else text


def setting_text(cell: Cell) -> str:
    """`2^-9, 0.01, 10`."""
    if cell.best is None:
        return "-"
    setting: Setting = cell.settings[cell.best]
    power = math.log2(setting["step_size"])
    step = f"2^{power:.0f}" if power.is_integer() else f"{setting['step_size']:g}"
    return ", ".join([step, *(f"{value:g}" for name, value in setting.items() if name != "step_size")])


def verdict(result: Result) -> list[str]:
    """The claim of the paper against these numbers, one paragraph per line."""
    panels, lines = len(result.panels), []
    if tallies := result.tallies:
        lines.append(
            f'The paper: value-based methods "consistently outperform" GradientDICE. Here, in {panels} panels '
            f"(clearly: by more than {CLEAR:g} standard errors of the paired difference over {result.config.runs} runs):"
        )
    for tally in tallies:
        lines.append(
            f"  {LABELS[tally.method]}: lower error in {tally.wins} panels, clearly in {tally.clear_wins}; clearly higher in "
            f"{tally.clear_losses}. Margins {tally.smallest:+.4f} to {tally.largest:+.4f}."
        )
    if (holds := result.claim_holds) is not None:
        lost = {
            method: ", ".join(f"({p:g}, {m:g})" for p, m in result.panels if _is_lost(result, (p, m), method))
            for method in PAPER_METHODS
        }
        losses = "; ".join(f"{LABELS[method]} at {where}" for method, where in lost.items() if where)
        lines.append(
            "Verdict: the claim holds in every panel, for all three methods."
            if holds
            else "Verdict: the claim does NOT hold in every panel for all three methods. At (pi0, mu0), GradientDICE is at least "
            f"as good as {losses}."
        )
    constants = [cell.time_constant for cell in result.cells.values() if cell.has_theory]
    if constants:
        slow = sum(constant > result.config.samples for constant in constants)
        lines.append(
            f"{slow} of {len(constants)} best settings have a time constant above {result.config.samples:,} samples: they are "
            "measured while still on their way."
        )
    lines.append(_about_fit(result))
    if _is_reduced(result.config):
        lines.append("This is not the full study: fewer runs, samples or settings than the paper's.")
    return lines


def _is_lost(result: Result, panel: tuple[float, float], method: str) -> bool:
    margin = result.margin(panel, method)
    return margin is not None and margin[0] <= 0


def _about_fit(result: Result) -> str:
    if not result.config.misfit:
        return (
            "There is no representation error here: the features contain q_pi, and r_TD = r_pi in every panel. "
            "Repeat with --misfit for features that do not."
        )
    cells = result.cells.items()
    below = sum(cell.error < abs(result.panels[panel].rate_gap) for (panel, _), cell in cells)
    largest = max(abs(panel.rate_gap) for panel in result.panels.values())
    return (
        f"Features that misfit: without ridge, the limit of the paper's four methods is r_TD, off by up to {largest:.3f}. "
        f"{below} of {len(cells)} best settings end closer to r_pi than that limit: selecting by the truth rewards those "
        "that stop on the way or are shrunk by the ridge."
    )


def _is_reduced(config: Config) -> bool:
    full = Config()
    fields = ("pi0s", "step_sizes", "ridges", "lams")
    missing = any(set(getattr(full, name)) - set(getattr(config, name)) for name in fields)
    return missing or config.runs < full.runs or config.samples < full.samples or BASELINE not in config.methods
