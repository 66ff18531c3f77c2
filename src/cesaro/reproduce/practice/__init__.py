"""The practice study."""

from cesaro.reproduce.practice.run import QUICK, Config, run

__all__ = ["QUICK", "Config", "run"]
