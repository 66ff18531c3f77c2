"""Commands that only take a log: `cesaro inspect` proposes how to read it, `cesaro sort` sorts one that is larger than memory."""

import json as document
from pathlib import Path
from typing import Annotated

import typer

from cesaro.commands import program
from cesaro.commands.options import (
    Action,
    Cost,
    LogPath,
    Observation,
    PlainForce,
    PlainJson,
    PlainQuiet,
    Reward,
    Terminated,
    Time,
    Trajectory,
    Truncated,
    roles_of,
)
from cesaro.commands.program import one_line_errors

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
    json: PlainJson = False,
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
            program.document(document.dumps(found.to_dict(), indent=2, allow_nan=False))
        else:
            program.document(str(found))


def sort(
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG", help="A Parquet, CSV or Arrow file, a folder of such files, a pattern or an address."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The sorted log, a .parquet file.", show_default=False)],
    trajectory: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Ids that say which rows belong together.", show_default=False)
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Times that order the rows of a trajectory.", show_default=False),
    ] = None,
    skip_bad_files: Annotated[
        bool, typer.Option("--skip-bad-files", help="Leave out files that cannot be read, and say which.")
    ] = False,
    force: PlainForce = False,
    quiet: PlainQuiet = False,
) -> None:
    """Sort a log by trajectory and time, whatever its size, so that `cesaro evaluate` can read it in blocks."""
    with one_line_errors(resumes=False):
        from cesaro.data.sorting import sort as sort_log

        rows = sort_log(
            log,
            out,
            trajectory=trajectory,
            time=time,
            force=force,
            skip_bad_files=skip_bad_files,
            quiet=quiet,
            tell=lambda note: program.echo(note, aside=True),
        )
        program.echo(f"{rows:,} rows, sorted: {out}")
