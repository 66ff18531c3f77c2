"""Diff-GQ2 with linear functions: `κ = [ν, w, r̂]`, and one sample of `G` takes two rows.

It is that of Diff-GQ1 with `p = x₁` and `q = z₁ − z₂`, and the rate's row is `β/α (½(z₁ + z₂) at w − 1 at r̂)`. A row's own update
is the sum of what it does as first and as second one, averaged over the other (Hájek's projection of the two-sample mean):
`ν: (ρ − r̂)(x − c) − xᵀν x`, `w: −(z − z̄)(x − c)ᵀν − η w`, `r̂: ρ − r̂`, with `c` and `z̄` the means over rows.
"""

from typing import Any

import numpy as np
from scipy.linalg import block_diag

from cesaro.checks import Array
from cesaro.linear.expectations import Expectations
from cesaro.linear.methods.base import (
    AffineForm,
    Layout,
    LimitPoint,
    MeanUpdate,
    MethodSettings,
    RowInfluence,
    SampleUpdates,
    SampleVectors,
    level_of,
    numbered,
    ridge_on_weights,
)


class DiffGQ2(AffineForm):
    """The affine form of Diff-GQ2, whose rate follows the weights and is read by none of them."""

    name = "diff-gq2"
    ends_at_td_fixed_point = True

    def is_saddle(self, s: MethodSettings) -> bool:
        return True

    def own_rate_step(self, s: MethodSettings) -> float | None:
        return s.rate_step_ratio

    def layout(self, num_features: int) -> Layout:
        K = num_features
        names = (*numbered("nu", K), *numbered("w", K), "reward_rate")
        return Layout(2 * K + 1, 2 * K, slice(K, 2 * K), slice(0, K), names)

    def mean(self, p: Expectations, s: MethodSettings) -> MeanUpdate:
        K, ratio = p.num_features, s.rate_step_ratio
        zero, ridge = np.zeros((K, 1)), s.ridge * np.eye(K)
        rate_row = np.concatenate([np.zeros(K), ratio * p.g, [-ratio]])[None]
        G = np.vstack([np.block([[-p.C2, p.A2, zero], [-p.A2.T, -ridge, zero]]), rate_row])
        return MeanUpdate(G, np.concatenate([p.b2, np.zeros(K), [ratio * p.mean_reward]]), self.layout(K))

    def samples(self, p: Expectations, s: MethodSettings) -> SampleUpdates:
        K, ratio = p.num_features, s.rate_step_ratio
        order = self.layout(K)
        rows = SampleVectors(p, order)
        mean = rows.weights @ rows.z
        dual = rows.at((order.dual, rows.x))
        difference = rows.at((order.weights, rows.z - mean))
        average = rows.at((order.weights, 0.5 * (rows.z + mean)))
        diagonal = ridge_on_weights(order, s)
        diagonal[order.rate] = -ratio
        left = [dual, difference, rows.at((order.rate, ratio * rows.one))]
        squares = (rows.weights[:, None] * (rows.z - mean)).T @ (rows.z - mean)
        covariance = block_diag(np.zeros((K, K)), squares, np.zeros((1, 1)))
        cross = (dual, dual - rows.at((order.rate, 0.5 * ratio * rows.one)), covariance)
        return rows.updates(left, [difference - dual, -dual, average], diagonal, s, cross)

    def influence(self, at: LimitPoint, x: Any, z: Any, rewards: Array) -> RowInfluence:
        there, errors = at.errors(z, rewards)
        residual, tested = (x @ at.dual).T
        on_residual, on_tested = (float(at.mean_features @ at.dual[:, i]) for i in (0, 1))
        ratio = at.on_rate + tested - on_tested
        back = -(there[:, 1] - float(at.mean_change @ at.weights[:, 1])) * (residual - on_residual)
        return RowInfluence(ratio * errors - tested * residual + back - at.shrink, ratio, errors)

    def level(self, at: LimitPoint, p: Expectations) -> Array:
        slope = at.dual[:, 1]
        return level_of(p, at.on_rate - float(p.c @ slope), slope)
