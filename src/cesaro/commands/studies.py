"""What every study prints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer


def print_study(
    result: Any,
    out: Path,
    print_tables: Callable[[Any, Any], None],
    verdict: Callable[[Any], list[str]],
    files: str,
) -> None:
    """Tables, the verdict, and which files are where."""
    from rich.console import Console

    console = Console(highlight=False)
    print_tables(result, console)
    for line in verdict(result):
        console.print(line, markup=False)
    typer.echo(f"Results: {out} ({files}, manifest.json)")
