"""Standard errors from one series: the influence of every row on the estimate."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct
from scipy.stats import t as student

from cesaro import checks
from cesaro.checks import Array
from cesaro.errors import InputError

Rule: TypeAlias = Literal["independent", "clustered", "long-run"]
RULES: tuple[Rule, ...] = ("independent", "clustered", "long-run")
# As many trajectories are enough to count each as one observation.
ENOUGH_CLUSTERS = 30
# Cosines of the long-run variance, over all trajectories together.
COSINES = 24


@dataclass(frozen=True)
class Estimate:
    """A number with its uncertainty: Student's t with `degrees_of_freedom` times `standard_error` around `value`."""

    value: float
    standard_error: float
    degrees_of_freedom: float

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Two-sided."""
        level = check_confidence(confidence)
        half = float(student.ppf((1 + level) / 2, self.degrees_of_freedom)) * self.standard_error
        return self.value - half, self.value + half

    def negative(self) -> "Estimate":
        """Of minus the number."""
        return Estimate(-self.value, self.standard_error, self.degrees_of_freedom)

    def p_value(self) -> float:
        """Of "not above zero" against "above zero", one-sided."""
        if self.standard_error == 0:
            return 0.5 if self.value == 0 else float(self.value < 0)
        return float(student.sf(self.value / self.standard_error, self.degrees_of_freedom))


def check_confidence(confidence: float) -> float:
    return checks.number("confidence", confidence, low=0.0, low_open=True, high=1.0)


@dataclass(frozen=True)
class Sampling:
    """How rows depend on each other.

    Attributes:
        rule: the formula.
        groups: the trajectory of each row, `[n]`, as numbers from zero, contiguous; None: all rows are one ordered trajectory.
        reason: why this rule, in words.
    """

    rule: Rule
    groups: NDArray[np.int64] | None
    reason: str

    def estimate(self, value: float, influence: Array) -> Estimate:
        """`value` is the mean over rows of something whose deviations are `influence`, `[n]`, with mean zero."""
        if self.rule == "independent":
            return independent(value, influence)
        groups = np.zeros(len(influence), dtype=np.int64) if self.groups is None else self.groups
        return clustered(value, influence, groups) if self.rule == "clustered" else long_run(value, influence, groups)

    def over_time(self) -> "Sampling":
        """For series that are never independent from row to row, such as rewards."""
        return Sampling("long-run", self.groups, self.reason) if self.rule == "independent" else self


def independent(value: float, influence: Array) -> Estimate:
    """Rows drawn independently: their variance over `n`."""
    n = len(influence)
    return Estimate(value, float(np.sqrt(influence @ influence / max(1, n - 1) / n)), max(1, n - 1))


def clustered(value: float, influence: Array, groups: NDArray[np.int64]) -> Estimate:
    """Independent trajectories `j` of dependent rows: sums per trajectory, factor `J/(J − 1)`, t with `J − 1`."""
    sums = np.bincount(groups, weights=influence)
    count = len(sums)
    if count < 2:
        raise InputError(
            "standard_errors='clustered' needs at least two trajectories. Got 1; take 'long-run' for a single one."
        )
    return Estimate(value, float(np.sqrt(count / (count - 1) * (sums @ sums)) / len(influence)), count - 1)


def long_run(value: float, influence: Array, groups: NDArray[np.int64]) -> Estimate:
    """Few trajectories of dependent rows: the variance of the total is the sum over trajectories of theirs.

    A trajectory's own is the square of its sum. A long one has equal-weighted cosines beside it: the first cosine transforms of
    a stationary series are about independent normals with its long-run variance. Degrees of freedom by Satterthwaite.
    """
    lengths = np.bincount(groups)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    n, count = len(influence), len(lengths)
    variances, freedoms = np.add.reduceat(influence, starts) ** 2, np.ones(count)
    if count > 1:
        variances *= count / (count - 1)
    else:  # its sum is zero
        freedoms[0] = 0
    cosines = min(COSINES, max(1, n // 8))
    for j, (start, length) in enumerate(zip(starts, lengths)):
        used = min(round(cosines * int(length) / n), int(length) // 2)
        if used >= 2 or (used and count == 1):
            piece = dct(influence[start : start + length], norm="ortho")[1 : used + 1]
            freedoms[j] += used
            variances[j] = ((variances[j] if count > 1 else 0.0) + length * float(piece @ piece)) / freedoms[j]
    most = float(freedoms.sum()) - (count > 1)
    if most < 1:
        raise InputError(f"A standard error needs more rows. Got {n}; collect a longer log.")
    total = float(variances.sum())
    # σ⁴/u of a variance with u degrees of freedom is estimated by its square over u + 2.
    noise = float(np.sum((variances / total) ** 2 / (freedoms + 2))) if total > 0 else 1 / most
    return Estimate(value, float(np.sqrt(total)) / n, float(np.clip(1 / noise, 1.0, most)))


def autocorrelation_time(series: Array, groups: NDArray[np.int64] | None) -> float:
    """Long-run over plain variance: how many rows are worth one independent row. At least one."""
    deviations = series - series.mean()
    variance = float(deviations @ deviations) / len(series)
    if variance <= 0 or len(series) < 16:
        return 1.0
    codes = np.zeros(len(series), dtype=np.int64) if groups is None else groups
    return max(1.0, long_run(0.0, deviations, codes).standard_error ** 2 * len(series) / variance)
