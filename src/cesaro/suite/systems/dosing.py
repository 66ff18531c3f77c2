"""Messages that suggest a walk, as mobile health sends them: each adds to a burden that fades, and a burden makes them useless.

    burden:      B' = λ B + (1 − λ) a,                        a = 1 where a message is sent
    engagement:  E' = ρ E + (1 − ρ) (1 − h B) + √(1 − ρ²) 0.2 e
    place:       a Markov chain of home, work and street
    reward:      R = b(place) + w E + a t(place) (1 − k B) + σ e,   the steps walked in the next hours, in thousands

The log has burden, engagement and place; the action is "send" or "quiet". What a message does, t, depends on the
place. Policies that send with one probability everywhere have exact rates.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import exact
from cesaro.checks import Array
from cesaro.mdp import TabularMDP
from cesaro.policies import Policy
from cesaro.suite.rules import Always, Blend, Rule, RulePolicy, places
from cesaro.suite.system import Observations, Simulated, State

PLACES = np.array(["home", "work", "street"])
ACTIONS = ("quiet", "send")
ENGAGEMENT_SPREAD = 0.2


@dataclass(frozen=True)
class Sends:
    """The probabilities of both actions: a message is likelier where the place suits and the less, the more burden there is.

    Attributes:
        leaning: log odds of a message at each place without burden.
        caution: what they lose at full burden.
        sharpness: a multiple of both; infinite: the likelier action for certain.
    """

    leaning: Array
    caution: float
    sharpness: float = 1.0

    def __call__(self, seen: Any) -> Array:
        odds = self.leaning[places(seen["place"], PLACES)] - self.caution * seen["burden"]
        send = odds > 0 if np.isinf(self.sharpness) else 1 / (1 + np.exp(-self.sharpness * odds))
        return np.column_stack([1 - send, send])


class Dosing(Simulated):
    name, side, kind = "dosing", "exam", "continuous"

    def draw(self, rng: np.random.Generator) -> None:
        slow = self.mixing == "slow"
        fades, lasts = rng.uniform(0.1, 0.16), rng.uniform(0.1, 0.16)
        self.fading, self.lasting = ((1 - x / (4 if slow else 1)) for x in (fades, lasts))
        self.warm = int(12 / (1 - max(self.fading, self.lasting)))
        self.base, self.weight, self.harm = rng.uniform(0.8, 1.6, 3), rng.uniform(1.0, 1.4), rng.uniform(0.7, 0.9)
        self.habituation, self.noise = rng.uniform(0.4, 0.7), rng.uniform(0.5, 0.8)
        suits = rng.permutation(3)
        self.effect = np.array([2.2, 1.3, 0.3])[suits] * rng.uniform(0.85, 1.15, 3)
        moving = rng.dirichlet(np.full(3, 5.0), 3)
        self.moves = 0.6 * np.eye(3) + 0.4 * moving
        leaning = 2.0 * (self.effect - self.effect.mean())
        self._near, self._far = Sends(leaning + 0.5, 3.0), Sends(1.0 - 0.3 * leaning, 0.0)
        rules: dict[str, Rule] = {
            "suited": self._near,
            "suited, certain": Sends(leaning + 0.5, 3.0, np.inf),
            "rested": Sends(np.full(3, 1.0), 4.0),
            "always": Always((0.1, 0.9)),
            "never": Always((1.0, 0.0)),
        }
        self.targets = {name: RulePolicy(ACTIONS, rule, name) for name, rule in rules.items()}

    def start(self, count: int, rng: np.random.Generator) -> State:
        return np.column_stack([rng.random(count), rng.normal(0.5, 0.5, count), rng.integers(3, size=count)])

    def observe(self, state: State) -> Observations:
        burden, engagement, place = state.T
        return {"burden": burden, "engagement": engagement, "place": PLACES[place.astype(np.int64)]}

    def step(self, state: State, actions: NDArray[Any], rng: np.random.Generator) -> tuple[State, Array]:
        burden, engagement, place = state[:, 0], state[:, 1], state[:, 2].astype(np.int64)
        sent = np.asarray(actions == "send", dtype=np.float64)
        shocks = rng.normal(size=(2, len(state)))
        helps = sent * self.effect[place] * (1 - self.habituation * burden)
        rewards = self.base[place] + self.weight * engagement + helps + self.noise * shocks[0]
        wanted = self.lasting * engagement + (1 - self.lasting) * (1 - self.harm * burden)
        engaged = wanted + np.sqrt(1 - self.lasting**2) * ENGAGEMENT_SPREAD * shocks[1]
        following = np.count_nonzero(rng.random((len(state), 1)) >= self.moves.cumsum(axis=1)[place, :-1], axis=1)
        return np.column_stack([self.fading * burden + (1 - self.fading) * sent, engaged, following]), rewards

    def behavior(self, degree: float) -> Policy:
        rule = Blend(Blend(self._near, self._far, degree), Always((0.5, 0.5)), 0.3 * degree)
        return RulePolicy(ACTIONS, rule, f"behavior {degree:g}")

    def exact(self, policy: Policy, stickiness: float = 0.0) -> float | None:
        """Messages that do not depend on the state have E[a B] = p² + p (1 − p) (1 − λ) s / (1 − λ s) at stickiness s."""
        assert isinstance(policy, RulePolicy)
        if not isinstance(policy.rule, Always):
            return None
        chance = policy.rule.given[1]
        at = exact.stationary_distribution(TabularMDP(self.moves[:, None], np.zeros((3, 1))), np.ones((3, 1)))[:, 0]
        carried = (1 - self.fading) * stickiness / (1 - self.fading * stickiness)
        both = chance**2 + chance * (1 - chance) * carried
        helps = at @ self.effect * (chance - self.habituation * both)
        return float(at @ self.base + self.weight * (1 - self.harm * chance) + helps)
