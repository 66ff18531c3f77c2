"""What the scale benchmark measures, one function per case; each is called in a process of its own."""

import os
import pickle
import resource
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import cesaro as cs
from benchmarks._scale_log import ACTIONS, OBSERVATIONS, controller
from cesaro import engines
from cesaro.estimators import diff_lstd
from cesaro.features.base import Fourier
from cesaro.passes import moments, prepare, run
from cesaro.passes.run import run_pass

FEATURES, WIDE = 64, 256
# How often single pieces and whole files are timed; the least time counts.
TIMES, FILE_TIMES = 50, 5

Float32 = NDArray[np.float32]


def read_log(path: str, **settings: Any) -> cs.Log:
    return cs.read(path, action="act_*", stream=True, **settings)


def peak() -> float:
    """MiB of this process so far; `ru_maxrss` may be that of the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def use_cores(count: int | None) -> None:
    """This process, and those that it starts."""
    if count is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def fit(path: str, engine: str = "local", cores: int | None = None) -> dict[str, Any]:
    """The closed form on a streamed log, and how long its parts take."""
    use_cores(cores)
    spans: list[tuple[float, float]] = []
    busy: list[float] = []  # seconds of all threads

    def timed(*arguments: Any) -> Any:
        begin, used = time.perf_counter(), time.process_time()
        result = run_pass(*arguments)
        spans.append((begin, time.perf_counter()))
        busy.append(time.process_time() - used)
        return result

    with mock.patch.object(diff_lstd, "run_pass", timed):
        start = time.perf_counter()
        log = read_log(path)
        estimator = cs.DiffLSTD(features=f"fourier:{FEATURES}", dual_features="same", engine=engine, quiet=True)
        estimator.fit(log, controller)
        end = time.perf_counter()
    moments, influence = spans
    return {
        "rows": len(log.opened()) + 1,  # the last row has no next one
        "seconds": end - start,
        "opening": moments[0] - start,
        "moments": moments[1] - moments[0],
        "solving": influence[0] - moments[1] + end - influence[1],
        "influence": influence[1] - influence[0],
        "busy": {"moments": busy[0], "both": sum(busy)},
        "peak_mib": peak(),
        "rate": estimator.reward_rate_,
        "standard_error": estimator.standard_error_,
    }


class Features:
    """The features of the fit as anybody would write them: mean and scale of the inputs, frequencies and phases."""

    def __init__(self, path: str) -> None:
        rows = read_log(path).opened().sample(0).rows
        inputs = np.concatenate([rows.observations.plain(), rows.actions.plain()], axis=1).astype(np.float32)
        self.mean, self.scale = inputs.mean(axis=0, dtype=np.float64), inputs.std(axis=0, dtype=np.float64)
        fourier = Fourier(self.inputs(inputs), FEATURES, 0)
        self.frequencies, self.phases = fourier.frequencies, fourier.phases

    def inputs(self, raw: Float32) -> Float32:
        return ((raw - self.mean) / self.scale).astype(np.float32)

    def __call__(self, observations: Any, actions: Any) -> Float32:
        angles = self.inputs(np.concatenate([observations, actions], axis=1)) @ self.frequencies + self.phases
        return np.float32(np.sqrt(2)) * np.cos(angles)


def alternative(path: str, features: Features) -> dict[str, Any]:
    """The same answer with pandas and NumPy, all rows in memory at once."""
    import pandas as pd
    from scipy.fft import dct

    start = time.perf_counter()
    frame = pd.read_parquet(path)
    observations, actions = frame[list(OBSERVATIONS)].to_numpy(), frame[list(ACTIONS)].to_numpy()
    rewards = frame["reward"].to_numpy(np.float64)[:-1]
    after = observations[1:]
    v = features(observations[:-1], actions[:-1]).astype(np.float64)
    z = features(after, controller(after)) - v
    n = len(rewards)
    v_mean, z_mean = v.mean(axis=0), z.mean(axis=0)
    A = np.block([[-np.ones((1, 1)), z_mean[None]], [-v_mean[:, None], v.T @ z / n]])
    b = np.concatenate([[rewards.mean()], v.T @ rewards / n])
    rate, *weights = np.linalg.solve(A, -b)
    row = np.linalg.solve(A.T, -np.eye(len(A))[0])
    influence = (row[0] + v @ row[1:]) * (rewards - rate + z @ np.array(weights))
    cosines = dct(influence, norm="ortho")[1:25]
    error = np.sqrt(np.mean(cosines**2) / n)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_mib": peak(), "rate": float(rate), "standard_error": float(error)}


def pieces(path: str, features: Features) -> dict[str, float]:
    """Seconds per row and core of what no implementation can do without, each by itself, on a piece as the passes cut it."""
    file = sorted(Path(path).glob("*.parquet"))[0]
    names = [*OBSERVATIONS, *ACTIONS, "reward"]
    table = next(pq.ParquetFile(file).iter_batches(prepare.PIECE // FEATURES))
    inputs = features.inputs(np.stack([table[name].to_numpy() for name in names[:-1]], axis=1))
    angles = inputs @ features.frequencies + features.phases
    out, x = np.empty_like(angles), np.cos(angles)
    single = x, np.subtract(x[::-1], x)
    double = tuple(part.astype(np.float64) for part in single)
    total = np.zeros((2, FEATURES, FEATURES))

    def decode() -> int:
        opened = pq.ParquetFile(file)
        return sum(len(batch) for batch in opened.iter_batches(1 << 16, columns=names, use_threads=False))

    def products(v: Any, z: Any) -> None:
        np.add(total, (v.T @ z, v.T @ v), out=total)

    def vectors(v: Any, z: Any) -> None:
        for part in (v, v, z):
            part @ np.ones(FEATURES, v.dtype)

    works: dict[str, Callable[[], Any]] = {
        "projections": lambda: np.matmul(inputs, features.frequencies, out=out),
        "cosines": lambda: np.cos(angles, out=out),
        "products, float32": lambda: products(*single),
        "products, float64": lambda: products(*double),
        "vectors, float32": lambda: vectors(*single),
        "vectors, float64": lambda: vectors(*double),
    }
    with threadpool_limits(1, "blas"):
        found = {name: _least(work, TIMES) / len(x) for name, work in works.items()}
    return {"decode": _least(decode, FILE_TIMES) / pq.read_metadata(file).num_rows, **found}


def structure(path: str) -> float:
    """Seconds per row of finding trajectories and gaps in time, which is done in one process."""
    rows = sum(pq.read_metadata(file).num_rows for file in Path(path).glob("*.parquet"))
    return _least(lambda: read_log(path).opened(), FILE_TIMES) / rows


def _least(work: Callable[[], Any], times: int) -> float:
    """Seconds of the fastest of several calls."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def on_ray(path: str, workers: int) -> dict[str, Any]:
    """The same fit on a Ray cluster of this machine with so many workers, on as many cores."""
    import logging

    import ray

    use_cores(workers)
    # Workers get the priority of the local engine, or whatever else runs here would slow them down alone.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    start = time.perf_counter()
    ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        map_ordered = engines.map_ordered
        list(map_ordered(_import_all, [path] * 2 * workers, engine="ray"))
        starting = time.perf_counter() - start
        tasks: list[tuple[float, int]] = []
        driver = 0.0

        def recorded(function: Callable[[Any], Any], items: Iterable[Any], **options: Any) -> Iterator[Any]:
            nonlocal driver
            for seconds, result in map_ordered(partial(_timed, function), items, **options):
                tasks.append((seconds, len(pickle.dumps(result))))
                begin = time.perf_counter()
                try:
                    yield result
                finally:
                    driver += time.perf_counter() - begin

        with mock.patch.object(run, "map_ordered", recorded):
            found = fit(path, engine="ray")
    finally:
        ray.shutdown()
    in_passes = found["moments"] + found["influence"]
    busy, sizes = zip(*tasks)
    return (
        found
        | {
            "workers": workers,
            "starting": starting,
            "tasks": len(tasks),
            "task_seconds": sum(busy) / len(tasks),
            "task_bytes": sum(sizes[: len(sizes) // 2])
            / (len(sizes) // 2),  # of moments; sampled rows come with the others
            "outside_seconds": (in_passes * workers - sum(busy)) / len(tasks),
            "driver_seconds": driver / len(tasks),
            "possible": sum(busy)
            / sum(_in_order(half, workers) for half in (busy[: len(busy) // 2], busy[len(busy) // 2 :])),
        }
    )


def _import_all(path: str) -> None:
    """What a worker does once, when it starts."""
    cs.DiffLSTD(quiet=True)
    next(iter(read_log(path).opened().blocks()))


def _timed(function: Callable[[Any], Any], item: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = function(item)
    return time.perf_counter() - start, result


def _in_order(seconds: Iterable[float], workers: int) -> float:
    """How long tasks take that are started in order, each where a worker is free."""
    free = [0.0] * workers
    for one in seconds:
        free.sort()
        free[0] += one
    return max(free)


def wide(path: str) -> float:
    """Peak memory of a whole evaluation with many features, MiB."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cs.evaluate(
            read_log(path), controller, features=f"fourier:{WIDE}", dual_features=f"fourier:{2 * WIDE}", quiet=True
        )
    return peak()


def shift_of_single_products(rows: int = 5_000) -> float:
    """By how many standard errors products in single precision move the rate, of a small log in the same features."""
    rng = np.random.default_rng(1)
    action, noise = rng.normal(size=(rows, 1)), 0.3 * rng.normal(size=(rows, 3))
    state = np.zeros((rows + 1, 3))
    for t in range(rows):
        state[t + 1] = 0.9 * state[t] + 0.2 * np.tanh(action[t]) + noise[t] * np.cos(state[t])
    reward = np.sin(state[:-1, 0]) + state[:-1, 1] ** 2 - 0.1 * action[:, 0] ** 2
    log = cs.Transitions(state[:-1], action, reward, state[1:])

    def fitted() -> cs.DiffLSTD:
        return cs.DiffLSTD(features=f"fourier:{FEATURES}", quiet=True).fit(
            log, lambda observations, rng: 0.5 * observations[:, :1] + 0.3 * rng.normal(size=(len(observations), 1))
        )

    def single(given: prepare.FeatureRows) -> dict[str, Any]:
        sums = double(given)
        change = np.asarray(given.x_next) - np.asarray(given.x)
        v = np.asarray(given.v)
        return sums | {"vz": (v.T @ change).astype(np.float64), "vv": (v.T @ v).astype(np.float64)}

    double, exact = moments._sums, fitted()
    with mock.patch.object(moments, "_sums", single):
        return abs(fitted().reward_rate_ - exact.reward_rate_) / exact.standard_error_
