"""Diff-GQ1 with linear functions: `κ = [ν, r̂, w]`, and one sample of `G` is `−p pᵀ + p qᵀ − q pᵀ − η I₀`.

`p = y` at `ν` and `q = [−1, z]` at `r̂, w`. A row's own update is `ν: (δ − yᵀν) y`, `r̂: yᵀν`, `w: −z yᵀν − η w`.
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
    ridge_without_rate,
    value_layout,
)


class DiffGQ1(AffineForm):
    """The affine form of Diff-GQ1, whose dual has a constant."""

    name = "diff-gq1"
    ends_at_td_fixed_point = True

    def is_saddle(self, s: MethodSettings) -> bool:
        return True

    def layout(self, num_features: int) -> Layout:
        return value_layout(num_features, num_dual=num_features + 1)

    def mean(self, p: Expectations, s: MethodSettings) -> MeanUpdate:
        K = p.num_features
        G = np.block([[-p.C, p.A], [-p.A.T, -ridge_without_rate(p, s)]])
        return MeanUpdate(G, np.concatenate([p.b, np.zeros(K + 1)]), self.layout(K))

    def samples(self, p: Expectations, s: MethodSettings) -> SampleUpdates:
        order = self.layout(p.num_features)
        rows = SampleVectors(p, order)
        dual, error = rows.at((order.dual, np.hstack([rows.one, rows.x]))), rows.error
        return rows.updates([dual, error], [error - dual, -dual], ridge_on_weights(order, s), s)

    def influence(self, at: LimitPoint, x: Any, z: Any, rewards: Array) -> RowInfluence:
        there, errors = at.errors(z, rewards)
        residual, ratio = (x @ at.dual[1:] + at.dual[0]).T
        back = -there[:, 1] * residual + at.on_rate * residual
        return RowInfluence(ratio * errors - ratio * residual + back - at.shrink, ratio, errors)

    def level(self, at: LimitPoint, p: Expectations) -> Array:
        return level_of(p, float(at.dual[0, 1]), at.dual[1:, 1])
