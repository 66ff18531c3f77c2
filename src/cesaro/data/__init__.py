"""Transitions in the forms that estimators and learners take."""

from cesaro.data.blocks import Block, Sample, Stretch
from cesaro.data.log import Log
from cesaro.data.reader import read
from cesaro.data.sorting import sort
from cesaro.data.transitions import FeatureTransitions, Transitions
from cesaro.data.values import Categories, Values

__all__ = [
    "Block",
    "Categories",
    "FeatureTransitions",
    "Log",
    "Sample",
    "Stretch",
    "Transitions",
    "Values",
    "read",
    "sort",
]
