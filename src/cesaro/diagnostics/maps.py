"""Would other features, or another method, say the same?"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from cesaro.closed_forms.plug_in import PlugIn, plug_in, problem_of
from cesaro.data import FeatureTransitions
from cesaro.diagnostics.finding import Check, Diagnostic, Verdict
from cesaro.diagnostics.subject import Subject, solved
from cesaro.engines.local import ONE_THREAD
from cesaro.errors import InputError
from cesaro.features import ROWS_PER_COMPONENT, ROWS_PER_FEATURE, FeatureMap, OneHot, build
from cesaro.linear.methods import ALWAYS_CONVERGE, METHODS
from cesaro.passes.standard_errors import Estimate
from cesaro.passes.support import pair_table
from cesaro.text import Sentence, Wording, argument, percent

# Other maps get their own random numbers.
OTHER_SEED = 104_729
# Most features of another map, over all actions: 100,000 rows take a second or two.
OTHER_SIZE = 200
# Standard errors of a difference that are beyond noise: with three maps about one log in thirty has one by chance.
CLEAR = 2.5
# A clear difference of so many standard errors of the estimate, and of such a part of the rate, is another answer.
OUTSIDE, LARGE = 2.0, 0.1
# Relative to rates: logs without noise have no standard errors.
ROUNDING = 1e-6
# A map says nothing that leaves so much of the rate open, or whose influence spreads so much wider than the estimate's.
OPEN, WIDE = 0.1, 10.0
# Plug-in stability of every method takes seconds up to here.
MOST_FEATURES, PLUG_IN_ROWS = 128, 20_000

AGREEMENT_OF_FEATURES = Check(
    "agreement of features",
    number=(
        "the rate in features of another kind (Fourier, polynomials, polynomials with splines) minus this one; of "
        "several, the one that is farthest beyond noise"
    ),
    caution=(
        f"one differs by more than noise ({CLEAR:g} SE of the paired difference), and the answer's interval reaches "
        "there; or none of them determines the rate"
    ),
    bad=f"more than noise, over both {OUTSIDE:g} SE and {percent(LARGE)} of the scale, and not by fewer features than these",
    meaning="the choice of features matters more than the noise of the log",
    remedy=(
        "compare the `--features` that the remedy names, and features that you know to suit the system (`--features "
        "FILE.py:NAME`); more rows"
    ),
)

LEARNING_BY_METHOD = Check(
    "learning by <method>",
    number="the largest stable step",
    caution="the method would not converge",
    meaning=f"one finding for each learned method, such as `learning by {ALWAYS_CONVERGE[0]}`",
    remedy="do not use that method here",
)

LEARNED_METHODS = Check(
    "learned methods",
    number="none",
    meaning=f"more than {MOST_FEATURES} features: stability is not looked at",
    remedy="nothing",
)


@dataclass(frozen=True)
class Compared:
    """Another map against the estimate.

    Attributes:
        features: the name that gives the map.
        what: the map, in words.
        difference: its rate minus the estimate, paired row by row.
        is_coarser: whether it has fewer features than the estimate, so that it is the one that may lack something.
    """

    features: str
    what: str
    difference: Estimate
    is_coarser: bool

    @property
    def size(self) -> float:
        """The size of the difference, in its standard errors."""
        error = self.difference.standard_error
        return abs(self.difference.value) / error if error > 0 else np.inf


def agreement(subject: Subject) -> Iterator[Diagnostic]:
    """The estimate against maps of other kinds, on at most 100,000 rows; left out for one-hot and ready features.

    Where they disagree beyond noise, the answer's interval reaches to each of them.
    """
    prepared = subject.prepared
    if prepared.log is None or prepared.map is None:
        yield AGREEMENT_OF_FEATURES.found(
            None, "ok", "The features came with the data: there are no others to compare with."
        )
        return
    if isinstance(prepared.map, OneHot):
        yield AGREEMENT_OF_FEATURES.found(
            None, "ok", "One-hot features express everything about the logged pairs: no others say more."
        )
        return
    if not subject.has_series:
        return
    table = pair_table(prepared)
    compared = [] if table is None else list(_compared(subject, [("one-hot", table)]))
    if not compared:
        compared = list(_compared(subject, _other_maps(subject)))
    if not compared:
        yield AGREEMENT_OF_FEATURES.found(
            None,
            "caution",
            f"Features of other kinds give no usable rate: each leaves more than {percent(OPEN)} of it undetermined, or is more "
            f"than {WIDE:g} times as noisy.",
            Sentence(
                "The log may determine the rate only by what the chosen features assume: compare the answer with {linear}, "
                "{polynomial} and {ridge}.",
                linear=argument("features", "linear"),
                polynomial=argument("features", "polynomial:2"),
                ridge=Wording("ridge=1e-3", "--ridge 1e-3"),
            ),
        )
        return
    error, scale = subject.estimate.standard_error, subject.scale
    clear = [one for one in compared if one.size > CLEAR and abs(one.difference.value) > ROUNDING * scale]
    moves = [one.difference.value for one in clear]
    widens = (max(0.0, -min(moves, default=0.0)), max(0.0, *moves, 0.0))
    weighty = [abs(one.difference.value) for one in clear if not one.is_coarser]
    far = max(weighty, default=0.0) > max(OUTSIDE * error, LARGE * scale)
    verdict: Verdict = "ok" if not clear else "bad" if far else "caution"
    decisive = [one for one in clear if not (far and one.is_coarser)]
    shown = (
        max(decisive, key=lambda one: abs(one.difference.value)) if clear else max(compared, key=lambda one: one.size)
    )
    moved = shown.difference
    found = AGREEMENT_OF_FEATURES.found(
        moved.value,
        verdict,
        f"Other features ({shown.what}) give a rate that differs from this one by {abs(moved.value):.3g} (standard error "
        f"{moved.standard_error:.2g}), "
        + (
            f"which noise explains. Kinds of features compared: {len(compared)}."
            if not clear
            else "more than noise explains; the interval was widened to reach it."
        ),
        Sentence(
            "Compare the answer with {other} and with features that you know to suit the system ({own}), or collect more rows. "
            "The interval does not cover what none of these features can express.",
            other=argument("features", shown.features),
            own=Wording("features=FUNCTION", "--features FILE.py:NAME"),
        ),
    )
    yield replace(found, widens=widens)


def _other_maps(subject: Subject) -> Iterator[tuple[str, FeatureMap]]:
    """Fourier features, polynomials, and polynomials with splines, as large as they may be."""
    prepared, rows = subject.prepared, subject.prepared.sample.rows
    assert prepared.log is not None
    assert prepared.map is not None
    actions = len(rows.actions.joint().levels) if rows.actions.is_discrete else 1
    most = min(OTHER_SIZE, len(rows) // ROWS_PER_COMPONENT)
    waves = max(1, min(OTHER_SIZE, len(rows) // ROWS_PER_FEATURE) // actions)
    for specs in ((f"fourier:{waves}",), ("polynomial:3", "polynomial:2"), ("smooth:0",)):
        for spec in specs:
            try:
                made = build(
                    spec, prepared.log, random_state=prepared.random_state + OTHER_SEED, sample=prepared.sample
                )
            except InputError:  # too many
                continue
            if made.size <= most and made.description != prepared.map.description:
                yield spec, made
                break


def _relative_ridge(subject: Subject) -> float:
    """The ridge over the mean square of features."""
    if subject.solution is None or subject.moments is None:
        return 0.0
    square = float(np.mean(subject.moments.mean("xx")))
    return subject.solution.ridge / square if square > 0 else 0.0


def _compared(subject: Subject, maps: Iterable[tuple[str, FeatureMap]]) -> Iterator[Compared]:
    """The maps that tell the rate, on the same rows: the estimate there is its influence's mean away from the whole log's."""
    prepared, sampling = subject.prepared, subject.sampling
    rows = prepared.sample.rows
    weight = float(len(rows)) if rows.weights is None else float(rows.weights.sum())
    share = (weight / len(rows)) / (subject.facts.weight / subject.num_rows)
    here = subject.totals.at_sample.influence / share
    groups = np.searchsorted(sampling.spans.stops, prepared.sample.index, side="right")
    lengths = np.unique(groups, return_counts=True)[1]
    over = replace(sampling, lengths=lengths).over_time()
    for features, other in maps:
        second = prepared.with_map(other).excerpt(rows)
        try:
            found, rows_series = solved(second, len(rows) / weight, _relative_ridge(subject))
        except InputError:  # too many levels or pairs, or pairs without data
            continue
        series = rows_series.influence
        if found.unidentified > OPEN or np.std(series) > WIDE * np.std(here):
            continue
        value = found.reward_rate + float(series.mean()) - subject.estimate.value - float(here.mean())
        deviations = series - series.mean() - (here - here.mean())
        is_coarser = other.size < prepared.num_features
        yield Compared(features, other.description, over.estimate(value, deviations), is_coarser)


def learned_methods(subject: Subject) -> Iterator[Diagnostic]:
    """Would each learned method converge on this log, and with which steps? The closed form does not depend on it.

    Of networks nothing of the kind is known.
    """
    if not subject.is_linear:
        return
    if subject.prepared.grows:
        yield LEARNED_METHODS.found(
            None,
            "ok",
            "Steps and stability of learned methods were not looked at: by default these use other features, at most 64.",
        )
        return
    if subject.prepared.num_features > MOST_FEATURES:
        yield LEARNED_METHODS.found(
            None,
            "ok",
            f"Steps and stability of learned methods are not looked at above {MOST_FEATURES} features; there are "
            f"{subject.prepared.num_features:,}.",
        )
        return
    rows = subject.sample
    kept = slice(None, None, -(-len(rows) // PLUG_IN_ROWS))
    weights = None if rows.weights is None else rows.weights[kept]
    data = FeatureTransitions(rows.x[kept], rows.rewards[kept], rows.x_next[kept], weights=weights)
    problem = problem_of(_merged(data) if isinstance(subject.prepared.map, OneHot) else data)
    for method in METHODS:
        with ONE_THREAD:  # products of many thin matrices: more threads wait for each other
            found = plug_in(problem, method, ridge=subject.ridge, lam=subject.lam)
        yield _method(method, found)


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
    step = stability.max_step_sampled
    if not stability.converges or step is None:
        return LEARNING_BY_METHOD.found(
            None,
            "caution",
            f"{method} would not converge on this log: {stability.reason}",
            f"Do not use {method} here; the closed form is not affected.",
            method=method,
        )
    steps = stability.time_constant(step / 2)
    count = f"{steps:,.0f}" if steps < 1e7 else f"{steps:.0e}"
    return LEARNING_BY_METHOD.found(
        step,
        "ok",
        f"{method} converges on this log with steps up to {step:.2g}; at half of that, errors shrink by e every {count} steps.",
        method=method,
    )
