"""Many streams at once, on all cores."""

from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from pickle import PicklingError

from cesaro import checks
from cesaro.engines.processes import in_processes
from cesaro.engines.threads import cores
from cesaro.errors import InputError
from cesaro.simulation.streams import Arrays, Job, stream
from cesaro.text import Sentence, Wording


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
    try:
        in_processes(stream, jobs, on_done, worker_count(workers))
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
