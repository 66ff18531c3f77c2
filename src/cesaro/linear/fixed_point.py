"""TD fixed points: the solutions `u = [r̂, w]` of `A u + b = 0`."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cesaro.checks import Array, decomposing
from cesaro.linear.expectations import Expectations

# A singular value counts as zero below this share of the largest, after features are scaled to unit norm under d; and
# below what rounding leaves of a matrix that is zero at that scale.
RANK_TOLERANCE = 1e-12
ZERO = 1e-14
# A right-hand side lies in the range if at most this share of it is left over.
RANGE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class FixedPoint:
    """The set of TD fixed points.

    Attributes:
        kind: "unique", "none" or "many".
        reward_rate: the rate; of the least-‖w‖ solution where there are many, None where there is none.
        weights: `w [K]`, the least-‖w‖ solution where there are many; None where there is none.
        rate_is_unique: whether all solutions agree on the rate.
        rank: numerical rank of `A2` (`K` if unique).
        conditioning: smallest over largest singular value of the (orthonormalized) equations; 0 if not unique.
        residual: share of the right-hand side outside the range.
    """

    kind: Literal["unique", "none", "many"]
    reward_rate: float | None
    weights: Array | None
    rate_is_unique: bool
    rank: int
    conditioning: float
    residual: float


@dataclass(frozen=True)
class Reduced:
    """A rank-revealing factorization `M = left · diag(core) · rightᵀ` of a scaled matrix, with bases undone of the scaling."""

    left: Array  # [m, r]: a basis of the range
    core: Array  # [r]: singular values of the scaled matrix
    right: Array  # [k, r]: a basis of the row space
    null: Array  # [k, k − r]: an orthonormal basis of the null space
    conditioning: float
    _scale: tuple[Array, Array]
    _factors: tuple[Array, Array]

    def solve(self, target: Array) -> tuple[Array, float]:
        """A solution of `M x = target`, and the share of the (scaled) target outside the range."""
        rows, columns = self._scale
        u, v = self._factors
        scaled = rows * target
        inside = u.T @ scaled
        norm = float(np.linalg.norm(scaled))
        outside = float(np.linalg.norm(scaled - u @ inside)) / norm if norm > 0 else 0.0
        return columns * (v @ (inside / self.core)), outside

    def solve_transposed(self, target: Array) -> Array:
        """A solution of `Mᵀ x = target`, for a target in the row space of `M`."""
        rows, columns = self._scale
        u, v = self._factors
        return np.asarray(rows * (u @ ((v.T @ (columns * target)) / self.core)))


def reduce(matrix: Array, row_scale: Array, column_scale: Array) -> Reduced:
    """Factor `matrix` after multiplying rows and columns by the scales, so that units of features do not matter."""
    scaled = row_scale[:, None] * matrix * column_scale
    u, s, vt = np.linalg.svd(scaled)
    rank = int(np.sum(s > max(RANK_TOLERANCE * s[0], ZERO))) if s.size else 0
    null = column_scale[:, None] * vt[rank:].T
    if null.shape[1]:
        null = np.linalg.qr(null)[0]
    return Reduced(
        left=u[:, :rank] / row_scale[:, None],
        core=s[:rank],
        right=vt[:rank].T / column_scale[:, None],
        null=null,
        conditioning=float(s[-1] / s[0]) if rank == matrix.shape[1] else 0.0,
        _scale=(row_scale, column_scale),
        _factors=(u[:, :rank], vt[:rank].T),
    )


def feature_scale(problem: Expectations, ridge: float = 0.0) -> Array:
    """One over the root mean square of each feature under `d` (and the ridge beside it); one for a feature that has none."""
    norm = np.sqrt(problem.squares + ridge)
    return np.asarray(1 / np.where(norm > 0, norm, 1.0))


def least_norm(solution: Array, null: Array, part: slice) -> Array:
    """The member of `solution + range(null)` whose `part` has least Euclidean norm; `null` is orthonormal."""
    u, s, vt = np.linalg.svd(null[part], full_matrices=False)
    moves = s > 1e-10  # absolute: directions that do not touch the part are left alone
    return np.asarray(solution - null @ (vt[moves].T @ ((u[:, moves].T @ solution[part]) / s[moves])))


@decomposing("The TD fixed point")
def td_fixed_point(problem: Expectations) -> FixedPoint:
    """Eliminate the rate, `r̂ = dᵀ(r + (P−I) X w)`, and solve what is left by singular value decompositions.

    `A2 w + b2 = 0` says that `r + (P−I) X w` is orthogonal, under `d`, to the centered features. These are orthonormalized first,
    so that features that nearly depend on each other do not enter squared.
    """
    root = np.sqrt(problem.d)[:, None]
    columns = feature_scale(problem)
    u, s, _ = np.linalg.svd(root * (problem.X - problem.c) * columns, full_matrices=False)
    tests = u[:, s > RANK_TOLERANCE * max(s[0], 1.0)]  # [n, rank]
    size = problem.num_features
    reduced = reduce(tests.T @ (root * problem.difference), np.ones(tests.shape[1]), columns)
    target = -tests.T @ (root[:, 0] * problem.r)
    # Where rewards are a constant, what is left of them is rounding, and every direction of it may be outside the range.
    if float(np.linalg.norm(target)) <= 1e-13 * float(np.abs(problem.r).max()):
        target = np.zeros_like(target)
    solution, residual = reduced.solve(target)
    rank = len(reduced.core)
    spread = np.abs(problem.g @ reduced.null)
    noise = 1e-9 * np.linalg.norm(problem.d[:, None] * problem.difference) + 1e-12 * np.linalg.norm(
        problem.d[:, None] * problem.X
    )
    rate_is_unique = bool((spread <= noise).all())
    if rank < tests.shape[1] and residual > RANGE_TOLERANCE:
        return FixedPoint("none", None, None, rate_is_unique, rank, reduced.conditioning, residual)
    weights = least_norm(solution, reduced.null, slice(None))
    rate = problem.mean_reward + float(problem.g @ weights)
    kind: Literal["unique", "many"] = "unique" if rank == size else "many"
    return FixedPoint(kind, rate, weights, rate_is_unique, rank, reduced.conditioning, residual)
