"""Runs all lanes of a sweep, in chunks that suit the device, piece after piece, resumable: on threads, or on a cluster."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from cesaro import checks
from cesaro.algorithms import Objective, saddle_point
from cesaro.approximators import WIDE
from cesaro.engines import map_completed
from cesaro.errors import ClusterError, InputError
from cesaro.learning import checkpoints
from cesaro.learning.arguments import RunShape, as_objective, as_recorders
from cesaro.learning.run import FIRST, Chunk, Program, Recipe, Records, SweepJob, advanced, program, rows, start
from cesaro.learning.source import Feed, SampleSource
from cesaro.progress import progress

# On a CPU, XLA compiles a step of few parameters to tight vector loops as long as no array of it exceeds about this many
# numbers; beyond, it splits loops over threads and a step takes many times as long. So lanes go in chunks of this size, one
# chunk per core, with up to so many settings in a row, along which vectors go. With many parameters, where products dominate,
# a chunk should fit the second-level cache: a network with minibatches goes one run at a time.
CPU_NUMBERS, CPU_ROW = 4096, 128
CPU_WIDE_NUMBERS = 2**16
# On an accelerator, all lanes go together up to this many numbers of state, times the minibatch.
ACCELERATOR_NUMBERS = 2**31
# Row numbers drawn ahead at a time.
DRAWN_AHEAD = 2**24
CHECKPOINT_SECONDS = 10.0

# `(carries, which chunks, first record, number of records) -> (chunk, carry, records), …` as chunks end.
Advance: TypeAlias = Callable[[list[Any], list[int], int, int], Iterator[tuple[int, Any, Records]]]


def run(
    job: SweepJob,
    feed: Feed,
    chunks: list[Chunk],
    advance: Advance,
    *,
    label: str,
    checkpoint: Path | None,
    identity: dict[str, Any],
    is_remote: bool,
    quiet: bool,
) -> tuple[list[Any], list[list[Records]]]:
    """Run all chunks; return what each carries at the end, and its records.

    A checkpoint is written between segments, which all chunks reach together, and on a cluster also as chunks come back.
    """
    carries: list[Any] = [None] * len(chunks)
    stored: list[list[Records]] = [[] for _ in chunks]
    if checkpoint is not None and checkpoint.exists():
        carries, stored = checkpoints.load(checkpoint, identity, structure(job, chunks), len(chunks))
    done = [sum(len(part.reward_rate) for part in parts) for parts in stored]
    cuts = _cuts(job, feed, done)
    todo = {first: [i for i, count in enumerate(done) if count <= first] for first in cuts[:-1]}
    saved = time.monotonic()

    def save() -> None:
        nonlocal saved
        if checkpoint is not None:
            checkpoints.save(checkpoint, identity, min(done), carries, stored)
            saved = time.monotonic()

    def is_due() -> bool:
        return time.monotonic() - saved > CHECKPOINT_SECONDS

    with progress(label, total=sum(map(len, todo.values())), quiet=quiet) as step:
        try:
            for first, end in pairwise(cuts):
                for i, carry, records in advance(carries, todo[first], first, end - first):
                    carries[i], done[i] = carry, end
                    stored[i].append(jax.tree.map(np.asarray, records))
                    step()
                    if is_remote and is_due():
                        save()
                if end == job.records or is_due():
                    save()
        except ClusterError:
            save()
            raise
    return carries, stored


def on_threads(job: SweepJob, feed: Feed, chunks: list[Chunk]) -> Advance:
    """On a CPU as many chunks at a time as there are workers; on an accelerator one."""

    def advance(carries: list[Any], todo: list[int], first: int, count: int) -> Iterator[tuple[int, Any, Records]]:
        origin = feed.source(first, job.dtype)
        drawn = _drawn(job, origin, first, count) if todo else None
        begun = {i: start(job, chunks[i]) if carries[i] is None else carries[i] for i in todo}

        def work(i: int) -> tuple[Any, Records]:
            with jax.enable_x64(job.dtype == "float64"):
                return advanced(job, origin, chunks[i], begun.pop(i), _of_chunk(drawn, chunks[i]))

        workers = job.workers if jax.default_backend() == "cpu" else 1
        for number, (carry, records) in map_completed(work, todo, workers=workers):
            yield todo[number], carry, records

    return advance


def structure(job: SweepJob, chunks: list[Chunk]) -> Any:
    """The structure of what a chunk carries."""
    return jax.tree.structure(jax.eval_shape(lambda: start(job, chunks[0])))


def _cuts(job: SweepJob, feed: Feed, done: list[int]) -> list[int]:
    """Records at which all chunks meet: where rows change, or every so many, not to draw row numbers too far ahead."""
    per_segment = 1 if feed.changes else max(1, DRAWN_AHEAD // (job.shape.samples * len(job.seeds)))
    return sorted({*range(min(done), job.records, per_segment), *done, job.records})


def divided(job: SweepJob) -> list[Chunk]:
    """The lanes in chunks of one size."""
    one = jax.eval_shape(lambda: start(job, FIRST))
    largest = max(leaf.size for leaf in jax.tree.leaves(one.state))
    on_cpu = jax.default_backend() == "cpu"
    narrow, wide = (CPU_NUMBERS, CPU_WIDE_NUMBERS) if on_cpu else (ACCELERATOR_NUMBERS, ACCELERATOR_NUMBERS)
    lanes = max(1, (narrow // largest) if largest < WIDE else wide // (largest * job.shape.batch_size))
    seeds, settings = len(job.seeds), len(job.hyper["step_size"])
    # Settings of one seed share its samples.
    by_setting = min(settings, lanes, CPU_ROW if on_cpu and largest < WIDE else lanes)
    by_seed = min(seeds, lanes // by_setting)
    return [Chunk(s, h) for s in _split(seeds, by_seed) for h in _split(settings, by_setting)]


def _split(count: int, size: int) -> list[NDArray[np.intp]]:
    """Positions in groups of one size, as even as can be; the last is filled up with its first."""
    groups = -(-count // size)
    size = -(-count // groups)
    parts = [np.arange(first, min(first + size, count)) for first in range(0, count, size)]
    return [np.concatenate([part, np.full(size - len(part), part[0])]) for part in parts]


def _drawn(job: SweepJob, origin: SampleSource, first: int, count: int) -> Any:
    """Row numbers of a segment for all seeds, `[samples, seeds]`: one program, whatever the chunks are; settings share them."""
    return rows(origin, job.seeds, first, job.shape, count)


def _of_chunk(drawn: Any, chunk: Chunk) -> Any:
    return drawn if len(chunk.seeds) == drawn.shape[1] else np.asarray(drawn)[:, chunk.seeds]


# Compiled programs, by what they were built from: a second sweep of the same kind compiles nothing.
_PROGRAMS: dict[Any, Program] = {}


def built(recipe: Recipe, objective: Objective) -> Program:
    """The program of a recipe, whose method is this objective."""
    own = (objective.init, objective.lagrangian, objective.reward_rate, objective.minibatches, objective.projected)
    name = own if isinstance(recipe.method, Objective) else recipe.method
    sizes = tuple(leaf.shape for leaf in jax.tree.leaves(objective.shapes))
    record = recipe.record
    kept = (
        tuple(sorted(record))
        if not isinstance(record, Mapping)
        else tuple(sorted(record.items(), key=lambda item: item[0]))
    )
    key = (name, sizes, kept, *recipe._replace(method="", record=()))
    if key not in _PROGRAMS:
        algorithm = saddle_point(
            objective,
            optimizer=recipe.optimizer,
            schedule=recipe.schedule,
            target=recipe.target,
            is_projected=recipe.is_projected,
        )
        _PROGRAMS[key] = program(
            algorithm,
            objective,
            as_recorders(objective, algorithm, record),
            lanes_last=max(math.prod(size) for size in sizes) < WIDE,
        )
    return _PROGRAMS[key]


# On a cluster.

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
            drawn = rows(origin, job.seeds[chunk.seeds], first, job.shape, count)
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
