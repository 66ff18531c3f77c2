"""Progress on stderr: a bar on a terminal, a line now and then elsewhere, nothing when quiet."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_SECONDS_BETWEEN_LINES = 5.0
_SECONDS_BEFORE_A_STAGE = 2.0


@cache
def _console() -> "Console":
    """One console for the process: it knows whether a bar is on show."""
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def progress(label: str, *, total: int, done: int = 0, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """A function to call after each of `total` pieces."""
    if quiet:
        yield lambda: None
    elif sys.stderr.isatty():
        from rich.errors import LiveError
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        bar = Progress(*columns, console=_console(), transient=True)
        task = bar.add_task(label, total=total, completed=done)
        try:
            bar.start()
        except LiveError:  # a bar is on show already, from another thread or around this work
            yield lambda: None
            return
        try:
            yield lambda: bar.advance(task)
        finally:
            bar.stop()
    else:
        last = time.monotonic()

        def advance() -> None:
            nonlocal done, last
            done += 1
            if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                print(f"{label}: {done} of {total} pieces", file=sys.stderr, flush=True)

        yield advance


@contextmanager
def stage(label: str, *, quiet: bool = False) -> Iterator[None]:
    """Something that may take seconds and has no pieces to count: a spinner with its time on a terminal, a line elsewhere."""
    if quiet:
        yield
        return
    if not sys.stderr.isatty():
        timer = threading.Timer(_SECONDS_BEFORE_A_STAGE, _say, [f"{label} …"])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
        return
    from rich.errors import LiveError
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    spinner = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=_console(), transient=True
    )
    spinner.add_task(label, total=None)
    try:
        spinner.start()
    except LiveError:
        yield
        return
    try:
        yield
    finally:
        spinner.stop()


def _say(line: str) -> None:
    with suppress(OSError, ValueError):  # nobody reads it
        print(line, file=sys.stderr, flush=True)
