"""Gymnasium's Pendulum-v1 over arrays, two controllers, logs with random resets, and the controllers' exact rates.

Every step ends with a reset with the same probability, whatever came before, and the next state that a log holds is then the
new start. So (state, action) alone says what follows, as evaluation assumes. Under Pendulum-v1's usual limit of 200 steps it
would not: the time since the last reset decides on the next one and is no part of the observation. The mean reward then is
another one too (about 0.06 less for the steep controller), and no method that sees observations alone estimates it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cesaro.checks import Array
from cesaro.data import Transitions

GRAVITY, TIME_STEP, MAX_TORQUE, MAX_SPEED = 10.0, 0.05, 2.0, 8.0
# Starts are uniform: any angle, speeds up to this.
START_SPEED = 1.0
# Simulations leave out the steps before a share e^{−10} of pendulums has had no reset; series of rewards end after e^{−12}.
FORGOTTEN, NEGLIGIBLE = 10.0, 12.0


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


# The steep one's torque changes abruptly with the state; the smooth one's is easier to express.
CONTROLLERS = {"steep": Controller(12.0, 3.0, 2.0, 0.95), "smooth": Controller(8.0, 2.0, 4.0, 0.8)}


class Pendulums(NamedTuple):
    """The state of several."""

    angle: Array  # [n]
    speed: Array  # [n]

    def observe(self) -> Array:
        """`[n, 3]`."""
        return np.stack([np.cos(self.angle), np.sin(self.angle), self.speed], axis=-1)

    def step(self, torque: Array) -> tuple["Pendulums", Array]:
        """What Pendulum-v1's step does to each: the next states and the rewards, `[n]`."""
        torque = np.clip(torque, -MAX_TORQUE, MAX_TORQUE)
        angle = (self.angle + np.pi) % (2 * np.pi) - np.pi
        reward = -(angle**2 + 0.1 * self.speed**2 + 0.001 * torque**2)
        speed = self.speed + (1.5 * GRAVITY * np.sin(self.angle) + 3 * torque) * TIME_STEP
        speed = np.clip(speed, -MAX_SPEED, MAX_SPEED)
        return Pendulums(self.angle + speed * TIME_STEP, speed), reward


def starts(count: int, rng: np.random.Generator) -> Pendulums:
    """What a reset gives."""
    return Pendulums(rng.uniform(-np.pi, np.pi, count), rng.uniform(-START_SPEED, START_SPEED, count))


class Step(NamedTuple):
    """One step of several pendulums."""

    observations: Array  # [n, 3]
    actions: Array  # [n], not clipped
    rewards: Array  # [n]
    next_observations: Array  # [n, 3], after a reset where there was one


def simulate(
    controller: Controller, noise: float, count: int, reset: float, rng: np.random.Generator
) -> Iterator[Step]:
    """Steps without end of pendulums under the controller plus Gaussian noise, once their start is forgotten."""
    state, forgotten, time = starts(count, rng), math.ceil(FORGOTTEN / reset), 0
    while True:
        seen = state.observe()
        actions = controller(seen) + noise * rng.standard_normal(count)
        following, rewards = state.step(actions)
        fresh, is_reset = starts(count, rng), rng.random(count) < reset
        state = Pendulums(*(np.where(is_reset, new, old) for new, old in zip(fresh, following)))
        if time >= forgotten:
            yield Step(seen, actions, rewards, state.observe())
        time += 1


def log(
    controller: Controller,
    noise: float,
    rows: int,
    pendulums: int,
    reset: float,
    rng: np.random.Generator,
    *,
    action_bounds: tuple[float, float] | None = None,
) -> Transitions:
    """A log of several pendulums, one trajectory each, of equal lengths; noise goes into actions as they are logged.

    `action_bounds`: what logged actions are cut to.
    """
    length = rows // pendulums
    steps = [step for _, step in zip(range(length), simulate(controller, noise, pendulums, reset, rng))]
    seen, actions, rewards, then = (np.stack(parts, axis=1) for parts in zip(*steps))
    return Transitions(
        seen.reshape(-1, 3),
        actions.ravel(),
        rewards.ravel(),
        then.reshape(-1, 3),
        trajectory=np.repeat(np.arange(pendulums), length),
        action_bounds=action_bounds,
    )


def simulated_rate(
    controller: Controller, steps: int, count: int, reset: float, rng: np.random.Generator
) -> tuple[float, float]:
    """The controller's rate by simulation, with the standard error over pendulums."""
    total = np.zeros(count)
    for _, step in zip(range(steps), simulate(controller, 0.0, count, reset, rng)):
        total += step.rewards
    return float(total.mean()) / steps, float(total.std(ddof=1)) / steps / math.sqrt(count)


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
