"""What every study shares: pieces computed in parallel, a progress bar, a manifest."""

import csv
import math
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cesaro import checks, documents
from cesaro.engines import in_use, map_completed
from cesaro.engines.processes import in_processes
from cesaro.errors import InputError
from cesaro.files import Arrays, write_json
from cesaro.folders import Workspace
from cesaro.progress import progress
from cesaro.versions import versions

if TYPE_CHECKING:
    from rich.table import Table

SCHEMA = "cesaro-study/1"
# What a study of version 0.1 left beside its manifest; later ones have a ledger.
_FILES_OF_0_1 = {
    "assumption": ("assumption.csv", "assumption.png"),
    "boyan": ("boyan.csv", "best.csv", "boyan.png", "step_size.png"),
    "counterexample": ("counterexample.csv", "trajectories.csv", "counterexample.png"),
    "coverage": ("coverage.csv", "series.csv", "coverage.png"),
    "mujoco": ("mujoco.csv", "best.csv", "curves.csv", "mujoco.png", "mujoco_appendix.png", "rates.png"),
    "pendulum": ("pendulum.csv", "logs.csv", "settings.csv", "pendulum.png"),
    "practice": ("practice.csv", "seeds.csv", "methods.csv", "held.csv", "practice.png"),
    "rates": ("rates.csv", "problems.csv", "rates.png"),
    "stall": ("walks.csv", "noise.csv", "networks.csv", "stall.png"),
}

# Whole numbers among settings are sizes: of work; of what is computed side by side; of the sides of matrices.
MOST = 100_000_000
_MOST = {
    1_000: ("members",),
    100_000: ("runs", "logs", "problems", "seeds", "map_seeds", "trajectories", "pendulums", "agents", "resamples"),
    10_000: (
        "sizes",
        "states",
        "actions",
        "features",
        "width",
        "widths",
        "world_widths",
        "grid",
        "maps",
        "degrees",
    ),
}
_ENTRIES = 1_000


class Folder(Workspace):
    """The folder of one study: tables, figures and a manifest, which appear when all of them are complete."""

    WRITER = "study"
    WRITTEN_BY = "a study"

    def unmarked(self) -> set[str] | None:
        with suppress(OSError, ValueError):
            found = documents.read(self.out / "manifest.json")
            if isinstance(found, dict) and found.get("schema") == SCHEMA:
                return {"manifest.json", *_FILES_OF_0_1.get(str(found.get("study")), ())}
        return None

    def finish(self, manifest: Mapping[str, Any]) -> Path:
        """Add `manifest.json`, rename the folder to `OUT` and return `OUT`."""
        write_json(self.file("manifest.json"), manifest)
        return self.rename()


def check_workers(workers: int) -> None:
    """Refuse a number of workers that cannot work, before anything is written."""
    checks.count("The 'workers' setting of a study", workers, high=checks.MOST_WORKERS)


def require(study: str, holds: bool, name: str, rule: str, value: Any) -> None:
    """Refuse a setting of a study that breaks its rule."""
    if not holds:
        raise InputError(f"The '{name}' setting of the {study} study must be {rule}. Got {value} instead.")


def require_sizes(study: str, config: Any) -> None:
    """Refuse whole numbers among the settings of a study that no list or array could have as its size, and other huge ones."""
    for name, value in ((field.name, getattr(config, field.name)) for field in fields(config) if field.name != "seed"):
        most = next((most for most, names in _MOST.items() if name in names), MOST)
        entries = value if isinstance(value, tuple) else (value,)
        require(study, len(entries) <= _ENTRIES, name, f"a list of at most {_ENTRIES:,} entries", f"{len(entries):,}")
        for entry in entries:
            if isinstance(entry, int):
                require(study, entry <= most, name, f"at most {most:,}", checks.shortened(entry))
            elif isinstance(entry, float) and math.isfinite(entry):
                require(
                    study, abs(entry) < checks.LARGEST_SETTING, name, f"below {checks.LARGEST_SETTING:g} in size", entry
                )


def compute(
    work: Folder,
    jobs: Mapping[str, Callable[[], Arrays]],
    *,
    label: str,
    workers: int = 1,
    quiet: bool = False,
    processes: bool = False,
) -> dict[str, Arrays]:
    """Every piece, in the order of `jobs`: read where stored, else computed and stored.

    Each job computes one piece and depends on nothing but its own settings. They run on `workers` threads (processes, where
    Python itself does much of the work), or as tasks of the cluster in use (`engines.using`); BLAS runs on one thread
    meanwhile, since the pieces themselves are what runs in parallel.
    """
    pieces = {name: piece for name in jobs if (piece := work.load(name)) is not None}
    names = [name for name in jobs if name not in pieces]
    engine, address = in_use()
    with progress(label, total=len(jobs), done=len(pieces), quiet=quiet) as advance:

        def store(number: int, piece: Arrays) -> None:
            pieces[names[number]] = piece
            work.store(names[number], piece)
            advance()

        if processes and engine == "local":
            in_processes(_called, [jobs[name] for name in names], store, workers)
        else:
            for number, piece in map_completed(
                partial(_piece, jobs), names, engine=engine, address=address, workers=workers
            ):
                store(number, piece)
    return {name: pieces[name] for name in jobs}


def _piece(jobs: Mapping[str, Callable[[], Arrays]], name: str) -> Arrays:
    return jobs[name]()


def _called(job: Callable[[], Arrays]) -> Arrays:
    return job()


def manifest(
    study: str, settings: Mapping[str, Any], *, seed: int, options: Mapping[str, Any], summary: Mapping[str, Any]
) -> dict[str, Any]:
    """What it takes to repeat a study, and what came out; `created` is the only field that differs between reruns.

    Args:
        study: the name of the study, which is also the name of its command.
        settings: everything the results depend on.
        seed: the seed all random numbers come from.
        options: command-line options (without dashes) that give these settings.
        summary: the results in a few numbers.
    """
    words = ["cesaro", "reproduce", study]
    for option, value in options.items():
        words += [f"--{option}", str(value)]
    return {
        "schema": SCHEMA,
        "study": study,
        "command": shlex.join(words),
        "seed": seed,
        "settings": dict(settings),
        "summary": dict(summary),
        "versions": versions(("numpy", "scipy"), ("jax",)),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def write_csv(file: Path, names: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """A table with six digits; None, nan and infinity are empty."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_shown(value) for value in row] for row in rows)


def _shown(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return f"{value:.6g}" if math.isfinite(value) else None


def plain_table(title: str) -> "Table":
    """A table for the terminal that stays readable when piped."""
    from rich import box
    from rich.table import Table

    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
