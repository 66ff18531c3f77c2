"""Do rows keep to what standard errors assume: one system over time, no row that decides alone, enough independent ones?"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import t as student

from cesaro.checks import SMALLEST
from cesaro.data.values import Categories, Column
from cesaro.diagnostics.finding import Check, Diagnostic, Verdict, at_least, at_most, power_of_ten, worse
from cesaro.diagnostics.subject import Subject
from cesaro.inspection import evidence
from cesaro.passes.influence import OUTLIER
from cesaro.passes.standard_errors import ENOUGH_CLUSTERS, FEW_CLUSTERS, Projection, Rule, by_rule, differences, within
from cesaro.policies.observed import place
from cesaro.text import Sentence, Wording, argument, percent, switch, visible

# Two halves as different as these once in a thousand, or a million, logs without drift; and the size that matters.
DRIFT_CAUTION, DRIFT_BAD = 1e-3, 1e-6
MATERIAL = 0.1
# Outliers are bad where they bring most of the variance.
OUTLIER_BAD = 0.5
# Rows that the variance rests on; of normal rows a third counts. The relative error of the variance is one over its root.
RESTS_CAUTION, RESTS_BAD = 30.0, 3.0
# How lopsided they are, as rows: 800 exponential ones count 200. Both cautions were chosen by `python -m benchmarks verdicts`.
# A handful of rare events makes an interval rough, and not wrong; one row or two tell nothing of how they vary.
LOPSIDED_CAUTION, LOPSIDED_BAD = 200.0, 3.0
TOP = 0.001
# Of the most influential rows, how many are named.
NAMED = 3
# Independent rows that the series is worth, for a long-run variance that can be trusted.
LENGTHS_CAUTION, LENGTHS_BAD = 500.0, 50.0
# Long-run over plain variance of rows that count as independent: its estimate from 24 cosines is below 2.5 without dependence.
DEPENDENT_CAUTION, DEPENDENT_BAD = 2.5, 5.0
# Trajectories, weighted by their length, that clustered standard errors rest on.
CLUSTERS_BAD = 10.0
# Few trajectories that differ like this once in fifty, or in a million, logs if they are alike.
UNLIKE_CAUTION, UNLIKE_BAD = 0.02, 1e-6
# Correlation of successive TD errors: of no account below the first, and at least this many standard errors from zero.
MEMORY_CAUTION, MEMORY_BAD, MEMORY_ERRORS = 0.02, 0.2, 4.0
# Fewer rows than this say nothing about halves or memory.
ENOUGH_ROWS = 200
# TD errors below this part of the rewards are rounding.
ROUNDING = 1e-9
# Standard errors below this part of the range of rewards are rounding.
NO_ERROR = 1e-12
# Rows that are copies of others: standard errors take them as new ones.
COPIED_CAUTION, COPIED_BAD = 0.001, 0.01
# Rows without a transition: more than a few are a selection.
DROPPED_CAUTION, DROPPED_BAD = 0.05, 0.2

# Columns that a remedy asks for.
COLUMNS = {name: Wording(f"{name}=COLUMN", f"--{name} COLUMN") for name in ("observation", "trajectory", "time")}

DROPPED_ROWS = Check(
    "dropped rows",
    number="share of rows without a transition",
    caution=f"over {percent(DROPPED_CAUTION)}",
    bad=f"over {percent(DROPPED_BAD)}",
    meaning="what is left may differ from what was dropped",
    remedy="log next observations (`--next-observation COLUMN`); `--gap none` where steps are irregular by nature",
)

COPIED_ROWS = Check(
    "copied rows",
    number=(
        "share of rows that repeat earlier ones more than by chance: in longer runs than rows repeat by nature, or "
        "with numbers that hardly ever repeat"
    ),
    caution=f"over {percent(COPIED_CAUTION)}",
    bad=f"over {percent(COPIED_BAD)}",
    meaning="standard errors take copies for new observations",
    remedy="drop the copies, such as files that were read twice: `--drop-duplicates` with `--time COLUMN`",
)

ORDER_OF_ROWS = Check(
    "order of rows",
    number=(
        "share of rows whose next state is the next row's state; only if rows count as independent because it is low"
    ),
    caution="always",
    meaning=(
        "standard errors of the log's own rate and of the difference are too small if the rows come from one system "
        "over time"
    ),
    remedy=(
        "`--trajectory COLUMN` and `--time COLUMN`, or keep the order; `--standard-errors independent` if rows were "
        "drawn independently"
    ),
)

STANDARD_ERROR = Check(
    "standard error",
    number="the standard error",
    caution="there is none although rewards differ; or all rewards are the same",
    meaning=(
        "so few or so regular rows do not show how exact the rate is; a reward that comes less than three times in a "
        "log of this length may be missing from it"
    ),
    remedy="look for copies; a longer log",
)

TINY_REWARDS = Check(
    "tiny rewards",
    number="the largest size of a reward",
    bad=f"below {power_of_ten(SMALLEST)}, but not all zero",
    meaning="their squares are lost in rounding: no interval, and no other finding on rows",
    remedy="multiply rewards by a constant",
)

DRIFT = Check(
    "drift",
    number="rate from the second half minus that from the first",
    caution=f"p below {DRIFT_CAUTION:g}",
    bad=f"p below {power_of_ten(DRIFT_BAD)} and over {percent(MATERIAL)} of the scale",
    meaning="the system changed, or features miss something",
    remedy="recent rows alone; add what changed to the observation (`--observation COLUMN`)",
)

REWARD_DRIFT = Check(
    "reward drift",
    number="mean reward of the second half minus that of the first",
    caution=f"p below {DRIFT_CAUTION:g} and over {percent(MATERIAL)} of the rewards' spread",
    bad=f"only for the policy `logged`: p below {power_of_ten(DRIFT_BAD)}",
    meaning="harmless if only the logging policies changed",
    remedy="look at `drift`; for `logged`, a part of the log in which nothing changed",
)

REWARD_OUTLIERS = Check(
    "reward outliers",
    number="distance of the farthest reward from the median, in robust standard deviations",
    caution=f"over {OUTLIER:g}",
    bad=(
        f"rewards farther than {OUTLIER:g} make up over half of the variance, and come in batches or whatever happened in their "
        "rows"
    ),
    meaning=(
        "wrong units, typing errors, numbers that stand for a missing one; rare events, such as failures, come all along the log "
        "and with certain states and actions"
    ),
    remedy="correct or drop these rows, unless they are events",
)

INFLUENTIAL_ROWS = Check(
    "influential rows",
    number=(
        "how many rows the variance rests on, `(ΣIF²)²/ΣIF⁴`, where IF is the influence of a row; the verdict is also"
        " on how lopsided these are, `(ΣIF²)³/(ΣIF³)²`"
    ),
    caution=f"below {RESTS_CAUTION:g}; lopsided: below {LOPSIDED_CAUTION:g}",
    bad=f"either below {RESTS_BAD:g}",
    meaning="a few rows or rare rewards decide; the interval is rough",
    remedy="look at the most influential rows",
)

AUTOCORRELATION = Check(
    "autocorrelation",
    number="how many rows are worth one independent row (the autocorrelation length)",
    caution=(
        f"the log has fewer than {LENGTHS_CAUTION:g} such lengths; if rows count as independent: over "
        f"{DEPENDENT_CAUTION:g}"
    ),
    bad=f"fewer than {LENGTHS_BAD:g} lengths; over {DEPENDENT_BAD:g}",
    meaning="the log is short compared with how long rows stay correlated; or rows count as independent and are not",
    remedy="a longer log; `--trajectory COLUMN` and `--time COLUMN`, or `--standard-errors long-run`",
)

TRAJECTORIES = Check(
    "trajectories",
    number=(
        'standard errors clustered: how many trajectories of equal length they are worth; long-run: p of "no '
        'differences between trajectories", none if each is so short that it counts as one observation'
    ),
    caution=f"below {ENOUGH_CLUSTERS}; p below {UNLIKE_CAUTION:g}, or worth fewer than {FEW_CLUSTERS}",
    bad=f"below {CLUSTERS_BAD:g}; p below {power_of_ten(UNLIKE_BAD)}",
    meaning="too few trajectories; or they differ by more than their noise, or are too few to tell",
    remedy="more trajectories; evaluate them one by one, or add what tells them apart (`--observation COLUMN`)",
)

MEMORY = Check(
    "memory",
    number="correlation of successive prediction errors",
    caution=f"over {MEMORY_CAUTION:g}, and over {MEMORY_ERRORS:g} of its standard errors",
    bad=f"over {MEMORY_BAD:g}, and the same",
    meaning="the observation leaves out something that matters for what comes next, or features cannot express it",
    remedy=(
        "add it (`--observation COLUMN`): earlier states, the time of day; then more features (`--features smooth:160`)"
    ),
)

CHECKS = (
    DROPPED_ROWS,
    COPIED_ROWS,
    ORDER_OF_ROWS,
    STANDARD_ERROR,
    TINY_REWARDS,
    DRIFT,
    REWARD_DRIFT,
    REWARD_OUTLIERS,
    INFLUENTIAL_ROWS,
    AUTOCORRELATION,
    TRAJECTORIES,
    MEMORY,
)


def over_rows(subject: Subject) -> Iterator[Diagnostic]:
    """Dropped and copied rows, tiny rewards, drift, outliers, dependence, trajectories, memory."""
    yield from dropped(subject)
    yield from copied(subject)
    yield from order(subject)
    if 0 < subject.facts.largest < SMALLEST:
        yield tiny_rewards(subject)
        return
    if subject.has_series:
        yield from drift(subject)
        yield influential_rows(subject)
    if subject.has_series or subject.prepared.is_logged:
        yield standard_error(subject)
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
    listed = ", ".join(f"{name}: {number:,}" for name, number in reasons.items())
    yield DROPPED_ROWS.found(
        share,
        at_most(share, DROPPED_CAUTION, DROPPED_BAD),
        f"{percent(share)} of the log's {counts['rows']:,} rows gave no transition{f' ({listed})' if listed else ''}.",
        Sentence(
            "Trajectories are cut at gaps in time, and the row before a gap is dropped; where steps are irregular by nature, "
            "{gap} never cuts.",
            gap=Wording("gap=None", "--gap none"),
        )
        if cut > share * counts["rows"] / 2
        else "Fill in the empty entries, as far as they can be known: each costs its row, and the row before, and the rows that "
        "are left may differ from those."
        if reasons.get("incomplete", 0) > share * counts["rows"] / 4
        else Sentence(
            "Log next observations ({next}), or longer trajectories: the rows that are left may differ from those that were "
            "dropped.",
            next=Wording("next_observation=COLUMN", "--next-observation COLUMN"),
        ),
    )


def copied(subject: Subject) -> Iterator[Diagnostic]:
    """Rows that the log holds more than once, as far as chance does not explain it."""
    if subject.log is None or subject.num_rows < ENOUGH_ROWS:
        return
    share = subject.facts.repeats.share
    yield COPIED_ROWS.found(
        share,
        at_most(share, COPIED_CAUTION, COPIED_BAD),
        f"{percent(share)} of the rows repeat earlier ones, in long runs or with numbers that do not repeat by chance."
        if share
        else f"None of the {subject.num_rows:,} rows looks like a copy of another.",
        Sentence(
            "Drop the copies, such as files that were read twice: {drop} with {time} does it where rows have a time. Until then "
            "the interval takes each copy for a new observation.",
            drop=switch("drop_duplicates"),
            time=COLUMNS["time"],
        ),
    )


def order(subject: Subject) -> Iterator[Diagnostic]:
    """Rows of one system over time that are not in its order: how rewards depend on each other cannot be seen."""
    sampling = subject.sampling
    if subject.log is None or sampling.is_named or sampling.rule != "independent" or sampling.is_asked:
        return
    yield ORDER_OF_ROWS.found(
        subject.facts.chained,
        "caution",
        f"Only {percent(subject.facts.chained)} of the rows' next states are the next row's state, so that rows count as "
        "independent; if they come from one system over time, the standard errors of the log's own rate and of the difference "
        "are too small.",
        Sentence(
            "Name the columns that order rows ({trajectory}, {time}), or write the log in the order of time; where rows were "
            "drawn independently, use {independent}.",
            trajectory=COLUMNS["trajectory"],
            time=COLUMNS["time"],
            independent=argument("standard_errors", "independent"),
        ),
    )


def standard_error(subject: Subject) -> Diagnostic:
    """A log without noise says nothing about noise; neither does one in which all rewards are alike about others."""
    facts, error = subject.facts, subject.estimate.standard_error
    if facts.spread == 0:
        return STANDARD_ERROR.found(
            0.0,
            "caution",
            f"All {facts.rows:,} rewards are {facts.low:g}; a different one that comes less than once in "
            f"{max(1, facts.rows // 3):,} rows may well be missing by chance.",
            "Collect a longer log if there are other rewards.",
        )
    if not error > NO_ERROR * facts.spread:
        return STANDARD_ERROR.found(
            0.0,
            "caution",
            f"Rewards differ by up to {facts.spread:.3g}, and yet the {facts.rows:,} rows show no noise, so that there is no "
            "standard error.",
            "Look for copied rows, or collect more of them: so few or so regular rows do not show how exact the rate is.",
        )
    return STANDARD_ERROR.found(
        error, "ok", f"The standard error is {error:.3g}, where rewards differ by up to {facts.spread:.3g}."
    )


def tiny_rewards(subject: Subject) -> Diagnostic:
    """Rewards whose squares a float64 cannot hold: everything that rests on their variance is lost."""
    largest = subject.facts.largest
    return TINY_REWARDS.found(
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


def change(halves: tuple[Projection, Projection], rule: Rule) -> Change | None:
    """The mean of the second half minus that of the first, as standard errors see rows; None where halves are too small."""
    means = []
    for half in halves:
        if half.rows < ENOUGH_ROWS // 2 or (rule == "clustered" and len(half.spans) < 2):
            return None
        # Halves share their trajectories, and how these differ cancels.
        estimate = within if rule == "long-run" else partial(by_rule, rule)
        means.append(estimate(half.mean, half.centered()))
    value = means[1].value - means[0].value
    variances = np.array([mean.standard_error**2 for mean in means])
    if not variances.any():
        return Change(value, 0.0, float(value == 0))
    shares = variances / variances.max()  # no square overflows
    freedom = shares.sum() ** 2 / sum(v**2 / mean.degrees_of_freedom for v, mean in zip(shares, means))  # Welch
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
    yield DRIFT.found(
        found.value,
        verdict,
        f"The second half of the log gives a rate that differs from the first half's by {found.value:+.3g}{subject.in_rewards} "
        f"(standard error {found.standard_error:.2g}, p = {found.p_value:.2g}).",
        Sentence(
            "The system changed, or features miss something: evaluate recent rows alone, or add what changed, such as "
            "the season, to the observation ({observation}).",
            observation=COLUMNS["observation"],
        ),
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
    harmless = (
        "This is harmless if only the logging policies changed: look at the finding `drift`, which is about the target."
    )
    yield REWARD_DRIFT.found(
        found.value,
        verdict,
        f"The mean reward of the second half of the log differs from the first half's by {found.value:+.3g} (standard error "
        f"{found.standard_error:.2g}, p = {found.p_value:.2g}), where rewards have a standard deviation of {spread:.3g}.",
        "Evaluate a part of the log in which nothing changed, such as its recent rows." if logged else harmless,
    )


def reward_outliers(subject: Subject) -> Diagnostic:
    """Distances from the median in robust standard deviations, both of the sampled rewards."""
    totals, plan = subject.totals, subject.totals.plan
    largest = totals.largest["distance"] / plan.width if plan.width > 0 else 0.0
    far, variance = int(totals.sums["far"]), totals.sums["rewards2"]
    share = totals.sums["far2"] / variance if variance > 0 else 0.0
    is_bad = bool(far) and share > OUTLIER_BAD
    are_events = is_bad and _come_with_what_happens(subject)
    verdict: Verdict = "ok" if not far else "bad" if is_bad and not are_events else "caution"
    row, reward = totals.outlier
    where = f"transition {row:,}"
    if far and subject.log is not None:
        where = _places(subject, np.array([row]))[0]
    return REWARD_OUTLIERS.found(
        largest,
        verdict,
        f"The reward farthest from the median is {largest:.3g} robust standard deviations away."
        if not far
        else f"{far:,} {'reward is' if far == 1 else 'rewards are'} more than {OUTLIER:g} robust standard deviations from the "
        f"median, such as {reward:g} at {where}; "
        f"{'it makes up' if far == 1 else 'they make up'} {percent(share)} of "
        "the rewards' variance."
        + (
            " They come all along the log and with certain states and actions, as rare events do." if are_events else ""
        ),
        ("Keep them if they are events; if not, check " if are_events else "Check ")
        + "these rows for wrong units, typing errors, and numbers that stand for a missing one (-999): correct or drop them.",
    )


def _places(subject: Subject, transitions: NDArray[np.int64]) -> list[str]:
    """Where each of some transitions is: row of the file, trajectory and time where these are clear, else its number."""
    assert subject.log is not None
    origin, unclear = subject.log.origin, [f"transition {transition:,}" for transition in transitions]
    table = None if origin is None else evidence.excerpt(origin)
    if origin is None or table is None or not len(table) < evidence.looked_at(origin.source):
        return unclear
    rows, roles = subject.log.part(transitions), origin.roles
    told: list[tuple[str, Column]] = []
    for values in (rows.observations, rows.actions):
        is_wide = len(values.names) > len(values.columns)
        told += zip(values.names, np.asarray(values.columns[0]).T if is_wide else values.columns)
    if not origin.settings.reward_lag:
        told.append((roles.reward, -rows.rewards if origin.settings.cost else rows.rewards))
    same = np.ones((len(transitions), len(table)), dtype=np.bool_)
    try:
        for name, column in told:
            is_text, entries = isinstance(column, Categories), table[name]
            entries = entries if is_text else entries.cast(pa.float64(), safe=False)
            same &= (column.labels() if isinstance(column, Categories) else column)[:, None] == entries.to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError, ValueError):  # lists
        return unclear
    names = [name for name in (roles.trajectory, roles.time) if name is not None]
    for number in np.flatnonzero(same.sum(axis=1) == 1):
        at = int(np.argmax(same[number]))
        told_by = [f"{visible(name)} {visible(str(table[name][at].as_py()))}" for name in names]
        unclear[number] = f"row {at:,} ({', '.join(['counted from 0', *told_by])})"
    return unclear


def _come_with_what_happens(subject: Subject) -> bool:
    """Whether outliers are events of the system, and no errors of the export."""
    if subject.log is None:
        return False
    rows, plan = subject.prepared.sample.rows, subject.totals.plan
    far = np.abs(rows.rewards - plan.median) > OUTLIER * plan.width
    return len(rows) >= ENOUGH_ROWS and bool(far.any()) and evidence.are_events(rows, far)


def influential_rows(subject: Subject) -> Diagnostic:
    """How many rows the variance of the estimate rests on, `(ΣIF²)²/ΣIF⁴`, and how lopsided they are, `(ΣIF²)³/(ΣIF³)²`.

    A normal limit needs many by either count; rewards that come a few times in a log have few by both.
    """
    totals, rows = subject.totals, subject.num_rows
    total = float(totals.influence.squares.sum()) / totals.plan.unit**2
    value = float(total**2 / totals.sums["influence4"]) if total > 0 else float(rows)
    third = totals.sums["influence3"]
    even = total**3 / third**2 if third else np.inf
    verdict = worse(at_least(value, RESTS_CAUTION, RESTS_BAD), at_least(even, LOPSIDED_CAUTION, LOPSIDED_BAD))
    squares = (totals.at_sample.influence / totals.plan.unit) ** 2
    top = max(1, round(TOP * len(squares)))
    share = float(np.partition(squares, -top)[-top:].sum() / squares.sum()) if squares.any() else 0.0
    top = max(1, round(TOP * rows))
    which = "the most influential one makes up" if top == 1 else f"the {top:,} most influential ones make up"
    lopsided = ", and the largest pull the same way" if even < LOPSIDED_CAUTION else ""
    return INFLUENTIAL_ROWS.found(
        value,
        verdict,
        f"The variance of the estimate rests on about {value:,.0f} rows of {rows:,}; {which} {percent(share)} of it{lopsided}."
        + ("" if verdict == "ok" else _most_influential(subject)),
        Sentence(
            "A few rare pairs or rewards decide, and the interval is rough: see where these rows are ({picture}), and collect "
            "more like them.",
            picture=Wording('answer.plot("influence")', "influence.png in the folder of --out"),
        ),
    )


def _most_influential(subject: Subject) -> str:
    """Some rows in the words of the log; nothing where it was given as features."""
    if subject.log is None:
        return ""
    size = np.abs(subject.totals.at_sample.influence)
    sample, top = subject.prepared.sample, np.sort(np.argsort(-size, kind="stable")[:NAMED])
    seen, done = sample.rows.observations.take(top).plain(), sample.rows.actions.take(top).plain()
    said = [
        f"{where} {place(seen, k)} with {place(done, k, 'the action')}"
        for k, where in enumerate(_places(subject, sample.index[top]))
    ]
    return f" The most influential: {'; '.join(said)}."


def autocorrelation(subject: Subject) -> Diagnostic:
    """How many rows are worth one independent row."""
    length = subject.length
    lengths = subject.num_rows / length
    verdict = at_least(lengths, LENGTHS_CAUTION, LENGTHS_BAD)
    remedy: str = "Collect a longer log: with this one the interval may be too short."
    if subject.sampling.rule == "independent":
        as_independent = at_most(length, DEPENDENT_CAUTION, DEPENDENT_BAD)
        if as_independent != "ok":
            verdict = as_independent if verdict != "bad" else "bad"
            remedy = Sentence(
                "Rows count as independent and are not: name their columns ({trajectory}, {time}), or use {long_run}.",
                trajectory=COLUMNS["trajectory"],
                time=COLUMNS["time"],
                long_run=argument("standard_errors", "long-run"),
            )
    return AUTOCORRELATION.found(
        length,
        verdict,
        f"Rows are nearly independent of each other; the log is worth {lengths:,.0f} independent ones."
        if length < 1.5
        else f"About {length:.2g} rows are worth one independent row; the log is worth {lengths:,.0f} of these.",
        remedy,
    )


def trajectories(subject: Subject) -> Iterator[Diagnostic]:
    """Enough clusters, none too large; or few trajectories that tell the same."""
    sampling, count = subject.sampling, len(subject.sampling.lengths)
    if not sampling.is_named or sampling.rule == "independent" or (sampling.rule == "long-run" and count == 1):
        return
    effective = sampling.spans.effective
    if sampling.rule == "clustered":
        verdict = at_least(effective, ENOUGH_CLUSTERS, CLUSTERS_BAD)
        sentence = f"Standard errors rest on {count:,} trajectories, which are worth {effective:,.0f} of equal length."
        remedy = Sentence(
            "Collect more trajectories, or use {long_run} where each is long.",
            long_run=argument("standard_errors", "long-run"),
        )
        yield TRAJECTORIES.found(effective, verdict, sentence, remedy)
        return
    found = differences((subject.totals.target or subject.totals.behavior).whole)
    p_value = None if found is None else found.p_value
    alike: Verdict = "ok" if p_value is None else at_least(p_value, UNLIKE_CAUTION, UNLIKE_BAD)
    few: Verdict = "ok" if effective >= FEW_CLUSTERS else "caution"
    yield TRAJECTORIES.found(
        p_value,
        worse(alike, few),
        f"The {count:,} trajectories "
        + (
            "count as one observation each, so the interval covers how they differ"
            if p_value is None
            else f"differ {'no more than' if alike == 'ok' else 'more than'} their own noise explains (p = {p_value:.2g})"
        )
        + (f"; they are worth {effective:.2g} of equal length, too few to tell." if few != "ok" else "."),
        Sentence(
            "Evaluate them one by one, or add the column that tells them apart to the observation ({observation}); a few "
            "trajectories cannot stand for others.",
            observation=COLUMNS["observation"],
        )
        if alike != "ok"
        else "Collect more trajectories: the interval is wide, because so few do not show how much others differ.",
    )


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
    correlation, error = (product / total, spread / total) if total > 0 else (0.0, 0.0)
    verdict: Verdict = "ok"
    if abs(product) > MEMORY_ERRORS * spread:
        verdict = at_most(abs(correlation), MEMORY_CAUTION, MEMORY_BAD)
    yield MEMORY.found(
        correlation,
        verdict,
        f"The prediction errors of successive rows have a correlation of {correlation:+.2g} (standard error {error:.2g}); it is "
        "zero where the observation holds all that matters for what comes next, and the features can express it.",
        Sentence(
            "Add what the observation leaves out, such as earlier states or the time of day ({observation}); then try more "
            "features, such as {more}.",
            observation=COLUMNS["observation"],
            more=argument("features", "smooth:160"),
        ),
    )
