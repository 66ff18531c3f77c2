"""`sweep`: all seeds × settings of a method, in chunks of lanes that suit the device, resumable."""

import hashlib
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from cesaro import checks
from cesaro.algorithms import Objective, saddle_point
from cesaro.algorithms.dynamics import Dynamics, mean_dynamics
from cesaro.algorithms.saddle_point import CURRENT, Target
from cesaro.approximators import MLP, WIDE, Approximator
from cesaro.data import FeatureTransitions
from cesaro.learning import checkpoints
from cesaro.learning.arguments import (
    Method,
    all_settings,
    as_objective,
    as_recorders,
    as_seeds,
    as_shape,
    check_choices,
    check_range,
)
from cesaro.learning.result import Sweep
from cesaro.learning.run import Program, Recorder, Records, Shape, program, rows
from cesaro.learning.settings import Setting
from cesaro.learning.source import Source, rows_of, source
from cesaro.linear import LinearProblem
from cesaro.progress import progress

# On a CPU, XLA compiles a step of few parameters to tight vector loops as long as no array of it exceeds about this many
# numbers; beyond, it splits loops over threads and a step takes three times as long. So lanes go in chunks of this size, one
# chunk per core. With many parameters, where products dominate, a chunk should fit the second-level cache: a network with
# minibatches goes one run at a time.
CPU_NUMBERS = 4096
CPU_WIDE_NUMBERS = 2**16
# On an accelerator, all lanes go together up to this many numbers of state, times the minibatch.
ACCELERATOR_NUMBERS = 2**31
# Row numbers drawn ahead at a time.
DRAWN_AHEAD = 2**24
# A run counts as diverged once |r̂| exceeds this times 1 + max |R|.
DIVERGED = 1e6
CHECKPOINT_SECONDS = 10.0


def sweep(
    method: Method,
    data: LinearProblem | FeatureTransitions,
    *,
    settings: Sequence[Mapping[str, float]] | None = None,
    seeds: int | Sequence[int] = 30,
    budget: int = 5_000,
    record_every: int = 100,
    window: int = 100,
    record: Sequence[str] | Mapping[str, Recorder] = ("reward_rate",),
    batch_size: int = 1,
    approximator: str | Approximator = "linear",
    schedule: str = "constant",
    radius: float | None = None,
    optimizer: optax.GradientTransformation | None = None,
    target: Target = CURRENT,
    dtype: str = "float32",
    keep_final: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    quiet: bool = False,
) -> Sweep:
    """Run a method with every setting and seed, from i.i.d. samples of a known problem or of transitions.

    Samples belong to the seed: all settings of a seed see the same stream. A run's result depends on its seed and its setting
    only, to rounding, and on nothing that runs beside it.

    Args:
        method: a name (`diff-sgq diff-gq1 diff-gq2 diff-gq3 diff-gq4 gradient-dice`), or your own `Objective` (or a function
            `(approximator, num_inputs) -> Objective`).
        data: a `LinearProblem` or `FeatureTransitions`.
        settings: numbers to vary, from `cesaro.grid(step_size=…, ridge=…)`; what is not named takes the method's default.
        seeds: how many (0, 1, …), or which.
        budget: samples per run. A step of Diff-GQ2 consumes two minibatches.
        record_every: samples between records.
        window: the rate is averaged over this many samples before each record; a divisor or a multiple of `record_every`.
        record: what to keep beside the rate, at the end of each record: "weights" (without the rate), "last_reward_rate" (the raw
            iterate, where `reward_rate` is an average), or a mapping from names to functions of the `State`.
        batch_size: transitions per minibatch.
        approximator: "linear" (started at zero), "linear-random" (started uniformly in ±1/√inputs), "mlp" (the paper's network),
            `cesaro.approximators.MLP(widths=…)`, or your own.
        schedule: "constant" or "robbins-monro", `step_size/(k + offset)^power`, whose `offset` and `power` can be swept.
        radius: makes the projected variant of Diff-GQ1 and Diff-GQ2, and reports averaged iterates.
        optimizer: an Optax transformation without learning rate; default plain gradients.
        target: what the objective sees as its target: `CURRENT`, `copied(every)` or `tracked(mixing)`.
        dtype: "float32" or "float64".
        keep_final: also keep what every run ended at, as `Sweep.final`.
        checkpoint: a file to keep progress in; the same call resumes from it, bit for bit.
        workers: chunks that run at the same time on a CPU; default one per core. Results do not depend on it.
        quiet: no progress bar on stderr (elsewhere than on a terminal: no line every few seconds).

    Example:
        >>> import cesaro as cs
        >>> chain = cs.problems.boyan_chain(pi0=0.1, mu0=0.5)
        >>> result = cs.sweep("diff-gq1", chain, settings=cs.grid(step_size=[0.03, 0.1]), seeds=3, budget=2000)
        >>> result.reward_rate.shape
        (2, 3, 20)
        >>> bool(result.best(truth=1.9).error < 0.2)
        True
    """
    check_choices(dtype, target, optimizer, record, workers, checkpoint)
    with jax.enable_x64(dtype == "float64"):
        origin = source(data, dtype)
        objective, label = as_objective(method, approximator, origin.features.shape[1])
        chosen = all_settings(objective, settings, schedule, radius, label)
        shape, blocks = as_shape(objective, budget, record_every, window, batch_size)
        compiled = _program(method, approximator, objective, schedule, radius is not None, optimizer, target, record)
        seed_numbers = as_seeds(seeds)
        check_range(chosen, dtype)
        bound = min(DIVERGED * (1 + float(jnp.max(jnp.abs(origin.rewards)))), float(np.finfo(dtype).max))
        job = _Job(
            compiled,
            origin,
            shape,
            chosen,
            seed_numbers,
            int(budget // record_every),
            bound,
            dtype,
            workers or os.cpu_count() or 1,
        )
        identity = {} if checkpoint is None else _identity(job, label, schedule, approximator, radius, record)
        chunks = _chunks(job)
        carries, records = _run(job, chunks, label, None if checkpoint is None else Path(checkpoint), identity, quiet)
    result = _result(job, chunks, label, settings or [{}], carries, records, blocks)
    return replace(result, final=_final(job, chunks, carries)) if keep_final else result


def dynamics(
    method: Method,
    data: LinearProblem | FeatureTransitions,
    *,
    approximator: str | Approximator = "linear",
    **hyper: float,
) -> Dynamics:
    """`G` and `h` of a method's expected update, exactly on a known problem, as a plug-in on transitions.

    Example:
        >>> import cesaro as cs
        >>> cs.learning.dynamics("diff-sgq", cs.problems.two_state_counterexample()).eigenvalues.real.round(9).tolist()
        [3.0, 2.0]
    """
    rows = rows_of(data)
    objective, label = as_objective(method, approximator, rows.x.shape[1])
    chosen = all_settings(objective, [{"step_size": 1.0, **hyper}], "constant", None, label)
    return mean_dynamics(objective, rows, {name: float(values[0]) for name, values in chosen.items()})


class _Job(NamedTuple):
    """Everything a run needs, checked."""

    program: Program
    origin: Source
    shape: Shape
    hyper: dict[str, checks.Array]  # [settings] each
    seeds: NDArray[np.int64]
    records: int
    bound: float
    dtype: str
    workers: int


class _Chunk(NamedTuple):
    """Lanes that run together: positions of seeds and settings, padded to a common size by repetition."""

    seeds: NDArray[np.intp]
    settings: NDArray[np.intp]


def _run(
    job: _Job, chunks: list[_Chunk], label: str, checkpoint: Path | None, identity: dict[str, Any], quiet: bool
) -> tuple[list[Any], list[list[Records]]]:
    starts = [_start(job, chunk) for chunk in chunks]
    done, carries = 0, starts
    stored: list[list[Records]] = [[] for _ in chunks]
    if checkpoint is not None and checkpoint.exists():
        done, carries, stored = checkpoints.load(checkpoint, identity, starts)
    per_segment = max(1, DRAWN_AHEAD // (job.shape.samples * len(job.seeds)))
    segments = [(first, min(per_segment, job.records - first)) for first in range(done, job.records, per_segment)]
    saved = time.monotonic()
    with (
        progress(label, total=len(chunks) * len(segments), quiet=quiet) as advance,
        ThreadPoolExecutor(job.workers if jax.default_backend() == "cpu" else 1) as pool,
    ):
        for first, count in segments:
            drawn = _drawn(job, chunks, first, count)

            def work(i: int, drawn: dict[bytes, Any] = drawn) -> tuple[Any, Records]:
                with jax.enable_x64(job.dtype == "float64"):
                    chunk = chunks[i]
                    hyper = {name: jnp.asarray(values[chunk.settings], job.dtype) for name, values in job.hyper.items()}
                    bound = jnp.asarray(job.bound, job.dtype)
                    result = job.program.advance(
                        job.origin, carries[i], drawn[chunk.seeds.tobytes()], hyper, bound, job.shape
                    )
                    jax.block_until_ready(result)
                return result

            for i, (carry, records) in enumerate(pool.map(work, range(len(chunks)))):
                carries[i] = carry
                stored[i].append(jax.tree.map(np.asarray, records))
                advance()
            done = first + count
            if checkpoint is not None and (done == job.records or time.monotonic() - saved > CHECKPOINT_SECONDS):
                checkpoints.save(checkpoint, identity, done, carries, stored)
                saved = time.monotonic()
    return carries, stored


def _chunks(job: _Job) -> list[_Chunk]:
    start = jax.eval_shape(job.program.start, _keys(job.seeds[:1]), _first_setting(job))
    largest = max(leaf.size for leaf in jax.tree.leaves(start.state))
    on_cpu = jax.default_backend() == "cpu"
    narrow, wide = (CPU_NUMBERS, CPU_WIDE_NUMBERS) if on_cpu else (ACCELERATOR_NUMBERS, ACCELERATOR_NUMBERS)
    lanes = max(1, (narrow // largest) if largest < WIDE else wide // (largest * job.shape.batch_size))
    seeds, settings = len(job.seeds), len(job.hyper["step_size"])
    if largest < WIDE:
        by_seed = min(seeds, lanes)
        by_setting = min(settings, max(1, lanes // by_seed))
    else:  # settings of one seed share its samples, which are large here
        by_setting = min(settings, lanes)
        by_seed = min(seeds, max(1, lanes // by_setting))
    return [_Chunk(s, h) for s in _split(seeds, by_seed) for h in _split(settings, by_setting)]


def _split(count: int, size: int) -> list[NDArray[np.intp]]:
    """Positions in groups of one size, as even as can be; the last is filled up with its first."""
    groups = -(-count // size)
    size = -(-count // groups)
    parts = [np.arange(first, min(first + size, count)) for first in range(0, count, size)]
    return [np.concatenate([part, np.full(size - len(part), part[0])]) for part in parts]


def _keys(seeds: NDArray[np.int64]) -> Any:
    return jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32))


def _first_setting(job: _Job) -> dict[str, Any]:
    return {name: jnp.asarray(values[:1], job.dtype) for name, values in job.hyper.items()}


def _start(job: _Job, chunk: _Chunk) -> Any:
    hyper = {name: jnp.asarray(values[chunk.settings], job.dtype) for name, values in job.hyper.items()}
    return job.program.start(_keys(job.seeds[chunk.seeds]), hyper)


def _drawn(job: _Job, chunks: list[_Chunk], first: int, count: int) -> dict[bytes, Any]:
    """Row numbers of a segment for every group of seeds; settings share them."""
    return {
        chunk.seeds.tobytes(): rows(job.origin, _keys(job.seeds[chunk.seeds]), first, job.shape, count)
        for chunk in {c.seeds.tobytes(): c for c in chunks}.values()
    }


def _result(
    job: _Job,
    chunks: list[_Chunk],
    label: str,
    settings: Sequence[Mapping[str, float]],
    carries: list[Any],
    stored: list[list[Records]],
    blocks: int,
) -> Sweep:
    seeds, count = len(job.seeds), len(job.hyper["step_size"])
    names = stored[0][0].extra
    rates = np.full((count, seeds, job.records), np.nan)
    extra: dict[str, checks.Array] = {}
    survived = np.zeros((count, seeds), dtype=np.int64)
    for chunk, carry, parts in zip(chunks, carries, stored):
        # Padding repeats a lane, so that writing it twice writes the same numbers.
        where = np.ix_(chunk.settings, chunk.seeds)
        rates[where] = np.moveaxis(np.concatenate([part.reward_rate for part in parts]), (-1, -2), (0, 1))
        survived[where] = np.asarray(carry.survived).T
        for name in names:
            values = np.moveaxis(np.concatenate([part.extra[name] for part in parts]), (-1, -2), (0, 1))
            extra.setdefault(name, np.full((count, seeds, *values.shape[2:]), np.nan))[where] = values
    per_step = job.shape.minibatches * job.shape.batch_size
    diverged_at = np.where(survived < job.records * job.shape.steps, (survived + 1) * per_step, -1)
    samples = job.shape.samples * np.arange(1, job.records + 1)
    after = (diverged_at[:, :, None] >= 0) & (samples >= diverged_at[:, :, None])
    for values in (rates, *extra.values()):
        values[after] = np.nan
    if blocks > 1:  # a window of several records: the mean over the last ones, fewer at the beginning
        total = np.cumsum(np.concatenate([np.zeros((count, seeds, 1)), rates], axis=2), axis=2)
        back = np.maximum(np.arange(1, job.records + 1) - blocks, 0)
        rates = (total[:, :, 1:] - total[:, :, back]) / (np.arange(1, job.records + 1) - back)
    named = {"step_size"}.union(*settings)
    shown: list[Setting] = [
        {name: float(values[i]) for name, values in job.hyper.items() if name in named} for i in range(count)
    ]
    return Sweep(label, shown, job.seeds, samples, rates, diverged_at, extra)


def _final(job: _Job, chunks: list[_Chunk], carries: list[Any]) -> Any:
    """The primal that every run ended at, `[settings, seeds, …]`."""
    count, seeds = len(job.hyper["step_size"]), len(job.seeds)
    parts = [job.program.final(carry) for carry in carries]
    final = jax.tree.map(lambda leaf: np.empty((count, seeds, *leaf.shape[2:]), leaf.dtype), parts[0])
    for chunk, part in zip(chunks, parts):
        where = np.ix_(chunk.settings, chunk.seeds)
        for whole, piece in zip(jax.tree.leaves(final), jax.tree.leaves(part)):
            whole[where] = piece
    return final


# Compiled programs, by what they were built from: a second sweep of the same kind compiles nothing.
_PROGRAMS: dict[Any, Program] = {}


def _program(
    method: Method,
    approximator: str | Approximator,
    objective: Objective,
    schedule: str,
    is_projected: bool,
    optimizer: optax.GradientTransformation | None,
    target: Target,
    record: Sequence[str] | Mapping[str, Recorder],
) -> Program:
    own = (objective.init, objective.lagrangian, objective.reward_rate, objective.minibatches, objective.projected)
    name = own if isinstance(method, Objective) else method
    sizes = tuple(leaf.shape for leaf in jax.tree.leaves(jax.eval_shape(objective.init, jax.random.key(0))))
    kept = (
        tuple(sorted(record))
        if not isinstance(record, Mapping)
        else tuple(sorted(record.items(), key=lambda item: item[0]))
    )
    key = (name, approximator, sizes, schedule, is_projected, optimizer, target, kept)
    if key not in _PROGRAMS:
        algorithm = saddle_point(
            objective, optimizer=optimizer, schedule=schedule, target=target, is_projected=is_projected
        )
        _PROGRAMS[key] = program(
            algorithm,
            objective,
            as_recorders(objective, algorithm, record),
            lanes_last=max(math.prod(size) for size in sizes) < WIDE,
        )
    return _PROGRAMS[key]


def _digest(job: _Job) -> str:
    """Of the traced program: what names cannot tell (objectives, optimizers, targets, recorders)."""
    hyper = _first_setting(job)
    carry = jax.eval_shape(job.program.start, _keys(job.seeds[:1]), hyper)
    shape = (1, job.shape.steps, job.shape.minibatches, job.shape.batch_size, 1)
    drawn, bound = jax.ShapeDtypeStruct(shape, jnp.int32), jnp.asarray(job.bound, job.dtype)
    traced = jax.make_jaxpr(partial(job.program.advance, shape=job.shape))(job.origin, carry, drawn, hyper, bound)
    return hashlib.sha256(str(traced).encode()).hexdigest()


def _start_digest(job: _Job) -> str:
    """Of where the first run starts: what an approximator or an objective of one's own begins with has no name."""
    carry = job.program.start(_keys(job.seeds[:1]), _first_setting(job))
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(carry):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def _identity(
    job: _Job,
    label: str,
    schedule: str,
    approximator: str | Approximator,
    radius: float | None,
    record: Iterable[str],
) -> dict[str, Any]:
    """What a checkpoint must agree on to be continued."""
    digest = hashlib.sha256()
    for array in job.origin:
        digest.update(np.ascontiguousarray(array).tobytes())
    return {
        "schema": checkpoints.SCHEMA,
        "method": label,
        "settings": {name: values.tolist() for name, values in job.hyper.items()},
        "seeds": job.seeds.tolist(),
        "records": job.records,
        "shape": list(job.shape),
        "schedule": schedule,
        "approximator": repr(approximator)
        if isinstance(approximator, str | MLP)
        else getattr(approximator, "__name__", "own"),
        "radius": radius,
        "dtype": job.dtype,
        "backend": jax.default_backend(),
        "jax": jax.__version__,
        "data": digest.hexdigest(),
        "start": _start_digest(job),
        "recorded": sorted(map(str, record)),
        "program": _digest(job),
    }
