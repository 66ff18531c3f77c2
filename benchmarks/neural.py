"""Networks: run-steps per second of the MuJoCo study's methods, against a plain loop and against the machine's matrix rate.

17 + 6 inputs, 2 × 64 ReLU units, minibatches of 100, plain gradients. A run-step is one update of one run. The plain loop is what
one would write first: one run at a time, a compiled step, and a Python loop that draws minibatches with NumPy. The bound is
arithmetic: the products of an update at the rate of large float32 matrices, measured here (TF32 on an NVIDIA GPU, where that
is JAX's default). Small matrices cannot reach it; the rate of products of the study's own shape is printed beside it.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cesaro as cs
from cesaro.algorithms import REGISTRY, Batch, saddle_point
from cesaro.algorithms.saddle_point import CURRENT, copied
from cesaro.approximators import MLP

OBSERVATION, ACTION, WIDTHS, BATCH = 17, 6, (64, 64), 100
INPUTS = OBSERVATION + ACTION
METHODS = ("diff-gq1", "diff-sgq", "diff-gq2", "gradient-dice")
ROWS = 1_000_000


def operations(method: str) -> int:
    """Additions and multiplications of the products of one update: 2 per weight and row, forward, for weights, for inputs."""
    sizes = (INPUTS, *WIDTHS, 1)
    products = [a * b for a, b in pairwise(sizes)]
    forward = 2 * sum(products)
    learned = forward + 2 * sum(products) + 2 * sum(products[1:])  # nothing flows back into the inputs
    # Evaluations per row that are differentiated, and that are not.
    counts = {"diff-gq1": (3, 0), "diff-sgq": (1, 2), "diff-gq2": (5, 0), "gradient-dice": (3, 0)}[method]
    return BATCH * (counts[0] * learned + counts[1] * forward)


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(work())
    return time.perf_counter() - start


def matrix_rate(lanes: int, rows: int, inner: int, columns: int, repeats: int) -> float:
    """Floating-point operations per second of `lanes` products `[rows, inner] · [inner, columns]`, repeated in one program."""

    @jax.jit
    def loop(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, repeats, lambda _, y: jnp.matmul(y, w) * jnp.float32(0.5), x)

    x, w = jnp.ones((lanes, rows, inner), jnp.float32), jnp.full((lanes, inner, columns), 1 / inner, jnp.float32)
    jax.block_until_ready(loop(x, w))
    return 2 * lanes * rows * inner * columns * repeats / min(timed(lambda: loop(x, w)) for _ in range(3))


def plain_loop(method: str, data: cs.FeatureTransitions, steps: int) -> float:
    """Seconds per update of one run in a Python loop around a compiled step."""
    algorithm = saddle_point(REGISTRY[method](MLP(WIDTHS), INPUTS), target=target(method))
    hyper = {"step_size": jnp.float32(0.01), "ridge": jnp.float32(0.0), "lam": jnp.float32(1.0)}
    step, state = jax.jit(algorithm.step), algorithm.init(jax.random.key(0), hyper)
    rng, k = np.random.default_rng(0), algorithm.minibatches
    x, r, x_next = (part.astype(np.float32) for part in (data.x, data.rewards, data.x_next))

    def one(state: Any) -> Any:
        rows = rng.integers(len(r), size=(k, BATCH))
        return step(state, Batch(*(jnp.asarray(part[rows]) for part in (x, r, x_next))), hyper)[0]

    state = one(state)
    start = time.perf_counter()
    for _ in range(steps):
        state = one(state)
    jax.block_until_ready(state)
    return (time.perf_counter() - start) / steps


def target(method: str) -> Any:
    return _COPIED if method == "diff-sgq" else CURRENT


_COPIED = copied(100)


def engine(method: str, data: cs.FeatureTransitions, seeds: int, settings: int, steps: int) -> tuple[float, float]:
    """Seconds of compilation, and seconds per run-step once compiled."""
    per_step = BATCH * (2 if method == "diff-gq2" else 1)
    work = partial(
        cs.sweep,
        method,
        data,
        settings=cs.grid(step_size=np.geomspace(0.001, 0.1, settings)),
        seeds=seeds,
        budget=steps * per_step,
        record_every=100 * per_step,
        window=100 * per_step,
        batch_size=BATCH,
        approximator=MLP(WIDTHS),
        target=target(method),
        quiet=True,
    )
    first = timed(lambda: work().reward_rate)
    warm = min(timed(lambda: work().reward_rate) for _ in range(3))
    return first - warm, warm / (seeds * settings * steps)


def main() -> None:
    device = jax.devices()[0]
    on_cpu = jax.default_backend() == "cpu"
    cores = len(os.sched_getaffinity(0)) if on_cpu and hasattr(os, "sched_getaffinity") else 1
    seeds, settings, steps = (4, 1, 1_000) if on_cpu else (30, 30, 1_000)
    size, repeats = (1_024, 4) if on_cpu else (8_192, 20)
    large = matrix_rate(1, size, size, size, repeats)
    small = matrix_rate(1 if on_cpu else seeds * settings, BATCH, 64, 64, 20_000 if on_cpu else 200) * cores
    rng = np.random.default_rng(0)
    x, x_next = rng.normal(size=(2, ROWS, INPUTS))
    data = cs.FeatureTransitions(x, rng.normal(size=ROWS), x_next)
    print(
        f"Networks on {device.device_kind} × {cores}: {seeds * settings} runs, minibatches of {BATCH}, {WIDTHS} units"
    )
    print(f"float32 products: {large / 1e9:,.0f} Gflop/s large, {small / 1e9:,.0f} Gflop/s of [{BATCH}, 64] · [64, 64]")
    header = ("method", "plain loop", "cesaro", "ratio", "run-steps/s", "compile", "Gflop/s", "of large", "of small")
    print(f"{header[0]:<15}" + "".join(f"{name:>12}" for name in header[1:]))
    for method in METHODS:
        plain = plain_loop(method, data, 500)
        compiled, fast = engine(method, data, seeds, settings, steps)
        rate = operations(method) / fast
        cells = (
            f"{plain * 1e6:.0f} µs",
            f"{fast * 1e6:.2f} µs",
            f"{plain / fast:,.1f}×",
            f"{1 / fast:,.0f}",
            f"{compiled:.1f} s",
        )
        shares = (f"{rate / 1e9:,.0f}", f"{rate / large:.1%}", f"{rate / small:.1%}")
        print(f"{method:<15}" + "".join(f"{cell:>12}" for cell in (*cells, *shares)))


if __name__ == "__main__":
    main()
