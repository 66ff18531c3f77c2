"""A queue whose service speed is the action, as of a help desk that calls in a second agent.

    s' = s + 1 with probability λ (below the longest), s − 1 with probability μ_a (above 0), else s
    R = −s − c_a

At slow mixing the clock is four times as fine: λ and μ are a quarter.
"""

import numpy as np
from scipy.special import expit

from cesaro import problems
from cesaro.suite.system import Discrete, chosen, second

SLOW, FAST = 0, 1
# Two targets differ by at least this part of what the best and the worst do, so that ranks mean something. A finer clock does not
# change rates, so that parameters are the same at both mixings.
LEAST_APART = 0.03


class BirthDeath(Discrete):
    """States are lengths of the queue; actions are slow (0) and fast (1) service.

    Drawn: the longest queue, the arrivals, both speeds and the cost of the fast one.
    """

    name, side = "birth-death", "exam"

    def draw(self, rng: np.random.Generator) -> None:
        while True:
            self._draw_once(rng)
            rates = np.sort([self.exact(target) for target in self.targets.values()])
            if np.diff(rates).min() >= LEAST_APART * (rates[-1] - rates[0]):
                return

    def _draw_once(self, rng: np.random.Generator) -> None:
        longest = int(rng.integers(14, 25))
        arrival = rng.uniform(0.25, 0.33)
        service = arrival * np.array([rng.uniform(1.05, 1.2), rng.uniform(1.8, 2.0)])
        cost = rng.uniform(5, 8)
        pace = 0.25 if self.mixing == "slow" else 1.0
        self.warm = int(600 / pace)
        queue = problems.birth_death_queue(longest + 1, pace * arrival, list(pace * service), 1.0, [0.0, cost])
        self.mdp = queue.mdp
        length = np.arange(longest + 1)
        tables = {
            "mostly from 3 on": second(np.where(length >= 3, 0.9, 0.1)),
            "from 5 on": chosen(np.where(length >= 5, FAST, SLOW), 2),
            "by length": second(expit(0.8 * (length - 6))),
            "always": chosen(np.full(len(length), FAST), 2),
            "by chance": second(np.full(len(length), 0.5)),
        }
        self.targets = {name: self.tabular(table, name) for name, table in tables.items()}
        # A desk with too many agents, whose logs seldom show a long queue.
        self.far = second(np.full(len(length), 0.95))
