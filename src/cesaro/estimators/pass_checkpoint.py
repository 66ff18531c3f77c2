"""Progress of the passes of one fit, in a file that any later run of the same fit goes on from."""

import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cesaro import __version__, files
from cesaro.data.blocks import sample_rows
from cesaro.errors import InputError
from cesaro.estimators.pipeline import Prepared

SCHEMA = "cesaro-passes/1"
_AFRESH = "delete that file to start afresh"
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
        files.reject_address("checkpoint (--checkpoint)", path)
        self.path, self.identity = path, identity
        self._passes: list[dict[str, Any]] = []  # the state of each, the last one's perhaps unfinished
        self._number = -1
        self._written = time.monotonic()
        if path.exists():
            kept = files.read_values(path, SCHEMA, make=dict, remedy=_AFRESH)  # older files hold a plain identity
            self._check(kept.get("identity"))
            if not isinstance(kept.get("passes"), list):
                raise InputError(f"The checkpoint '{path}' holds no passes; {_AFRESH}.")
            self._passes = kept["passes"]
        elif not path.absolute().parent.parent.is_dir():
            raise InputError(f"The folder of the checkpoint '{path}' does not exist; create it or choose another path.")

    def _check(self, kept: Any) -> None:
        was = kept if isinstance(kept, dict) else {}
        for name in [*self.identity, *was]:
            if was.get(name) != self.identity.get(name):
                raise InputError(
                    f"The checkpoint '{self.path}' belongs to another run: its {name} is {was.get(name)}, and here it is "
                    f"{self.identity.get(name)}; {_AFRESH}, or choose another one (--checkpoint, --out)."
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
        self.path.parent.mkdir(exist_ok=True)
        files.write_values(self.path, SCHEMA, {"identity": self.identity, "passes": self._passes})
        self._written = time.monotonic()

    def _set(self, state: State) -> None:
        self._passes[self._number : self._number + 1] = [state()]


def identity(prepared: Prepared, settings: dict[str, Any]) -> dict[str, str]:
    """What the passes of a fit depend on: version, log, settings, and the features of some rows under the policy."""
    sample, log = prepared.sample, prepared.log
    rows = sample.rows
    numbers = [sample.index, rows.rewards, rows.follows, rows.weights, prepared.data.lengths]
    name = "ready features" if log is None else f"{log.name}, {log.schema}, {log.counts}"
    told = {
        "version": __version__,
        "log": f"{' '.join(name.split())} ({_digest(numbers)})",
        "reading": "streamed" if prepared.data.is_streamed else "in memory",
        "settings": repr(sorted(settings.items())),
        "policy": "none" if prepared.policy is None else prepared.policy.name,
    }
    if not prepared.is_logged:
        found = prepared.features_of(rows.part(sample_rows(len(rows), 0, _TOLD_BY)))
        told["features"] = f"{prepared.description} ({_digest([found.x, found.x_next, found.v])})"
    return told


def _digest(arrays: Sequence[Any]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        # Sparse features are never dense: a million labels would not fit into memory.
        parts = (array.data, array.indices, array.indptr) if isinstance(array, sp.csr_array) else (array,)
        for part in parts:
            digest.update(b"none" if part is None else np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()[:12]
