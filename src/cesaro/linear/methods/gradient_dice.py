"""GradientDICE with linear functions: `κ, u, θ, r̂`, where the first is the dual and `τ = xᵀθ` the density ratio.

One sample of `G` is `θ: −x (z at κ + λ at u)ᵀ − η`, `κ: z xᵀ − x xᵀ`, `u: λ(x at θ − 1)`, `r̂: R x at θ − 1`. A row's own update
is `κ: τ z − f x`, `u: λ(τ − 1 − u)`, `θ: −x (zᵀκ + λu) − η θ`, `r̂: τR − r̂`, with `f = xᵀκ`.
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
    numbered,
    ridge_on_weights,
)


class GradientDICE(AffineForm):
    """The affine form of GradientDICE, a saddle where the normalization has a weight."""

    name = "gradient-dice"
    learns_ratio = True
    only_rate_has_unit = True

    def is_saddle(self, s: MethodSettings) -> bool:
        return s.lam > 0

    def own_rate_step(self, s: MethodSettings) -> float | None:
        return 1.0

    def why_no_limit(self, s: MethodSettings) -> str | None:
        if s.lam > 0:
            return None
        return (
            f"{self.name} needs lam > 0: with lam = 0 nothing fixes the scale of the density ratio, and the zero ratio is a "
            "solution whatever the rewards are."
        )

    def layout(self, num_features: int) -> Layout:
        K = num_features
        names = (*numbered("kappa", K), "u", *numbered("theta", K), "reward_rate")
        return Layout(2 * K + 2, 2 * K + 1, slice(K + 1, 2 * K + 1), slice(0, K), names)

    def mean(self, p: Expectations, s: MethodSettings) -> MeanUpdate:
        K, lam = p.num_features, s.lam
        zero, scalar, ridge = np.zeros((K, 1)), np.zeros((1, 1)), s.ridge * np.eye(K)
        G = np.block(
            [
                [-p.C2, zero, p.B.T, zero],
                [zero.T, scalar - lam, lam * p.c[None], scalar],
                [-p.B, -lam * p.c[:, None], -ridge, zero],
                [zero.T, scalar, p.b3[None], scalar - 1],
            ]
        )
        return MeanUpdate(G, np.concatenate([np.zeros(K), [-lam], np.zeros(K + 1)]), self.layout(K))

    def samples(self, p: Expectations, s: MethodSettings) -> SampleUpdates:
        order = self.layout(p.num_features)
        rows = SampleVectors(p, order)
        u = order.dual.stop
        dual_x, dual_z = rows.at((order.dual, rows.x)), rows.at((order.dual, rows.z))
        primal_x, normalizer = rows.at((order.weights, rows.x)), rows.at((u, s.lam * rows.one))
        diagonal = ridge_on_weights(order, s)
        diagonal[u], diagonal[order.rate] = -s.lam, -1.0
        rewarded = rows.at((u, s.lam * rows.one), (order.rate, rows.rewards[:, None]))
        return rows.updates(
            [primal_x, dual_z + rewarded, dual_x], [-dual_z - normalizer, primal_x, -dual_x], diagonal, s
        )

    def influence(self, at: LimitPoint, x: Any, z: Any, rewards: Array) -> RowInfluence:
        here, there, tested = x @ at.weights, z @ at.dual, x @ at.dual
        lam, u, on_u = at.settings.lam, at.point[at.layout.dual.stop], at.row[at.layout.dual.stop]
        ratio = here[:, 0]
        influence = ratio * there[:, 1] - tested[:, 0] * tested[:, 1] + on_u * lam * (ratio - 1 - u)
        influence += at.on_rate * (ratio * rewards - at.reward_rate)
        influence -= here[:, 1] * (there[:, 0] + lam * u) + at.shrink
        return RowInfluence(influence, ratio, np.zeros(len(ratio)))

    def level(self, at: LimitPoint, p: Expectations) -> Array:
        return np.zeros(p.num_features)
