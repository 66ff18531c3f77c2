"""The stall study."""

from cesaro.reproduce.stall.networks import rate_force
from cesaro.reproduce.stall.run import HELD, QUICK, Config, Key, Result, run

__all__ = ["HELD", "QUICK", "Config", "Key", "Result", "rate_force", "run"]
