"""How often the intervals of `DiffLSTD` hold what they are for: simulated logs of a known chain, and the exact limit.

An interval covers the limit of the estimator in its features under the law of the log, which the exact layer gives; what
features cannot express is no part of it. With one-hot features the influence series is a martingale difference, so that any
formula covers; the study therefore has features that do not fit, and a chain that hardly moves, where the formula for
independent rows must fail.
"""

from cesaro.reproduce.coverage.config import QUICK, Config, rows
from cesaro.reproduce.coverage.result import RULES, Cell, Result
from cesaro.reproduce.coverage.run import batch_means, intervals, run
from cesaro.reproduce.coverage.show import plot

__all__ = [
    "QUICK",
    "RULES",
    "Cell",
    "Config",
    "Result",
    "batch_means",
    "intervals",
    "plot",
    "rows",
    "run",
]
