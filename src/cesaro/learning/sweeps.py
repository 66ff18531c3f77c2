"""`sweep`: all seeds × settings of a method."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

from cesaro.algorithms.saddle_point import CURRENT, Target
from cesaro.approximators import Approximator
from cesaro.checks import Array
from cesaro.data import FeatureTransitions
from cesaro.devices import starting_jax
from cesaro.engines import check_engine, session
from cesaro.files import holding
from cesaro.learning.arguments import (
    Method,
    Recorder,
    Setting,
    all_settings,
    as_method,
    as_objective,
    as_seeds,
    as_shape,
    check_choices,
    check_range,
    check_records,
)
from cesaro.learning.checkpoints import identity
from cesaro.learning.engine import built, divided, on_cluster, on_threads, run
from cesaro.learning.result import Sweep
from cesaro.learning.run import Chunk, Recipe, Records, SweepJob
from cesaro.learning.source import Feed, Still
from cesaro.linear import LinearProblem

# A run counts as diverged once |r̂| exceeds this times 1 + max |R|.
DIVERGED = 1e6


def sweep(
    method: Method,
    data: LinearProblem | FeatureTransitions | Feed,
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
    engine: str = "local",
    address: str | None = None,
    quiet: bool = False,
) -> Sweep:
    """Run a method with every setting and seed, from i.i.d. samples of a known problem or of transitions.

    Samples belong to the seed: all settings of a seed see the same stream. A run's result depends on its seed and its setting
    only, to rounding, and on nothing that runs beside it.

    Args:
        method: a name (`diff-sgq diff-gq1 diff-gq2 diff-gq3 diff-gq4 gradient-dice`), or your own: a function
            `(approximator, num_inputs) -> Objective`, `file.py:name` of one, or an `Objective`.
        data: a `LinearProblem`, `FeatureTransitions`, or a `Feed` whose rows change from record to record.
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
        workers: chunks that run at the same time on a CPU of this machine; default one per core. Results do not depend on it.
        engine: "local", or "ray": chunks of settings and seeds become tasks of a Ray cluster, which may lose workers and nodes
            meanwhile. The result is the same, bit for bit on machines of one kind, and a checkpoint can be finished by the
            other engine.
        address: of a running cluster, `host:port` or "auto"; None: that of this machine, or one that is started for the sweep.
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
    check_choices(dtype, target, optimizer, record, workers)
    check_engine(engine, address)
    method = as_method(method)
    with starting_jax():
        jax.devices()
    with jax.enable_x64(dtype == "float64"), holding(checkpoint):
        feed = data if isinstance(data, Feed) else Still(data)
        origin = feed.source(0, dtype)
        recipe = Recipe(
            method, approximator, origin.features.shape[1], schedule, radius is not None, optimizer, target, record
        )
        objective, label = as_objective(method, approximator, recipe.inputs)
        chosen = all_settings(objective, settings, schedule, radius, label)
        shape, blocks = as_shape(objective, budget, record_every, window, batch_size)
        compiled = built(recipe, objective)
        seed_numbers = as_seeds(seeds)
        check_range(chosen, dtype)
        bound = min(DIVERGED * (1 + float(np.abs(np.asarray(origin.rewards)).max())), float(np.finfo(dtype).max))
        records, threads = int(budget // record_every), workers or os.cpu_count() or 1
        check_records(len(next(iter(chosen.values()))), len(seed_numbers), records)
        job = SweepJob(compiled, shape, chosen, seed_numbers, records, bound, dtype, threads)
        mine = {} if checkpoint is None else identity(job, recipe, origin, feed.identity(), label, radius)
        del origin  # of the first record alone, where rows change
        chunks = divided(job)
        with session(engine, address):
            carries, kept = run(
                job,
                feed,
                chunks,
                on_cluster(job, recipe, feed, chunks, address) if engine == "ray" else on_threads(job, feed, chunks),
                label=label,
                checkpoint=None if checkpoint is None else Path(checkpoint),
                identity=mine,
                is_remote=engine == "ray",
                quiet=quiet,
            )
    found = _assembled(job, chunks, label, settings or [{}], carries, kept, blocks)
    return replace(found, final=_final(job, chunks, carries)) if keep_final else found


def _assembled(
    job: SweepJob,
    chunks: list[Chunk],
    label: str,
    settings: Sequence[Mapping[str, float]],
    carries: list[Any],
    stored: list[list[Records]],
    blocks: int,
) -> Sweep:
    """The result from chunks of lanes: settings × seeds again."""
    seeds, count = len(job.seeds), len(job.hyper["step_size"])
    names = stored[0][0].extra
    rates = np.full((count, seeds, job.records), np.nan)
    extra: dict[str, Array] = {}
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


def _final(job: SweepJob, chunks: list[Chunk], carries: list[Any]) -> Any:
    """The primal that every run ended at, `[settings, seeds, …]`."""
    count, seeds = len(job.hyper["step_size"]), len(job.seeds)
    parts = [job.program.final(carry) for carry in carries]
    ended = jax.tree.map(lambda leaf: np.empty((count, seeds, *leaf.shape[2:]), leaf.dtype), parts[0])
    for chunk, part in zip(chunks, parts):
        where = np.ix_(chunk.settings, chunk.seeds)
        for whole, piece in zip(jax.tree.leaves(ended), jax.tree.leaves(part)):
            whole[where] = piece
    return ended
