"""A service that shows one of 20 items per visit: tastes drift towards what was liked, and a genre that was shown often bores.

    click:       p = sigmoid(q_i + 2 z·g_i − c s·g_i),     g_i: shares of three genres in item i
    taste:       z' = ρ z + (1 − ρ) click g_i + √(1 − ρ²) 0.4 e
    satiation:   s' = λ s + (1 − λ) g_i
    reward:      R = click × minutes,                      minutes: gamma with the item's mean

The log has the vector (z, s), `[n, 6]`; actions are the items 0 … 19.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.policies import Policy
from cesaro.suite.rules import Always, Blend, Rule, RulePolicy
from cesaro.suite.system import Observations, Simulated, State

ITEMS, GENRES = 20, 3
TASTE_SPREAD, TASTE_WEIGHT, GAMMA_SHAPE = 0.4, 2.0, 2.0


@dataclass(frozen=True)
class Ranking:
    """Items by what one showing brings, its minutes or its clicks: the probabilities are a softmax, or the best one for certain.

    Attributes:
        genres: `[20, 3]`.
        appeal: log odds of a click that each item has by itself, `[20]`.
        boredom: what full satiation takes from them.
        worth: of a click on each item, `[20]`.
        sharpness: of the softmax; infinite: the best item.
    """

    genres: Array
    appeal: Array
    boredom: float
    worth: Array
    sharpness: float

    def __call__(self, seen: Any) -> Array:
        seen = np.asarray(seen)
        state = TASTE_WEIGHT * seen[:, :GENRES] - self.boredom * seen[:, GENRES:]
        scores = self.worth / (1 + np.exp(-self.appeal - state @ self.genres.T))
        if np.isinf(self.sharpness):
            return np.asarray(np.arange(ITEMS) == scores.argmax(axis=1)[:, None], dtype=np.float64)
        weights = np.exp(self.sharpness * scores)  # scores are at most the longest minutes, 2
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


class Recommender(Simulated):
    name, side, kind = "recommender", "exam", "continuous"

    def draw(self, rng: np.random.Generator) -> None:
        slow = self.mixing == "slow"
        drifts, fades = rng.uniform(0.06, 0.1), rng.uniform(0.1, 0.2)
        self.drift, self.fading = ((1 - x / (4 if slow else 1)) for x in (drifts, fades))
        self.warm = int(12 / (1 - max(self.drift, self.fading)))
        self.genres = rng.dirichlet(np.full(GENRES, 0.4), ITEMS)
        self.appeal, self.boredom = rng.normal(-0.5, 0.6, ITEMS), rng.uniform(2.0, 3.0)
        self.minutes = rng.uniform(0.5, 2.0, ITEMS)
        near = Ranking(self.genres, self.appeal, self.boredom, self.minutes, 10.0)
        worst = np.argsort(self.minutes / (1 + np.exp(-self.appeal)))[: ITEMS // 2]
        shown = np.exp(self.appeal) * (1 + 2 * np.isin(np.arange(ITEMS), worst))
        self._near, self._far = near, Always(shown / shown.sum())
        popular = np.exp(self.appeal) / np.exp(self.appeal).sum()
        rules: dict[str, Rule] = {
            "softmax": near,
            "greedy": Ranking(self.genres, self.appeal, self.boredom, self.minutes, np.inf),
            "clicks": Ranking(self.genres, self.appeal, self.boredom, np.ones(ITEMS), 10.0),
            "forgetful": Ranking(self.genres, self.appeal, 0.0, self.minutes, np.inf),
            "popular": Always(popular),
            "even": Always(np.full(ITEMS, 1 / ITEMS)),
        }
        self.targets = {name: RulePolicy(range(ITEMS), rule, name) for name, rule in rules.items()}

    def start(self, count: int, rng: np.random.Generator) -> State:
        return np.column_stack([rng.normal(0, TASTE_SPREAD, (count, GENRES)), rng.random((count, GENRES))])

    def observe(self, state: State) -> Observations:
        return state

    def step(self, state: State, actions: NDArray[Any], rng: np.random.Generator) -> tuple[State, Array]:
        taste, satiation, shown = state[:, :GENRES], state[:, GENRES:], self.genres[actions]
        odds = self.appeal[actions] + np.sum((TASTE_WEIGHT * taste - self.boredom * satiation) * shown, axis=1)
        clicks = rng.random(len(state)) * (1 + np.exp(-odds)) < 1
        rewards = clicks * self.minutes[actions] * rng.gamma(GAMMA_SHAPE, 1 / GAMMA_SHAPE, len(state))
        shocks = np.sqrt(1 - self.drift**2) * TASTE_SPREAD * rng.normal(size=taste.shape)
        liked = self.drift * taste + (1 - self.drift) * clicks[:, None] * shown + shocks
        return np.column_stack([liked, self.fading * satiation + (1 - self.fading) * shown]), rewards

    def behavior(self, degree: float) -> Policy:
        far = Blend(self._far, Always(np.full(ITEMS, 1 / ITEMS)), 0.3)
        return RulePolicy(range(ITEMS), Blend(self._near, far, degree), f"behavior {degree:g}")
