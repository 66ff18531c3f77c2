"""Columns that stand in the names of folders: `agent=1/part.parquet`."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from cesaro.data.addresses import File

_MISSING = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"[+-]?\d{1,18}")


class Constant(NamedTuple):
    """A column with one value in every file: whole numbers, or text as a dictionary.

    Attributes:
        kind: its type.
        values: per path of a file; None: missing.
    """

    kind: pa.DataType
    values: Mapping[str, int | str | None]

    def column(self, file: File, rows: int) -> pa.Array:
        value = self.values[file.path]
        if value is None:
            return pa.array([None] * rows, self.kind)
        if isinstance(value, int):
            return pa.array(np.full(rows, value, dtype=np.int64))
        return pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), [value])


def partitions(files: Sequence[File], names: Sequence[str]) -> tuple[dict[str, Constant], list[str]]:
    """By name the columns that all folders have and no file, and the keys of folders that some files lack."""
    found = [_keys(file) for file in files]
    every = dict.fromkeys(key for keys in found for key in keys if key not in names)
    shared = [key for key in every if all(key in keys for keys in found)]
    texts = {key: {file.path: keys[key] for file, keys in zip(files, found)} for key in shared}
    return {key: _constant(values) for key, values in texts.items()}, [key for key in every if key not in shared]


def _keys(file: File) -> dict[str, str | None]:
    parts = [part.partition("=") for part in file.name.split("/")[:-1]]
    return {
        unquote(key): None if value == _MISSING else unquote(value) for key, equals, value in parts if key and equals
    }


def _constant(texts: Mapping[str, str | None]) -> Constant:
    if all(text is None or _WHOLE.fullmatch(text) for text in texts.values()):
        return Constant(pa.int64(), {path: None if text is None else int(text) for path, text in texts.items()})
    return Constant(pa.dictionary(pa.int32(), pa.string()), texts)
