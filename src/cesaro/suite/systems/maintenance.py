"""A machine that wears, and now and then fails at a large cost; it stands for pumps, presses and turbines.

    run (0):     w' = w + 1 with probability q, fails with probability h(w) = h₀ g^w;    R = 1 − 0.6 w / W
    inspect (1): w' = w − 1 with probability 0.3, fails with probability h(w) / 10;      R = 0.5
    repair (2):  w' = 0 with probability 0.9, else 1;                                    R = −c
    failed:      w' = 0, whatever is done;                                               R = −C

of wear w = 0 … W, with normal noise around R. At slow mixing the machine changes in one step of three, at random; else it
earns the same again.
"""

import numpy as np
from scipy.special import expit

from cesaro.mdp import TabularMDP
from cesaro.suite.system import Discrete, chosen, slowed

RUN, INSPECT, REPAIR = range(3)


class Maintenance(Discrete):
    """States are the wear 0 … W and failed, W + 1; actions are run (0), inspect (1) and repair (2).

    Drawn: W, how fast the machine wears, the chance of a failure and its growth, the costs of a repair and of a failure.
    """

    name, side = "maintenance", "exam"
    noise = 0.2

    def draw(self, rng: np.random.Generator) -> None:
        worst = int(rng.integers(9, 14))
        wears, first = rng.uniform(0.4, 0.6), rng.uniform(0.0005, 0.001)
        growth = (rng.uniform(0.05, 0.08) / first) ** (1 / worst)
        repair_cost, failure_cost = rng.uniform(2, 3), rng.uniform(15, 25)
        wear, failed = np.arange(worst + 1), worst + 1
        fails = first * growth**wear
        probabilities, rewards = np.zeros((worst + 2, 3, worst + 2)), np.zeros((worst + 2, 3))
        for action, hazard, moved, chance in (
            (RUN, fails, np.minimum(wear + 1, worst), wears),
            (INSPECT, fails / 10, np.maximum(wear - 1, 0), 0.3),
        ):
            probabilities[wear, action, failed] += hazard
            probabilities[wear, action, moved] += (1 - hazard) * chance
            probabilities[wear, action, wear] += (1 - hazard) * (1 - chance)
        probabilities[wear, REPAIR, 0], probabilities[wear, REPAIR, 1] = 0.9, 0.1
        probabilities[failed, :, 0] = 1.0
        rewards[wear] = np.column_stack([1 - 0.6 * wear / worst, 0 * wear + 0.5, 0 * wear - repair_cost])
        rewards[failed] = -failure_cost
        self.mdp, self.warm = TabularMDP(probabilities, rewards), 400
        if self.mixing == "slow":
            self.mdp, self.warm = slowed(self.mdp, 1 / 3), 3 * self.warm
        worn = np.arange(worst + 2) / worst
        late = chosen(np.where(worn > 0.7, REPAIR, RUN), 3)
        repairs = 0.9 * expit(12 * (worn - 0.6))
        tables = {
            "mostly repairs late": 0.9 * late + 0.1 * np.array([0.8, 0.1, 0.1]),
            "repairs late": late,
            "repairs at half": chosen(np.where(worn > 0.5, REPAIR, RUN), 3),
            "by wear": np.column_stack([0.95 - repairs, 0 * worn + 0.05, repairs]),
            "repairs early": chosen(np.where(worn > 0.2, REPAIR, RUN), 3),
        }
        self.targets = {name: self.tabular(table, name) for name, table in tables.items()}
        # Operators who repair too soon, so that their logs have few failures.
        soon = np.minimum(0.1 + 0.35 * worn, 0.4)
        self.far = np.column_stack([0.9 - soon, 0 * worn + 0.1, soon])
