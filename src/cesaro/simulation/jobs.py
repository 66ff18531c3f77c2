"""Many streams at once, on all cores."""

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
from pickle import PicklingError

from cesaro import checks
from cesaro.errors import InputError
from cesaro.simulation.streams import Arrays, Job, stream
from cesaro.text import Sentence, Wording


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def worker_count(workers: int | None) -> int:
    """A number of processes as a user gives it: at least 1, or None for all cores."""
    return cores() if workers is None else checks.count("workers", workers, high=checks.MOST_WORKERS)


def run_jobs(jobs: Sequence[Job], on_done: Callable[[int, Arrays], None], *, workers: int | None = None) -> None:
    """Simulate streams, of one log or of many, in one pool of processes.

    Args:
        jobs: the streams; those of different environments, policies and lengths may be mixed. Long ones first is fastest.
        on_done: called in this process with the place of a job in `jobs` and its arrays (see `stream`), as streams end, in
            any order. What it raises ends the run.
        workers: processes; None: as many as there are cores. 1 stays in this process. The arrays do not depend on it.

    Functions, and policies that are objects, are sent to the processes as they are; a policy that is text is read there.

    Example:
        >>> from cesaro.simulation import plan, run_jobs
        >>> logs = {sigma: plan("Pendulum-v1", "constant:0", 40, streams=2, sigma=sigma) for sigma in (0.1, 0.5)}
        >>> jobs = [job for log in logs.values() for job in log]
        >>> run_jobs(jobs, lambda number, arrays: print(jobs[number].sigma, arrays["actions"].shape), workers=1)
        0.1 (20, 1)
        0.1 (20, 1)
        0.5 (20, 1)
        0.5 (20, 1)
    """
    count = min(worker_count(workers), len(jobs))
    if count <= 1:
        for number, job in enumerate(jobs):
            on_done(number, stream(job))
        return
    import joblib

    # Its processes do not run the caller's script again, so that no `if __name__ == "__main__"` is needed.
    pool = joblib.Parallel(count, return_as="generator_unordered", batch_size=1, max_nbytes=None)
    finished, others = None, set(active_children())
    try:
        with joblib.parallel_config(backend="loky", inner_max_num_threads=1), _interrupts_held():
            finished = pool(joblib.delayed(_numbered)(number, job, os.getpid()) for number, job in enumerate(jobs))
        for number, arrays in finished:
            on_done(number, arrays)
    except KeyboardInterrupt:
        _end(set(active_children()) - others)
        raise
    except (BrokenProcessPool, PicklingError) as error:
        raise InputError(
            Sentence(
                "A worker process must be able to load the environment and the policy and to live to the end. Got {kind} "
                "({reason}); give a policy file by its path, take fewer workers if memory is short, or {one} to see more.",
                kind=type(error).__name__,
                reason=str(error).splitlines()[0] if str(error) else "no reason",
                one=Wording("workers=1", "--workers 1"),
            )
        ) from error
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
def _interrupts_held() -> Iterator[None]:
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


def _numbered(number: int, job: Job, parent: int) -> tuple[int, Arrays]:
    _end_with(parent)
    return number, stream(job)


@cache
def _end_with(parent: int) -> None:
    """From now on this process ends within a second when its parent is killed, instead of going on for nobody."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    if os.getppid() == parent:
        threading.Thread(target=watch, daemon=True).start()
