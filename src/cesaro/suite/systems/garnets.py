"""Garnets: random processes in which each pair leads to a few states at random (Archibald, McKinnon and Thomas, 1995).

    s' ~ Σ_k w_k(s, a) [s_k(s, a)],   R = r(s, a) + 0.5 e

with normal r and e. They stand for no real system, which is their merit: nothing in them helps an estimator. At slow mixing
a state stays in three steps of four.
"""

import numpy as np
from scipy.special import softmax

from cesaro import exact, problems
from cesaro.suite.system import Discrete, chosen, slowed


class Garnet(Discrete):
    """Set by subclasses: `states`, `choices`, the number of actions, and `branching`."""

    states: int
    choices: int
    branching: int
    noise = 0.5
    warm = 200

    def draw(self, rng: np.random.Generator) -> None:
        self.mdp = problems.garnet(self.states, self.choices, self.branching, seed=int(rng.integers(1_000))).mdp
        if self.mixing == "slow":
            self.mdp, self.warm = slowed(self.mdp, 0.25), 4 * self.warm
        uniform = np.full((self.states, self.choices), 1 / self.choices)
        values = exact.differential_values(self.mdp, uniform)
        better = chosen(values.argmax(axis=1), self.choices)
        tables = {
            "better": 0.8 * better + 0.2 * uniform,
            "better always": better,
            "soft": softmax(values, axis=1),
            "rarely better": 0.2 * better + 0.8 * uniform,
            "uniform": uniform,
        }
        self.targets = {name: self.tabular(table, name) for name, table in tables.items()}
        self.far = softmax(-values, axis=1)


class Garnet20(Garnet):
    """Each pair is seen often."""

    name, side, states, choices, branching = "garnet-20", "development", 20, 3, 3


class Garnet100(Garnet):
    """400 pairs: some are seen a few times in 5,000 rows."""

    name, side, states, choices, branching = "garnet-100", "development", 100, 4, 5
