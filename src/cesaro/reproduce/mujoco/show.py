"""Figure 4 and the appendix's in numbers and in the paper's layout: CSV files, tables, the verdict, and pictures."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cesaro.reproduce import looks, study
from cesaro.reproduce.looks import LABELS
from cesaro.reproduce.mujoco.config import CLAIMED, METHODS, MujocoConfig, Place
from cesaro.reproduce.mujoco.run import CLEAR, MethodOnLog, MujocoResult, step_sizes

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

_TRUTH: dict[str, Any] = {"color": "#222222", "linewidth": 1.1}
_BEHAVIOR: dict[str, Any] = {"color": "#777777", "linewidth": 1.1, "linestyle": (0, (4, 2))}
_TOP = 2.5  # of the error axes, in units of what an estimate of zero or the mean logged reward errs by
MAIN_SIGMA = 0.9  # of Figure 4; the other noises are in the appendix


def files(result: MujocoResult) -> study.Files:
    """The writers of the files that hold the results, but for the manifest."""
    tables = {"mujoco.csv": write_settings, "best.csv": write_best, "curves.csv": write_curves}
    pictures = {
        f"{name}.png": study.picture(plot_rates, result) if name == "rates" else study.picture(plot, result, sigmas)
        for name, sigmas in figures_of(result.config).items()
    }
    return {**{name: partial(write, result) for name, write in tables.items()}, **pictures}


def write_settings(result: MujocoResult, file: Path) -> None:
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
    study.write_rows(rows, file)


def write_best(result: MujocoResult, file: Path) -> None:
    """A row per environment, noise and method: rates, the best setting, its errors and its second estimate."""
    rows = [_best_row(result, place, cell) for (place, _), cell in result.cells.items()]
    study.write_rows(rows, file)


def _best_row(result: MujocoResult, place: Place, cell: MethodOnLog) -> dict[str, Any]:
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


def write_curves(result: MujocoResult, file: Path) -> None:
    """A row per environment, noise, method and record: the curves of the figures."""
    rows = []
    for (place, method), cell in result.cells.items():
        if cell.best is not None:
            points = zip(cell.minibatches.tolist(), *(part.tolist() for part in cell.curve))
            rows += [(*place, method, int(at), mean, std) for at, mean, std in points]
    study.write_csv(file, ("env", "sigma", "method", "minibatches", "mean_error", "std_error"), rows)


def _where(place: Place, cell: MethodOnLog, number: int | None) -> dict[str, Any]:
    setting = {} if number is None else cell.settings[number]
    ours = step_sizes(cell.method, setting) if setting else {}
    # All digits, so that a row can be run again.
    numbers = {name: repr(setting[name]) if name in setting else None for name in ("lr", "lam")}
    numbers |= {name: repr(ours[name]) if name in ours else None for name in ("step_size", "rate_step_size")}
    return {"env": place[0], "sigma": place[1], "method": cell.method, **numbers}


def print_tables(result: MujocoResult, console: "Console") -> None:
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
        tables["final"].add_row(*_names(place), *(looks.final_error(cell, cell.method == lowest) for cell in cells))
        tables["setting"].add_row(*_names(place), *map(_setting, cells))
        tables["second"].add_row(*_names(place), *map(_second, cells))
    for table in (rates, *tables.values()):
        console.print(table, "")


def _table(title: str) -> "Table":
    return study.plain_table(title, "environment", right=["sigma"])


def _names(place: Place) -> tuple[str, str]:
    from rich.markup import escape

    return escape(place[0]), f"{place[1]:g}"


def _setting(cell: MethodOnLog) -> str:
    return "-" if cell.best is None else ", ".join(f"{value:g}" for value in cell.settings[cell.best].values())


def _second(cell: MethodOnLog) -> str:
    mean, std = cell.second_error
    return "-" if math.isnan(mean) else f"{mean:.4f} ({std:.4f})"


def _is_reduced(config: MujocoConfig) -> bool:
    return config.lacks("envs", "sigmas", "lrs", "lams", "transitions", "truth_steps", "runs", "minibatches")


def verdict(result: MujocoResult) -> list[str]:
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


def figures_of(config: MujocoConfig) -> dict[str, tuple[float, ...]]:
    """The noises in each figure, by name of the file: main text, appendix where there are more noises, and the rates."""
    main = (MAIN_SIGMA,) if MAIN_SIGMA in config.sigmas else config.sigmas[-1:]
    others = tuple(sigma for sigma in config.sigmas if sigma not in main)
    return {"mujoco": main, **({"mujoco_appendix": others} if others else {}), "rates": config.sigmas}


def plot(result: MujocoResult, sigmas: Sequence[float]) -> "Figure":
    """A row per noise, a column per environment: mean error of each method's best setting, ± 1 standard deviation."""
    from matplotlib.lines import Line2D

    figure, axes = _grid(result, sigmas, (2.6, 2.1))
    for axis, place in _panels(result, sigmas, axes):
        for method in METHODS:
            cell, (_, color, style) = result.cells[place, method], looks.METHODS[method]
            if cell.best is None:
                continue
            curve, band = cell.curve
            axis.fill_between(cell.minibatches, curve - band, curve + band, color=color, alpha=0.14, linewidth=0)
            axis.plot(cell.minibatches, curve, color=color, linestyle=style, linewidth=1.5)
        axis.axhline(result.behavior_error(place), zorder=1, **_BEHAVIOR)
        # A method that is far off without having diverged must not flatten the others.
        most = _TOP * max(abs(result.truths[place[0]].value), result.behavior_error(place))
        axis.set_ylim(0, min(axis.get_ylim()[1], most))
        axis.set_xlim(0, result.config.minibatches)
    handles = [looks.line_of(method) for method in METHODS]
    handles.append(Line2D([], [], **_BEHAVIOR, label="mean logged reward"))
    title = f"Networks: best setting of each method, {result.config.runs} runs, ± 1 standard deviation"
    _finish(figure, "minibatches", "$|\\bar{\\hat{r}} - r_\\pi|$", handles, title)
    return figure


def plot_rates(result: MujocoResult) -> "Figure":
    """A row per noise, a column per environment: what each method says at its best setting, beside the truth."""
    from matplotlib.lines import Line2D

    figure, axes = _grid(result, result.config.sigmas, (2.6, 1.8))
    for axis, place in _panels(result, result.config.sigmas, axes):
        truth, behavior = result.truths[place[0]], result.behaviors[place]
        axis.axhline(truth.value, zorder=1, **_TRUTH)
        axis.axhline(behavior.value, zorder=1, **_BEHAVIOR)
        for number, method in enumerate(METHODS):
            cell, color = result.cells[place, method], looks.COLORS[method]
            if cell.best is None:
                continue
            for shift, values, filled in ((-0.15, cell.rates[:, -1], color), (0.15, cell.offline, "white")):
                axis.errorbar(
                    number + shift,
                    values.mean(),
                    yerr=values.std(),
                    color=color,
                    marker="o",
                    markersize=4.5,
                    markerfacecolor=filled,
                    linewidth=1.2,
                    capsize=2,
                )
        axis.set_xlim(-0.6, len(METHODS) - 0.4)
        axis.set_xticks(
            range(len(METHODS)), [LABELS[m].removeprefix("Diff-").replace("GradientDICE", "DICE") for m in METHODS]
        )
    dot: dict[str, Any] = {"color": "#222222", "linestyle": "", "marker": "o", "markersize": 4.5}
    handles = [
        Line2D([], [], **_TRUTH, label="target's rate"),
        Line2D([], [], **_BEHAVIOR, label="mean logged reward"),
        Line2D([], [], **dot, label="$\\hat{r}$"),
        Line2D([], [], **dot, markerfacecolor="white", label="second estimate, over all rows"),
    ]
    title = f"Rates at the best setting: mean over {result.config.runs} runs ± 1 standard deviation"
    _finish(figure, "", "reward per step", handles, title)
    return figure


def _panels(result: MujocoResult, sigmas: Sequence[float], axes: Any) -> list[tuple[Any, Place]]:
    """Every panel with its place, named."""
    panels = []
    for row, sigma in zip(axes, sigmas):
        for axis, env in zip(row, result.config.envs):
            axis.set_title(f"{env}, $\\sigma = {sigma:g}$", fontsize=10, pad=4)
            panels.append((axis, (env, sigma)))
    return panels


def _grid(result: MujocoResult, sigmas: Sequence[float], size: tuple[float, float]) -> tuple["Figure", Any]:
    margins, gaps = (0.8, 0.2, 0.55, 0.95), (0.45, 0.45)
    return looks.grid(len(sigmas), len(result.config.envs), size, margins, gaps, least_columns=2)


def _finish(figure: "Figure", x: str, y: str, handles: list[Any], title: str) -> None:
    looks.name_all(figure, x, y, 0.1)
    columns = min(len(handles), math.floor(figure.get_figwidth() / 1.6))
    looks.legend_above(figure, handles, title, 0.06, ncols=columns, fontsize=9, title_fontsize=10)
