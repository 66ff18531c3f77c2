"""The influence of every row on the rate, in one pass over the log."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cesaro.checks import Array
from cesaro.estimators.closed_form import Solution
from cesaro.estimators.pipeline import Prepared


class Series(NamedTuple):
    """One number per row, and what they say of the whole.

    Attributes:
        influence: of each row on the rate, `[n]`, with mean zero.
        ratio: the estimated density ratio `d_π/d_μ`, `[n]`, with mean one.
        errors: TD errors, `[n]`.
        correction: the mean of the influence before it was centered: what rounding of the moments left of the rate.
        level: the mean value under the target, which centers the values.
    """

    influence: Array
    ratio: Array
    errors: Array
    correction: float
    level: float


def influence_series(prepared: Prepared, solution: Solution, advance: Callable[[], None] = lambda: None) -> Series:
    """`IF = v·p_ν (δ − v·ν̂) − z·p_u (v·ν̂) − η p_u·I0û` (and the jitter's part), times the row's weight over the mean weight.

    `advance` is called after each block.
    """
    (dual, primal), residual, weights = solution.rate_row, solution.residual, solution.weights
    exact = not residual.any()
    tests = dual[1:, None] if exact else np.stack([dual[1:], residual[1:]], axis=1)
    values = weights[:, None] if exact else np.stack([weights, primal[1:]], axis=1)
    influence, ratio, errors = np.empty((3, prepared.num_rows))
    level = 0.0
    start = 0
    for block in prepared.rows():
        for piece in block.pieces():
            rows = slice(start, start + len(piece))
            start = rows.stop
            on_dual, here, there = piece.v @ tests, piece.x @ values, piece.x_next @ values
            change = there - here
            errors[rows] = piece.rewards - solution.reward_rate + change[:, 0]
            ratio[rows] = on_dual[:, 0] + dual[0]
            influence[rows] = ratio[rows] * errors[rows]
            if not exact:
                left = on_dual[:, 1] + residual[0]
                influence[rows] -= (ratio[rows] + change[:, 1] - primal[0]) * left
            weighted = ratio[rows] if piece.weights is None else ratio[rows] * piece.weights
            level += float(weighted @ here[:, 0])
        advance()
    influence -= solution.ridge * float(primal[1:] @ weights) + solution.jitter * float(dual[1:] @ residual[1:])
    total = float(prepared.num_rows)
    if prepared.weights is not None:
        total = float(prepared.weights.sum())
        influence *= prepared.weights * (prepared.num_rows / total)
    correction = float(influence.mean())
    influence -= correction
    return Series(influence, ratio, errors, correction, level / total)
