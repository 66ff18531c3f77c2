"""Signals that ask a command to end: SIGTERM and SIGHUP do what Ctrl-C does."""

import os
import signal
import threading
import time
from types import FrameType

# A program such as `timeout` sends the same signal to a process and to its group; a person who sends another one waits longer.
_SAME_SECONDS = 1.0
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


class Stopped(KeyboardInterrupt):
    """One of the signals came."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class _Handler:
    """The first signal interrupts, so that what is done is kept; a later one, of a person who waits in vain, ends the program."""

    def __init__(self) -> None:
        self._first: float | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = now
            raise KeyboardInterrupt if number == signal.SIGINT else Stopped(number)
        if now - self._first > _SAME_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def heed() -> None:
    """Turn signals into interruptions where their handlers are Python's own: `nohup` and others keep theirs."""
    if threading.current_thread() is not threading.main_thread():
        return
    handler = _Handler()
    default = (signal.SIG_DFL, signal.default_int_handler)
    before = {
        number: signal.getsignal(number) for name in _NAMES if (number := getattr(signal, name, None)) is not None
    }
    ours = {number: kind for number, kind in before.items() if kind in default}
    for number in ours:
        signal.signal(number, handler)

    def forget() -> None:
        for number, kind in ours.items():
            if signal.getsignal(number) is handler:
                signal.signal(number, kind)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)  # a process that a policy forks is none of ours
