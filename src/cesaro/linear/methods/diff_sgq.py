"""Diff-SGQ with linear functions: `κ = [r̂, w]`, one sample of `G` is `y [−1, z]ᵀ − η I₀`, and `ψ` is `r̂: δ`, `w: δ x − η w`."""

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
    ridge_without_rate,
    value_layout,
)


class DiffSGQ(AffineForm):
    """The affine form of Diff-SGQ, which need not be stable."""

    name = "diff-sgq"
    ends_at_td_fixed_point = True

    def layout(self, num_features: int) -> Layout:
        return value_layout(num_features, num_dual=0)

    def mean(self, p: Expectations, s: MethodSettings) -> MeanUpdate:
        return MeanUpdate(p.A - ridge_without_rate(p, s), p.b, self.layout(p.num_features))

    def samples(self, p: Expectations, s: MethodSettings) -> SampleUpdates:
        order = self.layout(p.num_features)
        rows = SampleVectors(p, order)
        y = rows.at((order.rate, rows.one), (order.weights, rows.x))
        return rows.updates([y], [rows.error], ridge_on_weights(order, s), s)

    def safe_ridge(self, p: Expectations) -> float:
        """At a larger `η`, `κᵀGκ = −r̂² + r̂ (g − c)ᵀw + wᵀBw − η‖w‖² ≤ (‖g − c‖²/4 + λ_max(½(B + Bᵀ)) − η)‖w‖² ≤ 0`."""
        largest = float(np.linalg.eigvalsh((p.B + p.B.T) / 2)[-1])
        return max(0.0, largest + float(np.sum((p.g - p.c) ** 2)) / 4)

    def influence(self, at: LimitPoint, x: Any, z: Any, rewards: Array) -> RowInfluence:
        _, errors = at.errors(z, rewards)
        ratio = at.on_rate + x @ at.weights[:, 1]
        return RowInfluence(ratio * errors - at.shrink, ratio, errors)

    def level(self, at: LimitPoint, p: Expectations) -> Array:
        return level_of(p, at.on_rate, at.weights[:, 1])
