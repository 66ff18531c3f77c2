"""Where a command's answer goes: standard output, which nothing else reaches while the command works."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, TextIO

import typer

from cesaro.text import visible

if TYPE_CHECKING:
    from rich.console import Console


# What a shell says of a program that wrote to a pipe which nobody reads any more: 128 and the number of SIGPIPE.
UNREAD = 141


class _StandardOutput:
    """Whether this process may rearrange its standard output, and what leads there once it has."""

    is_own = False
    kept: TextIO | None = None


_STANDARD = _StandardOutput()


@contextmanager
def claimed() -> Iterator[None]:
    """Say that this process is the program itself: what runs commands in a process of its own has other plans for its output."""
    _STANDARD.is_own = True
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a letter is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    try:
        first = os.dup(1)
    except OSError:
        first = -1  # it is closed
    try:
        yield
    except SystemExit as ended:
        if ended.code == 1 and _is_unread(first):  # so the libraries end that print help and versions
            raise SystemExit(UNREAD) from None
        raise
    finally:
        if _STANDARD.kept is not None:
            with suppress(OSError):  # it was said when it was written
                _STANDARD.kept.close()


def _is_unread(descriptor: int) -> bool:
    """Whether it leads to a pipe that nobody reads any more."""
    if descriptor < 0 or not hasattr(select, "poll"):
        return False
    asked = select.poll()
    asked.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in asked.poll(0))


def is_own() -> bool:
    """Whether this process is the program itself."""
    return _STANDARD.is_own


def keep_apart() -> None:
    """From now on what anybody prints, in whatever way, goes to stderr: policies, their threads and processes, C libraries."""
    if _STANDARD.kept is not None:
        return
    encoding = getattr(sys.stdout, "encoding", None)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.flush()
        sys.stdout.reconfigure(line_buffering=True)
    try:
        answer: int | str = os.dup(1)
    except OSError:
        answer = os.devnull  # it is closed
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _STANDARD.kept = open(answer, "w", encoding=encoding, errors="backslashreplace")  # noqa: SIM115 - to the end


def stream() -> TextIO:
    """The stream that leads to standard output."""
    return _STANDARD.kept or sys.stdout


def echo(line: str, *, aside: bool = False) -> None:
    """A line of the answer, or a line `aside`, on stderr."""
    if aside:
        typer.echo(visible(line), err=True)
    else:
        document(visible(line))


def document(text: str) -> None:
    """The answer as one document of several lines."""
    try:
        typer.echo(text, file=stream())
    except BrokenPipeError:
        raise typer.Exit(UNREAD) from None


def console() -> "Console":
    """Rich output, as wide and as colorful as standard output is."""
    from rich.console import Console

    class AnswerConsole(Console):
        def on_broken_pipe(self) -> None:
            raise typer.Exit(UNREAD)

    width = None
    if _STANDARD.kept is not None and _STANDARD.kept.isatty() and not os.environ.get("COLUMNS", "").isdigit():
        width = os.get_terminal_size(_STANDARD.kept.fileno()).columns
    return AnswerConsole(file=stream(), highlight=False, width=width)
