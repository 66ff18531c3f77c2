"""The documented path of `rate_force` before the study became a folder; new code takes it from `cesaro.reproduce.stall`."""

from cesaro.reproduce.stall import rate_force

__all__ = ["rate_force"]
