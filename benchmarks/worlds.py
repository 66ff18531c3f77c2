"""Learned worlds: a training step against the bare matrix products of its shape, a simulated step against a bare forward pass.

The products of an update are three per layer (forward, for the weights, for the inputs but in the first layer), of all members at
once, in single precision; they are measured here, in the same run. A simulated step also finds a residual for every particle and
keeps bounds. First comes what a user waits for: a world of 20,000 rows and 4 columns with 5 members, in a process that has
compiled nothing, and then again. A GPU is also given the shapes that it is for, and with `--recorded FOLDER`, where
`cesaro reproduce mujoco` keeps its logs, 400,000 rows of HalfCheetah.
"""

import argparse
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cesaro as cs
from cesaro.worlds import training as learning
from cesaro.worlds.training import Rows

ROWS, COLUMNS, MEMBERS, WIDTHS, BATCH = 20_000, 4, 5, (64, 64), 256
PARTICLES = 240
# For a GPU: members, widths and rows of a step; columns of HalfCheetah's observations and actions, and rows of its log.
LARGE = (16, (256, 256, 256), 1_024, (17 + 6, 17 + 1))
CHEETAH, CHEETAH_ROWS = "HalfCheetah-v5_sigma_0.5_*.npz", 400_000


def best(work: Callable[[], Any], repeats: int = 5) -> float:
    """Seconds of the fastest call, after one that compiles."""
    jax.block_until_ready(work())
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(work())
        found.append(time.perf_counter() - start)
    return min(found)


def a_log(rows: int) -> cs.Transitions:
    """A stable linear system of four columns under noise."""
    rng = np.random.default_rng(0)
    x, actions = np.zeros((rows, COLUMNS)), rng.normal(size=(rows, 1))
    step = 0.8 * np.linalg.qr(rng.normal(size=(COLUMNS, COLUMNS)))[0]
    noise = 0.3 * rng.normal(size=x.shape)
    for t in range(rows - 1):
        x[t + 1] = step @ x[t] + 0.3 * actions[t] + noise[t]
    return cs.Transitions(x, actions, -(x**2).sum(axis=1), trajectory=np.arange(rows) // (rows // 20))


def training(members: int, widths: tuple[int, ...], batch: int, columns: tuple[int, int], aim: str) -> str:
    """A chunk of steps of all members, and the same products alone."""
    rng = np.random.default_rng(0)
    sizes = (columns[0], *widths, columns[1])
    rows = Rows(
        rng.normal(size=(ROWS, sizes[0])).astype(np.float32),
        rng.normal(size=(ROWS, sizes[-1])).astype(np.float32),
        np.zeros((ROWS, 0), np.int32),
        np.ones((ROWS, sizes[-1]), np.bool_),
        np.ones(ROWS, np.float32),
    )
    networks = jax.device_put(learning.first_networks(rng, members, sizes))
    state = jax.vmap(learning._optimizer().init)(networks)
    own = jnp.tile(jnp.arange(ROWS, dtype=jnp.int32), (members, 1))
    held, keys = own[:, :1_024], jax.random.split(jax.random.key(1), members)
    step_sizes = np.full(members, 1e-3, np.float32)
    ours = (
        best(lambda: learning._chunk(networks, state, rows, own, held, keys, step_sizes, sizes=(), batch_size=batch))
        / learning.CHUNK
    )

    @jax.jit
    def products(inputs: Any, weights: Any) -> Any:
        def step(total: Any, _: Any) -> Any:
            for number, weight in enumerate(weights):
                out = jnp.einsum("mbi,mio->mbo", inputs[number] + 1e-9 * total, weight)
                back = jnp.einsum("mbi,mbo->mio", inputs[number] + 1e-9 * total, out)
                total = total + out.sum() + back.sum()
                if number:
                    total = total + jnp.einsum("mbo,mio->mbi", out, weight).sum()
            return total * 1e-9, None

        return jax.lax.scan(step, jnp.float32(0), None, length=learning.CHUNK)[0]

    inputs = [jnp.ones((members, batch, size), jnp.float32) for size in sizes[:-1]]
    bare = best(lambda: products(inputs, [weight for weight, _ in networks])) / learning.CHUNK
    count = members * batch * sum(2 * a * b for a, b in pairwise(sizes)) * 3
    return (
        f"training, {members} members, {batch} rows, widths {widths}: {1e3 * ours:.3f} ms a step; its products alone "
        f"{1e3 * bare:.3f} ms ({count / bare / 1e9:.0f} Gflop/s): {bare / ours:.0%} of it (aim {aim})"
    )


def simulation(world: cs.World) -> str:
    """Steps of all particles, and the forward pass alone."""
    process: Any = world.process_
    rng = np.random.default_rng(0)
    state = process.start(PARTICLES, rng, logged=PARTICLES)
    actions = np.zeros((MEMBERS * PARTICLES, 1))
    inputs = jnp.asarray(process.inputs(state, actions).reshape(MEMBERS, PARTICLES, -1))
    bare = best(lambda: learning.outputs_of(process.model.networks, inputs), 50)
    ours = best(lambda: [process.step(state, actions, rng) for _ in range(20)]) / 20
    return (
        f"simulation, {MEMBERS} × {PARTICLES} particles: {MEMBERS * PARTICLES / ours:,.0f} steps a second; the forward pass "
        f"alone {bare / ours:.0%} of the time"
    )


def rehearsal() -> str:
    """Candidates in twenty worlds of a shorter log, once these are learned."""
    log = a_log(5_000)
    start = time.perf_counter()
    world = cs.World(20, quiet=True).fit(log)
    learned = time.perf_counter()
    maps = ["linear", "polynomial:2", "polynomial:3", "fourier:50", "fourier:200", "auto"]
    cs.rehearse(log, lambda x: -0.2 * x[:, :1], maps, worlds=world, quiet=True)
    return (
        f"rehearsal, 5,000 rows: 20 worlds learned in {learned - start:.1f} s; 6 closed forms in each, and the target run "
        f"there, {time.perf_counter() - learned:.1f} s (aim 60 s)"
    )


def cheetah(folder: Path) -> str:
    """A robot's log: learning its world, in a process whose programs for these shapes are not compiled, and again."""
    file = next(folder.glob(CHEETAH), None)
    if file is None:
        raise SystemExit(f"error: --recorded must hold {CHEETAH}. Got none in '{folder}'.")
    kept = np.load(file)
    names = ("observations", "actions", "rewards", "next_observations")
    streams = np.repeat(np.arange(len(kept["lengths"])), kept["lengths"])[:CHEETAH_ROWS]
    log = cs.Transitions(*(kept[name][:CHEETAH_ROWS] for name in names), trajectory=streams)
    seconds = []
    for seed in range(2):
        start = time.perf_counter()
        world = cs.World(MEMBERS, LARGE[1], LARGE[2], random_state=seed, quiet=True).fit(log)
        seconds.append(time.perf_counter() - start)
    return (
        f"a world of HalfCheetah, {len(log):,} rows, {MEMBERS} members, widths {LARGE[1]}, {LARGE[2]} rows a step: "
        f"{seconds[0]:.1f} s, compilation included; again {seconds[1]:.1f} s in {world.report()['steps']:,} steps (aim 15 s)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recorded", type=Path, help="folder with logs of robots")
    given = parser.parse_args()
    log = a_log(ROWS)
    start = time.perf_counter()
    world = cs.World(MEMBERS, quiet=True).fit(log)
    first = time.perf_counter() - start
    start = time.perf_counter()
    cs.World(MEMBERS, random_state=1, quiet=True).fit(log)
    again = time.perf_counter() - start
    print(f"device: {jax.devices()[0].device_kind}, {jax.device_count()}", flush=True)
    print(
        f"a world of {ROWS:,} rows, {COLUMNS} columns, {MEMBERS} members: {first:.1f} s, compilation included (aim 30 s); "
        f"again {again:.1f} s (aim 20 s)"
    )
    print(training(MEMBERS, WIDTHS, BATCH, (COLUMNS + 1, COLUMNS + 1), "50 %"), flush=True)
    if jax.default_backend() == "gpu":
        print(training(*LARGE, "60 %"), flush=True)
    print(simulation(world), flush=True)
    print(rehearsal(), flush=True)
    if given.recorded is not None:
        print(cheetah(given.recorded))


if __name__ == "__main__":
    main()
