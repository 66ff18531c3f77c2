"""The methods. Adding one touches a new file and a line here."""

from collections.abc import Callable

from cesaro.algorithms import diff_gq1, diff_gq2, diff_gq3, diff_gq4, diff_sgq, gradient_dice
from cesaro.algorithms.base import Algorithm, Batch, Hyper, Info, Objective, State
from cesaro.algorithms.saddle_point import saddle_point
from cesaro.approximators import Approximator

__all__ = [
    "DEFAULT",
    "FOR_NETWORKS",
    "REGISTRY",
    "Algorithm",
    "Batch",
    "Hyper",
    "Info",
    "Objective",
    "State",
    "saddle_point",
]

REGISTRY: dict[str, Callable[[Approximator, int], Objective]] = {
    "diff-sgq": diff_sgq.objective,
    "diff-gq1": diff_gq1.objective,
    "diff-gq2": diff_gq2.objective,
    "diff-gq3": diff_gq3.objective,
    "diff-gq4": diff_gq4.objective,
    "gradient-dice": gradient_dice.objective,
}
# What to begin with: linear functions, where it converges on every log, and networks.
DEFAULT, FOR_NETWORKS = "diff-gq1", "diff-sgq"
