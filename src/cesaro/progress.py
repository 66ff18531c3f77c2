"""Progress on stderr: a bar on a terminal, a line now and then elsewhere, nothing when quiet."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_SECONDS_BETWEEN_LINES = 5.0
_SECONDS_BEFORE_A_STAGE = 2.0


@cache
def _console() -> "Console":
    """One console for the process: it knows whether a bar is on show."""
    from rich.console import Console

    return Console(stderr=True)


# What the work at hand is a part of, such as "policy 2 of 3: ".
_PART: ContextVar[str] = ContextVar("part", default="")


@contextmanager
def part(label: str) -> Iterator[None]:
    """Whatever is shown meanwhile begins with this label."""
    token = _PART.set(f"{label}: ")
    try:
        yield
    finally:
        _PART.reset(token)


@contextmanager
def progress(label: str, *, total: int, done: int = 0, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """A function to call after each of `total` pieces."""
    label = _PART.get() + label
    if quiet:
        yield lambda: None
    elif sys.stderr.isatty():
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        bar = Progress(*columns, console=_console(), transient=True)
        task = bar.add_task(label, total=total, completed=done)
        with _shown(bar):
            yield lambda: bar.advance(task)
    else:
        last = time.monotonic()

        def advance() -> None:
            nonlocal done, last
            done += 1
            if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                _say(f"{label}: {done} of {total} pieces")

        yield advance


@contextmanager
def row_progress(label: str, *, total: int, done: int = 0, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of rows that were done: shows rows, rows per second and the time left."""
    label = _PART.get() + label
    if quiet:
        yield lambda rows: None
    elif sys.stderr.isatty():
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=_console(),
            transient=True,
        )
        task = bar.add_task(label, total=total, completed=done, rate="")
        began, count = time.monotonic(), 0

        def show(rows: int) -> None:
            nonlocal count
            count += rows
            bar.update(task, advance=rows, rate=f"{count / max(time.monotonic() - began, 1e-3):,.0f} rows/s")

        with _shown(bar):
            yield show
    else:
        began = last = time.monotonic()
        count = 0

        def say(rows: int) -> None:
            nonlocal count, last
            count += rows
            now = time.monotonic()
            if now - last >= _SECONDS_BETWEEN_LINES and count:
                last = now
                rate = count / (now - began)
                left = (total - done - count) / rate
                _say(f"{label}: {done + count:,} of {total:,} rows, {rate:,.0f} rows/s, {left:,.0f} s left")

        yield say


@contextmanager
def stage(label: str, *, quiet: bool = False) -> Iterator[None]:
    """Something that may take seconds and has no pieces to count: a spinner with its time on a terminal, a line elsewhere."""
    label = _PART.get() + label
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
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    spinner = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=_console(), transient=True
    )
    spinner.add_task(label, total=None)
    with _shown(spinner):
        yield


@contextmanager
def _shown(bar: "Progress") -> Iterator[None]:
    """Show a bar meanwhile, unless one is on show already, from another thread or around this work."""
    from rich.errors import LiveError

    try:
        bar.start()
    except LiveError:
        yield
        return
    try:
        yield
    finally:
        bar.stop()


def announce(line: str, *, quiet: bool = False) -> None:
    """A line that stays, before something long begins."""
    if not quiet:
        _say(_PART.get() + line)


def _say(line: str) -> None:
    with suppress(OSError, ValueError):  # nobody reads it
        print(line, file=sys.stderr, flush=True)
