"""A log as a problem, the limit of a learned method on it, and the influence of every row on its rate.

At the limit `κ*` of `κ += α (G κ + h)` the mean of the rows' own updates `ψ` is zero, so that the influence of a row on the
rate is `p·ψ` with `p = −e_r̂ᵀ G⁺`. A step of Diff-GQ2 takes two rows; there `ψ` is the sum of what a row does as first and as
second one, averaged over the other (Hájek's projection of the two-sample mean). With `z = x' − x`, `c` and `z̄` means over rows:

| method | `ψ`, variable by variable |
|---|---|
| diff-sgq | `r̂: δ`, `w: δ x − η w` |
| diff-gq1 | `ν: (δ − yᵀν) y`, `r̂: yᵀν`, `w: −z yᵀν − η w` |
| diff-gq2 | `ν: (ρ − r̂)(x − c) − xᵀν x`, `w: −(z − z̄)(x − c)ᵀν − η w`, `r̂: ρ − r̂` |
| diff-gq3 | `ν: (δ − xᵀν) x`, `r̂: xᵀν − η r̂`, `w: −z xᵀν − η w` |
| diff-gq4 | `ν: (δ − xᵀν) x`, `r̂: δ`, `w: −z xᵀν − η w` |
| gradient-dice | `κ: τ z − f x`, `u: λ(τ − 1 − u)`, `θ: −x (zᵀκ + λu) − η θ`, `r̂: τR − r̂` |
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cesaro.checks import Array
from cesaro.data import Block, FeatureTransitions
from cesaro.linear import EmpiricalProblem, Stability
from cesaro.linear.fixed_point import least_norm
from cesaro.linear.system import LinearSystem
from cesaro.passes.influence import InfluencePass, Series
from cesaro.passes.moments import Moments
from cesaro.passes.prepare import Prepared, Rows
from cesaro.passes.ready import ReadyBlock


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


@dataclass(frozen=True)
class MethodLimit:
    """Where a method ends on the rows of a log.

    Attributes:
        method, ridge, lam: which one.
        reward_rate: the limit of `r̂`.
        weights: of `w`, or `θ` for GradientDICE, `[K]`.
        point: of all variables.
        offset: of the constant among the dual features, in the limit and in `p`.
        tests: dual variables of the features in the limit and in `p`, `[K, 2]`; the first is zero without a dual.
        values: `w` in the limit and in `p`, `[K, 2]`.
        on_rate: `p` at the rate.
        scalar: GradientDICE's `u` in the limit and in `p`.
        means: over rows, of `z·p_w`, of `x·ν` and of `x·p_ν`.
        level: the mean of the features under the target, as the limit implies it, `[K]`; zero for GradientDICE.
    """

    method: str
    ridge: float
    lam: float
    reward_rate: float
    weights: Array
    point: Array
    offset: tuple[float, float]
    tests: Array
    values: Array
    on_rate: float
    scalar: tuple[float, float]
    means: tuple[float, float, float]
    level: Array

    @staticmethod
    def of(problem: LinearSystem, found: Stability, *, ridge: float, lam: float) -> "MethodLimit":
        """Solve for the limit and for `p`."""
        order, reduced = found.mean.layout, found._reduced
        unit = np.zeros(order.size)
        unit[order.rate] = 1.0
        point = least_norm(reduced.solve(-found.mean.h)[0], reduced.null, order.weights)
        row = reduced.solve_transposed(-unit)
        values = np.stack([point[order.weights], row[order.weights]], axis=1)
        dual = np.stack([point[order.dual], row[order.dual]], axis=1)
        offset = scalar = (0.0, 0.0)
        if found.method == "diff-sgq":
            dual = np.zeros((len(values), 2))
        elif found.method == "diff-gq1":
            offset, dual = (float(dual[0, 0]), float(dual[0, 1])), dual[1:]
        elif found.method == "gradient-dice":
            scalar = float(point[order.dual.stop]), float(row[order.dual.stop])
        return MethodLimit(
            found.method,
            ridge,
            lam,
            float(point[order.rate]),
            point[order.weights],
            point,
            offset,
            dual,
            values,
            float(row[order.rate]),
            scalar,
            (float(problem.g @ values[:, 1]), float(problem.c @ dual[:, 0]), float(problem.c @ dual[:, 1])),
            _level(problem, found.method, float(row[order.rate]), offset[1], dual[:, 1], values[:, 1]),
        )

    def series(self, rows: Rows, per_weight: float = 1.0) -> Series:
        """Influence, density ratio (what the method multiplies TD errors with) and TD errors of some rows.

        `per_weight`: rows per unit of weight, in the whole log.
        """
        x = rows.x
        z = sp.csr_array(rows.x_next - x) if isinstance(x, sp.csr_array) else np.subtract(rows.x_next, x, dtype=float)
        shrink = self.ridge * float(self.values[:, 1] @ self.values[:, 0])
        if self.method == "gradient-dice":
            found = self._of_ratio(x, z, rows.rewards, shrink)
        else:
            found = self._of_values(x, z, rows.rewards, shrink)
        if rows.weights is None:
            return found
        return found._replace(influence=found.influence * (rows.weights * per_weight))

    def _of_ratio(self, x: Any, z: Any, rewards: Array, shrink: float) -> Series:
        here, there, tested = x @ self.values, z @ self.tests, x @ self.tests
        (u, on_u), ratio = self.scalar, here[:, 0]
        influence = ratio * there[:, 1] - tested[:, 0] * tested[:, 1] + on_u * self.lam * (ratio - 1 - u)
        influence += self.on_rate * (ratio * rewards - self.reward_rate)
        influence -= here[:, 1] * (there[:, 0] + self.lam * u) + shrink
        return Series(influence, ratio, np.zeros(len(ratio)))

    def _of_values(self, x: Any, z: Any, rewards: Array, shrink: float) -> Series:
        there = z @ self.values
        errors = rewards - self.reward_rate + there[:, 0]
        if self.method == "diff-sgq":
            ratio = self.on_rate + x @ self.values[:, 1]
            return Series(ratio * errors - shrink, ratio, errors)
        residual, tested = (x @ self.tests + self.offset).T
        back = -there[:, 1] * residual
        if self.method == "diff-gq2":
            on_z, on_residual, on_tested = self.means
            ratio = self.on_rate + tested - on_tested
            back = -(there[:, 1] - on_z) * (residual - on_residual)
        elif self.method == "diff-gq4":
            ratio = self.on_rate + tested
        else:
            ratio = tested
            back = back + self.on_rate * residual
            shrink += self.ridge * self.on_rate * self.reward_rate if self.method == "diff-gq3" else 0.0
        return Series(ratio * errors - tested * residual + back - shrink, ratio, errors)


def _level(
    problem: LinearSystem, method: str, on_rate: float, on_constant: float, on_dual: Array, on_w: Array
) -> Array:
    """The ratio of a value method is linear in the features, so that its mean with them follows from moments."""
    if method == "gradient-dice":
        return np.zeros(len(on_w))
    slope = on_w if method == "diff-sgq" else on_dual
    constant = {"diff-gq1": on_constant, "diff-gq3": 0.0}.get(method, on_rate)
    if method == "diff-gq2":
        constant -= float(problem.c @ slope)
    return np.asarray((constant * problem.c + problem.C2 @ slope) / (constant + float(problem.c @ slope)))


@dataclass(frozen=True)
class MethodPass(InfluencePass):
    """The second pass for a learned method: the influence of every row on its limit. Levels are known from moments."""

    solution: Any  # a MethodLimit

    def of_piece(self, prepared: Prepared, part: Block | ReadyBlock, number: int) -> tuple[Series | None, float]:
        rows = prepared.features_of(part, piece=number)
        found = self.solution.series(rows, self.plan.facts.rows / self.plan.facts.weight)
        return found, 0.0
