"""How time and memory grow: with rows, features, pairs, trajectories and candidates, each point in a process of its own.

For each of them the fitted exponent of the larger half of the points, and what of 24 GiB is reached first if it goes on so.
"""

import argparse
import multiprocessing
import resource
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cesaro as cs
from benchmarks._scale_log import controller, write_log
from cesaro.candidates import MAPS

MEMORY = 24 * 2**30


class Point(NamedTuple):
    """What one size takes: seconds, and bytes of the process at its peak beyond those it began with."""

    size: int
    seconds: float
    memory: int


def _measured(case: str, size: int, folder: str) -> Point:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work = CASES[case](size, Path(folder))
        before = _peak()
        start = time.perf_counter()
        work()
        return Point(size, time.perf_counter() - start, max(0, _peak() - before))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 2**10


def rows_streamed(size: int, folder: Path) -> Callable[[], Any]:
    """Eight columns and two actions, 64 features; the log is read in blocks."""
    path = folder / "rows"
    shutil.rmtree(path, ignore_errors=True)
    write_log(path, size)
    log = cs.read(path, observation="obs_*", action="act_*", stream=True)
    return lambda: cs.DiffLSTD("fourier:64", quiet=True).fit(log, controller)


def features(size: int, folder: Path) -> Callable[[], Any]:
    """100,000 rows in memory."""
    rng = np.random.default_rng(0)
    log = cs.Transitions(rng.normal(size=(100_000, 8)), rng.normal(size=(100_000, 2)), rng.normal(size=100_000))
    return lambda: cs.DiffLSTD(f"fourier:{size}", quiet=True).fit(log, controller)


def pairs(size: int, folder: Path) -> Callable[[], Any]:
    """A discrete log: a line of states, two actions, ten rows of every pair."""
    states = size // 2
    rng = np.random.default_rng(0)
    state = np.repeat(np.arange(states), 20)
    action, up = np.arange(len(state)) % 2, np.arange(len(state)) // 2 % 10 < 3
    after = np.clip(state + np.where(up, 1, -1), 0, states - 1)
    log = cs.Transitions(state, action, rng.normal(size=len(state)), after)
    return lambda: cs.DiffLSTD(standard_errors="independent", quiet=True).fit(log, "constant:0")


def trajectories(size: int, folder: Path) -> Callable[[], Any]:
    """A million rows in memory, in so many trajectories; 64 features."""
    rng = np.random.default_rng(0)
    rows = 1_000_000
    ids = np.arange(rows) * size // rows
    log = cs.Transitions(rng.normal(size=(rows, 4)), rng.normal(size=rows), rng.normal(size=rows), trajectory=ids)
    return lambda: cs.DiffLSTD("fourier:64", quiet=True).fit(log, _little)


def _little(observations: Any) -> Any:
    return -0.1 * observations[:, 0]


def candidates(size: int, folder: Path) -> Callable[[], Any]:
    """The first so many maps of a panel, one after the other, on 20,000 rows."""
    rng = np.random.default_rng(0)
    log = cs.Transitions(rng.normal(size=(20_000, 4)), rng.normal(size=20_000), rng.normal(size=20_000))

    def work() -> None:
        for name in MAPS[:size]:
            cs.DiffLSTD(name, quiet=True).fit(log, _little)

    return work


CASES: dict[str, Callable[[int, Path], Callable[[], Any]]] = {
    "rows, streamed": rows_streamed,
    "features": features,
    "pairs": pairs,
    "trajectories": trajectories,
    "candidates": candidates,
}
SIZES: dict[str, Sequence[int]] = {
    "rows, streamed": (10**4, 10**5, 10**6, 10**7),
    "features": (50, 100, 200, 400, 800),
    "pairs": (10**3, 10**4, 10**5, 10**6),
    "trajectories": (1, 100, 10**4, 10**5),
    "candidates": (1, 2, 3, 4, 5),
}


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Of `value = c sizeᵏ`, the k that fits the larger half of the points best."""
    keep = slice(len(sizes) // 2, None)
    one, other = np.log(np.asarray(sizes, float)[keep]), np.log(np.maximum(np.asarray(values, float)[keep], 1e-300))
    return float(np.polyfit(one, other, 1)[0])


def limit(points: Sequence[Point]) -> str:
    """The size at which 24 GiB are reached, if memory goes on to grow as it does."""
    power = exponent([point.size for point in points], [point.memory for point in points])
    last = points[-1]
    if power < 0.1 or last.memory < 2**24:
        return "none in sight"
    return f"{last.size * (MEMORY / last.memory) ** (1 / power):.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e7, help="the longest streamed log, such as 1e8 (5 GB on disk)")
    given = parser.parse_args()
    print(f"{'growth with':16} {'size':>12} {'seconds':>10} {'GiB more':>9}   time ∝, memory ∝, 24 GiB at")
    context = multiprocessing.get_context("spawn")
    for name, sizes in SIZES.items():
        asked = [size for size in (*sizes, 10**8) if size <= given.rows] if name == "rows, streamed" else sizes
        points = []
        with tempfile.TemporaryDirectory() as folder:
            for size in dict.fromkeys(asked):
                with context.Pool(1) as pool:
                    points.append(pool.apply(_measured, (name, size, folder)))
                found = points[-1]
                print(f"{name:16} {size:12,} {found.seconds:10.2f} {found.memory / 2**30:9.3f}", flush=True)
        grows = [
            exponent([point.size for point in points], [getattr(point, what) for point in points])
            for what in ("seconds", "memory")
        ]
        print(f"{'':50}   size^{grows[0]:.2f}, size^{grows[1]:.2f}, {limit(points)}")


if __name__ == "__main__":
    main()
