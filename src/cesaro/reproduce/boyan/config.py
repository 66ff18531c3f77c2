"""The settings of the study of Boyan's chain: methods, panels, grids and features."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import cesaro
from cesaro.reproduce.settings import (
    POSITIVE,
    POSITIVES,
    RUNS,
    SEED,
    About,
    Option,
    Requirement,
    StudyConfig,
    at_least,
    is_not_negative,
    is_share,
    minibatches,
    one_of,
    several,
)

if TYPE_CHECKING:
    from cesaro.checks import Array
    from cesaro.learning.arguments import Setting
    from cesaro.linear import LinearProblem

BASELINE = "gradient-dice"
PAPER_METHODS = ("diff-sgq", "diff-gq1", "diff-gq2", BASELINE)
EXTRA_METHODS = ("diff-gq3", "diff-gq4", "projected-diff-gq1", "projected-diff-gq2")
KNOWN_METHODS = PAPER_METHODS + EXTRA_METHODS
PROJECTED = "projected-"
STARTS = {"zero": "linear", "authors": "linear-random"}
# Samples between records, and the r̂ that a record averages.
WINDOW = 100

_METHODS = several(f"different names of {', '.join(KNOWN_METHODS)}", KNOWN_METHODS.__contains__, different=True)
_SHARES = several("different numbers between 0 and 1", is_share, different=True)
_NOT_NEGATIVE = several("different finite numbers ≥ 0", is_not_negative, different=True)
_SAMPLES = Requirement(
    f"a positive multiple of {WINDOW} below 2³¹", lambda count: count % WINDOW == 0 and 0 < count < 2**31
)


@dataclass(frozen=True)
class BoyanConfig(StudyConfig):
    """The settings of the study; the defaults are the full study.

    Attributes:
        methods: which methods, from `PAPER_METHODS` and `EXTRA_METHODS`.
        pi0s: probabilities of action 0 under the target, a column of the figure each.
        step_sizes: α.
        ridges: η, for all methods but Diff-SGQ and the projected ones.
        lams: λ, for GradientDICE.
        runs: independent runs per setting.
        samples: per run. A step of Diff-GQ2 takes two.
        radius: of the balls that the projected variants stay in; by default about twice the largest solution's norm.
        seed: run `i` uses the stream of samples number `seed · runs + i`; all panels, methods and settings share them.
        start: "zero", or "authors": weights uniform in ±1/√inputs.
        misfit: take features that q_π is not in the span of.
    """

    ABOUT: ClassVar = About(
        __package__,
        "A glance in seconds: 7 panels, 10 step sizes, 10 runs, 1,000 samples.",
        {
            "pi0s": (0.1, 0.5, 0.9),
            "step_sizes": tuple(2.0**-k for k in range(10, 0, -1)),
            "runs": 10,
            "samples": 1_000,
        },
    )

    methods: Annotated[
        tuple[str, ...],
        _METHODS,
        Option("Also Diff-GQ3, Diff-GQ4 and projected Diff-GQ1 and Diff-GQ2.", "all_methods", flag=KNOWN_METHODS),
    ] = PAPER_METHODS
    pi0s: Annotated[tuple[float, ...], _SHARES] = (0.1, 0.3, 0.5, 0.7, 0.9)
    step_sizes: Annotated[tuple[float, ...], POSITIVES] = tuple(2.0**-k for k in range(20, 0, -1))
    ridges: Annotated[tuple[float, ...], _NOT_NEGATIVE] = (0.0, 0.01, 0.1)
    lams: Annotated[tuple[float, ...], _NOT_NEGATIVE] = (0.0, 0.1, 1.0, 10.0)
    runs: Annotated[int, at_least(2, most=RUNS), Option("Runs per setting.")] = 30
    samples: Annotated[int, _SAMPLES, Option("Samples per run.")] = 5_000
    radius: Annotated[float, POSITIVE] = 5.0
    seed: Annotated[int, SEED] = 0
    start: Annotated[
        str, one_of(*STARTS), Option("Where weights start: zero, or authors (random, as in their code).")
    ] = "zero"
    misfit: Annotated[bool, Option("Features that cannot express the values.", flag=True, folder="boyan_misfit")] = (
        False
    )

    def check(self) -> None:
        self.check_streams(self.seed, self.runs)

    @property
    def rows(self) -> tuple[tuple[tuple[float, float], ...], ...]:
        """`(π0, μ0)` of every panel of the figure, three rows."""
        rules: tuple[Callable[[float], float], ...] = (lambda p: p, lambda p: 0.5, lambda p: round(1 - p, 12))
        return tuple(tuple((p, rule(p)) for p in self.pi0s) for rule in rules)

    @property
    def panels(self) -> tuple[tuple[float, float], ...]:
        """The distinct ones, in the figure's order."""
        return tuple(dict.fromkeys(panel for row in self.rows for panel in row))

    def settings(self, method: str) -> "list[Setting]":
        """The grid of a method."""
        if method == BASELINE:
            return cesaro.grid(step_size=self.step_sizes, ridge=self.ridges, lam=self.lams)
        if method == "diff-sgq" or method.startswith(PROJECTED):
            return cesaro.grid(step_size=self.step_sizes)
        return cesaro.grid(step_size=self.step_sizes, ridge=self.ridges)

    @property
    def run_steps(self) -> int:
        """Updates over all panels, methods, settings and runs."""
        per_panel = sum(len(self.settings(method)) * self.samples // minibatches(method) for method in self.methods)
        return len(self.panels) * self.runs * per_panel

    def problem(self, pi0: float, mu0: float) -> "LinearProblem":
        """The problem of a panel."""
        return cesaro.problems.boyan_chain(pi0, mu0, features=misfit_features() if self.misfit else None)


def misfit_features() -> "Array":
    """Features that misfit, `[13, 2, 5]`: Boyan's four of the state, and "action 1 is taken" in `s_0 … s_6` only.

    q_π = r(a) − r_π depends on the action alone, everywhere: half of it cannot be expressed. The columns are independent and the
    constant is in their span, as GradientDICE needs; the density ratio fits about as well as with the paper's features, so
    that what changes is the representation error of q_π.
    """
    features = cesaro.problems.boyan_chain().features[:, :, [0, 1, 2, 3, 5]]
    features[7:, :, 4] = 0.0
    return features
