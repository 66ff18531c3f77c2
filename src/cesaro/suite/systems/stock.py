"""A shop with integer stock that orders each evening; what was ordered arrives next morning.

    D ~ Poisson(3),   s' = min((s − D)₊ + a, 20)
    R = 4 min(s, D) − 2 (D − s)₊ − 0.15 s' − 2 a − 1[a > 0]

of stock s and order a, 0 … 6. Behaviors keep less in stock than the main target and hardly ever order much when there is much,
so that pairs that the target needs are rare in their logs. At slow mixing the shop is open one day in four, at random; else
nothing happens, and R = 0.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import poisson

from cesaro.checks import Array
from cesaro.mdp import TabularMDP
from cesaro.policies import Policy
from cesaro.suite.system import Discrete, State, chosen, slowed

CAPACITY, LARGEST = 20, 6
DEMAND = 3.0
PRICE, LOST, HOLDING, COST, DELIVERY = 4.0, 2.0, 0.15, 2.0, 1.0
# A demand beyond this has probability 1e-15.
MOST_DEMAND = 25
# Stocks up to which the main target orders, and behaviors of degree 1.
LEVEL, FAR_LEVEL = 11.0, 4.0
# How far stochastic policies go astray, as a standard deviation.
SPREAD = 1.5


class Stock(Discrete):
    """States are stocks 0 … 20; actions are ordered quantities 0 … 6."""

    name, side = "stock", "development"
    explored = 0.2

    def draw(self, rng: np.random.Generator) -> None:
        self.open = 0.25 if self.mixing == "slow" else 1.0
        self.warm = int(100 / self.open)
        stocks, orders = np.indices((CAPACITY + 1, LARGEST + 1))
        demands = poisson.pmf(np.arange(MOST_DEMAND + 1), DEMAND)
        probabilities, rewards = np.zeros((*stocks.shape, CAPACITY + 1)), np.zeros(stocks.shape)
        for demand, chance in enumerate(demands / demands.sum()):
            following, earned = _day(stocks, orders, demand)
            probabilities[stocks, orders, following] += chance
            rewards += chance * earned
        self.mdp = slowed(TabularMDP(probabilities, self.open * rewards), self.open)
        stock = np.arange(CAPACITY + 1)
        tables = {
            "about 11": _about(LEVEL),
            "up to 9": chosen(np.clip(9 - stock, 0, LARGEST), LARGEST + 1),
            "up to 16": chosen(np.clip(16 - stock, 0, LARGEST), LARGEST + 1),
            "6 below 6": chosen(np.where(stock < 6, LARGEST, 0), LARGEST + 1),
            "about 7": _about(7.0),
        }
        self.targets = {name: self.tabular(table, name) for name, table in tables.items()}

    def step(self, state: State, actions: NDArray[Any], rng: np.random.Generator) -> tuple[State, Array]:
        is_open = rng.random(len(state)) < self.open
        following, earned = _day(state, actions, rng.poisson(DEMAND, len(state)))
        return np.where(is_open, following, state), np.where(is_open, earned, 0.0)

    def behavior(self, degree: float) -> Policy:
        stocks, orders = np.indices((CAPACITY + 1, LARGEST + 1))
        explores = np.exp(-stocks * orders / 25)
        explores /= explores.sum(axis=1, keepdims=True)
        explored = self.explored * degree
        table = (1 - explored) * _about((1 - degree) * LEVEL + degree * FAR_LEVEL) + explored * explores
        return self.tabular(table, f"behavior {degree:g}")


def _day(stock: NDArray[Any], order: NDArray[Any], demand: Any) -> tuple[NDArray[Any], Array]:
    """The next stocks and what was earned."""
    sold = np.minimum(stock, demand)
    following = np.minimum(stock - sold + order, CAPACITY)
    costs = LOST * (demand - sold) + HOLDING * following + COST * order + DELIVERY * (order > 0)
    return following, PRICE * sold - costs


def _about(level: float) -> Array:
    """Orders `[S, A]` around what is missing to a level."""
    stocks, orders = np.indices((CAPACITY + 1, LARGEST + 1))
    missing = np.clip(level - stocks, 0, LARGEST)
    weights = np.exp(-0.5 * ((orders - missing) / SPREAD) ** 2)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
