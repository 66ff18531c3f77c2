"""The settings of the pendulum study."""

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from cesaro.reproduce import study
from cesaro.reproduce.pendulum.model import CONTROLLERS

CONFIDENCE = 0.95
QUICK: dict[str, Any] = {
    "controllers": ("smooth",),
    "rows": 20_000,
    "logs": 1,
    "maps": (100, 200),
    "grid": (101, 21),
    "agents": 1_000,
}

_require = partial(study.require, "pendulum")


@dataclass(frozen=True)
class Config:
    """The settings of the study; the defaults are the full study.

    Attributes:
        controllers: the targets, by name.
        noises: standard deviations of the noise that the behavior adds to the torque.
        rows: of a log.
        pendulums: how many a log is from, one trajectory each.
        logs: per controller and noise.
        reset: probability of a reset after every step.
        maps: numbers of random Fourier features; ridges go with the last.
        ridges: relative to the mean square of the features, which is one for Fourier features.
        degrees: of polynomial features.
        grid: angles and speeds of the starts behind the exact rates.
        agents: pendulums of the simulation that checks these, for ten mean times between resets each.
        seed: of the first log; it is its `random_state` too, and the next log has the next.
    """

    controllers: tuple[str, ...] = tuple(CONTROLLERS)
    noises: tuple[float, ...] = (0.5, 1.0, 1.5)
    rows: int = 200_000
    pendulums: int = 20
    logs: int = 5
    reset: float = 1 / 200
    maps: tuple[int, ...] = (200, 400, 800)
    ridges: tuple[float, ...] = (1e-8, 1e-6, 1e-4, 1e-2)
    degrees: tuple[int, ...] = (3, 4)
    grid: tuple[int, ...] = (301, 51)
    agents: int = 10_000
    seed: int = 100

    def __post_init__(self) -> None:
        study.require_sizes("pendulum", self)
        known = bool(self.controllers) and all(name in CONTROLLERS for name in self.controllers)
        rule = f"one or more of {', '.join(CONTROLLERS)}, each once"
        _require(known and _increasing(sorted(self.controllers)), "controllers", rule, self.controllers)
        for name in ("noises", "maps", "ridges", "degrees"):
            value = getattr(self, name)
            right = bool(value) and value[0] > 0 and value[-1] < math.inf and _increasing(value)
            _require(right, name, "increasing finite numbers > 0", value)
        for name in ("pendulums", "logs"):
            _require(getattr(self, name) >= 1, name, "an integer ≥ 1", getattr(self, name))
        right = self.rows >= 2 * self.pendulums and self.rows % self.pendulums == 0
        _require(right, "rows", "a multiple of the number of pendulums, twice it or more", self.rows)
        _require(0 < self.reset < 1, "reset", "a number between 0 and 1", self.reset)
        _require(len(self.grid) == 2 and min(self.grid) >= 1, "grid", "two integers ≥ 1", self.grid)
        _require(self.agents >= 2, "agents", "an integer ≥ 2", self.agents)
        last = 2**32 - 1 - self.logs
        _require(0 <= self.seed <= last, "seed", f"an integer from 0 to {last}", self.seed)

    @property
    def seeds(self) -> range:
        """Of the logs."""
        return range(self.seed, self.seed + self.logs)

    @property
    def cells(self) -> list[tuple[str, float]]:
        """Every controller with every noise."""
        return [(controller, noise) for controller in self.controllers for noise in self.noises]


def command(config: Config) -> str:
    """A command that gives these settings; where no options do, the manifest itself does."""
    if config == Config(**{**QUICK, "seed": config.seed}):
        return f"cesaro reproduce pendulum --quick --seed {config.seed}"
    if config == Config(logs=config.logs, seed=config.seed):
        return f"cesaro reproduce pendulum --logs {config.logs} --seed {config.seed}"
    return "cesaro reproduce --from manifest.json"


def _increasing(values: Any) -> bool:
    return all(a < b for a, b in pairwise(values))
