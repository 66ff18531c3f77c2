"""How well some columns of a log predict others on rows that were held out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data.values import Categories, Column, Values
from cesaro.engines.local import ONE_THREAD

# Rows that are looked at, in contiguous stretches, and how many of these there are: errors are compared stretch by stretch,
# because neighbouring rows are alike.
ROWS, STRETCHES = 8_000, 40
# Fewer rows than this tell nothing.
ENOUGH = 200
# Inputs of a regression; more state columns than `COLUMNS` enter as they are, without squares and steps.
INPUTS, COLUMNS, LEVELS, STEPS = 160, 20, 30, 8
# Whole numbers of more levels than this may be quantities.
FEW = 5
# Of the mean square of the inputs, times the rows.
RIDGE = 1e-3


class Stretches(NamedTuple):
    """Rows of a log that are looked at.

    Attributes:
        rows: their numbers, in order, `[n]`.
        number: of the stretch that each lies in, `[n]`.
    """

    rows: NDArray[np.int64]
    number: NDArray[np.int64]


def stretches(num_rows: int, random_state: int, most: int = ROWS) -> Stretches:
    """At most `most` rows in contiguous stretches, spread over the log; all rows where these are few."""
    if num_rows <= most:
        rows = np.arange(num_rows)
        return Stretches(rows, rows * STRETCHES // max(1, num_rows))
    length = most // STRETCHES
    spare = num_rows - length * STRETCHES
    starts = np.sort(np.random.default_rng([random_state, 17]).integers(0, spare + 1, STRETCHES))
    starts = starts + length * np.arange(STRETCHES)
    return Stretches((starts[:, None] + np.arange(length)).ravel(), np.repeat(np.arange(STRETCHES), length))


class Errors(NamedTuple):
    """The errors of a prediction, as a part of the variance of its targets.

    Attributes:
        left: the mean over the rows of each stretch, for each column that was predicted, `[stretches, columns]`.
        rows: of each stretch, `[stretches]`.
    """

    left: Array
    rows: NDArray[np.int64]

    @property
    def by_stretch(self) -> Array:
        return np.asarray(self.left.mean(axis=1))

    @property
    def by_column(self) -> Array:
        return np.asarray(self.rows @ self.left / self.rows.sum())

    def of(self, columns: NDArray[np.bool_]) -> "Errors":
        """The errors of some of the columns."""
        return Errors(self.left[:, columns], self.rows)

    @property
    def explained(self) -> float:
        """The held-out R², of all columns alike."""
        return 1.0 - float(self.by_column.mean())


@dataclass(frozen=True)
class Gain:
    """How much better one prediction is than another on held-out rows.

    Attributes:
        before, after: the held-out R² of both.
        clear: the gain over its standard error, from the differences between stretches.
    """

    before: float
    after: float
    clear: float

    @property
    def value(self) -> float:
        return self.after - self.before

    @staticmethod
    def of(before: Errors, after: Errors, *, paired: bool) -> "Gain":
        """`paired`: both predict the same rows."""
        if paired:
            gains = before.by_stretch - after.by_stretch
            mean, error = gains.mean(), gains.std(ddof=1) / np.sqrt(len(gains))
        else:
            mean = before.by_stretch.mean() - after.by_stretch.mean()
            error = np.sqrt(sum(e.by_stretch.var(ddof=1) / len(e.by_stretch) for e in (before, after)))
        clear = float(mean / error) if error > 0 else float(np.sign(mean)) * np.inf if mean else 0.0
        return Gain(before.explained, after.explained, clear)


def held_out(inputs: Array, targets: Sequence[Array], number: NDArray[np.int64]) -> Errors:
    """A ridge regression on every other stretch predicts the stretches between them, and the other way round.

    Args:
        inputs: `[n, k]`.
        targets: of each column `[n, j]`: one number, or a flag for every level of a label.
        number: the stretch of every row, `[n]`.
    """
    together = np.concatenate(targets, axis=1)
    left = (together - predicted(inputs, together, number)) ** 2
    columns, start = [], 0
    for target in targets:
        variance = float(((target - target.mean(axis=0)) ** 2).sum(axis=1).mean())
        part = left[:, start : start + target.shape[1]].sum(axis=1)
        columns.append(part / variance if variance > 0 else np.zeros(len(part)))
        start += target.shape[1]
    every = np.stack(columns, axis=1)
    sizes = np.bincount(number)
    sums = np.stack([np.bincount(number, weights=column) for column in every.T], axis=1)
    used = sizes > 0
    return Errors(sums[used] / sizes[used][:, None], sizes[used])


def predicted(inputs: Array, targets: Array, number: NDArray[np.int64]) -> Array:
    """The predictions of `held_out`, `[n, j]`: in every stretch by the stretches of the other kind."""
    found = np.empty(targets.shape)
    for fold in (0, 1):
        out = number % 2 == fold
        mean, center = inputs[~out].mean(axis=0), targets[~out].mean(axis=0)
        with ONE_THREAD:  # so small that more would wait for each other
            x = inputs[~out] - mean
            gram = x.T @ x
            ridge = RIDGE * float(np.trace(gram)) / max(1, gram.shape[0]) + 1e-9
            weights = np.linalg.solve(gram + ridge * np.eye(len(gram)), x.T @ (targets[~out] - center))
            found[out] = center + (inputs[out] - mean) @ weights
    return found


def as_targets(values: Values) -> list[Array]:
    """Per column what is to be predicted: numbers at unit size, flags of levels. Columns that never change are left out."""
    found = []
    for column in _columns(values):
        target = _flags(column) if isinstance(column, Categories) else _scaled(column)[:, None]
        if target.shape[1] and float(target.std(axis=0).max()) > 0:
            found.append(target)
    return found


def as_inputs(states: Sequence[Values], actions: Values) -> Array:
    """Numbers, their squares and steps, flags of levels; the same again for each action where that is not too much."""
    columns = [column for values in states for column in _columns(values)]
    rich = len(columns) <= COLUMNS
    plain = [_flags(column) if isinstance(column, Categories) else _scaled(column)[:, None] for column in columns]
    more = [_steps(column) for column in columns if rich and not isinstance(column, Categories)]
    chosen = _columns(actions)
    done = [_flags(column) if isinstance(column, Categories) else _curve(column) for column in chosen]
    main = np.concatenate([*plain, *done, *more], axis=1)
    state, action = np.concatenate(plain, axis=1), np.concatenate(done, axis=1)
    if main.shape[1] + state.shape[1] * action.shape[1] <= INPUTS:
        both = (state[:, :, None] * action[:, None, :]).reshape(len(state), -1)
        return np.concatenate([main, both], axis=1)
    return main


def as_numbers(values: Values) -> Values:
    """Labels that are more than a few whole numbers, as numbers."""
    columns = [
        column.labels().astype(np.float64) if isinstance(column, Categories) and are_many_numbers(column) else column
        for column in values.columns
    ]
    return Values(values.form, values.names, tuple(columns))


def are_many_numbers(column: Categories) -> bool:
    """Whether labels are whole numbers, and more than a few."""
    return column.levels.dtype.kind in "iu" and len(np.unique(column.codes)) > FEW


def _columns(values: Values) -> list[Column]:
    """Every column by itself; a vector has one for each entry."""
    found: list[Column] = []
    for column in values.columns:
        if isinstance(column, Categories) or column.ndim == 1:
            found.append(column)
        else:
            found += list(column.T)
    return found


def _scaled(column: NDArray[np.floating]) -> Array:
    """The column at unit size, with its outermost entries cut."""
    numbers = np.asarray(column, dtype=np.float64)
    low, high = np.quantile(numbers, (0.002, 0.998))
    numbers = np.clip(numbers, low, high) if high > low else numbers
    spread = float(numbers.std())
    return (numbers - numbers.mean()) / spread if spread > 0 else np.zeros(len(numbers))


def _curve(column: NDArray[np.floating]) -> Array:
    scaled = _scaled(column)
    return np.stack([scaled, scaled**2], axis=1)


def _steps(column: NDArray[np.floating]) -> Array:
    """The square, and which quantiles a number is above."""
    scaled = _scaled(column)
    edges = np.unique(np.quantile(scaled, np.arange(1, STEPS) / STEPS))
    return np.concatenate([(scaled**2)[:, None], (scaled[:, None] > edges).astype(np.float64)], axis=1)


def _flags(column: Categories) -> Array:
    """Zeros and ones for each of the most frequent levels, `[n, levels]`."""
    counts = np.bincount(column.codes, minlength=len(column.levels))
    top = np.argsort(-counts, kind="stable")[:LEVELS]
    top = top[counts[top] > 0]
    return (column.codes[:, None] == top).astype(np.float64)


def grouped(column: Column) -> Array:
    """A column as flags of its levels, or of `STEPS` groups of about as many rows where these are numbers."""
    if isinstance(column, Categories):
        return _flags(column)
    numbers = np.asarray(column, dtype=np.float64)
    levels = np.unique(numbers)
    if len(levels) > LEVELS:
        edges = np.unique(np.quantile(numbers, np.arange(1, STEPS) / STEPS))
        return _flags(Categories(np.searchsorted(edges, numbers, side="right"), np.arange(len(edges) + 1)))
    return _flags(Categories(np.searchsorted(levels, numbers), levels))


def groups(values: Values) -> list[Array]:
    """Every column as `grouped` gives it."""
    return [grouped(column) for column in _columns(values)]
