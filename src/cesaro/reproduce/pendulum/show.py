"""The pendulum study in numbers and in a picture: CSV files, what is printed, the verdict, and the figure."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.reproduce import study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console
from cesaro.reproduce.pendulum.config import CONFIDENCE
from cesaro.reproduce.pendulum.result import CHECK, Cell, Result, settings

# A cell whose default intervals cover the truth in a smaller share of logs is named.
ENOUGH = 0.8
# Okabe and Ito's colors, which color-blind readers can tell apart; markers tell them apart in print.
_LOOKS = (("#0072B2", "o"), ("#E69F00", "s"), ("#D55E00", "^"), ("#009E73", "D"))
# Axes reach as far beyond truth and logged rates as these are apart; what is outside gets an arrow at the edge.
_MARGIN = 1.0


def files(result: Result) -> tuple[str, ...]:
    """The names of the files that hold the results, but for the manifest."""
    return ("pendulum.csv", "logs.csv", "settings.csv", "pendulum.png")


def write_cells(result: Result, file: Path) -> None:
    """A row per controller, noise and setting: estimates against the truth and against the mean logged reward."""
    names = ["controller", "noise", "setting", "is_default", "features", "dual_features", "ridge", "truth", "logs"]
    names += ["answered", "identified", "estimate", "error", "deviation", "standard_error", "covered", "worst_error"]
    names += ["behavior", "behavior_error"]
    rows = []
    for cell in result.cells:
        label, *choices = cell.setting
        behavior = result.behavior(cell.controller, cell.noise)
        known = [cell.noise, label, int(cell.setting.is_default), *choices, cell.truth, result.config.logs]
        found = [cell.answered, cell.identified, cell.estimate, cell.estimate - cell.truth, cell.deviation]
        found += [cell.standard_error, cell.covered, _worst(cell), behavior, behavior - cell.truth]
        rows.append([cell.controller, *known, *found])
    study.write_csv(file, names, rows)


def write_logs(result: Result, file: Path) -> None:
    """A row per controller, noise, log and setting; of the default, also what diagnostics say."""
    names = ["controller", "noise", "seed", "setting", "identified", "estimate", "standard_error", "low", "high"]
    names += ["covers", "behavior", "verdict", "findings"]
    rows = []
    for (controller, noise, seed), piece in result.pieces.items():
        truth = result.truths[controller].rate
        for i, setting in enumerate(settings(result.config)):
            found = [float(piece[name][i]) for name in ("estimate", "standard_error", "low", "high")]
            covers = int(found[2] <= truth <= found[3])
            said = [str(piece[name]) for name in ("verdict", "findings")] if setting.is_default else [None, None]
            known = [controller, noise, seed, setting.label, int(piece["identified"][i])]
            rows.append([*known, *found, covers, float(piece["behavior"]), *said])
    study.write_csv(file, names, rows)


def write_settings(result: Result, file: Path) -> None:
    """A row per setting over all cells; "seconds" is the only number of the study that differs between reruns."""
    names = ["setting", "is_default", "mean_error", "worst_error", "answered", "identified", "covered", "logs"]
    names.append("seconds")
    study.write_csv(
        file, names, ([setting.label, int(setting.is_default), *score] for setting, score in result.scores.items())
    )


def print_tables(result: Result, console: "Console") -> None:
    """Mean errors of every setting in every cell, then settings over all cells, then the default."""
    config = result.config
    table = study.plain_table(f"Mean error over {_logs(config.logs)}, by controller and noise")
    table.add_column("setting", no_wrap=True)
    for controller, noise in config.cells:
        table.add_column(f"{controller}\n{noise:g}", justify="right", no_wrap=True)
    gaps = (result.behavior(controller, noise) - result.truths[controller].rate for controller, noise in config.cells)
    table.add_row("mean logged reward", *(f"{gap:+.3f}" for gap in gaps))
    for setting in settings(config):
        table.add_row(setting.label, *(_signed(cell.estimate - cell.truth) for cell in result.of(setting)))
    console.print(table, "", markup=False)

    table = study.plain_table("Single logs of all cells: absolute errors, intervals that hold the truth")
    table.add_column("setting", no_wrap=True)
    for name in ("mean error", "worst", "cover", "refused", "s per fit"):
        table.add_column(name, justify="right", no_wrap=True)
    for setting, score in result.scores.items():
        errors = (_plain(score.mean_error), _plain(score.worst_error))
        refused = str(score.logs - score.answered)
        table.add_row(setting.label, *errors, f"{score.covered}/{score.logs}", refused, f"{score.seconds:.1f}")
    console.print(table, "", markup=False)

    table = study.plain_table("The default: estimates over logs, and the logs' diagnostics")
    for name in ("controller", "noise", "truth", "logged", "estimate", "sd", "s.e.", "cover"):
        table.add_column(name, justify="left" if name == "controller" else "right", no_wrap=True)
    table.add_column("bad/caution", justify="right", no_wrap=True)
    for cell in result.of(settings(config)[0]):
        verdicts = [str(verdict) for verdict in result.gathered(cell.controller, cell.noise, "verdict")]
        behavior = result.behavior(cell.controller, cell.noise)
        numbers = (cell.truth, behavior, cell.estimate, cell.deviation, cell.standard_error)
        cover = f"{cell.covered}/{config.logs}"
        said = f"{verdicts.count('bad')}/{verdicts.count('caution')}"
        table.add_row(cell.controller, f"{cell.noise:g}", *(_plain(number) for number in numbers), cover, said)
    console.print(table, "", markup=False)


def verdict(result: Result) -> list[str]:
    """Sentences that say what was found."""
    lines = [_truths(result), _default(result)]
    failures = _failures(result)
    if failures:
        lines.append(f"The default FAILS for {'; '.join(failures)}.")
    lines += [_diagnostics(result), _spread(result), *_by_ridge_alone(result), _hindsight(result)]
    return [line for line in lines if line]


def _truths(result: Result) -> str:
    parts = [
        f"{name} {truth.rate:.4f} (simulated {truth.simulated:.4f} ± {truth.standard_error:.4f}"
        + ("" if truth.is_confirmed else f", NOT within {CHECK:g} standard errors")
        + f"; shifted grid {truth.shifted - truth.rate:+.1e})"
        for name, truth in result.truths.items()
    ]
    return f"True rates: {', '.join(parts)}."


def _default(result: Result) -> str:
    score = result.scores[settings(result.config)[0]]
    refused = f", {_logs(score.logs - score.answered)} refused" if score.answered < score.logs else ""
    return (
        f"Default: mean |error| {_plain(score.mean_error)}, worst {_plain(score.worst_error)}, intervals of "
        f"{100 * CONFIDENCE:g} % cover the truth in {score.covered} of {_logs(score.logs)}{refused}; the logs' own rate would be "
        f"off by {result.behavior_error:.3f}."
    )


def _failures(result: Result) -> list[str]:
    """Cells where the default's intervals miss too often, or where it errs more than doing nothing would."""
    found = []
    for cell in result.of(settings(result.config)[0]):
        behavior = float(np.abs(result.gathered(cell.controller, cell.noise, "behavior") - cell.truth).mean())
        error = float(np.nanmean(np.abs(cell.errors))) if cell.answered else math.nan
        reasons = []
        if cell.covered < ENOUGH * len(cell.errors):
            reasons.append(f"covers {cell.covered} of {len(cell.errors)}")
        if not error < behavior:
            reasons.append(f"mean |error| {_plain(error)}, not below the logs' own {behavior:.3f}")
        if reasons:
            found.append(f"{_words(cell)} ({', '.join(reasons)})")
    return found


def _diagnostics(result: Result) -> str:
    """Do diagnostics tell good answers from bad ones?"""
    misses: list[str] = []
    hits: list[str] = []
    for cell in result.of(settings(result.config)[0]):
        low, high = (result.gathered(cell.controller, cell.noise, name)[:, 0] for name in ("low", "high"))
        verdicts = result.gathered(cell.controller, cell.noise, "verdict")
        for covers, said in zip((low <= cell.truth) & (cell.truth <= high), verdicts):
            (hits if covers else misses).append(str(said))
    parts = [
        f"of {_logs(len(said))} whose interval {what} the truth, {said.count('bad')} bad and {said.count('caution')} caution"
        for said, what in ((misses, "misses"), (hits, "holds"))
        if said
    ]
    return f"Diagnostics of the default: {'; '.join(parts)}."


def _spread(result: Result) -> str:
    """How far equal maps without a ridge are apart under the strongest noise."""
    noise, parts = result.config.noises[-1], []
    for name, truth in result.truths.items():
        plain = [
            cell.errors + truth.rate
            for cell in result.cells
            if (cell.controller, cell.noise) == (name, noise)
            and cell.setting.features.startswith("fourier")
            and cell.setting[2:] == ("same", "auto")
        ]
        values = np.concatenate(plain)
        values = values[np.isfinite(values)]
        if len(values):
            parts.append(f"{name} {values.min():.3f} to {values.max():.3f} (truth {truth.rate:.3f})")
    return f"Equal Fourier maps without a ridge at noise {noise:g} range: {', '.join(parts)}." if parts else ""


def _by_ridge_alone(result: Result) -> list[str]:
    fits = sum(score.answered - score.identified for score in result.scores.values())
    return [f"Answers that came from a ridge though the log does not identify the rate: {fits}."] if fits else []


def _hindsight(result: Result) -> str:
    scored = {s: score for s, score in result.scores.items() if score.answered == score.logs}
    if not scored:
        return ""
    best = min(scored, key=lambda setting: scored[setting].mean_error)
    return f"In hindsight {best.label} has the least mean |error|, {_plain(scored[best].mean_error)}; nothing was chosen by it."


def _worst(cell: Cell) -> float:
    return float(np.nanmax(np.abs(cell.errors))) if cell.answered else math.nan


def _words(cell: Cell) -> str:
    return f"{cell.controller}, noise {cell.noise:g}"


def _logs(count: int) -> str:
    return "1 log" if count == 1 else f"{count} logs"


def _plain(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "-"


def _signed(value: float) -> str:
    return f"{value:+.3f}" if math.isfinite(value) else "-"


def plot(result: Result) -> "Figure":
    """Every estimate: a panel per controller, a band per setting, a line of dots per noise."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    config, chosen = result.config, settings(result.config)
    figure = Figure(figsize=(3.5 + 4.75 * len(config.controllers), 1.8 + 0.42 * len(chosen)))
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained")
    panels = figure.subplots(1, len(config.controllers), sharey=True, squeeze=False)[0]
    for controller, panel in zip(config.controllers, panels):
        _draw(panel, result, controller)
    panels[0].set_yticks(range(len(chosen)), [setting.label for setting in chosen])
    panels[0].get_yticklabels()[0].set_fontweight("bold")
    panels[0].set_ylim(len(chosen) - 0.5, -0.5)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    figure.suptitle(
        f"Each mark is a log of {config.rows:,} rows; arrows: beyond the axis; n/m: only n of m logs were answered",
        fontsize=9,
        color="0.35",
    )
    return figure


def _draw(panel: Any, result: Result, controller: str) -> None:
    config, truth = result.config, result.truths[controller].rate
    logged = [result.behavior(controller, noise) for noise in config.noises]
    low, high = min(truth, *logged), max(truth, *logged)
    margin = _MARGIN * max(high - low, 1e-3)
    low, high = low - margin, high + margin
    panel.axvline(truth, color="black", linewidth=1.4, zorder=2, label="true rate of the target")
    for band in range(0, len(settings(config)), 2):
        panel.axhspan(band - 0.5, band + 0.5, color="0.95", zorder=0)
    for k, (noise, rate) in enumerate(zip(config.noises, logged)):
        color, marker = _LOOKS[k % len(_LOOKS)]
        panel.axvline(rate, color=color, linewidth=1.1, linestyle=":", zorder=1)
        shift = 0.5 * ((k + 0.5) / len(config.noises) - 0.5)
        cells = [cell for cell in result.cells if (cell.controller, cell.noise) == (controller, noise)]
        values = np.array([cell.errors + truth for cell in cells])  # [settings, logs]
        heights = np.broadcast_to((np.arange(len(cells)) + shift)[:, None], values.shape)
        inside = (low <= values) & (values <= high)
        look = {"color": color, "zorder": 4, "clip_on": False}
        panel.scatter(
            values[inside], heights[inside], s=15, marker=marker, linewidths=0, label=f"noise {noise:g}", **look
        )
        for outside, edge, arrow in ((values < low, low, "<"), (values > high, high, ">")):
            if outside.any():
                panel.scatter(np.full(outside.sum(), edge), heights[outside], s=22, marker=arrow, linewidths=0, **look)
        for i, cell in enumerate(cells):
            if cell.answered < len(cell.errors):
                share = f"{cell.answered}/{len(cell.errors)}"
                panel.annotate(share, (high, i + shift), (3, 0), textcoords="offset points", fontsize=6, va="center")
    panel.plot([], [], color="0.35", linewidth=1.1, linestyle=":", label="mean logged reward, by color")
    panel.set_xlim(low, high)
    panel.set_xlabel("reward per step")
    panel.set_title(f"{controller} controller", fontsize=11)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(axis="y", length=0)
