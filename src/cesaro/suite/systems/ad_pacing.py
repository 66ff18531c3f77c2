"""Bids for advertisements with a budget that is filled up at midnight; few conversions come, and a few of them are worth a lot.

    won:      w = t(h) m / (m + exp(c)),            c' = ρ c + √(1 − ρ²) 0.5 e,   the hour h moves on
    paid:     y = min(k w m, b),                    what the budget does not cover is not won: w falls as y does
    budget:   b' = b − y,  after hour 23  g (b − y) + f,   f uniform around one
    reward:   R = [conversion] V − y,               a conversion comes with probability 1 − exp(−r v(h) w)

V is a Pareto variable with mean one, whose variance is finite and whose third moment is not. Traffic t and quality v have their
peaks at different hours. The log has the hour, the budget and the market's price c; the action is the bid m, between 0 and 3.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.policies import Policy
from cesaro.suite.rules import Always, Blend, Noisy
from cesaro.suite.system import Observations, Simulated, State

HOURS = np.arange(24)
BIDS = (0.0, 3.0)
MARKET_SPREAD = 0.5


@dataclass(frozen=True)
class Paced:
    """Bids in proportion to the quality of the hour and to the budget that is left per hour.

    Attributes:
        bid: at a quality of one with a budget on schedule.
        quality: of each hour, `[24]`.
        pace: the power of the budget per hour; 0: bids until it is spent.
    """

    bid: float
    quality: Array
    pace: float = 1.0

    def __call__(self, seen: Any) -> Array:
        hour = np.asarray(seen["hour"]).astype(np.int64)
        on_schedule = np.maximum(seen["budget"], 0) * len(HOURS) / (len(HOURS) - hour)
        return np.asarray(self.bid * self.quality[hour] * np.minimum(on_schedule, 4) ** self.pace)


class AdPacing(Simulated):
    name, side, kind = "ad-pacing", "exam", "continuous"

    def draw(self, rng: np.random.Generator) -> None:
        slow = self.mixing == "slow"
        forgets = rng.uniform(0.1, 0.2)
        self.memory = 1 - forgets / (5 if slow else 1)
        self.kept, self.warm = (0.8, 1200) if slow else (0.3, 240)
        peaks, heights = rng.uniform((10, 16), (14, 21)), rng.uniform((0.3, 0.5), (0.5, 0.7))
        self.traffic, self.quality = (
            1 + height * np.cos(2 * np.pi * (HOURS - peak) / 24) for peak, height in zip(peaks, heights)
        )
        self.cost, self.rate, self.tail = rng.uniform(0.1, 0.14), rng.uniform(0.6, 0.9), rng.uniform(2.3, 2.8)
        even = np.ones(len(HOURS))
        self._near, self._far = Paced(0.85, self.quality), Always(1.4)
        self.targets = {
            "paced": Noisy(self._near, 0.0, BIDS, "paced"),
            "paced, noisy": Noisy(Paced(0.7, even), 0.2, BIDS, "paced, noisy"),
            "quality": Noisy(Paced(1.0, self.quality, 0.0), 0.1, BIDS, "quality"),
            "low": Noisy(Paced(0.3, even, 0.0), 0.0, BIDS, "low"),
            "high": Noisy(Paced(1.6, even, 0.0), 0.3, BIDS, "high"),
        }

    def start(self, count: int, rng: np.random.Generator) -> State:
        market = MARKET_SPREAD * rng.normal(size=count)
        return np.column_stack([rng.integers(len(HOURS), size=count), rng.random(count), market])

    def observe(self, state: State) -> Observations:
        return dict(zip(("hour", "budget", "market"), state.T))

    def step(self, state: State, actions: NDArray[Any], rng: np.random.Generator) -> tuple[State, Array]:
        hour, budget, market = state[:, 0].astype(np.int64), state[:, 1], state[:, 2]
        won = self.traffic[hour] * actions / (actions + np.exp(market))
        asked = self.cost * won * actions
        paid = np.minimum(asked, budget)
        won *= np.divide(paid, asked, out=np.ones_like(paid), where=asked > 0)
        chances, refill = rng.random((2, len(state)))
        value = (self.tail - 1) / self.tail * (1 + rng.pareto(self.tail, len(state)))
        converts = chances < 1 - np.exp(-self.rate * self.quality[hour] * won)
        later, left = (hour + 1) % len(HOURS), budget - paid
        left = np.where(later == 0, self.kept * left + 0.8 + 0.4 * refill, left)
        shock = np.sqrt(1 - self.memory**2) * MARKET_SPREAD * rng.normal(size=len(state))
        return np.column_stack([later, left, self.memory * market + shock]), converts * value - paid

    def behavior(self, degree: float) -> Policy:
        return Noisy(Blend(self._near, self._far, degree), 0.05 + 0.5 * degree, BIDS, f"behavior {degree:g}")
