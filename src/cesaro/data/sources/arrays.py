"""Sources that are read as a whole: Arrow tables, frames and arrays in memory, and NPZ and HDF5 files of arrays.

Arrays in files have the names that D4RL uses, such as `terminals` and `timeouts`. Opening one reads names and shapes.
"""

import io
import math
import warnings
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from cesaro.data.roles import Roles
from cesaro.data.settings import carried_settings
from cesaro.data.sources.base import Files, Source, reading
from cesaro.errors import CesaroError, InputError
from cesaro.text import visible

_ARRAY_ERRORS = (TypeError, OverflowError, AttributeError)
_SHOWN = 60  # characters of an entry
_HEADER = 1 << 16  # bytes of an array's header that are looked at; NumPy takes 10,000 characters
_OTHER_FILE = "a link to another file"
_LINKS = 16  # as many follow one another in an HDF5 file


class TableSource(Source):
    """An Arrow table in memory."""

    def __init__(self, name: str, table: pa.Table) -> None:
        with reading(name, "a table with names in UTF-8"):
            names = table.column_names
        super().__init__(name, names, carried_settings(name, table.schema.metadata))
        self._table = table
        self.types = table.schema

    @property
    def num_rows(self) -> int:
        return int(self._table.num_rows)

    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        return self._table.select(roles.columns()), ((self.name, self.num_rows),)

    def head(self, columns: Sequence[str], rows: int) -> pa.Table:
        return self._table.select(columns).slice(0, rows)


class ArraySource(Source):
    """Arrays by name: `[n]`, or `[n, d]` for a vector. Those in use are copied on demand."""

    def __init__(self, name: str, arrays: Mapping[str, Any]) -> None:
        super().__init__(name, [str(key) for key in arrays])
        self._arrays = {str(key): array for key, array in arrays.items()}

    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        columns = {column: array_column(self.name, column, self._arrays[column]) for column in roles.columns()}
        rows = same_length(self.name, {name: len(column) for name, column in columns.items()})
        return pa.table(columns), ((self.name, rows),)


def same_length(log: str, lengths: Mapping[str, int]) -> int:
    """The number of rows that all columns have; refuse those that have others."""
    first = next(iter(lengths))
    for name, length in lengths.items():
        if length != lengths[first]:
            raise InputError(
                f'{log}: all columns must have the same number of rows. Got {lengths[first]} in "{first}" and {length} '
                f'in "{name}"; check which rows are missing.'
            )
    return lengths[first]


def array_column(log: str, name: str, values: Any, copy: bool = True) -> pa.ChunkedArray:
    """Array-likes as an Arrow column: `[n]`, or `[n, d]` as fixed-size lists. Later changes of `values` do no harm."""
    where = f'{log}: "{name}"'
    if isinstance(values, pa.ChunkedArray):
        return values
    if isinstance(values, pa.Array):
        return pa.chunked_array([values])
    if isinstance(values, str | bytes | Mapping) or values is None:
        raise InputError(f"{where} must be an array. Got a {type(values).__name__}; give one value per row.")
    remedy = "convert it to numbers, text or true/false"
    with reading(where, "an array of numbers, text or true/false", *_ARRAY_ERRORS, remedy=remedy):
        try:
            return _converted(where, values, copy)
        except (CesaroError, MemoryError):
            raise
        except (pa.ArrowException, ValueError, *_ARRAY_ERRORS):
            reject_mixed(where, values)
            raise


def _converted(where: str, values: Any, copy: bool) -> pa.ChunkedArray:
    if isinstance(values, list | tuple | range):
        # Not by NumPy, which would turn a list of numbers and text into text.
        if not (values and isinstance(values[0], np.ndarray | np.generic | list | tuple)):
            return pa.chunked_array([pa.array(list(values))])
        return pa.chunked_array([_stacked(values)])
    if _module(values) == "pandas":
        converted = pa.Array.from_pandas(values)
        return converted if isinstance(converted, pa.ChunkedArray) else pa.chunked_array([converted])
    if _module(values) == "polars":
        return pa.chunked_array([values.to_arrow()])
    return _from_numpy(where, values, copy)


def _stacked(values: Sequence[Any]) -> pa.Array:
    """A list of rows or NumPy scalars; rows of different length stay lists, and are refused with their row later."""
    if isinstance(values[0], np.generic):
        return pa.array([value.item() if isinstance(value, np.generic) else value for value in values])
    return pa.array([list(row) if isinstance(row, tuple | np.ndarray) else row for row in values])


def _from_numpy(where: str, values: Any, copy: bool) -> pa.ChunkedArray:
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    if array.ndim not in (1, 2):
        raise InputError(f"{where} must have shape [row] or [row, entry]. Got {array.shape}; flatten it.")
    # Arrow takes a step of three days for one of a day.
    is_multiple = array.dtype.kind in "Mm" and np.datetime_data(array.dtype)[1] != 1
    if array.dtype.kind not in "biufOUSMm" or (array.dtype.itemsize > 8 and array.dtype.kind == "f") or is_multiple:
        raise InputError(f"{where} must hold numbers, text or true/false. Got dtype {array.dtype}; convert it first.")
    mask = np.ma.getmaskarray(array) if np.ma.isMaskedArray(array) else None
    array = np.array(np.ma.getdata(array), copy=copy or None, order="C")
    if array.dtype.byteorder not in "=|" and array.dtype.kind not in "US":
        array = array.astype(array.dtype.newbyteorder("="))
    if array.ndim == 1:
        return pa.chunked_array([pa.array(array, mask=mask, from_pandas=False)])
    if not array.shape[1]:
        raise InputError(f"{where} must have at least one entry per row. Got shape {array.shape}.")
    entries = pa.array(array.reshape(-1), mask=None if mask is None else mask.reshape(-1), from_pandas=False)
    return pa.chunked_array([pa.FixedSizeListArray.from_arrays(entries, array.shape[1])])


def _module(value: Any) -> str:
    return type(value).__module__.split(".")[0]


class FrameSource(Source):
    """A pandas or Polars frame; columns are converted one by one, so that a complaint can name one."""

    def __init__(self, name: str, frame: Any) -> None:
        index = getattr(getattr(frame, "index", None), "names", [None])
        if all(level is not None for level in index):
            with reading(name, "a frame whose index has other names than its columns"):
                frame = frame.reset_index()
        super().__init__(name, [str(column) for column in frame.columns])
        self._frame = frame
        self._by_name = {str(column): column for column in frame.columns}

    @property
    def num_rows(self) -> int:
        return len(self._frame)

    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        columns = {}
        for column in roles.columns():
            series = self._frame[self._by_name[column]]
            if str(series.dtype) == "Object":
                reject_mixed(f'{self.name}: "{column}"', series)
                raise InputError(
                    f'{self.name}: "{column}" must hold numbers, text or true/false. Got Python objects; convert it.'
                )
            columns[column] = array_column(self.name, column, series)
        return pa.table(columns), ((self.name, self.num_rows),)

    def head(self, columns: Sequence[str], rows: int) -> pa.Table:
        found = {column: self._frame[self._by_name[column]].head(rows) for column in columns}
        return pa.table({column: _glance(self.name, column, series) for column, series in found.items()})


def _glance(log: str, column: str, series: Any) -> pa.ChunkedArray:
    """A column, or nothing but missing entries where it cannot be converted."""
    try:
        return array_column(log, column, series)
    except InputError:
        return pa.chunked_array([pa.nulls(len(series))])


def reject_mixed(where: str, values: Any) -> None:
    """Name the first row whose type differs from that of the rows before; to be called where a conversion failed."""
    frame = _module(values) == "pandas"
    rows = [(row, value) for row, value in enumerate(_listed(values)) if not _is_missing(value, frame)]
    _compare(where, rows, _family)
    if rows and _family(rows[0][1]) == "list":
        entries = [(row, entry) for row, value in rows for entry in _listed(value) if not _is_missing(entry, False)]
        _compare(where, entries, _family)
        _compare(where, entries, type)
    else:
        _compare(where, rows, type)


def _compare(where: str, rows: list[tuple[int, Any]], kind: Callable[[Any], Any]) -> None:
    for row, value in rows:
        if kind(value) != kind(rows[0][1]):
            before = type(rows[0][1]).__name__
            shown = visible(repr(value))
            shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…"
            raise InputError(
                f"{visible(where)} must be an array of numbers, text or true/false, not of several types. "
                f"Got {shown} ({type(value).__name__}) at row {row} (counted from 0) after {before}; "
                "convert the column to one type."
            ) from None


def _listed(values: Any) -> Iterable[Any]:
    if _module(values) == "polars":
        return list(values.to_list())
    return list(values)


def _is_missing(value: Any, frame: bool) -> bool:
    """None; what pandas takes for missing only in its own columns, because elsewhere it is a type of its own."""
    if value is None:
        return True
    return frame and (type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value))


def _family(value: Any) -> str:
    """Types that one column may mix."""
    if isinstance(value, bool | np.bool_):
        return "flag"
    if isinstance(value, int | float | np.integer | np.floating):
        return "number"
    if isinstance(value, str | bytes):
        return "text"
    if isinstance(value, list | tuple | np.ndarray):
        return "list"
    return type(value).__name__


class ArrayFile(Source):
    """A file of arrays by name, whose shapes are known when it is opened."""

    what: ClassVar[str]
    errors: ClassVar[tuple[type[Exception], ...]]

    def __init__(self, path: Path) -> None:
        self._path = path
        with reading(path.name, self.what, *self.errors):
            self._shapes = self._found(path)
        super().__init__(path.name, list(self._shapes))

    @abstractmethod
    def _found(self, path: Path) -> dict[str, tuple[int, ...]]:
        """The shape of every array, by its name."""

    @abstractmethod
    def _arrays(self, columns: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """The data of some arrays, by their names; their shapes are checked before."""

    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        with reading(self.name, self.what, *self.errors):
            arrays = self._arrays(roles.columns())
            columns = {column: array_column(self.name, column, array, copy=False) for column, array in arrays}
        return pa.table(columns), ((self.name, len(columns[roles.columns()[0]])),)

    def _check_shapes(self, columns: Sequence[str]) -> None:
        for column in columns:
            shape = self._shapes[column]
            if len(shape) not in (1, 2):
                raise InputError(
                    f'{self.name}: array "{column}" must have shape [row] or [row, entry]. Got {shape}; flatten it or name '
                    "another."
                )
        same_length(self.name, {column: self._shapes[column][0] for column in columns})


class NpzSource(ArrayFile):
    """Arrays of one NPZ archive."""

    what = "a complete NPZ file"
    errors = (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError, RuntimeError)

    def _found(self, path: Path) -> dict[str, tuple[int, ...]]:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
            return {member.filename[:-4]: _npy_shape(path.name, archive, member) for member in members}

    def _arrays(self, columns: Sequence[str]) -> Iterator[tuple[str, Any]]:
        self._check_shapes(columns)
        with zipfile.ZipFile(self._path) as archive:
            for column in columns:
                with archive.open(f"{column}.npy") as file, warnings.catch_warnings(action="ignore"):
                    array = np.lib.format.read_array(file, allow_pickle=False)
                yield column, array


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


class Hdf5Source(ArrayFile):
    """Data sets at the root of an HDF5 file, as D4RL writes them; groups, and names that are not UTF-8, are left alone.

    Only what lies in the file itself is read.
    """

    what = "a complete HDF5 file"
    errors = (KeyError, RuntimeError, TypeError)

    def _found(self, path: Path) -> dict[str, tuple[int, ...]]:
        h5py, shapes = _h5py(path.name), dict[str, tuple[int, ...]]()
        with h5py.File(path) as file:
            for key in file:
                found = _stored(file, key) if isinstance(key, str) else None
                if isinstance(found, str):
                    shapes[key] = ()  # it may be a column, and is refused where it is one
                elif isinstance(found, h5py.Dataset):
                    shapes[key] = tuple(found.shape or ())
        return shapes

    def _arrays(self, columns: Sequence[str]) -> Iterator[tuple[str, Any]]:
        h5py = _h5py(self.name)
        with h5py.File(self._path) as file:
            found = {column: _stored(file, column) for column in columns}
            for column, data in found.items():
                if isinstance(data, str):
                    raise _elsewhere(self.name, column, data)
            self._check_shapes(columns)
            for column, data in found.items():
                is_text = h5py.check_string_dtype(data.dtype) is not None
                yield column, _text(self.name, column, data) if is_text else data[...]


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
    """The group or data set at a path of an HDF5 file, or in words why it is not all there.

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
    """In words, the place of the rows of a data set that lie outside of its file; empty: they lie in it."""
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
