"""What every study shares: a folder that resumes, pieces computed in parallel, a progress bar, a manifest."""

import csv
import json
import math
import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from cesaro import __version__
from cesaro.errors import InputError
from cesaro.files import ELSEWHERE, OutFolder, temporary, write, write_json
from cesaro.progress import progress
from cesaro.versions import versions

if TYPE_CHECKING:
    from rich.table import Table

Arrays = dict[str, NDArray[Any]]

SCHEMA = "cesaro-study/1"


class Workspace(OutFolder):
    """The folder of one study, which resumes.

    Work is kept as named pieces, each a few arrays. The same settings find the pieces of an interrupted run again;
    other settings are refused. A kill at any moment leaves either no piece or a whole one.

    Args:
        out: the folder that will hold the results; it must not exist unless `force`.
        settings: everything that the results depend on, as JSON values.
        force: replace an `OUT` that a study wrote.
    """

    def __init__(self, out: str | os.PathLike[str], settings: Mapping[str, Any], *, force: bool = False) -> None:
        super().__init__(out, force=force)
        # Through JSON once, so that what is compared is what would be read back; the version, because other code
        # may compute other pieces.
        self.settings: dict[str, Any] = json.loads(json.dumps({**settings, "cesaro": __version__}))

    def refusal(self) -> str | None:
        return None if _is_study(self.out) else "was not written by a study"

    def prepare(self) -> None:
        self._check_settings()
        self._pieces.mkdir(exist_ok=True)

    def load(self, name: str) -> Arrays | None:
        """The piece of that name, or `None` if it is yet to be computed (or the disk has spoiled it)."""
        try:
            data = (self._pieces / f"{name}.npz").read_bytes()
            with np.load(BytesIO(data), allow_pickle=False) as stored:
                return {key: stored[key] for key in stored.files}
        except (OSError, EOFError, ValueError, BadZipFile):
            return None

    def store(self, name: str, piece: Arrays) -> None:
        """Keep a piece, whole or not at all."""
        buffer = BytesIO()
        np.savez(buffer, **piece)  # type: ignore[arg-type] # the stubs take every keyword for `allow_pickle`
        write(self._pieces / f"{name}.npz", buffer.getvalue())

    def finish(self, manifest: Mapping[str, Any]) -> Path:
        """Add `manifest.json`, rename the folder to `OUT` and return `OUT`."""
        self.check()
        write_json(self.path / "manifest.json", manifest)
        self.rename()
        shutil.rmtree(self.out / "pieces")
        (self.out / "settings.json").unlink()
        return self.out

    @property
    def _pieces(self) -> Path:
        return self.path / "pieces"

    def _check_settings(self) -> None:
        file = self.path / "settings.json"
        if not file.exists():
            # A kill between the first two steps leaves an empty folder or a half-written temporary file.
            if any(entry.name != temporary(file).name for entry in self.path.iterdir()):
                raise InputError(
                    f"'{self.path}' holds no settings.json, so that nothing tells which study its files belong to; "
                    f"delete that folder or {ELSEWHERE}."
                )
            write_json(file, self.settings)
            return
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            stored = None
        if not isinstance(stored, dict):
            raise InputError(
                f"'{file}' is not readable JSON, so that nothing tells which study its pieces belong to; "
                f"delete the folder '{self.path}' or {ELSEWHERE}."
            )
        differences = [
            f"{key} is {stored.get(key, 'unset')} there and {self.settings.get(key, 'unset')} here"
            for key in sorted(stored.keys() | self.settings.keys())
            if stored.get(key) != self.settings.get(key)
        ]
        if differences:
            raise InputError(
                f"'{self.path}' holds unfinished work with other settings ({'; '.join(differences)}); "
                f"repeat that command to resume it, delete that folder to start afresh, or {ELSEWHERE}."
            )


def check_workers(workers: int) -> None:
    """Refuse a number of workers that cannot work, before anything is written."""
    if workers < 1:
        raise InputError(f"The 'workers' setting of a study must be an integer ≥ 1. Got {workers} instead.")


def compute(
    work: Workspace, jobs: Mapping[str, Callable[[], Arrays]], *, label: str, workers: int = 1, quiet: bool = False
) -> dict[str, Arrays]:
    """Every piece, in the order of `jobs`: read where stored, else computed and stored.

    Each job computes one piece and depends on nothing but its own settings. They run on `workers` threads, or as tasks of the
    cluster in use (`engines.using`); BLAS runs on one thread meanwhile, since the pieces themselves are what runs in parallel.
    """
    from cesaro.engines import in_use, map_completed

    pieces = {name: piece for name in jobs if (piece := work.load(name)) is not None}
    names = [name for name in jobs if name not in pieces]
    engine, address = in_use()
    with progress(label, total=len(jobs), done=len(pieces), quiet=quiet) as advance:
        found = map_completed(partial(_piece, jobs), names, engine=engine, address=address, workers=workers)
        for number, piece in found:
            pieces[names[number]] = piece
            work.store(names[number], piece)
            advance()
    return {name: pieces[name] for name in jobs}


def _piece(jobs: Mapping[str, Callable[[], Arrays]], name: str) -> Arrays:
    return jobs[name]()


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


def _is_study(folder: Path) -> bool:
    with suppress(OSError, ValueError):
        found = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        return isinstance(found, dict) and str(found.get("schema", "")).startswith("cesaro-study/")
    return False
