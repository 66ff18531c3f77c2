"""Logs larger than memory: rows per second and peak memory of the closed form, beside what bounds them.

Eight observation columns, two action columns, 64 random Fourier features, float32 columns. Every case runs in a fresh process, so
that its peak memory is its own, on two cores. The bound adds up what no implementation can do without, each piece timed by itself
in the same run: Arrow's decode, projections, cosines and matrix products, without any time between them. Files were just written,
so that they come from the page cache.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _scale_cases as cases
from benchmarks._scale_log import FREE_BYTES, ROW_BYTES, write_log
from cesaro.data.blocks import BLOCK_ROWS, STRETCH_BLOCKS

SIZES = (100_000, 1_000_000, 10_000_000, 50_000_000)
# From here on time must be a straight line, memory flat, and rates count.
LARGE = 1_000_000
COMPARED = 1_000_000  # rows that the alternative holds in memory
ON_RAY = 10_000_000
RESIDUAL, FLAT = 0.05, 1.2
# Of the bound: what a pass of products should reach, and both passes, of which the second is mostly single rows.
SHARE = {"moments": 0.6, "both": 0.45}
MOMENTS_RATE, BOTH_RATE = 1e6, 0.5e6
# What a prediction takes where nothing was measured: seconds per task outside of its work, seconds of the driver and bytes.
UNMEASURED = {"task": 0.05, "merge": 0.001, "task_bytes": 70_000.0}
MOST_MIB = 1_536
NODE_BANDWIDTH = 1.25e9  # bytes per second that a node reads from an object store: 10 Gbit/s

Case = Callable[..., Any]


def line(rows: Sequence[int], seconds: Sequence[float]) -> tuple[float, float, list[float]]:
    """`a`, `b` and relative residuals of `seconds = a + b·rows`, fitted so that the latter count alike."""
    n, t = np.asarray(rows, np.float64), np.asarray(seconds)
    (a, b), *_ = np.linalg.lstsq(np.stack([1 / t, n / t], axis=1), np.ones(len(t)), rcond=None)
    return float(a), float(b), [float(residual) for residual in t / (a + b * n) - 1]


def bounds(pieces: dict[str, float], cores: int) -> dict[str, dict[str, float]]:
    """Seconds per row of each pass by the pieces alone, with products in single and in double precision."""
    features = 2 * (pieces["projections"] + pieces["cosines"])  # here and at the next state
    found = {}
    for kind in ("float32", "float64"):
        moments = pieces["decode"] + features + pieces[f"products, {kind}"]
        influence = pieces["decode"] + features + pieces[f"vectors, {kind}"]
        found[kind] = {"moments": moments / cores, "both": (moments + influence) / cores}
    return found


def predict(
    terms: dict[str, float], rows: float, nodes: int, cores: int, bandwidth: float = NODE_BANDWIDTH
) -> dict[str, float]:
    """Seconds of both passes on a Ray cluster: the slowest of computing, reading and merging, and what comes before.

    Args:
        terms: what `measured_terms` gives.
        rows: of the log, in files of at least a stretch.
        nodes: machines like the one that was measured, but for their cores.
        cores: of each.
        bandwidth: bytes per second that a node reads.
    """
    stretch = STRETCH_BLOCKS * BLOCK_ROWS
    tasks = -(-rows // stretch)  # of each pass
    rounds = -(-tasks // (nodes * cores))  # the last one may leave workers without work
    computing = rounds * (min(rows, stretch) * terms["row"] + 2 * terms["task"])
    reading = 2 * rows * terms["row_bytes"] / (nodes * bandwidth)
    merging = 2 * tasks * terms["merge"]
    return {
        "tasks": 2 * tasks,
        "computing": computing,
        "reading": reading,
        "merging": merging,
        "returned": tasks * terms["task_bytes"],
        "seconds": terms["fixed"] + max(computing, reading, merging),
        "structure": rows * terms["structure"],
    }


def measured_terms(found: dict[str, Any]) -> dict[str, float]:
    """What a prediction needs, from what was measured."""
    largest = found["sizes"][-1]
    terms = {
        "fixed": max(0.0, found["line"]["a"]),
        "row": (largest["moments"] + largest["influence"]) * found["cores"] / largest["rows"],  # seconds of a core
        "row_bytes": float(ROW_BYTES),
        "structure": found["structure"],
        **UNMEASURED,
    }
    if found.get("ray"):
        one = found["ray"][0]
        terms |= {"task": one["outside_seconds"], "merge": one["driver_seconds"], "task_bytes": one["task_bytes"]}
    return terms


@contextmanager
def limited(cores: int) -> Iterator[int]:
    """This process and those it starts on at most so many cores; how many there are."""
    if not hasattr(os, "sched_setaffinity"):
        yield min(cores, os.cpu_count() or 1)
        return
    before = os.sched_getaffinity(0)
    cases.use_cores(cores)
    try:
        yield len(os.sched_getaffinity(0))
    finally:
        os.sched_setaffinity(0, before)


def isolated(case: Case, *arguments: Any) -> Any:
    """In a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(case, arguments)


def here(case: Case, *arguments: Any) -> Any:
    return case(*arguments)


def fastest(call: Callable[[], dict[str, Any]], times: int) -> dict[str, Any]:
    """The fastest of several runs, with the largest peak of all."""
    runs = [call() for _ in range(times)]
    best = min(runs, key=lambda run: run["seconds"])
    return best | {"peak_mib": max(run["peak_mib"] for run in runs)}


def measure(options: argparse.Namespace, folder: Path, cores: int) -> dict[str, Any]:
    """Everything, printed as it comes."""
    run = here if options.here else isolated
    found: dict[str, Any] = {"cores": cores, "sizes": []}
    print(
        f"Scale on {cores} core{'s' * (cores > 1)}, fastest of {options.repeats}; uncompressed Parquet, {ROW_BYTES} bytes a row"
    )
    head = ("rows", "open+sample", "moments", "influence", "rest", "in all", "rows/s", "peak", "answer")
    widths = (13, 13, 11, 11, 9, 10, 13, 11)
    print("".join(f"{name:>{width}}" for name, width in zip(head, widths)) + f"   {head[-1]}")
    for rows in sorted(options.sizes):
        free = shutil.disk_usage(folder).free
        if free < FREE_BYTES * rows:
            print(
                f"{rows:>13,}   skipped: needs {FREE_BYTES * rows / 1e9:.1f} GB of free disk, and there are {free / 1e9:.1f}"
            )
            continue
        path = folder / str(rows)
        write_log(path, rows)
        one = fastest(lambda path=path: run(cases.fit, str(path)), options.repeats)  # type: ignore[misc]
        found["sizes"].append(one)
        parts = ("opening", "moments", "influence", "solving", "seconds")
        cells = [
            f"{rows:,}",
            *(f"{one[part]:.2f} s" for part in parts),
            f"{rows / one['seconds']:,.0f}",
            f"{one['peak_mib']:.0f} MiB",
        ]
        answer = f"{one['rate']:.6f} ± {one['standard_error']:.6f}"
        print("".join(f"{cell:>{width}}" for cell, width in zip(cells, widths)) + f"   {answer}", flush=True)
    if not found["sizes"]:
        raise SystemExit("No size fits on this disk; name another --folder.")
    sizes = [one["rows"] for one in found["sizes"]]
    found["compared"] = max([rows for rows in sizes if rows <= COMPARED], default=sizes[0])
    compared = str(folder / str(found["compared"]))
    features = run(cases.Features, compared)
    found["alternative"] = fastest(lambda: run(cases.alternative, compared, features), options.repeats)
    found["pieces"] = run(cases.pieces, compared, features)
    write_log(folder / "ids", min(sizes[-1], LARGE), ids=True)
    found["structure"] = run(cases.structure, str(folder / "ids"))
    if found["compared"] >= COMPARED:
        found["wide_mib"] = run(cases.wide, compared)
    if options.ray:
        found["ray"] = measured_ray(run, folder, min(sizes, key=lambda rows: abs(rows - ON_RAY)), cores)
    return found


def measured_ray(run: Callable[..., Any], folder: Path, rows: int, cores: int) -> list[dict[str, Any]]:
    """One and two workers, each beside the local engine on as many cores."""
    if find_spec("ray") is None:
        print("Ray: skipped, it is not installed (pip install 'cesaro[ray]').")
        return []
    found = []
    for workers in range(1, min(2, cores) + 1):
        local = run(cases.fit, str(folder / str(rows)), "local", workers)
        one = run(cases.on_ray, str(folder / str(rows)), workers)
        assert (one["rate"], one["standard_error"]) == (local["rate"], local["standard_error"]), "other bits on Ray"
        found.append(one | {"local_seconds": local["seconds"]})
    return found


def verdict(holds: bool) -> str:
    return "yes" if holds else "NO"


def judge(found: dict[str, Any]) -> None:
    """Add what follows from the measurements, and print it with its limits."""
    large = [one for one in found["sizes"] if one["rows"] >= LARGE]
    fitted = large if len(large) > 1 else found["sizes"]
    rows, first, last = [one["rows"] for one in fitted], fitted[0], fitted[-1]
    a, b, residuals = line(rows, [one["seconds"] for one in fitted])
    growth = last["peak_mib"] / first["peak_mib"]
    found["line"] = {"a": a, "b": b, "residuals": residuals, "rows": rows}
    within = verdict(max(map(abs, residuals)) <= RESIDUAL) if len(fitted) > 2 else "two points or one cannot tell"
    print(f"time from {rows[0]:,} rows on: {a:.2f} s + {b * 1e6:.3f} s per million rows")
    print(f"  residuals {', '.join(f'{residual:+.1%}' for residual in residuals)}; within {RESIDUAL:.0%}: {within}")
    print(
        f"peak memory from {rows[0]:,} to {rows[-1]:,} rows: {growth:.2f} ×; at most {FLAT} ×: {verdict(growth <= FLAT)}"
    )
    if "wide_mib" in found:
        wide = found["wide_mib"]
        print(
            f"peak of cs.evaluate with {cases.WIDE} primal and {2 * cases.WIDE} dual features, diagnostics included: {wide:.0f} "
            f"MiB; at most {MOST_MIB}: {verdict(wide <= MOST_MIB)}"
        )
    judge_rates(found)
    ours = next(one for one in found["sizes"] if one["rows"] == found["compared"])
    other = found["alternative"]
    difference, other_error = (abs(other[name] / ours[name] - 1) for name in ("rate", "standard_error"))
    assert difference < 1e-6, f"pandas and NumPy give {other['rate']}, and cesaro {ours['rate']}"
    assert other_error < 1e-5, f"pandas and NumPy give ± {other['standard_error']}, and cesaro {ours['standard_error']}"
    other["difference"] = difference
    print(
        f"pandas + NumPy in memory, {found['compared']:,} rows: {other['seconds']:.2f} s and {other['peak_mib']:.0f} MiB, cesaro "
        f"{ours['seconds']:.2f} s and {ours['peak_mib']:.0f} MiB; not slower: {verdict(ours['seconds'] <= other['seconds'])} "
        f"(the same answer to {difference:.0e})"
    )
    judge_ray(found.get("ray") or [])


def judge_rates(found: dict[str, Any]) -> None:
    """Rows per second of the largest size beside the targets and the bounds."""
    largest, cores, pieces = found["sizes"][-1], found["cores"], found["pieces"]
    found["bounds"], found["shares"] = bounds(pieces, cores), {}
    spent = {"moments": largest["moments"], "both": largest["moments"] + largest["influence"]}
    print(
        "nanoseconds per row and core: " + ", ".join(f"{name} {seconds * 1e9:.1f}" for name, seconds in pieces.items())
    )
    for name, words, target in (("moments", "moments pass", MOMENTS_RATE), ("both", "both passes", BOTH_RATE)):
        rate = largest["rows"] / spent[name]
        print(
            f"{words}, {largest['rows']:,} rows: {rate:,.0f} rows/s; at least {target:,.0f}: {verdict(rate >= target)}"
        )
        for kind, bound in found["bounds"].items():
            share = found["shares"][f"{name}, {kind}"] = rate * bound[name]
            limit = f"bound with {kind} products {1 / bound[name]:,.0f} rows/s"
            print(f"  {limit}: {share:.0%} of it; at least {SHARE[name]:.0%}: {verdict(share >= SHARE[name])}")
        worked = found["shares"][f"{name}, cores"] = (
            found["bounds"]["float64"][name] * cores * largest["rows"] / largest["busy"][name]
        )
        print(f"  {worked:.0%} of the latter by the seconds that cores worked for it: others may have kept them busy")
    shift = found["float32_shift"] = cases.shift_of_single_products()
    print(
        f"  (products are float64; on a small log, float32 ones move the rate by {shift:.1g} standard errors, after the second "
        "pass has corrected it)"
    )


def judge_ray(ray: list[dict[str, Any]]) -> None:
    """Time beside that of the local engine, and what a task costs beside its work."""
    for one in ray:
        workers, slower = one["workers"], one["seconds"] / one["local_seconds"] - 1
        print(
            f"Ray, {workers} worker{'s' * (workers > 1)}, {one['rows']:,} rows: {one['seconds']:.2f} s; local on as many cores "
            f"{one['local_seconds']:.2f} s: {slower:+.1%}; the cluster started in {one['starting']:.1f} s"
        )
        print(
            f"  {one['tasks']} tasks of {one['task_seconds']:.2f} s, each with {one['outside_seconds'] * 1e3:.0f} ms outside "
            f"of it and {one['driver_seconds'] * 1e3:.2f} ms of the driver; a stretch returns {one['task_bytes'] / 1e3:.0f} kB"
        )
    if len(ray) > 1:
        one, two = ray
        print(
            f"  speed-up with 2 workers: {one['seconds'] / two['seconds']:.2f} × (these tasks allow {two['possible']:.2f} ×)"
        )


def print_predictions(terms: dict[str, float]) -> None:
    """A table for clusters of several sizes."""
    print("Predicted for both passes, 16 cores a node, 10 Gbit/s each: the slowest of computing, reading and merging")
    print(
        f"{'rows':>8}{'nodes':>7}{'tasks':>9}{'computing':>12}{'reading':>12}{'merging':>12}{'returned':>11}{'in all':>12}"
    )
    for rows in (1e9, 1e11):
        for nodes in (1, 4, 16, 64):
            one = predict(terms, rows, nodes, 16)
            times = (f"{duration(one[name]):>12}" for name in ("computing", "reading", "merging"))
            row = f"{rows:>8.0e}{nodes:>7}{one['tasks']:>9,.0f}{''.join(times)}{one['returned'] / 1e9:>8.2f} GB"
            print(row + f"{duration(one['seconds']):>12}")
        structure = predict(terms, rows, 1, 16)["structure"]
        print(
            f"  a log of {rows:.0e} rows with ids and times: its structure first, in one process, {duration(structure)}"
        )


def duration(seconds: float) -> str:
    return (
        f"{seconds:.1f} s"
        if seconds < 120
        else f"{seconds / 60:.1f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )


def sizes_of(text: str) -> list[int]:
    return [int(float(part)) for part in text.split(",")]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description="Logs larger than memory.")
    parser.add_argument("--sizes", type=sizes_of, default=SIZES, help="rows of the logs, such as 1e5,1e6")
    parser.add_argument("--folder", type=Path, default=None, help="where logs are written, and removed at the end")
    parser.add_argument("--cores", type=int, default=2, help="at most this many are used (2)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each case, of which the fastest counts (3)")
    parser.add_argument("--ray", action="store_true", help="also on Ray, with one and two workers")
    parser.add_argument("--predict", action="store_true", help="also what 10⁹ and 10¹¹ rows would take")
    parser.add_argument("--terms", type=Path, help="predict from the file of an earlier --json; nothing is measured")
    parser.add_argument("--json", type=Path, help="write everything that was measured to this file")
    parser.add_argument(
        "--here", action="store_true", help="in this process: quick, but peaks of memory are common ones"
    )
    options = parser.parse_args(arguments)
    if options.terms is not None:
        print_predictions(json.loads(options.terms.read_text())["terms"])
        return
    with limited(options.cores) as cores, tempfile.TemporaryDirectory(dir=options.folder) as folder:
        found = measure(options, Path(folder), cores)
        judge(found)
    found["terms"] = measured_terms(found)
    if options.predict:
        print_predictions(found["terms"])
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
