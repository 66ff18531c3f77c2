"""The second pass: the influence of every row on the rate, added up."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cesaro.checks import Array
from cesaro.data import Block
from cesaro.estimators.closed_form import Solution
from cesaro.estimators.facts import Plan
from cesaro.estimators.moments import Rows
from cesaro.estimators.pipeline import Prepared
from cesaro.estimators.ready import ReadyBlock
from cesaro.estimators.totals import Series, Totals

Pieces = list[tuple[Series | None, float]]


@dataclass(frozen=True)
class InfluencePass:
    """`IF = v·p_ν (δ − v·ν̂) − z·p_u (v·ν̂) − η p_u·I0û` (and the jitter's part), times the row's weight over the mean weight.

    Without a solution it is a pass over rewards alone.
    """

    plan: Plan
    solution: Solution | None
    label = "influence"

    def zero(self) -> Totals:
        return Totals.zero(self.plan, self.solution is not None)

    def restored(self, state: dict[str, Any]) -> Totals:
        return Totals.of_state(self.plan, state)

    def of_piece(self, prepared: Prepared, part: Block | ReadyBlock, number: int) -> tuple[Series | None, float]:
        """In a thread of its own."""
        if self.solution is None:
            return None, 0.0
        return influence(prepared, self.solution, part, number, self.plan.facts.rows / self.plan.facts.weight)

    def collect(self, so_far: Pieces | None, piece: tuple[Series | None, float]) -> Pieces:
        """Pieces of a block, in order."""
        return [piece] if so_far is None else [*so_far, piece]

    def of_block(self, prepared: Prepared, block: Block | ReadyBlock, pieces: Pieces) -> Totals:
        found = [series for series, _ in pieces if series is not None]
        level = sum(level for _, level in pieces)
        return Totals.of(self.plan, block, Series.joined(found) if found else None, level)


def influence(
    prepared: Prepared, solution: Solution, part: Block | ReadyBlock, number: int, per_weight: float
) -> tuple[Series, float]:
    """The series of some rows, and their sum of weight times ratio times value; `per_weight`: rows per unit of weight."""
    return influence_of(prepared.features_of(part, piece=number), solution, per_weight)


def influence_of(rows: Rows, solution: Solution, per_weight: float) -> tuple[Series, float]:
    """The same of rows as features."""
    (dual, primal), residual, weights = solution.rate_row, solution.residual, solution.weights
    exact = not residual.any()
    tests = dual[1:, None] if exact else np.stack([dual[1:], residual[1:]], axis=1)
    values = weights[:, None] if exact else np.stack([weights, primal[1:]], axis=1)
    there = rows.x_next @ values
    if rows.v is rows.x:  # one product, since it converts the features
        both = rows.x @ np.concatenate([tests, values], axis=1)
        on_dual, here = both[:, : tests.shape[1]], both[:, tests.shape[1] :]
    else:
        on_dual, here = rows.v @ tests, rows.x @ values
    change = there - here
    errors = rows.rewards - solution.reward_rate + change[:, 0]
    ratio = on_dual[:, 0] + dual[0]
    found: Array = ratio * errors
    if not exact:
        left = on_dual[:, 1] + residual[0]
        found -= (ratio + change[:, 1] - primal[0]) * left
    found -= solution.ridge * float(primal[1:] @ weights) + solution.jitter * float(dual[1:] @ residual[1:])
    weighted = ratio
    if rows.weights is not None:
        found *= rows.weights * per_weight
        weighted = ratio * rows.weights
    return Series(found, ratio, errors), float(weighted @ here[:, 0])
