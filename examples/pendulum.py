"""A continuous log: Gymnasium's pendulum under a noisy controller; what would the controller alone earn per step?

Now and then, with the same chance at every step, somebody knocks the pendulum into a new position, so that the task never ends.
Needs Gymnasium: pip install gymnasium.
"""

import argparse
import math

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import cesaro as cs

KNOCK = 0.05  # per step
Array = NDArray[np.floating]


def controller(observations: Array) -> Array:
    """Push along with the swing while low, hold while high: the torque from (cos θ, sin θ, θ'), `[n, 3]` to `[n, 1]`."""
    cos, sin, speed = observations.T
    high = 1 / (1 + np.exp(-8 * (cos - 0.6)))
    return np.asarray(2 * np.tanh((1 - high) * speed - high * (8 * sin + 2 * speed))[:, None])


def simulate(rows: int, noise: float, seed: int) -> tuple[Array, Array, Array, Array]:
    """Observations, actions, rewards and next observations of one pendulum."""
    env, rng = gym.make("Pendulum-v1", max_episode_steps=rows + 1), np.random.default_rng(seed)
    seen, done, earned, then = np.empty((rows, 3)), np.empty((rows, 1)), np.empty(rows), np.empty((rows, 3))
    observation, _ = env.reset(seed=seed)
    for row in range(rows):
        action = np.clip(controller(observation[None])[0] + noise * rng.standard_normal(1), -2, 2)
        following, reward, *_ = env.step(action.astype(np.float32))
        if rng.random() < KNOCK:
            following, _ = env.reset()
        seen[row], done[row], earned[row], then[row] = observation, action, reward, following
        observation = following
    env.close()
    return seen, done, earned, then


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="length of the log")
    rows: int = parser.parse_args().rows
    log = cs.Transitions(*simulate(rows, noise=1.0, seed=0))
    print(cs.evaluate(log, controller, unit="per step"))
    truth = simulate(3 * rows, noise=0.0, seed=1)[2]
    batches = truth[: len(truth) // 30 * 30].reshape(30, -1).mean(axis=1)
    print(f"Simulated:    {truth.mean():.3f} ± {2 * batches.std() / math.sqrt(30):.3f}")


if __name__ == "__main__":
    main()
