"""The command `cesaro`. Every command imports what it needs itself, so that `cesaro --help` answers at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cesaro import __version__
from cesaro.errors import CesaroError, InputError

if TYPE_CHECKING:
    from cesaro.reproduce.assumption import Result

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
reproduce = typer.Typer(no_args_is_help=True, help="Repeat the paper's figures and tables.")
app.add_typer(reproduce, name="reproduce")

# Studies write here unless told otherwise; this folder is ours to make, any other must exist.
_OUT = Path("out")

Out = Annotated[Path, typer.Option(help="Folder for the results; work in progress is in the same name + '.partial'.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the results of an earlier run.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]
Workers = Annotated[int, typer.Option(help="Threads; the results do not depend on it.")]


def main() -> None:
    """The entry point of the `cesaro` command."""
    app(prog_name="cesaro")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cesaro {__version__}")
        raise typer.Exit


@app.callback()
def _cesaro(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """What would this policy earn per step, in the long run? Average-reward off-policy evaluation from logs."""


@reproduce.command()
def assumption(
    trials: Annotated[int | None, typer.Option(help="Random chains per table row.", show_default="10000")] = None,
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A glance in seconds: 300 trials.")] = False,
    simplex: Annotated[
        str,
        typer.Option(help="How rows of P are drawn: stick-breaking, or uniform (the paper's wording, for contrast)."),
    ] = "stick-breaking",
    out: Out = _OUT / "assumption",
    force: Force = False,
    quiet: Quiet = False,
    workers: Workers = 2,
) -> None:
    """Tables 1 and 2: how often the assumption that F is positive semidefinite holds on random chains."""
    with _one_line_errors():
        from cesaro.reproduce.assumption import QUICK_TRIALS, Config, run
        from cesaro.reproduce.study import check_workers

        if quick and trials is not None:
            raise InputError(
                f"--quick means --trials {QUICK_TRIALS}; give one of the two. Got --trials {trials} as well."
            )
        wanted = QUICK_TRIALS if quick else Config.trials if trials is None else trials
        config = Config(trials=wanted, seed=seed, simplex=simplex)
        check_workers(workers)
        _make_own_folder(out)
        result = run(config, out, workers=workers, force=force, quiet=quiet)
    _print_assumption(result, out)


def _print_assumption(result: "Result", out: Path) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from cesaro.reproduce.assumption import PROMISED_MAX, PROMISED_RMS, Config

    config, console = result.config, Console(highlight=False)
    for xi in config.xis:
        title = f"Share of trials with F positive semidefinite, xi = {xi:g}: ours (paper)"
        # Fits in 80 columns; where there are fewer, numbers go to a second line rather than lose digits.
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
        table.add_column("n", justify="right", no_wrap=True)
        for sigma in config.sigmas:
            table.add_column(f"sigma {sigma:g}", justify="right", overflow="fold")
        for size in config.sizes:
            cells = [cell for cell in result.cells if (cell.xi, cell.pairs) == (xi, size)]
            table.add_row(str(size), *(f"{cell.probability:.3f} ({cell.published:.2f})" for cell in cells))
        console.print(table, "")
    found = f"largest difference {result.max_difference:.3f}, RMS {result.rms_difference:.4f}"
    promise = f"promised: at most {PROMISED_MAX} and {PROMISED_RMS}"
    if result.is_full:
        verdict = "Reproduced" if result.is_within_promise else "NOT reproduced"
        typer.echo(f"{verdict}: {found} ({promise}).")
    else:
        full = f"only for stick-breaking rows and at least {Config.trials:,} trials"
        typer.echo(f"No verdict: {found} ({promise}, but {full}).")
    typer.echo(f"Results: {out} (assumption.csv, assumption.png, manifest.json)")


def _make_own_folder(out: Path) -> None:
    if out.parent == _OUT:
        _OUT.mkdir(exist_ok=True)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn what a user can mend into one line on stderr; a bug keeps its traceback."""
    try:
        yield
    except CesaroError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    except OSError as error:
        typer.echo(f"error: {error}; once that is mended, the same command resumes.", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        typer.echo("interrupted: the same command resumes where this one stopped.", err=True)
        raise typer.Exit(130) from error


if __name__ == "__main__":
    main()
