"""`cesaro inspect`: what a log seems to be, and the command that evaluates it."""

import json as document
from typing import Annotated

import typer

from cesaro.commands import output
from cesaro.commands.errors import one_line_errors
from cesaro.commands.evaluate import LogPath


def inspect(
    log: LogPath,
    policy: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            help="The policy in the proposed command, tried where no name tells the action; logged is what the log did.",
        ),
    ] = "logged",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
) -> None:
    """Look at a log and propose how to read it: the columns' roles and kinds, their order, and the command to paste."""
    with one_line_errors(resumes=False):
        from cesaro.inspection import inspect as look

        found = look(log, policy=policy)
        if json:
            output.document(document.dumps(found.to_dict(), indent=2, allow_nan=False))
        else:
            output.document(str(found))
