"""A system with two regimes that it does not leave, as a lake that is clear or turbid, or a market with or without a leader.

    x' = x + η (x − x³) + 0.1 u + 0.06 w,   R = x − 0.1 u²,   u = k x + e

Without noise x comes to rest near 1 or near −1, whichever is nearer to the start, and noise hardly ever carries it over. Starts
are on both sides. η is 0.2; at slow mixing 0.05, the push 0.025 and the noise 0.03.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.policies import Policy
from cesaro.suite.system import Observations, Simulated, State
from cesaro.suite.systems.linear_quadratic import EFFORT, LinearFeedback

NEAR, FAR = 0.5, -0.1


class Basins(Simulated):
    """One number is seen, one is done."""

    name, side, kind = "basins", "development", "continuous"
    fault = "Two basins are hardly ever left: the rate of the target depends on where it starts."

    def draw(self, rng: np.random.Generator) -> None:
        is_slow = self.mixing == "slow"
        self.pull, self.push, self.noise = (0.05, 0.025, 0.03) if is_slow else (0.2, 0.1, 0.06)
        self.warm = 400 if is_slow else 100
        self.targets = {"main": LinearFeedback(np.array([[NEAR]]), 0.2, "main")}

    def start(self, count: int, rng: np.random.Generator) -> State:
        return rng.choice([-1.0, 1.0], size=count) + 0.1 * rng.normal(size=count)

    def observe(self, state: State) -> Observations:
        return state

    def step(self, state: State, actions: NDArray[Any], rng: np.random.Generator) -> tuple[State, Array]:
        moved = state + self.pull * (state - state**3) + self.push * actions + self.noise * rng.normal(size=len(state))
        return moved, state - EFFORT * actions**2

    def behavior(self, degree: float) -> Policy:
        gain = (1 - degree) * NEAR + degree * FAR
        return LinearFeedback(np.array([[gain]]), 0.2 + 0.2 * degree, f"behavior {degree:g}")
