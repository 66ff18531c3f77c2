"""The answer in sentences and numbers, for terminals, pages and pictures alike."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cesaro.comparison import Comparison
from cesaro.evaluation import Evaluation
from cesaro.passes.standard_errors import Estimate
from cesaro.rehearsal import TOGETHER, Rehearsal
from cesaro.text import in_words, percent
from cesaro.views import Scarce

Said = TypeVar("Said")


class _Verbs(NamedTuple):
    verb: str
    past: str


_VERBS = (_Verbs("earn", "earned"), _Verbs("cost", "cost"))  # of rewards, of costs

# The answer that one closed form gives by itself.
AT_ONCE = "at once (effort none)"


class Tested(NamedTuple):
    """Answers to questions with known truth: how many, wrong by more than a tenth of the difference from the log, and how many
    of their intervals held the truth."""

    answers: int
    wrong: int
    held: int


# What verdicts of the default answer were worth: the sums over the rows of method "default" in
# docs/results/suite/BOARD/verdicts.csv, which a test compares with these. Boards of earlier rules for verdicts are left out.
TESTED_EFFORT, TESTED_CONFIDENCE = "quick", 0.95
TESTED_BOARDS = ("development_large", "exam_0.3.0_large", "exam_0.4.0", "exam_0.4.0_20000")
TESTED = {"ok": Tested(22, 1, 21), "caution": Tested(402, 186, 372), "bad": Tested(126, 100, 116)}

# More decimals than this, or numbers above it, are written with an exponent.
_DECIMALS, _LARGE = 8, 1e9
# Settings that are not those of the first closed form alone.
_OF_PANELS = ("method", "first_closed_form", "standard_errors", "random_state", "excerpt")
# Smaller standard errors, relative to the value, are rounding.
_EXACT = 1e-12


def headline(evaluation: Evaluation) -> str:
    """The answer in a sentence."""
    evaluation, verbs = spoken(evaluation), _VERBS[evaluation.cost is not None]
    rate, low, high = numbers(evaluation.target, evaluation.confidence, decimals_of(evaluation))
    per = evaluation.unit or "per step"
    has_interval = math.isfinite(evaluation.standard_error)
    within = (
        f"{level_text(evaluation.confidence)} interval {low} to {high}" if has_interval else _no_interval(evaluation)
    )
    if evaluation.is_logged:
        return f"The log {verbs.past} {rate} {per} ({within})."
    return (
        f"'{evaluation.name}' would {verbs.verb} {rate} {per} in the long run ({within}){_against(evaluation, verbs)}."
    )


def title(evaluation: Evaluation) -> str:
    """The rate, as a heading."""
    evaluation, verbs = spoken(evaluation), _VERBS[evaluation.cost is not None]
    rate = numbers(evaluation.target, evaluation.confidence, decimals_of(evaluation))[0]
    per = evaluation.unit or "per step"
    if evaluation.is_logged:
        return f"The log {verbs.past} {rate} {per}"
    return f"'{evaluation.name}' would {verbs.verb} {rate} {per} in the long run"


def sentences(evaluation: Evaluation) -> Iterable[str]:
    """The interval, the log's rate, the difference and how sure it is."""
    evaluation, verbs = spoken(evaluation), _VERBS[evaluation.cost is not None]
    decimals, level = decimals_of(evaluation), level_text(evaluation.confidence)
    _, low, high = numbers(evaluation.target, evaluation.confidence, decimals)
    known = math.isfinite(evaluation.standard_error)
    own = f"The {level} interval is {low} to {high}." if known else f"There is {_no_interval(evaluation)}."
    if evaluation.is_logged:
        yield own
        return
    logged, low, high = numbers(evaluation.behavior, evaluation.confidence, decimals)
    within = f" ({low} to {high})" if math.isfinite(evaluation.behavior.standard_error) else ""
    yield f"{own} The log itself {verbs.past} {logged} {evaluation.unit or 'per step'}{within}."
    yield _difference_sentence(evaluation, decimals, verbs)


def candidate_name(name: str) -> str:
    """A candidate of a panel, or of a rehearsal."""
    family, _, size = name.partition(":")
    known = {
        "auto": "smooth features",
        "world": "learned process",
        "network": "last layer of a network",
        "polynomial": f"polynomials, degree {size}",
        "fourier": f"{size} waves",
    }
    return known.get(family, name)


def rehearsed_name(rehearsal: Rehearsal, name: str) -> str:
    """A row of a rehearsal's table."""
    if name == TOGETHER:
        return f"all {'closed forms' if rehearsal.is_closed else 'candidates'} together"
    if name == "auto" and rehearsal.residual is None:
        return "closed form"  # of a discrete log, which needs no features
    return candidate_name(name)


def spoken_rehearsal(rehearsal: Rehearsal) -> Rehearsal:
    """The rehearsal with the rates that are shown: costs where the log holds costs."""
    if rehearsal.cost is None:
        return rehearsal
    residual = rehearsal.residual
    return replace(
        rehearsal,
        **{name: -getattr(rehearsal, name) for name in ("rates", "truths", "rehearsed", "logged", "own")},
        residual=None if residual is None else replace(residual, value=-residual.value),
    )


def rehearsal_title(rehearsal: Rehearsal) -> str:
    """The heading of the table of a rehearsal."""
    what = f"{outcome(rehearsal)}, {rehearsal.unit or 'per step'}"
    return f"Rehearsal on {len(rehearsal.truths)} systems learned from the log ({what})"


# Of the table of a rehearsal: key, heading, whether it holds numbers.
REHEARSAL_COLUMNS = (
    ("name", "candidate", False),
    ("rate", "rate", True),
    ("standard_error", "std. error", True),
    ("error", "error", True),
    ("bias", "bias", True),
    ("held", "held", True),
)


def rehearsal_rows(rehearsal: Rehearsal) -> list[dict[str, str]]:
    """The table of a rehearsal in words: every candidate, what the policy and the log's own behavior do there, and the log."""
    shown = spoken_rehearsal(rehearsal)
    rows = [
        {
            "name": rehearsed_name(rehearsal, row["candidate"]),
            "rate": _digits(row["rate"]),
            "standard_error": _digits(row["standard_error"]),
            "error": _digits(row["error_in_worlds"]) if row["eligible"] else "",
            "bias": f"{row['bias_in_worlds']:+.4g}" if row["eligible"] else "",
            "held": percent(row["coverage_in_worlds"]) if row["eligible"] else "",
        }
        for row in shown.table
    ]
    for name, rate, error in (
        ("the policy there", np.median(shown.truths), shown.truths.std(ddof=1)),
        ("simulated logs", np.median(shown.own), shown.own.std(ddof=1)),
        ("the log", shown.logged, shown.logged_standard_error),
    ):
        told = {"name": name, "rate": _digits(rate), "standard_error": _digits(error)}
        rows.append(dict.fromkeys(("error", "bias", "held"), "") | told)
    return rows


def _digits(value: Any) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "none"


def rehearsal_notes(rehearsal: Rehearsal) -> Iterable[str]:
    """Sentences on the columns of a rehearsal's table, on candidates without an answer, and on what was rehearsed."""
    yield (
        "Rate and standard error of a candidate are of the log itself; error (root mean square), bias (mean) and the share of "
        "95 % intervals that held are of logs that were simulated in these systems, where the answer is known. Of the policy and "
        "of simulated logs: the median over systems, and their spread."
    )
    for row in rehearsal.table:
        if not row["eligible"]:
            name = rehearsed_name(rehearsal, row["candidate"])
            yield f"{name[0].upper()}{name[1:]}: not everywhere an answer with a standard error. {row['note']}".rstrip()
    yield rehearsal.covers


class CandidateRow(NamedTuple):
    """A line of the table of candidates, in words."""

    name: str
    rate: str
    interval: str
    weight: str
    note: str


def candidate_rows(evaluation: Evaluation) -> Iterator[CandidateRow]:
    """What each candidate of a panel says by itself, and last the answer that one closed form gives at once."""
    panel, shown = evaluation.panel, spoken(evaluation)
    if panel is None:
        return
    decimals = decimals_of(shown)
    for one in panel.opinions:
        name = candidate_name(one.name)
        if one.estimate is None:
            yield CandidateRow(name, "", "", "0 %", one.note)
            continue
        estimate = one.estimate if evaluation.cost is None else one.estimate.negative()
        yield CandidateRow(name, *_told(estimate, evaluation.confidence, decimals), share_text(one.weight), one.note)
    yield CandidateRow(AT_ONCE, *_told(shown.limit, evaluation.confidence, decimals), "none", "")


def _told(estimate: Estimate, confidence: float, decimals: int | None) -> tuple[str, str]:
    """A rate and its interval, if it has one."""
    rate, low, high = numbers(estimate, confidence, decimals)
    return rate, f"{low} … {high}" if math.isfinite(estimate.standard_error) else "none"


def panel_sentence(evaluation: Evaluation) -> str:
    """A sentence on how far candidates are apart, and on those whose answers were not used."""
    panel = evaluation.panel
    if panel is None:
        return ""
    shown = spoken(evaluation)
    decimals = decimals_of(shown)
    rates = [sign(evaluation) * one.estimate.value for one in panel.voting if one.estimate is not None]
    error = shown.target.standard_error
    low, high = (number(rate, error, decimals, False) for rate in (min(rates), max(rates)))
    silent = [candidate_name(one.name) for one in panel.opinions if one.weight == 0]
    rest = f" Without a vote: {', '.join(silent)}." if silent else ""
    if len(rates) == 1:
        return f"One way to compute it gave {low}.{rest}"
    return f"{in_words(len(rates)).capitalize()} ways to compute it gave {low} to {high}.{rest}"


def limit_sentence(evaluation: Evaluation) -> str:
    """A sentence on the answer that one closed form gives at once."""
    shown = spoken(evaluation)
    rate, low, high = numbers(shown.limit, shown.confidence, decimals_of(shown))
    return f"One closed form alone says {rate} ({low} to {high})."


def shrink_sentence(evaluation: Evaluation) -> str:
    """What makes the interval of a panel wide, and which rows would make it shorter; empty without a panel."""
    panel = evaluation.panel
    if panel is None:
        return ""
    held_out = evaluation.held_out_share
    rest = {name: (1 - held_out) * part for name, part in panel.parts._asdict().items()}
    share, said = max(
        (held_out, "what held-out rows say against the learned process"),
        (rest["noise"], "noise of the log, which four times as many rows would halve"),
        (rest["kinds"], "how far the closed forms and the learned process are apart"),
        (rest["features"], "how far closed forms in different features are apart"),
    )
    most = "Most" if share > 0.5 else "The largest part"
    return f"{most} of the interval's width is {said}. {_helping(evaluation.scarce)}"


def _helping(places: Sequence[Scarce]) -> str:
    """Which rows would help most."""
    if not places:
        return "More rows where the target goes would help most."
    said = [f"rows with {_place(one)}, {'which' if one.is_action else 'where'} {_more_often(one)}" for one in places]
    return f"What would help most: {'; and '.join(said)}."


def _place(place: Scarce) -> str:
    """A label or a range of a column."""
    if place.label is not None:
        return f"{place.column} '{place.label}'"
    low, high = (None if end is None else _end(end, place) for end in (place.low, place.high))
    if low is None and high is None:
        return f"any {place.column}"
    if low == high:
        return f"{place.column} {low}"
    if low is None:
        return f"{place.column} {'up to' if place.is_whole else 'below'} {high}"
    if high is None:
        return f"{place.column} {'from' if place.is_whole else 'above'} {low}{' on' if place.is_whole else ''}"
    return f"{place.column} {low} to {high}" if place.is_whole else f"{place.column} between {low} and {high}"


def _end(value: float, place: Scarce) -> str:
    """An end of a range, with as many digits as tell it from the next bin's."""
    if place.is_whole:
        return f"{value:.0f}"
    digits = 3 if value == 0 else max(3, 2 + math.ceil(math.log10(max(1.0, abs(value) / place.step))))
    return f"{float(f'{value:.{digits}g}'):,.10g}"


def _more_often(place: Scarce) -> str:
    """How much more often the target is at a place, or takes an action, than the log."""
    target, logged = share_text(place.target), share_text(place.logged)
    ratio = place.target / place.logged if place.logged > 0 else math.inf
    if place.is_action:
        often = f" {ratio:.2g} times as often as the log" if 1.5 <= ratio < 20 else " more often than the log"
        return f"the target takes{often} ({target} of rows against {logged})"
    if 1.5 <= ratio < 20:
        return f"the target is {ratio:.2g} times as often as the log ({target} of its time against {logged})"
    return f"the target spends {target} of its time, and the log {logged}"


def decision(evaluation: Evaluation) -> str:
    """Whether the target is better than the log, as far as the answer tells; empty where it does not tell at all."""
    difference = evaluation.difference
    if evaluation.is_logged or evaluation.verdict == "bad" or not 0 < difference.standard_error < math.inf:
        return ""
    low, high = difference.interval(evaluation.confidence)
    if low > 0 or high < 0:
        better = difference if low > 0 else difference.negative()
        _, least, most = numbers(better, evaluation.confidence)
        return f"Better than the log: {'yes,' if low > 0 else 'no, worse'} by {least} to {most}."
    _, least, most = numbers(spoken(evaluation).difference, evaluation.confidence, signed=True)
    return f"Better than the log: not decided; the difference may be anything from {least} to {most}."


def expectation(evaluation: Evaluation) -> str:
    """What answers with this verdict were worth where the truth is known; empty for other answers than those that were tested."""
    is_tested = evaluation.effort == TESTED_EFFORT and evaluation.confidence == TESTED_CONFIDENCE
    if not is_tested or evaluation.is_logged or not 0 < evaluation.standard_error < math.inf:
        return ""
    return expectation_of(evaluation.verdict)


def expectation_of(verdict: str) -> str:
    """What answers with a verdict were worth where the truth is known."""
    answers, wrong, held = TESTED[verdict]
    erred = f"{wrong:,} ({share_text(wrong / answers)}) were" if wrong else "none was"
    return (
        f"Of {answers:,} answers with verdict {verdict} about test logs with known truth, {erred} wrong by more than a tenth of "
        f"the difference from the log, and {held:,} intervals ({share_text(held / answers)}) held the truth."
    )


def outcome(evaluation: Evaluation | Rehearsal) -> str:
    """The outcome that tables and pictures show: reward or cost."""
    return "reward" if evaluation.cost is None else f"cost '{evaluation.cost}'"


def sign(evaluation: Evaluation) -> int:
    """The sign that turns a reward into what is shown: costs are minus the rewards that everything is computed with."""
    return 1 if evaluation.cost is None else -1


def spoken(evaluation: Evaluation) -> Evaluation:
    """The evaluation with the rates that are shown: costs where the log holds costs."""
    if evaluation.cost is None:
        return evaluation
    negated = {name: getattr(evaluation, name).negative() for name in ("target", "limit", "behavior", "difference")}
    return replace(evaluation, **negated)


def spoken_differences(comparison: Comparison) -> dict[tuple[str, str], Estimate]:
    """The paired differences that are shown, the better policy first: of costs where the log holds costs."""
    found = comparison.ranked_differences()
    if comparison.listed[0].cost is None:
        return found
    return {pair: difference.negative() for pair, difference in found.items()}


def differences_title(comparison: Comparison) -> str:
    """The heading of the table of differences."""
    return "Paired differences" if comparison.is_paired else "Differences"


def findings_note(evaluation: Evaluation | Rehearsal) -> str:
    """A sentence that findings speak of rewards, where costs are shown."""
    return "" if evaluation.cost is None else f"Findings speak of rewards, which are minus '{evaluation.cost}'."


def _difference_sentence(evaluation: Evaluation, decimals: int | None, verbs: "_Verbs") -> str:
    difference, level = evaluation.difference, level_text(evaluation.confidence)
    known = math.isfinite(difference.standard_error)
    value, low, high = numbers(difference, evaluation.confidence, None if known else decimals, signed=True)
    if not known:
        return f"The difference is {value}; this method does not say how certain that is."
    said = f"The difference is {value} ({level} interval {low} to {high})"
    if difference.standard_error == 0 or evaluation.verdict == "bad":
        return f"{said}."
    chance = difference.p_value()
    chance = 2 * min(chance, 1 - chance)
    low_end, high_end = difference.interval(evaluation.confidence)
    clear = "" if low_end > 0 or high_end < 0 else ", which noise alone may explain"
    return (
        f"{said}{clear}: if both {verbs.past} the same, a log like this would show a difference that large, in one direction or "
        f"the other, {_one_in(chance)} (two-sided p {_equals(chance)})."
    )


def _one_in(chance: float) -> str:
    if chance < 1e-4:
        return "less than once in 10,000 times"
    return f"about once in {1 / chance:,.0f} times" if chance < 0.1 else f"in {100 * chance:.0f} % of cases"


def _equals(chance: float) -> str:
    return "< 0.0001" if chance < 1e-4 else f"= {chance:.2g}"


def comparison_title(comparison: Comparison) -> str:
    """Who is first, as a heading; nobody, where the answers do not tell."""
    ranked, unranked = comparison.ranking, comparison.unranked
    if not ranked:
        return "No ranking: the verdict on every policy is bad"
    best = spoken(ranked[0])
    equal = [one.name for one in ranked if one.target.value == ranked[0].target.value]
    rate = numbers(best.target, best.confidence, decimals_of(best))[0]
    value = f"{rate} {best.unit or 'per step'} in the long run"
    if len(ranked) == 1:
        return f"No ranking: only '{best.name}' has an answer that is not bad, {value}"
    first = "highest rate" if best.cost is None else "lowest cost"
    among = " of those that can be ranked" if unranked else ""
    if len(equal) > 1:
        same = "rate, the highest" if best.cost is None else "cost, the lowest"
        return f"{_listed(equal)} have the same {same}{among}: {value}"
    return f"'{best.name}' has the {first}{among}: {value}"


def expectations(evaluations: Iterable[Evaluation]) -> list[str]:
    """What answers with the verdicts on these policies were worth where the truth is known, each once."""
    return list(dict.fromkeys(filter(None, map(expectation, evaluations))))


def comparison_sentences(comparison: Comparison) -> Iterable[str]:
    """Sentences on the lead of the first policy, over whom it is beyond noise, and on rates that are not to be relied on."""
    ranked, unranked = comparison.ranking, comparison.unranked
    if len(ranked) > 1:
        yield from _leads(comparison, ranked)
    if ranked and not any(one.is_logged for one in comparison.evaluations.values()):
        yield from _log_beside(ranked[0])
    if unranked:
        names = _listed([one.name for one in unranked])
        wrong = dict.fromkeys(name for one in unranked for name in reasons(one))
        yield (
            f"{names} {'has' if len(unranked) == 1 else 'have'} no rank, because the verdict is bad ({', '.join(wrong)}): do not "
            "rely on these numbers until the problems named below are fixed."
        )
    if not ranked:
        log = spoken(unranked[0])
        logged, low, high = numbers(log.behavior, log.confidence, decimals_of(log))
        within = f" ({level_text(log.confidence)} interval {low} to {high})" if log.behavior.standard_error >= 0 else ""
        past = _VERBS[log.cost is not None].past
        yield f"What is known is what the log itself {past}: {logged} {log.unit or 'per step'}{within}."
    if doubted := [one.name for one in ranked if one.verdict == "caution"]:
        yield f"Read the cautions on {_listed(doubted)} below, too."


def reasons(evaluation: Evaluation) -> list[str]:
    """The names of the findings that the verdict comes from."""
    own = (entry for entry in evaluation.diagnostics if not entry.is_about_others)
    return [entry.name for entry in own if entry.verdict == evaluation.verdict]


def _leads(comparison: Comparison, ranked: Sequence[Evaluation]) -> Iterable[str]:
    """Over whom the first of those that have a rank leads, and how surely."""
    best, *others = ranked
    found: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for one in others:
        if one.target.value == best.target.value:  # the heading names it
            continue
        found[comparison.beyond_noise(best.name, one.name)].append(one.name)
    if found[True]:
        yield f"The lead over {_listed(found[True])} is beyond noise."
    if found[False]:
        yield f"The lead over {_listed(found[False])} is within noise: the log does not tell them apart."
    if found[None]:
        yield f"These methods do not say how certain the lead over {_listed(found[None])} is."
    total = len(comparison.differences)
    clear = sum(comparison.beyond_noise(a, b) is True for a, b in comparison.differences)
    if total > len(others):
        yield f"Of all {total} differences, {clear} {'is' if clear == 1 else 'are'} beyond noise."


def _log_beside(best: Evaluation) -> Iterable[str]:
    """Whether the first does better than what was done so far: a ranking alone does not tell."""
    low, high = best.difference.interval(best.confidence)
    if not math.isfinite(high - low):
        return
    verbs, log = _VERBS[best.cost is not None], spoken(best)
    logged = f"{numbers(log.behavior, log.confidence, decimals_of(log))[0]} {log.unit or 'per step'}"
    if high < 0:
        more = "more" if best.cost is None else "less"
        yield (
            f"The log itself {verbs.past} {more}, {logged}, and that is beyond noise: none of these policies is shown to be "
            "better."
        )
    elif low <= 0:
        yield f"What the log itself {verbs.past}, {logged}, is within noise of '{best.name}'."


def _listed(names: Sequence[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def beyond(comparison: Comparison, a: str, b: str) -> str:
    """Yes, no, or why neither, in a word or two."""
    if {a, b} & {one.name for one in comparison.unranked}:
        return "verdict bad"
    found = comparison.beyond_noise(a, b)
    return "not known" if found is None else "yes" if found else "no"


def noise_note(comparison: Comparison) -> str:
    """A sentence on what "beyond noise" means."""
    total, level = len(comparison.differences), level_text(1 - comparison.confidence)
    many = f", adjusted for all {total} differences by Holm's rule" if total > 1 else ""
    return f"Beyond noise: a two-sided p of at most {level}{many}. Intervals hold for each difference by itself."


def places_note(evaluation: Evaluation) -> str:
    """A sentence on what the contributions of places add up to."""
    views, difference = evaluation.views, spoken(evaluation).difference.value
    if views.total_gain is None:
        return ""
    total = sign(evaluation) * views.total_gain
    if views.table is not None and views.table.left_out:
        return (
            f"These are the {len(views.table.states):,} states with most rows, which hold "
            f"{share_text(views.table.share.sum())} of the log and {total:+.3g} of the difference of {difference:+.3g}."
        )
    overlap = (
        "" if views.table is not None else " Ranges of different columns overlap, so the rows above do not add up."
    )
    if abs(total - difference) > 0.25 * max(abs(difference), abs(total)):
        return (
            f"Do not rely on these parts: over all logged states they add up to {total:+.3g}, and the difference of the rates is "
            f"{difference:+.3g}. The log may not be typical of its own long run, or the features may not fit.{overlap}"
        )
    return (
        f"How much more the target's actions {'are worth' if evaluation.cost is None else 'cost'} there than the logged ones, "
        "over the whole future. Over all logged states "
        f"this adds up to {total:+.3g}, which is the difference of the rates ({difference:+.3g}) apart from the ends of the log "
        f"and what features cannot express.{overlap}"
    )


def _no_interval(evaluation: Evaluation) -> str:
    """That there is no interval, in words, and how far seeds agree where that is known."""
    spread = evaluation.settings.get("spread_over_seeds")
    known = spread is not None and math.isfinite(spread)
    return f"no interval; standard deviation over seeds {spread:.2g}" if known else "no interval"


def _against(evaluation: Evaluation, verbs: _Verbs) -> str:
    """More or less than the log, where that can be said."""
    low, high = evaluation.difference.interval(evaluation.confidence)
    if evaluation.verdict == "bad":
        return "; do not rely on this until the problems marked bad below are fixed"
    if low > 0 or high < 0:
        return f": {'more' if low > 0 else 'less'} than the log {verbs.past}"
    return f": not clearly different from what the log {verbs.past}" if low <= 0 <= high else ""


def level_text(confidence: float) -> str:
    """A level of intervals as people write it: `95 %`, `99.9 %`."""
    return f"{100 * confidence:.4g} %"


def share_text(share: float) -> str:
    """`3.2 %`; small shares keep a digit, and what is not zero is not written as zero."""
    if 0 < share < 0.0005:
        return "less than 0.05 %"
    return f"{100 * share:.1f} %" if 0 < share < 0.1 else f"{100 * share:.0f} %"


def numbers(
    estimate: Estimate, confidence: float, decimals: int | None = None, *, signed: bool = False
) -> tuple[str, str, str]:
    """The value and both ends of its interval, with as many decimals as its standard error deserves, or those given."""
    low, high = (number(end, estimate.standard_error, decimals, signed) for end in estimate.interval(confidence))
    return number(estimate.value, estimate.standard_error, decimals, signed), low, high


def common_decimals(estimates: Iterable[Estimate]) -> int | None:
    """The decimals that the most certain of the numbers deserves; None: each is written by itself."""
    found = [estimate for estimate in estimates if math.isfinite(estimate.value)]
    errors = [one.standard_error for one in found if _EXACT * abs(one.value) < one.standard_error < math.inf]
    if not errors or any(abs(one.value) >= _LARGE for one in found):
        return None
    decimals = max(0, _deserved(min(errors)))
    return decimals if decimals <= _DECIMALS else None


def decimals_of(evaluation: Evaluation) -> int | None:
    """The decimals by which all numbers of an answer are written."""
    return common_decimals([evaluation.target, evaluation.behavior])


def _deserved(error: float) -> int:
    return 1 - math.floor(math.log10(error))


def number(value: float, error: float, common: int | None, signed: bool) -> str:
    """A number with the decimals that all numbers have in common, or with as many as its error deserves."""
    sign, value = "+" if signed else "", value + 0.0  # a cost of zero is not written as -0
    if not math.isfinite(value):
        return "none"
    if common is not None and abs(value) < _LARGE:
        return f"{value:{sign},.{common}f}"
    if not math.isfinite(error) or error <= _EXACT * abs(value):
        return f"{value:{sign}.6g}"
    decimals = _deserved(error)
    if decimals > _DECIMALS or abs(value) >= _LARGE:
        size = max(abs(value), error)
        digits = min(17, max(2, 2 + math.floor(math.log10(size / error))))
        return f"{value:{sign}.{digits}g}"
    return f"{value:{sign},.{max(0, decimals)}f}"


def probability(p: float) -> str:
    """A probability in digits; a tiny one as its bound."""
    return "none" if not math.isfinite(p) else "< 0.0001" if p < 1e-4 else f"{p:.3g}"


def once(said: Iterable[tuple[str, Said]]) -> list[tuple[list[str], Said]]:
    """Everything once, with the names of the policies it was said of."""
    found: dict[Said, list[str]] = {}
    for name, sentence in said:
        found.setdefault(sentence, []).append(name)
    return [(names, sentence) for sentence, names in found.items()]


def warnings_of(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Warnings to read before the numbers, with the names of the policies that they concern where these are not all."""
    for names, warning in once((one.name, warning) for one in evaluations for warning in one.warnings):
        of = "" if len(names) == len(evaluations) else f" ({', '.join(names)})"
        yield f"Warning{of}: {warning}"


def settings_of(evaluation: Evaluation) -> Iterable[tuple[str, str]]:
    """The settings that were used, by name; of a panel those of its first closed form are called so."""
    for key, value in evaluation.settings.items():
        if value is not None:
            is_its = evaluation.panel is not None and key not in _OF_PANELS
            yield f"{'its ' if is_its else ''}{key.replace('_', ' ')}", _shown(value)


def _shown(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if math.isfinite(value) else "none"
