"""Results of the cases of `make golden` as JSON that shows every bit."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """A result as JSON values that show every bit: arrays with a digest of their bytes, files with their content."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return {"bytes": len(value), "sha256": hashlib.sha256(value).hexdigest()}
    if isinstance(value, complex):
        return repr(value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        return _plain_array(value)
    if isinstance(value, Path):
        return {entry.name: plain(entry) for entry in sorted(value.iterdir())} if value.is_dir() else _plain_file(value)
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if is_dataclass(value):
        public = [field.name for field in fields(value) if not field.name.startswith("_")]
        return {name: plain(getattr(value, name)) for name in public}
    if hasattr(value, "__array__"):  # of JAX
        return _plain_array(np.asarray(value))
    raise TypeError(f"a {type(value).__name__} has no plain form; record its parts.")


def _plain_array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    told = {"dtype": str(array.dtype), "shape": list(array.shape), "values": plain(array.tolist())}
    if array.dtype != object:
        told["sha256"] = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return told


def _plain_file(file: Path) -> Any:
    """Archives by their members, because an archive also holds the time at which it was written."""
    if file.suffix == ".npz":
        with np.load(file, allow_pickle=False) as stored:
            return {name: plain(stored[name]) for name in stored.files}
    if file.suffix == ".json":
        return repeatable(json.loads(file.read_text(encoding="utf-8")))
    if file.suffix in (".txt", ".html", ".csv"):
        return file.read_text(encoding="utf-8").splitlines(keepends=True)
    return plain(file.read_bytes())


def repeatable(document: Any) -> Any:
    """A JSON document without what differs when the same command runs again, or with another version of cesaro."""
    if isinstance(document, list):
        return [repeatable(entry) for entry in document]
    if not isinstance(document, dict):
        return document
    left = {name: repeatable(entry) for name, entry in document.items() if name not in ("run", "created")}
    if isinstance(left.get("versions"), dict):
        left["versions"].pop("cesaro", None)
    return left
