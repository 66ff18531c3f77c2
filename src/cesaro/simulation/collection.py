"""Logs from Gymnasium environments."""

import os
from collections.abc import Iterable
from typing import Any

from cesaro.data import Log, read
from cesaro.errors import InputError
from cesaro.progress import progress
from cesaro.simulation.environments import Env
from cesaro.simulation.jobs import run_jobs, worker_count
from cesaro.simulation.provenance import describe_log, identity
from cesaro.simulation.sinks import MinariSink, ParquetSink, Sink, table
from cesaro.simulation.streams import STREAMS, Arrays, Job, plan, probe


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
) -> Log:
    """Simulate a policy in an environment and log what happens.

    Args:
        env: the name of a Gymnasium environment, or a function without parameters that makes one.
        policy: anything that `cesaro.policy` takes, or "shipped" for the actor that comes with cesaro.
        steps: rows of the log, in all.
        seed: of all random numbers.
        sigma: standard deviation of the normal noise on continuous actions. The environment gets the action with its noise, cut
            to its bounds, and so does the log's `action`; where there are bounds, `chosen_action` holds it before the cut.
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
    the log says so in its metadata. A Minari data set holds the last observation of each episode instead, and no
    `chosen_action`.

    Example:
        >>> import cesaro as cs
        >>> log = cs.collect("CartPole-v1", "uniform", 1_000, workers=1, quiet=True)
        >>> cs.evaluate(log, "logged", quiet=True).reward_rate
        1.0
    """
    _sink(format)
    jobs = plan(
        env, policy, steps, seed=seed, streams=streams, sigma=sigma, epsilon=epsilon, time_limit=time_limit, trust=trust
    )
    if out is None:
        if format != "parquet":
            raise InputError(f"format {format} needs the id of the data set. Got no out; give it.")
        return read(_in_memory(jobs, workers, quiet))
    write(jobs, out, format=format, workers=workers, force=force, quiet=quiet)
    return read(os.fspath(out) if format == "parquet" else f"minari:{os.fspath(out)}")


def write(
    jobs: list[Job],
    out: str | os.PathLike[str],
    *,
    format: str,
    workers: int | None = None,
    force: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Simulate what is missing of a log, write it, and return its metadata with what came out.

    The result also has `resumed_steps`: how many an interrupted call had left.
    """
    kind = _sink(format)
    worker_count(workers)  # before anything is written
    with kind(out, force=force) as sink:
        face = probe(jobs[0])
        about = describe_log(jobs, face)
        sink.resume({"format": format, **about, **identity(jobs[0].env, jobs[0].policy, trust=jobs[0].trust)})
        missing = [job for job in jobs if sink.load(_piece(job)) is None]
        with progress(
            f"simulating {face.name}", total=len(jobs), done=len(jobs) - len(missing), quiet=quiet
        ) as advance:

            def store(number: int, arrays: Arrays) -> None:
                sink.store(_piece(missing[number]), arrays)
                advance()

            run_jobs(missing, store, workers=workers)
        about |= _outcome(map(sink.piece, map(_piece, jobs)))
        sink.write(about, jobs[0], map(sink.piece, map(_piece, jobs)))
    return {**about, "resumed_steps": sum(job.length for job in jobs) - sum(job.length for job in missing)}


def _sink(format: str) -> type[Sink]:
    if format == "parquet":
        return ParquetSink
    if format == "minari":
        return MinariSink
    raise InputError(f"format must be parquet or minari. Got {format!r}.")


def _in_memory(jobs: list[Job], workers: int | None, quiet: bool) -> Any:
    face = probe(jobs[0])
    done: dict[int, Arrays] = {}
    with progress(f"simulating {face.name}", total=len(jobs), quiet=quiet) as advance:

        def keep(number: int, arrays: Arrays) -> None:
            done[number] = arrays
            advance()

        run_jobs(jobs, keep, workers=workers)
    streams = [done[number] for number in range(len(jobs))]
    return table({**describe_log(jobs, face), **_outcome(streams)}, streams)


def _piece(job: Job) -> str:
    return f"stream-{job.number:05d}"


def _outcome(streams: Iterable[Arrays]) -> dict[str, Any]:
    """How episodes ended, and the mean reward."""
    rows, total, ends = 0, 0.0, {"terminated": 0, "truncated": 0}
    for stream in streams:
        rows, total = rows + len(stream["rewards"]), total + float(stream["rewards"].sum())
        for name in ends:
            ends[name] += int(stream[name].sum())
    return {**ends, "mean_reward": total / rows}
