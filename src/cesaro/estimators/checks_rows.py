"""Do rows keep to what standard errors assume: one system over time, no row that decides alone, enough independent ones?"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f as fisher
from scipy.stats import t as student

from cesaro.checks import Array
from cesaro.estimators.checks_subject import Subject, at_least, at_most, finding, percent
from cesaro.estimators.diagnostics import Diagnostic, Verdict
from cesaro.estimators.influence import ENOUGH_CLUSTERS, Sampling, autocorrelation_time, long_run

# Two halves as different as these once in a thousand, or a million, logs without drift; and the size that matters.
DRIFT_CAUTION, DRIFT_BAD = 1e-3, 1e-6
MATERIAL = 0.1
# A reward this many robust standard deviations from the median: of a million exponential ones the largest is at 13. It is bad
# where such rewards bring most of the variance.
OUTLIER, OUTLIER_BAD = 30.0, 0.5
# Rows that the variance rests on; of normal rows a third counts. The relative error of the variance is one over its root.
RESTS_CAUTION, RESTS_BAD = 50.0, 10.0
TOP = 0.001
# Independent rows that the series is worth, for a long-run variance that can be trusted.
LENGTHS_CAUTION, LENGTHS_BAD = 500.0, 50.0
# Long-run over plain variance of rows that count as independent: its estimate from 24 cosines is below 2.5 without dependence.
DEPENDENT_CAUTION, DEPENDENT_BAD = 2.5, 5.0
# Trajectories, weighted by their length, that clustered standard errors rest on.
CLUSTERS_BAD = 10.0
# Few trajectories that differ like this once in a thousand, or a million, logs if they are alike.
UNLIKE_CAUTION, UNLIKE_BAD = 1e-3, 1e-6
# Correlation of successive TD errors: of no account below the first, and at least this many standard errors from zero.
MEMORY_CAUTION, MEMORY_BAD, MEMORY_ERRORS = 0.02, 0.2, 4.0
# Fewer rows than this say nothing about halves or memory.
ENOUGH_ROWS = 200
# TD errors below this part of the rewards are rounding.
ROUNDING = 1e-9
# Rows without a transition: more than a few are a selection.
DROPPED_CAUTION, DROPPED_BAD = 0.05, 0.2


def over_rows(subject: Subject) -> Iterator[Diagnostic]:
    """Dropped rows, drift, outliers, dependence, trajectories, memory."""
    yield from dropped(subject)
    if np.isfinite(subject.influence).all():
        if not subject.prepared.is_logged:
            yield from drift(subject)
            yield influential_rows(subject.influence)
        yield autocorrelation(subject)
        yield from trajectories(subject)
    yield from reward_drift(subject)
    yield reward_outliers(subject.prepared.rewards)
    yield from memory(subject)


def dropped(subject: Subject) -> Iterator[Diagnostic]:
    """Rows that gave no transition: which ones is seldom a matter of chance."""
    if subject.log is None:
        return
    counts = subject.log.counts
    share = 1 - counts["kept"] / counts["rows"]
    reasons = {
        name.removeprefix("dropped: "): number for name, number in counts.items() if name.startswith("dropped: ")
    }
    cut = reasons.get("cut", 0)
    listed = ", ".join(f"{number:,} {name}" for name, number in reasons.items())
    yield finding(
        "dropped rows",
        share,
        at_most(share, DROPPED_CAUTION, DROPPED_BAD),
        f"{percent(share)} of the log's {counts['rows']:,} rows gave no transition{f' ({listed})' if listed else ''}.",
        "Times are cut at gaps; where steps are irregular by nature, keep the order and do not cut (gap=None, --gap none)."
        if cut > share * counts["rows"] / 2
        else "Log next observations, or longer trajectories: what is left may differ from what was dropped.",
    )


class Change(NamedTuple):
    """Second half minus first."""

    value: float
    standard_error: float
    p_value: float


def change(influence: Array, sampling: Sampling, weights: Array | None) -> Change | None:
    """The mean of the second half minus that of the first, as standard errors see rows; None where halves are too small."""
    second = _second_half(sampling, len(influence))
    halves = []
    for mask in (~second, second):
        part = influence[mask] if weights is None else influence[mask] * (weights.mean() / weights[mask].mean())
        groups = None if sampling.groups is None else np.unique(sampling.groups[mask], return_inverse=True)[1]
        if len(part) < ENOUGH_ROWS // 2 or (sampling.rule == "clustered" and (groups is None or groups.max() < 1)):
            return None
        mean = float(part.mean())
        halves.append(Sampling(sampling.rule, groups, "").estimate(mean, part - mean))
    value = halves[1].value - halves[0].value
    variances = np.array([half.standard_error**2 for half in halves])
    if not variances.any():
        return Change(value, 0.0, float(value == 0))
    shares = variances / variances.max()  # no square overflows
    freedom = shares.sum() ** 2 / sum(v**2 / half.degrees_of_freedom for v, half in zip(shares, halves))  # Welch
    error = float(np.sqrt(variances.sum()))
    return Change(value, error, float(2 * student.sf(abs(value) / error, freedom)))


def _second_half(sampling: Sampling, n: int) -> NDArray[np.bool_]:
    """Later trajectories where there are many, the later part of each where there are few, later rows without any."""
    row, groups = np.arange(n), sampling.groups
    if groups is None or sampling.rule == "independent":
        return row >= n // 2
    lengths = np.bincount(groups)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    if sampling.rule == "clustered":
        return np.asarray((starts + lengths / 2)[groups] >= n / 2)
    return np.asarray(row - starts[groups] >= lengths[groups] / 2)


def drift(subject: Subject) -> Iterator[Diagnostic]:
    """The rate of the target from the first and from the second half of the log."""
    found = change(subject.influence, subject.sampling, subject.prepared.weights)
    if found is None:
        return
    verdict: Verdict = "ok"
    if found.p_value < DRIFT_CAUTION:
        verdict = "bad" if found.p_value < DRIFT_BAD and abs(found.value) > MATERIAL * subject.scale else "caution"
    yield finding(
        "drift",
        found.value,
        verdict,
        f"The second half of the log gives a rate that is {found.value:+.3g} from the first's, with a standard error of "
        f"{found.standard_error:.2g} (p = {found.p_value:.2g}).",
        "The system changed, or features miss something: evaluate recent data alone, or add what changed to the observation.",
    )


def reward_drift(subject: Subject) -> Iterator[Diagnostic]:
    """The mean reward of both halves; other logging policies are a harmless cause, so that only `logged` can be bad."""
    found = change(subject.behavior_influence, subject.sampling.over_time(), subject.prepared.weights)
    if found is None:
        return
    spread, logged = float(subject.prepared.rewards.std()), subject.prepared.is_logged
    verdict: Verdict = "ok"
    if found.p_value < DRIFT_CAUTION and abs(found.value) > MATERIAL * spread:
        verdict = "bad" if logged and found.p_value < DRIFT_BAD else "caution"
    harmless = "Harmless if only the logging policies changed; the finding on drift tells."
    yield finding(
        "reward drift",
        found.value,
        verdict,
        f"The mean reward of the second half of the log is {found.value:+.3g} from the first's, with a standard error of "
        f"{found.standard_error:.2g} (p = {found.p_value:.2g}) and a spread of rewards of {spread:.3g}.",
        "Evaluate a stationary part of the log." if logged else harmless,
    )


def reward_outliers(rewards: Array) -> Diagnostic:
    """Distances from the median in robust standard deviations: wide enough for rare but regular rewards."""
    distance = np.abs(rewards - np.median(rewards))
    low, high = np.quantile(rewards, [0.005, 0.995])
    spread = max(1.4826 * float(np.median(distance)), float(high - low) / 5.15)  # both one for normal rewards
    if spread == 0 and distance.any():
        spread = 1.4826 * float(np.median(distance[distance > 0]))
    largest = float(distance.max()) / spread if spread > 0 else 0.0
    far = distance > OUTLIER * spread if spread > 0 else np.zeros(len(rewards), dtype=bool)
    variance = float(np.sum((rewards - rewards.mean()) ** 2))
    share = float(np.sum((rewards[far] - rewards.mean()) ** 2)) / variance if variance > 0 else 0.0
    verdict: Verdict = "ok" if not far.any() else "bad" if share > OUTLIER_BAD else "caution"
    row = int(np.argmax(distance))
    return finding(
        "reward outliers",
        largest,
        verdict,
        f"The reward farthest from the median is {largest:.3g} robust standard deviations away."
        if not far.any()
        else f"{far.sum():,} rewards are more than {OUTLIER:g} robust standard deviations from the median, such as "
        f"{rewards[row]:g} at transition {row:,}; they bring {percent(share)} of the rewards' variance.",
        "Check these rows for wrong units, sentinels or typing errors.",
    )


def influential_rows(influence: Array) -> Diagnostic:
    """How many rows the variance of the estimate rests on, `(ΣIF²)²/ΣIF⁴`: a normal limit needs many."""
    largest = float(np.abs(influence).max())
    squares = (influence / largest if largest > 0 else influence) ** 2  # no square overflows
    total = float(squares.sum())
    value = total**2 / float(squares @ squares) if total > 0 else float(len(influence))
    top = max(1, round(TOP * len(influence)))
    share = float(np.partition(squares, -top)[-top:].sum()) / total if total > 0 else 0.0
    which = "the most influential one brings" if top == 1 else f"the {top:,} most influential ones bring"
    return finding(
        "influential rows",
        value,
        at_least(value, RESTS_CAUTION, RESTS_BAD),
        f"The variance of the estimate rests on about {value:,.0f} rows of {len(influence):,}; {which} {percent(share)} of it.",
        "Look at the most influential rows: a few rare pairs or rewards decide, and the interval is rough.",
    )


def autocorrelation(subject: Subject) -> Diagnostic:
    """How many rows are worth one independent row."""
    length = autocorrelation_time(subject.influence, subject.sampling.groups)
    lengths = subject.num_rows / length
    verdict = at_least(lengths, LENGTHS_CAUTION, LENGTHS_BAD)
    remedy = "Collect a longer log; the interval may be too short."
    if subject.sampling.rule == "independent":
        as_independent = at_most(length, DEPENDENT_CAUTION, DEPENDENT_BAD)
        if as_independent != "ok":
            verdict = as_independent if verdict != "bad" else "bad"
            remedy = (
                "Rows count as independent and are not: name trajectory and time, or take standard_errors='long-run'."
            )
    return finding(
        "autocorrelation",
        length,
        verdict,
        f"Rows count about as independent ones, and there are {lengths:,.0f}."
        if length < 1.5
        else f"About {length:.2g} rows are worth one independent row of the estimate; the log has {lengths:,.0f} such lengths.",
        remedy,
    )


def trajectories(subject: Subject) -> Iterator[Diagnostic]:
    """Enough clusters, none too large; or few trajectories that tell the same."""
    groups = subject.sampling.groups
    if groups is None or subject.sampling.rule == "independent":
        return
    lengths = np.bincount(groups)
    if subject.sampling.rule == "clustered":
        value = float(len(groups) ** 2 / (lengths.astype(float) @ lengths))
        verdict = at_least(value, ENOUGH_CLUSTERS, CLUSTERS_BAD)
        yield finding(
            "trajectories",
            value,
            verdict,
            f"Standard errors rest on {len(lengths):,} trajectories, by their lengths worth {value:,.0f} equal ones.",
            "Collect more trajectories, or take standard_errors='long-run'.",
        )
    elif len(lengths) > 1:
        p_value = _alike(subject.influence, groups, lengths)
        verdict = at_least(p_value, UNLIKE_CAUTION, UNLIKE_BAD)
        yield finding(
            "trajectories",
            p_value,
            verdict,
            f"The {len(lengths)} trajectories differ "
            f"{'no more than' if verdict == 'ok' else 'more than'} their own noise explains (p = {p_value:.2g}).",
            "Evaluate them one by one, or add what tells them apart; few cannot stand for others.",
        )


def _alike(influence: Array, groups: NDArray[np.int64], lengths: NDArray[np.int64]) -> float:
    """An F test of the trajectories' means against the long-run variance within them."""
    means = np.bincount(groups, weights=influence) / lengths
    between, freedom = float(lengths @ (means - influence.mean()) ** 2), len(lengths) - 1
    within = long_run(0.0, influence - means[groups], groups)
    inner = within.degrees_of_freedom - freedom  # the means are zero now, and counted
    squares = within.standard_error**2 * len(influence) * within.degrees_of_freedom
    if inner <= 0 or squares <= 0:
        return 1.0
    return float(fisher.sf((between / freedom) / (squares / inner), freedom, inner))


def memory(subject: Subject) -> Iterator[Diagnostic]:
    """Successive TD errors are uncorrelated if the state tells all that matters for the next, and features express it."""
    if subject.series is None or subject.log is None or not len(subject.series.errors):
        return
    if subject.sampling.rule == "independent":
        return
    errors, used = subject.series.errors, subject.series.ratio != 0
    size = max(float(np.abs(subject.prepared.rewards).max()), abs(subject.estimate.value))
    if (
        float(np.abs(errors).max()) <= ROUNDING * size
    ):  # a method without values has none; constant rewards leave rounding
        return
    segment = subject.log.segment
    pairs = used[1:] & used[:-1] & (segment[1:] == segment[:-1])
    if pairs.sum() < ENOUGH_ROWS:
        return
    errors = errors / np.abs(errors).max()  # no square overflows
    first, second = errors[:-1][pairs], errors[1:][pairs]
    product = first * second
    spread, total = float(np.sqrt(product @ product)), float(np.sqrt((first @ first) * (second @ second)))
    correlation = float(product.sum()) / total if total > 0 else 0.0
    verdict: Verdict = "ok"
    if abs(float(product.sum())) > MEMORY_ERRORS * spread:
        verdict = at_most(abs(correlation), MEMORY_CAUTION, MEMORY_BAD)
    yield finding(
        "memory",
        correlation,
        verdict,
        f"Successive errors of the prediction have a correlation of {correlation:+.2g}; it is zero where the observation tells "
        "all that matters for what comes next, and the features express it.",
        "Add to the observation what it leaves out, such as earlier states or the time of day; then try more features.",
    )
