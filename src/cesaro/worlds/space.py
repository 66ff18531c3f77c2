"""Columns of a log as a world sees them: taken apart into numbers and codes, put together again, and as inputs of networks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data.clocks import Clock
from cesaro.data.values import Categories, Column, Form, Values

Codes = NDArray[np.int64]

# A bound is one of the system, and not merely the largest number seen, if so many rows lie on it.
ON_THE_BOUND = 0.003
# How far beyond what was logged a rollout may go, in widths of the logged range.
MARGIN = 0.5


class SplitState(NamedTuple):
    """Observations taken apart: numbers `[n, k]` and codes of labels `[n, c]`.

    Where steps follow each other, numbers lie in memory column by column: loops over rows of few numbers are short ones.
    """

    numbers: Array
    codes: Codes

    def take(self, index: NDArray[np.int64]) -> "SplitState":
        return SplitState(self.numbers[index], self.codes[index])


@dataclass(frozen=True)
class Columns:
    """The columns of one role.

    Attributes:
        kinds: per column its levels (labels), or how many numbers it has.
    """

    form: Form
    names: tuple[str, ...]
    kinds: tuple[NDArray[np.generic] | int, ...]

    @staticmethod
    def of(values: Values) -> "Columns":
        kinds = [
            column.levels if isinstance(column, Categories) else 1 if column.ndim == 1 else int(column.shape[1])
            for column in values.columns
        ]
        return Columns(values.form, values.names, tuple(kinds))

    @property
    def levels(self) -> list[NDArray[np.generic]]:
        """The levels of the columns of labels."""
        return [kind for kind in self.kinds if not isinstance(kind, int)]

    @property
    def number_names(self) -> list[str]:
        """A name for each number."""
        names: list[str] = []
        for name, kind in zip(self.names, self.kinds):
            if isinstance(kind, int):
                each = [f"{name}[{j}]" for j in range(kind)] if kind > 1 else [name]
                names += list(self.names) if len(self.names) == kind > 1 else each
        return names

    def split(self, values: Values) -> SplitState:
        """Numbers and codes; another log, such as a simulated one, may have some of the levels only."""
        count = len(values)
        numbers = [column.reshape(count, -1) for column in values.columns if not isinstance(column, Categories)]
        labels = [column for column in values.columns if isinstance(column, Categories)]
        codes = [
            np.searchsorted(levels, column.levels)[column.codes][:, None] for column, levels in zip(labels, self.levels)
        ]
        return SplitState(
            np.concatenate([np.zeros((count, 0)), *numbers], axis=1, dtype=np.float64),
            np.concatenate([np.zeros((count, 0), np.int64), *codes], axis=1, dtype=np.int64),
        )

    def join(self, state: SplitState) -> Values:
        """Numbers and codes as values in the form of the log."""
        columns: list[Column] = []
        number = code = 0
        for kind in self.kinds:
            if not isinstance(kind, int):
                columns.append(Categories(state.codes[:, code], kind))
                code += 1
                continue
            part = state.numbers[:, number : number + kind]
            columns.append(part if self.form == "vector" else part[:, 0])
            number += kind
        return Values(self.form, self.names, tuple(columns))


@dataclass(frozen=True)
class Space:
    """The states of a log.

    Attributes:
        low, high: of the logged numbers, `[k]`.
        is_low_bound, is_high_bound: whether many rows lie on them, so that they are bounds of the system, `[k]`.
        is_whole: numbers that are always integers, `[k]`.
        is_constant: numbers that never change, `[k]`; they are no inputs.
        advances: numbers that advance by themselves, by place.
        label_advances: columns of labels that do, by place; levels are codes.
        mean, scale: that inputs are standardized with, `[k]`.
    """

    columns: Columns
    low: Array
    high: Array
    is_low_bound: NDArray[np.bool_]
    is_high_bound: NDArray[np.bool_]
    is_whole: NDArray[np.bool_]
    is_constant: NDArray[np.bool_]
    advances: dict[int, Clock]
    label_advances: dict[int, Clock]
    mean: Array
    scale: Array

    @staticmethod
    def of(columns: Columns, now: SplitState, then: SplitState) -> "Space":
        both = np.concatenate([now.numbers, then.numbers])
        low, high = both.min(axis=0), both.max(axis=0)
        scale = both.std(axis=0)
        is_constant = low == high
        return Space(
            columns,
            low,
            high,
            (both == low).mean(axis=0) > ON_THE_BOUND,
            (both == high).mean(axis=0) > ON_THE_BOUND,
            (both == np.round(both)).all(axis=0),
            is_constant,
            _advances(now.numbers, then.numbers),
            _advances(now.codes.astype(np.float64), then.codes.astype(np.float64)),
            both.mean(axis=0),
            np.where(is_constant, 1.0, scale),
        )

    @cached_property
    def free(self) -> list[int]:
        """Numbers that have to be predicted."""
        return [j for j in range(len(self.low)) if not self.is_constant[j] and j not in self.advances]

    @cached_property
    def free_labels(self) -> list[int]:
        """Columns of labels that have to be predicted."""
        return [j for j, levels in enumerate(self.columns.levels) if j not in self.label_advances and len(levels) > 1]

    def inputs(self, state: SplitState) -> list[Array]:
        """Standardized numbers, waves of cycles, and labels one-hot: parts of `[n, …]`.

        Beyond the log its edge is taken: networks say nothing of what lies further out.
        """
        parts = [((np.clip(state.numbers, self.low, self.high) - self.mean) / self.scale)[:, ~self.is_constant]]
        parts += [one.waves(state.numbers[:, j], 2) for j, one in self.advances.items() if one.is_cycle]
        levels = self.columns.levels
        parts += [one_hot(state.codes[:, j], len(levels[j])) for j in range(len(levels)) if len(levels[j]) > 1]
        return parts

    def bounded(self, numbers: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Whole numbers where they are, within the bounds of the system and not far beyond the log; and which rows were far."""
        rounded = np.where(self.is_whole, np.round(numbers), numbers) if self.is_whole.any() else numbers
        cut = np.clip(rounded, *self._limits)
        is_far = cut != rounded
        if is_far.any():
            is_far &= ~np.where(rounded < self.low, self.is_low_bound, self.is_high_bound)
        return np.where(np.isfinite(cut), cut, self.mean), is_far.any(axis=1)

    @cached_property
    def _limits(self) -> tuple[Array, Array]:
        """How far numbers may go, `[k]` each: to the bounds of the system, or somewhat beyond the log."""
        margin = MARGIN * (self.high - self.low)
        low = np.where(self.is_low_bound, self.low, self.low - margin)
        return low, np.where(self.is_high_bound, self.high, self.high + margin)


def _advances(now: Array, then: Array) -> dict[int, Clock]:
    found = {j: Clock.of(now[:, j], then[:, j]) for j in range(now.shape[1])}
    return {j: one for j, one in found.items() if one is not None}


def one_hot(codes: Codes, count: int) -> Array:
    """`[n, count]`."""
    return np.asarray(codes[:, None] == np.arange(count), dtype=np.float64)


def joined(parts: Sequence[Array]) -> NDArray[np.float32]:
    """Parts of `[n, …]` side by side, in single precision, row by row in memory."""
    return np.ascontiguousarray(np.concatenate(parts, axis=1, dtype=np.float32))
