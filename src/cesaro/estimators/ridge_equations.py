"""The normal equations of one-hot features with a ridge: `(ηI0 + MᵀDM) u = −MᵀD r̄`.

`M = [−1, P̂ − I]` on logged pairs and `D` holds their shares. A log that mixes fast fills up any factorization, and conjugate
gradients need few steps there; a log that mixes slowly, such as one of a queue, is the other way round.
"""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import LinearOperator, cg, splu

from cesaro.checks import Array
from cesaro.estimators.closed_form import Solution

# Up to so many unknowns any factorization is quick.
SMALL = 1_000
# Operations of a banded elimination: a second or so.
BANDED = 1e9
# Steps of conjugate gradients: systems that need more are badly conditioned. Logs with 100,000 pairs take seconds for these.
STEPS = 3_000
# What a second pass may correct, relative to the solution: its own error is about the square of that.
CORRECTION = 1e-5
# Normal equations with at least this share of entries are factored as dense ones, up to so many unknowns (some 200 MB).
FILLED, DENSE = 0.02, 5_000


def solve(step: sp.csr_array, rewards: Array, shares: Array, logged: NDArray[np.intp], ridge: float) -> Solution:
    """The rate and the weights, and what their influence needs; `step` is `P̂ − I` on logged pairs, `[logged, K]`."""
    size, root = len(shares), np.sqrt(shares[logged])
    equations = sp.csr_array(sp.diags_array(root) @ sp.hstack([-np.ones((len(logged), 1)), step]))
    penalty = np.concatenate([[0.0], np.full(size, ridge)])
    right, unit = -equations.T @ (root * rewards), np.eye(1, 1 + size)[0]
    direct = size <= SMALL or _is_banded(step, logged)
    found = None if direct else _iterated(equations, penalty, (right, unit))
    if found is None:
        inverse = _factored(equations, penalty)
        found = [inverse(right), inverse(unit)]
    solution, primal = found
    residual, dual = np.zeros(1 + size), np.zeros(1 + size)
    residual[1 + logged] = (equations @ solution) / root + rewards
    dual[1 + logged] = -(equations @ primal) / root
    return Solution(float(solution[0]), solution[1:], residual, (dual, primal), 0.0, 1 + size, float("nan"), ridge)


def _is_banded(step: sp.csr_array, logged: NDArray[np.intp]) -> bool:
    """Whether pairs can be numbered so that each is linked to near ones only."""
    size = step.shape[1]
    place = sp.csr_array((np.ones(len(logged)), (logged, np.arange(len(logged)))), shape=(size, len(logged)))
    square = sp.csr_array(place @ abs(step))
    graph = sp.csr_array(square + square.T)
    position = np.empty(size, dtype=np.intp)
    position[reverse_cuthill_mckee(graph, symmetric_mode=True)] = np.arange(size)
    links = graph.tocoo()
    width = 2.0 * np.max(np.abs(position[links.row] - position[links.col]), initial=0)  # of the normal equations
    return bool(size * width**2 <= BANDED)


def _iterated(equations: sp.csr_array, penalty: Array, rights: tuple[Array, ...]) -> list[Array] | None:
    """Conjugate gradients, scaled to a unit diagonal, with one refinement; None where they do not settle."""
    size, backward = len(penalty), sp.csr_array(equations.T)
    diagonal = np.asarray(equations.power(2).sum(axis=0)).ravel() + penalty
    scale = 1 / np.sqrt(diagonal)

    def apply(x: Array) -> Array:
        scaled = scale * x
        return np.asarray(scale * (backward @ (equations @ scaled) + penalty * scaled))

    normal = LinearOperator((size, size), matvec=apply, dtype=np.float64)
    found = []
    for right in rights:
        target = scale * right
        first, failed = cg(normal, target, rtol=1e-10, atol=0.0, maxiter=STEPS)
        if failed:
            return None
        second, failed = cg(normal, target - apply(first), rtol=1e-6, atol=0.0, maxiter=STEPS)
        if failed or not np.linalg.norm(second) <= CORRECTION * np.linalg.norm(first):
            return None
        found.append(np.asarray(scale * (first + second)))
    return found


def _factored(equations: sp.csr_array, penalty: Array) -> Callable[[Array], Array]:
    size = len(penalty)
    normal = sp.csc_array(equations.T @ equations + sp.diags_array(penalty))
    if size <= DENSE and normal.nnz >= FILLED * size**2:
        factors = lu_factor(normal.toarray())
        return lambda right: np.asarray(lu_solve(factors, right))
    # Symmetric and positive definite: without pivoting, and with the dense row of the rate last.
    sparse = splu(normal, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return lambda right: np.asarray(sparse.solve(right))
