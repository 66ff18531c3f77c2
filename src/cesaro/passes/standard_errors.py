"""Standard errors from one series: the influence of every row on the estimate.

A series enters through its sums over trajectories and its first cosine transforms (`Projection`), which are linear in it: blocks
of rows add up, and the difference of two series has the difference of their projections.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f as fisher
from scipy.stats import t as student

from cesaro import checks
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.passes.repeats import mix
from cesaro.text import Sentence, argument

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


def project(spans: Spans, start: int, series: Array, squares: Array | None = None) -> Projection:
    """Project rows `start`, `start + 1`, … of a series on several spans of its rows; `squares`: the series times itself."""
    stop = start + len(series)
    # NumPy's search would let go of the interpreter, for which other threads wait.
    first, last = bisect_right(spans.stops, start), bisect_left(spans.starts, stop)
    low = np.maximum(spans.starts[first:last] - start, 0)
    high = np.minimum(spans.stops[first:last] - start, len(series))
    if first >= last:
        return Projection(spans, first, np.zeros(0), np.zeros(0))
    bounds = np.stack([low, high], axis=1).ravel()  # sums between pieces are computed too, and dropped
    if bounds[-1] == len(series):
        bounds = bounds[:-1]
    squares = series * series if squares is None else squares
    sums, squares = (np.add.reduceat(part, bounds)[::2] for part in (series, squares))
    cosines = {}
    for j in range(first, last) if last - first < len(spans.cosines) else spans.cosines:
        if first <= j < last and j in spans.cosines:
            piece = series[low[j - first] : high[j - first]]
            at = start + int(low[j - first]) - int(spans.starts[j])
            cosines[j] = _cosines(piece, at, int(spans.lengths[j]), spans.cosines[j])
    return Projection(spans, first, sums, squares, cosines, np.zeros(0) if spans.in_order else _signs(start, series))


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


Rule: TypeAlias = Literal["independent", "clustered", "long-run"]
RULES: tuple[Rule, ...] = ("independent", "clustered", "long-run")
# As many trajectories of equal length are enough to count each as one observation.
ENOUGH_CLUSTERS = 30
# Variance of a median over that of a mean, of many normal numbers.
MEDIAN = np.pi / 2
# With fewer, nothing but the trajectories themselves can tell how unlike they are.
FEW_CLUSTERS = 5


@dataclass(frozen=True)
class Estimate:
    """A number with its uncertainty: Student's t with `degrees_of_freedom` times `standard_error` around `value`.

    Attributes:
        below, above: how much further the interval reaches, because other estimates of the same number lie there beyond noise.
    """

    value: float
    standard_error: float
    degrees_of_freedom: float
    below: float = 0.0
    above: float = 0.0

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Two-sided."""
        level = check_confidence(confidence)
        half = float(student.ppf((1 + level) / 2, self.degrees_of_freedom)) * self.standard_error
        return self.value - self.below - half, self.value + self.above + half

    def negative(self) -> "Estimate":
        """The estimate of minus the number."""
        return Estimate(-self.value, self.standard_error, self.degrees_of_freedom, self.above, self.below)

    def p_value(self) -> float:
        """The one-sided p of "not above zero" against "above zero"; of other estimates, by the one nearest to zero."""
        value = max(self.value - self.below, 0.0) if self.value > 0 else min(self.value + self.above, 0.0)
        if self.standard_error == 0:
            return 0.5 if value == 0 else float(value < 0)
        return float(student.sf(value / self.standard_error, self.degrees_of_freedom))


def check_confidence(confidence: float) -> float:
    return checks.number("confidence", confidence, low=0.0, low_open=True, high=1.0)


@dataclass(frozen=True)
class Sampling:
    """How rows depend on each other.

    Attributes:
        rule: the formula.
        lengths: rows of every trajectory, in row order; without ids all rows are one.
        reason: why this rule, in words.
        is_named: whether the log has ids or flags that tell trajectories.
        in_order: whether neighboring rows may follow each other; False where their states tell that they do not.
        is_asked: whether the rule was asked for.
    """

    rule: Rule
    lengths: NDArray[np.int64]
    reason: str
    is_named: bool = True
    in_order: bool = True
    is_asked: bool = False

    @cached_property
    def spans(self) -> Spans:
        """Trajectories as pieces of the series."""
        return Spans.of(self.lengths, self.in_order)

    @cached_property
    def halves(self) -> tuple[Spans, Spans]:
        """Earlier and later trajectories where each counts as one observation, rows where these are independent; else the
        earlier and later part of each trajectory.
        """
        starts, rows = self.spans.starts, int(self.lengths.sum())
        if self.rule == "independent" or not self.is_named:
            borders = np.array([0, rows // 2, rows])
            return Spans.between(borders[:2]), Spans.between(borders[1:])
        if self.rule == "clustered":
            late = starts + self.lengths / 2 >= self.lengths.sum() / 2
            return Spans(starts[~late], self.lengths[~late]), Spans(starts[late], self.lengths[late])
        first = -(-self.lengths // 2)
        long = self.lengths > 1
        return Spans(starts, first), Spans((starts + first)[long], (self.lengths - first)[long])

    def estimate(self, value: float, influence: Array | Projection) -> Estimate:
        """`value` is the mean over rows of something whose deviations are `influence`, `[n]`, with mean zero."""
        projection = influence if isinstance(influence, Projection) else project(self.spans, 0, influence)
        return by_rule(self.rule, value, projection)

    def over_time(self) -> "Sampling":
        """The rule for series that are not independent from row to row where rows follow each other, such as rewards."""
        if self.rule != "independent" or not self.in_order:
            return self
        return replace(self, rule="long-run")


def by_rule(rule: Rule, value: float, projection: Projection) -> Estimate:
    """The standard error by one of the formulas below."""
    return {"independent": independent, "clustered": clustered, "long-run": long_run}[rule](value, projection)


def independent(value: float, projection: Projection) -> Estimate:
    """Rows drawn independently: their variance over `n`; of a difference it is known from random signs."""
    n, squares, signs = projection.rows, float(projection.squares.sum()), projection.signs
    rest = freedom = max(1, n - 1)
    if np.isinf(squares) and len(signs):
        squares, freedom = float(signs @ signs) / len(signs), min(rest, len(signs))
    return Estimate(value, float(np.sqrt(squares / rest / n)), freedom)


def clustered(value: float, projection: Projection) -> Estimate:
    """Independent trajectories `j` of dependent rows: sums per trajectory, factor `J/(J − 1)`, t with `J − 1`."""
    sums = projection.sums
    count = len(sums)
    if count < 2:
        raise InputError(
            Sentence(
                "{clustered} needs at least two trajectories. Got 1; take 'long-run' for a single one.",
                clustered=argument("standard_errors", "clustered"),
            )
        )
    return Estimate(value, float(np.sqrt(count / (count - 1) * (sums @ sums)) / projection.rows), count - 1)


def long_run(value: float, projection: Projection) -> Estimate:
    """Few trajectories of dependent rows: their own noise, and how they differ beyond it.

    Degrees of freedom by Satterthwaite; below five effective trajectories one less than these, whatever the trajectories say
    about themselves: so few tell little about how unlike others are.
    """
    inner, found = within(value, projection), differences(projection)
    if found is None:
        return inner
    freedom, effective = inner.degrees_of_freedom, projection.spans.effective
    noise, between = inner.standard_error**2, found.variance
    if effective < FEW_CLUSTERS:
        freedom = max(1.0, effective - 1)
    elif between > 0:
        freedom = (noise + between) ** 2 / (noise**2 / freedom + between**2 / (effective - 1))
    return Estimate(value, float(np.sqrt(noise + between)), freedom)


def within(value: float, projection: Projection) -> Estimate:
    """The variance of the total is the sum over trajectories of theirs.

    A trajectory's own is the square of its sum. A long one has equal-weighted cosines beside it: the first cosine transforms of
    a stationary series are about independent normals with its long-run variance. Degrees of freedom by Satterthwaite.
    """
    lengths, n = projection.spans.lengths, projection.rows
    count = len(lengths)
    variances, freedoms = projection.sums**2, np.ones(count)
    if count > 1:
        variances *= count / (count - 1)
    else:  # its sum is zero
        freedoms[0] = 0
    for j, piece in projection.cosines.items():
        freedoms[j] += len(piece)
        variances[j] = ((variances[j] if count > 1 else 0.0) + lengths[j] * float(piece @ piece)) / freedoms[j]
    most = float(freedoms.sum()) - (count > 1)
    if most < 1:
        raise InputError(f"A standard error needs more rows. Got {n}; collect a longer log.")
    total = float(variances.sum())
    # σ⁴/u of a variance with u degrees of freedom is estimated by its square over u + 2.
    noise = float(np.sum((variances / total) ** 2 / (freedoms + 2))) if total > 0 else 1 / most
    return Estimate(value, float(np.sqrt(total)) / n, float(np.clip(1 / noise, 1.0, most)))


@dataclass(frozen=True)
class Differences:
    """How trajectories differ, by an analysis of variance of their means against the long-run variance within them.

    Attributes:
        variance: what the differences beyond that noise add to the variance of the mean over all rows.
        p_value: of means as unlike as these if trajectories are alike.
    """

    variance: float
    p_value: float


def differences(projection: Projection) -> Differences | None:
    """Differences of the trajectories' means, as if drawn from a population of them; None where there is nothing to compare."""
    spans, freedom = projection.spans, len(projection.spans) - 1
    cosines = np.concatenate([np.zeros(0), *projection.cosines.values()])
    noise = float(cosines @ cosines) / max(1, len(cosines))
    if freedom < 1 or noise <= 0:
        return None
    lengths, rows = spans.lengths, spans.rows
    unlike = float(lengths @ (projection.sums / lengths - projection.mean) ** 2) / freedom / noise
    # A population's variance s² adds s² Σ n(1 − n/N) to the squares between means.
    spread = noise * freedom * max(0.0, unlike - 1) / (rows * (1 - 1 / spans.effective))
    long = lengths[list(projection.cosines)] / rows  # those of short ones are in the squares of their sums
    return Differences(spread * float(long @ long), float(fisher.sf(unlike, freedom, len(cosines))))


def autocorrelation_time(projection: Projection) -> float:
    """Long-run over plain variance: how many rows are worth one independent row. At least one."""
    centered = projection.centered()
    variance = float(centered.squares.sum()) / centered.rows
    if variance <= 0 or centered.rows < 16:
        return 1.0
    return max(1.0, within(0.0, centered).standard_error ** 2 * centered.rows / variance)
