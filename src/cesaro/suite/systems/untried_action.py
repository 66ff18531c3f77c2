"""A tank for rain water that can be flushed, and was never flushed while full.

    x' = ρ x + (1 − ρ) (m_a + 0.2 d) + √(1 − ρ²) 0.3 w, or 0.2 U after a flush,   d' = 0.9 d + √(1 − 0.9²) v
    R = −x − c_a, less the loss L where a flush meets x > c

of the level x, the rain d, and actions "wait", "drain" and "flush" with m = 1.2 and 0.4 and costs 0, 0.2 and 0.5; U is uniform in
[0, 1]. Behaviors flush up to the level c only, the target mostly above. What that costs no log can tell, and what a flush costs
elsewhere misleads. At slow mixing 1 − ρ is a quarter.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.policies import Finite, Policy
from cesaro.suite.system import Observations, Simulated, State

ACTIONS = ("wait", "drain", "flush")
LEVELS, COSTS = np.array([1.2, 0.4, 0.0]), np.array([0.0, 0.2, 0.5])


@dataclass(frozen=True)
class ByLevel:
    """Probabilities `[n, 3]` of wait, drain and flush, which are `low` up to a level and `high` above."""

    low: tuple[float, float, float]
    high: tuple[float, float, float]
    threshold: float

    def __call__(self, observations: Any) -> Array:
        is_high = np.asarray(observations["level"]) > self.threshold
        return np.array([self.low, self.high])[is_high.astype(int)]


class UntriedAction(Simulated):
    """Level and rain are seen; the action is a word. After a flush no tank is full, so that a repeated flush never meets one.

    Drawn: the persistence ρ of the level, the threshold c and the loss L.
    """

    name, side, kind = "untried-action", "exam", "continuous"
    fault = "The target flushes the tank while it is full, and the log never does: what this earns is unknown."

    def draw(self, rng: np.random.Generator) -> None:
        stays, self.threshold, self.loss = rng.uniform(0.75, 0.85), rng.uniform(0.6, 0.9), rng.uniform(5, 8)
        self.stays = 1 - (1 - stays) / (4 if self.mixing == "slow" else 1)
        self.warm = int(20 / (1 - self.stays))
        flushes = ByLevel((0.8, 0.1, 0.1), (0.1, 0.2, 0.7), self.threshold)
        self.targets = {"main": Finite(ACTIONS, flushes, name="main")}

    def start(self, count: int, rng: np.random.Generator) -> State:
        return np.column_stack([0.2 * rng.random(count), rng.normal(size=count)])

    def observe(self, state: State) -> Observations:
        return {"level": state[:, 0], "rain": state[:, 1]}

    def step(self, state: State, actions: NDArray[Any], rng: np.random.Generator) -> tuple[State, Array]:
        level, rain = state.T
        number = np.select([actions == "flush", actions == "drain"], [2, 1], 0)
        w, v = rng.normal(size=(2, len(state)))
        filled = self.stays * level + (1 - self.stays) * (LEVELS[number] + 0.2 * rain)
        filled += np.sqrt(1 - self.stays**2) * 0.3 * w
        following = np.where(number == 2, 0.2 * rng.random(len(state)), filled)
        lost = self.loss * ((number == 2) & (level > self.threshold))
        later = 0.9 * rain + np.sqrt(1 - 0.9**2) * v
        return np.column_stack([following, later]), -level - COSTS[number] - lost

    def behavior(self, degree: float) -> Policy:
        drains = 0.1 + 0.4 * degree
        function = ByLevel((0.9 - drains, drains, 0.1), (0.4, 0.6, 0.0), self.threshold)
        return Finite(ACTIONS, function, name=f"behavior {degree:g}")
