"""Pieces on threads of this process."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from threadpoolctl import threadpool_limits

# Pieces under way per thread: one that runs and one that is there when it ends.
_AHEAD = 2


class Threads:
    """Runs pieces on `workers` threads; None: one per core that this process may use."""

    def __init__(self, function: Callable[[Any], Any], workers: int | None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._function = function
        self._workers = workers or cores

    def __enter__(self) -> "Threads":
        _LIMIT.enter()
        self._pool = ThreadPoolExecutor(self._workers)
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        _LIMIT.leave()

    def room(self) -> int:
        return _AHEAD * self._workers

    def start(self, item: Any) -> Future[Any]:
        return self._pool.submit(self._function, item)

    def first_ended(self, handles: list[Future[Any]]) -> tuple[Future[Any], Any]:
        ended = wait(handles, return_when=FIRST_COMPLETED).done
        handle = next(handle for handle in handles if handle in ended)
        return handle, handle.result()


class _OneThread:
    """BLAS and OpenMP on one thread, as long as anybody is inside: their limit is one for the whole process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limits = threadpool_limits(limits=1)
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limits.restore_original_limits()


_LIMIT = _OneThread()
