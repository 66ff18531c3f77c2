"""The command `cesaro`. Every command imports what it needs itself, so that `cesaro --help` answers at once."""

import os
from typing import Annotated

import typer

from cesaro import __version__
from cesaro.commands import evaluate, installation, logs, program, simulate, studies
from cesaro.devices import keep_programs

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
for command in (
    logs.inspect,
    evaluate.evaluate,
    evaluate.compare,
    evaluate.rehearse,
    simulate.collect,
    simulate.truth,
    simulate.train_target,
    logs.sort,
    installation.examples,
    studies.suite,
    installation.doctor,
):
    app.command()(command)
app.add_typer(studies.app, name="reproduce")


def main() -> None:
    """The entry point of the `cesaro` command."""
    os.environ["MPLBACKEND"] = "agg"  # no window is opened, and a name that matplotlib lacks would end its import
    keep_programs()
    with program.claimed():
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


if __name__ == "__main__":
    main()
