"""Would other features, or another method, say the same?"""

from collections.abc import Iterator

import numpy as np

from cesaro.data import FeatureTransitions
from cesaro.errors import InputError
from cesaro.estimators import closed_form, tabular
from cesaro.estimators.closed_form import Solution
from cesaro.estimators.diagnostics.finding import OTHERS, Diagnostic, Verdict, finding
from cesaro.estimators.diagnostics.subject import SecondMap, Subject
from cesaro.estimators.gathering import Gathering
from cesaro.estimators.influence import Estimate, Sampling
from cesaro.estimators.passes import Running, run_pass
from cesaro.estimators.pipeline import DUAL_MULTIPLE, Prepared
from cesaro.estimators.plug_in import PlugIn, plug_in, problem_of
from cesaro.estimators.series import influence
from cesaro.estimators.support import pair_table
from cesaro.features import ROWS_PER_FEATURE, FeatureMap, OneHot
from cesaro.features.base import Fourier
from cesaro.features.encoder import Encoder
from cesaro.features.maps import EncodedStates, Joint, PerAction
from cesaro.linear import METHODS

# The second map gets its own random numbers, and a kernel wider by this factor: with the same width it would err alike.
SECOND_SEED, WIDER = 104_729, 2.0
# Most features of the second map, over all actions: 100,000 rows take a second or two.
SECOND_SIZE = 200
# A difference beyond its own noise, and beyond the interval of the estimate; and the parts of the rate from which it matters, and
# from which noise is no excuse.
CLEAR, OUTSIDE = 3.0, 2.0
SMALL, LARGE = 0.02, 0.1
# The part of the rate that other features may leave open before the comparison means nothing.
OPEN = 0.1
# Plug-in stability of every method takes seconds up to here.
MOST_FEATURES, PLUG_IN_ROWS = 128, 20_000


def agreement(subject: Subject) -> Iterator[Diagnostic]:
    """The estimate against one from a second feature map on at most 100,000 rows; left out for one-hot and ready features."""
    prepared, name = subject.prepared, "agreement of features"
    if prepared.log is None or prepared.map is None:
        yield Diagnostic(name, None, "ok", "Features came ready: there is no second map to compare with.")
        return
    if isinstance(prepared.map, OneHot):
        yield Diagnostic(
            name, None, "ok", "One-hot features express every function of the logged pairs: no map says more."
        )
        return
    if not subject.has_series:
        return
    for second_map in (_pairs, _wider):
        try:
            other = second_map(subject)
            if other is None:
                continue
            second = prepared.with_map(other.map, other.extension).excerpt(prepared.sample.rows)
            found = _fit(second, other.map, _relative_ridge(subject))
        except InputError:  # too many levels or pairs, or pairs without data
            continue
        yield _compared(subject, second, found, other.map)
        return


def _pairs(subject: Subject) -> SecondMap | None:
    """Pairs themselves where they are discrete."""
    table = pair_table(subject.prepared)
    return None if table is None else SecondMap(table, None)


def _wider(subject: Subject) -> SecondMap | None:
    """Fourier features of a wider kernel, with other random numbers and the default's larger dual."""
    rows = subject.prepared.sample.rows
    finite = rows.actions.is_discrete
    actions = len(rows.actions.joint().levels) if finite else 1
    name = subject.features.partition(":")[0] if isinstance(subject.features, str) else ""
    like = subject.prepared.num_features if name in ("auto", "fourier") else subject.num_rows // ROWS_PER_FEATURE
    size = max(1, min(SECOND_SIZE, like) // actions)
    state = Encoder(rows.observations)
    action = None if finite else Encoder(rows.actions)
    inputs = state(rows.observations)
    if action is not None:
        inputs = np.concatenate([inputs, action(rows.actions)], axis=1)
    pair: list[PerAction | Joint] = []
    for multiple in (1, DUAL_MULTIPLE):
        base = Fourier(inputs, size * multiple, subject.prepared.random_state + SECOND_SEED, WIDER)
        pair.append(PerAction(EncodedStates(state, base), actions) if action is None else Joint((state, action), base))
    return SecondMap(pair[0], pair[1])


def _relative_ridge(subject: Subject) -> float:
    """The ridge over the mean square of features."""
    if subject.solution is None or subject.moments is None:
        return 0.0
    square = float(np.mean(subject.moments.mean("xx")))
    return subject.solution.ridge / square if square > 0 else 0.0


def _fit(prepared: Prepared, other: FeatureMap, relative_ridge: float) -> Solution:
    """The closed form in the second map."""
    moments = run_pass(Gathering(), prepared, Running(quiet=True)).moments
    if isinstance(other, OneHot):
        return tabular.solve(moments, 0.0, other.label)
    return closed_form.solve(moments, relative_ridge * float(np.mean(moments.mean("xx"))))


def _compared(subject: Subject, second: Prepared, found: Solution, other: FeatureMap) -> Diagnostic:
    """Both on the same rows: the first map's estimate there is its influence series' mean away from the whole log's."""
    sample, sampling = subject.prepared.sample, subject.sampling
    weights = sample.rows.weights
    weight = float(len(sample.index)) if weights is None else float(weights.sum())
    parts = [
        influence(second, found, part, number, len(sample.index) / weight)[0].influence
        for block in second.data.blocks()
        for number, part in enumerate(second.parts(block))
    ]
    series, here = np.concatenate(parts), subject.totals.at_sample.influence
    correction = float(series.mean())
    share = (weight / len(sample.index)) / (subject.facts.weight / subject.num_rows)
    value = found.reward_rate + correction - subject.estimate.value - float(here.mean()) / share
    deviations = series - correction - (here - here.mean()) / share
    groups = np.searchsorted(sampling.layout.stops, sample.index, side="right")
    lengths = np.unique(groups, return_counts=True)[1]
    difference = Sampling(sampling.rule, lengths, "").over_time().estimate(value, deviations)
    verdict = _verdict(difference, subject.estimate.standard_error, subject.scale)
    if found.unidentified > OPEN:
        return finding(
            "agreement of features",
            None,
            "caution",
            f"Other features ({other.description}) leave the rate open ({found.unidentified:.2g} of it).",
            "The log may not determine it beyond what the chosen features assume: compare more maps and ridges.",
        )
    return finding(
        "agreement of features",
        value,
        verdict,
        f"Other features ({other.description}) give a rate that is {value:+.3g} from this one, with a standard error of the "
        f"difference of {difference.standard_error:.2g} and rates of size {subject.scale:.3g}.",
        "Compare more maps and sizes; the interval does not cover what features cannot express.",
    )


def _verdict(difference: Estimate, error: float, scale: float) -> Verdict:
    size = abs(difference.value)
    clear = size > CLEAR * difference.standard_error
    if size > max(OUTSIDE * error, LARGE * scale):
        return "bad" if clear else "caution"
    return "caution" if clear and size > max(OUTSIDE * error, SMALL * scale) else "ok"


def learned_methods(subject: Subject) -> Iterator[Diagnostic]:
    """Would each learned method converge on this log, and with which steps? The closed form does not depend on it.

    Of networks nothing of the kind is known.
    """
    name = "learned methods"
    if not subject.is_linear:
        return
    if subject.prepared.num_features > MOST_FEATURES:
        yield Diagnostic(
            name,
            None,
            "ok",
            f"Steps and stability of learned methods are left out above {MOST_FEATURES} features; there are "
            f"{subject.prepared.num_features:,}.",
        )
        return
    rows = subject.sample
    kept = slice(None, None, -(-len(rows) // PLUG_IN_ROWS))
    weights = None if rows.weights is None else rows.weights[kept]
    data = FeatureTransitions(rows.x[kept], rows.rewards[kept], rows.x_next[kept], weights=weights)
    problem = problem_of(_merged(data) if isinstance(subject.prepared.map, OneHot) else data)
    for method in METHODS:
        yield _method(method, plug_in(problem, method, ridge=subject.ridge, lam=subject.lam))


def _merged(data: FeatureTransitions) -> FeatureTransitions:
    """Rows that are alike as one, with their weight and their mean reward: the same updates on average, and in their squares."""
    both = np.concatenate([data.x, data.x_next], axis=1)
    _, first, back = np.unique(
        both.view(f"V{both.itemsize * both.shape[1]}").ravel(), return_index=True, return_inverse=True
    )
    weights = np.bincount(back, data.weights)
    earned = data.rewards if data.weights is None else data.rewards * data.weights
    rewards = np.bincount(back, earned) / np.where(weights > 0, weights, 1.0)
    return FeatureTransitions(data.x[first], rewards, data.x_next[first], weights=weights)


def _method(method: str, stability: PlugIn) -> Diagnostic:
    name = f"{OTHERS}{method}"
    step = stability.max_step_sampled
    if not stability.converges or step is None:
        return Diagnostic(
            name,
            None,
            "caution",
            f"{method} would not converge on this log: {stability.reason}",
            f"Do not use {method} here; the closed form is not affected.",
        )
    steps = stability.time_constant(step / 2)
    count = f"{steps:,.0f}" if steps < 1e7 else f"{steps:.0e}"
    return Diagnostic(
        name,
        step,
        "ok",
        f"{method} converges on this log with steps up to {step:.2g}; at half of that, errors shrink by e every {count} steps.",
    )
