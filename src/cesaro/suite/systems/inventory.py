"""A shop that orders a perishable good every morning: stock is a number, sales that meet an empty shelf are lost.

    demand:  D = m(weekday) exp(g) Γ,      Γ gamma with mean one,    g' = ρ g + √(1 − ρ²) 0.12 e
    level:   l = min(x + q, 80),           x' = 0.95 (l − min(l, D)),   the weekday moves on
    reward:  R = 2 min(l, D) − (l − x) − 0.15 x' − 0.5 (D − l)⁺

The log has the stock x, the weekday and the market's index g; the action is the order q, at least 0 and at most 50.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.policies import Policy
from cesaro.suite.rules import Always, Blend, Noisy, places
from cesaro.suite.system import Observations, Simulated, State

WEEKDAYS = np.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
USUAL_DEMAND = np.array([8.0, 8.0, 9.0, 10.0, 14.0, 18.0, 5.0])
ROOM, ORDERS = 80.0, (0.0, 50.0)
INDEX_SPREAD, GAMMA_SHAPE, KEPT = 0.12, 4.0, 0.95


@dataclass(frozen=True)
class UpTo:
    """Orders what is missing from a multiple of the demand that the day and the index let expect, plus some units."""

    multiple: float
    units: float = 0.0

    def __call__(self, seen: Any) -> Array:
        expected = USUAL_DEMAND[places(seen["weekday"], WEEKDAYS)] * np.exp(seen["index"])
        return np.asarray(self.multiple * expected + self.units - seen["stock"])


class Inventory(Simulated):
    name, side, kind = "inventory", "development", "continuous"

    def draw(self, rng: np.random.Generator) -> None:
        slow = self.mixing == "slow"
        self.memory, self.warm = (0.98, 600) if slow else (0.9, 150)
        self._near, self._far = UpTo(1.5), UpTo(2.6)
        self.targets = {
            "forecast": Noisy(self._near, 0.0, ORDERS, "forecast"),
            "generous": Noisy(UpTo(2.5), 0.0, ORDERS, "generous"),
            "scarce": Noisy(UpTo(0.8), 1.0, ORDERS, "scarce"),
            "fixed level": Noisy(UpTo(0.0, 18.0), 0.0, ORDERS, "fixed level"),
            "same order": Noisy(Always(10.0), 2.0, ORDERS, "same order"),
        }

    def start(self, count: int, rng: np.random.Generator) -> State:
        return np.column_stack(
            [
                rng.uniform(0, 20, count),
                rng.integers(len(WEEKDAYS), size=count),
                rng.normal(0, INDEX_SPREAD, count),
            ]
        )

    def observe(self, state: State) -> Observations:
        stock, day, index = state.T
        return {"stock": stock, "weekday": WEEKDAYS[day.astype(np.int64)], "index": index}

    def step(self, state: State, actions: NDArray[Any], rng: np.random.Generator) -> tuple[State, Array]:
        stock, day, index = state.T
        level = np.minimum(stock + actions, ROOM)
        surprise = rng.gamma(GAMMA_SHAPE, 1 / GAMMA_SHAPE, len(stock))
        demand = USUAL_DEMAND[day.astype(np.int64)] * np.exp(index) * surprise
        sales = np.minimum(level, demand)
        left = KEPT * (level - sales)
        rewards = 2 * sales - (level - stock) - 0.15 * left - 0.5 * (demand - sales)
        shock = np.sqrt(1 - self.memory**2) * INDEX_SPREAD * rng.normal(size=len(stock))
        following = [left, (day + 1) % len(WEEKDAYS), self.memory * index + shock]
        return np.column_stack(following), rewards

    def behavior(self, degree: float) -> Policy:
        return Noisy(Blend(self._near, self._far, degree), 1 + 9 * degree, ORDERS, f"behavior {degree:g}")
