"""Racks of servers that are switched with the load, one at a time: what boots does not serve yet, and what waits costs.

    phase:   day or night; the other one with probability f
    load:    x' = exp(l'),   l' = ρ l + (1 − ρ) log m(phase) + √(1 − ρ²) σ e
    power:   steady; "up" begins to boot a rack, "down" takes one out of service and drains it; either ends with probability 0.6
    queue:   Q' = min(Q + x − n, 12)⁺, with n racks in service
    reward:  R = −price(phase) (n + 0.8 [power is not steady]) − c Q'

The log has load, queue and racks as numbers, power and phase as categories; actions are "up", "hold" and "down".
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.policies import Policy
from cesaro.suite.rules import Always, Blend, Rule, RulePolicy, places
from cesaro.suite.system import Observations, Simulated, State

ACTIONS = ("up", "hold", "down")
POWER = np.array(["steady", "booting", "draining"])
STEADY, BOOTING, DRAINING = range(3)
PHASES = np.array(["night", "day"])
RACKS, LONGEST, ENDING = 6, 12.0, 0.6


@dataclass(frozen=True)
class Threshold:
    """Up where load and a share of the queue exceed the racks by one number, down where by less than another.

    Attributes:
        softness: of both numbers; 0: for certain.
    """

    up: float
    down: float
    softness: float = 0.0

    def __call__(self, seen: Any) -> Array:
        excess = seen["load"] + 0.3 * seen["queue"] - seen["racks"]
        if not self.softness:
            return _probabilities(excess > self.up, excess < self.down)
        up = 1 / (1 + np.exp((self.up - excess) / self.softness))
        return _probabilities(up, (1 - up) / (1 + np.exp((excess - self.down) / self.softness)))


@dataclass(frozen=True)
class Schedule:
    """So many racks by night and by day."""

    night: int
    day: int

    def __call__(self, seen: Any) -> Array:
        wanted = np.array([self.night, self.day])[places(seen["phase"], PHASES)]
        return _probabilities(seen["racks"] < wanted, seen["racks"] > wanted)


def _probabilities(up: Array, down: Array) -> Array:
    return np.column_stack([up, 1.0 - up - down, down])


class ServerFarm(Simulated):
    name, side, kind = "server-farm", "exam", "continuous"

    def draw(self, rng: np.random.Generator) -> None:
        slow = self.mixing == "slow"
        turns, forgets = rng.uniform(1 / 40, 1 / 25), rng.uniform(0.15, 0.25)
        self.turning, forgetting = ((x / (3 if slow else 1)) for x in (turns, forgets))
        self.memory, self.warm = 1 - forgetting, int(8 / self.turning)
        self.busy = np.array([rng.uniform(1.0, 1.6), rng.uniform(3.0, 3.8)])
        self.spread, self.waiting = rng.uniform(0.15, 0.25), rng.uniform(0.3, 0.5)
        self.price = rng.uniform(0.25, 0.35, 2)
        self._near, self._far = Threshold(-0.5, -1.9), Schedule(6, 5)
        rules: dict[str, Rule] = {
            "threshold": self._near,
            "soft": Threshold(-0.5, -1.9, 0.3),
            "eager": Threshold(-1.5, -3.2),
            "lean": Threshold(0.6, -0.9),
            "schedule": Schedule(2, 5),
            "flat": Schedule(4, 4),
        }
        self.targets = {name: RulePolicy(ACTIONS, rule, name) for name, rule in rules.items()}

    def start(self, count: int, rng: np.random.Generator) -> State:
        phase = rng.integers(2, size=count)
        load = self.busy[phase] * np.exp(self.spread * rng.normal(size=count))
        racks = rng.integers(1, RACKS + 1, size=count)
        return np.column_stack([load, np.zeros(count), racks, np.full(count, STEADY), phase])

    def observe(self, state: State) -> Observations:
        load, queue, racks = state.T[:3]
        power, phase = state.T[3:].astype(np.int64)
        return {"load": load, "queue": queue, "racks": racks, "power": POWER[power], "phase": PHASES[phase]}

    def step(self, state: State, actions: NDArray[Any], rng: np.random.Generator) -> tuple[State, Array]:
        load, queue, racks, power = state.T[:4]
        phase, chances, is_steady = state[:, 4].astype(np.int64), rng.random((2, len(state))), power == STEADY
        down = is_steady & (actions == "down") & (racks > 1)
        up = is_steady & (actions == "up") & (racks < RACKS)
        serving, busy = racks - down, np.where(up, BOOTING, np.where(down, DRAINING, power))
        queue = np.clip(queue + load - serving, 0, LONGEST)
        rewards = -self.price[phase] * (serving + 0.8 * (busy != STEADY)) - self.waiting * queue
        ends = chances[0] < ENDING
        phase = np.where(chances[1] < self.turning, 1 - phase, phase)
        level = self.memory * np.log(load) + (1 - self.memory) * np.log(self.busy)[phase]
        level += np.sqrt(1 - self.memory**2) * self.spread * rng.normal(size=len(state))
        following = [np.exp(level), queue, serving + (ends & (busy == BOOTING)), np.where(ends, STEADY, busy), phase]
        return np.column_stack(following), rewards

    def behavior(self, degree: float) -> Policy:
        far = Blend(self._far, Always((1 / 3, 1 / 3, 1 / 3)), 0.4)
        return RulePolicy(ACTIONS, Blend(self._near, far, degree), f"behavior {degree:g}")
