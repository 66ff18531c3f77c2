"""`cesaro sort`: a log that is larger than memory, sorted so that it can be read in blocks."""

from pathlib import Path
from typing import Annotated

import typer

from cesaro.commands import output
from cesaro.commands.errors import one_line_errors


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
    force: Annotated[bool, typer.Option("--force", help="Replace what an earlier run wrote.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
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
            tell=lambda note: output.echo(note, aside=True),
        )
        output.echo(f"{rows:,} rows, sorted: {out}")
