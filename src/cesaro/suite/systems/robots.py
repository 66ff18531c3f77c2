"""The robots of the MuJoCo study: its environments and shipped actors, logged with noise on the actions as they are executed.

They need the extra `mujoco`. Their rates are those of `cesaro reproduce mujoco`, from a million steps each.
"""

from typing import ClassVar

import numpy as np

from cesaro.data import Transitions
from cesaro.errors import InputError
from cesaro.policies import policy
from cesaro.policies.actor import actor_path
from cesaro.simulation.collection import collect
from cesaro.suite.system import System

# Standard deviations of the noise that the behavior adds to the target's actions.
SIGMAS = {"mild": 0.1, "medium": 0.5, "strong": 0.9}


class Robot(System):
    """An environment with one target; its behavior is the target with noise."""

    side, kind = "development", "robot"
    env: ClassVar[str]

    def draw(self, rng: np.random.Generator) -> None:
        self.targets = {"main": policy(str(actor_path(self.env)))}

    def _logs(
        self, count: int, trajectories: int, steps: int, shift: str, behavior: str, rng: np.random.Generator
    ) -> list[Transitions]:
        if self.mixing != "usual" or behavior != "one":
            raise InputError(
                f"{self.name} has one mixing and one behavior. Got {self.mixing} mixing and the behavior {behavior!r}."
            )
        sigma, rows = SIGMAS[shift], trajectories * steps
        return [
            collect(
                self.env, "shipped", rows, sigma=sigma, seed=int(seed), streams=trajectories, workers=1, quiet=True
            ).load()
            for seed in rng.integers(2**31, size=count)
        ]


class HalfCheetah(Robot):
    name, env = "half-cheetah", "HalfCheetah-v5"


class Walker2d(Robot):
    name, env = "walker2d", "Walker2d-v5"


class Hopper(Robot):
    name, env = "hopper", "Hopper-v5"


class Swimmer(Robot):
    name, env = "swimmer", "Swimmer-v5"
