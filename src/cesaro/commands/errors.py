"""Errors that a user can fix, told in one line."""

import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import typer

from cesaro.commands import output, signals
from cesaro.commands.signals import Stopped
from cesaro.errors import CesaroError
from cesaro.text import for_command_line, redacted


@contextmanager
def one_line_errors(*, resumes: bool | Callable[[], bool] = True, is_work: bool = True) -> Iterator[None]:
    """Turn what a user can fix into one line on stderr, in the words of the command line; a bug keeps its traceback.

    Args:
        resumes: whether the same command goes on where it was stopped.
        is_work: whether this is the work of a command, after which no help can follow: from now on, where this process is the
            program itself, what anybody but `output` prints goes to stderr, and signals interrupt as Ctrl-C does.
    """

    def goes_on() -> bool:
        return resumes if isinstance(resumes, bool) else resumes()

    forget: Callable[[], object] = int  # nothing yet
    try:
        if is_work and output.is_own():
            output.keep_apart()
            forget = signals.heed()
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
        if output.is_own():
            signals.end_soon(128 + number)
        raise typer.Exit(128 + number) from error
    finally:
        forget()  # threads of a policy that are left over must not keep a signal from ending the program


def _named(error: BaseException) -> str:
    """What an error says, or its name where it says nothing."""
    return str(error) or type(error).__name__


def _say(line: str) -> None:
    for word in sys.argv:
        line = redacted(line, re.sub(r"^--[a-z-]+=", "", word))
    with suppress(OSError, ValueError):  # users' code has closed stderr, or nobody reads it
        output.echo(line, aside=True)
