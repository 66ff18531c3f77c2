"""Rows in memory, and the transitions among them as blocks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cesaro.data.log import Array, Block
from cesaro.data.values import Categories, Column, Index, Values

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Parts:
    """Consecutive rows of a log, ordered; `kept` are those that are transitions.

    The next observation of row i is row i of `next_values`, or the observation of row i + 1 where that is None. That of the
    rows `restarts` is the observation of row i + 1 in any case. After the last row comes the first. Some rows of a larger
    log have the row below them as one row more, which is not kept.

    Attributes:
        follows: per kept row, whether the transition goes on from the one before.
    """

    observations: Values
    next_values: Values | None
    actions: Values
    rewards: Array
    weights: Array | None
    trajectory: NDArray[np.int64] | NDArray[np.int32] | None
    available: NDArray[np.bool_] | None
    restarts: Rows
    kept: Rows
    follows: NDArray[np.bool_]

    def next_observations(self, rows: Index) -> Values:
        """Of these rows; a contiguous stretch without a restart copies nothing."""
        count = len(self.observations)
        first, last = (rows.start, rows.stop - 1) if isinstance(rows, slice) else (int(rows[0]), int(rows[-1]))
        low, high = np.searchsorted(self.restarts, (first, last + 1))
        restarts = self.restarts[low:high]
        if self.next_values is not None:
            values = self.next_values.take(rows)
        elif not isinstance(rows, slice):
            values = self.observations.take(np.minimum(rows + 1, count - 1))
        elif rows.stop < count:
            values = self.observations.take(slice(first + 1, last + 2))
        else:
            values = self.observations.take(np.minimum(np.arange(first + 1, last + 2), last))
        if isinstance(rows, slice):
            at = restarts - first
        elif len(restarts):
            at = np.searchsorted(rows, restarts)
            at, restarts = at[rows[at] == restarts], restarts[rows[at] == restarts]  # others may lie between the rows
        if not len(restarts):
            return values
        return _replaced(values, at, self.observations.take((restarts + 1) % count))

    def block(self, key: tuple[int, int], index: Rows, before: int = 0) -> Block:
        """These transitions, counted over the kept rows, in order; `before`: transitions of the log before those."""
        rows = narrowed(self.kept[index])
        return Block(
            key,
            before + int(index[0]),
            self.observations.take(rows),
            self.actions.take(rows),
            self.rewards[rows],
            self.next_observations(rows),
            None if self.weights is None else self.weights[rows],
            self.codes(rows),
            self.follows[narrowed(index)],
            None if self.available is None else self.available[rows],
        )

    def codes(self, rows: Index) -> NDArray[np.int64] | None:
        """Trajectories of these rows."""
        return None if self.trajectory is None else self.trajectory[rows].astype(np.int64)


def joined(blocks: Sequence[Block]) -> Block:
    """Blocks as one, with the key and the start of the first."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    return Block(
        first.key,
        first.start,
        _joined([block.observations for block in blocks]),
        _joined([block.actions for block in blocks]),
        np.concatenate([block.rewards for block in blocks]),
        _joined([block.next_observations for block in blocks]),
        None
        if first.weights is None
        else np.concatenate([block.weights for block in blocks if block.weights is not None]),
        None
        if first.trajectory is None
        else np.concatenate([block.trajectory for block in blocks if block.trajectory is not None]),
        np.concatenate([block.follows for block in blocks]),
        None
        if first.available is None
        else np.concatenate([block.available for block in blocks if block.available is not None]),
    )


def _joined(parts: Sequence[Values]) -> Values:
    """Rows of one code space, one part after the other."""
    columns: list[Column] = []
    for place, first in enumerate(parts[0].columns):
        every = [part.columns[place] for part in parts]
        if isinstance(first, Categories):
            codes = np.concatenate([column.codes for column in every if isinstance(column, Categories)])
            columns.append(Categories(codes, first.levels))
        else:
            columns.append(np.concatenate([column for column in every if not isinstance(column, Categories)]))
    return Values(parts[0].form, parts[0].names, tuple(columns))


def narrowed(rows: Rows) -> Index:
    """A slice where the rows are contiguous."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first == len(rows) - 1 else rows


def _replaced(values: Values, at: Rows, rows: Values) -> Values:
    """A copy of `values` with other rows in some places."""
    columns: list[Column] = []
    for column, other in zip(values.columns, rows.columns):
        if isinstance(column, Categories) and isinstance(other, Categories):
            codes = column.codes.copy()
            codes[at] = other.codes
            columns.append(Categories(codes, column.levels))
        elif not isinstance(column, Categories):
            array = column.copy()
            array[at] = other
            columns.append(array)
    return Values(values.form, values.names, tuple(columns))
