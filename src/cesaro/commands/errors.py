"""What a user can mend, in one line."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from cesaro.errors import CesaroError
from cesaro.text import for_command_line, redacted, visible


@contextmanager
def one_line_errors(*, resumes: bool | Callable[[], bool] = True) -> Iterator[None]:
    """Turn what a user can mend into one line on stderr, in the words of the command line; a bug keeps its traceback.

    `resumes` tells whether the same command goes on where it was stopped.
    """

    def goes_on() -> bool:
        return resumes if isinstance(resumes, bool) else resumes()

    try:
        yield
    except CesaroError as error:
        _say(f"error: {for_command_line(error.message)}")
        raise typer.Exit(2) from error
    except OSError as error:
        _say(f"error: {error}; once that is mended, {'the same command resumes' if goes_on() else 'run it again'}.")
        raise typer.Exit(1) from error
    except MemoryError as error:
        _say(f"error: not enough memory ({error}); take fewer rows or features, or a larger machine.")
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        _say(
            f"interrupted: {'the same command resumes where this one stopped' if goes_on() else 'nothing was written'}."
        )
        raise typer.Exit(130) from error


def _say(line: str) -> None:
    for word in sys.argv:
        line = redacted(line, re.sub(r"^--[a-z-]+=", "", word))
    typer.echo(visible(line), err=True)
