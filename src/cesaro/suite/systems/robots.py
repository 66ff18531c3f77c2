"""The robots of the MuJoCo study: its environments and shipped actors, logged with noise on the actions as they are executed.

They need the extra `mujoco`. Their rates are those of `cesaro reproduce mujoco`, from a million steps each.
"""

from typing import ClassVar

import numpy as np

from cesaro.data import Transitions
from cesaro.errors import InputError
from cesaro.policies import policy
from cesaro.policies.shipped import actor_path
from cesaro.simulation.environments import interface, open_env
from cesaro.simulation.streams import plan, stream
from cesaro.suite.system import SHIFTS, System

# Standard deviations of the noise that the behavior adds to the target's actions.
SIGMAS = {"mild": 0.1, "medium": 0.5, "strong": 0.9}


class Robot(System):
    """An environment with one target; its behavior is the target with noise."""

    side, kind = "development", "robot"
    env: ClassVar[str]

    def draw(self, rng: np.random.Generator) -> None:
        self.targets = {"main": policy(str(actor_path(self.env)))}

    def logs(
        self,
        count: int,
        rows: int,
        rng: np.random.Generator,
        *,
        shift: str = "medium",
        behavior: str = "one",
        trajectories: int = 20,
    ) -> list[Transitions]:
        if self.mixing != "usual" or behavior != "one" or shift not in SHIFTS:
            raise InputError(
                f"{self.name} has one mixing, one behavior and the shifts {', '.join(SHIFTS)}. Got {self.mixing} mixing, "
                f"the behavior {behavior!r} and the shift {shift!r}."
            )
        seeds = rng.integers(2**31, size=count)
        return [self._log(rows, trajectories, SIGMAS[shift], int(seed)) for seed in seeds]

    def _log(self, rows: int, trajectories: int, sigma: float, seed: int) -> Transitions:
        jobs = plan(self.env, "shipped", rows, seed=seed, streams=trajectories, sigma=sigma)
        parts = [stream(job) for job in jobs]
        made = open_env(self.env)
        try:
            face = interface(self.env, made)
        finally:
            made.close()
        names = ("observations", "actions", "rewards", "next_observations")
        seen, actions, rewards, following = (np.concatenate([part[name] for part in parts]) for name in names)
        ids = np.repeat(np.arange(trajectories), [len(part["rewards"]) for part in parts])
        return Transitions(seen, np.clip(actions, face.low, face.high), rewards, following, trajectory=ids)


class HalfCheetah(Robot):
    name, env = "half-cheetah", "HalfCheetah-v5"


class Walker2d(Robot):
    name, env = "walker2d", "Walker2d-v5"


class Hopper(Robot):
    name, env = "hopper", "Hopper-v5"


class Swimmer(Robot):
    name, env = "swimmer", "Swimmer-v5"
