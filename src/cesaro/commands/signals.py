"""Signals that ask a command to end: SIGTERM and SIGHUP do what Ctrl-C does."""

import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from types import FrameType

# A program such as `timeout` sends the same signal to a process and to its group; a person who sends another one waits longer.
_SAME_SECONDS = 1.0
# Until an interruption is tried again, and until one comes in the middle of an import as well.
_AGAIN_SECONDS, _IMPORT_SECONDS = 0.05, 5.0
# How long threads that still run may delay the end of an interrupted program: those of a policy, or of a library's timer.
_END_SECONDS = 5.0
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


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


def heed() -> Callable[[], None]:
    """Turn signals into interruptions where their handlers are Python's own (`nohup` and others keep theirs), until the function
    that this returns is called.
    """
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    default = (signal.SIG_DFL, signal.default_int_handler)
    before = {
        number: signal.getsignal(number) for name in _NAMES if (number := getattr(signal, name, None)) is not None
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


def end_soon(code: int) -> None:
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
