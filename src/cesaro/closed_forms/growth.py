"""How many components smooth features have: as many as the log can bear.

More components express more functions, so that the estimate's limit comes closer to the truth, and they add noise. The noise is
known before the answer is: the spread of the rows' influence on the rate. Taken are as many components as keep it within `NOISE`
of the least so far. The rate itself has no say in it, so that the interval stays what it is.
"""

import numpy as np

from cesaro.closed_forms import dense
from cesaro.features import sample_rows
from cesaro.features.maps import Joint, PerAction
from cesaro.passes.influence import ClosedForm, influence_of
from cesaro.passes.moments import Moments
from cesaro.passes.prepare import FeatureRows, Prepared
from cesaro.passes.run import joined_rows

# Of components, tried in this order; then twice as many each time.
FIRST = 5
# The spread of influence, over the least so far, up to which components are added.
NOISE = 1.4
# Sampled rows that tell the spread.
ROWS = 20_000


def bounded(prepared: Prepared) -> Prepared:
    """The rows in as many components as may be chosen at the most: the first pass needs no others."""
    full = prepared.map
    if not prepared.grows or not isinstance(full, Joint | PerAction) or not full.components:
        return prepared
    most = _sizes(full.components)[-1]
    return prepared if most == full.components else prepared.with_fewer(full.with_components(most))


def grown(prepared: Prepared, moments: Moments, ridge: float) -> tuple[Prepared, Moments, ClosedForm | None]:
    """The rows in as many components as the log can bear, their moments and solution; where none are to be chosen, the first two
    as they were.
    """
    full = prepared.map
    if not prepared.grows or not isinstance(full, Joint | PerAction) or not full.components:
        return prepared, moments, None
    rows = _sampled(prepared)
    per_weight = 1.0 if rows.weights is None else len(rows) / float(rows.weights.sum())
    kept: tuple[Prepared, Moments, ClosedForm | None] = prepared, moments, None
    least = np.inf
    for components in _sizes(full.components):
        smaller = full.with_components(components)
        chosen = np.asarray(full.first(np.arange(full.size)[None], smaller.size)[0])
        part = moments.with_features(chosen)
        solution = dense.solve(part, ridge)
        x, x_next = (full.first(features, smaller.size) for features in (rows.x, rows.x_next))
        some = FeatureRows(x, rows.rewards, x_next, x if rows.v is rows.x else rows.v, rows.weights)
        series = influence_of(some.multiplied(*solution.vectors), solution, per_weight).series
        assert series is not None
        spread = float(np.std(series.influence))
        if spread > NOISE * least:
            break
        kept = prepared if smaller.size == full.size else prepared.with_fewer(smaller), part, solution
        if solution.is_identified:
            least = min(least, spread)
    return kept


def _sizes(most: int) -> list[int]:
    sizes = [0, FIRST]
    while 2 * sizes[-1] <= most:
        sizes.append(2 * sizes[-1])
    return [size for size in sizes if size <= most]


def _sampled(prepared: Prepared) -> FeatureRows:
    """Some of the sampled rows as features, or all of a short log."""
    if prepared.num_rows <= ROWS:
        return joined_rows(prepared)
    sample = prepared.sample.rows
    part = prepared.excerpt(sample.part(sample_rows(len(sample), prepared.random_state, ROWS)))
    return joined_rows(part)
