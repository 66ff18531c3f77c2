"""What answers of several kinds say of the answer that they give together; and what a discrete log leaves open."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from cesaro.checks import Array
from cesaro.diagnostics.finding import Check, Diagnostic
from cesaro.diagnostics.worlds import WorldFacts, edge, hidden_state
from cesaro.passes.standard_errors import Estimate
from cesaro.text import percent

# The interval's half width as a part of the difference from the log, or of so many standard errors of the log's own rate if that
# is more: a smaller difference is none.
WIDTH, ERRORS = 0.15, 5.0
# Standard errors of their difference that two kinds of answers may be apart.
APART = 2.5
# The part by which rare pairs widen an interval.
WIDER = 0.25
# Of 20 worlds, intervals that hold in 95 % of them hold in fewer than 16 once in 400 times.
HELD = 0.8

WIDTH_OF_INTERVAL = Check(
    "width of the interval",
    number=(
        f"half width, as a part of the difference from the log (or of {ERRORS:g} SE of the log's own rate, if that is more)"
    ),
    caution=f"over {percent(WIDTH)}",
    meaning="the log tells the difference only roughly, or not at all",
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
    caution=f"below {percent(HELD)}",
    meaning="closed forms are often wrong on systems like this one",
    remedy="look at `cesaro rehearse`; more rows",
)
CHECKS = (WIDTH_OF_INTERVAL, AGREEMENT_OF_KINDS, RARE_PAIRS, REHEARSAL)


@dataclass(frozen=True)
class PanelFacts:
    """An answer of several candidates.

    Attributes:
        target, difference, logged: the rate, its difference from the log, and what the log earned.
        closed_forms, world: what each kind says by itself; None where it says nothing.
        note: why the world has no vote.
        about_world: what the learned world says about itself; None where there is none.
    """

    target: Estimate
    difference: Estimate
    logged: Estimate
    closed_forms: Estimate
    world: Estimate | None
    note: str
    about_world: WorldFacts | None


def panel_findings(facts: PanelFacts) -> Iterator[Diagnostic]:
    """Findings on the answer of a panel."""
    yield _width(facts)
    yield _kinds(facts)
    found = facts.about_world
    if found is not None and found.residual is not None:
        yield hidden_state(found.residual)
        yield edge(found)


def _width(facts: PanelFacts) -> Diagnostic:
    low, high = facts.target.interval()
    difference = abs(facts.difference.value)
    scale = max(difference, ERRORS * float(np.nan_to_num(facts.logged.standard_error)))
    part = (high - low) / 2 / scale if scale > 0 else np.inf
    against = f"the difference from the log is {difference:.3g}" if scale == difference else "the log differs by less"
    return WIDTH_OF_INTERVAL.found(
        part,
        "ok" if part <= WIDTH else "caution",
        f"The interval reaches {(high - low) / 2:.3g} to each side, and {against}.",
        "Collect more rows, above all where the target does other things than the log, or take the interval as it is.",
    )


def _kinds(facts: PanelFacts) -> Diagnostic:
    if facts.world is None:
        return AGREEMENT_OF_KINDS.found(
            None,
            "caution",
            f"Closed forms were not compared with a learned process. {facts.note}",
            "The interval covers how far features differ, and not another kind of answer.",
        )
    one, other = facts.closed_forms, facts.world
    gap = one.value - other.value
    error = float(np.hypot(one.standard_error, other.standard_error))
    size = abs(gap) / error if error > 0 else np.inf
    return AGREEMENT_OF_KINDS.found(
        gap / error if error > 0 else None,
        "ok" if size <= APART else "caution",
        f"Closed forms give {one.value:.4g}, and a process that was learned from the log gives {other.value:.4g}: "
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


def rehearsed(worlds: int, held: float, summary: str) -> Diagnostic:
    """Whether closed forms would have been right on systems like this one."""
    return REHEARSAL.found(
        held,
        "ok" if held >= HELD or worlds < 10 else "caution",
        summary,
        "Closed forms err on systems like this one by more than they say; look at what each candidate says.",
    )
