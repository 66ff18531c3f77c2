"""Policies of the systems, by rules of the observations that can be sent to other processes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.policies.base import Finite, Sampler
from cesaro.policies.observed import count

# From observations to a number for each, or to probabilities `[n, A]`.
Rule: TypeAlias = Callable[[Any], Array]


class Noisy(Sampler):
    """The number that a rule gives plus normal noise, cut to bounds: the action as it is executed.

    Args:
        noise: its standard deviation; 0: deterministic.
    """

    def __init__(self, rule: Rule, noise: float, bounds: tuple[float, float], name: str) -> None:
        self.rule, self.noise = rule, noise
        super().__init__(self._drawn if noise else self._plain, name=name, low=bounds[0], high=bounds[1])

    def _plain(self, observations: Any) -> Array:
        return self._cut(self.rule(observations))

    def _drawn(self, observations: Any, rng: np.random.Generator) -> Array:
        plain = self.rule(observations)
        return self._cut(plain + self.noise * rng.normal(size=len(plain)))

    def _cut(self, actions: Array) -> Array:
        return np.clip(actions, self.low, self.high)


class RulePolicy(Finite):
    """Labels with the probabilities that a rule gives."""

    def __init__(self, actions: Sequence[Any], rule: Rule, name: str) -> None:
        self.rule = rule
        super().__init__(actions, rule, name=name)


@dataclass(frozen=True)
class Always:
    """The same number, or the same probabilities, everywhere."""

    given: Any

    def __call__(self, observations: Any) -> Array:
        given = np.asarray(self.given, dtype=np.float64)
        return np.broadcast_to(given, (count(observations), *given.shape))


@dataclass(frozen=True)
class Blend:
    """`(1 − weight) near + weight far`: of numbers an action in between, of probabilities a mixture."""

    near: Rule
    far: Rule
    weight: float

    def __call__(self, observations: Any) -> Array:
        return (1 - self.weight) * self.near(observations) + self.weight * self.far(observations)


def places(column: Any, names: NDArray[Any]) -> NDArray[np.int64]:
    """Where each label of a column stands among the names, `[n]`."""
    order = np.argsort(names)
    return np.asarray(order[np.searchsorted(names[order], np.asarray(column).astype(str))])
