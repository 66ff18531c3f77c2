"""The installation: `cesaro doctor` says whether it is what it should be, `cesaro examples` writes what the pages use."""

import os
import platform
import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

import cesaro
from cesaro import __version__
from cesaro.commands import program
from cesaro.commands.options import PlainForce, PlainQuiet
from cesaro.commands.program import one_line_errors
from cesaro.devices import CACHE, OFF, starting_jax
from cesaro.errors import InputError
from cesaro.progress import stage

_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "scikit-learn", "pyarrow", "matplotlib", "typer", "rich")
# Module, what it is for, the extra that brings it.
_OPTIONAL = (
    ("h5py", "HDF5 logs", "hdf5"),
    ("minari", "Minari data sets", "minari"),
    ("onnxruntime", "ONNX policies", "onnx"),
    ("gymnasium", "simulation", "mujoco"),
    ("mujoco", "MuJoCo environments", "mujoco"),
    ("stable_baselines3", "Stable-Baselines3 policies and train-target", "targets"),
)
_FEATURES, _ROWS = 64, 131_072
# Below these, something is wrong with the machine or its libraries rather than merely old.
_SLOW_ROWS, _SLOW_UPDATES, _LITTLE_MEMORY = 5e5, 2e5, 2 * 2**30

# The command of the README, with the folder in the place of {0}.
_FIRST_COMMAND = (
    "cesaro evaluate {0}/queue.parquet --policy candidate={0}/queue_policy.py:candidate \\",
    "  --observation free_servers --observation priority --kind free_servers=category --trajectory agent \\",
    '  --unit "per customer" --out answer',
)


class Finding(NamedTuple):
    """One thing that was looked at: what was found, and what to do where that looks wrong."""

    what: str
    found: str
    advice: str = ""


def doctor(quiet: PlainQuiet = False) -> None:
    """Versions, device, memory and a speed test of a few seconds, each with what to do where it looks wrong."""
    with one_line_errors(resumes=False):
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for column in ("what", "found", "what to do"):
            table.add_column(column, overflow="fold")
        with stage("looking at this machine and measuring its speed", quiet=quiet):
            findings = list(_findings())
        for finding in findings:
            table.add_row(Text(finding.what), Text(finding.found), Text(finding.advice, style="yellow"))
        program.console().print(table)


def _findings() -> Iterator[Finding]:
    yield Finding("cesaro", __version__)
    yield Finding("python", f"{platform.python_version()}, {platform.system()} {platform.machine()}")
    yield from map(_package, _PACKAGES)
    yield from (_optional(*optional) for optional in _OPTIONAL)
    yield from _machine()
    devices = list(_device())
    yield from devices
    speeds = [_moments_speed, *([_learning_speed] if devices[0].found != "none" else [])]
    is_busy = _load() > _cores()
    for measure in speeds:
        finding = measure()
        # A speed beside other programs says nothing about this installation, and the line on the load says what to do.
        yield finding._replace(advice="") if is_busy else finding


def _package(name: str) -> Finding:
    try:
        return Finding(name, version(name))
    except PackageNotFoundError:
        return Finding(name, "missing", "pip install cesaro brings it")


def _optional(module: str, purpose: str, extra: str) -> Finding:
    if find_spec(module) is None:
        return Finding(module, "not installed", f"for {purpose}: pip install 'cesaro[{extra}]'")
    return _package(module.replace("_", "-"))


def _machine() -> Iterator[Finding]:
    cores, load = _cores(), _load()
    limits = [
        f"{name}={os.environ[name]}" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS") if name in os.environ
    ]
    yield Finding(
        "cores",
        f"{cores} of {os.cpu_count()}" + (f" ({', '.join(limits)})" if limits else ""),
        "unset these variables to use all cores" if limits and cores > 1 else "",
    )
    if hasattr(os, "getloadavg"):
        busy = "other programs are at work: close them before you measure anything" if load > cores else ""
        yield Finding("load", f"{load:.1f}", busy)
    free, total = _memory()
    if total:
        little = free < _LITTLE_MEMORY
        advice = "close other programs, or read fewer columns: a log takes about three times its size" if little else ""
        yield Finding("memory", f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free", advice)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _load() -> float:
    """Programs at work in the last minute; zero where the system does not say."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def _memory() -> tuple[float, float]:
    """Free and total bytes, within the limit of a container; zeros where the system does not say."""
    free = total = 0.0
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        sizes = {line.split(":")[0]: 1024 * float(line.split()[1]) for line in lines}
        free, total = sizes.get("MemAvailable", 0.0), sizes.get("MemTotal", 0.0)
    if not total:
        with suppress(AttributeError, OSError, ValueError):
            page = os.sysconf("SC_PAGE_SIZE")
            free, total = page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        limit = float(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
        used = float(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
        free, total = min(free, max(0.0, limit - used)), min(total, limit)
    return free, total


def _device() -> Iterator[Finding]:
    try:
        with starting_jax():
            import jax

            devices = jax.devices()
    except InputError as error:
        yield Finding("device of JAX", "none", error.message)
        return
    found = f"{devices[0].platform}, {len(devices)} × {devices[0].device_kind}"
    gpu = Path("/proc/driver/nvidia/version").exists() and devices[0].platform == "cpu"
    chosen = os.environ.get("JAX_PLATFORMS")
    advice = ""
    if gpu:
        advice = (
            f"JAX_PLATFORMS={chosen} hides the GPU; unset it to use it"
            if chosen
            else "learning and long logs could use the GPU: pip install 'jax[cuda13]', or 'jax[cuda12]' for older drivers"
        )
    yield Finding("device of JAX", found, advice)
    yield _programs()


def _programs() -> Finding:
    """The folder that compiled programs are kept in, and how many there are."""
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if folder is None:
        return Finding("compiled programs", "not kept", f"unset {CACHE} so that commands need not compile again")
    sizes = [file.stat().st_size for file in Path(folder).glob("*-cache")]
    return Finding(
        "compiled programs", f"{len(sizes)} in {folder}, {sum(sizes) / 2**20:.0f} MiB ({CACHE}={OFF} keeps none)"
    )


def _moments_speed() -> Finding:
    import numpy as np

    from cesaro.passes.moments import Moments
    from cesaro.passes.prepare import FeatureRows

    rng = np.random.default_rng(0)
    x = rng.standard_normal((_ROWS, _FEATURES), dtype=np.float32)
    rows = FeatureRows(x, rng.standard_normal(_ROWS), np.roll(x, 1, axis=0), x, None)
    moments, best = Moments(), np.inf
    end = time.monotonic() + 0.7
    while time.monotonic() < end:
        start = time.perf_counter()
        moments.add(rows)
        best = min(best, time.perf_counter() - start)
    rate = _ROWS / best
    advice = ""
    if rate < _SLOW_ROWS:
        advice = (
            "slow: look for other programs at work and for a limit on BLAS threads; reinstall numpy from its wheels"
        )
    return Finding("closed form", f"{_millions(rate)} rows/s at {_FEATURES} features", advice)


def _millions(rate: float) -> str:
    """The rate in millions, with two digits, however slow."""
    return f"{rate / 1e6:.{0 if rate >= 1e7 else 1}f} million" if rate >= 1e6 else f"{rate / 1e6:.2g} million"


def _learning_speed() -> Finding:
    import cesaro as cs
    from cesaro.algorithms import DEFAULT

    chain, seeds, budget = cs.problems.boyan_chain(pi0=0.5, mu0=0.5), 30, 5_000
    settings = cs.grid(step_size=[0.01, 0.02], ridge=[0.0])
    times = []
    for _ in range(2):
        start = time.perf_counter()
        cs.sweep(DEFAULT, chain, settings=settings, seeds=seeds, budget=budget, quiet=True)
        times.append(time.perf_counter() - start)
    rate = 2 * seeds * budget / times[-1]
    advice = "slow: close other programs, and see whether the device above is the one you expect"
    found = f"{_millions(rate)} updates/s, {times[0] - times[-1]:.1f} s to compile"
    return Finding("learning", found, advice if rate < _SLOW_UPDATES else "")


def examples(
    out: Annotated[Path, typer.Option(help="The folder that will hold them.")] = Path("examples"),
    force: PlainForce = False,
) -> None:
    """Write the logs, policies and programs of the documentation into a folder, and print a command that uses them."""
    with one_line_errors(resumes=False):
        from cesaro.folders import OutFolder  # help must not wait for NumPy

        class Copy(OutFolder):
            WRITER = "examples"
            WRITTEN_BY = "cesaro examples"

        source = _examples()
        names = sorted(
            file.relative_to(source).as_posix()
            for file in source.rglob("*")
            if file.is_file() and "__pycache__" not in file.parts
        )
        with Copy(out, force=force) as folder:
            for name, place in zip(names, folder.files(names), strict=True):
                shutil.copyfile(source / name, place)
            folder.rename()
        program.echo(f"{len(names)} files: {out}. A first answer from them:")
        for line in _FIRST_COMMAND:
            program.echo(line.format(shlex.quote(str(out))))


def _examples() -> Path:
    """Inside the package where a wheel was installed; beside src/ in the repository, from where the wheel has them."""
    package = Path(cesaro.__file__).parent
    inside = package / "examples"
    return inside if inside.is_dir() else package.parents[1] / "examples"
