"""Gymnasium's Pendulum-v1 under smooth controllers, put back to a random start now and then: a robot's joint, swung up.

Every step ends with a reset with the same probability p, whatever came before, and the next state that a log holds is then the
new start. So (state, action) alone says what follows, as evaluation assumes, and there is one rate whatever the start. Under
Pendulum-v1's usual limit of 200 steps it would not: the time since the last reset decides on the next one and is no part of the
observation. The log has (cos θ, sin θ, θ'); the action is the torque, between −2 and 2. Rates of targets without noise are
exact: nothing else is random but resets.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.policies import Policy
from cesaro.suite.rules import Always, Blend, Noisy
from cesaro.suite.system import Observations, Simulated, State

GRAVITY, TIME_STEP, MAX_TORQUE, MAX_SPEED = 10.0, 0.05, 2.0, 8.0
TORQUES = (-MAX_TORQUE, MAX_TORQUE)
# Starts are uniform: any angle, speeds up to this.
START_SPEED = 1.0
# Series of rewards end once a share e^{−12} of pendulums has had no reset.
NEGLIGIBLE = 12.0
# Angles and speeds of the starts behind exact rates.
GRID = (201, 31)


@dataclass(frozen=True)
class Controller:
    """Swings up by energy while low, holds by a proportional-derivative rule while high, and blends in between.

    Attributes:
        stiffness, damping: of the hold.
        gain: of the swing.
        height: the cosine of the angle at which both weigh the same.
    """

    stiffness: float
    damping: float
    gain: float
    height: float

    def __call__(self, observations: Array) -> Array:
        """The torque, `[n]`, from (cos θ, sin θ, θ'), `[n, 3]`."""
        cosine, sine, speed = observations.T
        energy = speed**2 / 6 + GRAVITY / 2 * (cosine - 1)  # zero at rest on top
        kick = 0.3 * (np.abs(speed) < 0.05)  # or it would hang for ever
        swing = np.clip(-self.gain * energy * np.tanh(4 * speed) + kick, -MAX_TORQUE, MAX_TORQUE)
        hold = np.clip(-self.stiffness * np.arctan2(sine, cosine) - self.damping * speed, -MAX_TORQUE, MAX_TORQUE)
        high = 1 / (1 + np.exp(-(cosine - self.height) / 0.03))
        return np.asarray((1 - high) * swing + high * hold)


# A controller whose torque changes abruptly with the state would be harder to express.
SMOOTH = Controller(8.0, 2.0, 4.0, 0.8)


class Pendulums(NamedTuple):
    """The state of several."""

    angle: Array  # [n]
    speed: Array  # [n]

    def observe(self) -> Array:
        """`[n, 3]`."""
        return np.stack([np.cos(self.angle), np.sin(self.angle), self.speed], axis=-1)

    def step(self, torque: Array) -> tuple["Pendulums", Array]:
        """The next states and the rewards, `[n]`, that Pendulum-v1's step gives for each."""
        torque = np.clip(torque, -MAX_TORQUE, MAX_TORQUE)
        angle = (self.angle + np.pi) % (2 * np.pi) - np.pi
        reward = -(angle**2 + 0.1 * self.speed**2 + 0.001 * torque**2)
        speed = self.speed + (1.5 * GRAVITY * np.sin(self.angle) + 3 * torque) * TIME_STEP
        speed = np.clip(speed, -MAX_SPEED, MAX_SPEED)
        return Pendulums(self.angle + speed * TIME_STEP, speed), reward


def starts(count: int, rng: np.random.Generator) -> Pendulums:
    """Pendulums as a reset leaves them."""
    return Pendulums(rng.uniform(-np.pi, np.pi, count), rng.uniform(-START_SPEED, START_SPEED, count))


def exact_rate(controller: Controller, reset: float, grid: tuple[int, ...], offset: float = 0.5) -> float:
    """The controller's rate without sampling: nothing is random but resets and what they give.

    Time between resets is geometric, so that the rate is `p Σ_t (1 − p)^t E[R_t]` with `R_t` the reward t steps after a
    reset; the mean is over a grid of starts.

    Args:
        grid: numbers of angles and speeds.
        offset: of the grid, in cells; one half takes the middle of each.
    """
    angles, speeds = ((np.arange(count) + offset) / count for count in grid)
    angle, speed = np.meshgrid(np.pi * (2 * angles - 1), START_SPEED * (2 * speeds - 1))
    state, weight, total, mean = Pendulums(angle.ravel(), speed.ravel()), reset, 0.0, 0.0
    for _ in range(math.ceil(NEGLIGIBLE / reset)):
        state, rewards = state.step(controller(state.observe()))
        mean = float(rewards.mean())
        total += weight * mean
        weight *= 1 - reset
    return total + weight / reset * mean


class Pendulum(Simulated):
    name, side, kind = "pendulum", "development", "continuous"

    def draw(self, rng: np.random.Generator) -> None:
        slow = self.mixing == "slow"
        self.reset, self.warm = (1 / 200, 2000) if slow else (1 / 40, 400)
        self.targets = {
            "smooth": Noisy(SMOOTH, 0.0, TORQUES, "smooth"),
            "soft": Noisy(Controller(5.0, 1.0, 0.5, 0.7), 0.0, TORQUES, "soft"),
            "noisy": Noisy(SMOOTH, 1.3, TORQUES, "noisy"),
            "lazy": Noisy(Controller(8.0, 2.0, 0.3, 0.8), 0.0, TORQUES, "lazy"),
            "loose": Noisy(Controller(3.0, 0.2, 2.0, 0.5), 0.3, TORQUES, "loose"),
        }

    def start(self, count: int, rng: np.random.Generator) -> State:
        return np.stack(starts(count, rng), axis=1)

    def observe(self, state: State) -> Observations:
        return Pendulums(*state.T).observe()

    def step(self, state: State, actions: NDArray[Any], rng: np.random.Generator) -> tuple[State, Array]:
        following, rewards = Pendulums(*state.T).step(actions)
        is_reset = rng.random(len(state)) < self.reset
        return np.where(is_reset[:, None], self.start(len(state), rng), np.stack(following, axis=1)), rewards

    def behavior(self, degree: float) -> Policy:
        return Noisy(Blend(SMOOTH, Always(0.0), 0.7 * degree), 0.3 + degree, TORQUES, f"behavior {degree:g}")

    def exact(self, policy: Policy, stickiness: float = 0.0) -> float | None:
        assert isinstance(policy, Noisy)
        if policy.noise or stickiness or not isinstance(policy.rule, Controller):
            return None
        return exact_rate(policy.rule, self.reset, GRID)
