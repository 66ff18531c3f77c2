"""One role's data: observations or actions, as numbers, labels or both."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Form = Literal["lone", "vector", "named"]
Index = slice | NDArray[Any]


class Categories(NamedTuple):
    """A column of labels: row i holds `levels[codes[i]]`. The levels are sorted: int64, bool or text (object)."""

    codes: NDArray[Any]
    levels: NDArray[Any]

    def labels(self) -> NDArray[Any]:
        """The label of every row, `[n]`."""
        return self.levels[self.codes]


Column = NDArray[Any] | Categories


@dataclass(frozen=True)
class Values:
    """Rows of one role.

    Args:
        form: "lone" (one column), "vector" (one array `[n, d]`) or "named" (several columns of mixed kinds).
        names: the columns' names; a vector has the name of its column, or those of the d columns it was made of.
        columns: floats `[n]` or `Categories` each; for a vector one float array `[n, d]`.
    """

    form: Form
    names: tuple[str, ...]
    columns: tuple[Column, ...]

    def __len__(self) -> int:
        return len(_array(self.columns[0]))

    @property
    def is_discrete(self) -> bool:
        """Whether every column holds labels."""
        return all(isinstance(column, Categories) for column in self.columns)

    def take(self, index: Index) -> "Values":
        """The rows of `index`; a slice copies nothing."""
        return self._with([rows_of(_array(column), index) for column in self.columns])

    def replaced(self, at: NDArray[np.int64], rows: "Values") -> "Values":
        """A copy with other rows, of the same code space, in some places."""
        arrays = [_array(column).copy() for column in self.columns]
        for array, other in zip(arrays, rows.columns):
            array[at] = _array(other)
        return self._with(arrays)

    def freeze(self) -> None:
        """Make the arrays read-only: feature maps and policies see them."""
        for column in self.columns:
            _array(column).flags.writeable = False

    def _with(self, arrays: Iterable[NDArray[Any]]) -> "Values":
        """The same columns with other numbers, or other codes of the same labels."""
        columns = (
            Categories(array, column.levels) if isinstance(column, Categories) else array
            for column, array in zip(self.columns, arrays)
        )
        return Values(self.form, self.names, tuple(columns))

    def plain(self) -> Any:
        """The rows as policies and feature maps see them: an array `[n]` or `[n, d]`, or a dict of arrays `[n]` by name.

        Arrays lie in memory row by row, however the log holds them, since sums that others write round by that.
        """
        arrays = [
            column.labels() if isinstance(column, Categories) else np.ascontiguousarray(column)
            for column in self.columns
        ]
        return dict(zip(self.names, arrays)) if self.form == "named" else arrays[0]

    def equals(self, other: "Values") -> NDArray[np.bool_]:
        """Which rows are equal, `[n]`; both are in one code space."""
        equal = np.ones(len(self), dtype=np.bool_)
        for own, others in zip(self.columns, other.columns):
            if _are_one(own, others):
                continue
            same = _array(own) == _array(others)
            equal &= same.all(axis=1) if same.ndim == 2 else same
        return equal

    def is_in_memory_of(self, other: "Values") -> bool:
        """Whether both are the same rows of the same arrays: next observations of a log without gaps are its observations."""
        return all(_are_one(own, others) for own, others in zip(self.columns, other.columns))

    def joint(self) -> Categories:
        """All columns as one: a lone column as it is, several as sorted tuples of labels (those that occur)."""
        columns = [column for column in self.columns if isinstance(column, Categories)]
        if len(columns) != len(self.columns):
            raise TypeError("joint() needs labels in every column.")
        if len(columns) == 1:
            return columns[0]
        codes = np.zeros(len(self), dtype=np.int64)
        used: list[NDArray[np.int64]] = []  # per column, the code of every combination so far
        for column in columns:
            found, codes = np.unique(codes * len(column.levels) + column.codes, return_inverse=True)
            before, own = np.divmod(found, len(column.levels))
            used = [part[before] for part in used] + [own]
        levels = np.empty(len(used[0]), dtype=object)
        levels[:] = list(zip(*(column.levels[part].tolist() for column, part in zip(columns, used))))
        return Categories(codes.astype(np.int64, copy=False), levels)


def rows_of(array: NDArray[Any], index: Index) -> NDArray[Any]:
    """Rows of an array `[n]` or `[n, d]`, which stay columns in memory where they were: a slice copies nothing."""
    if isinstance(index, slice) or index.dtype == np.bool_:
        return array[index]
    if array.ndim == 2 and array.strides[0] < array.strides[1]:
        return array.T.take(index, axis=1).T
    return array.take(index, axis=0)  # several times as fast as `array[index]`


def _are_one(column: Column, other: Column) -> bool:
    return bool(_array(column).__array_interface__ == _array(other).__array_interface__)


def _array(column: Column) -> NDArray[Any]:
    return column.codes if isinstance(column, Categories) else column
