"""Solvers for one chain, and the choice among them by structure."""

from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order

from cesaro.mdp import Chain
from cesaro.solvers.krylov import Krylov
from cesaro.solvers.pinned_lu import PinnedLU, has_low_fill
from cesaro.solvers.state_reduction import BLOCK, StateReduction

__all__ = ["Krylov", "PinnedLU", "Solver", "StateReduction", "choose"]

Solver: TypeAlias = StateReduction | PinnedLU | Krylov

# Up to this many states a sparse chain is solved as a dense one: a second at most, and the most accurate way.
DENSE_STATES = 2_000
# What state reduction may cost: floating-point operations (some ten seconds) and stored numbers (2 GiB).
BAND_FLOPS = 4e11
BAND_NUMBERS = 2**28


def choose(chain: Chain, reference: int) -> Solver:
    """A solver for a unichain with the given recurrent reference state.

    Dense or small: state reduction. Banded around the reference: banded state reduction. Low fill under elimination:
    sparse LU. Everything else: GMRES, which answers only if it can show its accuracy; where it cannot and the chain is not too
    large, state reduction again.
    """
    size = chain.shape[0]
    if not isinstance(chain, sp.csr_array):
        return StateReduction(chain, _reference_first(size, reference))
    order, bandwidth = _band(chain, reference)
    width = bandwidth + BLOCK
    if 4 * bandwidth <= size and 2.0 * size * width**2 <= BAND_FLOPS and 2.0 * size * width <= BAND_NUMBERS:
        return StateReduction(chain, order, bandwidth)
    if size <= DENSE_STATES:
        return StateReduction(chain.toarray(), _reference_first(size, reference))
    if has_low_fill(chain):
        return PinnedLU(chain, reference)
    solver = Krylov(chain)
    if 2 / 3 * size**3 <= BAND_FLOPS and not solver.converges:
        return StateReduction(chain.toarray(), _reference_first(size, reference))
    return solver


def _reference_first(size: int, reference: int) -> NDArray[np.intp]:
    return np.concatenate([[reference], np.delete(np.arange(size), reference)])


def _band(chain: sp.csr_array, reference: int) -> tuple[NDArray[np.intp], int]:
    """Breadth-first order from the reference (every state of a unichain is linked to it), and its bandwidth."""
    graph = sp.csr_array(chain + chain.T)
    order = breadth_first_order(graph, reference, directed=False, return_predecessors=False)
    position = np.empty(len(order), dtype=np.intp)
    position[order] = np.arange(len(order))
    edges = graph.tocoo()
    return order.astype(np.intp), int(np.max(np.abs(position[edges.row] - position[edges.col]), initial=0))
