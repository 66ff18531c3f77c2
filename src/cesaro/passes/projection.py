"""Sums and transforms of a series over contiguous pieces of its rows, block by block."""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.passes.row_hashes import mix

# Cosines of the long-run variance, over all pieces together; and sums under random signs.
COSINES = SIGNS = 24
# Rows whose angles stand in one table.
_TABLE = 4_096


class Spans:
    """Contiguous pieces of a series, such as trajectories.

    Attributes:
        starts, lengths: first row and rows of each piece, in row order; no piece is empty.
        rows: of all pieces.
        effective: as many pieces of equal length say as much about how pieces differ.
        cosines: piece to the number of its cosine transforms, for those that are long enough.
        in_order: whether neighboring rows may follow each other.
    """

    def __init__(self, starts: NDArray[np.int64], lengths: NDArray[np.int64], in_order: bool = True) -> None:
        self.starts, self.lengths, self.in_order = starts, lengths, in_order
        self.stops = starts + lengths
        self.rows = int(lengths.sum())
        self.effective = self.rows**2 / max(1.0, float(lengths.astype(float) @ lengths))
        share = min(COSINES, max(1, self.rows // 8)) * lengths / max(1, self.rows)
        used = np.minimum(np.round(share).astype(np.int64), lengths // 2)
        least = 1 if len(lengths) == 1 else 2
        self.cosines = {int(j): int(used[j]) for j in np.flatnonzero(used >= least)}

    @staticmethod
    def of(lengths: NDArray[np.int64], in_order: bool = True) -> "Spans":
        """Pieces that follow each other without gaps."""
        return Spans(np.cumsum(lengths) - lengths, lengths, in_order)

    @staticmethod
    def between(borders: NDArray[np.int64]) -> "Spans":
        """One piece, or none where it would be empty."""
        lengths = np.diff(borders)
        return Spans(borders[:-1][lengths > 0], lengths[lengths > 0])

    def __len__(self) -> int:
        return len(self.lengths)


@dataclass
class Projection:
    """The sums of a series over several spans of its rows, from piece `first` on.

    Attributes:
        sums: over each piece.
        squares: sums of squares over each piece.
        cosines: piece to its first cosine transforms (orthonormal, the constant left out).
        signs: sums over all rows under random signs, where the order of rows says nothing. Their mean square estimates the sum of
            squares, and unlike that they are linear in the series.
    """

    spans: Spans
    first: int
    sums: Array
    squares: Array
    cosines: dict[int, Array] = field(default_factory=dict)
    signs: Array = field(default_factory=lambda: np.zeros(0))

    @staticmethod
    def zero(spans: Spans) -> "Projection":
        """The projection of no rows yet."""
        return Projection(spans, 0, np.zeros(0), np.zeros(0))

    @property
    def rows(self) -> int:
        """The rows of all spans."""
        return self.spans.rows

    def add(self, other: "Projection") -> None:
        """Count in rows that follow those counted so far."""
        if not len(other.sums):
            return
        if not len(self.sums):
            self.first, self.sums, self.squares = other.first, other.sums.copy(), other.squares.copy()
            self.signs = other.signs
        else:
            missing = other.first + len(other.sums) - (self.first + len(self.sums))
            if missing > 0:
                self.sums, self.squares = (np.append(part, np.zeros(missing)) for part in (self.sums, self.squares))
            here = slice(other.first - self.first, other.first - self.first + len(other.sums))
            self.sums[here] += other.sums
            self.squares[here] += other.squares
            self.signs = self.signs + other.signs
        for j, piece in other.cosines.items():
            self.cosines[j] = self.cosines[j] + piece if j in self.cosines else piece

    def minus(self, other: "Projection") -> "Projection":
        """The projection of the difference of two series over the same rows; squares are not known and left at infinity."""
        cosines = {j: piece - other.cosines[j] for j, piece in self.cosines.items()}
        unknown = np.full(len(self.spans), np.inf)
        return Projection(self.spans, 0, self.sums - other.sums, unknown, cosines, self.signs - other.signs)

    def scaled(self, factor: float) -> "Projection":
        """The projection of the series times a number."""
        cosines = {j: factor * piece for j, piece in self.cosines.items()}
        return Projection(self.spans, 0, factor * self.sums, factor**2 * self.squares, cosines, factor * self.signs)

    @property
    def mean(self) -> float:
        """Over all rows of the spans."""
        return float(self.sums.sum()) / self.rows

    def centered(self, means: Array | float | None = None) -> "Projection":
        """The projection of the series less its mean, or a number per piece; cosines do not see constants, and signs hardly."""
        level = np.float64(self.mean) if means is None else means
        lengths = self.spans.lengths
        with np.errstate(over="ignore", invalid="ignore"):  # a standard error that is not finite is refused later
            squares = np.maximum(self.squares - 2 * level * self.sums + level**2 * lengths, 0.0)
        return Projection(self.spans, 0, self.sums - level * lengths, squares, self.cosines, self.signs)


def project(spans: Spans, start: int, series: Array) -> Projection:
    """Project rows `start`, `start + 1`, … of a series on several spans of its rows."""
    stop = start + len(series)
    first, last = np.searchsorted(spans.stops, start, side="right"), np.searchsorted(spans.starts, stop)
    low = np.maximum(spans.starts[first:last] - start, 0)
    high = np.minimum(spans.stops[first:last] - start, len(series))
    if first >= last:
        return Projection(spans, int(first), np.zeros(0), np.zeros(0))
    bounds = np.stack([low, high], axis=1).ravel()  # sums between pieces are computed too, and dropped
    sums, squares = (np.add.reduceat(np.append(part, 0.0), bounds)[::2] for part in (series, series * series))
    cosines = {}
    for j in range(first, last) if last - first < len(spans.cosines) else spans.cosines:
        if first <= j < last and j in spans.cosines:
            piece = series[low[j - first] : high[j - first]]
            at = start + int(low[j - first]) - int(spans.starts[j])
            cosines[int(j)] = _cosines(piece, at, int(spans.lengths[j]), spans.cosines[j])
    return Projection(
        spans, int(first), sums, squares, cosines, np.zeros(0) if spans.in_order else _signs(start, series)
    )


def _signs(start: int, series: Array) -> Array:
    """Sums of rows `start`, … under signs that depend on nothing but the number of a row."""
    rows = np.arange(start + 1, start + len(series) + 1, dtype=np.uint64)
    words = np.zeros_like(rows)
    mix(words, rows)
    bits = np.unpackbits(words.view(np.uint8).reshape(-1, 8)[:, : SIGNS // 8], axis=1)
    return np.asarray(series.sum() - 2 * (series @ bits))


def _cosines(series: Array, at: int, length: int, count: int) -> Array:
    """The part of rows `at`, … of a piece of `length` rows in its first `count` cosine transforms.

    `cos(π j (2t + 1) / 2n)` for `t = t₀ + s` is the real part of a factor for `t₀` times one for `s`, and those stand in a table.
    """
    table = _angles(min(_TABLE, length), length, count)  # [s, 2 count]
    size = len(table)
    even = len(series) // size * size
    sums = series[:even].reshape(-1, size) @ table
    if even < len(series):
        sums = np.concatenate([sums, (series[even:] @ table[: len(series) - even])[None]])
    order = np.arange(1, count + 1)
    begins = at + size * np.arange(len(sums))
    turn = np.exp(1j * np.pi / (2 * length) * (2 * begins[:, None] + 1) * order)
    found = turn.real * sums[:, :count] - turn.imag * sums[:, count:]
    return np.asarray(np.sqrt(2 / length) * found.sum(axis=0))


@lru_cache(maxsize=64)
def _angles(rows: int, length: int, count: int) -> Array:
    """Cosines and sines of `π j s / n`, `[rows, 2 count]`."""
    angles = np.pi / length * np.arange(rows)[:, None] * np.arange(1, count + 1)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
