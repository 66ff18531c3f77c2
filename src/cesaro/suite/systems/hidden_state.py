"""A reservoir whose inflow nobody measures.

    x' = α x + u + h + 0.3 w,   h' = ρ h + √(1 − ρ²) σ v,   R = −x² − 0.1 u²,   u = k x + e

of the level x, which is logged, the release u and the unseen inflow h, which changes slowly. Behaviors hardly counteract, so
that in their logs a level tells the inflow behind it; under a target that counteracts it tells it otherwise. So the law of the
next level given (x, u) is another one under each policy, and no log of (x, u) determines the rate of the target.
At slow mixing 1 − ρ is a quarter.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.policies import Policy
from cesaro.suite.system import Observations, Simulated, State
from cesaro.suite.systems.linear_quadratic import DISTURBANCE, EFFORT, LinearFeedback

# How much behaviors of degree 1 counteract.
FAR = -0.05


class HiddenState(Simulated):
    """One number is seen, one is done.

    Drawn: α, the persistence ρ and the size σ of the inflow, and how much the target counteracts.
    """

    name, side, kind = "hidden-state", "exam", "continuous"
    fault = "An unseen slow inflow drives the level, and what a level tells of it depends on the policy."

    def draw(self, rng: np.random.Generator) -> None:
        self.damping, stays = rng.uniform(0.75, 0.85), rng.uniform(0.96, 0.98)
        self.size, self.near = rng.uniform(0.4, 0.6), -rng.uniform(0.4, 0.6)
        self.stays = 1 - (1 - stays) / (4 if self.mixing == "slow" else 1)
        self.warm = int(8 / (1 - self.stays))
        self.targets = {"main": LinearFeedback(np.array([[self.near]]), 0.2, "main")}

    def start(self, count: int, rng: np.random.Generator) -> State:
        return rng.normal(size=(count, 2)) * [1.0, self.size]

    def observe(self, state: State) -> Observations:
        return state[:, 0]

    def step(self, state: State, actions: NDArray[Any], rng: np.random.Generator) -> tuple[State, Array]:
        level, inflow = state.T
        w, v = rng.normal(size=(2, len(state)))
        following = self.damping * level + actions + inflow + DISTURBANCE * w
        later = self.stays * inflow + np.sqrt(1 - self.stays**2) * self.size * v
        return np.column_stack([following, later]), -(level**2) - EFFORT * actions**2

    def behavior(self, degree: float) -> Policy:
        gain = (1 - degree) * self.near + degree * FAR
        return LinearFeedback(np.array([[gain]]), 0.2 + 0.2 * degree, f"behavior {degree:g}")
