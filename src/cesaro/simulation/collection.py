"""Logs from Gymnasium environments: what they say about themselves, and where they go.

A log is one Parquet file that `cesaro.read` takes without options, a Minari data set on this machine, or a table in memory.
Finished streams wait in `OUT.partial/`, and the log appears when it is complete.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cesaro import documents
from cesaro.data import Log, read
from cesaro.data.roles import CHOSEN
from cesaro.data.settings import bounds_of, carried_bounds
from cesaro.data.sorting import has_mark
from cesaro.errors import InputError
from cesaro.files import holding, write_json
from cesaro.fingerprints import fingerprint
from cesaro.folders import Workspace
from cesaro.policies import policy as as_policy
from cesaro.progress import progress
from cesaro.simulation.environments import Env, Interface, open_env
from cesaro.simulation.streams import (
    STREAMS,
    Arrays,
    Job,
    describe_policy,
    plan,
    probe,
    run_jobs,
    simulate,
    worker_count,
)

SCHEMA = "cesaro-log/1"
_COLUMNS = {
    "trajectory": "trajectory",
    "observation": "observations",
    "action": "actions",
    "reward": "rewards",
    "next_observation": "next_observations",
    "terminated": "terminated",
    "truncated": "truncated",
    CHOSEN: "chosen_actions",
}
# The files of a Minari data set.
_DATA = ("data/metadata.json", "data/main_data.hdf5")
REMARK = (
    "A Minari data set holds the last observation of an episode, not the reset state: read it with "
    "on_termination='restart' and on_truncation='restart' (--on-truncation restart) for the process with resets."
)


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
        face, done = simulate(jobs, workers=workers, quiet=quiet)
        return read(table({**describe_log(jobs, face), **_outcome(done)}, done))
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


def _sink(format: str) -> "type[Sink]":
    if format == "parquet":
        return ParquetSink
    if format == "minari":
        return MinariSink
    raise InputError(f"format must be parquet or minari. Got {format!r}.")


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


# The metadata of a log.


def describe_log(jobs: Sequence[Job], face: Interface) -> dict[str, Any]:
    """The metadata of a log: what is simulated, and how `cesaro.read` shall take it."""
    job = jobs[0]
    noise = {"sigma": job.sigma} if face.actions is None else {"epsilon": job.epsilon}
    bounds = None if face.actions is not None else bounds_of(face.low, face.high)
    if bounds is not None:
        stored = f"as executed: cut to the environment's bounds; {CHOSEN} is what was asked for"
    else:
        stored = "as drawn" if face.actions is not None else "with its noise"
    return {
        "schema": SCHEMA,
        "on_termination": "keep",
        "on_truncation": "keep",
        "env": face.name,
        "policy": describe_policy(job.policy, trust=job.trust),
        **noise,
        "steps": sum(job.length for job in jobs),
        "streams": len(jobs),
        "seed": job.seed,
        "time_limit": face.time_limit,
        "reset_rule": reset_rule(face),
        "stored_action": stored,
        **({} if bounds is None else {"actions": "executed", **bounds.to_dict()}),
        "versions": face.versions,
    }


def reset_rule(face: Interface) -> str:
    """A sentence on what happens at the end of an episode."""
    rule = "The next observation of a row that ends an episode is the first one of the next episode"
    if face.time_limit is None:
        return f"{rule}; no time limit was set."
    return (
        f"{rule}, also after the time limit of {face.time_limit:,} steps: such a reset is not Markov in the observation, "
        "which does not hold the time."
    )


def identity(env: Env, policy: Any, *, trust: bool = False) -> dict[str, str]:
    """Fingerprints of the policy, and of an environment that has no name: of what runs, which no description tells."""
    found = {"policy_fingerprint": fingerprint(as_policy(policy, trust=trust))}
    return found if isinstance(env, str) else {"env_fingerprint": fingerprint(env), **found}


# Where a log goes.


class Sink(Workspace):
    """A log in the making. The same settings find the streams of an interrupted run again; others are refused."""

    WRITTEN_BY = "collect"

    def piece(self, name: str) -> Arrays:
        """A stream that was stored."""
        found = self.load(name)
        if found is None:
            raise InputError(f"'{self.path}' must keep the stream {name!r}. Got a damaged file; run it again.")
        return found

    def write(self, about: dict[str, Any], job: Job, streams: Iterable[Arrays]) -> None:
        """Write the log from all its streams, in order, and let it appear."""
        raise NotImplementedError


class ParquetSink(Sink):
    """One Parquet file, a row group per stream."""

    WRITER = "collect"
    ENDING = ".parquet"

    def is_ours(self) -> bool:
        return has_mark(self.out, b"cesaro")

    def write(self, about: dict[str, Any], job: Job, streams: Iterable[Arrays]) -> None:
        file, writer = self.file("log.parquet"), None
        try:
            for number, stream in enumerate(streams):
                rows = _rows(number, stream, about)
                if writer is None:
                    writer = pq.ParquetWriter(
                        file, rows.schema, use_dictionary=["trajectory"], write_page_checksum=True, version="2.6"
                    )
                writer.write_table(rows, row_group_size=max(1, len(rows)))
        finally:
            if writer is not None:
                writer.close()
        self.appear(file)


def table(about: dict[str, Any], streams: Iterable[Arrays]) -> pa.Table:
    """The log of these streams as a table in memory."""
    return pa.concat_tables([_rows(number, stream, about) for number, stream in enumerate(streams)])


def _rows(number: int, stream: Arrays, about: dict[str, Any]) -> pa.Table:
    ids = np.full(len(stream["rewards"]), number, dtype=np.int32)
    arrays = {**executed(stream, about), "trajectory": ids}
    columns = {column: _column(arrays[name]) for column, name in _COLUMNS.items() if name in arrays}
    return pa.table(columns).replace_schema_metadata({b"cesaro": json.dumps(about).encode()})


def executed(stream: Arrays, about: Mapping[str, Any]) -> Arrays:
    """The stream with the actions that the environment got, and what was chosen as `chosen_actions`, where it has bounds."""
    bounds = carried_bounds(about["env"], about)
    if bounds is None:
        return stream
    return {**stream, "actions": bounds.cut(stream["actions"]), "chosen_actions": stream["actions"]}


def _column(values: NDArray[Any]) -> pa.Array:
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), values.shape[1])


class MinariSink(Sink):
    """One Minari data set. The end of a stream cuts its last episode, which is flagged as truncated then."""

    WRITER = "collect to Minari"

    def __init__(self, out: str | os.PathLike[str], *, force: bool = False) -> None:
        self.id = os.fspath(out)
        try:
            from minari.dataset.minari_dataset import parse_dataset_id
            from minari.storage import get_dataset_path
        except ImportError as error:
            raise InputError("A Minari data set needs Minari: pip install 'cesaro[minari]'.") from error
        try:
            self._namespace = parse_dataset_id(self.id)[0]
        except ValueError as error:
            raise InputError(
                f"out must be the id of a Minari data set, such as cheetah/noisy-v0. Got {self.id!r}."
            ) from error
        super().__init__(get_dataset_path(self.id), force=force)
        self.path = self.out.parent / f".{self.out.name}.partial"  # hidden, or Minari would list it

    def unmarked(self) -> set[str] | None:
        with suppress(OSError, ValueError):
            found = documents.read(self.out / "data" / "metadata.json")
            return {"data/", *_DATA} if isinstance(found, dict) and "cesaro" in found else None
        return None

    def check(self) -> None:
        self.out.parent.mkdir(parents=True, exist_ok=True)  # namespaces are Minari's to make
        super().check()

    def write(self, about: dict[str, Any], job: Job, streams: Iterable[Arrays]) -> None:
        from minari.dataset.minari_storage import MinariStorage

        folder = self.files(list(_DATA))[0].parent
        made = open_env(job.env, time_limit=job.time_limit)
        try:
            seen, done = made.observation_space, made.action_space
            storage = MinariStorage.new(
                folder, observation_space=seen, action_space=done, env_spec=made.spec, jpeg_encoding=False
            )
        finally:
            made.close()
        storage.update_metadata(
            {
                "dataset_id": self.id,
                "minari_version": version("minari"),
                "algorithm_name": about["policy"]["name"],
                "description": f"{about['env']}, {about['steps']:,} steps. {REMARK}",
                "requirements": [f"{name}=={number}" for name, number in about["versions"].items() if name != "cesaro"],
                "cesaro": {name: value for name, value in about.items() if not name.startswith(("on_", "reset_"))},
            }
        )
        for stream in streams:
            storage.update_episodes(_episodes(executed(stream, about), seen, done))
        self._make_namespace()
        self.rename()

    def _make_namespace(self) -> None:
        """Write what `minari.create_namespace` would, whole or not at all."""
        from minari.namespace import NAMESPACE_METADATA_FILENAME

        folder = self.out.parent
        for _ in self._namespace.split("/") if self._namespace else ():
            file, folder = folder / NAMESPACE_METADATA_FILENAME, folder.parent
            with holding(file):
                if not file.exists():
                    write_json(file, {})


def _episodes(stream: Arrays, seen: Any, done: Any) -> Iterator[Any]:
    from minari.data_collector import EpisodeBuffer

    length = len(stream["rewards"])
    truncated = stream["truncated"].copy()
    ends = np.flatnonzero(stream["terminated"] | truncated)
    lasts = stream["final_observations"]
    if not len(ends) or ends[-1] != length - 1:
        ends, lasts = np.append(ends, length - 1), np.concatenate([lasts, stream["next_observations"][-1:]])
        truncated[-1] = True
    for start, end, last in zip((0, *(ends[:-1] + 1)), ends, lasts):
        rows = slice(start, end + 1)
        observations = np.concatenate([stream["observations"][rows], last[None]])
        yield EpisodeBuffer(
            observations=_shaped(observations, seen),
            actions=_shaped(stream["actions"][rows], done),
            rewards=stream["rewards"][rows],
            terminations=stream["terminated"][rows],
            truncations=truncated[rows],
        )


def _shaped(values: NDArray[Any], space: Any) -> NDArray[Any]:
    return values.astype(space.dtype).reshape(len(values), *space.shape)
