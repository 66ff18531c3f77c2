"""Figure 4 and the appendix's in numbers: CSV files, tables for the terminal, and the verdict in plain words."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cesaro.reproduce import study
from cesaro.reproduce.mujoco.learning import step_sizes
from cesaro.reproduce.mujoco.result import CLAIMED, CLEAR, LABELS, METHODS, Cell, Place, Result
from cesaro.reproduce.mujoco.run import Config

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def write_settings(result: Result, file: Path) -> None:
    """A row per environment, noise, method and setting."""
    rows = [
        {
            **_where(place, cell, i),
            "mean_final_error": float(cell.mean[i]),
            "std_final_error": float(cell.std[i]),
            "diverged_runs": int(cell.diverged[i]),
        }
        for (place, _), cell in result.cells.items()
        for i in range(len(cell.settings))
    ]
    study.write_csv(file, rows[0], (row.values() for row in rows))


def write_best(result: Result, file: Path) -> None:
    """A row per environment, noise and method: rates, the best setting, its errors and its second estimate."""
    rows = [_best_row(result, place, cell) for (place, _), cell in result.cells.items()]
    study.write_csv(file, rows[0], (row.values() for row in rows))


def _best_row(result: Result, place: Place, cell: Cell) -> dict[str, Any]:
    truth, behavior = result.truths[place[0]], result.behaviors[place]
    margin = None if cell.method == CLAIMED else result.margin(place, cell.method)
    return {
        **_where(place, cell, cell.best),
        "true_rate": truth.value,
        "true_rate_standard_error": truth.standard_error,
        "behavior_rate": behavior.value,
        "behavior_rate_standard_error": behavior.standard_error,
        "rate": cell.rate.value,
        "rate_standard_error": cell.rate.standard_error,
        "final_error": cell.error,
        "std_final_error": cell.spread,
        "second_rate": cell.second.value,
        "second_rate_standard_error": cell.second.standard_error,
        "second_error": cell.second_error[0],
        "std_second_error": cell.second_error[1],
        "error_minus_diff_gq1": None if margin is None else margin[0],
        "error_minus_diff_gq1_standard_error": None if margin is None else margin[1],
        "seconds": cell.seconds,
    }


def write_curves(result: Result, file: Path) -> None:
    """A row per environment, noise, method and record: the curves of the figures."""
    rows = []
    for (place, method), cell in result.cells.items():
        if cell.best is not None:
            points = zip(cell.minibatches.tolist(), *(part.tolist() for part in cell.curve))
            rows += [(*place, method, int(at), mean, std) for at, mean, std in points]
    study.write_csv(file, ("env", "sigma", "method", "minibatches", "mean_error", "std_error"), rows)


def _where(place: Place, cell: Cell, number: int | None) -> dict[str, Any]:
    setting = {} if number is None else cell.settings[number]
    ours = step_sizes(cell.method, setting) if setting else {}
    # All digits, so that a row can be run again.
    numbers = {name: repr(setting[name]) if name in setting else None for name in ("lr", "lam")}
    numbers |= {name: repr(ours[name]) if name in ours else None for name in ("step_size", "rate_step_size")}
    return {"env": place[0], "sigma": place[1], "method": cell.method, **numbers}


def print_tables(result: Result, console: "Console") -> None:
    """Rates, final errors, best settings and second estimates."""
    rates = _table("Reward per step (standard error), and seconds of learning")
    for name in ("target", "behavior", "difference", "seconds"):
        rates.add_column(name, justify="right")
    tables = {
        "final": _table("Final error of the best setting: mean over runs (standard deviation)"),
        "setting": _table("Best setting: the paper's learning rate, lambda"),
        "second": _table("Error of the second estimate: mean over runs (standard deviation)"),
    }
    for table in tables.values():
        for method in METHODS:
            table.add_column(LABELS[method], justify="right", overflow="fold")
    for place in result.config.places:
        truth, behavior = result.truths[place[0]], result.behaviors[place]
        rates.add_row(
            *_names(place),
            f"{truth.value:.4f} ({truth.standard_error:.4f})",
            f"{behavior.value:.4f} ({behavior.standard_error:.4f})",
            f"{behavior.value - truth.value:+.4f}",
            f"{result.seconds(place):.1f}",
        )
        cells, lowest = [result.cells[place, method] for method in METHODS], result.lowest(place)
        tables["final"].add_row(*_names(place), *(_final(cell, cell.method == lowest) for cell in cells))
        tables["setting"].add_row(*_names(place), *map(_setting, cells))
        tables["second"].add_row(*_names(place), *map(_second, cells))
    for table in (rates, *tables.values()):
        console.print(table, "")


def _table(title: str) -> "Table":
    table = study.plain_table(title)
    table.add_column("environment", no_wrap=True)
    table.add_column("sigma", justify="right", no_wrap=True)
    return table


def _names(place: Place) -> tuple[str, str]:
    from rich.markup import escape

    return escape(place[0]), f"{place[1]:g}"


def _final(cell: Cell, is_lowest: bool) -> str:
    if cell.best is None:
        return "all diverged"
    text = f"{cell.error:.4f} ({cell.spread:.4f})"
    return f"[bold]{text}[/bold]" if is_lowest else text


def _setting(cell: Cell) -> str:
    return "-" if cell.best is None else ", ".join(f"{value:g}" for value in cell.settings[cell.best].values())


def _second(cell: Cell) -> str:
    mean, std = cell.second_error
    return "-" if math.isnan(mean) else f"{mean:.4f} ({std:.4f})"


def verdict(result: Result) -> list[str]:
    """The claim of the paper against these numbers, one paragraph per line."""
    claims, places = result.claims, len(result.claims)
    best = sum(claim.is_best for claim in claims.values())
    clearly = sum(claim.is_clearly_best for claim in claims.values())
    beaten = sum(claim.is_clearly_beaten for claim in claims.values())
    lines = [
        f'The paper: Diff-GQ1 "consistently performs the best". Here (clearly: by more than {CLEAR:g} standard errors of the '
        f"paired difference over {result.config.runs} runs, against every other method):",
        f"  Diff-GQ1 is best in {best} of {places} cells, clearly in {clearly}; clearly beaten in {beaten}.",
    ]
    lost = [
        f"{env} {sigma:g} ({LABELS[claim.rival]}{', clearly' if claim.is_clearly_beaten else ''})"
        for (env, sigma), claim in claims.items()
        if not claim.is_best
    ]
    about = (
        "No verdict, as this is not the full study: here the claim"
        if _is_reduced(result.config)
        else "Verdict: the claim"
    )
    lines.append(
        f"{about} holds in every cell."
        if result.claim_holds
        else f"{about} does NOT hold in every cell. Another method is at least as good in: {', '.join(lost)}."
    )
    below = {
        method: sum(result.cells[place, method].error < result.behavior_error(place) for place in claims)
        for method in METHODS
    }
    counts = ", ".join(f"{LABELS[method]} in {count}" for method, count in below.items())
    lines.append(f"Closer to the truth than the mean logged reward: {counts} of {places}.")
    better = {
        method: sum(result.cells[place, method].second_error[0] < result.cells[place, method].error for place in claims)
        for method in METHODS
    }
    counts = ", ".join(f"{LABELS[method]} in {count}" for method, count in better.items())
    lines.append(f"The second estimate is closer than the rate at the same setting: {counts}.")
    lines.append(
        "Settings are selected by the truth, as in the paper, and rates start at zero: a setting that stops on its way can win."
    )
    if _is_reduced(result.config):
        lines.append("The full study has more environments, noises, transitions, runs, minibatches or settings.")
    return lines


def _is_reduced(config: Config) -> bool:
    full = Config()
    missing = any(set(getattr(full, name)) - set(getattr(config, name)) for name in ("envs", "sigmas", "lrs", "lams"))
    names = ("transitions", "truth_steps", "runs", "minibatches")
    return missing or any(getattr(config, name) < getattr(full, name) for name in names)
