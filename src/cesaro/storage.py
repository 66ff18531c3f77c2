"""Files of arrays with JSON metadata: no pickle, whole or not at all."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.errors import InputError


def write_arrays(path: Path, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """An `.npz` file with JSON metadata, replaced atomically."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as stream:
            np.savez(stream, meta=np.array(json.dumps(meta)), **arrays)  # type: ignore[arg-type]
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"'{path}' cannot be written ({error.strerror}); choose another path.") from error


def read_arrays(path: Path, schema: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The metadata and arrays of a file that `write_arrays` made with this schema."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            meta = dict(json.loads(str(stored["meta"])))
            arrays = {name: stored[name] for name in stored.files if name != "meta"}
    except FileNotFoundError:
        raise InputError(f"'{path}' does not exist.") from None
    except Exception as error:  # whatever is wrong with a file that should be an archive
        raise InputError(
            f"'{path}' is not a file of this package ({type(error).__name__}); it may be damaged."
        ) from None
    if meta.get("schema") != schema:
        raise InputError(f"'{path}' holds {meta.get('schema')!r}, not {schema!r}.")
    return meta, arrays
