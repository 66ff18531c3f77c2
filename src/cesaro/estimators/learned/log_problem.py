"""`LogProblem`: a whole log as a distribution of its own, of which only moments and a sample of rows are at hand."""

from functools import cached_property

import numpy as np

from cesaro.checks import Array
from cesaro.data import FeatureTransitions
from cesaro.estimators.moments import Moments
from cesaro.linear import EmpiricalProblem


class LogProblem(EmpiricalProblem):
    """Expectations are those of all rows, from their moments; single rows are those of the sample.

    Args:
        sample: some rows.
        moments: of all rows, with the features as their own dual.
    """

    def __init__(self, sample: FeatureTransitions, moments: Moments) -> None:
        super().__init__(sample.x, sample.rewards, sample.x_next, sample.weights)
        self._moments = moments

    def _mean(self, name: str) -> Array:
        mean = self._moments.mean(name)
        return np.asarray(mean.toarray() if hasattr(mean, "toarray") else mean)

    @cached_property
    def B(self) -> Array:
        return self._mean("vz")

    @cached_property
    def c(self) -> Array:
        return self._mean("v")

    @cached_property
    def g(self) -> Array:
        return self._mean("z")

    @cached_property
    def C2(self) -> Array:
        return self._mean("vv")

    @cached_property
    def b3(self) -> Array:
        return self._mean("vR")

    @cached_property
    def squares(self) -> Array:
        return self._mean("xx")

    @property
    def mean_reward(self) -> float:
        return float(self._moments.mean("R"))

    @cached_property
    def A2(self) -> Array:
        return self.B - np.outer(self.c, self.g)

    @cached_property
    def b2(self) -> Array:
        return self.b3 - self.c * self.mean_reward
