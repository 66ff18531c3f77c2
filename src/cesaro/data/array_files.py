"""Files of arrays: NPZ and HDF5, with the names that D4RL uses. Opening reads names and shapes; the data wait."""

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cesaro.data.roles import Roles
from cesaro.data.sources import Files, Source, array_column, reading, same_length
from cesaro.errors import InputError
from cesaro.text import visible

_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError, RuntimeError, SyntaxError)
_HDF5_ERRORS = (KeyError, RuntimeError, TypeError)


class NpzSource(Source):
    """Arrays of one NPZ archive; `terminals` and `timeouts` are the names that D4RL uses."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._shapes: dict[str, tuple[int, ...]] = {}
        with reading(path.name, "a complete NPZ file", *_ZIP_ERRORS), zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.filename.endswith(".npy"):
                    self._shapes[member.filename[:-4]] = _npy_shape(path.name, archive, member)
        super().__init__(path.name, list(self._shapes))

    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        columns = roles.columns()
        _check_shapes(self.name, {column: self._shapes[column] for column in columns})
        with (
            reading(self.name, "a complete NPZ file", *_ZIP_ERRORS),
            np.load(self._path, allow_pickle=False) as archive,
        ):
            arrays = {column: array_column(self.name, column, archive[column], copy=False) for column in columns}
        return pa.table(arrays), ((self.name, len(arrays[columns[0]])),)


def _npy_shape(log: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[int, ...]:
    """The shape that the header of one array promises, checked against its size: nothing is allocated on a lie."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(file)
        held = member.file_size - file.tell()
    if dtype.hasobject:
        return shape
    if held != dtype.itemsize * int(np.prod([int(n) for n in shape], dtype=object)):
        raise InputError(f'{log}: array "{member.filename[:-4]}" must be complete. Got {held} bytes; write it again.')
    return shape


class Hdf5Source(Source):
    """Data sets at the root of an HDF5 file, as D4RL writes them; groups, and names that are not UTF-8, are left alone."""

    def __init__(self, path: Path) -> None:
        h5py = _h5py(path.name)
        self._path = path
        with reading(path.name, "a complete HDF5 file", *_HDF5_ERRORS), h5py.File(path) as file:
            self._shapes = {
                key: tuple(file[key].shape or ())
                for key in file
                if isinstance(key, str) and file.get(key, getclass=True) is h5py.Dataset
            }
        super().__init__(path.name, list(self._shapes))

    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        h5py = _h5py(self.name)
        columns = roles.columns()
        _check_shapes(self.name, {column: self._shapes[column] for column in columns})
        arrays = {}
        with (
            reading(self.name, "a complete HDF5 file", *_HDF5_ERRORS),
            h5py.File(self._path) as file,
        ):
            for column in columns:
                data = file[column]
                text = h5py.check_string_dtype(data.dtype) is not None
                values = _text(self.name, column, data) if text else data[...]
                arrays[column] = array_column(self.name, column, values, copy=False)
        return pa.table(arrays), ((self.name, len(arrays[columns[0]])),)


def _text(log: str, column: str, data: Any) -> Any:
    """Text as Python objects; ASCII, which HDF5 keeps apart, is UTF-8 too."""
    try:
        return data.asstr("utf-8")[...]
    except UnicodeDecodeError:
        for index, value in np.ndenumerate(data[...]):
            if not _is_utf8(bytes(value)):
                raise InputError(
                    f'{visible(log)}: column "{visible(column)}" must hold text in UTF-8. '
                    f"Got {bytes(value)[:40]!r} at row {index[0]} (counted from 0); write the file again as UTF-8."
                ) from None
        raise


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _h5py(name: str) -> Any:
    try:
        import h5py
    except ImportError:
        raise InputError(
            f"{name} must be read by h5py. Got no such package; run: pip install 'cesaro[hdf5]'."
        ) from None
    return h5py


def _check_shapes(log: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for column, shape in shapes.items():
        if len(shape) not in (1, 2):
            raise InputError(
                f'{log}: array "{column}" must have shape [row] or [row, entry]. Got {shape}; flatten it or name another.'
            )
    same_length(log, {column: shape[0] for column, shape in shapes.items()})
