"""GMRES for large chains that mix fast, such as random graphs, where any factorization fills up.

With `m` the uniform law, `(I − P + 1 mᵀ) v = r` has one solution on every unichain, periodic ones included; it satisfies
`m·v = r_π` and `v = r − r_π 1 + P v`. Its transpose gives the stationary law: `(I − P + 1 mᵀ)ᵀ d = m`.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, gmres, onenormest

from cesaro.checks import Array
from cesaro.errors import ToleranceError
from cesaro.solvers.pinned_lu import laplacian

RESTART, CYCLES = 60, 20
# Promised forward errors: of the stationary law in the 1-norm, and of the values relative to their largest.
FORWARD_ERROR = 1e-9


class Krylov:
    """Iterative solutions, each accepted only with its residual and an estimate of its error."""

    name = "GMRES"

    def __init__(self, chain: sp.csr_array) -> None:
        self._size = chain.shape[0]
        self._forward = laplacian(chain)
        self._backward = sp.csr_array(self._forward.T)

    def _apply(self, v: Array) -> Array:
        return np.asarray(self._forward @ v + np.mean(v))

    def _apply_transposed(self, d: Array) -> Array:
        return np.asarray(self._backward @ d + np.sum(d) / self._size)

    def stationary(self) -> Array:
        """The stationary law, `[S]`, of an irreducible chain."""
        law = self._solve(self._apply_transposed, np.full(self._size, 1 / self._size), "stationary law")
        if law.min() < -FORWARD_ERROR:
            raise ToleranceError(f"The iterative solver returned a negative probability, {law.min():.1e}.")
        law = np.maximum(law, 0.0)
        for _ in range(2):  # a lazy step of the chain itself restores positivity and small entries
            law = np.maximum(law - 0.5 * (self._backward @ law), 0.0)
        return np.asarray(law / law.sum())

    def values(self, excess: Array) -> Array:
        """A solution of `(I − P) v = excess`."""
        return self._solve(self._apply, excess, "differential values")

    def _solve(self, apply: Callable[[Array], Array], right: Array, what: str) -> Array:
        operator = _operator(self._size, apply)
        solution = np.zeros(self._size)
        for _ in range(3):  # the first pass and two refinements
            residual = right - apply(solution)
            change, _ = gmres(operator, residual, rtol=1e-12, atol=0.0, restart=RESTART, maxiter=CYCLES)
            solution = solution + change
            residual = right - apply(solution)
            order = 1 if apply == self._apply_transposed else np.inf
            error = float(np.linalg.norm(residual, order)) * self.inverse_norm
            if error <= FORWARD_ERROR * max(float(np.linalg.norm(solution, order)), 1e-300):
                return np.asarray(solution)
        raise ToleranceError(
            f"No solver reaches the tolerance for the {what}: after {3 * RESTART * CYCLES} GMRES steps the estimated "
            f"relative error is {error / max(float(np.linalg.norm(solution, order)), 1e-300):.1e}, above "
            f"{FORWARD_ERROR:.0e}; the chain mixes too slowly for iteration and fills up under elimination; "
            "merge states, or give a dense array if it fits in memory."
        )

    @cached_property
    def inverse_norm(self) -> float:
        """`‖(I − P + 1 mᵀ)⁻¹‖_∞`, estimated from a few rough solves (an overestimate is harmless, so ×3)."""

        def rough(apply: Callable[[Array], Array]) -> Callable[[Array], Array]:
            operator = _operator(self._size, apply)
            return lambda b: np.asarray(gmres(operator, b.ravel(), rtol=1e-2, restart=RESTART, maxiter=CYCLES)[0])

        inverse = LinearOperator(
            (self._size, self._size),
            matvec=rough(self._apply_transposed),
            rmatvec=rough(self._apply),
            dtype=np.float64,
        )
        return 3.0 * float(onenormest(inverse))


def _operator(size: int, apply: Callable[[Array], Array]) -> LinearOperator:
    return LinearOperator((size, size), matvec=lambda x: apply(np.ravel(x)), dtype=np.float64)
