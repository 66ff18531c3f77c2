"""The settings of the rates study."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from cesaro.reproduce import study

METHODS = ("diff-gq1", "diff-gq2")
QUICK: dict[str, Any] = {"problems": 6, "horizons": tuple(2**k for k in range(8, 14)), "runs": 20, "resamples": 300}

_require = partial(study.require, "rates")


@dataclass(frozen=True)
class Config:
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

    problems: int = 20
    states: int = 7
    actions: int = 3
    features: int = 3
    concentration: float = 0.1
    off_policy: float = 0.2
    xi: float = 0.99
    horizons: tuple[int, ...] = tuple(2**k for k in range(8, 18))
    runs: int = 40
    step_share: float = 0.5
    radius_factor: float = 3.0
    rate_step_size: float = 0.1
    resamples: int = 1_000
    seed: int = 0

    def __post_init__(self) -> None:
        study.require_sizes("rates", self)
        for name in ("problems", "states", "actions", "features"):
            value = getattr(self, name)
            _require(value >= 1, name, "an integer ≥ 1", value)
        _require(self.concentration > 0, "concentration", "a number > 0", self.concentration)
        _require(0 <= self.off_policy <= 1, "off_policy", "a number from 0 to 1", self.off_policy)
        _require(0 < self.xi < 1, "xi", "a number between 0 and 1", self.xi)
        first = self.horizons[0] if self.horizons else 0
        right = len(self.horizons) >= 3 and first >= 2 and first % 2 == 0 and self.horizons[-1] < 2**31
        right = right and all(a < b and b % first == 0 for a, b in zip(self.horizons, self.horizons[1:]))
        rule = "at least three increasing multiples of the first, which must be even"
        _require(right, "horizons", rule, self.horizons)
        _require(self.runs >= 2, "runs", "an integer ≥ 2", self.runs)
        _require(0 < self.step_share < 1, "step_share", "a number between 0 and 1", self.step_share)
        _require(1 < self.radius_factor < math.inf, "radius_factor", "a finite number > 1", self.radius_factor)
        _require(0 < self.rate_step_size <= 1, "rate_step_size", "a number > 0 and at most 1", self.rate_step_size)
        _require(self.resamples >= 100, "resamples", "an integer ≥ 100", self.resamples)
        last = 2**32 // (self.problems * self.runs) - 1
        _require(0 <= self.seed <= last, "seed", f"an integer from 0 to {last}", self.seed)


def command(config: Config) -> str:
    """A command that gives these settings; where no options do, the manifest itself does."""
    if config == Config(**{**QUICK, "seed": config.seed}):
        return f"cesaro reproduce rates --quick --seed {config.seed}"
    if config == Config(problems=config.problems, runs=config.runs, seed=config.seed):
        return f"cesaro reproduce rates --problems {config.problems} --runs {config.runs} --seed {config.seed}"
    return "cesaro reproduce --from manifest.json"
