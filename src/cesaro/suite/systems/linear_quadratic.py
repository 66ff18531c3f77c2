"""Linear systems with normal noise and quadratic costs, in 1, 4 and 12 dimensions: everything has a closed form.

x' = A x + B u + w,   R = −x·x − 0.1 u·u,   u = K x + e
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.policies import Policy
from cesaro.policies.base import Sampler
from cesaro.suite.system import Observations, Simulated, State

# Standard deviation of what disturbs states.
DISTURBANCE = 0.3
# What an action costs, beside what a state does.
EFFORT = 0.1
# Of the five targets: shares of the gain that would stop the system, of one more for the behavior, and noise of actions.
SHARES, NOISES = np.array([0.6, 0.9, 0.3, 0.15, 0.45, 0.0]), (0.2, 0.0, 0.2, 0.0, 0.4)
# At slow mixing controllers push less, so that closed loops are slow as well.
WEAK = 0.3


class LinearFeedback(Sampler):
    """`u = K x + e`.

    Args:
        gain: `K`, `[m, d]`.
        noise: standard deviation of `e`; 0: deterministic.
    """

    def __init__(self, gain: Array, noise: float, name: str) -> None:
        self.gain, self.noise = gain, noise
        super().__init__(self._noisy if noise else self._plain, name=name)

    def _plain(self, observations: Any) -> Array:
        x = np.asarray(observations).reshape(len(observations), -1)
        actions = x @ self.gain.T
        return np.asarray(actions[:, 0] if len(self.gain) == 1 else actions)

    def _noisy(self, observations: Any, rng: np.random.Generator) -> Array:
        plain = self._plain(observations)
        return np.asarray(plain + self.noise * rng.normal(size=plain.shape))


class LinearQuadratic(Simulated):
    """Set by subclasses: `radius` of the open loop, `size` and `inputs`."""

    kind = "continuous"
    size: int
    inputs: int
    radius: tuple[float, float]  # usual, slow

    def draw(self, rng: np.random.Generator) -> None:
        radius = self.radius[self.mixing == "slow"]
        self.warm = int(8 / (1 - radius))
        while True:
            system = rng.normal(size=(self.size, self.size)) / np.sqrt(self.size)
            push = rng.normal(size=(self.size, self.inputs))
            gains = rng.normal(size=(6, self.inputs, self.size))
            system /= np.abs(np.linalg.eigvals(system)).max()
            push *= 0.5 / np.linalg.norm(push, axis=0)
            # Gains point against the open loop, by shares of what would stop it as far as the inputs can.
            best = -np.linalg.pinv(push) @ system
            gains = SHARES[:, None, None] * best + 0.15 * gains * np.abs(best).mean()
            far = 0.05 * best - 0.3 * gains[5]
            if self.mixing == "slow":
                gains, far = WEAK * gains, WEAK * far
            between = [(1 - degree) * gains[0] + degree * far for degree in (0.25, 0.5, 0.75, 1.0)]
            closed = [np.abs(np.linalg.eigvals(radius * system + push @ k)).max() for k in (*gains[:5], *between)]
            self.system, self.push = radius * system, push
            names = ("main", "second", "third", "fourth", "fifth")
            self.targets = {name: LinearFeedback(k, e, name) for name, k, e in zip(names, gains, NOISES)}
            self._gains = gains[0], far
            if max(closed) < radius:
                return

    def start(self, count: int, rng: np.random.Generator) -> State:
        return rng.normal(size=(count, self.size))

    def observe(self, state: State) -> Observations:
        return state if self.size > 1 else state[:, 0]

    def step(self, state: State, actions: NDArray[Any], rng: np.random.Generator) -> tuple[State, Array]:
        u = actions.reshape(len(actions), -1)
        rewards = -np.sum(state**2, axis=1) - EFFORT * np.sum(u**2, axis=1)
        return state @ self.system.T + u @ self.push.T + DISTURBANCE * rng.normal(size=state.shape), rewards

    def behavior(self, degree: float) -> Policy:
        near, far = self._gains
        return LinearFeedback((1 - degree) * near + degree * far, 0.2 + 0.4 * degree, f"behavior {degree:g}")

    def exact(self, policy: Policy, stickiness: float = 0.0) -> float | None:
        """The rate from the second moments M of (x, last u), which solve a linear equation even where actions are repeated."""
        assert isinstance(policy, LinearFeedback)
        d, m = self.size, self.inputs
        fresh, stays = np.zeros((d + m, d + m)), np.zeros((d + m, d + m))  # (x, u) after a step, of (x, last u)
        fresh[:d, :d], fresh[d:, :d] = self.system + self.push @ policy.gain, policy.gain
        stays[:d, :d], stays[:d, d:], stays[d:, d:] = self.system, self.push, np.eye(m)
        drawn = np.vstack([self.push, np.eye(m)]) * policy.noise
        around = (1 - stickiness) * drawn @ drawn.T
        around[:d, :d] += DISTURBANCE**2 * np.eye(d)
        moves = (1 - stickiness) * np.kron(fresh, fresh) + stickiness * np.kron(stays, stays)
        moments = np.linalg.solve(np.eye(len(moves)) - moves, around.ravel()).reshape(d + m, d + m)
        return float(-np.trace(moments[:d, :d]) - EFFORT * np.trace(moments[d:, d:]))


class LinearQuadratic1(LinearQuadratic):
    name, side, size, inputs, radius = "linear-quadratic-1", "development", 1, 1, (0.9, 0.98)


class LinearQuadratic4(LinearQuadratic):
    name, side, size, inputs, radius = "linear-quadratic-4", "development", 4, 1, (0.9, 0.98)


class LinearQuadratic12(LinearQuadratic):
    """Lightly damped."""

    name, side, size, inputs, radius = "linear-quadratic-12", "exam", 12, 3, (0.95, 0.985)
