"""Pieces of work on this machine: on threads, or in processes where Python itself does the work and threads would wait.

BLAS takes one thread in each.
"""

import os
import queue
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar, copy_context
from functools import cache
from multiprocessing import active_children
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

# Rows of a matrix that one thread decomposes within a second.
MODERATE = 1_000
# Pieces under way per worker: one that runs and one that is there when it ends.
AHEAD = 2
# Cores from which on several threads read.
MANY_CORES = 4


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def has_many_cores() -> bool:
    """Whether threads that read ahead help: with fewer cores they would take time from those that compute."""
    return cores() >= MANY_CORES


# Set where nobody waits for the piece at work any more: one event of each caller, since pieces start others.
_GIVEN_UP: ContextVar[tuple[threading.Event, ...]] = ContextVar("given up", default=())


class GivenUp(Exception):
    """Nobody waits for this piece of work any more."""


def check_wanted() -> None:
    """End a piece of work that nobody waits for any more; long loops in threads ask at every turn.

    Raises:
        GivenUp: who started it was interrupted, or another piece of the same work failed.
    """
    if any(event.is_set() for event in _GIVEN_UP.get()):
        raise GivenUp


def until(given_up: threading.Event, function: Callable[..., Result], *arguments: Any) -> Result:
    """`function(*arguments)`, which `check_wanted` ends once nobody waits for it, by this event or one of its caller's."""

    def work() -> Result:
        _GIVEN_UP.set((*_GIVEN_UP.get(), given_up))
        return function(*arguments)

    return copy_context().run(work)


class Threads:
    """Runs pieces on `workers` threads; None: one per core that this process may use.

    A piece sees the context of its caller: which files it holds, what progress is a part of.
    """

    def __init__(self, function: Callable[[Any], Any], workers: int | None) -> None:
        self._function = function
        self._workers = workers or cores()
        self._given_up = threading.Event()

    def __enter__(self) -> "Threads":
        ONE_THREAD.__enter__()
        self._pool = ThreadPoolExecutor(self._workers)
        return self

    def __exit__(self, *raised: object) -> None:
        if raised[1] is not None:
            self._given_up.set()
        # Who interrupts does not wait for what a policy still does.
        self._pool.shutdown(wait=not isinstance(raised[1], KeyboardInterrupt), cancel_futures=True)
        ONE_THREAD.__exit__()

    def room(self) -> int:
        return AHEAD * self._workers

    def start(self, item: Any) -> Future[Any]:
        return self._pool.submit(copy_context().run, until, self._given_up, self._function, item)

    def first_ended(self, handles: list[Future[Any]]) -> tuple[Future[Any], Any]:
        ended = wait(handles, return_when=FIRST_COMPLETED).done
        handle = next(handle for handle in handles if handle in ended)
        return handle, handle.result()


@cache
def _controller() -> Any:
    """The BLAS libraries of this process, looked for once, which takes milliseconds; NumPy's is loaded by now."""
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


def read_ahead(items: Iterator[Item], count: int) -> Generator[Item]:
    """The same items, made by a thread of their own, so many ahead of whoever takes them. Leaving early ends it."""
    made: queue.Queue[tuple[bool, Any]] = queue.Queue(count)
    stop = threading.Event()

    def put(is_item: bool, what: Any) -> bool:
        while not stop.is_set():
            try:
                made.put((is_item, what), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def make() -> None:
        try:
            for item in items:
                if not put(True, item):
                    break
            put(False, None)
        except BaseException as error:
            put(False, error)
        finally:
            if isinstance(items, Generator):
                items.close()

    thread = threading.Thread(target=make, name="reader", daemon=True)
    thread.start()
    try:
        while (found := made.get())[0]:
            yield found[1]
        if found[1] is not None:
            raise found[1]
    finally:
        stop.set()
        thread.join()


# Processes.


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
