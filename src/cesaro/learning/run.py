"""One compiled program for many runs: an outer scan over records, an inner scan over steps, all lanes side by side.

A lane is one (seed, setting). Few parameters: state is laid out `[…, seeds, settings]`; samples belong to a seed and are
broadcast along the last axis, where the machine's vector units work. Many parameters: `[seeds, settings, …]`, and the vector
units work along the parameters. How many lanes go together is decided in `engine`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array, Float, Int, UInt32
from numpy.typing import NDArray

from cesaro import checks
from cesaro.algorithms.base import Algorithm, Batch, Hyper, Objective, State
from cesaro.algorithms.saddle_point import Target
from cesaro.approximators import Approximator
from cesaro.engines.local import check_wanted
from cesaro.learning.arguments import Method, Recorder, RunShape
from cesaro.learning.source import SampleSource, draw, gather

# Transitions gathered at a time inside the program: numbers per block, on a CPU and on an accelerator.
BLOCK_NUMBERS, ACCELERATOR_BLOCK_NUMBERS = 2**20, 2**24
# Steps of a block, whose rates are summed plainly.
BLOCK_STEPS = 128
# Steps that a turn of the loop takes on an accelerator, where few parameters cost launches and little else.
UNROLLED = 4
# Settings from which on a CPU's vectors go along them; along the inputs of a function before.
ROW = 16


class Carry(NamedTuple):
    """The carry of a run from record to record: its state, and the number of steps before it diverged."""

    state: Any
    alive: Any  # bool: not diverged so far
    survived: Any  # int: steps taken while alive


class Records(NamedTuple):
    """Numbers that are kept, `[records, …, seeds, settings]`."""

    reward_rate: Any  # JAX arrays inside the program, NumPy arrays outside
    extra: dict[str, Any]


class Program(NamedTuple):
    """The compiled functions of a method.

    Attributes:
        start: `(seeds, hyper {name: [settings]}) -> Carry`.
        advance: `(source, Carry, rows [samples, seeds], hyper, bound, shape) -> (Carry, Records)`.
        final: `(Carry) -> primal` to report, `[settings, seeds, …]`.
    """

    start: Callable[..., Carry]
    advance: Callable[..., tuple[Carry, Records]]
    final: Callable[[Carry], Any]


def rows(
    origin: SampleSource, seeds: NDArray[np.int64], first: int, shape: RunShape, records: int
) -> Int[Array, "samples seeds"]:
    """Row numbers for `records` records from record number `first` on."""
    return _streams(
        origin.cumulative, seeds.astype(np.uint32), np.int32(first * shape.samples), records * shape.samples
    )


@partial(jax.jit, static_argnames=("count",))
def _streams(
    cumulative: UInt32[Array, " rows"], seeds: UInt32[Array, " seeds"], first: Int[Array, ""], count: int
) -> Int[Array, "count seeds"]:
    """Depends on the numbers of rows, seeds and samples only, so that methods, shapes and features share the compiled program."""
    streams = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), 1))(seeds)
    return jax.vmap(lambda key: draw(cumulative, key, first, count), out_axes=-1)(streams)


def program(algorithm: Algorithm, objective: Objective, recorders: dict[str, Recorder], *, lanes_last: bool) -> Program:
    """Build both functions; each compiles once per shape."""
    seed, setting = (-2, -1) if lanes_last else (0, 0)
    batch_seed = -1 if lanes_last else 0

    @jax.jit
    def start(seeds: UInt32[Array, " seeds"], hyper: Hyper) -> Carry:
        lanes = jax.vmap(algorithm.init, in_axes=(None, -1), out_axes=setting)
        keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), 0))(seeds)
        state = jax.vmap(lanes, in_axes=(0, None), out_axes=seed)(keys, hyper)
        shape = seeds.shape + hyper["step_size"].shape
        return Carry(state, jnp.ones(shape, bool), jnp.zeros(shape, jnp.int32))

    # Settings of a seed share its samples. On an accelerator every lane gets a copy, since products of many lanes with one
    # matrix would be transposed.
    copies = not lanes_last and jax.default_backend() != "cpu"
    lane_step = jax.vmap(algorithm.step, in_axes=(setting, 0 if copies else None, -1), out_axes=setting)
    lane_step = jax.vmap(lane_step, in_axes=(seed, batch_seed, None), out_axes=seed)

    def step(state: State, batch: Batch, hyper: Hyper) -> tuple[State, Any]:
        if copies:
            count = len(hyper["step_size"])
            batch = jax.tree.map(lambda x: jnp.broadcast_to(x[:, None], (x.shape[0], count, *x.shape[1:])), batch)
            batch = jax.lax.optimization_barrier(batch)
        return lane_step(state, batch, hyper)

    def over_lanes(function: Recorder) -> Recorder:
        return jax.vmap(jax.vmap(function, in_axes=setting, out_axes=-1), in_axes=seed, out_axes=-2)

    rate = over_lanes(lambda state: objective.reward_rate(algorithm.report(state)))
    extra = {name: over_lanes(recorder) for name, recorder in recorders.items()}

    @partial(jax.jit, static_argnames=("shape",), donate_argnames=("carry",))
    def advance(
        origin: SampleSource,
        carry: Carry,
        drawn: Int[Array, "samples seeds"],
        hyper: Hyper,
        bound: Float[Array, ""],
        shape: RunShape,
    ) -> tuple[Carry, Records]:
        drawn = drawn.reshape(-1, shape.steps, shape.minibatches, shape.batch_size, drawn.shape[-1])
        # vmap moves lanes to the front, and memory would follow it.
        in_rows = lanes_last and jax.default_backend() == "cpu" and len(hyper["step_size"]) >= ROW
        in_order = _in_order if in_rows else lambda tree: tree

        unroll = UNROLLED if lanes_last and jax.default_backend() != "cpu" else 1

        def one_step(carried: tuple[Carry, Array], inputs: tuple[Batch, Array]) -> tuple[tuple[Carry, Array], None]:
            (carry, total), (batch, weight) = carried, inputs
            state, _ = step(in_order(carry.state), in_order(batch), hyper)
            state = in_order(state)
            estimate = rate(state)
            alive = carry.alive & (jnp.abs(estimate) <= bound)
            survived = carry.survived + alive.astype(jnp.int32)
            return (Carry(state, alive, survived), total + weight * estimate), None

        def one_block(carried: tuple[Carry, Any], inputs: tuple[Array, Array]) -> tuple[tuple[Carry, Any], None]:
            (carry, (total, lost)), (block, weights) = carried, inputs
            x, reward, x_next = gather(origin, block)  # [steps, k, b, seeds, (inputs)]
            if lanes_last:
                batch = Batch(jnp.moveaxis(x, -1, -2), reward, jnp.moveaxis(x_next, -1, -2))
            else:
                batch = Batch(jnp.moveaxis(x, -2, 1), jnp.moveaxis(reward, -1, 1), jnp.moveaxis(x_next, -2, 1))
            nothing = jnp.zeros_like(total)
            (carry, part), _ = jax.lax.scan(one_step, (carry, nothing), (batch, weights), unroll=unroll)
            # Compensated (Kahan): a plain float32 sum of a million small terms is off by a percent.
            term = part - lost
            new = total + term
            return (carry, (new, (new - total) - term)), None

        size = _block(shape.steps, drawn[0, 0].size * (2 * origin.features.shape[1] + 1))
        in_window = jnp.arange(shape.steps) >= shape.steps - shape.window
        weights = (in_window.astype(origin.features.dtype) / shape.window).reshape(-1, size)

        def one_record(carry: Carry, block: Array) -> tuple[Carry, Records]:
            blocks = block.reshape(-1, size, *block.shape[1:])
            nothing = jnp.zeros(carry.alive.shape, origin.features.dtype)
            (carry, (mean, _)), _ = jax.lax.scan(one_block, (carry, (nothing, nothing)), (blocks, weights))
            return carry, Records(mean, {name: function(carry.state) for name, function in extra.items()})

        return jax.lax.scan(one_record, carry, drawn)

    def final(carry: Carry) -> Any:
        axes = (-1, -2) if lanes_last else (1, 0)
        return jax.tree.map(lambda leaf: np.moveaxis(np.asarray(leaf), axes, (0, 1)), algorithm.report(carry.state))

    return Program(start, advance, final)


def _in_order(tree: Any) -> Any:
    """Keep arrays in memory as their axes are written."""
    return jax.tree.map(lambda leaf: with_layout_constraint(leaf, Layout(tuple(range(leaf.ndim)))), tree)


def _block(steps: int, numbers_per_step: int) -> int:
    """The largest divisor of `steps` up to `BLOCK_STEPS` whose gathered transitions fit."""
    numbers = BLOCK_NUMBERS if jax.default_backend() == "cpu" else ACCELERATOR_BLOCK_NUMBERS
    most = min(BLOCK_STEPS, max(1, numbers // max(1, numbers_per_step)))
    return max(size for size in range(1, min(steps, most) + 1) if steps % size == 0)


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


# The first run of a job alone, which tells what any run is like.
FIRST = Chunk(np.zeros(1, np.intp), np.zeros(1, np.intp))


def settings_of(job: SweepJob, chunk: Chunk) -> dict[str, Any]:
    # Converted by NumPy: JAX would compile a program for it.
    return {name: values[chunk.settings].astype(job.dtype) for name, values in job.hyper.items()}


def start(job: SweepJob, chunk: Chunk) -> Any:
    """The carry that the runs of a chunk begin with."""
    return job.program.start(job.seeds[chunk.seeds].astype(np.uint32), settings_of(job, chunk))


def advanced(job: SweepJob, origin: SampleSource, chunk: Chunk, carry: Any, drawn: Any) -> tuple[Any, Any]:
    """The chunk after the drawn rows, and its records."""
    check_wanted()
    bound = np.asarray(job.bound, job.dtype)
    result = job.program.advance(origin, carry, drawn, settings_of(job, chunk), bound, job.shape)
    return jax.block_until_ready(result)
