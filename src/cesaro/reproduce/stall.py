"""The documented place of `rate_force`, which is a function of `cesaro.linear`; the study of that name is in `research/`."""

from cesaro.linear import rate_force

__all__ = ["rate_force"]
