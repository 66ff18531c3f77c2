"""The settings of the assumption study."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from cesaro.reproduce.settings import (
    SEED,
    SIDES,
    About,
    Option,
    StudyConfig,
    at_least,
    is_not_negative,
    is_share,
    one_of,
    several,
)

# Noises of the published tables.
PUBLISHED_SIGMAS = (0.0, 0.001, 0.01, 0.1, 1.0)


@dataclass(frozen=True)
class AssumptionConfig(StudyConfig):
    """The settings of the study; the defaults are the full study.

    Attributes:
        sizes: numbers n of state-action pairs.
        sigmas: standard deviations σ of the noise that turns the stationary into the sampling distribution.
        xis: bounds ξ on the norm.
        trials: random chains per size.
        seed: of all random numbers. A trial's numbers depend on `(seed, n, trial)` only.
        simplex: how rows of P are drawn, "stick-breaking" (what gives the published numbers) or "uniform".
    """

    ABOUT: ClassVar = About(__package__, "A glance in seconds: 300 trials.", {"trials": 300})

    sizes: Annotated[tuple[int, ...], several("integers ≥ 2", lambda n: n >= 2, most=SIDES)] = (5, 10, 50, 100)
    sigmas: Annotated[tuple[float, ...], several("finite numbers ≥ 0", is_not_negative)] = PUBLISHED_SIGMAS
    xis: Annotated[tuple[float, ...], several("numbers between 0 and 1", is_share)] = (0.9, 0.99)
    trials: Annotated[int, at_least(1), Option("Random chains per table row.")] = 10_000
    seed: Annotated[int, at_least(0), SEED] = 0
    simplex: Annotated[
        str,
        one_of("stick-breaking", "uniform"),
        Option("How rows of P are drawn: stick-breaking, or uniform (the paper's wording, for contrast)."),
    ] = "stick-breaking"
