"""Where the columns of a log come from. A source knows its columns at once and gives their data on demand."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from cesaro.data.columns import as_times, basic_type, is_plain_text
from cesaro.data.roles import Chosen, Roles
from cesaro.data.settings import carried_settings
from cesaro.errors import CesaroError, InputError, is_out_of_memory
from cesaro.text import Sentence, redacted, visible

Files = tuple[tuple[str, int], ...]
_ARRAY_ERRORS = (TypeError, OverflowError, AttributeError)
_SHOWN = 60  # characters of an entry
PLACES = 8  # stretches of an excerpt


class UnreadableError(InputError):
    """A file cannot be opened, or its data cannot be decoded; `reason` says why, in the parser's words."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class ChangedError(InputError):
    """A file is not what it was when it was read before; `file` is its name."""

    def __init__(self, log: str, got: str, file: str) -> None:
        super().__init__(f"{log} must not change while it is read. Got {got}; run it again when it is complete.")
        self.file = file


class Source(ABC):
    """Columns of a log.

    A source that can be read in pieces has `files`. `piece_types` comes first: it settles the types of the columns, and
    which files can be read where broken ones shall be left out. The source can be pickled before and after.

    Attributes:
        name: what messages call it.
        given: the path or address that it was opened by, without credentials; None: it was none.
        names: its columns.
        types: their Arrow types; None where only the data tell.
        num_rows: None where only the data tell.
        options: settings that the log itself carries, such as `on_termination`.
        notes: sentences on how it was read.
        roles, kinds: what the format itself says about its columns; the caller's choice goes before.
        files: names of the files, in order; None: it can only be read as a whole.
        skipped: files that were left out because they cannot be read: "name: reason".
        holes: places in `files` before which one was left out.
    """

    name: str
    given: str | None = None
    names: tuple[str, ...]
    types: pa.Schema | None = None
    num_rows: int | None = None
    options: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    roles: Mapping[str, Any]
    kinds: Mapping[str, str]
    files: tuple[str, ...] | None = None
    skipped: tuple[str, ...] = ()
    holes: tuple[int, ...] = ()

    def __init__(self, name: str, names: Sequence[str], options: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.names = tuple(names)
        self.options = options or {}
        self.roles = {}
        self.kinds = {}
        check_names(name, self.names)

    @abstractmethod
    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        """The columns of `roles`, in file order, and the files with their rows."""

    def head(self, columns: Sequence[str], rows: int) -> pa.Table | None:
        """The first rows of some columns, unchecked; None where a look would cost too much."""
        return None

    def excerpt(self, rows: int) -> pa.Table:
        """Every column that can be read, used or not: all rows, or some contiguous ones where there are more than `rows`.

        Text that holds times is read as such.
        """
        table = self._excerpt(rows)
        for place, field in enumerate(table.schema):
            kind = basic_type(field.type)
            times = as_times(table[place].cast(kind)) if is_plain_text(kind) else None
            if times is not None:
                table = table.set_column(place, field.name, times)
        return table

    def _excerpt(self, rows: int) -> pa.Table:
        """What `excerpt` gives, with the types of the columns."""
        try:
            table = self.table(_every(self.names), {})[0]
        except InputError:
            table = pa.table({name: column for name in self.names for column in self._readable(name)})
        return spread(table, rows)

    def _readable(self, name: str) -> list[pa.ChunkedArray]:
        """One column, or none where it cannot be read."""
        try:
            return [self.table(_every([name]), {})[0][name]]
        except InputError:
            return []

    def stamps(self) -> dict[str, str]:
        """Per file its size and the time of its last change; empty where these do not tell whether the log is the same."""
        return {}

    def written(self, file: int, row: int, column: str) -> tuple[int, str] | None:
        """The line of one of `files` that holds an entry, and its text; None: it is no text."""
        return None

    def state(self, file: int) -> tuple[int, ...] | None:
        """What is another one after every change of one of `files`; None: nothing is, and only its content tells."""
        return None

    def piece_types(self, roles: Roles, kinds: Mapping[str, str], *, checked: bool = True) -> pa.Schema:
        """The columns of `roles` with the types that `batches` gives them, which are those of `table`.

        Without `checked`, text that is more likely a mistake than a label is taken as it is.
        """
        raise NotImplementedError

    def file_rows(self) -> tuple[int, ...]:
        """Rows of each of `files`."""
        raise NotImplementedError

    def nbytes(self, roles: Roles) -> int:
        """About the bytes that `table` would hold."""
        raise NotImplementedError

    def batches(self, file: int, columns: Sequence[str], start: int = 0) -> Iterator[pa.Table]:
        """Blocks of BLOCK_ROWS rows (the last may have fewer) of one file from row `start`, a multiple of BLOCK_ROWS.

        Values and types are those of `table`. A few blocks are held at most.
        """
        raise NotImplementedError


def _every(names: Sequence[str]) -> Roles:
    """Roles that use every column."""
    return Roles(Chosen(tuple(names)), Chosen(()), names[0])


def spread(table: pa.Table, rows: int) -> pa.Table:
    """All rows, or `PLACES` contiguous stretches of about `rows` together."""
    if len(table) <= rows:
        return table
    starts = np.linspace(0, len(table) - rows // PLACES, PLACES).astype(int)
    return pa.concat_tables([table.slice(start, rows // PLACES) for start in starts.tolist()])


def check_names(log: str, names: Sequence[str]) -> None:
    if not names:
        raise InputError(f"{log} must have columns. Got none; write the log again.")
    seen = set()
    for name in names:
        if name in seen:
            shown = visible(name)
            raise InputError(f'{log} must have different column names. Got "{shown}" twice; rename one of the two.')
        seen.add(name)


@contextmanager
def reading(
    name: str,
    what: str,
    *families: type[Exception],
    remedy: str = "check that it is complete and has the format its name says",
    address: str = "",
) -> Iterator[None]:
    """Whatever a parser says about a broken input becomes one sentence, without the credentials of `address`.

    Where memory ran out nothing is known about the input: that stays a MemoryError.
    """
    try:
        yield
    except CesaroError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError, *families) as error:
        said = visible(redacted(" ".join(str(error).split()).rstrip("."), address)) or type(error).__name__
        said = said if len(said) <= 200 else said[:197] + "…"
        if is_out_of_memory(error):
            raise MemoryError(said if name in said else f"{visible(name)}: {said}") from None
        sentence = "{name} must be {what}. Got: {said}; {remedy}."
        raise UnreadableError(
            Sentence(sentence, name=visible(name), what=what, said=said, remedy=remedy), said
        ) from None


class TableSource(Source):
    """An Arrow table in memory."""

    def __init__(self, name: str, table: pa.Table) -> None:
        with reading(name, "a table with names in UTF-8"):
            names = table.column_names
        super().__init__(name, names, carried_settings(name, table.schema.metadata))
        self._table = table
        self.types = table.schema
        self.num_rows = table.num_rows

    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        return self._table.select(roles.columns()), ((self.name, self._table.num_rows),)

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
        self.num_rows = len(frame)

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
        return pa.table(columns), ((self.name, len(self._frame)),)

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
