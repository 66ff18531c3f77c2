"""Findings on what could be wrong with an estimate: each has a value, a verdict, one sentence and a remedy."""

from cesaro.checks import decomposing
from cesaro.diagnostics import description, equations, learned, maps, panel, rows, support, worlds
from cesaro.diagnostics.finding import OTHERS, SEVERITY, Check, Diagnostic, Verdict, widened, worst
from cesaro.diagnostics.subject import Subject

__all__ = ["OTHERS", "SEVERITY", "Diagnostic", "Subject", "Verdict", "diagnose", "widened", "worst"]


# What is looked at, in this order.
LOOKS = (
    description.description,
    equations.equations,
    support.support,
    maps.agreement,
    rows.over_rows,
    maps.learned_methods,
    learned.learned,
    worlds.world,
    panel.alone,
)
# By the headings of the page on diagnostics, whose tables are made from them (docs/hooks/findings_page.py).
SECTIONS: dict[str, tuple[Check, ...]] = {
    "Was the log described as it is?": description.CHECKS,
    "Do the equations have a clear answer?": equations.CHECKS,
    "Does the log reach where the target goes?": support.CHECKS,
    "Would other features say the same?": (maps.AGREEMENT_OF_FEATURES,),
    "What do answers of several kinds say?": panel.CHECKS,
    "Are the rows as standard errors assume?": rows.CHECKS,
    "Learned methods with linear functions": learned.LINEAR_CHECKS,
    "Networks": learned.NETWORK_CHECKS,
    "Worlds": worlds.CHECKS,
    "About methods that were not used": (maps.LEARNING_BY_METHOD, maps.LEARNED_METHODS),
}


@decomposing("A finding about the estimate")
def diagnose(subject: Subject) -> tuple[Diagnostic, ...]:
    """Everything that can be said of a fitted estimator, from at most 100,000 rows where it takes features.

    What needs a log is left out after a fit on ready features; of the policy `logged` only the rows are looked at.
    """
    looks = (rows.over_rows,) if subject.prepared.is_logged else LOOKS
    every = [found for look in looks for found in look(subject)]
    # So many rows less may be the cause of whatever else is found.
    return tuple(sorted(every, key=lambda found: (found.name, found.verdict) != (rows.DROPPED_ROWS.name, "bad")))
