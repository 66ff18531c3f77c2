"""Files and pictures of a scoreboard."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.report import style
from cesaro.reproduce import study
from cesaro.suite.design import LARGE, Cell
from cesaro.suite.scoreboard import (
    JUDGED,
    SHOWN_VERDICTS,
    WRONG,
    Judged,
    Overall,
    Score,
    Scoreboard,
    faulty_rows,
    judgements,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Errors beyond this are off the colors' end.
WORST = 3.0


def write(board: Scoreboard, work: study.Folder) -> None:
    """All answers, scores by system, overall scores and ranks, what verdicts are worth, faults, and three pictures per side."""
    rows = board.table()
    names = list(dict.fromkeys(name for row in rows for name in row))
    study.write_csv(work.file("answers.csv"), names, ([row.get(name) for name in names] for row in rows))
    _write_scores(board, work)
    for side in board.sides:
        part = board.on_side(side)
        pictures = {"coverage": coverage, "errors": errors, "verdicts": verdicts} if part.systems else {}
        for name, picture in pictures.items():
            figure = picture(part)
            if figure is not None:
                style.save_png(figure, work.file(f"{side}_{name}.png"))


def _write_scores(board: Scoreboard, work: study.Folder) -> None:
    by_system = [
        (side, system, cell.rows, cell.label, method, *score, *(ranks[1:] if ranks else (math.nan, math.nan)))
        for side in board.sides
        for part in [board.on_side(side)]
        for system in part.systems
        for cell in part.cells
        for method in part.methods
        if (score := part.score(method, system, cell)) is not None
        for ranks in [part.ranks(method, system, cell)]
    ]
    own = (*Score._fields, "rank_correlation", "regret")
    study.write_csv(work.file("scores.csv"), ("side", "system", "rows", "logs_of", "method", *own), by_system)
    overall = [
        (side, kind, cell.rows, cell.label, method, *one)
        for side in board.sides
        for kind in board.on_side(side).kinds
        for part in [board.on_side(side, kind)]
        for cell in part.cells
        for method in part.methods
        if (one := part.overall(method, cell)) is not None
    ]
    study.write_csv(work.file("overall.csv"), ("side", "kind", "rows", "logs_of", "method", *Overall._fields), overall)
    faults = [
        (side, system, method, len(rows), *(sum(row.verdict == verdict for row in rows) for verdict in SHOWN_VERDICTS))
        for side in board.sides
        for part in [board.on_side(side)]
        for system in part.faulty
        for method in part.methods
        for rows in [faulty_rows(part, method, system)]
        if rows
    ]
    judged = [(side, *row) for side in board.sides for row in judgements(board.on_side(side))]
    study.write_csv(work.file("verdicts.csv"), ("side", "method", "verdict", *Judged._fields), judged)
    study.write_csv(work.file("faults.csv"), ("side", "system", "method", "logs", *SHOWN_VERDICTS), faults)


def coverage(board: Scoreboard) -> "Figure | None":
    """How often intervals hold the truth, against how wide they are: a dot per system, a name per method."""
    cell = LARGE if LARGE in board.cells else board.cells[0]
    methods = _with_intervals(board, cell)
    if not methods:
        return None
    with style.drawing():
        figure = style.figure(9, 5)
        axes = figure.subplots()
        axes.axhline(0.95, color="0.6", linewidth=1, linestyle="--")
        for number, method in enumerate(methods):
            scores = [one for name in board.systems if (one := board.score(method, name, cell)) is not None]
            mean = board.overall(method, cell)
            assert mean is not None
            color = f"C{number}"
            axes.scatter([s.half_width for s in scores], [s.coverage for s in scores], s=12, color=color, alpha=0.35)
            axes.scatter([mean.half_width], [mean.coverage], s=80, color=color, label=method, edgecolor="black")
        axes.set(xscale="log", xlabel="half width of the interval, in scales", ylim=(-0.03, 1.03))
        axes.xaxis.set_major_formatter(_plainly)
        axes.xaxis.set_minor_formatter("")
        axes.set_ylabel("share of intervals that hold the truth")
        axes.set_title(f"{len(board.systems)} systems, {cell.rows:,} rows; large dots: mean over systems")
        style.clean(axes, grid="both")
        figure.legend(loc="outside right center", fontsize=9)
    return figure


def _with_intervals(board: Scoreboard, cell: Cell) -> list[str]:
    found = [(method, board.overall(method, cell)) for method in board.methods]
    return [method for method, one in found if one is not None and not math.isnan(one.coverage)]


def errors(board: Scoreboard) -> "Figure | None":
    """Root mean square errors by system and method, as a heat map."""
    from matplotlib.colors import LogNorm

    cell = board.cells[0]
    methods = [method for method in board.methods if board.overall(method, cell) is not None]
    if not methods:
        return None
    table = np.array([[_error(board, method, system, cell) for system in board.systems] for method in methods])
    with style.drawing():
        figure = style.figure(3.2 + 0.75 * len(board.systems), 2.2 + 0.32 * len(methods))
        axes = figure.subplots()
        image = axes.imshow(table, norm=LogNorm(0.01, WORST), cmap="YlOrRd", aspect="auto")
        for (i, j), value in np.ndenumerate(table):
            if not math.isnan(value):
                color = "white" if value > WORST / 4 else "black"
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=8, color=color)
        axes.set_xticks(range(len(board.systems)), board.systems, rotation=40, ha="right", fontsize=8)
        axes.set_yticks(range(len(methods)), map(style.label, methods), fontsize=8)
        axes.set_title(f"root mean square error, in scales; {cell.rows:,} rows")
        figure.colorbar(image, ax=axes, shrink=0.8, format=_plainly)
    return figure


def _plainly(value: float, _: Any = None) -> str:
    return f"{value:g}"


def _error(board: Scoreboard, method: str, system: str, cell: Cell) -> float:
    one = board.score(method, system, cell)
    return math.nan if one is None else one.error


def verdicts(board: Scoreboard) -> "Figure | None":
    """How many of the answers of each verdict are close."""
    methods = [method for method in board.methods if board.verdicts(method)]
    if not methods:
        return None
    bands = ((0.0, WRONG, "below 10 %"), (WRONG, 0.3, "10 to 30 %"), (0.3, math.inf, "more"))
    with style.drawing():
        figure = style.figure(7, 1.2 + 0.5 * len(JUDGED) * len(methods))
        axes = figure.subplots()
        labels: list[str] = []
        for method in methods:
            found = board.verdicts(method)
            for verdict in JUDGED:
                rows = found.get(verdict, [])
                if not rows:
                    continue
                left = 0.0
                for number, (low, high, name) in enumerate(bands):
                    share = float(np.mean([low <= abs(row.error) < high for row in rows]))
                    color = ("#2c7fb8", "#fec44f", "#d95f0e")[number]
                    axes.barh(len(labels), share, left=left, color=color, label=name if not labels else None)
                    left += share
                labels.append(f"{method}: {verdict} ({len(rows)})")
        axes.set_yticks(range(len(labels)), labels)
        axes.set(
            ylim=(len(labels) - 0.5, -0.5), xlim=(0, 1), xlabel="share of answers by the size of the error, in scales"
        )
        style.clean(axes)
        figure.legend(loc="outside upper center", ncols=3, fontsize=9, title="error")
    return figure
