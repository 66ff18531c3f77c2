"""The settings of the counterexample study."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from cesaro.reproduce.settings import RUNS, SEED, About, Option, Requirement, StudyConfig, at_least

METHODS = ("diff-sgq", "diff-gq1", "diff-gq2")

_LENGTH = Requirement("a number from 1 to 1000", lambda length: 1 <= length <= 1_000)


@dataclass(frozen=True)
class CounterexampleConfig(StudyConfig):
    """The settings of the study; the defaults are the full study.

    Attributes:
        step_sizes: α.
        shown_step_size: the one whose trajectories are drawn, among `step_sizes`.
        runs: independent runs per method and step size.
        horizon: length of Diff-SGQ's runs, in units of 1/α samples.
        settling: the same for Diff-GQ1 and Diff-GQ2, whose slowest direction shrinks far more slowly than Diff-SGQ's grows.
        seed: run `i` uses the stream of samples number `seed · runs + i`; all methods and step sizes share them.
    """

    ABOUT: ClassVar = About(
        __package__,
        "A glance in seconds: 100 runs, 5 step sizes.",
        {"step_sizes": tuple(2.0**k for k in range(-8, 1, 2)), "runs": 100},
    )

    step_sizes: tuple[float, ...] = tuple(2.0**k for k in range(-10, 1))
    shown_step_size: float = 2.0**-6
    runs: Annotated[int, at_least(2, most=RUNS), Option("Runs per method and step size.")] = 400
    horizon: Annotated[float, _LENGTH] = 20.0
    settling: Annotated[float, _LENGTH] = 100.0
    seed: Annotated[int, SEED] = 0

    def check(self) -> None:
        steps = self.step_sizes
        # Two samples at least: an update of Diff-GQ2.
        most = min(self.horizon, self.settling) / 2
        right = bool(steps) and len(set(steps)) == len(steps) and all(1e-5 <= step <= most for step in steps)
        self.require("step_sizes", right, f"different numbers from 0.00001 to {most:g}")
        self.require("shown_step_size", self.shown_step_size in steps, f"one of the step sizes {steps}")
        self.check_streams(self.seed, self.runs)

    def length(self, method: str) -> float:
        """The length of a method's runs, in units of 1/α samples."""
        return self.horizon if method == "diff-sgq" else self.settling
