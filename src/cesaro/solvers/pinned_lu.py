"""Sparse LU for chains whose graph is sparse under elimination (trees, stars, renewal chains with a hub).

Bordering the singular system `(I − P) v = r − g 1` with `v_ref = 0` and eliminating the border leaves the equations without
the reference state: a non-singular M-matrix `M`, factored without pivoting. Its diagonal is the sum of the off-diagonal
entries, so that no digits are lost there.
"""

import heapq

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from cesaro.checks import Array
from cesaro.errors import ToleranceError

# Promised errors: of the stationary law in the 1-norm, and of the values relative to their largest.
FORWARD_ERROR = 1e-9
EPSILON = float(np.finfo(np.float64).eps)

# Links that eliminating a state may touch on average before the chain counts as one that fills up.
FILL_PER_STATE = 20


class PinnedLU:
    """The factors of `I − P` without the reference state.

    The inverse of `M` is non-negative, so that its norm is the largest entry of `M⁻¹ 1`: the longest expected time to reach the
    reference. That makes the error of every solution known, and answers beyond `FORWARD_ERROR` are refused.
    """

    name = "sparse LU"

    def __init__(self, chain: sp.csr_array, reference: int) -> None:
        self.reference = reference
        self._others = np.delete(np.arange(chain.shape[0]), reference)
        self._row = np.asarray(chain[[reference]][:, self._others].todense()).ravel()
        self._matrix = sp.csc_array(laplacian(chain)[self._others][:, self._others])
        self._factors = splu(
            self._matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
        times = self._factors.solve(np.ones(len(self._others)))
        self._inverse_norm = float(times.max()) if np.isfinite(times).all() and times.min() > 0 else np.inf

    def stationary(self) -> Array:
        """The stationary law, `[S]`."""
        law = np.zeros(len(self._others) + 1)
        law[self.reference] = 1.0
        law[self._others] = np.maximum(self._solve(self._row, "T", "stationary law"), 0.0)
        return np.asarray(law / law.sum())

    def values(self, excess: Array) -> Array:
        """A solution of `(I − P) v = excess` with `v = 0` at the reference state."""
        values = np.zeros(len(self._others) + 1)
        values[self._others] = self._solve(excess[self._others], "N", "differential values")
        return values

    def _solve(self, right: Array, trans: str, what: str) -> Array:
        matrix, order = (self._matrix.T, 1) if trans == "T" else (self._matrix, np.inf)
        solution = self._factors.solve(right, trans=trans)
        solution += self._factors.solve(right - matrix @ solution, trans=trans)
        # What is left over, and what rounding hides of it.
        left_over = np.abs(right - matrix @ solution) + 4 * EPSILON * (np.abs(matrix) @ np.abs(solution))
        error = self._inverse_norm * float(np.linalg.norm(left_over, order))
        check_error(error, float(np.linalg.norm(solution, order)), what, self.name)
        return np.asarray(solution)


def check_error(error: float, size: float, what: str, solver: str) -> None:
    """Raise unless a solution of this size has at most this error."""
    if not error <= FORWARD_ERROR * max(size, 1e-300):
        raise ToleranceError(
            f"No solver reaches the tolerance for the {what}: the error of {solver} may be {error / max(size, 1e-300):.1e} of "
            f"its size, above {FORWARD_ERROR:.0e}; the chain nearly falls apart; merge states, or give a dense array if it fits."
        )


def laplacian(chain: sp.csr_array) -> sp.csr_array:
    """`I − P` with a diagonal summed from the off-diagonal entries."""
    diagonal = sp.diags_array(chain.diagonal())
    off = sp.csr_array(chain - diagonal)
    off.eliminate_zeros()
    return sp.csr_array(sp.diags_array(np.asarray(off.sum(axis=1)).ravel()) - off)


def has_low_fill(chain: sp.csr_array) -> bool:
    """Whether greedy minimum-degree elimination touches at most `FILL_PER_STATE` links per state.

    A symbolic run on the graph; it stops as soon as the budget is spent, so that a random graph costs little.
    """
    size = chain.shape[0]
    graph = sp.csr_array(chain + chain.T)
    neighbors: dict[int, set[int]] = {}

    def links_of(state: int) -> set[int]:
        if state not in neighbors:
            neighbors[state] = set(graph.indices[graph.indptr[state] : graph.indptr[state + 1]].tolist()) - {state}
        return neighbors[state]

    heap = list(zip(np.diff(graph.indptr).tolist(), range(size)))
    heapq.heapify(heap)
    budget = FILL_PER_STATE * size
    while heap:
        degree, state = heapq.heappop(heap)
        near = links_of(state)
        if degree != len(near):  # an old entry, or one that counted a self-loop
            if degree > len(near) > 0:
                heapq.heappush(heap, (len(near), state))
            continue
        budget -= 1 + degree * degree
        if budget < 0:
            return False
        for other in near:
            links = links_of(other)
            links.discard(state)
            links |= near
            links.discard(other)
            heapq.heappush(heap, (len(links), other))
        neighbors[state] = set()
    return True
