"""The contract of an affine form: what the exact layer asks of a method, and what several methods share.

`AffineForm` says how a method with linear functions moves, `κ += α (G_k κ + h_k)`, in closed form: the order of its variables
(`Layout`), its mean (`MeanUpdate`), its single samples (`SampleUpdates`) and the influence of rows on its limit. `κ` stacks dual
and primal variables. In all forms, `x, x'` are the features of a sample, `z = x' − x`, `y = [1, x]`, and `δ = R − r̂ + zᵀw`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from cesaro import checks
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.linear.expectations import Expectations

# Numbers that one table of samples may hold: 1.6 GB.
MAX_NUMBERS = 200_000_000
# The sampled step limit of a log: features at most, rows × variables² that it may cost, fewest and most rows.
MAX_SAMPLED, WORK, FEWEST_ROWS, MOST_ROWS = 128, 3.5e7, 1_000, 5_000


@dataclass(frozen=True)
class Layout:
    """Where the variables of a method stand in `κ`."""

    size: int
    rate: int
    weights: slice  # of the values, or of a density ratio
    dual: slice  # empty for a method that has none
    names: tuple[str, ...]


@dataclass(frozen=True)
class MeanUpdate:
    """The expected update `κ += α (G κ + h)`."""

    G: Array
    h: Array
    layout: Layout


@dataclass(frozen=True)
class SampleUpdates:
    """All samples of `G`: `G_k = left_k right_kᵀ + constant` with probability `weights_k`.

    `cross` is for Diff-GQ2, whose sample is a pair: there `left, right` hold the first sample with the mean of the second,
    and the deviation `Δ` of the second adds `−other_k Δᵀ + Δ first_kᵀ`, where `Δ` has covariance `cross`.
    """

    weights: Array  # [N]
    left: Array  # [N, R, m]
    right: Array  # [N, R, m]
    constant: Array  # [m, m]
    cross: tuple[Array, Array, Array] | None = None  # first [N, m], other [N, m], covariance [m, m]
    batch_size: int = 1  # independent samples that one update averages

    def second_moment(self, matrix: Array, *, transposed: bool = False) -> Array:
        """`E[G_k M G_kᵀ]`, or `E[G_kᵀ M G_k]`, with `G_k` the mean over a batch."""
        left, right, whole = self.left, self.right, self.mean
        if transposed:
            left, right, whole = right, left, whole.T
        constant = self.constant.T if transposed else self.constant
        inner = (right.reshape(-1, len(matrix)) @ matrix).reshape(right.shape) @ right.mT  # [N, R, R]
        result = _sum_of_products((self.weights[:, None, None] * inner.mT) @ left, left)
        result += constant @ matrix @ whole.T + (whole - constant) @ matrix @ constant.T
        if self._cross_products is not None and self.cross is not None:
            first, other, mixed = self._cross_products
            covariance = self.cross[2]
            if transposed:
                first, other, mixed = other, first, mixed.T
            mixed = mixed @ matrix @ covariance
            result += other * np.sum(matrix * covariance) - mixed - mixed.T
            result += float(np.sum(first * matrix)) * covariance
        if self.batch_size > 1:
            result = result / self.batch_size + (1 - 1 / self.batch_size) * (whole @ matrix @ whole.T)
        return np.asarray(result)

    @cached_property
    def mean(self) -> Array:
        """`E[G_k]`."""
        return _sum_of_products(self.weights[:, None, None] * self.left, self.right) + self.constant

    @cached_property
    def _cross_products(self) -> tuple[Array, Array, Array] | None:
        """`E[first firstᵀ]`, `E[other otherᵀ]` and `E[other firstᵀ]`."""
        if self.cross is None:
            return None
        first, other, _ = self.cross
        weighted = self.weights[:, None] * other
        return (self.weights[:, None] * first).T @ first, weighted.T @ other, weighted.T @ first

    def project(self, basis: Array) -> "SampleUpdates":
        """The same recursion in the coordinates of an orthonormal basis, `[m, k]`."""
        cross = None
        if self.cross is not None:
            first, other, covariance = self.cross
            cross = (first @ basis, other @ basis, basis.T @ covariance @ basis)
        return replace(
            self,
            left=self.left @ basis,
            right=self.right @ basis,
            constant=basis.T @ self.constant @ basis,
            cross=cross,
        )


def _sum_of_products(left: Array, right: Array) -> Array:
    """`Σ_n Σ_r left[n, r] right[n, r]ᵀ`, `[m, m]`."""
    return left.reshape(-1, left.shape[2]).T @ right.reshape(-1, right.shape[2])


@dataclass(frozen=True)
class MethodSettings:
    """Numbers that a method depends on beside the step size."""

    ridge: float = 0.0
    lam: float = 1.0
    rate_step_ratio: float = 1.0
    batch_size: int = 1


def settings(ridge: float, lam: float, rate_step_ratio: float = 1.0, batch_size: int = 1) -> MethodSettings:
    """Checked settings."""
    return MethodSettings(
        checks.number("ridge", ridge, low=0.0),
        checks.number("lam", lam, low=0.0),
        checks.number("rate_step_ratio", rate_step_ratio, low=0.0, low_open=True),
        checks.count("batch_size", batch_size),
    )


class RowInfluence(NamedTuple):
    """The influence of rows on the rate at a method's limit, and its factors, `[n]` each.

    Attributes:
        influence: of a row on the rate.
        ratio: what the method multiplies TD errors with, an estimate of the density ratio.
        errors: TD errors; zero for a method that has no values.
    """

    influence: Array
    ratio: Array
    errors: Array


@dataclass(frozen=True)
class LimitPoint:
    """Where a method ends, and how its rate answers to a change of its equations.

    At the limit `κ*` the mean of the rows' own updates `ψ` is zero, so that the influence of a row on the rate is `p·ψ` with
    `p = −e_r̂ᵀ G⁺`.

    Attributes:
        layout: where the variables stand.
        settings: ridge and the like.
        point: `κ*`, `[m]`.
        row: `p`, `[m]`.
        mean_features: the mean of `x` over rows, `[K]`.
        mean_change: the mean of `z` over rows, `[K]`.
    """

    layout: Layout
    settings: MethodSettings
    point: Array
    row: Array
    mean_features: Array
    mean_change: Array

    @property
    def reward_rate(self) -> float:
        """The limit of `r̂`."""
        return float(self.point[self.layout.rate])

    @property
    def on_rate(self) -> float:
        """`p` at the rate."""
        return float(self.row[self.layout.rate])

    @cached_property
    def weights(self) -> Array:
        """`w`, or `θ` of a density ratio, in the limit and in `p`, `[K, 2]`."""
        return self._both(self.layout.weights)

    @cached_property
    def dual(self) -> Array:
        """The dual variables in the limit and in `p`, `[·, 2]`."""
        return self._both(self.layout.dual)

    @cached_property
    def shrink(self) -> float:
        """The number that the ridge on the weights adds to `p·ψ` of every row, with its sign turned."""
        return self.settings.ridge * float(self.weights[:, 1] @ self.weights[:, 0])

    def _both(self, part: slice) -> Array:
        return np.stack([self.point[part], self.row[part]], axis=1)

    def errors(self, z: Any, rewards: Array) -> tuple[Array, Array]:
        """`zᵀw` in the limit and in `p`, `[n, 2]`, and TD errors, `[n]`."""
        there = z @ self.weights
        return there, rewards - self.reward_rate + there[:, 0]


class AffineForm(ABC):
    """A method with linear functions as an affine recursion, in closed form.

    Attributes:
        name: of the method, as in the registry of `cesaro.algorithms`.
        learns_ratio: whether its weights are those of a density ratio, `d_π/d_μ ≈ xᵀθ`, and not of values.
        ends_at_td_fixed_point: whether it ends at the TD fixed point if there is a single one and no ridge.
        only_rate_has_unit: whether the rate is the only variable that has the unit of the reward.
    """

    name: str
    learns_ratio: bool = False
    ends_at_td_fixed_point: bool = False
    only_rate_has_unit: bool = False

    @abstractmethod
    def layout(self, num_features: int) -> Layout:
        """The order of variables."""

    @abstractmethod
    def mean(self, p: Expectations, s: MethodSettings) -> MeanUpdate:
        """`G` and `h` of the expected update."""

    @abstractmethod
    def samples(self, p: Expectations, s: MethodSettings) -> SampleUpdates:
        """Every sample of `G`, for moments of second order."""

    def is_saddle(self, s: MethodSettings) -> bool:
        """Whether all non-zero eigenvalues of `G` have negative real parts, on every problem.

        `G` is a saddle then, a negative semidefinite matrix plus a skew one, and what the first annihilates the second does not
        couple; zero eigenvalues are semisimple, and `h` is in the range. Rounding of nearly dependent features may say otherwise.
        """
        return False

    def own_rate_step(self, s: MethodSettings) -> float | None:
        """The step of the rate over that of the others, where the rate is an output only; None where another one reads it."""
        return None

    def sampled_rows(self, num_features: int) -> int:
        """Rows of a log that its sampled step limit is computed from; 0: a rough value must do.

        It costs rows × variables² a few dozen times; fewer rows change it by a percent or two.
        """
        if num_features > MAX_SAMPLED:
            return 0
        return int(np.clip(WORK / self.layout(num_features).size ** 2, FEWEST_ROWS, MOST_ROWS))

    def safe_ridge(self, p: Expectations) -> float:
        """A ridge above which the expected update converges; 0 for methods that need none, NaN where none is known."""
        return 0.0

    def why_no_limit(self, s: MethodSettings) -> str | None:
        """Why there is no limit with these settings, on whatever problem; None where there may be one."""
        return None

    def influence(self, at: LimitPoint, x: Any, z: Any, rewards: Array) -> RowInfluence:
        """The influence of rows on the rate at the limit; `x` and `z` are dense or sparse, `[n, K]`."""
        raise NotImplementedError

    def level(self, at: LimitPoint, p: Expectations) -> Array:
        """The mean of the features under the target, as the limit implies it, `[K]`; zero for a method without values."""
        raise NotImplementedError

    @property
    def has_influence(self) -> bool:
        """Whether the influence of rows on the limit is known, and with it a standard error."""
        return type(self).influence is not AffineForm.influence


def check_samples(count: int, size: int, vectors: int) -> None:
    """Raises where so many samples of `size` variables, with `vectors` vectors each, do not fit into memory."""
    if count * size * vectors > MAX_NUMBERS:
        raise InputError(
            f"The sampled step limit enumerates every (s, a, s', a'): {count} tuples × {size} variables is too "
            "many; use fewer features, or max_step_expected."
        )


class SampleVectors:
    """The samples of a problem as vectors over the variables of a method."""

    def __init__(self, p: Expectations, layout: Layout) -> None:
        count = p.num_samples
        check_samples(count, layout.size, 8)
        self._count, self._layout = count, layout
        self.x, self.z, self.rewards, self.weights = p.samples
        self.one = np.ones((count, 1))

    def at(self, *columns: tuple[int | slice, Array]) -> Array:
        """Vectors over `κ`, `[N, m]`, with the given columns filled."""
        vector = np.zeros((self._count, self._layout.size))
        for where, value in columns:
            vector[:, slice(where, where + 1) if isinstance(where, int) else where] = value
        return vector

    @property
    def error(self) -> Array:
        """The TD error as a function of `κ`."""
        return self.at((self._layout.rate, -self.one), (self._layout.weights, self.z))

    def updates(
        self,
        left: list[Array],
        right: list[Array],
        diagonal: Array,
        s: MethodSettings,
        cross: tuple[Array, Array, Array] | None = None,
    ) -> SampleUpdates:
        """Samples of rank `len(left)`, and a diagonal that is part of each."""
        return SampleUpdates(
            self.weights, np.stack(left, axis=1), np.stack(right, axis=1), np.diag(diagonal), cross, s.batch_size
        )


def value_layout(num_features: int, num_dual: int) -> Layout:
    """`ν, r̂, w`."""
    K = num_features
    names = (*numbered("nu", num_dual), "reward_rate", *numbered("w", K))
    return Layout(num_dual + K + 1, num_dual, slice(num_dual + 1, num_dual + K + 1), slice(0, num_dual), names)


def numbered(name: str, count: int) -> tuple[str, ...]:
    """The names of the entries of a vector."""
    return tuple(f"{name}[{i}]" for i in range(count))


def ridge_on_weights(layout: Layout, s: MethodSettings) -> Array:
    """The diagonal that the ridge on the weights adds to `G`, `[m]`."""
    diagonal = np.zeros(layout.size)
    diagonal[layout.weights] = -s.ridge
    return diagonal


def ridge_without_rate(p: Expectations, s: MethodSettings) -> Array:
    """`η I₀`: the ridge on the weights and none on the rate before them, `[1 + K, 1 + K]`."""
    return np.diag(np.concatenate([[0.0], np.full(p.num_features, s.ridge)]))


def level_of(p: Expectations, constant: float, slope: Array) -> Array:
    """The mean of the features where a row counts `constant + xᵀslope`: the ratio of a value method is linear in the features."""
    return np.asarray((constant * p.c + p.C2 @ slope) / (constant + float(p.c @ slope)))
