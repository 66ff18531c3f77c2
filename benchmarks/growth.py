"""How time and memory grow: with rows, features, pairs, trajectories and candidates, each point in a process of its own.

For each of them the fitted exponents of the larger half of the points, and the size that needs 24 GiB if memory goes on so.
Memory is the peak of the process beyond its imports, what is held of the log included.
"""

import argparse
import multiprocessing
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cesaro as cs
from benchmarks._scale_log import ROW_BYTES, controller, write_log
from cesaro.features.encoder import MAX_DENSE

MEMORY = 24 * 2**30
# An exponent of memory that is nothing but noise.
FLAT = 0.1


class Point(NamedTuple):
    """What one size takes: seconds, and bytes of the process at its peak beyond those of its imports."""

    size: int
    seconds: float
    memory: int


def _measured(case: str, size: int, folder: str) -> Point:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cs.DiffLSTD("fourier:2", quiet=True).fit(_small(), _little)  # imports
        before = _status("VmRSS")
        work = CASES[case](size, Path(folder))
        Path("/proc/self/clear_refs").write_text("5")  # the peak of making the log is not the peak of the work
        start = time.perf_counter()
        work()
        return Point(size, time.perf_counter() - start, max(0, _status("VmHWM") - before))


def _small() -> cs.Transitions:
    rng = np.random.default_rng(0)
    return cs.Transitions(rng.normal(size=(100, 2)), rng.normal(size=100), rng.normal(size=100))


def _status(name: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at the peak."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 2**10


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
    """So many closed forms of 20,000 rows, one after the other: 64 features, other ones each time."""
    rng = np.random.default_rng(0)
    log = cs.Transitions(rng.normal(size=(20_000, 4)), rng.normal(size=20_000), rng.normal(size=20_000))

    def work() -> None:
        for seed in range(size):
            cs.DiffLSTD("fourier:64", random_state=seed, quiet=True).fit(log, _little)

    return work


CASES: dict[str, Callable[[int, Path], Callable[[], Any]]] = {
    "rows, streamed": rows_streamed,
    "features": features,
    "pairs": pairs,
    "trajectories": trajectories,
    "candidates": candidates,
}
SIZES: dict[str, Sequence[int]] = {
    "rows, streamed": (10**4, 10**5, 10**6, 10**7, 10**8),
    "features": (50, 100, 200, 400, 800),
    "pairs": (10**3, 10**4, 10**5, 10**6),
    "trajectories": (1, 100, 10**4, 10**5),
    "candidates": (1, 4, 16, 64),
}


# The most that there may be.
MOST = {"features": MAX_DENSE}


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Of `value = c sizeᵏ`, the k that fits the larger half of the points best."""
    keep = slice(len(sizes) // 2, None)
    one, other = np.log(np.asarray(sizes, float)[keep]), np.log(np.maximum(np.asarray(values, float)[keep], 1e-300))
    return float(np.polyfit(one, other, 1)[0])


def limit(name: str, points: Sequence[Point]) -> str:
    """The size at which 24 GiB are reached, if memory goes on to grow as it does."""
    power = exponent([point.size for point in points], [point.memory for point in points])
    last = points[-1]
    if power < FLAT:
        return "never: memory stays flat"
    size = last.size * (MEMORY / last.memory) ** (1 / power)
    most = MOST.get(name, np.inf)
    return f"{size:.0e}" if size <= most else f"never: at most {most:,} are possible"


def fitting(sizes: Sequence[int], most: float, folder: str) -> list[int]:
    """The sizes of logs up to `most` rows that the disk has room for; what it has no room for is said."""
    free = shutil.disk_usage(folder).free
    wanted = [size for size in sizes if size <= most]
    found = [size for size in wanted if ROW_BYTES * size <= 0.9 * free]  # each log replaces the one before
    if not found:
        raise SystemExit(
            f"No streamed log of at most {most:,.0f} rows can be measured; the shortest has {min(sizes):,}."
        )
    if found != wanted:
        print(f"longer logs than {found[-1]:,} rows: skipped, there are {free / 1e9:.1f} GB of free disk")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e8, help="the longest streamed log; 1e8 rows take 5 GB on disk")
    parser.add_argument("--only", choices=list(CASES), help="one of the parts")
    given = parser.parse_args()
    print(f"{'growth with':16} {'size':>12} {'seconds':>10} {'GiB':>9}   {'time':12} {'memory':12} 24 GiB at")
    context = multiprocessing.get_context("spawn")
    for name, sizes in SIZES.items():
        if given.only not in (None, name):
            continue
        points = []
        with tempfile.TemporaryDirectory() as folder:
            asked = fitting(sizes, given.rows, folder) if name == "rows, streamed" else list(sizes)
            for size in asked:
                with context.Pool(1) as pool:
                    points.append(pool.apply(_measured, (name, size, folder)))
                found = points[-1]
                print(f"{name:16} {size:12,} {found.seconds:10.2f} {found.memory / 2**30:9.3f}", end="", flush=True)
                print("\n" if size != asked[-1] else "", end="", flush=True)
        grows = [
            exponent([point.size for point in points], [getattr(point, what) for point in points])
            for what in ("seconds", "memory")
        ]
        print(f"   size^{grows[0]:<7.2f} size^{grows[1]:<7.2f} {limit(name, points)}")


if __name__ == "__main__":
    main()
