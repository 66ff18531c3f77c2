"""Pieces in processes of this machine, for work that Python itself does: threads would wait for each other."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import active_children
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_processes(
    function: Callable[[Item], Result], items: Sequence[Item], on_done: Callable[[int, Result], None], workers: int
) -> None:
    """`function(item)` for each item, as they end: `on_done`, called in this process, gets its number and its result.

    With one worker everything stays in this process. BLAS takes one thread in each. What `on_done` raises ends the run.

    Raises:
        BrokenProcessPool, PicklingError: a process died, or something cannot be sent to it.
    """
    count = min(workers, len(items))
    if count <= 1:
        for number, item in enumerate(items):
            on_done(number, function(item))
        return
    import joblib

    # Its processes do not run the caller's script again, so that no `if __name__ == "__main__"` is needed.
    pool = joblib.Parallel(count, return_as="generator_unordered", batch_size=1, max_nbytes=None)
    finished, others = None, set(active_children())
    try:
        with joblib.parallel_config(backend="loky", inner_max_num_threads=1), interrupts_held():
            finished = pool(joblib.delayed(_numbered)(function, n, item, os.getpid()) for n, item in enumerate(items))
        for number, result in finished:
            on_done(number, result)
    except KeyboardInterrupt:
        _end(set(active_children()) - others)
        raise
    finally:
        if finished is not None:
            with suppress(BrokenProcessPool), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about tasks that are given up, as they should be
                finished.close()


def _end(started: set[BaseProcess]) -> None:
    """End workers before joblib takes away what those that still begin look for: they would complain at length."""
    for process in started:
        process.terminate()
    for process in started:
        process.join(1)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Processes that start meanwhile never see Ctrl-C or the end of the terminal, which are for this one: it ends them itself.

    A signal that comes meanwhile is delivered at the end: half a pool of processes cannot be ended well. The block alone would
    not do, since another thread of this process may take the signal. Where signals cannot be blocked, nothing changes.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    came: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()  # no other one is interrupted
    # A handler that was not set from Python cannot be put back, and stays, as does what is ignored or ends this process.
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    handlers = {number: handler for number, handler in found.items() if is_main and callable(handler)}
    before: set[int] | None = None
    try:
        for number in handlers:
            signal.signal(number, lambda number, _: came.append(number))
        resource_tracker.ensure_running()  # which joblib would start between, and up to Python 3.12 that ends the block
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
        yield
    finally:
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:  # also where the block failed: the failure stays as the context of the interrupt
            signal.raise_signal(came[0])


def _numbered(function: Callable[[Any], Any], number: int, item: Any, parent: int) -> tuple[int, Any]:
    _end_with(parent)
    return number, function(item)


@cache
def _end_with(parent: int) -> None:
    """From now on this process ends within a second when its parent is killed, instead of going on for nobody."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    if os.getppid() == parent:
        threading.Thread(target=watch, daemon=True).start()
