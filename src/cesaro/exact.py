"""Reward rate, differential values, stationary law and density ratio of a known MDP, exactly.

Everything is solved on the chain over states and lifted to pairs: `q = r − r_π + p v`, `d_π(s, a) = d(s) π(a | s)`.
Only a unichain is assumed: periodic chains, transient and absorbing states are legal.
"""

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from cesaro.checks import Array, frozen
from cesaro.errors import InputError, ToleranceError
from cesaro.mdp import TabularMDP, single_class
from cesaro.solvers import Krylov, Solver, choose

# The Bellman residual of the answer is at most this times (1 + ‖q‖∞); anything else is an error.
TOLERANCE = 1e-10


def reward_rate(mdp: TabularMDP, policy: ArrayLike) -> float:
    """The long-run average reward per step `r_π` of a policy `[S, A]`.

    Example:
        >>> import cesaro as cs
        >>> queue = cs.problems.access_control_queue()
        >>> round(cs.exact.reward_rate(queue.mdp, queue.policy), 4)
        2.7266
    """
    return solve(mdp, policy).reward_rate


def differential_values(mdp: TabularMDP, policy: ArrayLike) -> Array:
    """The differential action values `q_π`, `[S, A]`: `q = r − r_π + P_π q` with mean zero under `d_π`."""
    return solve(mdp, policy).differential_values


def stationary_distribution(mdp: TabularMDP, policy: ArrayLike) -> Array:
    """The long-run share of time `d_π` spent in each pair, `[S, A]`; exact zeros for transient states."""
    return solve(mdp, policy).stationary_distribution


def density_ratio(mdp: TabularMDP, policy: ArrayLike, sampling: ArrayLike) -> Array:
    """`d_π / d_μ` for every pair, `[S, A]`; zero where `d_π` is. `sampling` must be positive wherever `d_π` is."""
    return solve(mdp, policy).density_ratio(sampling)


def solve(mdp: TabularMDP, policy: ArrayLike) -> "Solution":
    """All exact quantities of one policy, each computed on first use and sharing the factorization."""
    return Solution(mdp, policy)


class Solution:
    """The exact answer for one policy; see `solve`."""

    def __init__(self, mdp: TabularMDP, policy: ArrayLike) -> None:
        if not isinstance(mdp, TabularMDP):
            raise InputError(f"mdp must be a TabularMDP. Got {type(mdp).__name__}; build one with cesaro.TabularMDP.")
        self.mdp = mdp
        self.policy = mdp.check_policy(policy)
        self._chain = mdp.state_chain(self.policy)
        self._rewards = np.einsum("sa,sa->s", self.policy, mdp.rewards)
        self.recurrent_states = single_class(self._chain)

    @cached_property
    def _first_solver(self) -> Solver:
        inflow = np.asarray(self._chain.sum(axis=0)).ravel()[self.recurrent_states]
        return choose(self._chain, int(self.recurrent_states[np.argmax(inflow)]))

    @cached_property
    def state_distribution(self) -> Array:
        """`d(s)`, `[S]`."""
        solver = self._first_solver
        if not isinstance(solver, Krylov) or len(self.recurrent_states) == self.mdp.num_states:
            return frozen(solver.stationary())
        law = np.zeros(self.mdp.num_states)
        inside = self._chain[self.recurrent_states][:, self.recurrent_states]
        law[self.recurrent_states] = choose(inside, 0).stationary()
        return frozen(law)

    @cached_property
    def _solver(self) -> Solver:
        """The solver for values, whose reference state is often visited: excursions from a rare one cancel badly."""
        solver = self._first_solver
        if isinstance(solver, Krylov):
            return solver
        law = self.state_distribution
        if law[solver.reference] >= 0.1 * law.max():
            return solver
        return choose(self._chain, int(np.argmax(law)))

    @cached_property
    def reward_rate(self) -> float:
        """`r_π`."""
        if not isinstance(self._first_solver, Krylov):
            return float(self.state_distribution @ self._rewards)
        # For any v, the rate lies between the smallest and the largest entry of r + P v − v.
        values = self._first_solver.values(self._rewards)
        gain = self._rewards + self._chain @ values - values
        low, high = float(gain.min()), float(gain.max())
        if not high - low <= TOLERANCE * (1 + 100 * float(np.abs(self._rewards).max())):
            raise ToleranceError(f"The reward rate is only known to lie between {low:.12g} and {high:.12g}.")
        return (low + high) / 2

    @cached_property
    def state_values(self) -> Array:
        """`v(s) = Σ_a π(a | s) q(s, a)`, `[S]`, with mean zero under `d`."""
        with np.errstate(over="ignore", invalid="ignore"):
            values = self._solver.values(self._rewards - self.reward_rate)
            values = values - self.state_distribution @ values
            residual = self._rewards - self.reward_rate + self._chain @ values - values
            rounding = 16 * np.finfo(np.float64).eps * float(np.abs(self._rewards).max())  # of rewards minus their rate
            worst, allowed = float(np.abs(residual).max()), TOLERANCE * (1 + float(np.abs(values).max())) + rounding
        if not (worst <= allowed and np.isfinite(allowed)):
            raise ToleranceError(
                f"The differential values miss their tolerance: the Bellman residual is {worst:.1e}, above {allowed:.1e} "
                f"(solver: {self._solver.name}); the chain spans too many orders of magnitude for float64."
            )
        return frozen(values)

    @cached_property
    def differential_values(self) -> Array:
        """`q_π`, `[S, A]`."""
        return frozen(self.mdp.rewards - self.reward_rate + self.mdp.expect_next(self.state_values))

    @cached_property
    def stationary_distribution(self) -> Array:
        """`d_π`, `[S, A]`."""
        return frozen(self.state_distribution[:, None] * self.policy)

    def density_ratio(self, sampling: ArrayLike) -> Array:
        """`d_π / d_μ`, `[S, A]`."""
        sampling, law = self.mdp.check_sampling(sampling), self.stationary_distribution
        missing = (sampling == 0) & (law > 0)
        if missing.any():
            state, action = np.argwhere(missing)[0]
            raise InputError(
                f"sampling must be positive wherever the policy goes. Got 0 at state {state}, action {action} "
                f"({missing.sum()} such pairs, {law[missing].sum():.3g} of the policy's time); add data there."
            )
        return np.divide(law, sampling, out=np.zeros_like(law), where=sampling > 0)
