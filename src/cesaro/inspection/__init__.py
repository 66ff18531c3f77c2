"""Looking at a log: evidence on how it was described, and proposals of how to describe it."""

from cesaro.inspection.inspection import Inspection, inspect

__all__ = ["Inspection", "inspect"]
