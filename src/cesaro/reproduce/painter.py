"""A process that draws the pictures of a study: it loads matplotlib while the work goes on, and draws while tables are written.

It reads nothing but its standard input and writes nothing but its standard output: pictures by what draws them, then files of
them. Whatever it cannot do, the study does itself.
"""

import gc
import io
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cesaro.reproduce import looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The program of the process, which finds modules where this one does.
_PROGRAM = "import sys; sys.path[:] = {path!r}; from cesaro.reproduce.painter import serve; serve({show!r})"


@dataclass(frozen=True)
class Picture:
    """The writer of a figure, which is drawn when it is written."""

    plot: Callable[..., "Figure"]
    arguments: tuple[Any, ...]

    def __call__(self, file: Path) -> None:
        file.write_bytes(self.drawn())

    def drawn(self) -> bytes:
        """The file of the figure."""
        stream = io.BytesIO()
        self.plot(*self.arguments).savefig(stream, format="png", dpi=150, metadata={"Software": None})
        return stream.getvalue()


class Painter:
    """Draws pictures in a process of its own, from `__enter__` to `__exit__`.

    Args:
        show: the module that the functions of the pictures are in, which the process imports at once; it should not load JAX.
    """

    def __init__(self, show: str) -> None:
        self._show = show
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Painter":
        program = _PROGRAM.format(path=sys.path, show=self._show)
        if not sys.executable or getattr(sys, "frozen", False):  # a program that is not Python
            return self
        with suppress(OSError, ValueError):
            # A session of its own: Ctrl-C is for the study, at whose end this ends too.
            self._process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def ask(self, pictures: Sequence[Picture]) -> Iterator[bytes]:
        """Begin with the pictures; return their files in order, fewer where something went wrong."""
        process, asked = self._process, False
        if process is not None and process.stdin is not None:
            with suppress(OSError, pickle.PicklingError, AttributeError, TypeError):
                process.stdin.write(pickle.dumps(list(pictures)))
                process.stdin.flush()
                asked = True
        return self._answers(len(pictures)) if asked else iter(())

    def _answers(self, count: int) -> Iterator[bytes]:
        process = self._process
        if process is not None and process.stdout is not None:
            with suppress(OSError, EOFError, pickle.UnpicklingError):
                for _ in range(count):
                    yield pickle.load(process.stdout)


def serve(show: str) -> None:
    """What the process does."""
    from importlib import import_module

    gc.disable()  # a figure is thousands of objects, and there are few figures
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr  # whatever anybody prints is no picture
    import_module(show)
    looks.prepare()
    for picture in pickle.load(sys.stdin.buffer):
        pickle.dump(picture.drawn(), answers)
        answers.flush()
