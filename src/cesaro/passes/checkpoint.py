"""Progress of the passes of one fit, in a file that any later run of the same fit goes on from."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from cesaro import __version__, files
from cesaro.data.blocks import sample_rows
from cesaro.data.log import OpenedLog
from cesaro.data.values import Categories
from cesaro.data.windows import ColumnDigests
from cesaro.errors import InputError
from cesaro.fingerprints import fingerprint
from cesaro.passes.prepare import FeatureLog, Prepared

SCHEMA = "cesaro-passes/5"
_OLDER = tuple(f"cesaro-passes/{number}" for number in range(1, 5))
# Between two writings of the file.
SECONDS = 60.0
# Rows whose features tell one fit from another where no source text does.
_TOLD_BY = 1_000

State = Callable[[], dict[str, Any]]


class PassCheckpoint:
    """One file for all passes of a fit, in their order; replaced whole or not at all.

    It keeps the digests of what was read of the log, too. Where a file of the log has another size or time of change than
    then, its finished blocks are read again, and a log that changed is refused.

    Args:
        path: the file, which the fit holds; it appears with the first progress.
        data: what the passes go over.
        identity: what the fit depends on beside it, by name; a file of another fit is refused.
        quiet: no progress bar where blocks are read again.
    """

    def __init__(
        self, path: Path, data: OpenedLog | FeatureLog, identity: dict[str, str], *, quiet: bool = True
    ) -> None:
        self.path, self.identity, self._data = path, identity, data
        self._place = path.absolute()  # a policy in another thread may change the working directory
        self._passes: list[dict[str, Any]] = []  # the state of each, the last one's perhaps unfinished
        self._number = -1
        self._written = time.monotonic()
        if path.exists():
            self._resume(quiet)

    def _resume(self, quiet: bool) -> None:
        for older in _OLDER:
            files.reject_older(self.path, older, files.AFRESH)
        kept = files.read_values(self.path, SCHEMA, remedy=files.AFRESH)
        was = kept.get("identity")
        was = was if isinstance(was, dict) else {}
        self._check(was, [name for name in (*self.identity, *was) if name != "features"])
        passes, stamps, digests = (kept.get(name) for name in ("passes", "stamps", "digests"))
        if not (isinstance(passes, list) and isinstance(stamps, dict) and self._fit(digests)):
            raise InputError(f"The checkpoint '{self.path}' holds no progress of an evaluation; {files.AFRESH}.")
        now = dict(self._data.stamps)
        changed = self._data.changed_since(digests, reread=stamps != now, quiet=quiet)
        if changed is not None:
            named = [name for name, stamp in now.items() if stamps.get(name) != stamp]
            name = changed if changed in now else ", ".join(named) or changed
            raise InputError(
                f"The checkpoint '{self.path}' belongs to another run: the rows of {name} have changed since; {files.AFRESH}, or "
                "choose another one (--checkpoint, --out)."
            )
        self._check(was, ["features"])  # whose fingerprint depends on rows, too
        self._passes = passes

    def _fit(self, kept: Any) -> TypeGuard[ColumnDigests]:
        """Whether digests have the columns and blocks of this log."""
        own = self._data.digests()
        return (
            isinstance(kept, dict)
            and kept.keys() == own.keys()
            and all(_are_alike(kept[name], own[name]) for name in own)
        )

    def _check(self, was: dict[str, Any], names: list[str]) -> None:
        for name in names:
            if was.get(name) != self.identity.get(name):
                raise InputError(
                    f"The checkpoint '{self.path}' belongs to another run: its {name} is {was.get(name)}, and here it is "
                    f"{self.identity.get(name)}; {files.AFRESH}, or choose another one (--checkpoint, --out)."
                )

    def begin(self) -> dict[str, Any] | None:
        """Turn to the next pass and return what is known of it; None: nothing."""
        self._number += 1
        return self._passes[self._number] if self._number < len(self._passes) else None

    def keep(self, state: State) -> None:
        """Write progress, if a minute has passed."""
        if time.monotonic() - self._written >= SECONDS:
            self.write(state)

    def end(self, state: State) -> None:
        """The pass is done; the file hears of it when a minute has passed."""
        self._set(state)
        self.keep(state)

    def write(self, state: State) -> None:
        """Write progress now."""
        self._set(state)
        read = {"stamps": dict(self._data.stamps), "digests": self._data.digests()}
        files.write_values(self._place, SCHEMA, {"identity": self.identity, **read, "passes": self._passes})
        self._written = time.monotonic()

    def _set(self, state: State) -> None:
        self._passes[self._number : self._number + 1] = [state()]


def identity(prepared: Prepared, settings: dict[str, Any]) -> dict[str, str]:
    """All that passes depend on beside the rows: version, settings, what opening the log told, policy and features."""
    rows, log = prepared.sample.rows, prepared.log
    opened: dict[str, Any] = {"stretches": prepared.data.stretches, "lengths": prepared.data.lengths}
    name = "ready features"
    if log is not None:
        name = f"{log.name}, {log.schema}, {log.counts}"
        columns = (*rows.observations.columns, *rows.actions.columns)
        opened |= {"labels": [column.levels for column in columns if isinstance(column, Categories)]}
    told = {
        "version": __version__,
        "log": f"{' '.join(name.split())} ({_short(opened)})",
        "reading": "streamed" if prepared.data.is_streamed else "in memory",
        "settings": repr(sorted(settings.items())),
        "policy": "none",
    }
    if prepared.policy is not None:
        told["policy"] = f"{prepared.policy.name} ({_short(prepared.policy.policy)})"
    if not prepared.is_logged:
        found = prepared.features_of(rows.part(sample_rows(len(rows), 0, _TOLD_BY)))
        told["features"] = (
            f"{prepared.description} ({_short((prepared.map, prepared.dual, found.x, found.x_next, found.v))})"
        )
    return told


def _are_alike(found: Any, own: NDArray[np.uint8]) -> bool:
    return isinstance(found, np.ndarray) and found.dtype == own.dtype and found.shape == own.shape


def _short(thing: Any) -> str:
    return fingerprint(thing)[:12]
