"""`cesaro inspect`: what a log seems to be, and the command that evaluates it."""

import json as document
from typing import Annotated

import typer

from cesaro.commands import output
from cesaro.commands.errors import one_line_errors
from cesaro.commands.options import (
    Action,
    Cost,
    LogPath,
    Observation,
    Reward,
    Terminated,
    Time,
    Trajectory,
    Truncated,
    roles_of,
)

# What `cesaro.inspect` takes, by the names of the options.
ROLES = ("observation", "action", "reward", "cost", "trajectory", "time", "terminated", "truncated")


def inspect(
    log: LogPath,
    policy: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            help="The policy in the proposed command, tried where no name tells the action; logged is what the log did.",
        ),
    ] = "logged",
    observation: Observation = None,
    action: Action = None,
    reward: Reward = None,
    cost: Cost = None,
    trajectory: Trajectory = None,
    time: Time = None,
    terminated: Terminated = None,
    truncated: Truncated = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN|ROLE", help="Use this column for no role, or no column for this role; may be repeated."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
) -> None:
    """Look at a log and propose how to read it: the columns' roles and kinds, their order, and the command to paste.

    Roles that you give are kept, and the rest of the proposal follows from them.
    """
    given = locals()
    with one_line_errors(resumes=False):
        from cesaro.inspection import inspect as look

        columns = [name for name in ignore or () if name.replace("-", "_") not in (*ROLES, "done", "dones")]
        given["ignore"] = [name for name in ignore or () if name not in columns]
        found = look(log, policy=policy, ignore=columns, **roles_of(given, ROLES))
        if json:
            output.document(document.dumps(found.to_dict(), indent=2, allow_nan=False))
        else:
            output.document(str(found))
