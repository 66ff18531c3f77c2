"""The settings of the coverage study."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar

from cesaro.reproduce.settings import (
    POSITIVE,
    RUNS,
    SEED,
    SHARE,
    WORK,
    About,
    Option,
    Requirement,
    StudyConfig,
    at_least,
)

CONFIDENCE = 0.95
# The promise: the share of logs covered, in every cell from this many autocorrelation times and logs on.
PROMISED, PROMISED_LENGTH, PROMISED_LOGS = (0.925, 0.97), 500, 1_000
# The promise of the default on systems with numbers: the least share of logs whose interval holds its own limit, and the truth
# where its features hold the target's values, over all judged systems.
PROMISED_LIMIT, PROMISED_TRUTH = 0.92, 0.9


def _increasing(most: int = WORK) -> Requirement:
    return Requirement(
        "increasing integers ≥ 1",
        lambda counts: bool(counts) and counts[0] >= 1 and all(a < b for a, b in pairwise(counts)),
        most,
    )


@dataclass(frozen=True)
class CoverageConfig(StudyConfig):
    """The settings of the study; the defaults are the full study.

    Attributes:
        logs: simulated logs per chain and number of trajectories.
        lengths: rows of a log, in autocorrelation times of the chain. Shorter logs are the beginnings of the longest.
        trajectories: how many equal ones a log consists of, each from the stationary law of the behavior.
        stay: probability that the sticky chain stays where it is for a step.
        ridge: of the features "ridge", which otherwise are the misfit ones.
        rows: of logs of systems with numbers for states.
        rows_logs: how many logs of each system, for each number of rows.
        limits: of how many of them the limit is computed, from a very long log in the same features.
        seed: a piece's random numbers depend on the seed, its chain, its number of trajectories and its own number.
    """

    ABOUT: ClassVar = About(
        __package__,
        "A glance in seconds: 40 logs, up to 150 autocorrelation times.",
        {"logs": 40, "lengths": (50, 150), "rows": (2_500,), "rows_logs": (4,), "limits": (1,)},
    )

    logs: Annotated[int, at_least(2, most=RUNS), Option("Logs per chain and number of trajectories.")] = 1_000
    lengths: Annotated[tuple[int, ...], _increasing()] = (50, 150, 500)
    trajectories: Annotated[tuple[int, ...], _increasing(RUNS)] = (1, 5, 50)
    stay: Annotated[float, SHARE] = 0.85
    ridge: Annotated[float, POSITIVE] = 0.1
    rows: Annotated[tuple[int, ...], _increasing()] = (2_500, 10_000, 100_000)
    rows_logs: tuple[int, ...] = (20, 20, 3)
    limits: tuple[int, ...] = (4, 2, 1)
    seed: Annotated[
        int,
        Requirement("an integer from 0 to 2³² − 1", lambda seed: 0 <= seed < 2**32),
        SEED,
    ] = 0

    def check(self) -> None:
        for name, least in (("rows_logs", 1), ("limits", 0)):
            counts = getattr(self, name)
            right = len(counts) == len(self.rows) and all(count >= least for count in counts)
            self.require(name, right, f"as many integers ≥ {least} as there are rows")

    @property
    def has_systems(self) -> bool:
        """Whether the promise on systems with numbers is about these settings."""
        default = CoverageConfig()
        return (self.rows, self.rows_logs, self.limits) == (default.rows, default.rows_logs, default.limits)

    @property
    def is_full(self) -> bool:
        """Whether the promise is about these settings."""
        return self.logs >= PROMISED_LOGS and self.lengths[-1] >= PROMISED_LENGTH and self.trajectories == (1, 5, 50)
