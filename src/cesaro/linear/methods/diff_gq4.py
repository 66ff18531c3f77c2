"""Diff-GQ4 with linear functions: `κ = [ν, r̂, w]`, and one sample of `G` is `ν: x (q − p)ᵀ`, `r̂: qᵀ`, `w: −z pᵀ − η`.

`p = x` at `ν` and `q = [−1, z]` at `r̂, w`. A row's own update is `ν: (δ − xᵀν) x`, `r̂: δ`, `w: −z xᵀν − η w`.
"""

from typing import Any

import numpy as np

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
    ridge_on_weights,
    value_layout,
)


class DiffGQ4(AffineForm):
    """The affine form of Diff-GQ4, which need not be stable."""

    name = "diff-gq4"
    ends_at_td_fixed_point = True

    def layout(self, num_features: int) -> Layout:
        return value_layout(num_features, num_dual=num_features)

    def mean(self, p: Expectations, s: MethodSettings) -> MeanUpdate:
        K = p.num_features
        zero, ridge = np.zeros((K, 1)), s.ridge * np.eye(K)
        G = np.block(
            [
                [-p.C2, -p.c[:, None], p.B],
                [zero.T, -np.ones((1, 1)), p.g[None]],
                [-p.B.T, zero, -ridge],
            ]
        )
        return MeanUpdate(G, np.concatenate([p.b3, [p.mean_reward], np.zeros(K)]), self.layout(K))

    def samples(self, p: Expectations, s: MethodSettings) -> SampleUpdates:
        order = self.layout(p.num_features)
        rows = SampleVectors(p, order)
        dual, error = rows.at((order.dual, rows.x)), rows.error
        left = [dual, rows.at((order.rate, rows.one)), rows.at((order.weights, rows.z))]
        return rows.updates(left, [error - dual, error, -dual], ridge_on_weights(order, s), s)

    def safe_ridge(self, p: Expectations) -> float:
        """At a larger `η`, `κᵀGκ = −νᵀC₂ν − νᵀc r̂ − r̂² + r̂ gᵀw − η‖w‖² ≤ (‖g‖²/3 − η)‖w‖² ≤ 0`.

        As `cᵀC₂⁺c ≤ 1`, the first three terms are at most `−¾ r̂²`.
        """
        return float(p.g @ p.g) / 3

    def influence(self, at: LimitPoint, x: Any, z: Any, rewards: Array) -> RowInfluence:
        there, errors = at.errors(z, rewards)
        residual, tested = (x @ at.dual).T
        ratio = at.on_rate + tested
        back = -there[:, 1] * residual
        return RowInfluence(ratio * errors - tested * residual + back - at.shrink, ratio, errors)

    def level(self, at: LimitPoint, p: Expectations) -> Array:
        return level_of(p, at.on_rate, at.dual[:, 1])
