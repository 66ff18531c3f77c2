"""Tables of the assumption study: what is printed, and the verdict."""

from typing import TYPE_CHECKING

from cesaro.reproduce.assumption.run import PROMISED_MAX, PROMISED_RMS, Config, Result
from cesaro.reproduce.study import plain_table

if TYPE_CHECKING:
    from rich.console import Console


def print_tables(result: Result, console: "Console") -> None:
    """Our shares beside the published ones."""
    config = result.config
    for xi in config.xis:
        title = f"Share of trials with F positive semidefinite, xi = {xi:g}: ours (paper)"
        # Fits in 80 columns; where there are fewer, numbers go to a second line rather than lose digits.
        table = plain_table(title)
        table.add_column("n", justify="right", no_wrap=True)
        for sigma in config.sigmas:
            table.add_column(f"sigma {sigma:g}", justify="right", overflow="fold")
        for size in config.sizes:
            cells = [cell for cell in result.cells if (cell.xi, cell.pairs) == (xi, size)]
            table.add_row(str(size), *(f"{cell.probability:.3f} ({cell.published:.2f})" for cell in cells))
        console.print(table, "")


def verdict(result: Result) -> list[str]:
    """Whether the published tables were met."""
    found = f"largest difference {result.max_difference:.3f}, RMS {result.rms_difference:.4f}"
    promise = f"promised: at most {PROMISED_MAX} and {PROMISED_RMS}"
    if result.is_full:
        said = "Reproduced" if result.is_within_promise else "NOT reproduced"
        return [f"{said}: {found} ({promise})."]
    full = f"only for stick-breaking rows and at least {Config.trials:,} trials"
    return [f"No verdict: {found} ({promise}, but {full})."]
