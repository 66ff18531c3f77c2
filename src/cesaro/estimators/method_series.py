"""The limit of a learned method on the rows of a log, and the influence of every row on its rate.

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

from typing import NamedTuple

import numpy as np

from cesaro.checks import Array
from cesaro.linear import EmpiricalProblem, Stability
from cesaro.linear.fixed_point import least_norm


class LimitSeries(NamedTuple):
    """Where a method ends on these rows.

    Attributes:
        reward_rate: the limit of `r̂`.
        weights: of `w`, or `θ` for GradientDICE, `[K]`.
        point: of all variables.
        influence: of each row on the rate, `[n]`, with mean zero; a row's weight is counted in.
        ratio: the density ratio that the method implies at each row, `[n]`: what it multiplies TD errors with.
        errors: TD errors, `[n]`; zeros for GradientDICE.
    """

    reward_rate: float
    weights: Array
    point: Array
    influence: Array
    ratio: Array
    errors: Array


def limit_series(problem: EmpiricalProblem, found: Stability, *, ridge: float, lam: float) -> LimitSeries:
    """Solve for the limit, then one pass over the rows."""
    order, reduced = found.mean.layout, found._reduced
    unit = np.zeros(order.size)
    unit[order.rate] = 1.0
    point = least_norm(reduced.solve(-found.mean.h)[0], reduced.null, order.weights)
    row = reduced.solve_transposed(-unit)
    rate, weights, dual = float(point[order.rate]), point[order.weights], point[order.dual]
    on_rate, on_weights, on_dual = float(row[order.rate]), row[order.weights], row[order.dual]
    x, z = problem.X, problem.difference
    shrink = ridge * float(on_weights @ weights)
    if found.method == "gradient-dice":
        here = x @ np.stack([weights, dual, on_weights, on_dual], axis=1)
        there = z @ np.stack([dual, on_dual], axis=1)
        u, on_u = float(point[order.dual.stop]), float(row[order.dual.stop])
        ratio, f = here[:, 0], here[:, 1]
        influence = ratio * there[:, 1] - f * here[:, 3] + on_u * lam * (ratio - 1 - u)
        influence += on_rate * (ratio * problem.r - rate) - here[:, 2] * (there[:, 0] + lam * u) - shrink
        errors = np.zeros(len(ratio))
    elif found.method == "diff-sgq":
        errors = problem.r - rate + z @ weights
        ratio = on_rate + x @ on_weights
        influence = ratio * errors - shrink
    else:
        offset, on_offset = (dual[0], on_dual[0]) if found.method == "diff-gq1" else (0.0, 0.0)
        features = slice(1, None) if found.method == "diff-gq1" else slice(None)
        here, there = (
            x @ np.stack([dual[features], on_dual[features]], axis=1),
            z @ np.stack([weights, on_weights], axis=1),
        )
        errors = problem.r - rate + there[:, 0]
        residual, tested = here[:, 0] + offset, here[:, 1] + on_offset
        back = -there[:, 1] * residual
        if found.method == "diff-gq2":
            ratio = on_rate + tested - float(problem.d @ tested)
            back = -(there[:, 1] - float(problem.d @ there[:, 1])) * (residual - float(problem.d @ residual))
        elif found.method == "diff-gq4":
            ratio = on_rate + tested
        else:
            ratio = tested
            back = back + on_rate * residual
            shrink += ridge * on_rate * rate if found.method == "diff-gq3" else 0.0
        influence = ratio * errors - tested * residual + back - shrink
    influence = influence * problem.d * len(influence)
    return LimitSeries(rate, weights, point, influence - influence.mean(), ratio, errors)
