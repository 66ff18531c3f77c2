"""The logs of the practice study, as a user would hold them: transitions, a target policy, and (for scoring alone) the truth."""

import hashlib
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data import Transitions
from cesaro.policies import policy
from cesaro.policies.base import Policy
from cesaro.policies.observed import Observations
from cesaro.reproduce.mujoco.data import Stored, load, rate
from cesaro.suite.systems.pendulum import SMOOTH, TORQUES, Pendulums, exact_rate, starts

# The pendulum: its name among the environments, how many a log is from, the chance of a reset, and the grid of its exact rate.
PENDULUM = "pendulum"
PENDULUMS, RESET, GRID = 20, 1 / 200, (301, 51)
# The steps before a share e^{−10} of pendulums has had no reset are left out.
FORGOTTEN = 10.0
# A log holds of an action what its system did, or what its behavior asked for.
ACTIONS = EXECUTED, CHOSEN = ("executed", "chosen")
# Logs that stay in memory at a time; work goes through them in order.
KEPT = 4


class Subject(NamedTuple):
    """A log by name.

    Attributes:
        env: a MuJoCo environment, or `pendulum`.
        sigma: standard deviation of the noise that the behavior adds to the target's actions.
    """

    env: str
    sigma: float

    @property
    def label(self) -> str:
        return f"{self.env} {self.sigma!r}"

    @property
    def file(self) -> str:
        return f"{self.env.replace('/', '_')}_{self.sigma!r}"


@dataclass(frozen=True)
class Case:
    """A log with its target.

    Attributes:
        truth: the target's rate, which no fit sees, and its standard error; zero where it is exact.
        behavior: the mean logged reward and its standard error.
    """

    log: Transitions
    policy: Policy
    truth: tuple[float, float]
    behavior: tuple[float, float]


class Remembered(Policy):
    """A deterministic policy that answers equal blocks of observations from memory.

    Every fit on a log asks for the target's actions at the same next states, several times over, and a large actor takes longer
    to answer than all else in some fits. The recording holds its answers already.

    Args:
        policy: answers what is not known.
        log: the log whose next states are known.
        actions: the policy's actions there, `[rows, d]`.
    """

    deterministic = True

    def __init__(self, policy: Policy, log: Transitions, actions: NDArray[Any]) -> None:
        self.name, self.low, self.high = policy.name, policy.low, policy.high
        self._policy = policy
        self._answers: dict[bytes, NDArray[Any]] = {}
        first = 0
        for block in log.blocks():
            self._answers[_key(block.next_observations.plain())] = actions[first : first + len(block)]
            first += len(block)

    def sample(self, observations: Observations, rng: np.random.Generator) -> NDArray[Any]:
        known = self._answers.get(_key(observations))
        return self._policy.sample(observations, rng) if known is None else known.copy()


def _key(observations: Observations) -> bytes:
    table = np.ascontiguousarray(observations)
    return hashlib.blake2b(f"{table.shape} {table.dtype.str} ".encode() + table.tobytes(), digest_size=16).digest()


class Shelf:
    """Logs by name, each read once by whichever thread asks first."""

    def __init__(self, load: Callable[[Subject], Case]) -> None:
        self._load, self._lock = lru_cache(KEPT)(load), threading.Lock()

    def __call__(self, subject: Subject) -> Case:
        with self._lock:
            return self._load(subject)


def mujoco_case(stored_log: Stored, stored_truth: Stored, actor: Path, most: int, actions: str) -> Case:
    """A recorded log, at most `most` rows of it, with the actor behind it, whose bounds are the environment's."""
    arrays, truth = load(stored_log), rate(load(stored_truth))
    streams = np.repeat(np.arange(len(arrays["lengths"])), arrays["lengths"])
    rows = thinned(len(streams), most)
    names = ("observations", "actions", "rewards", "next_observations")
    target = policy(str(actor))
    bounds = (target.low, target.high) if actions == EXECUTED else None
    transitions = Transitions(*(arrays[name][rows] for name in names), trajectory=streams[rows], action_bounds=bounds)
    remembered = Remembered(target, transitions, arrays["target_actions"][rows])
    return Case(transitions, remembered, truth, rate(arrays))


def pendulum_case(noise: float, rows: int, seed: int, actions: str = EXECUTED) -> Case:
    """A log of the noisy controller, with its exact rate."""
    rng = np.random.default_rng([seed, round(1e6 * noise)])
    transitions = pendulum_log(noise, rows, rng, action_bounds=TORQUES if actions == EXECUTED else None)
    behavior = rate({"lengths": np.full(PENDULUMS, rows // PENDULUMS), "rewards": transitions.rewards})
    return Case(transitions, policy(SMOOTH), (_pendulum_rate(), 0.0), behavior)


@cache
def _pendulum_rate() -> float:
    return exact_rate(SMOOTH, RESET, GRID)


def pendulum_log(
    noise: float, rows: int, rng: np.random.Generator, *, action_bounds: tuple[float, float] | None = None
) -> Transitions:
    """A log of several pendulums under the noisy controller, one trajectory each, of equal lengths.

    Args:
        action_bounds: what logged actions are cut to; None: they hold the noise as it was drawn.
    """
    steps = [step for _, step in zip(range(rows // PENDULUMS), _simulated(noise, rng))]
    seen, actions, rewards, then = (np.stack(parts, axis=1) for parts in zip(*steps))
    return Transitions(
        seen.reshape(-1, 3),
        actions.ravel(),
        rewards.ravel(),
        then.reshape(-1, 3),
        trajectory=np.repeat(np.arange(PENDULUMS), rows // PENDULUMS),
        action_bounds=action_bounds,
    )


def _simulated(noise: float, rng: np.random.Generator) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Observations, actions, rewards and next observations without end, once the start of the pendulums is forgotten."""
    state, forgotten, time = starts(PENDULUMS, rng), math.ceil(FORGOTTEN / RESET), 0
    while True:
        seen = state.observe()
        actions = SMOOTH(seen) + noise * rng.standard_normal(PENDULUMS)
        following, rewards = state.step(actions)
        fresh, is_reset = starts(PENDULUMS, rng), rng.random(PENDULUMS) < RESET
        state = Pendulums(*(np.where(is_reset, new, old) for new, old in zip(fresh, following)))
        if time >= forgotten:
            yield seen, actions, rewards, state.observe()
        time += 1


def thinned(rows: int, wanted: int) -> NDArray[np.int64]:
    """Evenly spread row numbers."""
    return np.arange(min(rows, wanted)) * rows // min(rows, wanted)
