"""The six methods as affine recursions `κ += α (G_k κ + h_k)`: their means in closed form, and their single samples.

`κ` stacks dual and primal variables. With `x, x'` the features of a sample, `z = x' − x`, `y = [1, x]`:

| method | κ | one sample of `G` |
|---|---|---|
| diff-sgq | `r̂, w` | `y [−1, z]ᵀ − η I0` |
| diff-gq1 | `ν, r̂, w` | `−p pᵀ + p qᵀ − q pᵀ − η I0`, `p = y` at `ν`, `q = [−1, z]` at `r̂, w` |
| diff-gq2 | `ν, w, r̂` | the same with `p = x1`, `q = z1 − z2`; rate row `β/α (½(z1 + z2) at w − 1 at r̂)` |
| diff-gq3 | `ν, r̂, w` | as diff-gq1 with `p = x` and the ridge on `r̂` too |
| diff-gq4 | `ν, r̂, w` | `ν`: `x (q − p)ᵀ`; `r̂`: `qᵀ`; `w`: `−z pᵀ − η` |
| gradient-dice | `κ, u, θ, r̂` | `θ`: `−x (z at κ + λ at u)ᵀ − η`; `κ`: `z xᵀ − x xᵀ`; `u`: `λ(x at θ − 1)`; `r̂`: `R x at θ − 1` |
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag

from cesaro import checks
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.linear.expectations import Expectations

METHODS = ("diff-sgq", "diff-gq1", "diff-gq2", "diff-gq3", "diff-gq4", "gradient-dice")
# Numbers that one table of samples may hold: 1.6 GB.
MAX_NUMBERS = 200_000_000


@dataclass(frozen=True)
class Layout:
    """Where the variables of a method stand in `κ`."""

    size: int
    rate: int
    weights: slice  # w, or θ for GradientDICE
    dual: slice  # ν, or κ for GradientDICE; empty for Diff-SGQ
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
class Settings:
    """What a method depends on beside the step size."""

    ridge: float = 0.0
    lam: float = 1.0
    rate_step_ratio: float = 1.0
    batch_size: int = 1


def settings(ridge: float, lam: float, rate_step_ratio: float = 1.0, batch_size: int = 1) -> Settings:
    """Checked settings."""
    return Settings(
        checks.number("ridge", ridge, low=0.0),
        checks.number("lam", lam, low=0.0),
        checks.number("rate_step_ratio", rate_step_ratio, low=0.0, low_open=True),
        checks.count("batch_size", batch_size),
    )


def layout(method: str, num_features: int) -> Layout:
    """The order of variables of a method."""
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}. Got {method!r}.")
    K = num_features
    w = tuple(f"w[{i}]" for i in range(K))
    if method == "diff-sgq":
        return Layout(K + 1, 0, slice(1, K + 1), slice(0, 0), ("reward_rate", *w))
    if method == "gradient-dice":
        names = (*(f"kappa[{i}]" for i in range(K)), "u", *(f"theta[{i}]" for i in range(K)), "reward_rate")
        return Layout(2 * K + 2, 2 * K + 1, slice(K + 1, 2 * K + 1), slice(0, K), names)
    dual = K + 1 if method == "diff-gq1" else K
    nu = tuple(f"nu[{i}]" for i in range(dual))
    if method == "diff-gq2":
        return Layout(2 * K + 1, 2 * K, slice(K, 2 * K), slice(0, K), (*nu, *w, "reward_rate"))
    return Layout(dual + K + 1, dual, slice(dual + 1, dual + K + 1), slice(0, dual), (*nu, "reward_rate", *w))


def mean_update(p: Expectations, method: str, s: Settings) -> MeanUpdate:
    """`G` and `h` of a method in closed form."""
    order = layout(method, p.num_features)
    K, reward = p.num_features, p.mean_reward
    only_w = np.diag(np.concatenate([[0.0], np.full(K, s.ridge)]))
    ridge, zero = s.ridge * np.eye(K), np.zeros((K, 1))
    if method == "diff-sgq":
        return MeanUpdate(p.A - only_w, p.b, order)
    if method == "diff-gq1":
        return MeanUpdate(np.block([[-p.C, p.A], [-p.A.T, -only_w]]), np.concatenate([p.b, np.zeros(K + 1)]), order)
    if method == "diff-gq3":
        G = np.block([[-p.C2, p.A3], [-p.A3.T, -s.ridge * np.eye(K + 1)]])
        return MeanUpdate(G, np.concatenate([p.b3, np.zeros(K + 1)]), order)
    if method == "diff-gq2":
        ratio = s.rate_step_ratio
        rate_row = np.concatenate([np.zeros(K), ratio * p.g, [-ratio]])[None]
        G = np.vstack([np.block([[-p.C2, p.A2, zero], [-p.A2.T, -ridge, zero]]), rate_row])
        return MeanUpdate(G, np.concatenate([p.b2, np.zeros(K), [ratio * reward]]), order)
    if method == "diff-gq4":
        G = np.block(
            [
                [-p.C2, -p.c[:, None], p.B],
                [zero.T, -np.ones((1, 1)), p.g[None]],
                [-p.B.T, zero, -ridge],
            ]
        )
        return MeanUpdate(G, np.concatenate([p.b3, [reward], np.zeros(K)]), order)
    lam, scalar = s.lam, np.zeros((1, 1))
    G = np.block(
        [
            [-p.C2, zero, p.B.T, zero],
            [zero.T, scalar - lam, lam * p.c[None], scalar],
            [-p.B, -lam * p.c[:, None], -ridge, zero],
            [zero.T, scalar, p.b3[None], scalar - 1],
        ]
    )
    return MeanUpdate(G, np.concatenate([np.zeros(K), [-lam], np.zeros(K + 1)]), order)


def sample_updates(p: Expectations, method: str, s: Settings) -> SampleUpdates:
    """Every sample of `G`, for moments of second order."""
    order = layout(method, p.num_features)
    count = p.num_samples
    if count * order.size * 8 > MAX_NUMBERS:
        raise InputError(
            f"The sampled step limit enumerates every (s, a, s', a'): {count} tuples × {order.size} variables is too "
            "many; use fewer features, or max_step_expected."
        )
    x, z, rewards, weights = p.samples
    K, one = p.num_features, np.ones((count, 1))

    def at(*columns: tuple[int | slice, Array]) -> Array:
        """Vectors over `κ`, `[N, m]`, with the given columns filled."""
        vector = np.zeros((count, order.size))
        for where, value in columns:
            vector[:, slice(where, where + 1) if isinstance(where, int) else where] = value
        return vector

    def updates(left: list[Array], right: list[Array], constant: Array, cross: Array | None = None) -> SampleUpdates:
        extra = None
        if cross is not None:
            shift = at((order.rate, 0.5 * s.rate_step_ratio * one))
            extra = (left[0], left[0] - shift, cross)
        return SampleUpdates(weights, np.stack(left, axis=1), np.stack(right, axis=1), constant, extra, s.batch_size)

    ridge = np.zeros(order.size)
    ridge[order.weights] = -s.ridge
    error = at((order.rate, -one), (order.weights, z))  # the TD error as a function of κ
    if method == "diff-sgq":
        y = at((order.rate, one), (order.weights, x))
        return updates([y], [error], np.diag(ridge))
    if method == "gradient-dice":
        u, theta = K, order.weights
        dual_x, dual_z, primal_x = at((order.dual, x)), at((order.dual, z)), at((theta, x))
        diagonal = ridge.copy()
        diagonal[u], diagonal[order.rate] = -s.lam, -1.0
        left = [primal_x, dual_z + at((u, s.lam * one), (order.rate, rewards[:, None])), dual_x]
        return updates(left, [-dual_z - at((u, s.lam * one)), primal_x, -dual_x], np.diag(diagonal))
    dual = at((order.dual, np.hstack([one, x]) if method == "diff-gq1" else x))
    if method == "diff-gq4":
        left = [dual, at((order.rate, one)), at((order.weights, z))]
        return updates(left, [error - dual, error, -dual], np.diag(ridge))
    if method == "diff-gq2":
        ratio = s.rate_step_ratio
        mean = weights @ z
        difference, average = at((order.weights, z - mean)), at((order.weights, 0.5 * (z + mean)))
        diagonal = ridge.copy()
        diagonal[order.rate] = -ratio
        left = [dual, difference, at((order.rate, ratio * one))]
        covariance = block_diag(np.zeros((K, K)), (weights[:, None] * (z - mean)).T @ (z - mean), np.zeros((1, 1)))
        return updates(left, [difference - dual, -dual, average], np.diag(diagonal), covariance)
    if method == "diff-gq3":
        ridge[order.rate] = -s.ridge
    return updates([dual, error], [error - dual, -dual], np.diag(ridge))
