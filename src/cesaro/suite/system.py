"""A continuing system that can be simulated: its dynamics over many particles at once, behaviors that log it, and targets.

Whoever adds a system writes one file of `systems/`: a subclass of `Simulated`, or of `Discrete`, which has a table. All else,
from logs and truths to scores, follows from it.
"""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cesaro import exact
from cesaro.checks import Array
from cesaro.data import Transitions
from cesaro.errors import InputError
from cesaro.mdp import TabularMDP
from cesaro.policies import Finite, Policy

# `[n]` (labels, or one number) or `[n, d]`, or a dict of named columns `[n]`: what policies see and logs hold.
Observations: TypeAlias = NDArray[Any] | dict[str, NDArray[Any]]
# `[n]` or `[n, k]`: all that the next step depends on, seen or not.
State: TypeAlias = NDArray[Any]
Side: TypeAlias = Literal["development", "exam"]

# Parameters of exam systems are drawn from this, so that each release has an exam of its own.
RELEASE = "0.4.0"
# Draws of an exam system's parameters that were refused before any method saw them: two targets of dosing earned nearly the same,
# and a rate of the server farm was not accepted.
REFUSED_DRAWS = {("dosing", "0.4.0"): 1, ("server-farm", "0.4.0"): 1}
# How far a behavior is from the main target: 0 is the target itself.
SHIFTS: Mapping[str, float] = {"mild": 0.3, "medium": 0.6, "strong": 0.9}
# One policy; two of them by turns of trajectories; one that repeats its last action every other time; one changed at half time.
BEHAVIORS = ("one", "mixture", "sticky", "changed")
MIXINGS = ("usual", "slow")
# Of a mixture and of a change: the degrees of the two policies, as multiples of that of the shift, 1 at most.
LESS, MORE = 0.6, 1.2
# How often a sticky behavior repeats its last action.
STICKY = 0.5


class System(ABC):
    """A system with its behaviors and targets.

    Args:
        mixing: "usual", or "slow": the start is forgotten several times later.
        release: exam systems draw their parameters from it; the others are the same in every release.

    Attributes:
        name: lower-case words with hyphens.
        side: "development" or "exam"; settings and thresholds are never looked at on the second.
        kind: "discrete", "continuous", "robot".
        fault: why no method can be right here; empty where there is a right answer.
        targets: at least five by name, the main one first.
    """

    name: ClassVar[str]
    side: ClassVar[Side]
    kind: ClassVar[str]
    fault: ClassVar[str] = ""
    targets: dict[str, Policy]

    def __init__(self, mixing: str = "usual", release: str = RELEASE) -> None:
        if mixing not in MIXINGS:
            raise InputError(f"mixing must be one of {', '.join(MIXINGS)}. Got {mixing!r}.")
        self.mixing, self.release = mixing, release
        drawn_from = f"{self.name} {release if self.side == 'exam' else ''}"
        drawn_from += " again" * REFUSED_DRAWS.get((self.name, release), 0)
        self.draw(np.random.default_rng(zlib.crc32(drawn_from.encode())))

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> None:
        """Set the parameters and `targets`; what `rng` gives is the same at both mixings."""

    @property
    def main(self) -> str:
        """The name of the first target."""
        return next(iter(self.targets))

    def logs(
        self,
        count: int,
        rows: int,
        rng: np.random.Generator,
        *,
        shift: str = "medium",
        behavior: str = "one",
        trajectories: int = 20,
    ) -> list[Transitions]:
        """Independent logs of equal trajectories; each begins when its start is forgotten.

        Args:
            rows: of a log, a multiple of `trajectories`.
            shift: a name in `SHIFTS`.
            behavior: a name in `BEHAVIORS`.
        """
        if shift not in SHIFTS:
            raise InputError(f"shift must be one of {', '.join(SHIFTS)}. Got {shift!r}.")
        if behavior not in BEHAVIORS:
            raise InputError(f"behavior must be one of {', '.join(BEHAVIORS)}. Got {behavior!r}.")
        steps, rest = divmod(rows, trajectories)
        if rest or steps < 2:
            raise InputError(f"rows must be a multiple of {trajectories} trajectories, two rows each. Got {rows}.")
        return self._logs(count, trajectories, steps, shift, behavior, rng)

    @abstractmethod
    def _logs(
        self, count: int, trajectories: int, steps: int, shift: str, behavior: str, rng: np.random.Generator
    ) -> list[Transitions]:
        """Logs of so many trajectories of so many steps each."""


class Simulated(System):
    """A system whose dynamics are here, over many particles at once.

    Attributes:
        warm: steps after which a start is forgotten, set by `draw`.
    """

    warm: int = 300

    @abstractmethod
    def start(self, count: int, rng: np.random.Generator) -> State:
        """Reset states."""

    @abstractmethod
    def observe(self, state: State) -> Observations:
        """The observations of a state: what a log holds of it, and all that policies see."""

    @abstractmethod
    def step(self, state: State, actions: NDArray[Any], rng: np.random.Generator) -> tuple[State, Array]:
        """The next states and the rewards `[n]`."""

    @abstractmethod
    def behavior(self, degree: float) -> Policy:
        """The policy that logs at a shift: the main target at 0, as far from it as logs should be at 1."""

    def exact(self, policy: Policy, stickiness: float = 0.0) -> float | None:
        """The rate of a policy in closed form, which repeats its last action so often; None: there is none."""
        return None

    def _logs(
        self, count: int, trajectories: int, steps: int, shift: str, behavior: str, rng: np.random.Generator
    ) -> list[Transitions]:
        acting = acting_by(self, shift, behavior, trajectories, steps)
        path = list(walk(self, acting, count * trajectories, steps, rng, warm=self.warm))
        last = _columns(path[-1].following)
        seen = {
            name: np.stack([*(_columns(step.observations)[name] for step in path), column])
            for name, column in last.items()
        }
        actions, rewards = (np.stack([getattr(step, part) for step in path]) for part in ("actions", "rewards"))
        ids = np.repeat(np.arange(trajectories), steps)

        def flat(array: NDArray[Any], log: int) -> NDArray[Any]:
            own = array[:, log * trajectories : (log + 1) * trajectories].swapaxes(0, 1)
            return own.reshape(-1, *own.shape[2:])

        def observations(log: int, offset: int) -> Observations:
            columns = {name: flat(column[offset : offset + steps], log) for name, column in seen.items()}
            return columns if isinstance(path[-1].following, dict) else columns[""]

        return [
            Transitions(
                observations(log, 0), flat(actions, log), flat(rewards, log), observations(log, 1), trajectory=ids
            )
            for log in range(count)
        ]


class Step(NamedTuple):
    """One step of all particles."""

    observations: Observations
    actions: NDArray[Any]
    rewards: Array
    following: Observations


@dataclass(frozen=True)
class Acting:
    """The policies of the particles: particle k has policy `k mod len(policies)`; at `change_at` each goes on to the next one.

    Attributes:
        stickiness: how often the last action is repeated instead.
    """

    policies: tuple[Policy, ...]
    stickiness: float = 0.0
    change_at: int | None = None

    def __call__(
        self, time: int, observations: Observations, before: NDArray[Any] | None, rng: np.random.Generator
    ) -> NDArray[Any]:
        policies = self.policies
        if self.change_at is not None:
            policies = policies[1:] if time >= self.change_at else policies[:1]
        if len(policies) == 1:
            actions = policies[0].sample(observations, rng)
        else:
            parts = [policy.sample(_every(observations, k, len(policies)), rng) for k, policy in enumerate(policies)]
            count = sum(map(len, parts))
            actions = np.empty((count, *parts[0].shape[1:]), dtype=np.result_type(*parts))
            for k, part in enumerate(parts):
                actions[k :: len(policies)] = part
        if before is not None and self.stickiness:
            stays = rng.random(len(actions)) < self.stickiness
            actions = np.where(stays.reshape(-1, *(1,) * (actions.ndim - 1)), before, actions)
        return actions


def acting_by(system: Simulated, shift: str, behavior: str, trajectories: int, steps: int) -> Acting:
    """The behavior of a name, for logs of so many trajectories and steps each."""
    if behavior in ("mixture", "changed"):
        if behavior == "mixture" and trajectories % 2:
            raise InputError(f"trajectories must be even for a mixture. Got {trajectories}.")
        both = tuple(system.behavior(degree) for degree in parts_of(SHIFTS[shift]))
        return Acting(both, change_at=steps // 2 if behavior == "changed" else None)
    return Acting((system.behavior(SHIFTS[shift]),), stickiness=STICKY if behavior == "sticky" else 0.0)


def parts_of(degree: float) -> tuple[float, float]:
    """The degrees of the two policies of a mixture or a change."""
    return round(LESS * degree, 4), round(min(1.0, MORE * degree), 4)


class Particles:
    """Many copies of a system under way, which go on where they stopped.

    Attributes:
        state: where they are.
    """

    def __init__(self, system: Simulated, acting: Acting, state: State, rng: np.random.Generator) -> None:
        self.state = state
        self._system, self._acting, self._rng = system, acting, rng
        self._seen = system.observe(state)
        self._actions: NDArray[Any] | None = None

    def go(self, steps: int, first: int = 0) -> Iterator[Step]:
        """The next steps; `first` is the time of the first one."""
        for time in range(first, first + steps):
            self._actions = self._acting(time, self._seen, self._actions, self._rng)
            self.state, rewards = self._system.step(self.state, self._actions, self._rng)
            seen, self._seen = self._seen, self._system.observe(self.state)
            yield Step(seen, self._actions, rewards, self._seen)

    def earned(self, steps: int, first: int = 0) -> Array:
        """The sum of each particle's rewards over the next steps."""
        total = np.zeros(len(self.state))
        for step in self.go(steps, first):
            total += step.rewards
        return total


def walk(
    system: Simulated,
    acting: Acting,
    count: int,
    steps: int,
    rng: np.random.Generator,
    *,
    warm: int = 0,
    state: State | None = None,
) -> Iterator[Step]:
    """Steps of many particles, after `warm` ones that are not shown."""
    particles = Particles(system, acting, system.start(count, rng) if state is None else state, rng)
    particles.earned(warm, -warm)
    return particles.go(steps)


def _columns(observations: Observations) -> dict[str, NDArray[Any]]:
    return observations if isinstance(observations, dict) else {"": observations}


def _every(observations: Observations, first: int, stride: int) -> Observations:
    if isinstance(observations, dict):
        return {name: column[first::stride] for name, column in observations.items()}
    return observations[first::stride]


class Discrete(Simulated):
    """A system with a table: states are labels `0 … S − 1`, actions `0 … A − 1`.

    Attributes:
        mdp: what happens, set by `draw`.
        far: probabilities `[S, A]` of what behaviors do at degree 1, beside exploring; set by `draw`.
        explored: how often behaviors of degree 1 take any action at random; at smaller degrees in proportion.
        noise: standard deviation of rewards around their means.
    """

    kind = "discrete"
    mdp: TabularMDP
    far: Array
    explored: float = 0.3
    noise: float = 0.0

    def start(self, count: int, rng: np.random.Generator) -> State:
        return rng.integers(self.mdp.num_states, size=count)

    def observe(self, state: State) -> Observations:
        return state

    def step(self, state: State, actions: NDArray[Any], rng: np.random.Generator) -> tuple[State, Array]:
        pairs = state * self.mdp.num_actions + actions
        rewards = self.mdp.rewards.ravel()[pairs]
        if self.noise:
            rewards = rewards + self.noise * rng.normal(size=len(rewards))
        return self._moves(pairs, rng), rewards

    def _moves(self, pairs: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
        """Next states by Walker's aliases: one uniform number and two look-ups per particle."""
        kept, alias = self._walker
        place = rng.random(len(pairs)) * self.mdp.num_states
        cell = place.astype(np.int64)
        return np.where(place - cell < kept[pairs, cell], cell, alias[pairs, cell])

    @cached_property
    def _walker(self) -> tuple[Array, NDArray[np.int64]]:
        return aliases(np.asarray(self.mdp.probabilities).reshape(-1, self.mdp.num_states))

    def behavior(self, degree: float) -> Policy:
        near, explored = (1 - degree) ** 2, self.explored * degree
        between = near * self.table(self.targets[self.main]) + (1 - near) * self.far
        return self.tabular((1 - explored) * between + explored / self.mdp.num_actions, f"behavior {degree:g}")

    def exact(self, policy: Policy, stickiness: float = 0.0) -> float | None:
        table = self.table(policy)
        if not stickiness:
            return exact.reward_rate(self.mdp, table)
        return exact.reward_rate(*sticky(self.mdp, table, stickiness))

    def table(self, policy: Policy) -> Array:
        """The probabilities of a policy, `[S, A]`."""
        return policy.probabilities(np.arange(self.mdp.num_states))

    def tabular(self, table: Array, name: str) -> Policy:
        """A policy with these probabilities, `[S, A]`."""
        return Finite(range(self.mdp.num_actions), TableRule(table), name=name)


@dataclass(frozen=True)
class TableRule:
    """A table of probabilities as a function of states, which can be sent to other processes."""

    table: Array

    def __call__(self, states: Any) -> Array:
        return self.table[np.asarray(states)]


def aliases(table: Array) -> tuple[Array, NDArray[np.int64]]:
    """Walker's table of each row of probabilities: a cell is kept with one probability, else its alias is taken."""
    count = table.shape[1]
    kept, alias = table * count, np.tile(np.arange(count), (len(table), 1))
    for row in range(len(table)):
        small, large = list(np.flatnonzero(kept[row] < 1)), list(np.flatnonzero(kept[row] >= 1))
        while small and large:
            low, high = small.pop(), large[-1]
            alias[row, low] = high
            kept[row, high] -= 1 - kept[row, low]
            if kept[row, high] < 1:
                small.append(large.pop())
    return kept, alias


def slowed(mdp: TabularMDP, pace: float) -> TabularMDP:
    """The process that moves in this share of all steps, at random, and stays and earns the same again in the others."""
    probabilities = pace * np.asarray(mdp.probabilities) + (1 - pace) * np.eye(mdp.num_states)[:, None]
    return TabularMDP(probabilities, mdp.rewards)


def chosen(actions: NDArray[np.integer], count: int) -> Array:
    """The table `[S, count]` of a policy that takes one action in each state."""
    return np.asarray(np.eye(count)[actions])


def second(probability: Array) -> Array:
    """The table `[S, 2]` of a policy that takes the second of two actions with these probabilities `[S]`."""
    return np.column_stack([1 - probability, probability])


def sticky(mdp: TabularMDP, table: Array, stickiness: float) -> tuple[TabularMDP, Array]:
    """The process whose state has the last action in it, `s A + a`, and the policy that repeats it so often."""
    states, actions = table.shape
    probabilities = np.zeros((states, actions, actions, states, actions))
    moves = np.asarray(mdp.probabilities)
    for action in range(actions):
        probabilities[:, :, action, :, action] = moves[:, None, action]
    rewards = np.repeat(mdp.rewards[:, None], actions, axis=1)
    acting = (1 - stickiness) * table[:, None] + stickiness * np.eye(actions)
    size = states * actions
    return TabularMDP(probabilities.reshape(size, actions, size), rewards.reshape(size, actions)), acting.reshape(
        size, actions
    )
