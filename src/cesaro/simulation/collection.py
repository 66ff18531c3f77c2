"""Logs from Gymnasium environments."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cesaro.errors import InputError
from cesaro.progress import progress
from cesaro.simulation.environments import Env
from cesaro.simulation.jobs import run_jobs
from cesaro.simulation.provenance import describe_log, identity
from cesaro.simulation.streams import STREAMS, Arrays, Job, plan, probe

if TYPE_CHECKING:
    from cesaro.data import Log

FORMATS = ("parquet", "minari")


def collect(
    env: Env,
    policy: Any,
    steps: int,
    *,
    seed: int = 0,
    sigma: float = 0.0,
    epsilon: float = 0.0,
    streams: int = STREAMS,
    time_limit: bool = True,
    out: str | os.PathLike[str] | None = None,
    format: str = "parquet",
    workers: int | None = None,
    trust: bool = False,
    force: bool = False,
    quiet: bool = False,
) -> "Log":
    """Simulate a policy in an environment and log what happens.

    Args:
        env: the name of a Gymnasium environment, or a function without parameters that makes one.
        policy: anything that `cesaro.policy` takes, or "shipped" for the actor that comes with cesaro.
        steps: rows of the log, in all.
        seed: of all random numbers.
        sigma: standard deviation of the normal noise on continuous actions. The log holds the action with its noise; the
            environment gets it cut to its bounds.
        epsilon: probability of a uniform action instead of the policy's, for discrete actions.
        streams: independent runs, each from a reset of its own; the trajectories of the log.
        time_limit: False: without the environment's limit on the length of episodes (environments by name only).
        out: a `.parquet` file, or the id of a Minari data set; None: the log stays in memory. The same call resumes what
            an interrupted one left in `OUT.partial/`.
        format: "parquet" or "minari".
        workers: processes; None: one per core. The log does not depend on it.
        trust: allow policy files that run pickled code.
        force: replace an existing log.
        quiet: no progress bar.

    Where an episode ends, by termination or by the time limit, the next observation is the first one of the next episode, and
    the log says so in its metadata. A Minari data set holds the last observation of each episode instead.

    Example:
        >>> import cesaro as cs
        >>> log = cs.collect("CartPole-v1", "uniform", 1_000, workers=1, quiet=True)
        >>> cs.evaluate(log, "logged", quiet=True).value
        1.0
    """
    if format not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}. Got {format!r}.")
    jobs = plan(
        env, policy, steps, seed=seed, streams=streams, sigma=sigma, epsilon=epsilon, time_limit=time_limit, trust=trust
    )
    from cesaro.data import read

    if out is None:
        if format != "parquet":
            raise InputError(f"format {format} needs the name of the data set. Got no out; give it.")
        return read(_in_memory(jobs, steps, workers, quiet))
    write(jobs, out, format=format, steps=steps, workers=workers, force=force, quiet=quiet)
    return read(os.fspath(out) if format == "parquet" else f"minari:{os.fspath(out)}")


def write(
    jobs: list[Job],
    out: str | os.PathLike[str],
    *,
    format: str,
    steps: int,
    workers: int | None,
    force: bool,
    quiet: bool,
) -> dict[str, Any]:
    """Simulate what is missing of a log, write it and return its metadata."""
    if format == "minari":
        from cesaro.simulation.minari_sink import MinariSet as Target
    else:
        from cesaro.simulation.parquet_sink import ParquetFile as Target  # type: ignore[assignment]
    job = jobs[0]
    target = Target(out, force=force)
    target.check()
    face = probe(job)
    about = describe_log(job, face, steps=steps, streams=len(jobs))
    with target.open({**about, **identity(job.env, job.policy), "format": format}) as work:
        missing = [job for job in jobs if work.load(_piece(job)) is None]
        done = len(jobs) - len(missing)

        def store(number: int, arrays: Arrays) -> None:
            work.store(_piece(missing[number]), arrays)

        _run(missing, store, workers, quiet, label=f"simulating {face.name}", done=done)
        return work.write(about, (work.load(_piece(job)) for job in jobs))
