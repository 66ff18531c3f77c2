"""A command as a program: its standard output, errors that a user can fix in one line, and signals that ask it to end.

While a command works, nothing but its answer reaches standard output; SIGTERM and SIGHUP do what Ctrl-C does.
"""

import gc
import os
import re
import select
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from types import FrameType
from typing import TYPE_CHECKING, TextIO

import typer

from cesaro.errors import CesaroError
from cesaro.text import for_command_line, redacted, visible

if TYPE_CHECKING:
    from rich.console import Console


# What a shell says of a program that wrote to a pipe which nobody reads any more: 128 and the number of SIGPIPE.
UNREAD = 141
# A program such as `timeout` sends the same signal to a process and to its group; a person who sends another one waits longer.
_SAME_SECONDS = 1.0
# Until an interruption is tried again, and until one comes in the middle of an import as well.
_AGAIN_SECONDS, _IMPORT_SECONDS = 0.05, 5.0
# How long threads that still run may delay the end of an interrupted program: those of a policy, or of a library's timer.
_END_SECONDS = 5.0
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


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
        gc.freeze()  # or Python would go through all objects of JAX and others on its way out, for half a second


def loaded() -> None:
    """Say that what a command needs is imported: where this process is the program, garbage is no longer looked for among it."""
    if _STANDARD.is_own:
        gc.freeze()


def _is_unread(descriptor: int) -> bool:
    """Whether it leads to a pipe that nobody reads any more."""
    if descriptor < 0 or not hasattr(select, "poll"):
        return False
    asked = select.poll()
    asked.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in asked.poll(0))


def _keep_apart() -> None:
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


def _stream() -> TextIO:
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
        typer.echo(text, file=_stream())
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
    return AnswerConsole(file=_stream(), highlight=False, width=width)


@contextmanager
def one_line_errors(*, resumes: bool | Callable[[], bool] = True, is_work: bool = True) -> Iterator[None]:
    """Turn what a user can fix into one line on stderr, in the words of the command line; a bug keeps its traceback.

    Args:
        resumes: whether the same command goes on where it was stopped.
        is_work: whether this is the work of a command, after which no help can follow: from now on, where this process is the
            program itself, what anybody prints goes to stderr, but for `echo`, `document` and `console`, and signals interrupt
            as Ctrl-C does.
    """

    def goes_on() -> bool:
        return resumes if isinstance(resumes, bool) else resumes()

    forget: Callable[[], object] = int  # nothing yet
    try:
        if is_work and _STANDARD.is_own:
            _keep_apart()
            forget = _heed_signals()
        yield
    except CesaroError as error:
        _say(f"error: {for_command_line(error.message) or _named(error)}")
        raise typer.Exit(1 if isinstance(error, MemoryError) else 2) from error
    except OSError as error:
        _say(
            f"error: {_named(error)}; once that is fixed, {'the same command resumes' if goes_on() else 'run it again'}."
        )
        raise typer.Exit(1) from error
    except MemoryError as error:
        _say(f"error: not enough memory ({_named(error)}); use fewer rows or features, or a larger machine.")
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        number = error.number if isinstance(error, Stopped) else signal.SIGINT
        by = "" if number == signal.SIGINT else f" by {error}"
        kept = "the same command resumes where this one stopped" if goes_on() else "nothing was written"
        _say(f"interrupted{by}: {kept}.")
        if _STANDARD.is_own:
            _end_soon(128 + number)
        raise typer.Exit(128 + number) from error
    finally:
        forget()  # threads of a policy that are left over must not keep a signal from ending the program


def _named(error: BaseException) -> str:
    """The message of an error, or its name where it has none."""
    return str(error) or type(error).__name__


def _say(line: str) -> None:
    for word in sys.argv:
        line = redacted(line, re.sub(r"^--[a-z-]+=", "", word))
    with suppress(OSError, ValueError):  # users' code has closed stderr, or nobody reads it
        echo(line, aside=True)


class Stopped(KeyboardInterrupt):
    """One of the signals came."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class _Handler:
    """The first signal interrupts, so that what is done is kept; a later one, of a person who waits in vain, ends the program.

    An interruption that gets lost, because it was raised where Python ignores exceptions or a policy catches them all, is raised
    again. None is raised within an import, which compiled modules may not survive.
    """

    def __init__(self) -> None:
        self.is_over = False
        self._came: float | None = None
        self._is_again = False
        self._raised: weakref.ref[Stopped] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._came is None:
            self._came = now
        elif self._is_again:
            self._is_again = False
        else:
            if now - self._came > _SAME_SECONDS:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            return
        if now - self._came < _IMPORT_SECONDS and _is_importing(frame):
            self._try_again(number)
            return
        stopped = Stopped(number)
        self._raised = weakref.ref(stopped, lambda _: self._try_again(number))
        try:
            raise stopped
        finally:
            del stopped  # else this frame, which the exception knows, would keep it alive after it got lost

    def _try_again(self, number: int) -> None:
        if not self.is_over:
            timer = threading.Timer(_AGAIN_SECONDS, self._send, [number])
            timer.daemon = True
            timer.start()

    def _send(self, number: int) -> None:
        if not self.is_over:
            self._is_again = True
            os.kill(os.getpid(), number)


_HANDLER = _Handler()


def _heed_signals() -> Callable[[], None]:
    """Turn signals into interruptions where their handlers are Python's own (`nohup` and others keep theirs), until the function
    that this returns is called.
    """
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    default = (signal.SIG_DFL, signal.default_int_handler)
    before = {
        number: signal.getsignal(number) for name in _SIGNALS if (number := getattr(signal, name, None)) is not None
    }
    ours = {number: kind for number, kind in before.items() if kind in default}
    for number in ours:
        signal.signal(number, _HANDLER)
    told = sys.unraisablehook
    # One that gets lost is raised again, and nobody needs to know.
    sys.unraisablehook = lambda lost: None if issubclass(lost.exc_type, Stopped) else told(lost)

    def forget() -> None:
        for number, kind in ours.items():
            if signal.getsignal(number) is _HANDLER:
                signal.signal(number, kind)

    if ours and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)  # a process that a policy forks is none of ours
    return forget


def _end_soon(code: int) -> None:
    """The interruption has been said: end the program with this exit code, whatever its threads still do."""
    _HANDLER.is_over = True
    timer = threading.Timer(_END_SECONDS, os._exit, [code])
    timer.daemon = True
    timer.start()


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
