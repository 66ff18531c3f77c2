"""The closed form from moments: `û = [r̂, w]` minimizes `‖Âu + b̂‖²` in the norm of `Ĉ⁺`, plus `η‖w‖²`."""

from typing import NamedTuple

import numpy as np

from cesaro.checks import Array, decomposing
from cesaro.engines.local import decomposing_threads
from cesaro.errors import InputError
from cesaro.linear.fixed_point import least_norm
from cesaro.passes.influence import ClosedForm
from cesaro.passes.moments import Moments

# The rate counts as identified while at most this much of its unit vector lies in the null space, features scaled to unit size.
# Exact arithmetic would give zero. Many smooth features leave some of it among small singular values (COARSE): up to 0.03 on logs
# that cover the target, 0.3 to 1 where it leaves them.
IDENTIFIED, IDENTIFIED_SINGLE = 1e-3, 0.1
COARSE = 1e-5
# Single-precision features get this share of their mean square on the diagonal of `Ĉ`: what is smaller than that is rounding.
JITTER = 1e-10
# Features are single precision above this.
SINGLE = 1e-10


def solve(moments: Moments, ridge: float) -> ClosedForm:
    """Whiten the dual features, then one singular value decomposition; units of features do not matter."""
    with decomposing_threads(len(moments.mean("v"))):
        return _solve(moments, ridge)


@decomposing("The closed form")
def _solve(moments: Moments, ridge: float) -> ClosedForm:
    single = moments.precision > SINGLE
    A, b, C = moments.A, moments.b, moments.C
    if not all(np.isfinite(part).all() for part in (A, b, C)):
        raise InputError(
            "The sums of products of features and rewards overflowed; scale rewards and features to moderate numbers."
        )
    tolerance = 1e-7 if single else 100 * moments.precision
    jitter = JITTER * float(np.mean(np.diag(C)[1:])) if single else 0.0
    C[np.arange(1, len(C)), np.arange(1, len(C))] += jitter
    scale = _inverse(np.sqrt(np.diag(C)))
    spectrum = np.linalg.eigh(scale[:, None] * C * scale)
    whiten = _whitener(spectrum, scale, 100 * np.finfo(np.float64).eps)  # [rank, 1 + L]
    equations, target = whiten @ A, -whiten @ b
    size = equations.shape[1]
    squares = np.maximum(moments.mean("xx"), 0.0)
    columns = np.concatenate([[1.0], _inverse(np.sqrt(squares))])
    bare = _decompose(equations * columns, tolerance)
    used = bare
    if ridge > 0:
        columns = np.concatenate([[1.0], _inverse(np.sqrt(squares + ridge))])
        used = _decompose(np.concatenate([equations, np.sqrt(ridge) * np.eye(size)[1:]]) * columns, tolerance)
        target = np.concatenate([target, np.zeros(size - 1)])
    right = columns[:, None] * used.right  # [1 + K, rank]
    solution = right @ (used.left.T @ target / used.values)
    if used.null.shape[1]:
        solution = least_norm(solution, np.linalg.qr(columns[:, None] * used.null)[0], slice(1, None))
    primal = right @ (right[0] / used.values**2)
    residual = whiten.T @ (equations @ solution - target[: len(whiten)])
    if moments.same and ridge == 0 and len(whiten) == len(used.values):
        residual = np.zeros_like(residual)  # as many equations as unknowns: what is left over is rounding
    if single:
        coarse = equations[
            len(equations) - int(np.sum(spectrum[0] > COARSE * spectrum[0][-1])) :
        ]  # eigenvalues increase
        unidentified = _decompose(coarse * np.concatenate([[1.0], _inverse(np.sqrt(squares))]), COARSE).null[0]
    else:
        unidentified = bare.null[0]
    share = float(np.linalg.norm(unidentified))
    return ClosedForm(
        reward_rate=float(solution[0]),
        weights=solution[1:],
        residual=residual,
        rate_row=(-whiten.T @ (equations @ primal), primal),
        unidentified=share,
        rank=len(bare.values),
        conditioning=float(bare.values[-1] / bare.values[0]),
        ridge=ridge,
        jitter=jitter,
        is_identified=share <= (IDENTIFIED_SINGLE if single else IDENTIFIED),
    )


class _Decomposition(NamedTuple):
    """`M = left · diag(values) · rightᵀ`, and the null space."""

    left: Array
    values: Array
    right: Array
    null: Array


def _decompose(matrix: Array, tolerance: float) -> _Decomposition:
    rows, columns = matrix.shape
    q, triangle = (None, matrix) if rows <= columns else np.linalg.qr(matrix)  # with the same singular values
    u, s, vt = np.linalg.svd(triangle)
    rank = max(1, int(np.sum(s > tolerance * s[0])))
    left = u[:, :rank] if q is None else q @ u[:, :rank]
    return _Decomposition(left, s[:rank], vt[:rank].T, vt[rank:].T)


def _whitener(spectrum: tuple[Array, Array], scale: Array, tolerance: float) -> Array:
    """`W` with `Wᵀ W = C⁺`, from the eigenvalues and eigenvectors of `C` with features scaled to unit size."""
    values, vectors = spectrum
    kept = values > tolerance * values[-1]
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T * scale)


def _inverse(norms: Array) -> Array:
    return np.asarray(1 / np.where(norms > 0, norms, 1.0))
