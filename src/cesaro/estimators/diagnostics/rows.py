"""Do rows keep to what standard errors assume: one system over time, no row that decides alone, enough independent ones?"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.stats import f as fisher
from scipy.stats import t as student

from cesaro.checks import SMALLEST
from cesaro.estimators.diagnostics.finding import Diagnostic, Verdict, at_least, at_most, finding, percent
from cesaro.estimators.diagnostics.subject import Subject
from cesaro.estimators.influence import ENOUGH_CLUSTERS, Rule, by_rule, long_run
from cesaro.estimators.projection import Projection
from cesaro.estimators.totals import OUTLIER

# Two halves as different as these once in a thousand, or a million, logs without drift; and the size that matters.
DRIFT_CAUTION, DRIFT_BAD = 1e-3, 1e-6
MATERIAL = 0.1
# Outliers are bad where they bring most of the variance.
OUTLIER_BAD = 0.5
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
    """Dropped rows, tiny rewards, drift, outliers, dependence, trajectories, memory."""
    yield from dropped(subject)
    if 0 < subject.facts.largest < SMALLEST:
        yield tiny_rewards(subject)
        return
    if subject.has_series:
        yield from drift(subject)
        yield influential_rows(subject)
    if subject.has_series or subject.prepared.is_logged:
        yield autocorrelation(subject)
        yield from trajectories(subject)
    yield from reward_drift(subject)
    yield reward_outliers(subject)
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


def tiny_rewards(subject: Subject) -> Diagnostic:
    """Rewards whose squares a float64 cannot hold: everything that rests on their variance is lost."""
    largest = subject.facts.largest
    return finding(
        "tiny rewards",
        largest,
        "bad",
        f"Rewards are at most {largest:.3g} in size, and their squares are lost in double precision: there is no interval, and "
        "rows cannot be checked.",
        f"Multiply rewards by a constant, so that they reach {SMALLEST:g} at least.",
    )


class Change(NamedTuple):
    """Second half minus first."""

    value: float
    standard_error: float
    p_value: float


def change(parts: tuple[Projection, Projection], rule: Rule) -> Change | None:
    """The mean of the second half minus that of the first, as standard errors see rows; None where halves are too small."""
    halves = []
    for part in parts:
        if part.rows < ENOUGH_ROWS // 2 or (rule == "clustered" and len(part.layout) < 2):
            return None
        halves.append(by_rule(rule, part.mean, part.centered()))
    value = halves[1].value - halves[0].value
    variances = np.array([half.standard_error**2 for half in halves])
    if not variances.any():
        return Change(value, 0.0, float(value == 0))
    shares = variances / variances.max()  # no square overflows
    freedom = shares.sum() ** 2 / sum(v**2 / half.degrees_of_freedom for v, half in zip(shares, halves))  # Welch
    error = float(np.sqrt(variances.sum()))
    return Change(value, error, float(2 * student.sf(abs(value) / error, freedom)))


def drift(subject: Subject) -> Iterator[Diagnostic]:
    """The rate of the target from the first and from the second half of the log."""
    assert subject.totals.target is not None
    found = change(subject.totals.halves(subject.totals.target), subject.sampling.rule)
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
    totals = subject.totals
    found = change(totals.halves(totals.behavior), subject.sampling.over_time().rule)
    if found is None:
        return
    spread = totals.plan.unit * float(np.sqrt(totals.sums["rewards2"] / subject.num_rows))
    logged = subject.prepared.is_logged
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


def reward_outliers(subject: Subject) -> Diagnostic:
    """Distances from the median in robust standard deviations, both of the sampled rewards."""
    totals, plan = subject.totals, subject.totals.plan
    largest = totals.largest["distance"] / plan.width if plan.width > 0 else 0.0
    far, variance = int(totals.sums["far"]), totals.sums["rewards2"]
    share = totals.sums["far2"] / variance if variance > 0 else 0.0
    verdict: Verdict = "ok" if not far else "bad" if share > OUTLIER_BAD else "caution"
    row, reward = totals.outlier
    return finding(
        "reward outliers",
        largest,
        verdict,
        f"The reward farthest from the median is {largest:.3g} robust standard deviations away."
        if not far
        else f"{far:,} rewards are more than {OUTLIER:g} robust standard deviations from the median, such as "
        f"{reward:g} at transition {row:,}; they bring {percent(share)} of the rewards' variance.",
        "Check these rows for wrong units, sentinels or typing errors.",
    )


def influential_rows(subject: Subject) -> Diagnostic:
    """How many rows the variance of the estimate rests on, `(ΣIF²)²/ΣIF⁴`: a normal limit needs many."""
    totals, rows = subject.totals, subject.num_rows
    total = float(totals.influence.squares.sum()) / totals.plan.unit**2
    value = float(total**2 / totals.sums["influence4"]) if total > 0 else float(rows)
    squares = (totals.at_sample.influence / totals.plan.unit) ** 2
    top = max(1, round(TOP * len(squares)))
    share = float(np.partition(squares, -top)[-top:].sum() / squares.sum()) if squares.any() else 0.0
    top = max(1, round(TOP * rows))
    which = "the most influential one brings" if top == 1 else f"the {top:,} most influential ones bring"
    return finding(
        "influential rows",
        value,
        at_least(value, RESTS_CAUTION, RESTS_BAD),
        f"The variance of the estimate rests on about {value:,.0f} rows of {rows:,}; {which} {percent(share)} of it.",
        "Look at the most influential rows: a few rare pairs or rewards decide, and the interval is rough.",
    )


def autocorrelation(subject: Subject) -> Diagnostic:
    """How many rows are worth one independent row."""
    length = subject.length
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
    lengths, rule = subject.sampling.lengths, subject.sampling.rule
    if not subject.sampling.is_named or rule == "independent":
        return
    if rule == "clustered":
        value = float(subject.num_rows**2 / (lengths.astype(float) @ lengths))
        verdict = at_least(value, ENOUGH_CLUSTERS, CLUSTERS_BAD)
        yield finding(
            "trajectories",
            value,
            verdict,
            f"Standard errors rest on {len(lengths):,} trajectories, by their lengths worth {value:,.0f} equal ones.",
            "Collect more trajectories, or take standard_errors='long-run'.",
        )
    elif len(lengths) > 1:
        p_value = _alike((subject.totals.target or subject.totals.behavior).whole)
        verdict = at_least(p_value, UNLIKE_CAUTION, UNLIKE_BAD)
        yield finding(
            "trajectories",
            p_value,
            verdict,
            f"The {len(lengths)} trajectories differ "
            f"{'no more than' if verdict == 'ok' else 'more than'} their own noise explains (p = {p_value:.2g}).",
            "Evaluate them one by one, or add what tells them apart; few cannot stand for others.",
        )


def _alike(series: Projection) -> float:
    """An F test of the trajectories' means against the long-run variance within them."""
    lengths = series.layout.lengths
    means = series.sums / lengths
    between, freedom = float(lengths @ (means - series.mean) ** 2), len(lengths) - 1
    within = long_run(0.0, series.centered(means))
    inner = within.degrees_of_freedom - freedom  # the means are zero now, and counted
    squares = within.standard_error**2 * series.rows * within.degrees_of_freedom
    if inner <= 0 or squares <= 0:
        return 1.0
    return float(fisher.sf((between / freedom) / (squares / inner), freedom, inner))


def memory(subject: Subject) -> Iterator[Diagnostic]:
    """Successive TD errors are uncorrelated if the state tells all that matters for the next, and features express it."""
    totals = subject.totals
    if not subject.has_series or subject.log is None or subject.sampling.rule == "independent":
        return
    # A method without values has no errors; constant rewards leave rounding.
    size = max(subject.facts.largest, abs(subject.estimate.value))
    if totals.largest["error"] <= ROUNDING * size or totals.sums["pairs"] < ENOUGH_ROWS:
        return
    product, spread = totals.sums["product"], float(np.sqrt(totals.sums["product2"]))
    total = float(np.sqrt(totals.sums["first2"] * totals.sums["second2"]))
    correlation = product / total if total > 0 else 0.0
    verdict: Verdict = "ok"
    if abs(product) > MEMORY_ERRORS * spread:
        verdict = at_most(abs(correlation), MEMORY_CAUTION, MEMORY_BAD)
    yield finding(
        "memory",
        correlation,
        verdict,
        f"Successive errors of the prediction have a correlation of {correlation:+.2g}; it is zero where the observation tells "
        "all that matters for what comes next, and the features express it.",
        "Add to the observation what it leaves out, such as earlier states or the time of day; then try more features.",
    )
