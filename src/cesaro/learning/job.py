"""The parts of a sweep: a recipe for its program, numbers to run it with, and chunks of lanes that run together."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from cesaro import checks
from cesaro.algorithms.saddle_point import Target
from cesaro.approximators import Approximator
from cesaro.learning.arguments import Method
from cesaro.learning.run import Program, Recorder, RunShape
from cesaro.learning.source import SampleSource


class Recipe(NamedTuple):
    """All that a program is built from, as the user gave it: it can travel where a compiled program cannot."""

    method: Method
    approximator: str | Approximator
    inputs: int
    schedule: str
    is_projected: bool
    optimizer: optax.GradientTransformation | None
    target: Target
    record: Sequence[str] | Mapping[str, Recorder]


class SweepJob(NamedTuple):
    """Everything a run needs, checked."""

    program: Program
    shape: RunShape
    hyper: dict[str, checks.Array]  # [settings] each
    seeds: NDArray[np.int64]
    records: int
    bound: float
    dtype: str
    workers: int


class Chunk(NamedTuple):
    """Lanes that run together: positions of seeds and settings, padded to a common size by repetition."""

    seeds: NDArray[np.intp]
    settings: NDArray[np.intp]


def keys(seeds: NDArray[np.int64]) -> Any:
    return jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32))


def first_setting(job: SweepJob) -> dict[str, Any]:
    return {name: jnp.asarray(values[:1], job.dtype) for name, values in job.hyper.items()}


def settings_of(job: SweepJob, chunk: Chunk) -> dict[str, Any]:
    return {name: jnp.asarray(values[chunk.settings], job.dtype) for name, values in job.hyper.items()}


def start(job: SweepJob, chunk: Chunk) -> Any:
    """The carry that the runs of a chunk begin with."""
    return job.program.start(keys(job.seeds[chunk.seeds]), settings_of(job, chunk))


def advanced(job: SweepJob, origin: SampleSource, chunk: Chunk, carry: Any, drawn: Any) -> tuple[Any, Any]:
    """The chunk after the drawn rows, and its records."""
    bound = jnp.asarray(job.bound, job.dtype)
    result = job.program.advance(origin, carry, drawn, settings_of(job, chunk), bound, job.shape)
    return jax.block_until_ready(result)
