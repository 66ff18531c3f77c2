"""A process that was learned from a log: where it starts, what is seen, what a step does; and rollouts of policies in it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data.blocks import joined_values
from cesaro.data.values import Values
from cesaro.engines.local import check_wanted
from cesaro.errors import StartError
from cesaro.passes.standard_errors import MEDIAN, Estimate

Act = Callable[[Values, np.random.Generator], NDArray[Any]]

# Steps of the first stretch; later ones are twice as long each, until all steps together are so many.
FIRST, MOST_STEPS = 100, 6_400
# Particles of each member, half of them from where trajectories begin.
PARTICLES = 240
# Means may differ by so many standard errors: each comparison fails by chance once in 2,000 times.
AGREE = 3.5
# Means of a particle over two stretches are uncorrelated if it forgets its start.
REMEMBERED = 0.25
# The Monte-Carlo error that is small enough, as a part of the spread of members, or of the spread of rewards.
OF_SPREAD, OF_REWARDS = 0.25, 0.005
# The same for the log's own behavior, which is compared with what the log earned and is no answer.
OF_SPREAD_OF_CONTROL = 0.5
# Pictures of where the target is: so many pairs are kept.
SEEN = 20_000


class WorldStep(NamedTuple):
    """A step of all particles.

    Attributes:
        is_far: which of them had to be held back near the log.
        is_jump: which of them were reset, or ended.
    """

    state: Any
    rewards: Array
    is_far: NDArray[np.bool_]
    is_jump: NDArray[np.bool_]


class Process(Protocol):
    """Several members that are stepped together: particles of the first member, then those of the second, and so on.

    Attributes:
        rewards: of the log.
    """

    @property
    def members(self) -> int: ...

    @property
    def rewards(self) -> Array: ...

    def start(self, count: int, rng: np.random.Generator, *, logged: int) -> Any:
        """States of `count` particles per member: where trajectories begin, and the last `logged` of them anywhere in the log."""

    def observe(self, state: Any) -> Values:
        """The observations that a policy sees, in the form of the log."""

    def step(self, state: Any, actions: Any, rng: np.random.Generator) -> WorldStep:
        """Let every particle take its next step."""

    def state_of(self, observations: Values) -> Any:
        """Particles that see this: as many for every member, in the order of particles."""

    def coded(self, actions: Values) -> NDArray[Any]:
        """Logged actions as policies on a log give them."""

    def behave(self, observations: Values, rng: np.random.Generator) -> NDArray[Any]:
        """Actions as the log would have taken them."""


@dataclass
class Rollout:
    """Particles that follow a policy."""

    process: Process
    act: Act
    state: Any
    rng: np.random.Generator

    def step(self) -> tuple[Values, NDArray[Any], WorldStep]:
        """Observations, actions, and what they did."""
        check_wanted()
        seen = self.process.observe(self.state)
        actions = self.act(seen, self.rng)
        done = self.process.step(self.state, actions, self.rng)
        self.state = done.state
        return seen, actions, done


@dataclass(frozen=True)
class Rates:
    """The rates of a policy in a world, one for each member.

    Attributes:
        by_member: `[members]`.
        errors: of the simulation, `[members]`; zero where rates are exact.
        trace: rewards per step by member, over stretches of steps, `[members, stretches]`.
        far: the share of steps in which a rollout was held back near the log.
        jumps: the share of steps with a reset or an end, in the last stretch.
        steps: of each particle, in all.
        seen: observations and actions of the target in the last stretch, and which member they are of; None where rates are
            exact.
        burn_in: steps that rates leave out.
    """

    by_member: Array
    errors: Array
    trace: Array
    far: float
    jumps: float
    steps: int
    seen: tuple[Values, NDArray[Any], NDArray[np.int64]] | None = None
    burn_in: int = 0

    @property
    def rate(self) -> float:
        """The median over members."""
        return float(np.median(self.by_member))

    @property
    def spread(self) -> float:
        """The standard deviation over members."""
        return float(self.by_member.std(ddof=1)) if len(self.by_member) > 1 else 0.0

    @property
    def error(self) -> float:
        """The Monte-Carlo error of the rate."""
        return float(np.sqrt((self.errors**2).mean() / len(self.errors)))


def median_estimate(rates: Array, noise: float = 0.0, proven: float = 0.0) -> Estimate:
    """The median of what bootstrap members say, whose spread is the noise of the log; the median of few adds some of its own.

    Args:
        rates: of members, `[members]`.
        noise: the error of the simulation.
        proven: by how much they are all off at least.
    """
    count = len(rates)
    error = float(np.hypot(rates.std(ddof=1) * np.sqrt(1 + MEDIAN / count), noise))
    return Estimate(float(np.median(rates)), error, count - 1.0, proven, proven)


def simulated_rates(
    process: Process, act: Act, name: str, rng: np.random.Generator, of_spread: float = OF_SPREAD
) -> Rates:
    """Rates by rollouts, of the last and longest stretch and of those before it from the first on that had forgotten the start.

    Args:
        name: of the policy, for messages.
        of_spread: the error of the simulation that is small enough, as a part of the spread of members.

    Raises:
        StartError: the rate depends on the start.
    """
    half, members = PARTICLES // 2, process.members
    rollout = Rollout(process, act, process.start(2 * half, rng, logged=half), rng)
    member = np.repeat(np.arange(members), 2 * half)
    steps, total, far, trace = FIRST, 0, 0.0, []
    before, whole, length, was_settled = np.zeros((2, members, half)), np.zeros(len(member)), 0, False
    while True:
        kept: list[tuple[Values, NDArray[Any], NDArray[np.int64]]] = []
        earned, every = np.zeros(len(member)), max(1, steps // max(1, SEEN // len(member)))
        jumps = 0.0
        for step in range(steps):
            seen, actions, done = rollout.step()
            earned += done.rewards
            far += float(done.is_far.mean())
            jumps += float(done.is_jump.mean())
            trace.append(done.rewards.reshape(members, -1).mean(axis=1))
            if step % every == 0:
                kept.append((seen, actions, member))
        total += steps
        means = earned.reshape(members, 2, half).swapaxes(0, 1) / steps
        apart = _differ(means[0], means[1])
        moved = _differ(means.swapaxes(0, 1).reshape(members, -1), before.swapaxes(0, 1).reshape(members, -1))
        remembered = _remembered(means, before)
        settled = total > 3 * FIRST and max(apart, moved) <= AGREE and remembered <= REMEMBERED
        # A stretch that is settled, after another one that was, adds to it.
        whole, length = (whole + earned, length + steps) if settled and was_settled else (earned, steps)
        by_particle, was_settled = whole.reshape(members, -1) / length, settled
        by_member, errors = by_particle.mean(axis=1), by_particle.std(axis=1, ddof=1) / np.sqrt(2 * half)
        goal = max(of_spread * float(by_member.std()), OF_REWARDS * float(process.rewards.std()))
        if settled and (errors.mean() <= goal or total + 2 * steps > MOST_STEPS):
            break
        if total + 2 * steps > MOST_STEPS:
            if apart > AGREE or remembered > REMEMBERED:
                raise StartError(
                    f"The rate of policy {name!r} must not depend on the start. In the learned process it does: after "
                    f"{total:,} steps, starts of trajectories and other logged states differ by {apart:.1f} standard errors, and "
                    f"what a rollout earns in one stretch tells what it earns in the next (correlation {remembered:.2f}); look "
                    "for groups of states that never meet, and evaluate each on its own, or for a state that the columns do not "
                    "show.",
                    remembered,
                )
            break
        before, steps = means, 2 * steps
    rewards = np.stack(trace, axis=1)
    return Rates(by_member, errors, rewards, far / total, jumps / steps, total, _together(kept), total - length)


def _differ(one: Array, other: Array) -> float:
    """How far means over particles, `[members, particles]`, are apart: root mean square over members, in standard errors."""
    error = np.sqrt(one.var(axis=1, ddof=1) / one.shape[1] + other.var(axis=1, ddof=1) / other.shape[1])
    difference = one.mean(axis=1) - other.mean(axis=1)
    noise = np.maximum(error, 1e-9 * np.maximum(np.abs(one).max(), 1e-300))
    return float(np.sqrt(np.mean((difference / noise) ** 2)))


def _remembered(now: Array, before: Array) -> float:
    """The correlation over particles between means in two stretches, within members."""
    one, other = ((means - means.mean(axis=(0, 2), keepdims=True)).ravel() for means in (now, before))
    size = np.sqrt((one**2).sum() * (other**2).sum())
    return float(one @ other / size) if size > 0 else 0.0


def _together(steps: list[tuple[Values, NDArray[Any], NDArray[np.int64]]]) -> Any:
    observations = joined_values([seen for seen, _, _ in steps])
    return observations, *(np.concatenate(column) for column in zip(*(step[1:] for step in steps)))


def start_rows(
    members: int, count: int, rng: np.random.Generator, starts: NDArray[np.int64], rows: int, logged: int
) -> NDArray[np.int64]:
    """Rows of the log that particles begin from, `[members * count]`; the last `logged` of each member are any rows."""
    own = rng.choice(starts, size=(members, count - logged))
    return np.concatenate([own, rng.choice(rows, size=(members, logged))], axis=1).ravel()
