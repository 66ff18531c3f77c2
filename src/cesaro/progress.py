"""Progress on stderr: a bar on a terminal, a line now and then elsewhere, nothing when quiet."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def progress(label: str, *, total: int, done: int = 0, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """A function to call after each of `total` pieces."""
    if quiet:
        yield lambda: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label, total=total, completed=done)
            yield lambda: bar.advance(task)
    else:
        last = time.monotonic()

        def advance() -> None:
            nonlocal done, last
            done += 1
            if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                print(f"{label}: {done} of {total} pieces", file=sys.stderr, flush=True)

        yield advance
