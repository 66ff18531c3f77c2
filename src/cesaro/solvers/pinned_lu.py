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

# Links that eliminating a state may touch on average before the chain counts as one that fills up.
FILL_PER_STATE = 20


class PinnedLU:
    """The factors of `I − P` without the reference state."""

    name = "sparse LU"

    def __init__(self, chain: sp.csr_array, reference: int) -> None:
        self.reference = reference
        self._others = np.delete(np.arange(chain.shape[0]), reference)
        away = laplacian(chain)
        self._row = np.asarray(chain[[reference]][:, self._others].todense()).ravel()
        matrix = sp.csc_array(away[self._others][:, self._others])
        self._factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})

    def stationary(self) -> Array:
        """The stationary law, `[S]`."""
        law = np.zeros(len(self._others) + 1)
        law[self.reference] = 1.0
        law[self._others] = np.maximum(self._factors.solve(self._row, trans="T"), 0.0)
        return np.asarray(law / law.sum())

    def values(self, excess: Array) -> Array:
        """A solution of `(I − P) v = excess` with `v = 0` at the reference state."""
        values = np.zeros(len(self._others) + 1)
        values[self._others] = self._factors.solve(excess[self._others])
        return values


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
