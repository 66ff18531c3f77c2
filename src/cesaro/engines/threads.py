"""Pieces on threads of this process."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

# Rows of a matrix that one thread decomposes within a second.
MODERATE = 1_000
# Pieces under way per thread: one that runs and one that is there when it ends.
_AHEAD = 2


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """Runs pieces on `workers` threads; None: one per core that this process may use."""

    def __init__(self, function: Callable[[Any], Any], workers: int | None) -> None:
        self._function = function
        self._workers = workers or cores()

    def __enter__(self) -> "Threads":
        ONE_THREAD.__enter__()
        self._pool = ThreadPoolExecutor(self._workers)
        return self

    def __exit__(self, *raised: object) -> None:
        # Who interrupts does not wait for what a policy still does.
        self._pool.shutdown(wait=not isinstance(raised[1], KeyboardInterrupt), cancel_futures=True)
        ONE_THREAD.__exit__()

    def room(self) -> int:
        return _AHEAD * self._workers

    def start(self, item: Any) -> Future[Any]:
        return self._pool.submit(self._function, item)

    def first_ended(self, handles: list[Future[Any]]) -> tuple[Future[Any], Any]:
        ended = wait(handles, return_when=FIRST_COMPLETED).done
        handle = next(handle for handle in handles if handle in ended)
        return handle, handle.result()


@cache
def _controller() -> Any:
    """Looking for libraries takes milliseconds, and NumPy's is there."""
    return ThreadpoolController()


class _OneThread:
    """BLAS on one thread, as long as anybody is inside: its limit is one for the whole process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limits = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limits.restore_original_limits()


ONE_THREAD = _OneThread()


def decomposing_threads(size: int) -> AbstractContextManager[None]:
    """BLAS on one thread while a matrix of moderate `size` is decomposed: more of them wait for each other more than they work.

    On two busy cores two threads took fifty times as long as one for the singular values of 457 rows.
    """
    return ONE_THREAD if size <= MODERATE else nullcontext()
