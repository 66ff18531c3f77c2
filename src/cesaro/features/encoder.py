"""From a log's columns to a matrix: numbers standardized, labels one-hot, and a circle for what comes round as hours do."""

from collections.abc import Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import SMALLEST, first_index
from cesaro.data.clocks import Clock
from cesaro.data.values import Categories, Values
from cesaro.errors import InputError
from cesaro.text import Sentence, Wording, option

Matrix = NDArray[np.floating]

# More dense features than this would need matrices that no one waits for.
MAX_DENSE = 4_096
# Standard deviations from the mean: farther numbers overflow what maps compute of them in single precision.
FAR = 1e30
# A column that comes round after fewer values needs no circle.
LEAST_LEVELS = 4


class Encoder:
    """Fitted on a sample: numbers get mean zero and unit variance, a label becomes a unit vector, an unknown one zeros.

    Where the values that follow are known, too, a column of numbers that comes round by itself, such as the hour of the day,
    becomes a sine, in its place, and a cosine, behind all columns, so that its last value lies next to its first: what is about
    to happen at 23 o'clock is what happens at 0 o'clock, and smooth functions of the hour cannot say so. The number itself beside
    them would add what its circle nearly determines, and equations that are nearly singular.

    Args:
        sample: rows.
        following: the same columns one step later.

    Attributes:
        size: columns of the matrix.
        names: what each is, such as `load`, `region=north` or `sine of hour`.
    """

    # Those that were stored before there were circles have none.
    _clocks: Sequence[tuple[int, int, Clock]] = ()

    def __init__(self, sample: Values, following: Values | None = None) -> None:
        self._parts: list[tuple[Matrix, Matrix] | NDArray[np.intp]] = []
        self.names: tuple[str, ...] = ()
        widths: list[tuple[int, str]] = []
        for name, column in zip(_column_names(sample), sample.columns):
            if isinstance(column, Categories):
                seen = np.zeros(len(column.levels), dtype=bool)
                seen[column.codes] = True
                position = np.where(seen, np.cumsum(seen) - 1, -1)
                self._parts.append(position)
                self.names += tuple(f"{name}={column.levels[i]}" for i in np.flatnonzero(seen)[: MAX_DENSE + 1])
                widths.append((int(seen.sum()), name))
            else:
                table = _two_dimensional(column)
                _reject_tiny(name, table)
                mean = table.mean(axis=0, dtype=np.float64)
                scale = table.std(axis=0, dtype=np.float64)
                self._parts.append((mean, np.where(scale > 1e-12 * np.abs(mean), scale, 1.0)))
                self.names += _number_names(sample)[len(widths)]
                widths.append((table.shape[1], name))
        if following is not None:
            self._clocks = clocks(sample, following)
        starts = np.cumsum([0, *(width for width, _ in widths)]).tolist()
        for place, number, _ in self._clocks:
            at, name = starts[place] + number, _number_names(sample)[place][number]
            self.names = (*self.names[:at], f"sine of {name}", *self.names[at + 1 :], f"cosine of {name}")
        self.size = starts[-1] + len(self._clocks)
        if self.size > MAX_DENSE:
            width, name = max(widths)
            raise InputError(
                Sentence(
                    "The columns give {size} features, and at most {most} are possible; column '{column}' alone gives {width}: "
                    "leave it out, group its levels, or make it a number ({kind}).",
                    size=f"{self.size:,}",
                    most=f"{MAX_DENSE:,}",
                    column=name,
                    width=f"{width:,}",
                    kind=Wording(f"kinds={{'{name}': 'number'}}", option("kind", f"{name}=number")),
                )
            )

    def __call__(self, values: Values) -> NDArray[np.float32]:
        """`[n, size]`."""
        return np.ascontiguousarray(self.columns(values).T)

    def columns(self, values: Values, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """`[size, n]`, which is faster: rows of few numbers would be short loops; `out`: where they are written."""
        result = np.empty((self.size, len(values)), dtype=np.float32) if out is None else out
        first, starts = 0, []
        for part, column in zip(self._parts, values.columns):
            starts.append(first)
            if isinstance(column, Categories):
                assert isinstance(part, np.ndarray)
                position = part[column.codes]
                known, width = position >= 0, int(part.max()) + 1
                result[first : first + width] = 0.0
                result[first + position[known], np.flatnonzero(known)] = 1.0
                first += width
            else:
                table, here = _two_dimensional(column).T, result[first : first + len(part[0])]
                mean, scale = (moment.astype(table.dtype)[:, None] for moment in part)  # single precision stays single
                own = here if table.dtype == here.dtype else np.empty(table.shape, table.dtype)
                with np.errstate(over="ignore", invalid="ignore"):  # what overflows is too far
                    np.subtract(table, mean, out=own)
                    np.divide(own, scale, out=here, casting="same_kind")
                first += len(mean)
        for place, number, clock in self._clocks:
            column = values.columns[place]
            assert not isinstance(column, Categories)
            waves = clock.waves(_two_dimensional(column)[:, number]).T * np.sqrt(2)
            result[starts[place] + number], result[first] = waves
            first += 1
        if result.size and not (result.min() >= -FAR and result.max() <= FAR):
            self._reject_far(result.T, values)
        return result

    def _reject_far(self, result: NDArray[np.float32], values: Values) -> NoReturn:
        row, column = first_index(~(np.abs(result) <= FAR))
        name = self.names[column]
        raise InputError(
            f"Column '{name}' must stay within {FAR:g} standard deviations of its mean, both of a sample of the log's rows, so "
            f"that features do not overflow. Got a number farther away, in row {row} of a piece of {len(values):,}; "
            "correct it, or leave that row out."
        )


def clocks(sample: Values, following: Values) -> list[tuple[int, int, Clock]]:
    """Numbers that come round by themselves: the place of their column, their place in it, and how they advance."""
    found = []
    for place, (now, then) in enumerate(zip(sample.columns, following.columns)):
        if isinstance(now, Categories) or isinstance(then, Categories):
            continue
        for number, pair in enumerate(zip(_two_dimensional(now).T, _two_dimensional(then).T)):
            clock = Clock.of(*pair)
            if clock is not None and len(clock.levels) >= LEAST_LEVELS and clock.is_cycle:
                found.append((place, number, clock))
    return found


def _reject_tiny(name: str, table: Matrix) -> None:
    """Squares of such numbers are lost, so that the column would seem to be constant."""
    largest = np.abs(table).max(axis=0)
    tiny = (largest < SMALLEST) & (table.min(axis=0) < table.max(axis=0))
    if tiny.any():
        raise InputError(
            f"Column '{name}' must reach {SMALLEST:g} in size or hold one number throughout, so that its spread can be computed. "
            f"Got at most {largest[tiny][0]:g}; multiply the column, or leave it out."
        )


def _two_dimensional(column: Matrix) -> Matrix:
    return column[:, None] if column.ndim == 1 else column


def _number_names(values: Values) -> list[tuple[str, ...]]:
    """Names for the numbers of every column; of a column of labels there are none."""
    names = []
    for name, column in zip(_column_names(values), values.columns):
        width = 0 if isinstance(column, Categories) else _two_dimensional(column).shape[1]
        names.append((name,) if width == 1 else tuple(f"{name}[{i}]" for i in range(width)))
    return names


def _column_names(values: Values) -> Sequence[str]:
    return values.names if len(values.names) == len(values.columns) else [" ".join(values.names[:1])]
