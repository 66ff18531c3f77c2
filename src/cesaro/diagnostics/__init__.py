"""What could be wrong with an estimate: each finding has a value, a verdict, one sentence and a remedy."""

from cesaro.checks import decomposing
from cesaro.diagnostics.description import description
from cesaro.diagnostics.equations import equations
from cesaro.diagnostics.finding import OTHERS, SEVERITY, Diagnostic, Verdict, widened, worst
from cesaro.diagnostics.maps import agreement, learned_methods
from cesaro.diagnostics.rows import over_rows
from cesaro.diagnostics.subject import Subject
from cesaro.diagnostics.support import support

__all__ = ["OTHERS", "SEVERITY", "Diagnostic", "Subject", "Verdict", "diagnose", "widened", "worst"]


@decomposing("A finding about the estimate")
def diagnose(subject: Subject) -> tuple[Diagnostic, ...]:
    """Everything that can be said of a fitted estimator, from at most 100,000 rows where it takes features.

    What needs a log is left out after a fit on ready features; of the policy `logged` only the rows are looked at.
    """
    if subject.prepared.is_logged:
        return tuple(over_rows(subject))
    checks = (description, equations, support, agreement, over_rows, learned_methods)
    return tuple(found for check in checks for found in check(subject))
