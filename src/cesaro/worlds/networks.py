"""The world of a log with numbers: networks say what comes next and what it earns, and held-out rows say how far off that is.

A step: numbers move by what the member expects, plus the residual of a logged row whose state and action are alike; labels are
drawn from the member's probabilities; columns that advance by themselves do so. A jump (a reset, an end) is an event of its own
with a probability of its own, and leads to where a logged jump led.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data.blocks import Block
from cesaro.data.values import Values
from cesaro.worlds import ensemble
from cesaro.worlds.ensemble import Bags, Ensemble, bags, blocks_of
from cesaro.worlds.process import WorldStep, start_rows
from cesaro.worlds.space import Codes, Columns, Space, SplitState, joined, one_hot
from cesaro.worlds.training import TOGETHER, Float32, Kept, Rows, Training, outputs_of_one, trained

# A step is a jump if it leaves what others do by more than so many robust deviations; at most so many steps are jumps.
JUMP, MOST_JUMPS, LEAST_JUMPS = 12.0, 0.25, 10
# It leads to a start if its mean square distance from starts is at most so many times theirs, of which it takes so many.
LIKE_STARTS, LEAST_STARTS = 4.0, 10
# The share of jumps that come at any time is one of so many.
TRIED_SHARES = 11
# Steps of the glance that finds jumps.
GLANCE = 1_000
# Groups of rows that a bootstrap needs.
LEAST_GROUPS = 10


@dataclass(frozen=True)
class Actions:
    """The actions of a log: labels, or numbers that are standardized."""

    columns: Columns
    mean: Array
    scale: Array
    low: Array
    high: Array

    @staticmethod
    def of(values: Values) -> "Actions":
        columns = Columns.of(values)
        numbers = columns.split(values).numbers
        low, high = (numbers.min(axis=0), numbers.max(axis=0)) if numbers.shape[1] else (np.zeros(0), np.zeros(0))
        return Actions(columns, numbers.mean(axis=0), np.where(low < high, numbers.std(axis=0), 1.0), low, high)

    def inputs(self, actions: NDArray[Any]) -> Array:
        """Codes `[n]` or numbers `[n, d]`, as policies on a log give them; numbers beyond the log count as its edge."""
        levels = self.columns.levels
        if levels:
            return one_hot(actions, len(levels[0]))
        return np.asarray((np.clip(self._wide(actions), self.low, self.high) - self.mean) / self.scale)

    def beyond(self, actions: NDArray[Any]) -> NDArray[np.bool_]:
        """Which actions the log does not reach, `[n]`."""
        if self.columns.levels:
            return np.zeros(len(actions), np.bool_)
        wide, slack = self._wide(actions), 0.01 * (self.high - self.low)
        return np.asarray(((wide < self.low - slack) | (wide > self.high + slack)).any(axis=1))

    def _wide(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Numbers `[n, d]`, column by column in memory."""
        return np.asfortranarray(actions.reshape(len(actions), -1))

    def of_values(self, values: Values) -> NDArray[Any]:
        """The log's own actions in that form."""
        state = self.columns.split(values)
        return state.codes[:, 0] if self.columns.levels else state.numbers


@dataclass(frozen=True)
class NetworkWorld:
    """A fitted world.

    Attributes:
        now, taken, following, rewards, weights: the rows of the log; jumps lead to next states of theirs.
        follows: whether a row goes on from the one before.
        shift, scale: of changes and rewards, which networks see standardized.
        is_jump: which rows are jumps.
        chances: of a jump in any state, as a time limit gives, by member, `[members]`.
        untold: the part of jumps that come so; of the others networks tell when.
        starts: rows with which trajectories begin.
        groups: of rows, over which the bootstrap went.
    """

    space: Space
    actions: Actions
    model: Ensemble
    clone: Ensemble
    now: SplitState
    taken: NDArray[Any]
    following: SplitState
    rewards: Array
    weights: Array
    follows: NDArray[np.bool_]
    shift: Array
    scale: Array
    is_jump: NDArray[np.bool_]
    chances: Array
    untold: float
    starts: Codes
    groups: Codes
    bag: Bags

    @property
    def members(self) -> int:
        return self.model.members

    @cached_property
    def jump_rows(self) -> Codes:
        """The rows that are jumps."""
        return np.flatnonzero(self.is_jump)

    def inputs(self, state: SplitState, actions: NDArray[Any]) -> Float32:
        """The inputs of networks, `[n, d]`."""
        return joined([*self.space.inputs(state), self.actions.inputs(actions)])

    def start(self, count: int, rng: np.random.Generator, *, logged: int) -> SplitState:
        return self.now.take(start_rows(self.members, count, rng, self.starts, len(self.rewards), logged))

    def state_of(self, observations: Values) -> SplitState:
        return self.space.columns.split(observations)

    def coded(self, actions: Values) -> NDArray[Any]:
        return self.actions.of_values(actions)

    def observe(self, state: SplitState) -> Values:
        return self.space.columns.join(state)

    def step(self, state: SplitState, actions: NDArray[Any], rng: np.random.Generator) -> WorldStep:
        inputs = self.inputs(state, actions)
        outputs = self.model.outputs(inputs.reshape(self.members, -1, inputs.shape[1])).reshape(len(inputs), -1)
        member = np.repeat(np.arange(self.members), len(inputs) // self.members)
        done = self.drawn(state, inputs, outputs, member, rng)
        return done._replace(is_far=done.is_far | self.actions.beyond(actions))

    def drawn(
        self, state: SplitState, inputs: Float32, outputs: Float32, member: Codes, rng: np.random.Generator
    ) -> WorldStep:
        """A draw from what each member says, `outputs [n, out]`."""
        model, space = self.model, self.space
        near = model.near(inputs, member, rng.random(len(inputs)))
        numbers = model.numbers(outputs, near, self.scale, self.shift)
        labels = model.labels(outputs, rng, len(space.free_labels))
        following = state.numbers.copy(order="F")
        following.T[space.free] += numbers.T[:-1]
        for column, one in space.advances.items():
            following[:, column] = one.next(state.numbers[:, column])
        following, is_far = space.bounded(following)
        codes = state.codes.copy()
        codes[:, space.free_labels] = labels
        for column, one in space.label_advances.items():
            codes[:, column] = one.next(state.codes[:, column].astype(np.float64)).astype(np.int64)
        is_jump = np.zeros(len(inputs), np.bool_)
        if len(self.jump_rows):
            told = _jump_chances(outputs)
            jumped = np.flatnonzero(rng.random(len(inputs)) < told + self.untold * (self.chances[member] - told))
            is_jump[jumped] = True
            to = rng.choice(self.jump_rows, size=len(jumped))
            following[jumped], codes[jumped] = self.following.numbers[to], self.following.codes[to]
            is_far[jumped] = False
        return WorldStep(SplitState(following, codes), numbers[:, -1], is_far, is_jump)

    def behave(self, observations: Values, rng: np.random.Generator) -> NDArray[Any]:
        """Actions as the log would have taken them, drawn from its likeness."""
        inputs = joined(self.space.inputs(self.space.columns.split(observations)))
        outputs = self.clone.outputs(inputs[None])[0]
        if self.actions.columns.levels:
            return self.clone.labels(outputs, rng, 1)[:, 0]
        near = self.clone.near(inputs, np.zeros(len(inputs), np.int64), rng.random(len(inputs)))
        numbers = self.clone.numbers(outputs, near, self.actions.scale, self.actions.mean)
        return np.ascontiguousarray(np.clip(numbers, self.actions.low, self.actions.high))


def fit_networks(
    rows: Block,
    begins: Codes,
    *,
    members: int,
    training: Training,
    kept: Kept,
) -> NetworkWorld:
    """Learn a world from rows of a log, with some of which trajectories begin; `kept` has the progress of its trainings."""
    columns = Columns.of(rows.observations)
    now, following = columns.split(rows.observations), columns.split(rows.next_observations)
    space, actions = Space.of(columns, now, following), Actions.of(rows.actions)
    states = space.inputs(now)
    taken = actions.of_values(rows.actions)
    inputs = joined([*states, actions.inputs(taken)])
    groups = blocks_of(rows.trajectory, len(rows), LEAST_GROUPS)
    bag = bags(groups, members, np.random.default_rng([training.seed, 11]))
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights / rows.weights.mean()
    changes = np.concatenate([(following.numbers - now.numbers)[:, space.free], rows.rewards[:, None]], axis=1)
    labels = following.codes[:, space.free_labels]
    sizes = [len(space.columns.levels[j]) for j in space.free_labels]
    is_restart = _restarts(rows)
    starts = _starts(rows, begins, is_restart)
    is_jump = _jumps(inputs, changes, labels, tuple(sizes), weights, bag, training, kept)
    back = is_jump & _like_starts(space, now.numbers[starts], following.numbers)
    if back.sum() >= LEAST_JUMPS:  # others are large noise, such as a robot's contacts
        is_jump = back
    is_jump |= ~_regular(space, now, following) | is_restart
    if not is_restart.any() and not (
        LEAST_JUMPS <= is_jump.sum() <= MOST_JUMPS * len(rows) and _lead_somewhere(space, now, following, is_jump)
    ):
        is_jump = np.zeros(len(rows), np.bool_)
    shift, scale = _standard(changes, ~is_jump)
    known = np.ones(changes.shape, np.bool_)
    if is_jump.any():
        known[is_jump, :-1] = False
        labels, sizes = np.concatenate([labels, is_jump[:, None]], axis=1), [*sizes, 2]
    numbers = np.where(known, (changes - shift) / np.where(scale > 0, scale, 1.0), 0.0).astype(np.float32)
    learned = Rows(inputs, numbers, labels.astype(np.int64), known, weights.astype(np.float32))
    model = ensemble.fit(learned, tuple(sizes), bag, training=training, kept=kept)
    clone = _clone(taken, actions, joined(states), bag, weights, training, kept)
    chances = np.array([np.average(is_jump, weights=times * weights) for times in bag.times])
    return NetworkWorld(
        space=space,
        actions=actions,
        model=model,
        clone=clone,
        now=now,
        taken=taken,
        following=following,
        rewards=rows.rewards,
        weights=weights,
        follows=rows.follows,
        shift=shift,
        scale=scale,
        is_jump=is_jump,
        chances=chances,
        untold=_untold(model, learned, is_jump, chances, bag) if is_jump.any() else 1.0,
        starts=starts,
        groups=groups,
        bag=bag,
    )


def _standard(changes: Array, rows: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Means and deviations of the changes that are no jumps; of rewards over all rows. What never varies has none."""
    shift, scale = changes[rows].mean(axis=0), changes[rows].std(axis=0)
    shift[-1], scale[-1] = changes[:, -1].mean(), changes[:, -1].std()
    return shift, scale


def _restarts(rows: Block) -> NDArray[np.bool_]:
    """Rows with which an episode ended: what comes next is how the next one begins."""
    found = np.zeros(len(rows), np.bool_)
    if len(rows) > 1:
        first, later = rows.observations.take(slice(1, None)), rows.next_observations.take(slice(0, -1))
        found[:-1] = ~rows.follows[1:] & first.equals(later)
    return found


def _starts(rows: Block, begins: Codes, is_restart: NDArray[np.bool_]) -> Codes:
    """Rows with which trajectories or episodes begin; where trajectories are known, what comes after a gap is no start."""
    if rows.trajectory is not None and len(begins):
        is_new = np.diff(rows.trajectory, prepend=rows.trajectory[0] - 1) != 0
        is_new[1:] |= is_restart[:-1]
        begins = begins[is_new[begins]]
    return begins if len(begins) else np.arange(1)


def _like_starts(space: Space, starts: Array, following: Array) -> NDArray[np.bool_]:
    """Which states are as near to the starts as these are to each other, `[n]`; all of them if starts are few."""
    if len(starts) < LEAST_STARTS or not len(space.free):
        return np.ones(len(following), np.bool_)
    scale = np.maximum(starts.std(axis=0, ddof=1), 1e-3 * space.scale)[space.free]
    apart = ((following - starts.mean(axis=0))[:, space.free] / scale) ** 2
    return np.asarray(apart.mean(axis=1) <= LIKE_STARTS)


def _regular(space: Space, now: SplitState, following: SplitState) -> NDArray[np.bool_]:
    """Rows in which columns that advance by themselves do so."""
    regular = np.ones(len(now.numbers), np.bool_)
    for column, one in space.advances.items():
        regular &= one.next(now.numbers[:, column]) == following.numbers[:, column]
    for column, one in space.label_advances.items():
        regular &= one.next(now.codes[:, column].astype(np.float64)) == following.codes[:, column]
    return regular


def _jumps(
    inputs: Float32,
    changes: Array,
    labels: Codes,
    sizes: tuple[int, ...],
    weights: Array,
    bag: Bags,
    training: Training,
    kept: Kept,
) -> NDArray[np.bool_]:
    """Rows that do what no other row does: found by a glance of a network that large errors do not move.

    It is one of as many as a program trains together on a CPU, so that those that are trained next need no other program there;
    rewards tell nothing here.
    """
    middle = np.median(changes, axis=0)
    around = changes - middle
    spread = np.maximum(1.4826 * np.median(np.abs(around), axis=0), 1e-3 * np.maximum(changes.std(axis=0), 1e-12))
    numbers = np.clip(around / spread, -10.0, 10.0).astype(np.float32)
    if numbers.shape[1] == 1:
        return np.zeros(len(numbers), np.bool_)
    rows = Rows(inputs, numbers, labels.astype(np.int64), np.ones(numbers.shape, np.bool_), weights.astype(np.float32))
    glance, _, _ = trained(rows, sizes, bag.own[:TOGETHER], bag.held_out[:TOGETHER], training, kept, GLANCE)
    told = outputs_of_one(glance, 0, inputs)
    errors = (around / spread)[:, :-1] - told[:, : numbers.shape[1] - 1]
    usual = np.maximum(1.4826 * np.median(np.abs(errors), axis=0), 0.05)
    return np.asarray((np.abs(errors) > JUMP * usual).any(axis=1))


def _jump_chances(outputs: Float32) -> Array:
    """The probability of a jump, by networks whose last label is whether a step is one, `[n, out]` to `[n]`."""
    return np.asarray(1 / (1 + np.exp(np.clip(outputs[:, -2] - outputs[:, -1], -50, 50))))


def _untold(model: Ensemble, rows: Rows, is_jump: NDArray[np.bool_], chances: Array, bag: Bags) -> float:
    """The share of jumps that come in any state: what makes those of held-out rows most likely.

    Without it, networks whose few jumps came elsewhere would leave a robot on its back for ever.
    """
    shares, loss = np.linspace(0, 1, TRIED_SHARES), np.zeros(TRIED_SHARES)
    for member, chance in enumerate(chances):
        held = np.flatnonzero(bag.is_held_out[member])
        told = _jump_chances(outputs_of_one(model.networks, member, rows.inputs[held]).astype(np.float64))
        for place, share in enumerate(shares):
            mixed = np.clip(told + share * (chance - told), 1e-12, 1 - 1e-12)
            loss[place] -= np.log(np.where(is_jump[held], mixed, 1 - mixed)).mean()
    return float(shares[loss.argmin()])


def _lead_somewhere(space: Space, now: SplitState, following: SplitState, is_jump: NDArray[np.bool_]) -> bool:
    """Whether jumps are told by where they lead, as resets are, and not by how far they go, as large noise is."""
    to, by = following.numbers[is_jump], (following.numbers - now.numbers)[is_jump]
    far = (to.var(axis=0) / space.scale**2)[space.free].sum(), (by.var(axis=0) / space.scale**2)[space.free].sum()
    return bool(far[0] <= far[1])


def _clone(
    taken: NDArray[Any], actions: Actions, states: Float32, bag: Bags, weights: Array, training: Training, kept: Kept
) -> Ensemble:
    """A likeness of the log's own behavior: one network."""
    levels = actions.columns.levels
    if levels:
        numbers, labels, sizes = np.zeros((len(taken), 0)), taken[:, None], (len(levels[0]),)
    else:
        numbers = (taken - actions.mean) / actions.scale
        labels, sizes = np.zeros((len(taken), 0), np.int64), ()  # type: ignore[assignment] # of no labels
    learned = Rows(
        states, numbers.astype(np.float32), labels, np.ones(numbers.shape, np.bool_), weights.astype(np.float32)
    )
    return ensemble.fit(learned, sizes, bag.first(), training=training, kept=kept)
