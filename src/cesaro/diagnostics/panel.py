"""What answers of several kinds say of the answer that they give together; and what a discrete log leaves open."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cesaro.checks import Array
from cesaro.diagnostics.equations import ROWS_PER_PAIR
from cesaro.diagnostics.finding import Check, Diagnostic, Verdict, at_most
from cesaro.diagnostics.maps import AGREEMENT_OF_FEATURES, LEARNED_METHODS
from cesaro.diagnostics.rows import DRIFT, INFLUENTIAL_ROWS, MEMORY, REWARD_DRIFT
from cesaro.diagnostics.support import EFFECTIVE_SAMPLE_SIZE, NEGATIVE_DENSITY_RATIO, SUPPORT
from cesaro.diagnostics.worlds import WorldFacts, edge, held_out, hidden_state, over_time
from cesaro.passes.standard_errors import Estimate
from cesaro.text import percent

if TYPE_CHECKING:
    from cesaro.diagnostics.subject import Subject

# The interval's half width as a part of the difference from the log; what is within the noise of the log deserves caution, too.
# An interval of 95 % that reaches 0.12 leaves an error above a tenth once in ten times, and narrower ones, taken together, once
# in forty.
WIDTH_CAUTION, WIDTH_BAD = 0.12, 1.0
# A target that does nearly what the log does hardly differs from it, and no interval is narrow beside that. It is as good as a
# log can tell while it reaches no further than so many half widths of what the log says of itself.
LIKE_THE_LOG = 2.0
# Standard errors of their difference that two kinds of answers may be apart.
APART = 2.5
# The share of the target's actions outside of the log from which a panel's answer suffers; its interval holds what fewer do.
OUTSIDE = 0.03
# The part by which rare pairs widen an interval.
WIDER = 0.25
# The correlation of what a rollout earns in successive stretches, where starts are not forgotten in thousands of steps: slow
# systems come to 0.7, and those that never leave a group of states to 1.
START_BAD = 0.9
# Of 20 worlds, intervals that hold in 95 % of them hold in fewer than 16 once in 400 times.
HELD = 0.8

WIDTH_OF_INTERVAL = Check(
    "width of the interval",
    number="half width, as a part of the difference from the log",
    caution=f"over {percent(WIDTH_CAUTION)}",
    bad=f"over {percent(WIDTH_BAD)}, and over {LIKE_THE_LOG:g} half widths of what the log says of its own rate",
    meaning="the log tells the difference only roughly; over 100 %: not at all",
    remedy="more rows, above all where the target does other things than the log",
)
AGREEMENT_OF_KINDS = Check(
    "agreement of kinds",
    number="closed forms together minus the learned process, in standard errors of that difference",
    caution=f"over {APART:g}; or the learned process has no vote",
    meaning="one of the two kinds is wrong; the interval reaches both",
    remedy="look at what each candidate says, and which is more likely wrong: `cesaro rehearse`; more rows",
)
RARE_PAIRS = Check(
    "rare pairs",
    number="how much wider the interval is because of pairs that were seen rarely, as a part",
    caution=f"over {percent(WIDER)}",
    meaning="what rarely happened in the log decides about the rate",
    remedy="more rows where the target goes",
)
REHEARSAL = Check(
    "rehearsal",
    number="share of worlds, learned from the log, in which the interval of closed forms held what the target earns there",
    caution=f"below {percent(HELD)}; or these worlds do not resemble the log; or there are none",
    meaning="closed forms are often wrong on systems like this one, or the rehearsal does not tell",
    remedy="look at `cesaro rehearse`; more rows",
)
START = Check(
    "dependence on the start",
    number="correlation of what a rollout in the learned process earns in successive stretches, where it never settles",
    caution="wherever it does not settle",
    bad=f"over {START_BAD:g}",
    meaning="what the target earns may depend on where it starts, so that it has no single rate",
    remedy="look for groups of states that never meet, and evaluate each on its own",
)
CHECKS = (WIDTH_OF_INTERVAL, AGREEMENT_OF_KINDS, START, RARE_PAIRS, REHEARSAL)
# What these say of one closed form, its noise and what its features miss, the interval of a panel holds.
HELD_BY_PANELS = frozenset(
    check.name
    for check in (
        AGREEMENT_OF_FEATURES,
        EFFECTIVE_SAMPLE_SIZE,
        INFLUENTIAL_ROWS,
        LEARNED_METHODS,
        NEGATIVE_DENSITY_RATIO,
    )
)


@dataclass(frozen=True)
class PanelFacts:
    """An answer of several candidates.

    Attributes:
        target, difference, logged: the rate, its difference from the log, and what the log earned.
        closed_forms, world: what each kind says by itself; None where it says nothing.
        note: why the world has no vote.
        about_world: what the learned world says about itself; None where there is none.
        remembered: the correlation by which a rollout depends on its start; zero where it forgets it.
    """

    target: Estimate
    difference: Estimate
    logged: Estimate
    closed_forms: Estimate
    world: Estimate | None
    note: str
    about_world: WorldFacts | None
    remembered: float = 0.0


def panel_findings(facts: PanelFacts, of_closed_form: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """Findings on the answer of a panel, and of those on its first closed form what they say of the panel's answer."""
    knows_memory = facts.about_world is not None and facts.about_world.residual is not None
    left_out = HELD_BY_PANELS | ({MEMORY.name} if knows_memory else set())
    half = _half(facts.target)
    kept = (_supported(entry) for entry in of_closed_form if entry.name not in left_out)
    yield from _drifting(kept, half)
    yield width(facts.target, facts.difference.value, facts.logged)
    yield _kinds(facts)
    if facts.remembered:
        yield _start(facts.remembered)
    found = facts.about_world
    if found is not None and found.residual is not None:
        if facts.world is not None:
            yield held_out(found.residual, half)
        yield hidden_state(found.residual)
        yield over_time(found.residual)
        yield edge(found)


def table_findings(
    target: Estimate,
    difference: Estimate,
    logged: Estimate,
    of_closed_form: Iterable[Diagnostic],
    rare: Diagnostic | None,
) -> Iterator[Diagnostic]:
    """Findings on a discrete log, whose interval holds what rare pairs leave open, unless these could not be looked at."""
    held = () if rare is None else (ROWS_PER_PAIR.name, INFLUENTIAL_ROWS.name)
    yield from _drifting((entry for entry in of_closed_form if entry.name not in held), _half(target))
    yield width(target, difference.value, logged)
    if rare is not None:
        yield rare


def _drifting(found: Iterable[Diagnostic], half: float) -> Iterator[Diagnostic]:
    """A change between halves of the log is bad where the interval does not hold it; rewards alone may change with actions."""
    entries = list(found)
    changes = any(entry.name == DRIFT.name and entry.verdict != "ok" for entry in entries)
    for entry in entries:
        if entry.name == DRIFT.name and changes and entry.value is not None and abs(entry.value) > half:
            yield replace(entry, verdict="bad")
        elif entry.name != REWARD_DRIFT.name or changes:
            yield entry


def _supported(entry: Diagnostic) -> Diagnostic:
    is_held = entry.name == SUPPORT.name and entry.value is not None and entry.value <= OUTSIDE
    return replace(entry, verdict="ok", remedy="") if is_held else entry


def _start(remembered: float) -> Diagnostic:
    return START.found(
        remembered,
        "bad" if remembered > START_BAD else "caution",
        f"In the learned process what a rollout earns in one stretch tells what it earns in the next (correlation "
        f"{remembered:.2f}): starts are not forgotten.",
        "Look for groups of states that never meet, and evaluate each on its own, or for a state that the columns do not show.",
    )


def alone(subject: "Subject") -> Iterator[Diagnostic]:
    """The interval of a learned world that answers by itself, which aims at the truth as that of a panel does."""
    if subject.world is not None:
        yield width(subject.estimate, subject.estimate.value - subject.behavior.value, subject.behavior)


def width(target: Estimate, difference: float, logged: Estimate) -> Diagnostic:
    """The interval beside what it is to tell: the difference from the log; and beside what the log says of itself."""
    half, own = (_half(one) for one in (target, logged))
    difference = abs(difference)
    part = half / difference if difference > 0 else np.inf
    verdict = at_most(part, WIDTH_CAUTION, WIDTH_BAD)
    return WIDTH_OF_INTERVAL.found(
        part,
        "caution" if verdict == "bad" and half <= LIKE_THE_LOG * own else verdict,
        f"The interval reaches {_reach(target)}, "
        + (f"{percent(part)} of the difference" if part < 10 else "far more than the difference")
        + f" from the log, {difference:.3g}.",
        "Collect more rows, above all where the target does other things than the log; until then rely on the interval alone.",
    )


def _half(estimate: Estimate) -> float:
    low, high = estimate.interval()
    return (high - low) / 2


def _reach(target: Estimate) -> str:
    """How far an interval reaches to its sides, which are not alike where one of them reaches further."""
    low, high = target.interval()
    if target.below == target.above:
        return f"{(high - low) / 2:.3g} to each side"
    return f"{target.value - low:.3g} down and {high - target.value:.3g} up"


def _kinds(facts: PanelFacts) -> Diagnostic:
    if facts.world is None:
        return AGREEMENT_OF_KINDS.found(
            None,
            "caution",
            f"Closed forms were not compared with the learned process. {facts.note}",
            "The interval covers how far features differ, and not another kind of answer.",
        )
    one, other = facts.closed_forms, facts.world
    gap = one.value - other.value
    error = float(np.hypot(one.standard_error, other.standard_error))
    size = abs(gap) / error if error > 0 else np.inf
    return AGREEMENT_OF_KINDS.found(
        gap / error if error > 0 else None,
        "ok" if size <= APART else "caution",
        f"Closed forms give {one.value:.4g}, and the learned process gives {other.value:.4g}: "
        f"{size:.1f} standard errors apart.",
        "The interval reaches both. Look at what each candidate says, and rehearse the question (cesaro rehearse).",
    )


def rare_pairs(estimate: Estimate, rates: Array, confidence: float) -> Diagnostic:
    """How far rates of processes that a discrete log allows, `[draws]`, reach beyond the interval of its noise."""
    low, high = estimate.interval(confidence)
    least, most = (float(end) for end in np.quantile(rates, [(1 - confidence) / 2, (1 + confidence) / 2]))
    below, above = max(0.0, low - least), max(0.0, most - high)
    part = (below + above) / (high - low) if high > low else 0.0
    found = RARE_PAIRS.found(
        part,
        "ok" if part <= WIDER else "caution",
        f"Processes that the log allows have rates from {least:.4g} to {most:.4g}, and the noise of the log gives {low:.4g} to "
        f"{high:.4g}; the interval holds both.",
        "Collect more rows where the target goes.",
    )
    return replace(found, widens=(below, above))


def rehearsed(worlds: int, held: float, resemble: Verdict, summary: str) -> Diagnostic:
    """Whether closed forms would have been right on systems like this one, and whether these systems resemble the log."""
    if resemble == "bad":
        return REHEARSAL.found(
            held,
            "caution",
            summary,
            "See which of the checks on these systems is bad; until that is mended, a rehearsal does not tell.",
        )
    return REHEARSAL.found(
        held,
        "ok" if held >= HELD or worlds < 10 else "caution",
        summary,
        "Closed forms err on systems like this one by more than they say; look at what each candidate says.",
    )


def not_rehearsed(reason: str, *, is_discrete: bool = False) -> Diagnostic:
    """There is no rehearsal in a full answer; a discrete log, which has no learned process, does without."""
    return REHEARSAL.found(
        None,
        "ok" if is_discrete else "caution",
        f"Not rehearsed: {reason}",
        "A rehearsal takes a learned process that resembles the log; see what is said about it.",
    )
