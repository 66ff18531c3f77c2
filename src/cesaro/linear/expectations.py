"""`Expectations`: the moments that every method with linear features depends on, of a known MDP or of a log."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from cesaro.checks import Array

# Rows of a matrix product at a time: what is copied for it stays small.
PIECE = 65_536


class Samples(NamedTuple):
    """Every transition that can be drawn."""

    x: Array  # [N, K]
    change: Array  # x' − x, [N, K]
    rewards: Array  # [N]
    probability: Array  # [N]


class Expectations:
    """Weighted rows `(x, r, E[x'] − x)`, and their moments.

    Subclasses give `X [n, K]`, `d [n]` (sums to one), `r [n]`, `difference [n, K]`, `samples` and `num_samples`. Matrices are
    computed on first use: `A, b, C` (with the rate as first unknown), `A2, b2, C2` (the rate eliminated), `A3, b3` (dual features
    without the constant), and the pieces `B = XᵀD(P−I)X`, `c = Xᵀd`, `g = dᵀ(P−I)X`.
    """

    @property
    def X(self) -> Array:
        """Features, `[n, K]`."""
        raise NotImplementedError

    @property
    def d(self) -> Array:
        """Sampling distribution, `[n]`."""
        raise NotImplementedError

    @property
    def r(self) -> Array:
        """Rewards, `[n]`."""
        raise NotImplementedError

    @cached_property
    def difference(self) -> Array:
        """`(P − I) X`, `[n, K]`: the expected change of the features in one step."""
        raise NotImplementedError

    @property
    def samples(self) -> Samples:
        """Rows and weights that single updates are made of."""
        raise NotImplementedError

    @property
    def num_samples(self) -> int:
        """The number of these samples."""
        raise NotImplementedError

    @property
    def num_features(self) -> int:
        """The number of features, `K`."""
        return int(self.X.shape[1])

    def _products(self, right: Array, center: Array | None = None) -> Array:
        """`(X − center)ᵀ D right`, `[K, k]`."""
        result = np.zeros((self.num_features, right.shape[1]))
        for start in range(0, len(right), PIECE):
            rows = slice(start, start + PIECE)
            left = self.X[rows] if center is None else self.X[rows] - center
            result += left.T @ (self.d[rows, None] * right[rows])
        return result

    @cached_property
    def B(self) -> Array:
        """`XᵀD(P − I)X`, `[K, K]`."""
        return self._products(self.difference)

    @cached_property
    def c(self) -> Array:
        """`Xᵀd`, `[K]`: the mean of the features."""
        return self.d @ self.X

    @cached_property
    def g(self) -> Array:
        """`dᵀ(P − I)X`, `[K]`: the mean change of the features in one step."""
        return self.d @ self.difference

    @cached_property
    def C2(self) -> Array:
        """`XᵀDX`, `[K, K]`: the Gram matrix of the features."""
        return self._products(self.X)

    @cached_property
    def b3(self) -> Array:
        """`XᵀDr`, `[K]`."""
        return self.X.T @ (self.d * self.r)

    @cached_property
    def squares(self) -> Array:
        """`dᵀX²`, `[K]`: the mean square of each feature."""
        return self.d @ self.X**2

    @property
    def mean_reward(self) -> float:
        """`dᵀ r`: what sampling earns, not what the target policy does."""
        return float(self.d @ self.r)

    @cached_property
    def A(self) -> Array:
        """`YᵀD[−1, (P − I)X]`, `[1 + K, 1 + K]`: the matrix of `A u + b = 0`, whose first unknown is the rate; `Y = [1, X]`."""
        return np.block([[np.array([[-1.0]]), self.g[None]], [-self.c[:, None], self.B]])

    @cached_property
    def b(self) -> Array:
        """`YᵀDr`, `[1 + K]`: the other side of `A u + b = 0`."""
        return np.concatenate([[self.mean_reward], self.b3])

    @cached_property
    def C(self) -> Array:
        """`YᵀDY`, `[1 + K, 1 + K]`: the Gram matrix with the constant."""
        return np.block([[np.array([[1.0]]), self.c[None]], [self.c[:, None], self.C2]])

    @cached_property
    def A2(self) -> Array:
        """`B − c gᵀ`, `[K, K]`: the matrix with the rate eliminated."""
        # Centered rows before the product: B − c gᵀ would subtract two large numbers where features have an offset.
        return self._products(self.difference, center=self.c)

    @cached_property
    def b2(self) -> Array:
        """`XᵀDr − c dᵀr`, `[K]`: the other side with the rate eliminated."""
        return self._products(self.r[:, None], center=self.c)[:, 0]

    @cached_property
    def A3(self) -> Array:
        """`[−c, B]`, `[K, 1 + K]`: `A` without the row of the constant."""
        return np.hstack([-self.c[:, None], self.B])
