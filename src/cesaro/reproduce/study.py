"""Runs of studies: pieces computed in parallel, a folder that resumes, a manifest, and the repetition of what it records."""

import csv
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from cesaro import checks, documents
from cesaro.checks import Array
from cesaro.engines import in_use, map_completed
from cesaro.engines.local import cores, in_processes
from cesaro.errors import InputError
from cesaro.files import Arrays, write_json
from cesaro.folders import Workspace
from cesaro.progress import progress
from cesaro.reproduce import MOVED, STUDIES
from cesaro.reproduce.painter import Painter, Picture
from cesaro.reproduce.settings import StudyConfig, specs
from cesaro.versions import versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

SCHEMA = "cesaro-study/1"
# The folder with logs and truths, beside the results unless told otherwise.
DATA = "mujoco_data"
# Files that a study of version 0.1 left beside its manifest; later ones have a ledger.
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

Jobs = Mapping[str, Callable[[], Arrays]]
# Writers of files by name, as `show.files` gives them.
Files = dict[str, Callable[[Path], None]]
C = TypeVar("C", bound=StudyConfig)
R = TypeVar("R")


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


class Study(ABC, Generic[C, R]):
    """The work of a study with certain settings. Its module `run` has the class under the name `STUDY`.

    Args:
        workers: threads of the work, or what the study makes of them; None: its own default.
        quiet: no progress bar.
    """

    # Whether its pictures are drawn in a process of their own, which takes a result and a module `show` that load no JAX.
    paints_beside: ClassVar[bool] = False

    def __init__(self, config: C, *, workers: int | None = None, quiet: bool = False) -> None:
        self.config, self.workers, self.quiet = config, workers, quiet

    @abstractmethod
    def jobs(self) -> Jobs:
        """The pieces of the work by name, in the order to begin them; each depends on nothing but its own settings."""

    @abstractmethod
    def result(self, pieces: Mapping[str, Arrays]) -> R:
        """Everything that files, tables and pictures show; it has `summary()`, the findings in JSON values."""

    @property
    def at_a_time(self) -> int:
        """Pieces that are computed side by side."""
        return 2 if self.workers is None else self.workers

    def collect(self, data: Path) -> None:
        """Simulate the logs and truths that the folder `data` lacks, for studies that keep some."""
        raise NotImplementedError

    def depends_on(self) -> dict[str, Any]:
        """The numbers that pieces depend on beside the settings, by name."""
        return {}

    def about(self) -> dict[str, Any]:
        """Entries of the manifest that no other study has."""
        return {}


def loaded(config: StudyConfig, *, workers: int | None = None, quiet: bool = False) -> Study[Any, Any]:
    """The work of the study that these settings belong to."""
    study: type[Study[Any, Any]] = import_module(f"{config.ABOUT.package}.run").STUDY
    return study(config, workers=workers, quiet=quiet)


def run(
    config: StudyConfig,
    out: str | Path,
    *,
    data: str | Path | None = None,
    workers: int | None = None,
    force: bool = False,
    quiet: bool = False,
) -> Any:
    """Run a study, or what is left of it, and leave tables, figures and `manifest.json` in `out`.

    The results are the same for every number of workers, and after any interruption; but for times, where a study measures some.

    Args:
        config: the settings, which say which study it is.
        data: folder that keeps logs and truths, for studies that simulate some; None: `mujoco_data` beside `out`.
        workers: threads, or what the study makes of them; None: its own default.

    Returns:
        The study's result.

    Raises:
        InputError: a setting breaks its rule, `out` cannot be used, or a file in `data` is not what it should be.
    """
    if workers is not None:
        check_workers(workers)
    about, study = config.ABOUT, loaded(config, workers=workers, quiet=quiet)
    settings = {"study": about.name, **asdict(config)}
    with Folder(out, None if about.data_help else {**settings, **study.depends_on()}, force=force) as work:
        if about.data_help:  # minutes of simulation, once it is clear that the results have a place
            study.collect(Path(os.path.abspath(out)).parent / DATA if data is None else Path(data))
            work.resume({**settings, **study.depends_on()})
        with Painter(f"{about.package}.show") if study.paints_beside and cores() > 1 else nullcontext() as painter:
            pieces = compute(work, study.jobs(), label=about.name, workers=study.at_a_time, quiet=quiet)
            result = study.result(pieces)
            _write(work, import_module(f"{about.package}.show").files(result), painter)
        seed: int = settings["seed"]
        record = manifest(about.name, asdict(config), command=config.command, seed=seed, summary=result.summary())
        work.finish({**record, **study.about()})
    return result


def _write(work: Folder, files: Files, painter: Painter | None) -> None:
    """All files, in order; pictures come from the painter if there is one, as far as it gives them."""
    pictures = [write for write in files.values() if isinstance(write, Picture)]
    drawn = iter(()) if painter is None else painter.ask(pictures)
    # Tables first, while pictures are drawn.
    for name, write in sorted(files.items(), key=lambda item: isinstance(item[1], Picture)):
        given = next(drawn, None) if isinstance(write, Picture) else None
        if given is None:
            write(work.file(name))
        else:
            work.file(name).write_bytes(given)


def check_workers(workers: int) -> None:
    """Refuse a number of workers that cannot work, before anything is written."""
    checks.count("The 'workers' setting of a study", workers, high=checks.MOST_WORKERS)


def compute(
    work: Folder, jobs: Jobs, *, label: str, workers: int = 1, quiet: bool = False, processes: bool = False
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


def _piece(jobs: Jobs, name: str) -> Arrays:
    return jobs[name]()


def _called(job: Callable[[], Arrays]) -> Arrays:
    return job()


def paired(one: Array, other: Array) -> tuple[float, float]:
    """The mean over runs of a difference, and its standard error."""
    difference = one - other
    return float(difference.mean()), float(difference.std(ddof=1) / math.sqrt(len(difference)))


# Files.


def manifest(
    study: str, settings: Mapping[str, Any], *, command: str, seed: int, summary: Mapping[str, Any]
) -> dict[str, Any]:
    """The record that it takes to repeat a study; `created` is the only field that differs between reruns.

    Args:
        study: its name.
        settings: everything the results depend on.
        command: what to type for these settings.
        seed: the seed all random numbers come from.
        summary: the results in a few numbers.
    """
    return {
        "schema": SCHEMA,
        "study": study,
        "command": command,
        "seed": seed,
        "settings": dict(settings),
        "summary": dict(summary),
        "versions": _versions(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _versions() -> dict[str, str]:
    return versions(("numpy", "scipy"), ("jax",))


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


def write_rows(rows: Sequence[Mapping[str, Any]], file: Path) -> None:
    """A table of rows with the same names."""
    write_csv(file, rows[0], (row.values() for row in rows))


def picture(plot: Callable[..., "Figure"], *arguments: Any) -> Picture:
    """The writer of a figure, which is drawn when it is written."""
    return Picture(plot, arguments)


def plain_table(title: str, *left: str, right: Iterable[str] = ()) -> "Table":
    """A table for the terminal that stays readable when piped, with columns of words and then of numbers."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


# Repetition.


class Recorded(NamedTuple):
    """A study as its manifest records it, checked."""

    config: StudyConfig
    summary: dict[str, Any]
    versions: dict[str, str]


def read(file: str | Path, studies: Mapping[str, str] = STUDIES) -> Recorded:
    """The study that a manifest records.

    Args:
        studies: packages of studies by name.

    Raises:
        InputError: the file is no manifest of a study that this version knows, or has settings that it does not know.
    """
    file = Path(file)
    try:
        found = documents.read(file)
    except FileNotFoundError:
        raise InputError(f"The manifest '{file}' does not exist.") from None
    except OSError as error:
        raise InputError(f"The manifest '{file}' cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise InputError(f"'{file}' is not readable JSON ({error}); give the manifest.json of a study.") from None
    parts = {"study": str, "settings": dict, "summary": dict, "versions": dict}
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        schema = found.get("schema") if isinstance(found, dict) else None
        raise InputError(f"'{file}' must be a manifest of schema {SCHEMA!r}. Got schema {schema!r}.")
    broken = [name for name, kind in parts.items() if not isinstance(found.get(name), kind)]
    if broken:
        raise InputError(f"The manifest '{file}' has no valid {' and '.join(broken)}; it may be damaged.")
    name = found["study"]
    if name not in studies:
        moved = f" {MOVED[name]}" if name in MOVED else ""
        raise InputError(f"The study of '{file}' must be one of {', '.join(studies)}. Got {name!r}.{moved}")
    config = _config(import_module(studies[name]).Config, found["settings"], file)
    return Recorded(config, found["summary"], found["versions"])


def other_versions(recorded: Recorded) -> list[str]:
    """`jax 0.10.2 then, 0.11.0 now`, for what has changed since."""
    now = _versions()
    return [
        f"{name} {then} then, {now[name]} now"
        for name, then in recorded.versions.items()
        if name in now and now[name] != then
    ]


def differences(recorded: Recorded, result: Any) -> list[str]:
    """Where the summary of a new result differs from the recorded one, one line each."""
    return _differences(recorded.summary, documents.parse(json.dumps(result.summary())))


def _differences(then: Any, now: Any, name: str = "") -> list[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        return [
            line
            for key in [*then, *(key for key in now if key not in then)]
            for line in _differences(then.get(key), now.get(key), f"{name}.{key}" if name else str(key))
        ]
    return [] if then == now else [f"{name}: {then} in the manifest, {now} here"]


def _config(kind: type[StudyConfig], settings: Mapping[str, Any], file: Path) -> StudyConfig:
    defaults = {spec.name: spec.default for spec in specs(kind)}
    unknown, missing = sorted(settings.keys() - defaults), sorted(defaults.keys() - settings)
    if unknown or missing:
        problems = [f"unknown: {', '.join(unknown)}"] * bool(unknown)
        problems += [f"missing: {', '.join(missing)}"] * bool(missing)
        raise InputError(f"The settings of '{file}' are not those of this version's study ({'; '.join(problems)}).")
    for name, value in settings.items():
        if not _is_like(value, defaults[name]):
            raise InputError(f"The setting '{name}' of '{file}' must look like {defaults[name]!r}. Got {value!r}.")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()})


def _is_like(value: Any, default: Any) -> bool:
    """Whether a JSON value has the kind of a default; whole numbers will do for floats."""
    if isinstance(default, tuple):
        return isinstance(value, list) and all(_is_like(entry, default[0]) for entry in value)
    if isinstance(default, float):
        return isinstance(value, float | int) and not isinstance(value, bool)
    return type(value) is type(default)
