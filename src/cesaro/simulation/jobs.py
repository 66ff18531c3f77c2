"""Many streams at once, on all cores."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from pickle import PicklingError

from cesaro import checks
from cesaro.errors import InputError
from cesaro.simulation.streams import Arrays, Job, stream


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def worker_count(workers: int | None) -> int:
    """A number of processes as a user gives it: at least 1, or None for all cores."""
    return cores() if workers is None else checks.count("workers", workers)


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
    try:
        with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
            finished = pool(joblib.delayed(_numbered)(number, job, os.getpid()) for number, job in enumerate(jobs))
        try:
            for number, arrays in finished:
                on_done(number, arrays)
        finally:
            finished.close()
    except (BrokenProcessPool, PicklingError) as error:
        raise InputError(
            "A worker process must be able to load the environment and the policy and to live to the end. "
            f"Got {type(error).__name__} ({str(error).splitlines()[0] if str(error) else 'no reason'}); give a policy file by "
            "its path, take fewer workers if memory is short, or workers=1 to see more."
        ) from error


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
