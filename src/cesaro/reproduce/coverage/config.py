"""The settings of the coverage study."""

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from cesaro.reproduce import study
from cesaro.reproduce.coverage.chains import Known

CONFIDENCE = 0.95
# Batch means: as many of equal length, with Student's t.
BATCHES = 20
# The promise: the share of logs covered, in every cell from this many autocorrelation times and logs on.
PROMISED, PROMISED_LENGTH, PROMISED_LOGS = (0.925, 0.97), 500, 1_000
QUICK: dict[str, Any] = {"logs": 40, "lengths": (50, 150), "rows": (2_500,), "rows_logs": (4,), "limits": (1,)}
# The promise of the default on systems with numbers: the least share of logs whose interval holds its own limit, and the truth
# where its features hold the target's values, over all judged systems.
PROMISED_LIMIT, PROMISED_TRUTH = 0.92, 0.9

_require = partial(study.require, "coverage")


@dataclass(frozen=True)
class Config:
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

    logs: int = 1_000
    lengths: tuple[int, ...] = (50, 150, 500)
    trajectories: tuple[int, ...] = (1, 5, 50)
    stay: float = 0.85
    ridge: float = 0.1
    rows: tuple[int, ...] = (2_500, 10_000, 100_000)
    rows_logs: tuple[int, ...] = (20, 20, 3)
    limits: tuple[int, ...] = (4, 2, 1)
    seed: int = 0

    def __post_init__(self) -> None:
        study.require_sizes("coverage", self)
        _require(self.logs >= 2, "logs", "an integer ≥ 2", self.logs)
        for name in ("lengths", "trajectories", "rows"):
            value = getattr(self, name)
            right = bool(value) and value[0] >= 1 and all(a < b for a, b in pairwise(value))
            _require(right, name, "increasing integers ≥ 1", value)
        for name, least in (("rows_logs", 1), ("limits", 0)):
            value = getattr(self, name)
            right = len(value) == len(self.rows) and all(count >= least for count in value)
            _require(right, name, f"as many integers ≥ {least} as there are rows", value)
        _require(0 < self.stay < 1, "stay", "a number between 0 and 1", self.stay)
        _require(0 < self.ridge < math.inf, "ridge", "a finite number > 0", self.ridge)
        _require(0 <= self.seed < 2**32, "seed", "an integer from 0 to 2³² − 1", self.seed)

    @property
    def has_systems(self) -> bool:
        """Whether the promise on systems with numbers is about these settings."""
        default = Config()
        return (self.rows, self.rows_logs, self.limits) == (default.rows, default.rows_logs, default.limits)

    @property
    def is_full(self) -> bool:
        """Whether the promise is about these settings."""
        return self.logs >= PROMISED_LOGS and self.lengths[-1] >= PROMISED_LENGTH and self.trajectories == (1, 5, 50)


def rows(config: Config, problem: Known) -> tuple[int, ...]:
    """Rows of a log for each length: rounded up, so that trajectories and batches are equal."""
    unit = math.lcm(BATCHES, *config.trajectories)
    return tuple(math.ceil(length * problem.autocorrelation_time / unit) * unit for length in config.lengths)


def command(config: Config) -> str:
    """A command that gives these settings; where no options do, the manifest itself does."""
    if config == Config(**{**QUICK, "seed": config.seed}):
        return f"cesaro reproduce coverage --quick --seed {config.seed}"
    if config == Config(logs=config.logs, seed=config.seed):
        return f"cesaro reproduce coverage --logs {config.logs} --seed {config.seed}"
    return "cesaro reproduce --from manifest.json"
