"""`cesaro rehearse`: would the tool have been right on a system like this one?"""

import json as document
from contextlib import ExitStack
from typing import Annotated, Any

import typer

from cesaro.commands import output
from cesaro.commands.errors import one_line_errors
from cesaro.commands.options import (
    Force,
    Json,
    Out,
    Quiet,
    Seed,
    Trust,
    log_options,
    policies_of,
    read_log,
    taking_options,
)
from cesaro.errors import InputError


def _options(
    candidate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A method, or features of the closed form, that is rehearsed; may be repeated. Without it: features of "
            "several families.",
        ),
    ] = None,
    worlds: Annotated[int, typer.Option(help="Systems that are learned from the log.")] = 20,
    seed: Seed = 0,
    trust: Trust = False,
    out: Out = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """The options of a rehearsal beside those of the log."""


@taking_options(log_options, _options)
def rehearse(**given: Any) -> None:
    """Would the tool have been right on a system like yours? In systems that are learned from the log, the answer is known."""
    with one_line_errors(resumes=False), ExitStack() as held:
        if len(given["policy"]) > 1:
            raise InputError(f"rehearse takes one --policy. Got {len(given['policy'])}; rehearse them one by one.")

        from cesaro import rehearsal
        from cesaro.report import folder as report

        out = None
        if given["out"] is not None:
            out = held.enter_context(report.RehearsalFolder(given["out"], force=given["force"]))
        (target,) = policies_of(given["policy"], given["trust"]).values()
        found = rehearsal.rehearse(
            read_log(given),
            target,
            given["candidate"] or "auto",
            worlds=given["worlds"],
            random_state=given["seed"],
            quiet=given["quiet"],
        )
        if given["json"]:
            output.document(document.dumps(found.to_dict(), indent=2, allow_nan=False))
        else:
            output.document(str(found))
        if out is not None:
            names = report.write_rehearsal(found, out)
            output.echo(
                f"Rehearsal: {given['out'] / names[0]} (beside it: {', '.join(names[1:])})", aside=given["json"]
            )
