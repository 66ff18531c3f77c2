"""The settings of the rates study."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar

from cesaro.reproduce.settings import RUNS, SEED, SHARE, SIDES, About, Option, Requirement, StudyConfig, at_least

METHODS = ("diff-gq1", "diff-gq2")


def _are_horizons(horizons: tuple[int, ...]) -> bool:
    first = horizons[0] if horizons else 0
    right = len(horizons) >= 3 and first >= 2 and first % 2 == 0 and horizons[-1] < 2**31
    return right and all(a < b and b % first == 0 for a, b in pairwise(horizons))


_HORIZONS = Requirement("at least three increasing multiples of the first, which must be even", _are_horizons)


@dataclass(frozen=True)
class RatesConfig(StudyConfig):
    """The settings of the study; the defaults are the full study.

    Attributes:
        problems: how many random problems that satisfy the assumptions.
        states, actions, features: their size.
        concentration: of their random rows, policies and sampling distributions; the smaller, the harder.
        off_policy: share of the random distribution in the sampling distribution; the rest is the target's own stationary one.
        xi: F ⪰ 0 must hold at this ξ.
        horizons: numbers N of samples. Each has runs of its own with a step size of its own.
        runs: independent runs per problem, method and horizon.
        step_share: the step size at the shortest horizon, as a share of the largest one that is stable in mean square.
        radius_factor: the balls' radius, in units of ‖u_TD‖.
        rate_step_size: the constant β of Diff-GQ2's r̂ in the third panel; elsewhere β = α.
        resamples: of the bootstrap behind the intervals.
        seed: problems are searched from number `1000 · seed` on; run `i` of the j-th problem uses the stream of samples number
            `(seed · problems + j) · runs + i`.
    """

    ABOUT: ClassVar = About(
        __package__,
        "A glance in seconds: 6 problems, 20 runs, up to 8,192 samples.",
        {"problems": 6, "horizons": tuple(2**k for k in range(8, 14)), "runs": 20, "resamples": 300},
    )

    problems: Annotated[int, at_least(1, most=RUNS), Option("Random problems.")] = 20
    states: Annotated[int, at_least(1, most=SIDES)] = 7
    actions: Annotated[int, at_least(1, most=SIDES)] = 3
    features: Annotated[int, at_least(1, most=SIDES)] = 3
    concentration: Annotated[float, Requirement("a number > 0", lambda value: value > 0)] = 0.1
    off_policy: Annotated[float, Requirement("a number from 0 to 1", lambda share: 0 <= share <= 1)] = 0.2
    xi: Annotated[float, SHARE] = 0.99
    horizons: Annotated[tuple[int, ...], _HORIZONS] = tuple(2**k for k in range(8, 18))
    runs: Annotated[int, at_least(2, most=RUNS), Option("Runs per problem, method and number of samples.")] = 40
    step_share: Annotated[float, SHARE] = 0.5
    radius_factor: Annotated[float, Requirement("a finite number > 1", lambda factor: 1 < factor < math.inf)] = 3.0
    rate_step_size: Annotated[float, Requirement("a number > 0 and at most 1", lambda step: 0 < step <= 1)] = 0.1
    resamples: Annotated[int, at_least(100, most=RUNS)] = 1_000
    seed: Annotated[int, SEED] = 0

    def check(self) -> None:
        self.check_streams(self.seed, self.problems * self.runs)
