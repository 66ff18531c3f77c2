"""Learning: the whole of Figure 2 against a plain NumPy loop in the same run, nanoseconds per run-step, and cost against K.

A run-step is one update of one run; `cesaro reproduce boyan` takes 682.5 million of them. Diff-GQ2 takes two samples in each,
the others one. The command runs twice, each time in a process of its own: with no compiled program, and with those that the first
run left. The plain baseline is what one would
write first: one run at a time, a few NumPy calls per update, on one core; its time is extrapolated to the whole study. The
bound is arithmetic: the additions and multiplications of an update at the rate of a fused multiply-add loop over
cache-resident arrays, measured here.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

import cesaro as cs
from cesaro.devices import CACHE
from cesaro.learning.engine import CPU_NUMBERS

Array = NDArray[np.float64]
STEPS = 2.0 ** -np.arange(1, 21)
RIDGES, LAMBDAS = (0.0, 0.01, 0.1), (0.0, 0.1, 1.0, 10.0)
GRIDS = {
    "diff-sgq": cs.grid(step_size=STEPS),
    "diff-gq1": cs.grid(step_size=STEPS, ridge=RIDGES),
    "diff-gq2": cs.grid(step_size=STEPS, ridge=RIDGES),
    "gradient-dice": cs.grid(step_size=STEPS, ridge=RIDGES, lam=LAMBDAS),
}
PANELS, RUNS, SAMPLES = 13, 30, 5_000


def updates(method: str) -> int:
    """Updates per run."""
    return SAMPLES // 2 if method == "diff-gq2" else SAMPLES


def run_steps(method: str) -> int:
    """Updates of the whole study."""
    return PANELS * RUNS * len(GRIDS[method]) * updates(method)


def operations(method: str, features: int) -> int:
    """Additions and multiplications of one update, counted from its formula."""
    dots = {"diff-sgq": 2, "diff-gq1": 3, "diff-gq2": 5, "gradient-dice": 3}[method]
    vectors = {"diff-sgq": 1, "diff-gq1": 2, "diff-gq2": 2, "gradient-dice": 2}[method]
    # A dot is 2K; a vector update is a difference, two products and a sum (with ridge) per entry.
    return (2 * dots + 5 * vectors) * features


def plain_loop(method: str, problem: cs.LinearProblem, steps: int) -> float:
    """Seconds per update of a plain NumPy loop."""
    space = problem.sample_space
    rng = np.random.default_rng(0)
    drawn = rng.choice(len(space.pair), p=space.probability, size=2 * steps)
    x, x_next, reward = problem.X[space.pair[drawn]], problem.X[space.next_pair[drawn]], problem.r[space.pair[drawn]]
    K, alpha, eta, lam = problem.num_features, 0.01, 0.01, 1.0
    w, nu = np.zeros(K), np.zeros(K + 1 if method == "diff-gq1" else K)
    rate: Any = 0.0
    u: Any = 0.0
    window = np.zeros(100)
    start = time.perf_counter()
    for k in range(steps):
        a, b, r = x[k], x_next[k], reward[k]
        if method == "diff-sgq":
            delta = r - rate + b @ w - a @ w
            w = w + alpha * delta * a
            rate += alpha * delta
        elif method == "diff-gq1":
            y = np.concatenate(([1.0], a))
            delta, tau = r - rate + b @ w - a @ w, y @ nu
            nu = nu + alpha * (delta - tau) * y
            w = w + alpha * ((a - b) * tau - eta * w)
            rate += alpha * tau
        elif method == "diff-gq2":
            c, d, s = x[steps + k], x_next[steps + k], reward[steps + k]
            first, second, tau = r + b @ w - a @ w, s + d @ w - c @ w, a @ nu
            nu = nu + alpha * (first - second - tau) * a
            w = w + alpha * (((a - b) - (c - d)) * tau - eta * w)
            rate += alpha * (0.5 * (first + second) - rate)
        else:
            tau, f, f_next = a @ w, a @ nu, b @ nu
            w, nu = w - alpha * (a * (f_next - f + lam * u) + eta * w), nu + alpha * (tau * (b - a) - f * a)
            u += alpha * lam * (tau - 1 - u)
            rate += alpha * (tau * r - rate)
        window[k % 100] = rate
    return (time.perf_counter() - start) / steps


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def arithmetic_rate() -> float:
    """Floating-point operations per second of a fused multiply-add loop over a small array, on one core or the accelerator."""
    size = CPU_NUMBERS if jax.default_backend() == "cpu" else 2**24
    repeats = 20_000 if jax.default_backend() == "cpu" else 1_000

    @jax.jit
    def loop(x: jax.Array) -> jax.Array:
        def body(i: jax.Array, y: jax.Array) -> jax.Array:
            for _ in range(16):
                y = y * jnp.float32(0.999) + x
            return y

        return jax.lax.fori_loop(0, repeats, body, x)

    x = jnp.ones(size, jnp.float32)
    jax.block_until_ready(loop(x))
    return 32 * repeats * size / min(timed(lambda: jax.block_until_ready(loop(x))) for _ in range(3))


def engine(method: str, problem: cs.LinearProblem, seeds: int) -> tuple[float, float]:
    """Seconds of compilation, and seconds per run-step once compiled."""

    def work() -> object:
        return cs.sweep(method, problem, settings=GRIDS[method], seeds=seeds)

    first = timed(work)
    warm = min(timed(work) for _ in range(3))
    return first - warm, warm / (seeds * len(GRIDS[method]) * updates(method))


def whole_study() -> dict[str, tuple[float, int]] | None:
    """Seconds of the command, start, compilation, figures and files included, and programs that it compiled: cold and warm."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder) / "cache"
        settings = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
        for name in ("cold", "warm"):
            out = str(Path(folder) / name)
            command = [sys.executable, "-m", "cesaro.cli", "reproduce", "boyan", "--out", out, "--quiet"]
            before = len(list(programs.rglob("*-cache")))
            start = time.perf_counter()
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env={**settings, CACHE: str(programs)}
            )
            seconds = time.perf_counter() - start
            if done.returncode:
                print(f"  (the whole study did not run here: {done.stderr.strip().splitlines()[-1]})")
                return None
            found[name] = seconds, len(list(programs.rglob("*-cache"))) - before
    return found


def main() -> None:
    device = jax.devices()[0]
    problem = cs.problems.boyan_chain(0.5, 0.1)
    peak = arithmetic_rate()
    on_cpu = jax.default_backend() == "cpu"
    cores = (os.cpu_count() or 1) if on_cpu else 1
    # A panel fills a CPU's vector units; an accelerator wants the runs of all panels at once.
    seeds = RUNS if on_cpu else RUNS * PANELS
    print(f"Learning on {device.device_kind} × {cores}; multiply-add loop: {peak / 1e9:.1f} Gflop/s per core or device")
    print(
        f"{'method':<15}{'plain NumPy':>14}{'cesaro':>12}{'a sample':>12}{'ratio':>9}{'compile':>10}{'bound':>10}{'of bound':>10}"
    )
    plain_total = 0.0
    engine_total = compiling = 0.0
    per_sample = {}
    for method in GRIDS:
        plain = plain_loop(method, problem, 20_000)
        compiled, fast = engine(method, problem, seeds)
        bound = operations(method, problem.num_features) / (peak * cores)
        plain_total += plain * run_steps(method)
        engine_total += fast * run_steps(method)
        compiling += compiled
        per_sample[method] = fast * updates(method) / SAMPLES
        print(
            f"{method:<15}{plain * 1e9:>11.0f} ns{fast * 1e9:>9.1f} ns{per_sample[method] * 1e9:>9.1f} ns{plain / fast:>8.0f}×"
            f"{compiled:>8.2f} s"
            f"{bound * 1e9:>7.3f} ns{bound / fast:>9.1%}"
        )
    print(f"Diff-GQ2 / Diff-GQ1: {per_sample['diff-gq2'] / per_sample['diff-gq1']:.2f} per sample")
    steps = sum(run_steps(method) for method in GRIDS)
    print(f"Figure 2, {steps / 1e6:.1f} million run-steps: plain loop {plain_total:,.0f} s (extrapolated)")
    both = engine_total + compiling
    print(
        f"  engine, from {seeds} runs per setting: {engine_total:.2f} s, {plain_total / engine_total:,.0f}× faster; with "
        f"compilation {both:.1f} s, {plain_total / both:,.0f}×"
    )
    if on_cpu:
        for name, (seconds, programs) in (whole_study() or {}).items():
            print(
                f"  `cesaro reproduce boyan`, start to files, {name}: {seconds:.1f} s ({programs} programs compiled): "
                f"{plain_total / seconds:,.0f}× faster"
            )
    print("Cost per run-step against the number of features (Diff-GQ1, 8 settings × 8 seeds):")
    rng = np.random.default_rng(0)
    for features, budget in ((6, 4_000), (60, 4_000), (600, 1_000), (6_000, 200)):
        x, x_next = rng.normal(size=(2, 500, features)) / np.sqrt(features)
        data = cs.FeatureTransitions(x, rng.normal(size=500), x_next)

        def work(data: cs.FeatureTransitions = data, budget: int = budget) -> object:
            return cs.sweep("diff-gq1", data, settings=cs.grid(step_size=STEPS[2:10]), seeds=8, budget=budget)

        work()
        cost = min(timed(work) for _ in range(3)) / (64 * budget)
        print(f"  K = {features:>5}: {cost * 1e9:>9.1f} ns, {cost * 1e9 / features:>6.2f} ns per feature")


if __name__ == "__main__":
    main()
