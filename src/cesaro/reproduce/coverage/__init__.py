"""How often intervals hold what they are for: logs of a fast and a sticky chain, features that fit and that do not.

An interval covers the limit of the estimator in its features under the law of the log, which the exact layer gives; what
features cannot express is no part of it. With one-hot features the influence series is a martingale difference, so that any
formula covers; the study therefore has features that do not fit, and a chain that hardly moves, where the formula for
independent rows must fail.
"""

from cesaro.reproduce.coverage.config import CoverageConfig as Config

__all__ = ["Config"]
