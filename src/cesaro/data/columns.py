"""Arrow columns of numbers as NumPy arrays: exact, checked, and with the row in every complaint.

A missing entry becomes NaN where the caller allows it (a next observation or a reward that no transition uses).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cesaro.checks import LARGEST
from cesaro.data.texts import nearly_numbers
from cesaro.errors import InputError
from cesaro.text import GIVE, Sentence, Wording, argument, option, switch, visible

EXACT = 2**53 - 1  # up to here a float64 stands for one whole number; 2**53 is also what 2**53 + 1 becomes
_CHECKED = 1 << 18  # entries per pass of a check
FEW = 1 << 17  # entries of which NumPy makes one array of several; of more, Arrow does, whose memory is there already


# The line and the text of an entry, by the number of the file, the row and the column; None: its file is no text, or in doubt.
Written = Callable[[int, int, str], tuple[int, str] | None]


def named_row(file: int, row: int, column: str, files: Sequence[str], written: Written | None) -> str:
    """A row as messages name it, with its line where the file is text."""
    of = f" of {files[file]}" if len(files) > 1 else ""
    found = _written(file, row, column, written)
    return f"row {row}{of} (counted from 0)" + ("" if found is None else f", line {found[0]}")


def _written(file: int, row: int, column: str, written: Written | None) -> tuple[int, str] | None:
    """The line and text that `written` finds; the message that needs it must not fail where the file cannot be read again."""
    try:
        return None if written is None else written(file, row, column)
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class ColumnPlace:
    """Where a column comes from, for messages; rows are counted from 0 within their file.

    Attributes:
        files: (file name, rows) of all files.
        first: the row of the log that the column begins with; after the log's last row comes its first.
        missing: counts the missing entries of the whole log, where the column holds some of its rows.
        of: the row of the log that a row of the column is, where these are not alike, before `first` is added.
        is_droppable: whether a row without an entry here can be left out.
        written: finds an entry in the text of its file.
    """

    log: str
    column: str
    files: tuple[tuple[str, int], ...]
    first: int = field(default=0, kw_only=True)
    missing: Callable[[], int] | None = field(default=None, kw_only=True)
    of: Callable[[int], int] | None = field(default=None, kw_only=True, compare=False)
    is_droppable: bool = field(default=False, kw_only=True)
    written: "Written | None" = field(default=None, kw_only=True, compare=False)

    def row(self, index: int) -> str:
        return named_row(*self._spot(index), self.column, [file for file, _ in self.files], self.written)

    def text(self, index: int) -> str:
        """The text of an entry in its file; empty where the file holds no text."""
        found = _written(*self._spot(index), self.column, self.written)
        return "" if found is None else found[1].strip()

    def _spot(self, index: int) -> tuple[int, int]:
        """The number of the file, and the row in it."""
        index = ((index if self.of is None else int(self.of(index))) + self.first) % sum(rows for _, rows in self.files)
        for number, (_, rows) in enumerate(self.files):
            if index < rows:
                return number, index
            index -= rows
        raise IndexError(index)

    def within(self, of: Callable[[int], int]) -> "ColumnPlace":
        """The place of the entries of its lists, or of its dictionary; `of`: the row that an entry belongs to."""
        outer = self.of
        inner = of if outer is None else lambda index: outer(of(index))
        return replace(self, of=inner, missing=None)

    def error(self, rule: str, got: str, remedy: str) -> InputError:
        """One sentence; the rule and the remedy may be sentences that name arguments."""
        log, column, rule, got, remedy = map(visible, (self.log, self.column, rule, got, remedy))
        said = '{log}: column "{column}" {rule}. Got {got}; {remedy}.'
        return InputError.of(said, log=log, column=column, rule=rule, got=got, remedy=remedy)


def kind_argument(column: str, kind: str) -> Wording:
    """The argument, or option, by which a caller chooses the kind of a column."""
    return Wording(f'kinds={{"{visible(column)}": "{kind}"}}', option("kind", f"{column}={kind}"))


def basic_type(kind: pa.DataType) -> pa.DataType:
    """The type that `unwrapped` gives, views aside."""
    while True:
        if isinstance(kind, pa.BaseExtensionType) and _is_plain_extension(kind):
            kind = kind.storage_type
        elif pa.types.is_run_end_encoded(kind) or pa.types.is_dictionary(kind):
            kind = kind.value_type
        else:
            return kind


def unwrapped(column: pa.ChunkedArray, place: ColumnPlace) -> pa.ChunkedArray:
    """The column without dictionary, run-end, view or extension encoding."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        if not _is_plain_extension(kind):
            raise place.error("must have a basic type", f"type {kind}", "convert it to numbers, text or lists")
        return unwrapped(pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type), place)
    if pa.types.is_run_end_encoded(kind):
        return unwrapped(pa.chunked_array([pc.run_end_decode(c) for c in column.chunks], kind.value_type), place)
    if pa.types.is_dictionary(kind):
        return unwrapped(cast(column, kind.value_type, place, "valid dictionary codes"), place)
    if pa.types.is_string_view(kind):
        return cast(column, pa.large_string(), place, "text")
    if pa.types.is_binary_view(kind):
        return cast(column, pa.large_binary(), place, "text")
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return cast(column, pa.large_list(kind.value_type), place, "lists")
    return column


def _is_plain_extension(kind: pa.BaseExtensionType) -> bool:
    name = getattr(kind, "extension_name", "")
    if name == "arrow.fixed_shape_tensor":
        return len(kind.shape) == 1
    return name in ("arrow.uuid", "arrow.json")


def is_list(kind: pa.DataType) -> bool:
    types = pa.types
    plain = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return plain or types.is_list_view(kind) or types.is_large_list_view(kind)


def is_text(kind: pa.DataType) -> bool:
    types = pa.types
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return text or binary or types.is_fixed_size_binary(kind)


def is_plain_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def wide(kind: pa.DataType) -> pa.DataType:
    """A dictionary with codes of 32 bits or more, so that dictionaries of several parts can become one; others as they are."""
    if not pa.types.is_dictionary(kind) or kind.index_type.bit_width >= 32:
        return kind
    return pa.dictionary(pa.int32(), kind.value_type, kind.ordered)


def is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def cast(
    column: pa.ChunkedArray, kind: pa.DataType, place: ColumnPlace, what: str, remedy: str = ""
) -> pa.ChunkedArray:
    """An exact cast; a value that does not survive it is named with its row."""
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except MemoryError:
        raise
    except pa.ArrowException:
        row = first_failure(column, kind)
        raise place.error(
            f"must hold {what}", f"{shown(column[row])} at {place.row(row)}", remedy or "correct that entry"
        ) from None


def time_kind(texts: pa.ChunkedArray) -> pa.DataType | None:
    """The type of times, without or with a zone, as which the first text can be read; None: as neither."""
    kinds = (pa.timestamp("ns"), pa.timestamp("ns", "UTC"))
    return next((kind for kind in kinds if len(texts) and can_cast(texts[:1], kind)), None)


def as_times(texts: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Text as times, where every entry is one that begins with the year: 2024-01-31 14:00 or 2024-01-31T14:00:00Z."""
    kind = time_kind(texts.drop_null())
    return texts.cast(kind) if kind is not None and can_cast(texts, kind) else None


def can_cast(column: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Whether every entry survives a cast."""
    try:
        column.cast(kind)
    except MemoryError:
        raise
    except pa.ArrowException:
        return False
    return True


def first_failure(column: pa.ChunkedArray, kind: pa.DataType) -> int:
    """The first row that cannot be cast, by halving."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        if can_cast(column.slice(low, middle - low), kind):
            low = middle
        else:
            high = middle
    return low


def shown(value: pa.Scalar) -> str:
    """One entry, short; dates that Python cannot hold and broken text included."""
    try:
        text = repr(value.as_py())
    except (ValueError, OverflowError, pa.ArrowException):
        text = "a value that cannot be shown"
    return text if len(text) <= 60 else text[:57] + "…"


def example(column: pa.ChunkedArray, place: ColumnPlace) -> str:
    """The first entry, for a column whose type is wrong as a whole."""
    if column.null_count == len(column):
        return f"no entry at all (type {column.type})"
    row = first_true(pc.is_valid(column))
    return f"{shown(column[row])} at {place.row(row)} (type {column.type})"


def first_true(mask: pa.ChunkedArray) -> int:
    return int(pc.index(mask, pa.scalar(True)).as_py())


def reject_missing(column: pa.ChunkedArray, place: ColumnPlace) -> None:
    """Refuse a column with missing entries, by the first of them."""
    if column.null_count:
        row = first_true(pc.is_null(column))
        count = column.null_count if place.missing is None else place.missing()
        more = "" if count == 1 else f", {count:,} in all"
        text = place.text(row)
        what = f"{text!r}, which counts as an empty entry," if text else "an empty entry"
        got = f"{what} at {place.row(row)}{more}"
        raise place.error("must not have missing entries", got, to_complete(count, place.is_droppable))


def to_complete(count: int, is_droppable: bool) -> str:
    """The remedy for missing entries."""
    them, those = ("it", "that row") if count == 1 else ("them", "those rows")
    if is_droppable:
        remedy = "fill {them} in, or {give} {drop} to leave {those} out and cut the log there"
        return Sentence(remedy, them=them, those=those, give=GIVE, drop=switch("drop_incomplete"))
    remedy = "fill {them} in or remove {those} (with {time} the log is cut there)"
    return Sentence(remedy, them=them, those=those, time=argument("time"))


def to_numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    """The column as a NumPy array, without a copy where it is possible; missing floats become NaN."""
    if column.null_count or not column.num_chunks:
        return column.to_numpy()
    if len(column) <= FEW and (pa.types.is_float32(column.type) or pa.types.is_float64(column.type)):
        parts = [_viewed(chunk) for chunk in column.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    if column.num_chunks == 1:
        return column.chunk(0).to_numpy(zero_copy_only=False)
    # Arrow's own memory is there already; that of a conversion of several chunks is fresh, and takes seven times as long.
    return (
        column.combine_chunks().to_numpy(zero_copy_only=False)
        if pa.types.is_primitive(column.type)
        else column.to_numpy()
    )


def _viewed(chunk: pa.Array) -> NDArray[Any]:
    """The numbers where they lie. Arrow's own conversion asks for the interpreter six times, and other threads wait for it."""
    kind = np.dtype(chunk.type.to_pandas_dtype())
    if not len(chunk):
        return np.empty(0, kind)
    return np.frombuffer(chunk.buffers()[1], kind, len(chunk), chunk.offset * kind.itemsize)


def floats(column: pa.ChunkedArray, place: ColumnPlace, *, missing: bool = False, exact: bool = True) -> NDArray[Any]:
    """Numbers as float32 (from float16 and float32) or float64 (all others).

    `missing` allows gaps; without `exact` integers over 2⁵³ are rounded.
    """
    column = unwrapped(column, place)
    kind = column.type
    if not (is_number(kind) or pa.types.is_boolean(kind)) and not (missing and pa.types.is_null(kind)):
        nearly = nearly_numbers(column) if is_plain_text(kind) else None
        if nearly is not None:
            raise place.error(*nearly.complain(place.row(nearly.wrong)))
        remedy = "convert it or name another column"
        if pa.types.is_temporal(kind):
            remedy = "turn the date or time into numbers, for example into the hour"
        raise place.error("must hold numbers", example(column, place), remedy)
    if not missing:
        reject_missing(column, place)
    if pa.types.is_float16(kind):
        column = column.cast(pa.float32())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.uint8()).cast(pa.float64())
    elif pa.types.is_null(kind) or (pa.types.is_integer(kind) and not exact):
        column = column.cast(pa.float64(), safe=False)
    elif not pa.types.is_floating(kind):
        kind = kind_argument(place.column, "category")
        remedy = Sentence("if these are labels, {give} {kind}", give=GIVE, kind=kind)
        column = cast(column, pa.float64(), place, "numbers that a float64 holds exactly (at most 2**53)", remedy)
    return to_numpy(column)


def vectors(
    column: pa.ChunkedArray,
    place: ColumnPlace,
    *,
    missing: bool = False,
    width: int | None = None,
    rule: str | None = None,
) -> NDArray[Any]:
    """Lists of numbers of one length as `[n, d]`; `width`: what it must be, by a `rule`, where that is known."""
    column = unwrapped(column, place)
    if not missing:
        reject_missing(column, place)
    inner = basic_type(column.type.value_type)
    if not (is_number(inner) or pa.types.is_boolean(inner)):
        raise place.error("must hold lists of numbers", f"type {column.type}", "flatten it into lists of numbers")
    if width is None or column.null_count < len(column):
        width = list_width(column, place, width, rule)
    narrow = pa.types.is_float16(inner) or pa.types.is_float32(inner)
    result = None
    start = 0
    for chunk in column.chunks:
        entries = place.within(partial(_list_of, start, width))
        values = floats(pa.chunked_array([chunk.flatten()]), entries, missing=missing).reshape(-1, width)
        if column.num_chunks == 1 and not chunk.null_count:
            return values
        if result is None:
            result = np.full((len(column), width), np.nan, np.float32 if narrow else np.float64)
        rows = result[start : start + len(chunk)]
        rows[chunk.is_valid().to_numpy(zero_copy_only=False) if chunk.null_count else slice(None)] = values
        start += len(chunk)
    assert result is not None
    return result


def _list_of(start: int, width: int, entry: int) -> int:
    return start + entry // width


def list_width(column: pa.ChunkedArray, place: ColumnPlace, known: int | None = None, rule: str | None = None) -> int:
    """The common length of all lists; `known`: what it must be, by a `rule`, else that of the first row."""
    lengths = None
    if pa.types.is_fixed_size_list(column.type):
        width = int(column.type.list_size)
    else:
        lengths = pc.list_value_length(column)
        width = (pc.first(lengths).as_py() or 0) if known is None else known
    if width < 1:
        raise place.error("must hold lists with at least one entry", "empty lists", "name another column")
    if lengths is not None and (row := first_true(pc.not_equal(lengths, width))) >= 0:
        raise place.error(
            rule or f"must hold lists of one length ({width} in the first row)",
            f"{lengths[row].as_py()} entries at {place.row(row)}",
            "pad, cut or remove rows",
        )
    return width


def unusable_rows(array: NDArray[Any], largest: float = LARGEST) -> NDArray[np.bool_] | None:
    """Which rows of `[n]` or `[n, d]` hold a NaN, an infinity or a number beyond a size; None: none does."""
    if not array.size or (float(array.min()) >= -largest and float(array.max()) <= largest):
        return None
    wrong = None
    step = max(1, _CHECKED // (array.shape[1] if array.ndim == 2 else 1))
    for start in range(0, len(array), step):
        usable = np.abs(array[start : start + step].astype(np.float64)) <= largest
        if not usable.all():
            wrong = np.zeros(len(array), dtype=np.bool_) if wrong is None else wrong
            wrong[start : start + step] = ~(usable.all(axis=1) if array.ndim == 2 else usable)
    return wrong


def reject_unusable(array: NDArray[Any], place: ColumnPlace, largest: float = LARGEST) -> None:
    """Refuse numbers that are not finite or too large, by the first of them."""
    wrong = unusable_rows(array, largest)
    if wrong is not None:
        row = int(np.argmax(wrong))
        entry, value = "", array[row]
        if array.ndim == 2:
            column = int(np.argmin(np.abs(value.astype(np.float64)) <= largest))
            entry, value = f", entry {column}", value[column]
        got = f"{value} at {place.row(row)}{entry}"
        if np.isfinite(value):
            raise place.error(
                f"must be at most {largest:g} in size, so that squares do not overflow",
                got,
                "scale the column, or remove that row if the number stands for a missing one",
            )
        is_gap = bool(np.isnan(value))
        remedy = to_complete(1, True) if is_gap and place.is_droppable else "replace it or remove that row"
        raise place.error("must be finite", got, remedy)
