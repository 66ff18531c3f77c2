"""A cooled hall whose load grows while the log is written.

    x' = x + p (−0.1 x + u + g(t)) + √p 0.3 w,   g(t) = 0.5 t / (t + 200 / p),   R = −x² − 0.1 u²,   u = k x + e

of the temperature x, which is logged, above the wanted one, the cooling u and the time t, which is not logged. The load g grows
all the time, to 0.5 in the end. The log shows how policies do with less. The pace p is 1, at slow mixing ¼.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.policies import Policy
from cesaro.suite.system import Observations, Simulated, State
from cesaro.suite.systems.linear_quadratic import DISTURBANCE, EFFORT, LinearFeedback

NEAR, FAR = -0.7, -0.1
# The load in the end, and what a temperature loses by itself.
LOAD, LOSS = 0.5, 0.1


class Drift(Simulated):
    """One number is seen, one is done; the time is a part of the state that is not seen."""

    name, side, kind = "drift", "development", "continuous"
    fault = "The load grows over the time of the log: what a policy would have earned then is not what it will earn."

    def draw(self, rng: np.random.Generator) -> None:
        self.pace = 0.25 if self.mixing == "slow" else 1.0
        # Logs begin soon after the start, while the load is small.
        self.warm = int(50 / self.pace)
        self.targets = {"main": LinearFeedback(np.array([[NEAR]]), 0.2, "main")}

    def start(self, count: int, rng: np.random.Generator) -> State:
        return np.column_stack([0.5 * rng.normal(size=count), np.zeros(count)])

    def observe(self, state: State) -> Observations:
        return state[:, 0]

    def step(self, state: State, actions: NDArray[Any], rng: np.random.Generator) -> tuple[State, Array]:
        x, time = state.T
        load = LOAD * time / (time + 200 / self.pace)
        moved = x + self.pace * (-LOSS * x + actions + load)
        moved += np.sqrt(self.pace) * DISTURBANCE * rng.normal(size=len(x))
        return np.column_stack([moved, time + 1]), -(x**2) - EFFORT * actions**2

    def behavior(self, degree: float) -> Policy:
        gain = (1 - degree) * NEAR + degree * FAR
        return LinearFeedback(np.array([[gain]]), 0.2 + 0.2 * degree, f"behavior {degree:g}")
