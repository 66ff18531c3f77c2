"""Customers of several priorities ask for servers, as calls ask for lines: the queue of Sutton and Barto, section 10.3.

    f' = f − a + Binomial(n − f + a, p),   R = priority · a,   a = 0 where f = 0

of f free servers out of n; the next priority is uniform. At slow mixing the queue moves in one step of four, at random;
else the same customer asks, and may pay, again.
"""

import numpy as np

from cesaro import problems
from cesaro.suite.system import Discrete, chosen, second, slowed

LEVELS = 4


class AccessControl(Discrete):
    """State `4 f + i` for f free servers and priority number i; actions reject (0) and accept (1).

    Drawn: the number of servers, how often a busy one becomes free, and the ratio of one priority to the next.
    """

    name, side = "access-control", "exam"

    def draw(self, rng: np.random.Generator) -> None:
        servers = int(rng.integers(6, 13))
        # Servers suffice for four to six customers of ten, so that it matters who gets them.
        becomes_free = rng.uniform(0.4, 0.6) / servers
        priorities = rng.uniform(1.8, 2.3) ** np.arange(LEVELS)
        self.mdp = problems.access_control_queue(servers, list(priorities), becomes_free).mdp
        self.warm = int(8 / becomes_free)
        if self.mixing == "slow":
            self.mdp, self.warm = slowed(self.mdp, 0.25), 4 * self.warm
        free, priority = np.divmod(np.arange(self.mdp.num_states), LEVELS)
        share = free / servers
        tables = {
            "upper half": second(np.where(priority >= 2, 0.95, 0.05)),
            "upper half or half free": chosen(((priority >= 2) | (share > 0.5)).astype(int), 2),
            "highest": chosen((priority == 3).astype(int), 2),
            "all but lowest": second(np.where(priority >= 1, 0.9, 0.1)),
            "all": chosen(np.ones(len(free), dtype=int), 2),
        }
        self.targets = {name: self.tabular(table, name) for name, table in tables.items()}
        # First come, first served, but dear customers find the line busy more often.
        self.far = second(np.where(priority >= 2, 0.6, 0.95))
