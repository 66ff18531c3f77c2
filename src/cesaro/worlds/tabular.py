"""The world of a discrete log: the empirical MDP, whose members are draws from what its counts leave open."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order

from cesaro import exact
from cesaro.checks import Array
from cesaro.data.blocks import Block
from cesaro.data.log import state_codes, state_numbers, state_sizes
from cesaro.data.values import Categories, Values
from cesaro.errors import InputError
from cesaro.mdp import TabularMDP
from cesaro.policies.labels import native, show
from cesaro.worlds.process import Rates, WorldStep, start_rows
from cesaro.worlds.space import Codes

# Rows that are added to each pair of state and action before a posterior is drawn, spread like all rows of the state.
PRIOR = 1.0
# Pairs without data that a message names.
NAMED = 4


class MemberStates(NamedTuple):
    """Particles of all members: which member, and which state, each `[n]`."""

    member: Codes
    state: Codes


@dataclass(frozen=True)
class TabularWorld:
    """Counts of a discrete log.

    Attributes:
        like: one row of observations, for their form.
        numbers: of the states, sorted, `[S]`.
        levels: labels of actions, `[A]`.
        pairs: each row's pair, `state · A + action`, `[n]`.
        following: each row's next state, `[n]`.
        rewards: `[n]`.
        members: draws from the posterior.
    """

    like: Values
    numbers: Codes
    levels: NDArray[Any]
    pairs: Codes
    following: Codes
    rewards: Array
    weights: Array
    starts: Codes
    members: int
    seed: int

    @property
    def shape(self) -> tuple[int, int]:
        """States and actions."""
        return len(self.numbers), len(self.levels)

    @cached_property
    def counts(self) -> sp.csr_array:
        """How often each pair led to each state, `[S · A, S]`."""
        states, actions = self.shape
        entries = (self.weights, (self.pairs, self.following))
        return sp.csr_array(sp.coo_array(entries, shape=(states * actions, states)))

    @cached_property
    def logged(self) -> NDArray[np.bool_]:
        """Which pairs the log has, `[S · A]`."""
        return np.asarray(np.bincount(self.pairs, minlength=self.shape[0] * self.shape[1]) > 0)

    @cached_property
    def drawn(self) -> list[tuple[sp.csr_array, Array]]:
        """A draw for each member: `p(s' | s, a)` as `[S · A, S]`, zero where there are no data, and mean rewards `[S · A]`."""
        states, actions = self.shape
        rng = np.random.default_rng([self.seed, 12])
        of_state = sp.csr_array(sp.kron(sp.eye_array(states), np.ones((1, actions)))) @ self.counts
        shares = sp.diags_array(1 / np.maximum(of_state.sum(axis=1), 1e-300)) @ of_state
        prior = PRIOR * sp.csr_array(sp.kron(shares, np.ones((actions, 1))))
        alpha = sp.csr_array(sp.diags_array(self.logged.astype(np.float64)) @ (self.counts + prior))
        alpha.sort_indices()
        rows = np.repeat(np.arange(alpha.shape[0]), np.diff(alpha.indptr))
        count, mean = self._weight, self._mean
        around = np.bincount(self.pairs, self.weights * (self.rewards - mean[self.pairs]) ** 2, len(self.logged))
        pooled = around.sum() / max(1.0, count.sum() - np.count_nonzero(count))
        error = np.sqrt((around + PRIOR * pooled) / np.maximum(count + PRIOR, 1.0) / np.maximum(count, 1.0))
        found = []
        for _ in range(self.members):
            gamma = np.maximum(rng.standard_gamma(alpha.data), 1e-300)
            data = gamma / np.bincount(rows, gamma, alpha.shape[0])[rows]
            chances = sp.csr_array((data, alpha.indices, alpha.indptr), shape=alpha.shape)
            found.append((chances, mean + error * rng.normal(size=len(mean))))
        return found

    def states(self, numbers: Codes) -> Values:
        """States by their place, as the log has observations."""
        codes = state_codes(self.numbers[numbers], state_sizes(self.like))
        columns = [column for column in self.like.columns if isinstance(column, Categories)]
        return Values(
            self.like.form,
            self.like.names,
            tuple(Categories(code, column.levels) for code, column in zip(codes, columns)),
        )

    def start(self, count: int, rng: np.random.Generator, *, logged: int) -> MemberStates:
        rows = start_rows(self.members, count, rng, self.starts, len(self.pairs), logged)
        return MemberStates(np.repeat(np.arange(self.members), count), self.pairs[rows] // self.shape[1])

    def state_of(self, observations: Values) -> MemberStates:
        place = np.minimum(np.searchsorted(self.numbers, state_numbers(observations)), len(self.numbers) - 1)
        return MemberStates(np.repeat(np.arange(self.members), len(place) // self.members), place)

    def coded(self, actions: Values) -> Codes:
        column = actions.columns[0]
        assert isinstance(column, Categories)
        return column.codes

    def observe(self, state: MemberStates) -> Values:
        return self.states(state.state)

    def step(self, state: MemberStates, actions: NDArray[Any], rng: np.random.Generator) -> WorldStep:
        pairs = state.state * self.shape[1] + actions
        self._check(pairs, "simulation")
        following, rewards = np.empty(len(pairs), np.int64), np.empty(len(pairs))
        for member, ((chances, mean), sums) in enumerate(zip(self.drawn, self._sums)):
            own = np.flatnonzero(state.member == member)
            before, end = sums[chances.indptr[pairs[own]]], sums[chances.indptr[pairs[own] + 1]]
            place = np.searchsorted(sums[1:], before + rng.random(len(own)) * (end - before), side="right")
            following[own] = chances.indices[np.minimum(place, chances.indptr[pairs[own] + 1] - 1)]
            rewards[own] = mean[pairs[own]]
        order, sums, first = self._rows_of_pairs
        low, high = sums[first[pairs]], sums[first[pairs + 1]]
        place = np.searchsorted(sums[1:], low + rng.random(len(pairs)) * (high - low), side="right")
        row = order[np.clip(place, first[pairs], first[pairs + 1] - 1)]
        rewards += self.rewards[row] - self._mean[pairs]
        never = np.zeros(len(pairs), np.bool_)
        return WorldStep(MemberStates(state.member, following), rewards, never, never)

    @cached_property
    def _rows_of_pairs(self) -> tuple[Codes, Array, Codes]:
        """Rows by pair, their weights added up from zero on, and where each pair begins, `[S · A + 1]`."""
        order = np.argsort(self.pairs, kind="stable")
        count = np.bincount(self.pairs, minlength=len(self.logged))
        return order, np.append(0.0, np.cumsum(self.weights[order])), np.append(0, np.cumsum(count))

    @cached_property
    def _weight(self) -> Array:
        """The weight of all rows of each pair, `[S · A]`."""
        return np.asarray(np.bincount(self.pairs, self.weights, len(self.logged)))

    @cached_property
    def _mean(self) -> Array:
        """The mean reward of each pair, `[S · A]`."""
        earned = np.bincount(self.pairs, self.weights * self.rewards, len(self.logged))
        return np.asarray(earned / np.maximum(self._weight, 1e-300))

    @cached_property
    def _sums(self) -> list[Array]:
        """The probabilities of each member added up, from zero on."""
        return [np.concatenate([[0.0], np.cumsum(chances.data)]) for chances, _ in self.drawn]

    def _check(self, pairs: Codes, where: str) -> None:
        missing = np.unique(pairs[~self.logged[pairs]])
        if len(missing):
            state, action = np.divmod(missing[:NAMED], self.shape[1])
            seen = self.states(state)
            labels = list(zip(*(column.labels().tolist() for column in seen.columns if isinstance(column, Categories))))
            named = [(*label, native(self.levels[a])) for label, a in zip(labels, action)]
            raise InputError(
                f"The log must show what the target does. In the {where} it comes to {len(missing)} pairs of state and action "
                f"that no row has, such as {show(named)}; collect data there, or evaluate a policy that avoids them."
            )

    def behave(self, observations: Values, rng: np.random.Generator) -> Codes:
        """Actions as the log would have taken them: that of a logged row of the same state."""
        place = self.state_of(observations).state
        states, actions = self.shape
        counts = self._weight.reshape(states, actions)[place]
        counts = np.where(counts.sum(axis=1, keepdims=True) > 0, counts, 1.0)
        chance = rng.random((len(place), 1)) * counts.sum(axis=1, keepdims=True)
        return np.asarray((chance >= counts.cumsum(axis=1)).sum(axis=1))

    def exact_rates(self, chances: Array) -> Rates:
        """From the target's probabilities `[S, A]`: exact in every member.

        Raises:
            InputError: the target comes to pairs that the log does not have.
            MultichainError: the rate depends on the start.
        """
        states, actions = self.shape
        spread = sp.csr_array((chances.ravel(), (np.repeat(np.arange(states), actions), np.arange(states * actions))))
        begin = int(self._weight.reshape(states, actions).sum(axis=1).argmax())
        rates = []
        for step, rewards in self.drawn:
            chain = sp.csr_array(spread @ step)
            inside = np.sort(breadth_first_order(chain, begin, return_predecessors=False))
            used = np.flatnonzero(np.isin(np.arange(states * actions) // actions, inside) & (chances.ravel() > 0))
            self._check(used, "long run")
            own, earned = chain[inside][:, inside], (spread @ rewards)[inside]
            rates.append(exact.reward_rate(TabularMDP([own], earned[:, None]), np.ones((len(inside), 1))))
        return Rates(np.array(rates), np.zeros(len(rates)), np.zeros((len(rates), 0)), 0.0, 0.0, 0)


def fit_tabular(rows: Block, states: Codes, *, members: int, seed: int) -> TabularWorld:
    """Count what rows of a discrete log do."""
    column = rows.actions.columns[0]
    assert isinstance(column, Categories)
    now, following = (
        np.searchsorted(states, state_numbers(values)) for values in (rows.observations, rows.next_observations)
    )
    begins = np.flatnonzero(~rows.follows)
    return TabularWorld(
        rows.observations.take(slice(0, 1)),
        states,
        column.levels,
        now * len(column.levels) + column.codes,
        following,
        rows.rewards,
        np.ones(len(rows)) if rows.weights is None else rows.weights,
        begins if len(begins) else np.arange(1),
        members,
        seed,
    )
