"""A house that is heated by the hour: weather that persists, a tariff and wishes that change with the time of day.

    outdoor:  o = 4 + 4 sin(2π (h − 9) / 24) + z,   z' = ρ z + √(1 − ρ²) 4 e,   the hour h moves on
    indoor:   T' = T + κ (o − T) + 30 κ u + 0.15 e
    reward:   R = −c(h) (T' − w(h))² − p(h) u

The log has the hour, o and T; the action is the power u between 0 and 1. By day w is 21, by night 17 and matters less; power
costs most from 17 to 21 o'clock.
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
IS_DAY = (HOURS >= 7) & (HOURS < 22)
WISHED = np.where(IS_DAY, 21.0, 17.0)
COMFORT = np.where(IS_DAY, 0.1, 0.02)
PRICE = np.where((HOURS >= 17) & (HOURS < 21), 2.0, 1.0) - 0.4 * (HOURS < 6)
SEASON = 4 + 4 * np.sin(2 * np.pi * (HOURS - 9) / 24)
WEATHER_SPREAD, REACH, POWER = 4.0, 30.0, (0.0, 1.0)


@dataclass(frozen=True)
class Thermostat:
    """Heats for what the house loses at the wished temperature, and against the deviation from it.

    Attributes:
        day: the temperature that is wished for from 6 to 22 o'clock.
        night: the one at other hours.
        gain: power per degree that is missing.
        thrift: how much less power there is per unit of price above the usual.
    """

    day: float
    night: float
    gain: float
    thrift: float = 0.0

    def __call__(self, seen: Any) -> Array:
        hour = np.asarray(seen["hour"]).astype(np.int64)
        wished = np.where((hour >= 6) & (hour < 22), self.day, self.night)
        power = (wished - seen["outdoor"]) / REACH + self.gain * (wished - seen["indoor"])
        return np.asarray(power - self.thrift * (PRICE[hour] - 1))


class Heating(Simulated):
    name, side, kind = "heating", "development", "continuous"

    def draw(self, rng: np.random.Generator) -> None:
        slow = self.mixing == "slow"
        self.loss, self.memory, self.warm = (0.04, 0.98, 600) if slow else (0.12, 0.92, 200)
        self._near, self._far = Thermostat(20.5, 17.0, 0.15), Blend(Thermostat(24.0, 24.0, 0.1), Always(0.6), 0.3)
        self.targets = {
            "setback": Noisy(self._near, 0.05, POWER, "setback"),
            "constant": Noisy(Thermostat(21.0, 21.0, 0.3), 0.0, POWER, "constant"),
            "thrifty": Noisy(Thermostat(20.0, 16.0, 0.15, 0.3), 0.0, POWER, "thrifty"),
            "warm": Noisy(Thermostat(22.5, 20.0, 0.2), 0.1, POWER, "warm"),
            "cold": Noisy(Thermostat(17.5, 15.0, 0.1), 0.0, POWER, "cold"),
        }

    def start(self, count: int, rng: np.random.Generator) -> State:
        hour = rng.integers(len(HOURS), size=count)
        outdoor = SEASON[hour] + WEATHER_SPREAD * rng.normal(size=count)
        return np.column_stack([hour, outdoor, rng.uniform(14, 24, count)])

    def observe(self, state: State) -> Observations:
        return dict(zip(("hour", "outdoor", "indoor"), state.T))

    def step(self, state: State, actions: NDArray[Any], rng: np.random.Generator) -> tuple[State, Array]:
        hour, outdoor, indoor = state[:, 0].astype(np.int64), state[:, 1], state[:, 2]
        shocks = rng.normal(size=(2, len(hour)))
        warmer = indoor + self.loss * (outdoor - indoor + REACH * actions) + 0.15 * shocks[0]
        rewards = -COMFORT[hour] * (warmer - WISHED[hour]) ** 2 - PRICE[hour] * actions
        later = (hour + 1) % len(HOURS)
        weather = self.memory * (outdoor - SEASON[hour]) + np.sqrt(1 - self.memory**2) * WEATHER_SPREAD * shocks[1]
        return np.column_stack([later, SEASON[later] + weather, warmer]), rewards

    def behavior(self, degree: float) -> Policy:
        return Noisy(Blend(self._near, self._far, degree), 0.05 + 0.25 * degree, POWER, f"behavior {degree:g}")
