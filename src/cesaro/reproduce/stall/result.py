"""What came out of the stall study: the exact parts, the trained networks, and what they say."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cesaro.checks import Array
from cesaro.reproduce.stall.config import HELD, HELD_PROBLEMS, PROBLEMS, Config, Key
from cesaro.reproduce.stall.exact import Limits, Walk, exponents
from cesaro.reproduce.stall.networks import CURVES, Trained

# Two best residuals count as equal within this factor, and as small below this share of the rewards' variance.
EQUAL, SMALL = 2.0, 0.05


@dataclass(frozen=True)
class Result:
    """Everything the study measured.

    Attributes:
        walks, limits: the exact parts.
        trained: the networks.
        variances: of the logged rewards, by problem.
        true_line: mean of q_π along the actions on "many", as `Trained.line`.
    """

    config: Config
    walks: list[Walk]
    limits: list[Limits]
    trained: dict[Key, Trained]
    variances: dict[str, float]
    true_line: Array

    def share(self, key: Key) -> float:
        """Share of the way from the log's rate to r_π that r̂ has gone at the end, mean over seeds: 0 stays, 1 arrives."""
        problem = PROBLEMS[key.problem]
        return float((self.trained[key].rates[:, -1].mean() - problem.behavior_rate) / problem.way)

    def curve(self, key: Key, name: str) -> float:
        """A value of `CURVES` at the end, mean over seeds."""
        return float(self.trained[key].curves[:, -1, CURVES.index(name)].mean())

    def held(self, problem: str, name: str = "residual") -> Array:
        """Residual over the rewards' variance by held rate, as `HELD`."""
        keys = [Key(problem, "held", f"{share:g}", self.config.rows) for share in HELD]
        return np.array([self.curve(key, name) for key in keys]) / self.variances[problem]

    @property
    def exponents(self) -> tuple[float, float]:
        """Of time against gap, Diff-SGQ and Diff-GQ1."""
        return exponents(self.walks)

    @property
    def is_flat(self) -> bool:
        """Whether the best residual on "many" is small at the log's rate and at r_π and tells neither from the other."""
        here, there = (float(self.held("many")[HELD.index(share)]) for share in (0.0, 1.0))
        return here <= EQUAL * there and there <= EQUAL * here and max(here, there) <= SMALL

    def summary(self) -> dict[str, Any]:
        """The findings in JSON values."""
        flat = {name: [round(v, 4) for v in self.held(name).tolist()] for name in self._held_problems}
        return {
            "exponents": [round(value, 3) for value in self.exponents],
            "free_dual": {f"{found.noise:g}": round(found.free_dual, 4) for found in self.limits},
            "right_dual": {f"{found.noise:g}": round(found.right_dual, 4) for found in self.limits},
            "is_flat": self.is_flat,
            "held": flat,
            "shares": {"/".join(map(str, key)): round(self.share(key), 3) for key in self.of_methods},
        }

    @property
    def of_methods(self) -> list[Key]:
        return [key for key in self.trained if key.method != "held"]

    @property
    def _held_problems(self) -> list[str]:
        return [name for name in self.config.problems if name in HELD_PROBLEMS]
