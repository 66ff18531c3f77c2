"""The stall study: walks and closed forms under noise exactly, and networks trained from several starts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cesaro.checks import Array
from cesaro.files import Arrays
from cesaro.reproduce.study import Jobs, Study
from research.stall import exact, networks
from research.stall.config import HELD, HELD_PROBLEMS, PROBLEMS, Key, StallConfig, keys
from research.stall.exact import Limits, Walk, exponents
from research.stall.networks import CURVES, PROBE, Trained
from research.stall.problem import Problem

# Two best residuals count as equal within this factor, and as small below this share of the rewards' variance.
EQUAL, SMALL = 2.0, 0.05


@dataclass(frozen=True)
class StallResult:
    """Everything the study measured.

    Attributes:
        walks, limits: the exact parts.
        trained: the networks.
        variances: of the logged rewards, by problem.
        true_line: mean of q_π along the actions on "many", as `Trained.line`.
    """

    config: StallConfig
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
        """Exponents of time against gap, Diff-SGQ and Diff-GQ1."""
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


class StallStudy(Study[StallConfig, StallResult]):
    """A training, a walk, or the closed forms at a noise are a piece."""

    def jobs(self) -> Jobs:
        config = self.config
        jobs: dict[str, Callable[[], Arrays]] = {_name(key): partial(_train, config, key) for key in keys(config)}
        jobs |= {f"walk_{states}": partial(_walk, states) for states in config.walks}
        return jobs | {f"noise_{noise:g}": partial(_limits, config, noise) for noise in config.noises}

    def result(self, pieces: Mapping[str, Arrays]) -> StallResult:
        config, many = self.config, PROBLEMS["many"]
        walks = [pieces[f"walk_{states}"]["walk"] for states in config.walks]
        return StallResult(
            config,
            [Walk(int(found[0]), *found[1:].tolist()) for found in walks],
            [Limits(*pieces[f"noise_{noise:g}"]["limits"].tolist()) for noise in config.noises],
            {key: Trained(**pieces[_name(key)]) for key in keys(config)},
            {name: float(PROBLEMS[name].log(config.rows, 2 * config.seed).rewards.var()) for name in config.problems},
            networks.true_line(many, many.log(PROBE, 2 * config.seed + 1).x),
        )


STUDY = StallStudy


def _name(key: Key) -> str:
    return "_".join(map(str, key))


def _train(config: StallConfig, key: Key) -> Arrays:
    problem = PROBLEMS[key.problem]
    rows, held_out = problem.log(key.rows, 2 * config.seed), problem.log(PROBE, 2 * config.seed + 1)
    seeds = [config.seed * 100 + i for i in range(config.seeds if key.start == "behavior" else 1)]
    shares = {"behavior": 0.0, "truth": 1.0, "solution": 1.0, "beyond": 2.0}
    share = float(key.start) if key.method == "held" else shares[key.start]
    size: dict[str, Any] = {"width": config.width}
    values = None
    if key.start == "solution":
        values = networks.true_values(problem, rows, steps=config.steps, seed=seeds[0], **size)
    found = networks.train(
        problem,
        key.method,
        rows,
        held_out,
        steps=config.held_steps if key.method == "held" else config.steps,
        seeds=seeds,
        start=problem.behavior_rate + share * problem.way,
        values=values,
        **size,
    )
    return found._asdict()


def _walk(states: int) -> Arrays:
    return {"walk": np.array(exact.walk(states))}


def _limits(config: StallConfig, noise: float) -> Arrays:
    return {"limits": np.array(exact.limits(Problem(noise=noise), config.rows, 2 * config.seed))}
