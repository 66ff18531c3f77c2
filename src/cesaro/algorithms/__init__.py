"""The methods. Adding one touches a new file and a line here."""

from collections.abc import Callable

from cesaro.algorithms.base import Algorithm, Batch, Hyper, Info, Objective, State
from cesaro.algorithms.diff_gq1 import diff_gq1
from cesaro.algorithms.diff_gq2 import diff_gq2
from cesaro.algorithms.diff_gq3 import diff_gq3
from cesaro.algorithms.diff_gq4 import diff_gq4
from cesaro.algorithms.diff_sgq import diff_sgq
from cesaro.algorithms.gradient_dice import gradient_dice
from cesaro.algorithms.saddle_point import saddle_point
from cesaro.approximators import Approximator

__all__ = ["REGISTRY", "Algorithm", "Batch", "Hyper", "Info", "Objective", "State", "saddle_point"]

REGISTRY: dict[str, Callable[[Approximator, int], Objective]] = {
    "diff-sgq": diff_sgq,
    "diff-gq1": diff_gq1,
    "diff-gq2": diff_gq2,
    "diff-gq3": diff_gq3,
    "diff-gq4": diff_gq4,
    "gradient-dice": gradient_dice,
}
