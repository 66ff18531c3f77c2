"""Files of arrays: NPZ and HDF5, with the names that D4RL uses. Opening reads names and shapes; the data wait."""

import io
import math
import warnings
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

_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError, RuntimeError)
_HDF5_ERRORS = (KeyError, RuntimeError, TypeError)
_HEADER = 1 << 16  # bytes of an array's header that are looked at; NumPy takes 10,000 characters
_OTHER_FILE = "a link to another file"
_LINKS = 16  # as many follow one another in an HDF5 file


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
        arrays = {}
        with reading(self.name, "a complete NPZ file", *_ZIP_ERRORS), zipfile.ZipFile(self._path) as archive:
            for column in columns:
                with archive.open(f"{column}.npy") as file, warnings.catch_warnings(action="ignore"):
                    array = np.lib.format.read_array(file, allow_pickle=False)
                arrays[column] = array_column(self.name, column, array, copy=False)
        return pa.table(arrays), ((self.name, len(arrays[columns[0]])),)


def _npy_shape(log: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[int, ...]:
    """The shape that the header of one array promises, checked against its size: nothing is allocated on a lie."""
    with archive.open(member) as file:
        start = io.BytesIO(file.read(_HEADER))
    name = member.filename[:-4]
    shape, dtype = _npy_header(name, start)
    held = member.file_size - start.tell()
    if not dtype.hasobject and held != dtype.itemsize * math.prod(shape):
        raise InputError(f'{log}: array "{visible(name)}" must be complete. Got {held} bytes; write it again.')
    return shape


def _npy_header(name: str, file: io.BytesIO) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array. Its header is an expression of Python, on which the parser may fail in any way."""
    try:
        with warnings.catch_warnings(action="ignore"):
            is_first = np.lib.format.read_magic(file) == (1, 0)
            header = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
            shape, _, dtype = header(file)
    except Exception as error:  # also MemoryError, which is how it says that the expression is nested too deeply
        said = " ".join(str(error).split())[:80] or "nested too deeply"
        raise ValueError(f'array "{name}" has a header that cannot be read ({type(error).__name__}: {said})') from None
    if not all(type(size) is int and 0 <= size < 1 << 63 for size in shape):
        raise ValueError(f'array "{name}" has a header whose shape is not made of numbers of rows and entries')
    if not dtype.itemsize:
        raise ValueError(f'array "{name}" has a header whose type ({dtype}) has no bytes')
    return shape, dtype


class Hdf5Source(Source):
    """Data sets at the root of an HDF5 file, as D4RL writes them; groups, and names that are not UTF-8, are left alone.

    Only what lies in the file itself is read.
    """

    def __init__(self, path: Path) -> None:
        h5py = _h5py(path.name)
        self._path = path
        self._shapes: dict[str, tuple[int, ...]] = {}
        with reading(path.name, "a complete HDF5 file", *_HDF5_ERRORS), h5py.File(path) as file:
            for key in file:
                found = _stored(file, key) if isinstance(key, str) else None
                if isinstance(found, str):
                    self._shapes[key] = ()  # it may be a column, and is refused where it is one
                elif isinstance(found, h5py.Dataset):
                    self._shapes[key] = tuple(found.shape or ())
        super().__init__(path.name, list(self._shapes))

    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        h5py = _h5py(self.name)
        columns = roles.columns()
        arrays = {}
        with (
            reading(self.name, "a complete HDF5 file", *_HDF5_ERRORS),
            h5py.File(self._path) as file,
        ):
            found = {column: _stored(file, column) for column in columns}
            for column, data in found.items():
                if isinstance(data, str):
                    raise _elsewhere(self.name, column, data)
            _check_shapes(self.name, {column: self._shapes[column] for column in columns})
            for column, data in found.items():
                text = h5py.check_string_dtype(data.dtype) is not None
                values = _text(self.name, column, data) if text else data[...]
                arrays[column] = array_column(self.name, column, values, copy=False)
        return pa.table(arrays), ((self.name, len(arrays[columns[0]])),)


def reject_foreign(log: str, path: Path) -> None:
    """Refuse an HDF5 file with links to other files, or with data sets whose rows lie elsewhere."""
    h5py = _h5py(log)
    with h5py.File(path) as file:
        links: list[tuple[bytes, int]] = []
        file.id.links.visit(lambda name, link: links.append((name, link.type)), info=True)
        for name, kind in links:
            got = "" if kind in (h5py.h5l.TYPE_HARD, h5py.h5l.TYPE_SOFT) else _OTHER_FILE
            if kind == h5py.h5l.TYPE_HARD:  # what a soft link leads to has such a one as well
                found = h5py.h5o.open(file.id, name)
                got = _foreign(h5py, found) if isinstance(found, h5py.h5d.DatasetID) else ""
            if got:
                raise _elsewhere(log, name.decode(errors="replace"), got)


def _elsewhere(log: str, name: str, got: str) -> InputError:
    return InputError(
        f'{visible(log)}: data set "{visible(name)}" must be written in the file itself. Got {got}; '
        "write the file again with all of its data."
    )


def _stored(group: Any, path: str, links: int = _LINKS) -> Any:
    """What lies at a path of an HDF5 file, or in words why it is not all there.

    The path is followed link by link, because HDF5 itself opens whatever file a link names; likewise for data sets.
    """
    import h5py

    for part in path.split("/"):
        if part in ("", "."):
            continue
        link = group.get(part, getlink=True) if isinstance(group, h5py.Group) else None
        if link is None or not links:
            return "a link that leads nowhere"
        if isinstance(link, h5py.SoftLink):
            group = _stored(group.file if link.path.startswith("/") else group, link.path, links - 1)
        elif isinstance(link, h5py.HardLink):
            group = group[part]
        else:
            return _OTHER_FILE
        if isinstance(group, str):
            return group
    if not isinstance(group, h5py.Dataset):
        return group
    return _foreign(h5py, group.id) or _unwritten(h5py, group.id) or group


def _foreign(h5py: Any, data: Any) -> str:
    """Where the rows of a data set lie if not in its file."""
    made = data.get_create_plist()
    if made.get_layout() == h5py.h5d.VIRTUAL:
        return "a virtual data set, whose rows lie in others"
    return "external storage: its rows lie in another file" if made.get_external_count() else ""


def _unwritten(h5py: Any, data: Any) -> str:
    """Whether rows of a data set read as zeros because nobody wrote them; a value that was chosen for such rows is data."""
    chosen = data.get_create_plist().fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED
    written = data.get_space_status() == h5py.h5d.SPACE_STATUS_ALLOCATED
    return (
        "" if written or chosen or not data.get_space().get_simple_extent_npoints() else "rows that were never written"
    )


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
        raise InputError(f"{name} needs h5py, which is not installed; run: pip install 'cesaro[hdf5]'.") from None
    return h5py


def _check_shapes(log: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for column, shape in shapes.items():
        if len(shape) not in (1, 2):
            raise InputError(
                f'{log}: array "{column}" must have shape [row] or [row, entry]. Got {shape}; flatten it or name another.'
            )
    same_length(log, {column: shape[0] for column, shape in shapes.items()})
