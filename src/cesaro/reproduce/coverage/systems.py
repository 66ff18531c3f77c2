"""Systems with numbers for states, whose rates are known: linear ones with Gaussian noise, and one with finite actions."""

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_discrete_lyapunov

from cesaro import policies
from cesaro.checks import Array

# Of the state's density in a system with finite actions: at so many places, up to so far out.
_PLACES, _FAR = 1_201, 6.0
# Steps until a start does not matter.
_WARM = 300
# Systems that the default was chosen on have names; those that it is judged on have numbers, from which they are drawn.
_FIRST_JUDGED = 7_001


# Observations, actions, rewards, next observations.
Columns: TypeAlias = tuple[Array, NDArray[Any], Array, Array]


class System(Protocol):
    """Something that can be logged, and a target."""

    @property
    def name(self) -> str: ...

    @property
    def truth(self) -> float:
        """The target's rate."""
        ...

    @property
    def logged(self) -> float:
        """What the behavior earns."""
        ...

    @property
    def is_expressible(self) -> bool:
        """Whether polynomials of degree 2 hold the target's values."""
        ...

    @property
    def policy(self) -> Any:
        """The target, as `evaluate` takes it."""
        ...

    def logs(self, count: int, rows: int, rng: np.random.Generator) -> list[Columns]:
        """Logs of one trajectory each, from the stationary law of the behavior."""
        ...


@dataclass(frozen=True)
class Linear:
    """`x' = A x + b u + noise`, `u` normal around a linear function of `x`, under behavior and target alike.

    A reward is `−Σ x² − 0.1 u²`, or a bump or a wave of the first input; their means under normal laws are closed forms.

    Attributes:
        system: `A`, `[d, d]`.
        push: `b`, `[d]`.
        gains: of behavior and target, each `[d]`.
        reward: "square", "bump" or "wave".
        distractors: inputs that change by themselves and matter to nobody.
        noise: standard deviations of what disturbs states, and of actions.
    """

    name: str
    system: Array
    push: Array
    gains: tuple[Array, Array]
    reward: str = "square"
    distractors: int = 0
    noise: tuple[float, float] = (0.3, 0.5)

    @property
    def is_expressible(self) -> bool:
        return self.reward == "square"

    @cached_property
    def truth(self) -> float:
        return self._rate(self.gains[1])

    @cached_property
    def logged(self) -> float:
        return self._rate(self.gains[0])

    @property
    def policy(self) -> Any:
        return partial(_normal, self.gains[1], self.noise[1])

    def covariance(self, gains: Array) -> Array:
        """Of the stationary law."""
        around = np.outer(self.push, self.push) * self.noise[1] ** 2 + self.noise[0] ** 2 * np.eye(len(self.push))
        return np.asarray(solve_discrete_lyapunov(self.system + np.outer(self.push, gains), around))

    def _rate(self, gains: Array) -> float:
        spread = self.covariance(gains)
        if self.reward == "square":
            return float(-np.trace(spread) - 0.1 * (gains @ spread @ gains + self.noise[1] ** 2))
        variance = float(spread[0, 0])
        if self.reward == "wave":
            return math.sin(1) * math.exp(-2 * variance)
        return math.sqrt(0.25 / (0.25 + variance)) * math.exp(-0.5 / (0.25 + variance))

    def _rewards(self, x: Array, u: Array) -> Array:
        if self.reward == "square":
            return np.asarray(-np.sum(x**2, axis=-1) - 0.1 * u**2)
        if self.reward == "wave":
            return np.sin(2 * x[..., 0] + 1)
        return np.exp(-2 * (x[..., 0] - 1) ** 2)

    def logs(self, count: int, rows: int, rng: np.random.Generator) -> list[Columns]:
        size, gains = len(self.push), self.gains[0]
        x, u = np.empty((rows + 1, count, size)), np.empty((rows + 1, count))
        x[0] = rng.multivariate_normal(np.zeros(size), self.covariance(gains), count)
        for t in range(rows + 1):
            u[t] = x[t] @ gains + self.noise[1] * rng.normal(size=count)
            if t < rows:
                x[t + 1] = (
                    x[t] @ self.system.T + np.outer(u[t], self.push) + self.noise[0] * rng.normal(size=x[t].shape)
                )
        rewards = self._rewards(x, u)
        seen = np.concatenate([x, _wandering(rows + 1, count, self.distractors, rng)], axis=2)
        return [_transitions(seen[:, k], u[:-1, k], rewards[:-1, k]) for k in range(count)]


@dataclass(frozen=True)
class Finite:
    """`x' = 0.9 x + push (a − 1) + noise` with three actions, of which both policies prefer those that lead to a place.

    Attributes:
        center: where the reward `exp(−2 (x − center)²) − 0.1 |a − 1|` is highest.
        slopes: how sharply behavior and target choose.
        places: around which they do.
    """

    name: str
    center: float = 1.0
    push: float = 0.4
    slopes: tuple[float, float] = (0.5, 3.0)
    places: tuple[float, float] = (0.0, 0.7)
    distractors: int = 3

    is_expressible = False

    @cached_property
    def truth(self) -> float:
        return self._rate(1)

    @cached_property
    def logged(self) -> float:
        return self._rate(0)

    @property
    def policy(self) -> Any:
        return policies.Finite([0, 1, 2], lambda seen: self.chances(np.asarray(seen)[:, 0], 1))

    def chances(self, x: Array, which: int) -> Array:
        """Of the actions, `[n, 3]`, by the behavior (0) or the target (1)."""
        towards = self.slopes[which] * (x - self.places[which])
        weights = np.exp(np.stack([towards, np.full_like(x, 0.3 * which), -towards], axis=1).clip(-50, 50))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def _rate(self, which: int) -> float:
        """By the stationary density on a grid."""
        x = np.linspace(-_FAR, _FAR, _PLACES)
        means = 0.9 * x[:, None] + self.push * (np.arange(3) - 1)
        chain = np.exp(-((x[None, None] - means[:, :, None]) ** 2) / (2 * 0.2**2))
        chain /= chain.sum(axis=2, keepdims=True)
        acting = self.chances(x, which)
        moves = np.einsum("xa,xay->xy", acting, chain)
        law = np.linalg.solve(np.eye(_PLACES) - moves.T + 1.0, np.ones(_PLACES))  # law = law moves, and its sum is one
        return float(np.sum(law[:, None] * acting * self._rewards(x[:, None], np.arange(3)[None])))

    def _rewards(self, x: Array, action: NDArray[Any]) -> Array:
        return np.asarray(np.exp(-2 * (x - self.center) ** 2) - 0.1 * np.abs(action - 1))

    def logs(self, count: int, rows: int, rng: np.random.Generator) -> list[Columns]:
        x, action = np.zeros((_WARM + rows + 1, count)), np.zeros((_WARM + rows + 1, count), dtype=np.int64)
        for t in range(len(x)):
            chances = self.chances(x[t], 0)
            action[t] = (rng.random(count)[:, None] > np.cumsum(chances, axis=1)[:, :2]).sum(axis=1)
            if t + 1 < len(x):
                x[t + 1] = 0.9 * x[t] + self.push * (action[t] - 1) + 0.2 * rng.normal(size=count)
        x, action = x[_WARM:], action[_WARM:]
        seen = np.concatenate([x[:, :, None], _wandering(rows + 1, count, self.distractors, rng)], axis=2)
        return [
            _transitions(seen[:, k], action[:-1, k], self._rewards(x[:-1, k], action[:-1, k])) for k in range(count)
        ]


def _normal(gains: Array, noise: float, seen: Any, rng: np.random.Generator) -> Array:
    x = np.asarray(seen).reshape(len(seen), -1)[:, : len(gains)]
    return np.asarray(x @ gains + noise * rng.normal(size=len(x)))


def _wandering(rows: int, count: int, inputs: int, rng: np.random.Generator) -> Array:
    """Autoregressions of lag one, `[rows, count, inputs]`."""
    steps = rng.normal(size=(rows, count, inputs)) * math.sqrt(1 - 0.9**2)
    steps[0] /= math.sqrt(1 - 0.9**2)
    for t in range(1, rows):
        steps[t] += 0.9 * steps[t - 1]
    return steps


def _transitions(seen: Array, actions: NDArray[Any], rewards: Array) -> Columns:
    return seen[:-1], actions, rewards, seen[1:]


def seen_before() -> tuple[System, ...]:
    """Systems on which the default was chosen."""
    one = np.array([[0.9]]), np.array([0.5]), (np.array([-0.8]), np.array([-0.3]))
    two = np.array([[0.9, 0.2], [0.0, 0.8]]), np.array([0.0, 0.5]), (np.array([-0.4, -0.6]), np.array([-0.2, -0.35]))
    return (
        Linear("one input", *one),
        Linear("two inputs", *two),
        Linear("four distractors", *one, distractors=4),
        Linear("bump", *one, reward="bump"),
        Finite("three actions"),
    )


def judged() -> tuple[System, ...]:
    """Systems that nothing was chosen on, drawn from their numbers."""
    kinds = [(1, "square", 0), (2, "square", 0), (3, "square", 0), (2, "square", 3), (2, "bump", 0), (2, "wave", 0)]
    linear = [_drawn(_FIRST_JUDGED + i, *kind) for i, kind in enumerate(kinds)]
    return (*linear, *(_drawn_finite(_FIRST_JUDGED + len(kinds) + i) for i in range(2)))


def _drawn(seed: int, size: int, reward: str, distractors: int) -> Linear:
    """Until both policies hold the system, and the target earns something else than the log."""
    rng = np.random.default_rng(seed)
    name = f"{size} input{'s' * (size > 1)}, {reward}{f', {distractors} distractors' if distractors else ''}"
    while True:
        system = rng.normal(size=(size, size)) / math.sqrt(size)
        system *= rng.uniform(0.7, 0.95) / np.abs(np.linalg.eigvals(system)).max()
        push = rng.normal(size=size)
        push *= 0.5 / np.linalg.norm(push)
        gains = rng.normal(size=(2, size)) * 0.4
        radii = [np.abs(np.linalg.eigvals(system + np.outer(push, k))).max() for k in gains]
        apart = np.linalg.norm(gains[1] - gains[0])
        found = Linear(name, system, push, (gains[0], gains[1]), reward, distractors)
        if max(radii) < 0.95 and 0.2 < apart < 0.6 and abs(found.truth - found.logged) > 0.1 * abs(found.logged):
            return found


def _drawn_finite(seed: int) -> Finite:
    rng = np.random.default_rng(seed)
    center = float(rng.uniform(0.5, 1.5))
    return Finite(
        f"three actions, {seed - _FIRST_JUDGED - 5}",
        center=center,
        push=float(rng.uniform(0.2, 0.5)),
        slopes=(float(rng.uniform(0.3, 0.8)), float(rng.uniform(1.5, 3.0))),
        places=(0.0, float(rng.uniform(0.4, 0.8)) * center),
        distractors=int(rng.integers(1, 5)),
    )
