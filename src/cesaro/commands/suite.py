"""`cesaro suite`: score methods on systems whose answers are known."""

from pathlib import Path
from typing import Annotated

import typer

from cesaro.commands import output
from cesaro.commands.errors import one_line_errors
from cesaro.commands.reproduce import Address, Engine, Force, Out, Quiet, Seed, make_own_folder
from cesaro.devices import starting_jax


def suite(
    only: Annotated[
        list[str] | None,
        typer.Option(help="A system; repeat for more.", show_default="every development system"),
    ] = None,
    exam: Annotated[
        bool,
        typer.Option(
            "--exam", help="Exam systems too. Look at them once, when nothing is left to choose: they judge a release."
        ),
    ] = False,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="A method, a group (closed, default, learned, network, world), all, or your own: file.py:NAME; may be repeated.",
            show_default="closed",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few logs of each system: minutes instead of hours.")
    ] = False,
    logs: Annotated[
        int | None,
        typer.Option(help="At most so many logs of each kind, where fewer will do.", show_default="as the design has"),
    ] = None,
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            help="A folder of a finished scoreboard, whose other methods are shown beside these; repeat for more."
        ),
    ] = None,
    seed: Seed = 0,
    out: Out = Path("out") / "suite",
    force: Force = False,
    quiet: Quiet = False,
    workers: Annotated[
        int | None, typer.Option(help="Processes; the results do not depend on it.", show_default="every core")
    ] = None,
    engine: Engine = "local",
    address: Address = None,
) -> None:
    """Score methods on systems whose answers are known: errors, coverage, ranks, and how often "ok" was wrong."""
    with one_line_errors():
        with starting_jax():
            from cesaro.suite import run, scoreboard
        from cesaro.engines import using

        make_own_folder(out)
        with using(engine, address):
            board = run.score(
                method or ["closed"],
                only=only or None,
                exam=exam,
                quick=quick,
                logs=logs,
                beside=beside or (),
                out=out,
                seed=seed,
                workers=workers,
                force=force,
                quiet=quiet,
            )
    console = output.console()
    for table in scoreboard.tables(board):
        console.print(table)
        console.print()
    output.echo(f"Results: {out} (answers, scores, overall, verdicts and faults as .csv, pictures, manifest.json)")
