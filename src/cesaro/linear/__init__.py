"""Linear function approximation on a known MDP or on the rows of a log: matrices, fixed points, limits and stability, exactly.

NumPy and SciPy in float64. `n = |S||A|` pairs; `X [n, K]` features; `Y = [1, X]`; `d` the sampling distribution,
`D = diag(d)`; `P` the transition matrix over pairs under the target policy.
"""

from cesaro.linear.fixed_point import FixedPoint
from cesaro.linear.methods import METHODS
from cesaro.linear.problem import Assumption, AssumptionReport, ErrorBounds, LinearProblem
from cesaro.linear.stability import Limit, Stability
from cesaro.linear.system import EmpiricalProblem, LinearSystem, rate_force

__all__ = [
    "METHODS",
    "Assumption",
    "AssumptionReport",
    "EmpiricalProblem",
    "ErrorBounds",
    "FixedPoint",
    "Limit",
    "LinearProblem",
    "LinearSystem",
    "Stability",
    "rate_force",
]
