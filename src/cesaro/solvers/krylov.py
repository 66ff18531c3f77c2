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
from cesaro.solvers.pinned_lu import EPSILON, FORWARD_ERROR, check_error, laplacian

RESTART, CYCLES = 40, 6


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
        order = 1 if apply == self._apply_transposed else np.inf
        sensitivity = self.inverse_norm  # first: it fails fast where nothing converges
        solution = np.zeros(self._size)
        for _ in range(3):  # the first pass and two refinements
            solution = solution + self._gmres(apply, right - apply(solution), 1e-12)
            # What is left over, and what rounding hides of it: rows of I − P have norm at most 2.
            left_over = np.abs(right - apply(solution)) + 12 * EPSILON * np.abs(solution)
            error, size = (float(np.linalg.norm(v, order)) for v in (left_over, solution))
            error *= sensitivity
            if error <= FORWARD_ERROR * size:
                break
        check_error(error, size, what, self.name)
        return solution

    def _gmres(self, apply: Callable[[Array], Array], right: Array, tolerance: float) -> Array:
        operator = LinearOperator((self._size, self._size), matvec=lambda x: apply(np.ravel(x)), dtype=np.float64)
        return np.asarray(gmres(operator, right, rtol=tolerance, atol=0.0, restart=RESTART, maxiter=CYCLES)[0])

    @property
    def converges(self) -> bool:
        """Whether the iteration converges on this chain."""
        try:
            return self.inverse_norm > 0
        except ToleranceError:
            return False

    @cached_property
    def inverse_norm(self) -> float:
        """`‖(I − P + 1 mᵀ)⁻¹‖_∞`, estimated from a few solves, each of which must show that it converged."""

        def solver(apply: Callable[[Array], Array]) -> Callable[[Array], Array]:
            def solve(right: Array) -> Array:
                solution = self._gmres(apply, right.ravel(), 1e-6)
                left_over = float(np.linalg.norm(right.ravel() - apply(solution)))
                if left_over > 1e-5 * float(np.linalg.norm(right)):
                    raise ToleranceError(
                        f"No solver reaches the tolerance: after {RESTART * CYCLES} GMRES steps {left_over:.1e} of the right "
                        "side is left; the chain mixes too slowly for iteration and fills up under elimination; merge states, "
                        "or give a dense array if it fits in memory."
                    )
                return solution

            return solve

        shape = (self._size, self._size)
        forward, backward = solver(self._apply), solver(self._apply_transposed)
        inverse = LinearOperator(shape, matvec=backward, rmatvec=forward, dtype=np.float64)
        # SciPy draws from NumPy's global generator: seeded, so that answers repeat, and put back as it was.
        state = np.random.get_state()  # noqa: NPY002
        try:
            np.random.seed(0)  # noqa: NPY002
            estimate = float(onenormest(inverse))
        finally:
            np.random.set_state(state)  # noqa: NPY002
        return 3.0 * estimate  # estimates fall short by a factor of at most three in practice
