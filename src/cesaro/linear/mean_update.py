"""Affine recursions `κ += α (G_k κ + h_k)`: their variables, means, single samples and settings, whatever the method.

`methods/` says what they are for each.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cesaro import checks
from cesaro.checks import Array


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
