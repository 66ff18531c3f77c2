"""Evaluation from logs: fitting, reading, the immediate answer of 10⁶ rows, default and full ones, beside what bounds them.

The baseline of a fit is the bare NumPy time of its two matrix products; of reading, pyarrow's own read of the file. Ratios come
from the same run. Every case runs in a fresh process, so that its peak memory is its own.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from scipy.signal import lfilter

import cesaro as cs

ROWS = 1_000_000
FEATURES = 64


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak() -> float:
    """GiB of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def resident() -> float:
    """GiB of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**30


def fit(folder: Path) -> list[str]:
    """`DiffLSTD.fit` on ready features, against `xᵀx` and `xᵀx'`."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, FEATURES))
    data = cs.FeatureTransitions(
        x, x[:, 0] + rng.standard_normal(ROWS), 0.5 * x + rng.standard_normal((ROWS, FEATURES))
    )
    size = (data.x.nbytes + data.x_next.nbytes) / 2**30
    estimator = cs.DiffLSTD(standard_errors="long-run", quiet=True)
    estimator.fit(data)  # warm caches and imports
    pairs = [
        (timed(lambda: (data.x.T @ data.x, data.x.T @ data.x_next)), timed(lambda: estimator.fit(data)))
        for _ in range(5)
    ]
    bare, ours = (min(times) for times in zip(*pairs))
    flops = 2 * 2 * ROWS * FEATURES**2
    return [
        f"DiffLSTD.fit, {ROWS:,} × {FEATURES}: {ours:.2f} s; two bare products {bare:.2f} s ({flops / bare / 1e9:.0f} Gflop/s): "
        f"{ours / bare:.2f} × (limit 3 ×)",
        f"  data {size:.2f} GiB; peak of the process {peak():.2f} GiB, making the data included: {peak() / size:.2f} × "
        "(limit 3 ×)",
    ]


def write_log(path: Path, rows: int) -> None:
    """A log as a monitoring system would write it: eight observation columns, two action columns, float32."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    noise = rng.standard_normal((rows, 8)).astype(np.float32)
    action = rng.standard_normal((rows, 2)).astype(np.float32)
    state = np.empty_like(noise)
    for column in range(8):
        drive = 0.4 * noise[:, column] + 0.2 * action[:, column % 2]
        state[:, column] = lfilter([1.0], [1.0, -0.9], drive)
    columns: dict[str, Any] = {f"obs_{i}": state[:, i] for i in range(8)}
    columns |= {f"action_{i}": action[:, i] for i in range(2)}
    columns["reward"] = -(state**2).mean(axis=1)
    columns["trajectory"] = np.arange(rows) // 1_000
    columns["time"] = np.arange(rows) % 1_000
    pq.write_table(pa.table(columns), path)


def read(folder: Path) -> list[str]:
    """`cs.read(...).load()` against pyarrow's own read."""
    import pyarrow.parquet as pq

    path = folder / "log.parquet"
    small = folder / "small.parquet"
    pq.write_table(pq.ParquetFile(path).read_row_group(0).slice(0, 1_000), small)
    size = sum(pq.read_schema(path).field(i).type.bit_width for i in range(13)) / 8 * ROWS / 2**30
    cs.read(small).load()  # imports
    before = resident()
    log = cs.read(path).load()
    grown = peak() - before
    assert len(log) == ROWS - ROWS // 1_000
    pairs = [(timed(lambda: pq.read_table(path)), timed(lambda: cs.read(path).load())) for _ in range(5)]
    bare, ours = (min(times) for times in zip(*pairs))
    return [
        f"read, {ROWS:,} rows × 13 columns ({size:.3f} GiB): {ours:.2f} s; pyarrow's read {bare:.2f} s: {ours / bare:.2f} × "
        "(limit 3 ×)",
        f"  memory grows by {grown:.3f} GiB, {grown / size:.2f} × the data (limit 3 ×)",
    ]


def _controller(observations: Any) -> Any:
    return -0.1 * observations[:, :2]


def immediate(folder: Path) -> list[str]:
    """The immediate answer on a continuous log, diagnostics included."""
    log = cs.read(folder / "log.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = timed(lambda: cs.evaluate(log, _controller, effort="none", quiet=True))
    return [
        f"immediate answer of {ROWS:,} rows, diagnostics included: {seconds:.1f} s (limit 35 s)",
        f"  peak of the process {peak():.2f} GiB",
    ]


@contextmanager
def passes_timed() -> Iterator[list[float]]:
    """Seconds of the passes that closed forms make meanwhile, one after the other."""
    from cesaro.estimators import diff_lstd
    from cesaro.passes.run import run_pass

    found: list[float] = []

    def passed(*arguments: Any) -> Any:
        start = time.perf_counter()
        try:
            return run_pass(*arguments)
        finally:
            found.append(time.perf_counter() - start)

    with mock.patch.object(diff_lstd, "run_pass", passed):
        yield found


def finite(folder: Path) -> list[str]:
    """The first pass over a log with three actions, against products of all features, most of which are zero."""
    from cesaro.passes import moments

    rows = ROWS // 4
    rng = np.random.default_rng(0)
    chosen, noise = rng.integers(0, 3, rows), rng.standard_normal((rows + 1, 4))
    noise[1:, 0] += 0.5 * (chosen - 1)
    state = lfilter([0.4], [1.0, -0.9], noise, axis=0)
    log = cs.Transitions(state[:-1], np.array(["left", "stay", "right"])[chosen], -(state[:-1, 0] ** 2), state[1:])

    def first() -> float:
        with passes_timed() as passes:
            for _ in range(3):
                cs.DiffLSTD(quiet=True).fit(log, "uniform")
        return min(passes[::2])

    ours = first()
    with mock.patch.object(moments, "ActionPairs", type("Nothing", (), {})):
        dense = first()
    return [
        f"first pass over {rows:,} rows with three actions: {ours:.2f} s; products of all features {dense:.2f} s: "
        f"{dense / ours:.1f} ×"
    ]


def accelerated(folder: Path) -> list[str]:
    """Closed forms and the immediate answer on a GPU, beside products in double precision and the reading of the log."""
    from cesaro.devices import accelerator

    device = accelerator("auto")
    if device is None:
        return ["closed form on a GPU: not measured, because JAX sees no GPU here"]
    long = folder / "long.parquet"
    write_log(long, 10 * ROWS)
    log = cs.read(folder / "log.parquet").load()
    rows, wide = f"{ROWS:,} rows in memory", {"features": "fourier:560", "dual_features": "fourier:1120"}
    found = [_on_device(device, log, rows), _on_device(device, log, rows, **wide)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ask = partial(cs.evaluate, log, _controller)
        answers = [
            min(timed(partial(ask, effort="none", device="gpu", quiet=True, **features)) for _ in range(3))
            for features in ({}, wide)
        ]
    for answer, features in zip(answers, ("default features", "560 primal and 1,120 dual features")):
        found.append(f"immediate answer of {rows}, {features}, diagnostics included: {answer:.2f} s (limit 4 s)")
    streamed = cs.read(long, stream=True)
    found.append(_on_device(device, streamed, f"{10 * ROWS:,} streamed rows"))
    reading = [timed(lambda: [len(block) for block in streamed.opened().blocks()]) for _ in range(4)]
    return [*found, f"  to read these twice and do nothing else: {2 * min(reading):.2f} s"]


def _on_device(device: Any, log: Any, rows: str, **features: Any) -> str:
    import jax
    import jax.numpy as jnp

    from cesaro.devices import device_words
    from cesaro.passes import accelerator

    programs: dict[str, Callable[[], object]] = {}  # with their last block, which lies there

    def kept(name: str) -> Any:
        program = getattr(accelerator, name)

        def called(*arguments: Any) -> Any:
            programs[name] = lambda: jax.block_until_ready(program(*arguments))
            return program(*arguments)

        return mock.patch.object(accelerator, name, called)

    estimator = cs.DiffLSTD(device="gpu", quiet=True, **features)
    with passes_timed() as passes, kept("_sums"), kept("_influence"):
        times = [timed(lambda: estimator.fit(log, _controller)) for _ in range(3)]
    dual, primal = estimator.moments_.mean("vz").shape
    block = 2**16
    blocks = estimator.prepared_.num_rows / block
    with jax.enable_x64(True):
        alone = [blocks * min(timed(program) for _ in range(5)) for program in programs.values()]
        rng = np.random.default_rng(0)
        tests, change = (jax.device_put(rng.standard_normal((block, size)), device) for size in (dual, primal))
        products = jax.jit(lambda tests, change: (jnp.matmul(tests.T, tests), jnp.matmul(tests.T, change)))
        jax.block_until_ready(products(tests, change))
        bare = blocks * min(timed(lambda: jax.block_until_ready(products(tests, change))) for _ in range(5))
    rate = 2 * blocks * block * dual * (dual + primal) / bare
    first, second = min(zip(passes[::2], passes[1::2]), key=sum)
    return (
        f"closed form of {rows}, at most {primal} primal and {dual} dual features, on {device_words(device)}: "
        f"{min(times):.2f} s, with compilation {times[0]:.2f} s\n"
        f"  moments {first:.2f} s, of which the device's programs {alone[0]:.2f} s, and products alone {bare:.3f} s "
        f"({rate / 1e12:.0f} Tflop/s); influence {second:.2f} s, of which the device's programs {alone[1]:.2f} s"
    )


def default(folder: Path) -> list[str]:
    """Default answers on logs of 20,000 and 200,000 rows of four columns, without and with compiled programs, and a full one."""
    rows: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for count, limit, has_full in ((20_000, 30, False), (20_000, 30, False), (200_000, 120, True)):
            ask = partial(cs.evaluate, _tank(count), _drain, quiet=True)
            none, quick = (timed(partial(ask, effort=effort)) for effort in ("none", "quick"))
            compiled = "compilation included" if not rows else "programs at hand"
            rows.append(
                f"default answer of {count:,} rows, {compiled}: {quick:.1f} s (limit {limit} s); immediate answer {none:.2f} s: "
                f"{quick / none:.0f} ×"
            )
            if has_full:
                full = timed(partial(ask, effort="full"))
                rows.append(
                    f"full answer of the same: {full:.1f} s (limit {limit} s): {full / quick:.1f} × the default one"
                )
    return [*rows, f"  peak of the process {peak():.2f} GiB"]


def pendulum(folder: Path) -> list[str]:
    """The default and the full answer on the suite's pendulum, which takes long to simulate."""
    from cesaro.suite import design, run
    from cesaro.suite.systems.pendulum import Pendulum

    system = Pendulum()
    log, target = run.logs_of(system, design.LARGE, 0, 0)[0], next(iter(system.targets.values()))
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for effort in ("quick", "full"):
            found[effort] = timed(partial(cs.evaluate, log, target, effort=effort, quiet=True))
    return [
        f"default answer of {len(log):,} rows of the suite's pendulum, compilation included: {found['quick']:.1f} s (limit 30 s)",
        f"full answer of the same, 20 members and a rehearsal in them: {found['full']:.1f} s: "
        f"{found['full'] / found['quick']:.1f} × the default one",
    ]


def _tank(rows: int) -> cs.Transitions:
    """Twenty tanks with inflow by the hour: level, inflow and temperature are seen, one valve is set."""
    rng = np.random.default_rng(3)
    count, length = 20, rows // 20
    seen, taken, earned = np.zeros((length + 1, count, 3)), np.zeros((length, count)), np.zeros((length, count))
    for step in range(length):
        level, inflow, warmth = seen[step].T
        taken[step] = np.clip(0.5 + 0.3 * level + 0.3 * rng.normal(size=count), 0, 1)
        earned[step] = -((level - 0.2 * warmth) ** 2) - 0.1 * taken[step]
        seen[step + 1, :, 0] = 0.9 * level + 0.3 * inflow - 0.4 * taken[step] * (1 + np.tanh(level)) + 0.1
        seen[step + 1, :, 1] = 0.8 * inflow + 0.3 * rng.normal(size=count)
        seen[step + 1, :, 2] = 0.95 * warmth + 0.2 * rng.normal(size=count)
    before, after = (part.swapaxes(0, 1).reshape(-1, 3) for part in (seen[:-1], seen[1:]))
    ids = np.repeat(np.arange(count), length)
    return cs.Transitions(before, taken.T.ravel(), earned.T.ravel(), after, trajectory=ids)


def _drain(observations: Any) -> Any:
    return np.clip(0.4 + 0.6 * observations[:, 0], 0, 1)


def discrete(folder: Path) -> list[str]:
    """A discrete log with 10⁵ pairs."""
    places, rows = 50_000, ROWS
    rng = np.random.default_rng(2)
    state, action = np.repeat(np.arange(places), rows // places), np.arange(rows) % 2
    up = np.arange(rows) // 2 % 10 < 3
    after = np.clip(state + np.where(up, 1, -1), 0, places - 1)
    order = rng.permutation(rows)
    rewards = rng.standard_normal(rows) - np.minimum(state, 50)
    log = cs.Transitions(state[order], action[order], rewards[order], after[order])
    estimator = cs.DiffLSTD(standard_errors="independent", quiet=True)
    seconds = timed(lambda: estimator.fit(log, "constant:0"))
    return [f"discrete log, {rows:,} rows, {2 * places:,} pairs: {seconds:.1f} s with its standard error"]


CASES = {
    "fit": fit,
    "read": read,
    "immediate": immediate,
    "finite": finite,
    "accelerated": accelerated,
    "default": default,
    "pendulum": pendulum,
    "discrete": discrete,
}


def case(name: str, folder: str) -> list[str]:
    return CASES[name](Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks evaluation")
    parser.add_argument("--only", choices=CASES, nargs="+", default=list(CASES), help="the cases (all)")
    chosen = parser.parse_args().only
    print("Evaluation from logs")
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        write_log(Path(folder) / "log.parquet", ROWS)
        for name in chosen:
            with context.Pool(1) as pool:
                for line in pool.apply(case, (name, folder)):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
