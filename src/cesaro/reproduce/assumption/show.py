"""Tables 1 and 2 beside the published ones: a CSV file, what is printed, the verdict, and a picture."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cesaro.reproduce import looks, study
from cesaro.reproduce.assumption.config import AssumptionConfig
from cesaro.reproduce.assumption.run import PROMISED_MAX, PROMISED_RMS, AssumptionResult, TableEntry

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console


def files(result: AssumptionResult) -> study.Files:
    """The writers of the files that hold the results, but for the manifest."""
    return {"assumption.csv": partial(write_cells, result), "assumption.png": study.picture(plot, result)}


def write_cells(result: AssumptionResult, file: Path) -> None:
    """A row per entry of the tables."""
    columns = ("pairs", "sigma", "xi", "probability", "standard_error", "published", "difference", "trials")
    study.write_csv(file, columns, ((getattr(cell, column) for column in columns) for cell in result.cells))


def print_tables(result: AssumptionResult, console: "Console") -> None:
    """Our shares beside the published ones."""
    config = result.config
    for xi in config.xis:
        title = f"Share of trials with F positive semidefinite, xi = {xi:g}: ours (paper)"
        # Fits in 80 columns; where there are fewer, numbers go to a second line rather than lose digits.
        table = study.plain_table(title, right=["n"])
        for sigma in config.sigmas:
            table.add_column(f"sigma {sigma:g}", justify="right", overflow="fold")
        for size in config.sizes:
            cells = [cell for cell in result.cells if (cell.xi, cell.pairs) == (xi, size)]
            table.add_row(str(size), *map(_share, cells))
        console.print(table, "")


def _share(cell: TableEntry) -> str:
    ours = f"{cell.probability:.3f}"
    return ours if cell.published is None else f"{ours} ({cell.published:.2f})"


def verdict(result: AssumptionResult) -> list[str]:
    """Whether the published tables were met."""
    found = f"largest difference {result.max_difference:.3f}, RMS {result.rms_difference:.4f}"
    promise = f"promised: at most {PROMISED_MAX} and {PROMISED_RMS}"
    if result.is_full:
        said = "Reproduced" if result.is_within_promise else "NOT reproduced"
        return [f"{said}: {found} ({promise})."]
    full = f"only for stick-breaking rows and at least {AssumptionConfig.trials:,} trials"
    return [f"No verdict: {found} ({promise}, but {full})."]


def plot(result: AssumptionResult) -> "Figure":
    """A heat map per ξ: a row per size, a column per σ, ours above the published value in every cell."""
    config = result.config
    figure = looks.blank(0.9 + 0.95 * len(config.sigmas) * len(config.xis), 1.7 + 0.75 * len(config.sizes))
    panels = figure.subplots(1, len(config.xis), squeeze=False, sharey=True)[0]
    shares = np.array([cell.probability for cell in result.cells])
    shares = shares.reshape(len(config.xis), len(config.sizes), len(config.sigmas))
    for xi, panel, share in zip(config.xis, panels, shares):
        image = panel.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        panel.set_title(f"ξ = {xi:g}")
        panel.set_xlabel("noise σ of the sampling distribution")
        panel.set_xticks(range(len(config.sigmas)), [f"{sigma:g}" for sigma in config.sigmas])
        panel.set_yticks(range(len(config.sizes)), [f"{size}" for size in config.sizes])
        panel.spines[:].set_visible(False)
        panel.set_xticks(np.arange(1, len(config.sigmas)) - 0.5, minor=True)
        panel.set_yticks(np.arange(1, len(config.sizes)) - 0.5, minor=True)
        panel.tick_params(which="both", length=0)
        panel.grid(which="minor", color="white", linewidth=2)
    for index, cell in enumerate(result.cells):
        panel = panels[index // (len(config.sizes) * len(config.sigmas))]
        row, column = divmod(index % (len(config.sizes) * len(config.sigmas)), len(config.sigmas))
        color = "white" if cell.probability > 0.6 else "black"
        below = "" if cell.published is None else f"paper {cell.published:.2f}"
        panel.text(column, row - 0.12, f"{cell.probability:.3f}", color=color, ha="center", va="center", fontsize=11)
        panel.text(column, row + 0.22, below, color=color, ha="center", va="center", fontsize=8)
    panels[0].set_ylabel("state-action pairs n")
    figure.colorbar(image, ax=list(panels), label="share of trials with F ⪰ 0", pad=0.02)
    figure.suptitle(f"How often F ⪰ 0 holds on random chains ({config.trials:,} trials, {config.simplex} rows)")
    return figure
