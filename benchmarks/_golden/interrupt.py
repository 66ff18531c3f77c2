"""Interruptions for the cases of `make golden`, by what every tree has: policies, the clock and Ctrl-C."""

import threading
import time
from _thread import interrupt_main
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

# Of all calls of a policy: one of so many is tried after the other.
PARTS = (6, 8, 12, 16)


class CtrlC:
    """Counts the calls of policies, and interrupts the process at one of them as Ctrl-C does."""

    def __init__(self) -> None:
        self.calls, self.at = 0, -1
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self.calls += 1
            if self.calls == self.at:
                raise KeyboardInterrupt

    def __fingerprint__(self) -> str:
        """The same however often it was called, so that interrupted runs go on."""
        return "Ctrl-C"

    def within(self, interrupted: Callable[[], Any], whole: Callable[[], Any], kept: str) -> None:
        """Interrupt the first such that it leaves files `kept*` to go on from, in the passes over the rows.

        How many of the calls that the second takes belong to these is each tree's own: diagnostics take most.
        """
        self.calls, self.at = 0, -1
        whole()
        calls = self.calls
        for part in PARTS:
            self.calls, self.at = 0, max(1, calls // part)
            try:
                interrupted()
            except KeyboardInterrupt:
                pass
            finally:
                self.at = -1
            if any(Path().glob(f"{kept}*")):
                return
        raise RuntimeError("no interrupted run left anything to go on from")


CTRL_C = CtrlC()


def interrupt_when(is_time: Callable[[], bool], run: Callable[[], Any]) -> None:
    """Run something and press Ctrl-C as soon as `is_time()`."""
    ended = threading.Event()
    pressed = False

    def watch() -> None:
        nonlocal pressed
        while not pressed and not ended.wait(0.001):
            if is_time():
                pressed = True
                interrupt_main()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run()
    except KeyboardInterrupt:
        pass
    finally:
        ended.set()
        watcher.join()
    if not pressed:
        raise RuntimeError("a run ended before it could be interrupted")


@contextmanager
def fast_clock() -> Iterator[None]:
    """Time runs a million times as fast, so that a checkpoint is due at every occasion."""
    monotonic = time.monotonic
    with patch.object(time, "monotonic", lambda: 1e6 * monotonic()):
        yield
