"""Progress of the passes of one fit, in a file that any later run of the same fit goes on from."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cesaro import __version__, storage
from cesaro.errors import InputError
from cesaro.estimators import stored
from cesaro.estimators.pipeline import Prepared

SCHEMA = "cesaro-passes/1"
# Between two writings of the file.
SECONDS = 60.0
# Rows whose features tell one fit from another.
_TOLD_BY = 1_000

State = Callable[[], dict[str, Any]]


class PassCheckpoint:
    """One file for all passes of a fit, in their order; replaced whole or not at all.

    Args:
        path: the file; it appears with the first progress. Its folder is made, the folder of that must be there.
        identity: what the fit depends on, by name; a file of another fit is refused.
    """

    def __init__(self, path: Path, identity: dict[str, str]) -> None:
        self.path, self.identity = path, identity
        self._passes: list[dict[str, Any]] = []  # the state of each, the last one's perhaps unfinished
        self._number = -1
        self._written = time.monotonic()
        if path.exists():
            meta, arrays = storage.read_arrays(path, SCHEMA)
            self._check(meta.get("identity"))
            self._passes = stored.unpacked(meta["passes"], arrays)
        elif not path.absolute().parent.parent.is_dir():
            raise InputError(f"The folder of the checkpoint '{path}' does not exist; create it or choose another path.")

    def _check(self, kept: Any) -> None:
        for name, value in self.identity.items():
            was = kept.get(name) if isinstance(kept, dict) else None
            if was != value:
                raise InputError(
                    f"The checkpoint '{self.path}' belongs to another run: its {name} is {was}, and here it is {value}; remove "
                    "it, or choose another one."
                )

    def begin(self) -> dict[str, Any] | None:
        """What is known of the next pass; None: nothing."""
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
        arrays: dict[str, Any] = {}
        meta = {"schema": SCHEMA, "identity": self.identity, "passes": stored.packed(self._passes, arrays)}
        self.path.parent.mkdir(exist_ok=True)
        storage.write_arrays(self.path, meta, arrays)
        self._written = time.monotonic()

    def _set(self, state: State) -> None:
        self._passes[self._number : self._number + 1] = [state()]


def identity(prepared: Prepared, settings: dict[str, Any]) -> dict[str, str]:
    """What the passes of a fit depend on: the version, the log, the settings, and the features of some rows under the policy."""
    sample = prepared.sample
    digest = hashlib.sha256(np.ascontiguousarray(sample.index).tobytes())
    digest.update(np.ascontiguousarray(sample.rows.rewards).tobytes())
    log = f"{getattr(prepared.log, 'name', 'features')}, {prepared.num_rows:,} rows ({digest.hexdigest()[:12]})"
    told = {"version": __version__, "log": log, "settings": repr(sorted(settings.items()))}
    if not prepared.is_logged:
        rows = prepared.features_of(sample.rows.part(slice(0, _TOLD_BY)))
        digest = hashlib.sha256()
        for features in (rows.x, rows.x_next, rows.v):
            digest.update(features.tobytes() if isinstance(features, np.ndarray) else features.toarray().tobytes())
        name = "ready features" if prepared.policy is None else prepared.policy.name
        told["policy and features"] = f"{name}, {prepared.description} ({digest.hexdigest()[:12]})"
    return told
