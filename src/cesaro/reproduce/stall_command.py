"""The command `cesaro reproduce stall`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cesaro.commands.errors import one_line_errors
from cesaro.commands.studies import print_study
from cesaro.errors import InputError

_OUT = Path("out")


def stall(
    seeds: Annotated[int | None, typer.Option(help="Runs per problem and method.", show_default="2")] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A glance in seconds: one problem, 10,000 rows, 3,600 steps, 1 run.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for the results; work in progress is in the same name + '.partial'.")
    ] = _OUT / "stall",
    force: Annotated[bool, typer.Option("--force", help="Replace the results of an earlier run.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    workers: Annotated[int, typer.Option(help="Threads; the results do not depend on it.")] = 2,
) -> None:
    """Why a network trained with Diff-GQ1 stays near the log's rate: slow, misled by noise, or free to fit any rate?"""
    with one_line_errors():
        from cesaro.reproduce.stall import QUICK, Config, run
        from cesaro.reproduce.study import check_workers

        if quick and seeds is not None:
            raise InputError(
                f"--quick means --seeds {QUICK['seeds']} and more; give one of the two. Got --seeds {seeds} as well."
            )
        size = QUICK if quick else {"seeds": Config.seeds if seeds is None else seeds}
        config = Config(seed=seed, **size)
        check_workers(workers)
        if out.parent == _OUT:
            _OUT.mkdir(exist_ok=True)
        result = run(config, out, workers=workers, force=force, quiet=quiet)
    show(result, out)


def show(result: Any, out: Path) -> None:
    """Print the tables and the verdict."""
    from cesaro.reproduce.stall.show import print_tables, verdict

    print_study(result, out, print_tables, verdict, "walks.csv, noise.csv, networks.csv, stall.png")
