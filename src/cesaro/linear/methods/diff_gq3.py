"""Diff-GQ3 with linear functions: as Diff-GQ1 with `p = x` at `ν`, and the ridge on the rate too.

A row's own update is `ν: (δ − xᵀν) x`, `r̂: xᵀν − η r̂`, `w: −z xᵀν − η w`.
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


class DiffGQ3(AffineForm):
    """The affine form of Diff-GQ3, whose dual has no constant."""

    name = "diff-gq3"

    def is_saddle(self, s: MethodSettings) -> bool:
        return True

    def layout(self, num_features: int) -> Layout:
        return value_layout(num_features, num_dual=num_features)

    def mean(self, p: Expectations, s: MethodSettings) -> MeanUpdate:
        K = p.num_features
        G = np.block([[-p.C2, p.A3], [-p.A3.T, -s.ridge * np.eye(K + 1)]])
        return MeanUpdate(G, np.concatenate([p.b3, np.zeros(K + 1)]), self.layout(K))

    def samples(self, p: Expectations, s: MethodSettings) -> SampleUpdates:
        order = self.layout(p.num_features)
        rows = SampleVectors(p, order)
        dual, error = rows.at((order.dual, rows.x)), rows.error
        diagonal = ridge_on_weights(order, s)
        diagonal[order.rate] = -s.ridge
        return rows.updates([dual, error], [error - dual, -dual], diagonal, s)

    def influence(self, at: LimitPoint, x: Any, z: Any, rewards: Array) -> RowInfluence:
        there, errors = at.errors(z, rewards)
        residual, ratio = (x @ at.dual).T
        back = -there[:, 1] * residual + at.on_rate * residual
        shrink = at.shrink + at.settings.ridge * at.on_rate * at.reward_rate
        return RowInfluence(ratio * errors - ratio * residual + back - shrink, ratio, errors)

    def level(self, at: LimitPoint, p: Expectations) -> Array:
        return level_of(p, 0.0, at.dual[:, 1])
