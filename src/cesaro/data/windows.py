"""Files of a log in windows: the rows of a block, and the row below them.

A block that is not what it was when it was first read is an error: `Digests` remembers what every column of every block held.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cesaro.data.blocks import BlockLayout
from cesaro.data.columns import is_list
from cesaro.data.sources.base import ChangedError
from cesaro.data.sources.files import FilesSource
from cesaro.fingerprints import fingerprint

# Bytes of a digest. Of the hashes that release the interpreter's lock, SHA-256 is the fastest on processors that know it.
SIZE = 16

# By column the digests of its blocks, `[blocks, SIZE]`; zeros where a block has not been read.
ColumnDigests = dict[str, NDArray[np.uint8]]


class Window(NamedTuple):
    """The rows of a block.

    Attributes:
        block: its number in the log.
        first: the row of the log that it begins with.
        rows: how many it has.
        is_last: whether no row follows.
        table: the rows and, where it is wanted and there is one, the row below.
    """

    block: int
    first: int
    rows: int
    is_last: bool
    table: pa.Table


class Windows:
    """The blocks of all files, in order, as often as asked.

    Attributes:
        digests: of what was read so far.
    """

    def __init__(self, source: FilesSource, layout: BlockLayout) -> None:
        self._source, self._layout = source, layout
        # Of files that had not just changed; the first that was seen stays.
        self._states: dict[int, tuple[int, ...]] = {}
        self.digests = Digests(len(layout))

    def read(
        self,
        columns: Sequence[str],
        start: int = 0,
        stop: int | None = None,
        *,
        wrapped: pa.Table | None = None,
        below: bool = True,
    ) -> Iterator[Window]:
        """The blocks from `start` to before `stop`.

        Args:
            wrapped: the row that stands below the last one of the log.
            below: whether the row below is wanted, for which one block more is read.
        """
        every = len(self._layout)
        stop = every if stop is None else stop
        tables = self._tables(columns, start)
        after = next(tables)
        for block in range(start, stop):
            table, is_last = after, block == every - 1
            if not is_last and (below or block + 1 < stop):
                after = next(tables)
            under = wrapped if is_last else after
            both = [table, under.select(columns).slice(0, 1)] if below and under is not None else [table]
            yield Window(block, int(self._layout.starts[block]), len(table), is_last, pa.concat_tables(both))

    def missing(self, column: str) -> int:
        """Missing entries of a column in the whole log."""
        return sum(table[column].null_count for table in self._tables([column], 0))

    def _tables(self, columns: Sequence[str], block: int) -> Iterator[pa.Table]:
        """The rows of this block and of those that follow."""
        layout = self._layout
        while block < len(layout):
            file, number = layout.key(block)
            state = self._state(file)
            for table in self._source.batches(file, columns, number * layout.block_rows):
                if layout.key(block)[0] != file or len(table) != layout.rows(block):
                    raise self.changed(file, "another number of rows")
                is_untouched = state is not None and state == self._source.files[file].state()
                for name in columns:
                    if is_untouched and self.digests.is_known(name, block):
                        continue
                    if not self.digests.agree(name, block, table[name], is_untouched):
                        raise self.changed(file, f'other entries of column "{name}"')
                yield table
                block += 1
                if block == len(layout):
                    return
            if block < len(layout) and layout.key(block)[0] == file:
                raise self.changed(file, "another number of rows")

    def _state(self, file: int) -> tuple[int, ...] | None:
        """The state that a file must keep for its blocks to count as read before; None: it has just changed, or is elsewhere."""
        found = self._source.files[file].state()
        return None if found is None else self._states.setdefault(file, found)

    def changed(self, file: int, got: str) -> ChangedError:
        """The error of a file that is not what it was before."""
        name = self._source.files[file].name
        return ChangedError(self._source.name, f"{got} in {name} than before", name)


class Digests:
    """Digests of the columns of a log as they were when they were first read, by block.

    A copy that is sent to another process begins anew: whoever sent it compares what comes back.
    """

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._types: dict[str, pa.DataType] = {}
        self._own: dict[str, NDArray[np.bool_]] = {}  # blocks that were read here, of files that would show a change
        self.found: ColumnDigests = {}

    def __reduce__(self) -> Any:
        return Digests, (self._blocks,)

    def is_known(self, column: str, block: int) -> bool:
        """Whether a block was read before, by this process, and a change since then would show."""
        return column in self._own and bool(self._own[column][block])

    def agree(self, column: str, block: int, values: pa.ChunkedArray, is_untouched: bool) -> bool:
        """Whether a column holds what it held when this block was first read; the first time it is remembered.

        Args:
            is_untouched: whether the file still has the state that was taken before it was read, which another change would
                show: only then the block counts as read, and never where it differs.
        """
        if self._types.setdefault(column, values.type) != values.type:
            return False
        known = self._known(column)[block]
        digest = np.frombuffer(column_digest(values), np.uint8)
        if not known.any():
            known[:] = digest
        is_same = bool((known == digest).all())
        if is_same and is_untouched:
            self._own.setdefault(column, np.zeros(self._blocks, np.bool_))[block] = True
        return is_same

    def merge(self, others: Mapping[str, NDArray[np.uint8]], start: int = 0) -> tuple[str, int] | None:
        """Remember what another reading found from a block on; a column and a block where it differs, None: all agree."""
        for column, digests in others.items():
            known = self._known(column)[start : start + len(digests)]
            new = digests.any(axis=1)
            differ = np.flatnonzero(new & known.any(axis=1) & (known != digests).any(axis=1))
            if len(differ):
                return column, start + int(differ[0])
            known[new] = digests[new]
        return None

    def unread(self, column: str, others: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Blocks of a column that another reading knows, and this one does not."""
        return np.flatnonzero(others.any(axis=1) & ~self._known(column).any(axis=1))

    def _known(self, column: str) -> NDArray[np.uint8]:
        if column not in self.found:
            self.found[column] = np.zeros((self._blocks, SIZE), np.uint8)
        return self.found[column]


def column_digest(column: pa.ChunkedArray) -> bytes:
    """The digest of rows of one type, however they are cut into chunks, and whatever their dictionary holds besides."""
    digest = hashlib.sha256()
    for part in _bytes(column.combine_chunks()):
        digest.update(part)
    return digest.digest()[:SIZE]


def rows_digest(rows: Any) -> NDArray[np.uint8]:
    """The digest of rows in memory, a dataclass of arrays and `Values`, as if these were one block, `[1, SIZE]`."""
    digest = fingerprint(vars(rows))
    return np.frombuffer(bytes.fromhex(digest), np.uint8)[None, :SIZE]


def _bytes(array: Any) -> Iterator[Any]:
    if isinstance(array, pa.ChunkedArray):  # combining makes no single array of none, and several of very long text
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    kind = array.type
    yield f"{kind} {len(array)} ".encode()
    if array.null_count:  # what stands at missing entries means nothing
        yield np.packbits(array.is_valid().to_numpy(zero_copy_only=False))
        array = array.drop_null()
    if pa.types.is_dictionary(kind):
        codes, used = _by_appearance(array.indices.to_numpy(), len(array.dictionary))
        yield codes
        yield from _bytes(array.dictionary.take(pa.array(used)))
    elif pa.types.is_boolean(kind):
        yield array.to_numpy(zero_copy_only=False)
    elif pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        if len(array):
            yield array.buffers()[1].slice(array.offset * width, len(array) * width)
    elif _is_text(kind):
        yield from _text(array, np.int64 if "large" in str(kind) else np.int32)
    elif is_list(kind):
        yield np.asarray(pc.list_value_length(array))
        yield from _bytes(pc.list_flatten(array))
    else:
        yield repr(array.to_pylist()).encode()


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)


def _text(array: pa.Array, width: Any) -> Iterator[Any]:
    """The bytes of text: the lengths of its entries, and all of them without gaps."""
    if len(array):
        _, offsets, data = array.buffers()
        ends = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
        yield np.diff(ends)
        if data is not None:
            yield data.slice(int(ends[0]), int(ends[-1] - ends[0]))


def _by_appearance(codes: NDArray[Any], size: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Codes in order of their first appearance, and the old code of each: a dictionary may hold more, in any order."""
    first = np.full(size, len(codes))
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    used = np.flatnonzero(first < len(codes))
    order = used[np.argsort(first[used])]
    ranks = np.empty(size, np.int32)
    ranks[order] = np.arange(len(order))
    return ranks[codes], order
