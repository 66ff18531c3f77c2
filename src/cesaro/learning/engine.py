"""Runs all lanes of a sweep, in chunks that suit the device, piece after piece, resumable."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import jax
import numpy as np
from numpy.typing import NDArray

from cesaro.algorithms import Objective, saddle_point
from cesaro.approximators import WIDE
from cesaro.engines import map_completed
from cesaro.errors import ClusterError
from cesaro.learning import checkpoints
from cesaro.learning.arguments import as_recorders
from cesaro.learning.feed import Feed
from cesaro.learning.job import Chunk, Recipe, SweepJob, advanced, first_setting, keys, start
from cesaro.learning.run import Program, Records, program, rows
from cesaro.learning.source import SampleSource
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
        drawn = _drawn(job, origin, [chunks[i] for i in todo], first, count)
        begun = {i: start(job, chunks[i]) if carries[i] is None else carries[i] for i in todo}

        def work(i: int) -> tuple[Any, Records]:
            with jax.enable_x64(job.dtype == "float64"):
                return advanced(job, origin, chunks[i], begun.pop(i), drawn[chunks[i].seeds.tobytes()])

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
    start = jax.eval_shape(job.program.start, keys(job.seeds[:1]), first_setting(job))
    largest = max(leaf.size for leaf in jax.tree.leaves(start.state))
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


def _drawn(job: SweepJob, origin: SampleSource, chunks: list[Chunk], first: int, count: int) -> dict[bytes, Any]:
    """Row numbers of a segment for every group of seeds; settings share them."""
    return {
        chunk.seeds.tobytes(): rows(origin, keys(job.seeds[chunk.seeds]), first, job.shape, count)
        for chunk in {c.seeds.tobytes(): c for c in chunks}.values()
    }


# Compiled programs, by what they were built from: a second sweep of the same kind compiles nothing.
_PROGRAMS: dict[Any, Program] = {}


def built(recipe: Recipe, objective: Objective) -> Program:
    """The program of a recipe, whose method is this objective."""
    own = (objective.init, objective.lagrangian, objective.reward_rate, objective.minibatches, objective.projected)
    name = own if isinstance(recipe.method, Objective) else recipe.method
    sizes = tuple(leaf.shape for leaf in jax.tree.leaves(jax.eval_shape(objective.init, jax.random.key(0))))
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
