"""Section 3's counterexample: Diff-SGQ diverges at every step size, Diff-GQ1 and Diff-GQ2 converge.

Rewards are zero, so that every update is linear, κ ← (I + αG_k) κ, and the solution is 0. A run is summed up by its Lyapunov
exponent, the growth of log ‖(r̂, w)‖ per unit of `samples · α`: positive, it leaves every bound; negative, it goes to 0.

Diff-SGQ, expected: both eigenvalues λ of G = A have a positive real part, and then |1 + αλ|² = 1 + 2α Re λ + α²|λ|² > 1 for every
α > 0. Sampled: the exponents of a product of random matrices add up to E log |det(I + αG_k)|, so that the largest is at least
half of it; here that is `lower_bound`, positive for every α > 0 but those within 10⁻⁵ of 1, where one matrix is singular.
"""

from cesaro.reproduce.counterexample.config import CounterexampleConfig as Config

__all__ = ["Config"]
