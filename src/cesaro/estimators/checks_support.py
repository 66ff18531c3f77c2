"""Does the log reach where the target goes, and with how many rows?"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data import Transitions
from cesaro.data.values import Categories, Values
from cesaro.errors import InputError
from cesaro.estimators.checks_equations import first_moments
from cesaro.estimators.checks_subject import CHUNK, Subject, at_least, at_most, finding, percent, spectrum
from cesaro.estimators.diagnostics import Diagnostic
from cesaro.estimators.influence import autocorrelation_time
from cesaro.estimators.support import unlogged
from cesaro.features import SAMPLE, OneHot, sample_rows

# Probability of the target where the log has nothing: a hundredth is a detail, a tenth decides the answer.
OUTSIDE_CAUTION, OUTSIDE_BAD = 0.01, 0.1
# Of logged rows, one in a thousand lies beyond this quantile of the leverage.
LEVERAGE_QUANTILE = 0.999
# Next states with a level that no row starts from: features know nothing of it.
LEVELS_CAUTION, LEVELS_BAD = 0.001, 0.05
# Independent rows of the target that the log is worth: intervals rest on a normal limit.
EFFECTIVE_CAUTION, EFFECTIVE_BAD = 500.0, 100.0
# A density ratio has no negative part; where the estimated one does, features cannot express it.
NEGATIVE_CAUTION, NEGATIVE_BAD = 0.1, 0.3


def support(subject: Subject) -> Iterator[Diagnostic]:
    """Never-logged pairs or leverage; levels seen only at next states; effective sample size; negative ratio."""
    pairs = never_logged(subject)
    yield pairs if pairs is not None else leverage(subject)
    if subject.log is not None:
        yield from only_after(subject, subject.log)
    if subject.series is not None:
        yield effective_rows(subject, subject.series.ratio)
        if not isinstance(subject.prepared.map, OneHot):  # there it is a stationary law over shares
            yield negative_ratio(subject, subject.series.ratio)


def never_logged(subject: Subject) -> Diagnostic | None:
    """For discrete logs: the target's probability, over logged next states, of pairs that were never logged."""
    found = unlogged(subject.prepared)
    if found is None:
        return None
    table, mass = found
    share = float(mass.sum())
    verdict = at_most(share, OUTSIDE_CAUTION, OUTSIDE_BAD)
    top = [table.label(pair) for pair in np.argsort(-mass, kind="stable")[:3] if mass[pair] > 0]
    where = f", first of all (s', a') = {', '.join(top)}" if top else ""
    return finding(
        "support",
        share,
        verdict,
        f"At the logged next states, {percent(share)} of the target's probability is on pairs that were never logged{where}.",
        "Collect data there, or evaluate a policy closer to the log.",
    )


class Leverages(NamedTuple):
    """How far out pairs lie.

    Discrete pairs: the log's rows per row of that pair, infinite where it has none. Other features: `xᵀC⁻¹x`.

    Attributes:
        logged: of sampled rows of the log, `[n]`.
        target: of pairs `(s', a')` with `a'` drawn from the target, at the same rows, `[n]`.
        limit: what all but a thousandth of the logged ones stay below.
        drawn: whether the target's actions were drawn; else its mean features were taken.
        by_count: whether pairs are discrete.
    """

    logged: Array
    target: Array
    limit: float
    drawn: bool
    by_count: bool


def leverage(subject: Subject) -> Diagnostic:
    """The share of next pairs whose features stick out of the logged ones: `xᵀC⁻¹x` beyond all but a thousandth of the logged."""
    rows, found = subject.sample, feature_leverages(subject)
    beyond = found.target > found.limit * (1 + 1e-6)
    share = float(beyond.mean() if rows.weights is None else rows.weights @ beyond / rows.weights.sum())
    verdict = at_most(share, OUTSIDE_CAUTION, OUTSIDE_BAD)
    what = "the target's next pairs" if found.drawn else "next features"
    return finding(
        "support",
        share,
        verdict,
        f"{percent(share)} of {what} lie beyond the leverage of {100 * LEVERAGE_QUANTILE:g} % of the logged pairs, where "
        "features extrapolate.",
        "Collect data with actions like the target's, or evaluate a policy closer to the log.",
    )


def leverages(subject: Subject) -> Leverages:
    """Of discrete pairs by their rows, of others by their features."""
    log, policy = subject.log, subject.prepared.policy
    if log is None or policy is None or not (log.observations.is_discrete and log.actions.is_discrete):
        return feature_leverages(subject)
    try:
        table = OneHot(log.observations, log.next_observations, log.actions)
    except InputError:  # too many combinations to number
        return feature_leverages(subject)
    pairs = table.states(log.observations) * table.num_actions + log.actions.joint().codes
    counts = np.bincount(pairs if log.weights is None else pairs[log.weights > 0], minlength=table.size)
    index = sample_rows(len(log), subject.prepared.random_state)
    after = log.next_observations.take(index)
    drawn = policy.sample(after.plain(), np.random.default_rng([subject.prepared.random_state, 3])).astype(np.int64)
    with np.errstate(divide="ignore"):
        far = len(log) / counts
    logged = far[pairs[index]]
    logged = logged[np.isfinite(logged)]  # rows of weight zero are no data
    limit = float(np.quantile(logged, LEVERAGE_QUANTILE))
    return Leverages(logged, far[table.states(after) * table.num_actions + drawn], limit, True, True)


def feature_leverages(subject: Subject) -> Leverages:
    """`xᵀC⁻¹x` of the sample, and of the target's pairs after it."""
    rows = subject.sample
    _, gram = first_moments(subject, subject.moments)
    values, vectors, scale = spectrum(gram)
    floor = 100 * float(np.finfo(rows.x.dtype).eps) * values[-1]
    # Directions that the log never took have no variance: with a floor they count as far out.
    whiten = (scale[:, None] * vectors / np.sqrt(np.maximum(values, floor))).astype(rows.x.dtype)
    logged = _squares(rows.x, whiten)
    after = _drawn_pairs(subject)
    target = _squares(rows.x_next if after is None else after, whiten)
    return Leverages(logged, target, float(np.quantile(logged, LEVERAGE_QUANTILE)), after is not None, False)


def _squares(x: NDArray[np.floating], whiten: NDArray[np.floating]) -> Array:
    parts = [x[start : start + CHUNK] @ whiten for start in range(0, len(x), CHUNK)]
    return np.concatenate([np.einsum("nk,nk->n", part, part) for part in parts]).astype(np.float64)


def _drawn_pairs(subject: Subject) -> NDArray[np.floating] | None:
    """Features of `(s', a')` with `a'` drawn: their mean over the target's actions would hide rare ones. None without a log."""
    log, policy, chosen = subject.log, subject.prepared.policy, subject.prepared.map
    if log is None or policy is None or chosen is None:
        return None
    observations, rng = log.next_observations, np.random.default_rng([subject.prepared.random_state, 3])
    parts = []
    for start in range(0, len(subject.sampled), CHUNK):
        here = observations.take(subject.sampled[start : start + CHUNK])
        features = chosen.pairs(here, _as_logged(log, policy.sample(here.plain(), rng)))
        parts.append(np.asarray(features.toarray()) if isinstance(features, sp.csr_array) else features)
    return np.concatenate(parts)


def _as_logged(log: Transitions, drawn: NDArray[np.int64] | Array) -> Values:
    """Drawn actions in the form of the log's own."""
    form, names, levels = log.actions.form, log.actions.names, log.action_levels
    if levels is not None:
        return Values(form, names, (Categories(drawn, levels),))
    return Values(form, names, (drawn[:, 0] if form == "lone" and drawn.ndim == 2 else drawn,))


def only_after(subject: Subject, log: Transitions) -> Iterator[Diagnostic]:
    """Labels that next states have and states do not."""
    here, after, chosen = log.observations, log.next_observations, subject.prepared.map
    missing = np.zeros(subject.num_rows, dtype=bool)
    counts: dict[str, int] = {}
    if isinstance(chosen, OneHot):
        states = chosen.states(after)
        new = np.bincount(chosen.states(here), minlength=chosen.num_states) == 0
        missing = new[states]
        found = np.bincount(states[missing], minlength=chosen.num_states)
        counts = {chosen.state_label(int(k)): int(found[k]) for k in np.argsort(-found, kind="stable")[:3] if found[k]}
    elif any(isinstance(column, Categories) for column in here.columns):
        fitted = here.take(sample_rows(subject.num_rows, subject.prepared.random_state))  # the rows that encoders saw
        for name, column, seen in zip(here.names, after.columns, fitted.columns):
            if isinstance(column, Categories) and isinstance(seen, Categories):
                new = np.bincount(seen.codes, minlength=len(column.levels)) == 0
                missing |= new[column.codes]
                found = np.bincount(column.codes[new[column.codes]], minlength=len(column.levels))
                top = np.argsort(-found, kind="stable")[:3]
                counts |= {f"{name}={column.levels[k]}": int(found[k]) for k in top if found[k]}
    else:
        return
    share = float(missing.mean())
    verdict = at_most(share, LEVELS_CAUTION, LEVELS_BAD)
    names = sorted(counts, key=lambda key: -counts[key])[:3]
    logged = (
        "logged state"
        if subject.num_rows <= SAMPLE
        else f"logged state of the {SAMPLE:,} rows that features were fitted on"
    )
    such = f", such as {'; '.join(names)}, and features know nothing of it" if names else ""
    yield finding(
        "levels seen only after",
        share,
        verdict,
        f"{percent(share)} of the next states have a level that no {logged} has{such}.",
        "Log transitions that start there, or merge rare levels.",
    )


def effective_rows(subject: Subject, ratio: Array) -> Diagnostic:
    """`(Σρ)²/Σρ²`, over the autocorrelation length of the influence."""
    weighted = ratio if subject.prepared.weights is None else ratio * subject.prepared.weights
    squares = float(weighted @ weighted)
    rows = float(weighted.sum()) ** 2 / squares if squares > 0 else 0.0
    length = autocorrelation_time(subject.influence, subject.sampling.groups)
    value = rows / length
    verdict = at_least(value, EFFECTIVE_CAUTION, EFFECTIVE_BAD)
    return finding(
        "effective sample size",
        value,
        verdict,
        f"For this target the log is worth {rows:,.0f} of its {subject.num_rows:,} rows"
        + (
            f", and, as {length:.2g} rows are worth one independent row, {value:,.0f} of those."
            if length >= 1.5
            else "."
        ),
        "Collect more data, or evaluate a policy closer to the log; the interval is rough.",
    )


def negative_ratio(subject: Subject, ratio: Array) -> Diagnostic:
    """The negative part of the estimated density ratio."""
    weighted = ratio if subject.prepared.weights is None else ratio * subject.prepared.weights
    total = float(np.abs(weighted).sum())
    share = float(np.abs(weighted[weighted < 0]).sum()) / total if total > 0 else 0.0
    verdict = at_most(share, NEGATIVE_CAUTION, NEGATIVE_BAD)
    return finding(
        "negative density ratio",
        share,
        verdict,
        f"{percent(share)} of the weight that the estimate gives to rows is negative, where a density ratio has none.",
        "Take other or more features; the target may be far from the log.",
    )
