"""What could be wrong with an estimate: each finding has a value, a verdict, one sentence and a remedy."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from cesaro.estimators.base import Estimator

Verdict: TypeAlias = Literal["ok", "caution", "bad"]
OTHERS = "learning by "
SEVERITY: dict[str, int] = {"bad": 0, "caution": 1, "ok": 2}


@dataclass(frozen=True)
class Diagnostic:
    """One finding.

    Attributes:
        name: such as "effective sample size".
        value: the number behind it; None where there is none.
        verdict: "ok", "caution" or "bad".
        sentence: what was found.
        remedy: what to do about it; empty where nothing need be done.
    """

    name: str
    value: float | None
    verdict: Verdict
    sentence: str
    remedy: str = ""

    @property
    def is_about_others(self) -> bool:
        """Whether it concerns methods that were not used, and not this estimate."""
        return self.name.startswith(OTHERS)

    @property
    def severity(self) -> int:
        """Zero is worst."""
        return SEVERITY[self.verdict]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; a value that is not finite is None."""
        value = self.value if self.value is None or np.isfinite(self.value) else None
        return {
            "name": self.name,
            "value": value,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "remedy": self.remedy,
        }


def worst(diagnostics: Iterable[Diagnostic]) -> Verdict:
    """The verdict of all together, methods that were not used aside."""
    own = (entry.verdict for entry in diagnostics if not entry.is_about_others)
    return min(own, key=lambda verdict: SEVERITY[verdict], default="ok")


def diagnose(estimator: "Estimator") -> tuple[Diagnostic, ...]:
    """Everything that can be said of a fitted estimator, from at most 100,000 rows where it takes features.

    What needs a log is left out after a fit on ready features; of the policy `logged` only the rows are looked at.
    """
    from cesaro.estimators.diagnostics.equations import equations
    from cesaro.estimators.diagnostics.maps import agreement, learned_methods
    from cesaro.estimators.diagnostics.rows import over_rows
    from cesaro.estimators.diagnostics.subject import Subject
    from cesaro.estimators.diagnostics.support import support

    subject = Subject.of(estimator)
    if subject.prepared.is_logged:
        return tuple(over_rows(subject))
    checks = (equations, support, agreement, over_rows, learned_methods)
    return tuple(found for check in checks for found in check(subject))
