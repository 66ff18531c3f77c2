"""The settings of the assumption study."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from cesaro.reproduce import study

# Noises of the published tables.
PUBLISHED_SIGMAS = (0.0, 0.001, 0.01, 0.1, 1.0)
# How rows of a transition matrix are drawn.
SIMPLEX = ("stick-breaking", "uniform")
QUICK: dict[str, Any] = {"trials": 300}

_require = partial(study.require, "assumption")


@dataclass(frozen=True)
class Config:
    """The settings of the study; the defaults are the full study.

    Attributes:
        sizes: numbers n of state-action pairs.
        sigmas: standard deviations σ of the noise that turns the stationary into the sampling distribution.
        xis: bounds ξ on the norm.
        trials: random chains per size.
        seed: of all random numbers. A trial's numbers depend on `(seed, n, trial)` only.
        simplex: how rows of P are drawn, "stick-breaking" (what gives the published numbers) or "uniform".
    """

    sizes: tuple[int, ...] = (5, 10, 50, 100)
    sigmas: tuple[float, ...] = PUBLISHED_SIGMAS
    xis: tuple[float, ...] = (0.9, 0.99)
    trials: int = 10_000
    seed: int = 0
    simplex: str = "stick-breaking"

    def __post_init__(self) -> None:
        study.require_sizes("assumption", self)
        _require(bool(self.sizes) and min(self.sizes) >= 2, "sizes", "integers ≥ 2", self.sizes)
        _require(
            bool(self.sigmas) and all(0 <= sigma < math.inf for sigma in self.sigmas),
            "sigmas",
            "finite numbers ≥ 0",
            self.sigmas,
        )
        _require(bool(self.xis) and all(0 < xi < 1 for xi in self.xis), "xis", "numbers between 0 and 1", self.xis)
        _require(self.trials >= 1, "trials", "an integer ≥ 1", self.trials)
        _require(self.seed >= 0, "seed", "an integer ≥ 0", self.seed)
        names = " or ".join(repr(name) for name in SIMPLEX)
        _require(self.simplex in SIMPLEX, "simplex", names, repr(self.simplex))
