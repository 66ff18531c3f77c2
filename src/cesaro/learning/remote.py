"""A sweep on a cluster: a task advances one chunk of lanes over some records, as the local engine would."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from cesaro import checks
from cesaro.engines import map_completed
from cesaro.errors import InputError
from cesaro.learning.arguments import as_objective
from cesaro.learning.engine import Advance, built, structure
from cesaro.learning.feed import Feed
from cesaro.learning.job import Chunk, Recipe, SweepJob, advanced, keys, start
from cesaro.learning.run import Records, RunShape, rows
from cesaro.learning.source import SampleSource

# What changes numbers although it is no argument.
_CONFIGURATION = ("jax_default_prng_impl", "jax_threefry_partitionable", "jax_default_matmul_precision")

Leaves = list[NDArray[Any]]


def on_cluster(job: SweepJob, recipe: Recipe, feed: Feed, chunks: list[Chunk], address: str | None) -> Advance:
    """Tasks, each on a core, or on a GPU where this process computes on one."""
    if feed.changes:
        raise InputError("engine must be 'local' where the rows change from record to record. Got 'ray'.")
    work = _Work(
        recipe,
        tuple(np.asarray(array) for array in feed.source(0, job.dtype)),
        job.shape,
        job.hyper,
        job.seeds,
        job.records,
        job.bound,
        job.dtype,
        chunks,
        {name: jax.config.values[name] for name in _CONFIGURATION},
    )
    tree = structure(job, chunks)
    num_gpus = 0 if jax.default_backend() == "cpu" else 1

    def advance(carries: list[Any], todo: list[int], first: int, count: int) -> Iterator[tuple[int, Any, Records]]:
        items = ((i, _leaves(carries[i]), first, count) for i in todo)
        for number, (leaves, records) in map_completed(work, items, engine="ray", address=address, num_gpus=num_gpus):
            # Copies: what arrives is a view of the cluster's memory.
            yield todo[number], jax.tree.unflatten(tree, map(np.array, leaves)), jax.tree.map(np.array, records)

    return advance


def _leaves(carry: Any) -> Leaves | None:
    return None if carry is None else [np.asarray(leaf) for leaf in jax.tree.leaves(carry)]


@dataclass(frozen=True)
class _Work:
    """The work that travels to a worker once; there it builds its program and keeps it."""

    recipe: Recipe
    origin: tuple[NDArray[Any], ...]
    shape: RunShape
    hyper: dict[str, checks.Array]
    seeds: NDArray[np.int64]
    records: int
    bound: float
    dtype: str
    chunks: list[Chunk]
    configuration: dict[str, Any]

    def __call__(self, item: tuple[int, Leaves | None, int, int]) -> tuple[Leaves, Records]:
        number, leaves, first, count = item
        with jax.enable_x64(self.dtype == "float64"):
            (job, origin), chunk = self._built, self.chunks[number]
            carry = (
                start(job, chunk)
                if leaves is None
                else jax.tree.unflatten(structure(job, self.chunks), map(jnp.asarray, leaves))
            )
            drawn = rows(origin, keys(job.seeds[chunk.seeds]), first, job.shape, count)
            carry, records = advanced(job, origin, chunk, carry, drawn)
            return [np.asarray(leaf) for leaf in jax.tree.leaves(carry)], jax.tree.map(np.asarray, records)

    @cached_property
    def _built(self) -> tuple[SweepJob, SampleSource]:
        for name, value in self.configuration.items():
            jax.config.update(name, value)
        objective, _ = as_objective(self.recipe.method, self.recipe.approximator, self.recipe.inputs)
        program = built(self.recipe, objective)
        job = SweepJob(program, self.shape, self.hyper, self.seeds, self.records, self.bound, self.dtype, 1)
        return job, SampleSource(*map(jnp.asarray, self.origin))
