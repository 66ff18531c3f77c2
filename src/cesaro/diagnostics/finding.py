"""One finding about an estimate: a value, a verdict, one sentence and a remedy; and how verdicts are reached."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from cesaro.passes.standard_errors import Estimate

Verdict: TypeAlias = Literal["ok", "caution", "bad"]
OTHERS, METHOD = "learning by ", "<method>"
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
        widens: how far below and above the estimate its interval must reach beyond the noise of the log, both positive.
    """

    name: str
    value: float | None
    verdict: Verdict
    sentence: str
    remedy: str = ""
    widens: tuple[float, float] = (0.0, 0.0)

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


@dataclass(frozen=True)
class Check:
    """Something that diagnostics look at, as the page on them lists it; `found` makes a finding of it.

    Attributes:
        name: the finding's; `<method>` stands for the name of a method.
        number: what the finding's value is.
        meaning: what it says about the answer if it is not ok.
        remedy: what to do then, in general; a finding has the options for its case.
        caution, bad: when the verdict is so.
    """

    name: str
    number: str
    meaning: str
    remedy: str
    caution: str = "never"
    bad: str = "never"

    def found(
        self, value: float | None, verdict: Verdict, sentence: str, remedy: str = "", *, method: str = ""
    ) -> Diagnostic:
        """Make a finding of this check; where it is ok, no remedy is needed."""
        name = self.name.replace(METHOD, method)
        return Diagnostic(name, value, verdict, sentence, "" if verdict == "ok" else remedy)


def worst(diagnostics: Iterable[Diagnostic]) -> Verdict:
    """The verdict of all together, methods that were not used aside."""
    own = (entry.verdict for entry in diagnostics if not entry.is_about_others)
    return min(own, key=lambda verdict: SEVERITY[verdict], default="ok")


def widened(estimate: Estimate, diagnostics: Iterable[Diagnostic]) -> Estimate:
    """The estimate with what findings add to its interval."""
    every = [(estimate.below, estimate.above), *(entry.widens for entry in diagnostics)]
    return replace(estimate, below=max(low for low, _ in every), above=max(high for _, high in every))


def worse(one: Verdict, other: Verdict) -> Verdict:
    """The worse of two verdicts on the same thing."""
    return min(one, other, key=lambda verdict: SEVERITY[verdict])


def at_most(value: float, caution: float, bad: float) -> Verdict:
    """Small is good; what is not a number is bad."""
    return "ok" if value <= caution else "caution" if value <= bad else "bad"


def at_least(value: float, caution: float, bad: float) -> Verdict:
    """Large is good; what is not a number is bad."""
    return "ok" if value >= caution else "caution" if value >= bad else "bad"


def nearly(share: float) -> str:
    """Never "0 %" of some, nor "100 %" of not quite all."""
    return f"{100 * share:.3g} %" if share == 1 or share < 0.999 else "99.9 %"


def power_of_ten(value: float) -> str:
    """`10⁻⁶`."""
    return "10" + f"{round(np.log10(value)):d}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
