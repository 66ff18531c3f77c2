"""Gymnasium's Pendulum-v1 under smooth controllers, put back to a random start now and then: a robot's joint, swung up.

The dynamics are those of the pendulum study, `cesaro.reproduce.pendulum.model`. After every step a reset comes with
probability p, whatever was before, so that there is one rate whatever the start. The log has (cos θ, sin θ, θ'); the action is
the torque, between −2 and 2. Rates of targets without noise are exact: nothing else is random but resets.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.policies import Policy
from cesaro.reproduce.pendulum.model import CONTROLLERS, MAX_TORQUE, Controller, Pendulums, exact_rate, starts
from cesaro.suite.rules import Always, Blend, Noisy
from cesaro.suite.system import Observations, Simulated, State

TORQUES = (-MAX_TORQUE, MAX_TORQUE)
# Angles and speeds of the starts behind exact rates.
GRID = (201, 31)


class Pendulum(Simulated):
    name, side, kind = "pendulum", "development", "continuous"

    def draw(self, rng: np.random.Generator) -> None:
        slow = self.mixing == "slow"
        self.reset, self.warm = (1 / 200, 2000) if slow else (1 / 40, 400)
        self._near = CONTROLLERS["smooth"]
        self.targets = {
            "smooth": Noisy(self._near, 0.0, TORQUES, "smooth"),
            "soft": Noisy(Controller(5.0, 1.0, 0.5, 0.7), 0.0, TORQUES, "soft"),
            "noisy": Noisy(self._near, 1.3, TORQUES, "noisy"),
            "lazy": Noisy(Controller(8.0, 2.0, 0.3, 0.8), 0.0, TORQUES, "lazy"),
            "loose": Noisy(Controller(3.0, 0.2, 2.0, 0.5), 0.3, TORQUES, "loose"),
        }

    def start(self, count: int, rng: np.random.Generator) -> State:
        return np.stack(starts(count, rng), axis=1)

    def observe(self, state: State) -> Observations:
        return Pendulums(*state.T).observe()

    def step(self, state: State, actions: NDArray[Any], rng: np.random.Generator) -> tuple[State, Array]:
        following, rewards = Pendulums(*state.T).step(actions)
        is_reset = rng.random(len(state)) < self.reset
        return np.where(is_reset[:, None], self.start(len(state), rng), np.stack(following, axis=1)), rewards

    def behavior(self, degree: float) -> Policy:
        return Noisy(Blend(self._near, Always(0.0), 0.7 * degree), 0.3 + degree, TORQUES, f"behavior {degree:g}")

    def exact(self, policy: Policy, stickiness: float = 0.0) -> float | None:
        assert isinstance(policy, Noisy)
        if policy.noise or stickiness or not isinstance(policy.rule, Controller):
            return None
        return exact_rate(policy.rule, self.reset, GRID)
