"""TD fixed points: the solutions `u = [r̂, w]` of `A u + b = 0`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from cesaro.checks import Array

if TYPE_CHECKING:
    from cesaro.linear.problem import LinearProblem

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
        conditioning: smallest over largest singular value of the scaled `A2`.
        residual: share of `b2` outside the range of `A2`.
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


def reduce(matrix: Array, row_scale: Array, column_scale: Array) -> Reduced:
    """Factor `matrix` after multiplying rows and columns by the scales, so that units of features do not matter."""
    scaled = row_scale[:, None] * matrix * column_scale
    u, s, vt = np.linalg.svd(scaled)
    rank = int(np.sum(s > max(RANK_TOLERANCE * s[0], ZERO)))
    null = column_scale[:, None] * vt[rank:].T
    if null.shape[1]:
        null = np.linalg.qr(null)[0]
    return Reduced(
        left=u[:, :rank] / row_scale[:, None],
        core=s[:rank],
        right=vt[:rank].T / column_scale[:, None],
        null=null,
        conditioning=float(s[-1] / s[0]) if rank else 0.0,
        _scale=(row_scale, column_scale),
        _factors=(u[:, :rank], vt[:rank].T),
    )


def feature_scale(problem: "LinearProblem", *, center: bool) -> Array:
    """One over the root mean square (or standard deviation) of each feature under `d`; one for a feature that has none."""
    X = problem.X - problem.c if center else problem.X
    norm = np.sqrt(problem.d @ X**2)
    # A constant feature centers to rounding noise, which must not be blown up to unit size.
    negligible = norm <= 1e-13 * np.sqrt(problem.d @ problem.X**2)
    return np.asarray(1 / np.where(negligible | (norm == 0), 1.0, norm))


def least_norm(solution: Array, null: Array, part: slice) -> Array:
    """The member of `solution + range(null)` whose `part` has least Euclidean norm."""
    if null.shape[1] == 0:
        return solution
    shift = np.linalg.lstsq(null[part], -solution[part], rcond=1e-10)[0]
    return np.asarray(solution + null @ shift)


def td_fixed_point(problem: "LinearProblem") -> FixedPoint:
    """Eliminate the rate, `r̂ = dᵀ(r + (P−I) X w)`, and solve `A2 w + b2 = 0` by a singular value decomposition."""
    rows, columns = feature_scale(problem, center=True), feature_scale(problem, center=False)
    reduced = reduce(problem.A2, rows, columns)
    solution, residual = reduced.solve(-problem.b2)
    # Where rewards are a constant, b2 is rounding noise and every direction of it is outside the range.
    noise = 1e-13 * float(np.max(np.abs(problem.r), initial=0.0))
    if float(np.linalg.norm(rows * problem.b2)) <= noise:
        solution, residual = np.zeros_like(solution), 0.0
    rank, size = len(reduced.core), problem.num_features
    spread = np.abs(problem.g @ reduced.null)
    rate_is_unique = bool((spread <= 1e-9 * np.linalg.norm(problem.d[:, None] * problem.difference)).all())
    if rank < size and residual > RANGE_TOLERANCE:
        return FixedPoint("none", None, None, rate_is_unique, rank, reduced.conditioning, residual)
    weights = least_norm(solution, reduced.null, slice(None))
    rate = problem.mean_reward + float(problem.g @ weights)
    kind: Literal["unique", "many"] = "unique" if rank == size else "many"
    return FixedPoint(kind, rate, weights, rate_is_unique, rank, reduced.conditioning, residual)
