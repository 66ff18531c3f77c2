"""The coverage study."""

from cesaro.reproduce.coverage.run import QUICK, RULES, Config, Result, batch_means, intervals, rows, run

__all__ = ["QUICK", "RULES", "Config", "Result", "batch_means", "intervals", "rows", "run"]
