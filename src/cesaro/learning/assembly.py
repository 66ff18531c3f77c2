"""From chunks of lanes back to settings × seeds."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from cesaro import checks
from cesaro.learning.job import Chunk, Job
from cesaro.learning.result import Sweep
from cesaro.learning.run import Records
from cesaro.learning.settings import Setting


def result(
    job: Job,
    chunks: list[Chunk],
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


def final(job: Job, chunks: list[Chunk], carries: list[Any]) -> Any:
    """The primal that every run ended at, `[settings, seeds, …]`."""
    count, seeds = len(job.hyper["step_size"]), len(job.seeds)
    parts = [job.program.final(carry) for carry in carries]
    ended = jax.tree.map(lambda leaf: np.empty((count, seeds, *leaf.shape[2:]), leaf.dtype), parts[0])
    for chunk, part in zip(chunks, parts):
        where = np.ix_(chunk.settings, chunk.seeds)
        for whole, piece in zip(jax.tree.leaves(ended), jax.tree.leaves(part)):
            whole[where] = piece
    return ended
