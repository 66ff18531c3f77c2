"""Does the log reach where the target goes, and with how many rows?"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data.values import Categories, Values
from cesaro.diagnostics.equations import first_moments
from cesaro.diagnostics.finding import Check, Diagnostic, at_least, at_most, worse
from cesaro.diagnostics.subject import CHUNK, Subject, spectrum
from cesaro.errors import CesaroError
from cesaro.features import SAMPLE, OneHot
from cesaro.features.maps import other_kinds
from cesaro.inspection import evidence
from cesaro.inspection.observation import are_distinct, known_before, may_be_result, what_comes_next
from cesaro.inspection.prediction import ENOUGH
from cesaro.passes.support import logged_weight, pair_table, unlogged
from cesaro.policies.attach import Attached
from cesaro.text import Sentence, Wording, option, percent, visible

# Probability of the target where the log has nothing: a hundredth is a detail, a tenth decides the answer.
OUTSIDE_CAUTION, OUTSIDE_BAD = 0.01, 0.1
# A part of the pairs that is this much rarer in the log than what was named so far is worth a word; of numbers, the range of
# most of the pairs that lie far out.
RARER, MOST = 0.5, 0.95
# Of logged rows, one in a thousand lies beyond this quantile of the leverage.
LEVERAGE_QUANTILE = 0.999
# A deterministic target whose own actions are this rare in the log is singular to it. Near its action are those within half a
# standard deviation of the noise around it in every coordinate: of normal noise 38 % in one coordinate, 15, 5.6 and 2.1 % in two,
# three and four, 0.3 % in six, where networks fit every rate equally well (docs/why_gq1_stays.md).
OWN_ACTIONS, NEAR_DISTANCE, NEAR_CAUTION = 0.01, 0.5, 0.05
NEAR_ROWS = 2_000
# Next states with a level that no row starts from: features know nothing of it.
LEVELS_CAUTION, LEVELS_BAD = 0.001, 0.05
# Independent rows of the target that the log is worth: intervals rest on a normal limit. `python -m benchmarks verdicts` shows
# what comes of these, and of the times that a state forgets where it was.
EFFECTIVE_CAUTION, EFFECTIVE_BAD = 100.0, 60.0
FORGETS_CAUTION, FORGETS_BAD = 30.0, 10.0
# Rows that the squares of the ratio rest on: with fewer, how much the log is worth is a guess itself.
HEAVY_CAUTION, HEAVY_BAD = 30.0, 5.0
# A density ratio has no negative part; where the estimated one does, features cannot express it.
NEGATIVE_CAUTION, NEGATIVE_BAD = 0.1, 0.3
# Columns of the observation that are looked at where the log seems not to reach the target, and rows that it is asked about then.
MOST_COLUMNS, ASKED = 50, 2_000

PICTURE = Wording('answer.plot("support")', "support.png in the folder of --out")
WHEN_TO_STOP = 'The page on features says when to stop ("How to choose without the truth").'

SUPPORT = Check(
    "support",
    number=(
        "discrete logs: the target's probability on pairs that were never logged; others: the share of its pairs that"
        f" lie farther out (by their leverage) than {100 * LEVERAGE_QUANTILE:g} % of the logged ones"
    ),
    caution=f"over {percent(OUTSIDE_CAUTION)}",
    bad=f"over {percent(OUTSIDE_BAD)}",
    meaning="the target acts where the log has nothing, and features extrapolate",
    remedy="collect data there; a policy closer to the log",
)

LEVELS_SEEN_ONLY_AFTER = Check(
    "levels seen only after",
    number="share of next states with a label that no row starts from",
    caution=f"over {percent(LEVELS_CAUTION)}",
    bad=f"over {percent(LEVELS_BAD)}",
    meaning="nothing is known about what follows such a state",
    remedy="log transitions that start there; merge rare labels",
)

DETERMINISTIC_TARGET = Check(
    "deterministic target",
    number=(
        "actions are numbers, the target takes one per state, and the log has next to none of these: share of logged "
        "actions within half a standard deviation of the target's in every coordinate"
    ),
    caution=f"below {percent(NEAR_CAUTION)}",
    meaning=(
        "every rate fits, for any method, if values may differ freely between actions: [only smoothness determines "
        "it](../why_gq1_stays.md#no-method-has-data-at-a-deterministic-targets-own-actions)"
    ),
    remedy=(
        "log some of the target's own actions; evaluate the target with noise on its actions; compare `--features "
        "polynomial:2` and `--features fourier`"
    ),
)

EFFECTIVE_SAMPLE_SIZE = Check(
    "effective sample size",
    number=(
        "how many independent rows the log is worth for this target, `(Σρ)²/Σρ²` over the autocorrelation length, "
        "where ρ is the weight of a row; the verdict is also on how many rows carry the weight, `(Σρ²)²/Σρ⁴`"
    ),
    caution=f"below {EFFECTIVE_CAUTION:g}; weight: below {HEAVY_CAUTION:g}",
    bad=f"below {EFFECTIVE_BAD:g}; weight: below {HEAVY_BAD:g}",
    meaning="the target does what the log seldom did",
    remedy="more data; a policy closer to the log",
)

MIXING = Check(
    "mixing",
    number=(
        "one-hot: how many independent observations of the state the log holds, judged by the correlation of its "
        "values from row to row, and at most how often it moves"
    ),
    caution=f"below {FORGETS_CAUTION:g}",
    bad=f"below {FORGETS_BAD:g}",
    meaning="the state changes slowly and the log is short: so few moves do not show how often each state is visited",
    remedy="a longer log; more trajectories",
)

NEGATIVE_DENSITY_RATIO = Check(
    "negative density ratio",
    number="the negative share of the weight that the estimate gives to rows; no row should have negative weight",
    caution=f"over {percent(NEGATIVE_CAUTION)}",
    bad=f"over {percent(NEGATIVE_BAD)}",
    meaning="features cannot express where the target spends its time, compared with the log",
    remedy=(
        "caution: nothing, where `agreement of features` is ok; else compare `--features polynomial:2` and `--features fourier`; "
        "if it stays, more data; a policy closer to the log"
    ),
)

CHECKS = (
    SUPPORT,
    LEVELS_SEEN_ONLY_AFTER,
    DETERMINISTIC_TARGET,
    EFFECTIVE_SAMPLE_SIZE,
    MIXING,
    NEGATIVE_DENSITY_RATIO,
)


def support(subject: Subject) -> Sequence[Diagnostic]:
    """Never-logged pairs or leverage; levels seen only at next states; effective sample size; negative ratio."""
    return with_needless_columns(subject, list(_findings(subject)))


def _findings(subject: Subject) -> Iterator[Diagnostic]:
    pairs = never_logged(subject)
    yield pairs if pairs is not None else leverage(subject)
    if subject.log is not None:
        yield from only_after(subject)
        yield from deterministic_target(subject)
    if subject.has_series:
        yield effective_rows(subject)
        yield from mixing(subject)
        if not isinstance(subject.prepared.map, OneHot):  # there it is a stationary law over shares
            yield negative_ratio(subject)


def never_logged(subject: Subject) -> Diagnostic | None:
    """For discrete logs: the target's probability, over logged next states, of pairs that were never logged."""
    found = unlogged(subject.prepared, subject.moments)
    if found is None:
        return None
    table, mass = found
    share = float(mass.sum())
    verdict = at_most(share, OUTSIDE_CAUTION, OUTSIDE_BAD)
    top = [table.label(pair) for pair in np.argsort(-mass, kind="stable")[:3] if mass[pair] > 0]
    where = f", above all (s', a') = {', '.join(top)}" if top else ""
    is_counted = subject.num_rows <= SAMPLE or isinstance(subject.prepared.map, OneHot)
    never = "were never logged" if is_counted else f"none of {SAMPLE:,} sampled rows has"
    return SUPPORT.found(
        share,
        verdict,
        f"At the logged next states, {percent(share)} of the target's probability is on pairs of state and action that "
        f"{never}{where}.",
        Sentence("Collect data there, or evaluate a policy closer to the log ({picture}).", picture=PICTURE),
    )


class Leverages(NamedTuple):
    """The leverage of pairs: how far out they lie.

    Discrete pairs: the weight of the log over that of the pair (rows, where they have no weights), infinite where it has none.
    Other features: `xᵀC⁻¹x`.

    Attributes:
        logged: of sampled rows of the log, `[n]`.
        target: of pairs `(s', a')` with `a'` drawn from the target, at the same rows, `[n]`.
        limit: what all but a thousandth of the logged ones stay below.
        drawn: the target's actions where they were drawn, `[n]`; None: its mean features were taken, or pairs are discrete.
        by_count: whether pairs are discrete.
    """

    logged: Array
    target: Array
    limit: float
    drawn: Values | None
    by_count: bool


def leverage(subject: Subject) -> Diagnostic:
    """The share of next pairs whose features stick out of the logged ones: `xᵀC⁻¹x` beyond all but a thousandth of the logged."""
    rows, found = subject.sample, feature_leverages(subject)
    beyond = found.target > found.limit * (1 + 1e-6)
    share = float(beyond.mean() if rows.weights is None else rows.weights @ beyond / rows.weights.sum())
    verdict = at_most(share, OUTSIDE_CAUTION, OUTSIDE_BAD)
    what = "next features" if found.drawn is None else "the target's pairs of state and action"
    where = "" if found.drawn is None or verdict == "ok" else _where(subject, found.drawn, beyond)
    return SUPPORT.found(
        share,
        verdict,
        f"{percent(share)} of {what} lie farther out (by their leverage) than {100 * LEVERAGE_QUANTILE:g} % of the logged ones, "
        f"where features extrapolate{where}.",
        Sentence(
            "Collect data with actions like the target's{there}, or evaluate a policy closer to the log ({picture}).{stop}",
            there=" there" if where else "",
            picture=PICTURE,
            stop=f" {WHEN_TO_STOP}" if verdict == "caution" else "",
        ),
    )


class _Region(NamedTuple):
    """A part of the pairs, in words: which of the target's lie in it, and which of the log's, `[n]` each."""

    words: str
    target: NDArray[np.bool_]
    logged: NDArray[np.bool_]

    @property
    def rarity(self) -> float:
        """How much rarer it is in the log than under the target."""
        return float(self.logged.mean() / self.target.mean())


def _where(subject: Subject, drawn: Values, beyond: NDArray[np.bool_]) -> str:
    """The action, and the column of the state, that most sets apart pairs which lie far out, with their shares."""
    rows = subject.prepared.sample.rows.part(subject.sampled)
    part = _Region("", np.ones(len(rows), dtype=np.bool_), np.ones(len(rows), dtype=np.bool_))
    for target, logged in ((drawn, rows.actions), (rows.next_observations, rows.observations)):
        among = beyond & part.target
        regions = [
            _Region(one.words, part.target & one.target, part.logged & one.logged)
            for one in _regions(target, logged, among)
        ]
        best = min(regions, key=lambda one: one.rarity, default=part)
        if best.rarity < RARER * part.rarity:
            part = best._replace(words=f"{part.words} and {best.words}" if part.words else best.words)
    if not part.words:
        return ""
    shares = percent(float(part.target.mean())), percent(float(part.logged.mean()))
    return f", above all where {part.words}: {shares[0]} of the target's pairs and {shares[1]} of the log's are there"


def _regions(target: Values, logged: Values, among: NDArray[np.bool_]) -> Iterator[_Region]:
    """Per column the label, or the range of numbers, that most of some of the target's pairs have."""
    for name, own, other in zip(target.names, target.columns, logged.columns):
        if isinstance(own, Categories) and isinstance(other, Categories):
            code = int(np.bincount(own.codes[among]).argmax())
            yield _Region(
                f"{visible(name)} is {visible(str(own.levels[code]))}", own.codes == code, other.codes == code
            )
            continue
        numbers, others = np.asarray(own), np.asarray(other)
        is_wide = numbers.ndim == 2
        for k, (mine, theirs) in enumerate(zip(numbers.T, others.T) if is_wide else [(numbers, others)]):
            low, high = np.quantile(mine[among], [1 - MOST, MOST])
            said = f"{name}[{k}]" if is_wide and len(target.names) == 1 else target.names[k] if is_wide else name
            yield _Region(
                f"{visible(said)} is {low:.3g} to {high:.3g}",
                (mine >= low) & (mine <= high),
                (theirs >= low) & (theirs <= high),
            )


def leverages(subject: Subject) -> Leverages:
    """The leverage of discrete pairs by their rows, of others by their features."""
    policy, table = subject.prepared.policy, pair_table(subject.prepared)
    if policy is None or table is None:
        return feature_leverages(subject)
    counts = logged_weight(subject.prepared, table, subject.moments)
    rows = subject.prepared.sample.rows
    after = rows.next_observations
    drawn = policy.sample(after.plain(), np.random.default_rng([subject.prepared.random_state, 3])).astype(np.int64)
    with np.errstate(divide="ignore"):
        far = counts.sum() / counts
    logged = far[table.states(rows.observations) * table.num_actions + rows.actions.joint().codes]
    logged = logged[np.isfinite(logged)]  # rows of weight zero are no data
    limit = float(np.quantile(logged, LEVERAGE_QUANTILE))
    return Leverages(logged, far[table.states(after) * table.num_actions + drawn], limit, None, True)


def feature_leverages(subject: Subject) -> Leverages:
    """`xᵀC⁻¹x` of the sample, and of the target's pairs after it."""
    rows = subject.sample
    _, gram = first_moments(subject, subject.moments)
    values, vectors, scale = spectrum(gram)
    floor = 100 * float(np.finfo(rows.x.dtype).eps) * values[-1]
    # Directions that the log never took have no variance: with a floor they count as far out.
    whiten = (scale[:, None] * vectors / np.sqrt(np.maximum(values, floor))).astype(rows.x.dtype)
    logged = _squares(rows.x, whiten)
    drawn = _drawn_actions(subject)
    after = rows.x_next if drawn is None else _features_after(subject, drawn)
    return Leverages(logged, _squares(after, whiten), float(np.quantile(logged, LEVERAGE_QUANTILE)), drawn, False)


def _squares(x: NDArray[np.floating], whiten: NDArray[np.floating]) -> Array:
    parts = [x[start : start + CHUNK] @ whiten for start in range(0, len(x), CHUNK)]
    return np.concatenate([np.einsum("nk,nk->n", part, part) for part in parts]).astype(np.float64)


def _drawn_actions(subject: Subject) -> Values | None:
    """Actions of the target at s' of the sample: features in the mean over actions would hide rare ones. None without a log."""
    policy = subject.prepared.policy
    if subject.log is None or policy is None or subject.prepared.map is None:
        return None
    rows = subject.prepared.sample.rows.part(subject.sampled)
    rng = np.random.default_rng([subject.prepared.random_state, 3])
    parts: list[NDArray[Any]] = [
        policy.sample(rows.next_observations.take(slice(start, start + CHUNK)).plain(), rng)
        for start in range(0, len(rows), CHUNK)
    ]
    return _as_logged(rows.actions, np.concatenate(parts))


def _features_after(subject: Subject, actions: Values) -> NDArray[np.floating]:
    """Features of `(s', a')` of the sample."""
    chosen, after = subject.prepared.map, subject.prepared.sample.rows.part(subject.sampled).next_observations
    assert chosen is not None
    parts = []
    for start in range(0, len(after), CHUNK):
        here = slice(start, start + CHUNK)
        features = chosen.pairs(after.take(here), actions.take(here))
        parts.append(np.asarray(features.toarray()) if isinstance(features, sp.csr_array) else features)
    return np.concatenate(parts)


def _as_logged(logged: Values, drawn: NDArray[np.int64] | Array) -> Values:
    """Drawn actions in the form of the log's own."""
    column = logged.columns[0]
    if isinstance(column, Categories):
        return Values(logged.form, logged.names, (Categories(drawn, column.levels),))
    return Values(logged.form, logged.names, (drawn[:, 0] if logged.form == "lone" and drawn.ndim == 2 else drawn,))


def only_after(subject: Subject) -> Iterator[Diagnostic]:
    """Labels that next states have and states do not; one-hot features know all rows, others those that encoders saw."""
    rows, chosen = subject.prepared.sample.rows, subject.prepared.map
    here, after = rows.observations, rows.next_observations
    counts: dict[str, float] = {}
    if isinstance(chosen, OneHot):
        if subject.moments is not None:
            shape = (chosen.num_states, chosen.num_actions)
            logged = np.asarray(subject.moments.mean("v")).reshape(shape).sum(axis=1)
            then = logged + np.asarray(subject.moments.mean("z")).reshape(shape).sum(axis=1)
        else:
            logged, then = (
                np.bincount(chosen.states(values), minlength=chosen.num_states) / len(rows) for values in (here, after)
            )
        found = np.where(logged > 0, 0.0, then)
        share = float(found.sum())
        counts = {chosen.state_label(int(k)): found[k] for k in np.argsort(-found, kind="stable")[:3] if found[k] > 0}
    elif any(isinstance(column, Categories) for column in here.columns):
        missing = np.zeros(len(rows), dtype=bool)
        for name, column, seen in zip(here.names, after.columns, here.columns):
            if isinstance(column, Categories) and isinstance(seen, Categories):
                new = np.bincount(seen.codes, minlength=len(column.levels)) == 0
                missing |= new[column.codes]
                found = np.bincount(column.codes[new[column.codes]], minlength=len(column.levels))
                top = np.argsort(-found, kind="stable")[:3]
                counts |= {f"{name}={column.levels[k]}": float(found[k]) for k in top if found[k]}
        share = float(missing.mean())
    else:
        return
    verdict = at_most(share, LEVELS_CAUTION, LEVELS_BAD)
    names = sorted(counts, key=lambda key: -counts[key])[:3]
    is_counted = subject.num_rows <= SAMPLE or isinstance(chosen, OneHot)
    row = "row" if is_counted else f"row of the {SAMPLE:,} that features were fitted on"
    such = f", such as {'; '.join(names)}: nothing is known of what follows there" if names else ""
    yield LEVELS_SEEN_ONLY_AFTER.found(
        share,
        verdict,
        f"{percent(share)} of the next states have a label that no {row} starts from{such}.",
        Sentence(
            "Log rows that start there, or merge rare labels; where such a label ends an episode, name the column that says so "
            "({terminated}).",
            terminated=Wording("terminated=COLUMN", "--terminated COLUMN"),
        ),
    )


def deterministic_target(subject: Subject) -> Iterator[Diagnostic]:
    """For continuous actions: how many logged ones lie near the only one that a deterministic target takes."""
    policy = subject.prepared.policy
    rows = subject.prepared.sample.rows.part(subject.sampled[:NEAR_ROWS])
    if policy is None or rows.actions.is_discrete:
        return
    here = rows.observations.plain()
    first, again = (policy.sample(here, np.random.default_rng([subject.prepared.random_state, k])) for k in (4, 5))
    if not np.array_equal(first, again):
        return
    logged = np.asarray(rows.actions.columns[0]).reshape(len(rows), -1)
    distance, noise = np.abs(logged - first), (logged - first).std(axis=0)

    def share(limit: Array) -> float:
        return float(np.average((distance <= limit).all(axis=1), weights=rows.weights))

    if share(1e-6 * (np.abs(first) + logged.std(axis=0))) >= OWN_ACTIONS:  # up to the precision of stored numbers
        return
    near = share(NEAR_DISTANCE * noise)
    one, another = other_kinds(subject.prepared.map)
    yield DETERMINISTIC_TARGET.found(
        near,
        at_least(near, NEAR_CAUTION, 0.0),
        f"The target takes one action per state, and the log has almost none of these actions: {percent(near)} of the logged "
        f"ones lie within {NEAR_DISTANCE:g} standard deviations of the target's. If values may differ freely between actions, "
        "every rate fits, for any method; only the smoothness of the features determines this one.",
        Sentence(
            "Log some of the target's own actions, or evaluate the target with noise on its actions; compare the answer with "
            "features of other kinds, such as {one} and {another}.",
            one=one,
            another=another,
        ),
    )


def effective_rows(subject: Subject) -> Diagnostic:
    """`(Σρ)²/Σρ²`, over the autocorrelation length of the influence; the verdict is on `(Σρ²)²/Σρ⁴`, too."""
    squares, fourth = subject.totals.sums["ratio2"], subject.totals.sums["ratio4"]
    rows = subject.totals.sums["ratio"] ** 2 / squares if squares > 0 else 0.0
    heavy = squares**2 / fourth if fourth > 0 else 0.0
    length = subject.length
    value = rows / length
    verdict = worse(at_least(value, EFFECTIVE_CAUTION, EFFECTIVE_BAD), at_least(heavy, HEAVY_CAUTION, HEAVY_BAD))
    return EFFECTIVE_SAMPLE_SIZE.found(
        value,
        verdict,
        f"For this target the log is worth {rows:,.0f} of its {subject.num_rows:,} rows"
        + (
            f"; as {length:.2g} rows are worth one independent row, that is {value:,.0f} independent ones."
            if length >= 1.5
            else "."
        )
        + (f" Most of its weight is on about {heavy:,.0f} rows." if heavy < HEAVY_CAUTION else ""),
        "Collect more rows in which the log does what the target does, or evaluate a policy closer to the log. Until then the "
        "interval is rough.",
    )


def mixing(subject: Subject) -> Iterator[Diagnostic]:
    """How often the state forgets where it was, for discrete logs; values tell which states matter.

    By the correlation of its values from row to row, and not more often than it moves: by the moves that the variance of changes
    rests on. TD errors of a state that hardly ever moves are as independent as any, and do not show how few moves there were.
    """
    chosen, solution, moments = subject.prepared.map, subject.solution, subject.moments
    if not isinstance(chosen, OneHot) or solution is None or moments is None:
        return
    shares = np.asarray(moments.mean("v"))
    steps = (sp.csr_array(moments.mean("vz")) + sp.diags_array(shares)).tocoo()
    state = np.arange(len(shares)) // chosen.num_actions
    reached = np.asarray(steps.sum(axis=0)).ravel()
    law = np.bincount(state, weights=reached)
    values = (np.bincount(state, weights=reached * solution.weights) / np.where(law > 0, law, 1.0))[state]
    values /= np.abs(values).max(initial=0.0) or 1.0  # no square overflows
    here, after = values - shares @ values, values - reached @ values
    spread = float(np.sqrt((shares @ here**2) * (reached @ after**2)))
    correlation = float(here @ (steps @ after)) / spread if spread > 0 else 0.0
    change = values[steps.col] - values[steps.row]
    moves = float(steps.data @ change**2) ** 2 / float(steps.data @ change**4) if change.any() else 1.0
    forgets = subject.num_rows * min(1 - correlation, moves) if np.count_nonzero(law) > 1 else 0.0
    yield MIXING.found(
        forgets,
        at_least(forgets, FORGETS_CAUTION, FORGETS_BAD),
        f"The state of the log never changes in its {subject.num_rows:,} rows."
        if not forgets
        else f"The log's {subject.num_rows:,} rows hold about {forgets:,.0f} independent observations of the state.",
        "Collect a longer log, or more trajectories: so few moves do not show how often each state is visited.",
    )


def negative_ratio(subject: Subject) -> Diagnostic:
    """The negative part of the estimated density ratio."""
    total = subject.totals.sums["ratio_size"]
    share = subject.totals.sums["ratio_negative"] / total if total > 0 else 0.0
    verdict = at_most(share, NEGATIVE_CAUTION, NEGATIVE_BAD)
    one, another = other_kinds(subject.prepared.map)
    return NEGATIVE_DENSITY_RATIO.found(
        share,
        verdict,
        f"{percent(share)} of the weight that the estimate gives to rows is negative. No weight should be: it stands for how "
        "often the target is there, relative to the log (the density ratio).",
        Sentence(
            "If `agreement of features` is not listed, too, features of other kinds give a rate that cannot be told apart from "
            "this one, and the target is only seldom where the log is. If it is listed, compare {one} and {another}. "
            "Rows in which the log does what the target does make the answer surer. {stop}"
            if verdict == "caution" and subject.prepared.map is not None
            else "Compare the answer with {one} and {another}. If the finding stays, no option removes it: the target is far "
            "from the log; collect rows in which the log does what the target does, or evaluate a policy closer to the log.",
            one=one,
            another=another,
            stop=WHEN_TO_STOP,
        ),
    )


def with_needless_columns(subject: Subject, found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The findings of this section; where some are bad, their remedy begins with columns that spread the log thin.

    These are columns of the observation that the target does not act by and that hardly belong there.
    """
    if not any(one.verdict == "bad" for one in found):
        return list(found)
    reasons = _needless_columns(subject)
    if not reasons:
        return list(found)
    names = [f'"{visible(name)}"' for name in reasons]
    leave = Wording(
        f"Leave {', '.join(names)} out of the observation",
        f"Leave out {' '.join(option('observation', name) for name in reasons)}",
    )
    why = "; ".join(f"{name} {reason}" for name, reason in zip(names, reasons.values()))
    reason = f": {why}, and the target does not act by {'it' if len(names) == 1 else 'them'}"
    every = list(found)
    for place, one in enumerate(every):
        if one.verdict == "bad":
            said = "{leave} first{reason}. If that does not help: {remedy}"
            every[place] = replace(one, remedy=Sentence(said, leave=leave, reason=reason, remedy=one.remedy))
            reason = ""  # said once
    return every


def _needless_columns(subject: Subject) -> dict[str, str]:
    """Columns that may be left out of the observation, each with the reason."""
    log, attached = subject.log, subject.prepared.policy
    if log is None or attached is None or subject.num_rows < ENOUGH:
        return {}
    sample = evidence.contiguous(log, subject.prepared.random_state)
    seen, origin = sample.rows.observations, log.origin
    if seen.form != "named" or len(sample.pairs) < ENOUGH:
        return {}
    order = seen.names if origin is None else origin.source.names
    known = known_before(seen.names, order, sample.rows.actions.names[0])
    found: dict[str, str] = {}
    for place, (name, column) in enumerate(zip(seen.names, seen.columns)):
        if place >= MOST_COLUMNS or _acts_by(attached, seen, place):
            continue
        if not isinstance(column, Categories) and column.ndim == 1 and are_distinct(column):
            found[name] = "has a number of its own in nearly every row, as keys do"
        elif (after := what_comes_next(sample.rows, name)) is not None:
            found[name] = f'is what "{visible(after)}" is on the next row, which no policy sees in time'
        elif may_be_result(sample, name, known, name not in known):
            found[name] = "may be a result of its step, which no policy sees in time"
    return found if len(found) < len(seen.names) else {}


def _acts_by(attached: Attached, seen: Values, place: int) -> bool:
    """Whether the target's actions change if the entries of a column are exchanged between rows."""
    rows = seen.take(np.arange(min(ASKED, len(seen))))
    other = np.random.default_rng(0).permutation(len(rows))
    columns = list(rows.columns)
    columns[place] = evidence.taken(columns[place], other)
    try:
        first, again = (
            attached.sample(values.plain(), np.random.default_rng(0))
            for values in (rows, replace(rows, columns=tuple(columns)))
        )
    except CesaroError:
        return True
    return not np.array_equal(first, again)
