"""A small continuous problem whose answer is known: linear dynamics, quadratic reward, linear target, Gaussian exploration.

    sᵢ' = ρ sᵢ + b aᵢ + h zᵢ + noise,   z' = rotation of z,   r = r₀ − c_s ‖s‖²/m − c_a ‖a‖²/m,   i = 1 … m

The target takes a = −k s, the log a = −k s + σ · (standard normal). The pair z runs round the unit circle, so that without noise
everything is deterministic, as in a simulator of mechanics, and yet the target does not come to rest. With y = (s, z), q_π is a
quadratic form in (y, a), found by one linear solve.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import lstsq

from cesaro.checks import Array

# ρ, b, h, the angle of the rotation, r₀, c_s, c_a.
DECAY, GAIN, PUSH, ANGLE = 0.95, 0.5, 0.3, 2.4
BASE, STATE_COST, ACTION_COST = 4.0, 4.0, 1.0
# A log consists of trajectories of this length, each after a number of steps that are not logged.
LENGTH, BEFORE = 200, 300


class Rows(NamedTuple):
    """Transitions: x = (y, a) as logged, x' = (y', target's action), R."""

    x: Array  # [N, m + 2 + m]
    rewards: Array  # [N]
    x_next: Array  # [N, m + 2 + m]


@dataclass(frozen=True)
class Problem:
    """One member of the family.

    Attributes:
        actions: m, coordinates of the state and of the action.
        memory: ρ − b k, the share of the state that one step of the target leaves.
        noise: standard deviation of the noise in every coordinate of the next state.
        exploration: σ.
    """

    actions: int = 6
    memory: float = 0.9
    noise: float = 0.0
    exploration: float = 0.5

    @property
    def observations(self) -> int:
        """The size of y."""
        return self.actions + 2

    @cached_property
    def drift(self) -> tuple[Array, Array]:
        """F and B of y' = F y + B a."""
        m, cosine, sine = self.actions, np.cos(ANGLE), np.sin(ANGLE)
        of_state, of_action = np.zeros((m + 2, m + 2)), np.zeros((m + 2, m))
        of_state[:m, :m], of_action[:m] = DECAY * np.eye(m), GAIN * np.eye(m)
        of_state[np.arange(m), m + np.arange(m) % 2] = PUSH
        of_state[m:, m:] = [[cosine, -sine], [sine, cosine]]
        return of_state, of_action

    @cached_property
    def control(self) -> Array:
        """K of the target's action a = K y."""
        return np.hstack([-(DECAY - self.memory) / GAIN * np.eye(self.actions), np.zeros((self.actions, 2))])

    @cached_property
    def solution(self) -> tuple[Array, float]:
        """The quadratic form V of the target's values, q_π(y, K y) = yᵀ V y + constant, and r_π."""
        return self._poisson(self._next_noise, 0.0)

    @property
    def rate(self) -> float:
        """r_π."""
        return self.solution[1]

    @cached_property
    def behavior_rate(self) -> float:
        """The rate of the policy that the log was collected with."""
        _, of_action = self.drift
        spread = self.exploration**2 * of_action @ of_action.T
        return self._poisson(self._next_noise + spread, ACTION_COST * self.exploration**2)[1]

    @property
    def way(self) -> float:
        """The way from the log's rate to r_π."""
        return self.rate - self.behavior_rate

    def values(self, x: Array) -> Array:
        """q_π at pairs x = (y, a), up to a constant, `[N]`."""
        y, a = x[:, : self.observations], x[:, self.observations :]
        of_state, of_action = self.drift
        following = y @ of_state.T + a @ of_action.T
        return self.rewards(y, a) + np.einsum("ni,ij,nj->n", following, self.solution[0], following)

    def rewards(self, y: Array, a: Array) -> Array:
        """r, `[N]`."""
        costs = STATE_COST * (y[:, : self.actions] ** 2).mean(axis=1) + ACTION_COST * (a**2).mean(axis=1)
        return np.asarray(BASE - costs)

    def log(self, rows: int, seed: int) -> Rows:
        """Transitions of trajectories that have forgotten their start."""
        rng = np.random.default_rng([seed, 0])
        of_state, of_action = self.drift
        count, m = -(-rows // LENGTH), self.actions
        angles = rng.uniform(0, 2 * np.pi, count)
        y = np.column_stack([rng.standard_normal((count, m)), np.cos(angles), np.sin(angles)])
        parts = []
        for step in range(BEFORE + LENGTH):
            a = y @ self.control.T + self.exploration * rng.standard_normal((count, m))
            following = y @ of_state.T + a @ of_action.T
            following[:, :m] += self.noise * rng.standard_normal((count, m))
            if step >= BEFORE:
                after = np.hstack([following, following @ self.control.T])
                parts.append(Rows(np.hstack([y, a]), self.rewards(y, a), after))
            y = following
        return Rows(*(np.concatenate(column)[:rows] for column in zip(*parts)))

    def along_actions(self, x: Array, share: float) -> Array:
        """Pairs x with their actions moved: `share` 0 is the target's action, 1 the logged one."""
        y, a = x[:, : self.observations], x[:, self.observations :]
        target = y @ self.control.T
        return np.hstack([y, target + share * (a - target)])

    @property
    def _next_noise(self) -> Array:
        scales = np.concatenate([np.full(self.actions, self.noise**2), np.zeros(2)])
        return np.diag(scales)

    def _poisson(self, covariance: Array, cost: float) -> tuple[Array, float]:
        """V and the rate of a = K y + exploration: y' has this covariance given y, and each step costs `cost` more.

        As forms in y, where zᵀz = 1 stands for the constant: V − (F + BK)ᵀ V (F + BK) − tr(V Σ) zᵀz + rate · zᵀz = reward.
        """
        size, m = self.observations, self.actions
        of_state, of_action = self.drift
        closed = of_state + of_action @ self.control
        constant, states = np.diag(np.r_[np.zeros(m), 1.0, 1.0]), np.diag(np.r_[np.ones(m), 0.0, 0.0])
        reward = (BASE - cost) * constant - (STATE_COST * states + ACTION_COST * self.control.T @ self.control) / m
        operator = np.eye(size**2) - np.kron(closed.T, closed.T) - np.outer(constant.ravel(), covariance.ravel())
        found = lstsq(np.column_stack([operator, constant.ravel()]), reward.ravel())[0]
        return found[:-1].reshape(size, size), float(found[-1])
