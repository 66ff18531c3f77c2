"""A log as a problem, the limit of a learned method on it, and the influence of every row on its rate."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cesaro.checks import Array
from cesaro.data import Block, FeatureTransitions
from cesaro.linear import EmpiricalProblem
from cesaro.linear.methods import AffineForm, LimitPoint
from cesaro.linear.system import LinearSystem
from cesaro.passes.influence import Influence, InfluencePass, Series
from cesaro.passes.moments import Moments
from cesaro.passes.prepare import FeatureBlock, FeatureRows, Prepared


class LogProblem(EmpiricalProblem):
    """A whole log as a distribution of its own: expectations are those of all rows, from their moments; single rows are those
    of a sample.

    Args:
        sample: some rows.
        moments: of all rows, with the features as their own dual.
    """

    def __init__(self, sample: FeatureTransitions, moments: Moments) -> None:
        super().__init__(sample.x, sample.rewards, sample.x_next, sample.weights)
        self._moments = moments

    def _mean(self, name: str) -> Array:
        mean = self._moments.mean(name)
        return np.asarray(mean.toarray() if isinstance(mean, sp.sparray) else mean)

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


@dataclass(frozen=True)
class MethodLimit:
    """Where a method ends on the rows of a log.

    Attributes:
        form: of the method.
        at: the limit, and what turns the update of a row into its influence on the rate.
        level: the mean of the features under the target, as the limit implies it, `[K]`; zero for a method without values.
    """

    form: AffineForm
    at: LimitPoint
    level: Array

    @staticmethod
    def of(problem: LinearSystem, form: AffineForm, at: LimitPoint) -> "MethodLimit":
        """The limit of a method that has the influence of rows in closed form."""
        return MethodLimit(form, at, form.level(at, problem))

    def series(self, rows: FeatureRows, per_weight: float = 1.0) -> Series:
        """Influence, density ratio (what the method multiplies TD errors with) and TD errors of some rows.

        `per_weight`: rows per unit of weight, in the whole log.
        """
        x = rows.x
        z = sp.csr_array(rows.x_next - x) if isinstance(x, sp.csr_array) else np.subtract(rows.x_next, x, dtype=float)
        found = Series(*self.form.influence(self.at, x, z, rows.rewards))
        if rows.weights is None:
            return found
        return found._replace(influence=found.influence * (rows.weights * per_weight))


@dataclass(frozen=True)
class MethodPass(InfluencePass):
    """The second pass for a learned method: the influence of every row on its limit. Levels are known from moments."""

    solution: Any  # a MethodLimit

    def of_piece(self, prepared: Prepared, part: Block | FeatureBlock, number: int) -> list[Influence]:
        rows = prepared.features_of(part, piece=number)
        found = self.solution.series(rows, self.plan.facts.rows / self.plan.facts.weight)
        return [Influence(found, 0.0)]
