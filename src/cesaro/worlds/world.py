"""`World`: a log in, a process out that can be run: under its own behavior, or under a policy."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from cesaro import checks
from cesaro.checks import Array
from cesaro.data import Log, Transitions
from cesaro.data.blocks import Block, joined_values
from cesaro.data.transitions import simulated
from cesaro.data.values import Categories, Values
from cesaro.devices import starting_jax
from cesaro.errors import InputError
from cesaro.features.maps import drawn_shares
from cesaro.files import holding
from cesaro.policies import Attached, attach
from cesaro.progress import stage
from cesaro.worlds.process import OF_SPREAD, OF_SPREAD_OF_CONTROL, Act, Process, Rates, Rollout, simulated_rates
from cesaro.worlds.tabular import TabularWorld, fit_tabular

# Rows that a world is fitted on; of a longer log a sample, in blocks of so many rows.
MOST_ROWS, BLOCK = 1_000_000, 1_000
# Rows per input that networks need.
ROWS_PER_INPUT = 50
# Draws per state from a policy that gives no probabilities.
DRAWS = 200
# Draws from the posterior of a discrete log's process, and states up to which they take seconds.
POSTERIOR, MOST_STATES = 200, 1_000


class World(BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """A process that was learned from a log: what comes next, what it earns, and what the log does.

    A discrete log becomes its empirical MDP, whose members are draws from Dirichlet posteriors. Any other becomes an ensemble
    of networks, each on a bootstrap of the log's trajectories, with noise from held-out rows. Columns keep their kinds: whole
    numbers stay whole, bounds that many rows lie on are kept, and a column that advances by itself, such as the hour, does so.

    Args:
        members: how many processes are learned; their spread tells what the log leaves open.
        widths: units of the hidden layers.
        batch_size: rows of one step of training.
        random_state: seed of everything random.
        quiet: no progress bar.
        checkpoint: a file to keep the progress of training in; the same fit goes on from it, bit for bit.

    Attributes:
        process_: what was learned.
        notes_: sentences on columns that were left out.

    Example:
        >>> import numpy as np, cesaro as cs
        >>> rng = np.random.default_rng(0)
        >>> state = np.cumsum(rng.integers(0, 2, 5000)) % 3
        >>> log = cs.Transitions(state, rng.integers(0, 2, 5000), rewards=(state == 2).astype(float))
        >>> world = cs.World(quiet=True).fit(log)
        >>> round(world.rate("uniform").rate, 1)
        0.3
        >>> world.simulate("uniform", trajectories=4, length=100, rng=rng)
        Transitions(396 transitions, 400 rows)
    """

    def __init__(
        self,
        members: int = 5,
        widths: tuple[int, ...] = (64, 64),
        batch_size: int = 256,
        random_state: int = 0,
        quiet: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.members = members
        self.widths = widths
        self.batch_size = batch_size
        self.random_state = random_state
        self.quiet = quiet
        self.checkpoint = checkpoint

    def fit(self, log: Log, policy: Any = None) -> Self:
        """Learn the process of a log; `policy` is not used."""
        if not isinstance(log, Log):
            raise InputError(f"log must be a Log or Transitions. Got {type(log).__name__}; see cesaro.read.")
        members = checks.count("members", self.members, low=2, high=1_000)
        seed = checks.count("random_state", self.random_state, low=0, high=2**32 - 1)
        given: Any = self.widths
        if not isinstance(given, tuple | list) or not given:
            raise InputError(f"widths must be a tuple of whole numbers ≥ 1, such as (64, 64). Got {self.widths!r}.")
        if not isinstance(self.checkpoint, str | os.PathLike | None):
            raise InputError(f"checkpoint must be a path or None. Got {self.checkpoint!r}.")
        widths = tuple(checks.count("widths", width, high=100_000) for width in self.widths)
        batch = checks.count("batch_size", self.batch_size, high=1_000_000)
        opened = log.opened(quiet=self.quiet)
        rows, begins = _rows(opened, seed)
        self.log_ = opened
        self.notes_: tuple[str, ...] = ()
        states = opened.states() if rows.actions.is_discrete else None
        self.process_: Process
        if states is not None:
            self.process_ = fit_tabular(rows, states, members=members, seed=seed)
            return self
        self.notes_ = _check_rows(rows)
        with starting_jax():
            from cesaro.worlds.networks import fit_networks  # JAX takes a second to import
            from cesaro.worlds.training import Kept, Training
        with holding(self.checkpoint), stage("learning the process", quiet=self.quiet):
            kept = Kept(None if self.checkpoint is None else Path(self.checkpoint))
            training = Training(widths, batch, seed)
            self.process_ = fit_networks(rows, begins, members=members, training=training, kept=kept)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "process_")

    def _learned(self) -> Process:
        if not hasattr(self, "process_"):
            raise NotFittedError("This World is not fitted yet; call fit(log) first.")
        return self.process_

    def _target(self, policy: Any) -> tuple[Attached, Act]:
        """A policy on the log, and how it acts in the world."""
        process = self._learned()
        target = policy if isinstance(policy, Attached) else attach(policy, self.log_)
        return target, process.behave if target.is_logged else partial(_sample, target)

    def rate(self, policy: Any) -> Rates:
        """The rate of a policy in every member, with the error of the simulation.

        Args:
            policy: anything that `cesaro.policy` takes; "logged" is the log's own behavior, as the world has learned it, which is
                simulated half as precisely.

        Raises:
            InputError: the rate depends on the start, or the log does not show what the target does.
        """
        target, act = self._target(policy)
        if isinstance(self.process_, TabularWorld) and not target.is_logged:
            return self.process_.exact_rates(self._chances(target, self.process_))
        enough = OF_SPREAD_OF_CONTROL if target.is_logged else OF_SPREAD
        rng = np.random.default_rng([self.random_state, 13])
        return simulated_rates(self.process_, act, target.name, rng, enough)

    def _chances(self, target: Attached, process: TabularWorld) -> Array:
        """The target's probabilities at all states, `[S, A]`: exact, or shares of many draws."""
        seen = process.states(np.arange(process.shape[0])).plain()
        exact = target.probabilities(seen)
        if exact is not None:
            return exact
        return drawn_shares(seen, target, process.shape, np.random.default_rng([self.random_state, 14]), DRAWS)

    def simulate(self, policy: Any, trajectories: int, length: int, rng: np.random.Generator) -> Transitions:
        """A log of the policy in the world, with the columns and kinds of the real one; members take turns.

        Args:
            policy: as in `rate`.
            trajectories: how many.
            length: rows of each.
            rng: all that is random comes from it.
        """
        count = checks.count("trajectories", trajectories)
        members = self._learned().members
        each = -(-count // members)
        turns = np.arange(members * each).reshape(members, each).T.ravel()[:count]
        return self._simulated(policy, each, length, rng, [turns])[0]

    def simulate_each(self, policy: Any, trajectories: int, length: int, rng: np.random.Generator) -> list[Transitions]:
        """A log of the policy in every member; parameters as in `simulate`, of each log."""
        each, members = checks.count("trajectories", trajectories), self._learned().members
        return self._simulated(policy, each, length, rng, list(np.arange(members * each).reshape(members, each)))

    def _simulated(
        self, policy: Any, each: int, length: int, rng: np.random.Generator, parts: list[NDArray[np.int64]]
    ) -> list[Transitions]:
        """Logs of some particles each, out of so many per member."""
        rows, process = checks.count("length", length, low=2), self._learned()
        rollout = Rollout(process, self._target(policy)[1], process.start(each, rng, logged=0), rng)
        steps = [rollout.step() for _ in range(rows)]
        seen, taken = [step[0] for step in steps], np.stack([step[1] for step in steps])
        earned = np.stack([step[2].rewards for step in steps])
        return [self._transitions([one.take(part) for one in seen], taken[:, part], earned[:, part]) for part in parts]

    def _transitions(self, seen: list[Values], taken: Any, earned: Array) -> Transitions:
        steps, count = earned.shape
        by_trajectory = np.arange(steps * count).reshape(steps, count).T.ravel()
        observations = joined_values(seen).take(by_trajectory)
        actions = taken.reshape(steps * count, *taken.shape[2:])[by_trajectory]
        like = self.log_.part(np.arange(1)).actions
        levels = self.log_.action_levels
        column: Any = actions if levels is None else Categories(actions, levels)
        if levels is None and like.form == "lone":
            column = actions[:, 0]
        ids = np.repeat(np.arange(count), steps)
        return simulated(observations, Values(like.form, like.names, (column,)), earned.T.ravel(), ids)

    def report(self) -> dict[str, Any]:
        """How well the world fits, on rows that networks did not learn from."""
        process: Any = self._learned()
        if isinstance(process, TabularWorld):
            logged = np.bincount(process.pairs, minlength=len(process.logged))
            return {
                "kind": "empirical MDP",
                "members": process.members,
                "states": process.shape[0],
                "actions": process.shape[1],
                "pairs": int(np.count_nonzero(logged)),
                "pairs_seen_once": int(np.count_nonzero(logged == 1)),
            }
        free = [process.space.columns.number_names[j] for j in process.space.free]
        return {
            "kind": "networks",
            "members": process.members,
            "widths": list(self.widths),
            "steps": process.model.steps,
            "explained": dict(zip([*free, "reward"], process.model.r_squared.tolist())),
            "advances": [process.space.columns.number_names[j] for j in process.space.advances],
            "jumps": float(process.is_jump.mean()),
            "notes": list(self.notes_),
        }


def posterior_rates(log: Log, policy: Any, random_state: int, *, quiet: bool) -> Array | None:
    """Rates in draws from the posterior of a discrete log's process, `[draws]`; None where there are too many states.

    A pair of state and action that was seen once has no variance in the counts, and has one in the posterior.
    """
    states = log.states()
    if states is None or len(states) > MOST_STATES:
        return None
    try:
        with stage("drawing processes that the log allows", quiet=quiet):
            return World(POSTERIOR, random_state=random_state, quiet=True).fit(log).rate(policy).by_member
    except InputError:  # in some draws the target comes to pairs that no row has
        return None


def _rows(log: Log, seed: int) -> tuple[Block, NDArray[np.int64]]:
    """All rows, and those with which trajectories begin; of a long log so many blocks of consecutive rows.

    A block goes on from the one before only where nothing lies between them.
    """
    if len(log) <= MOST_ROWS:
        rows = log.part(np.arange(len(log)))
        return rows, np.flatnonzero(~rows.follows)
    rng = np.random.default_rng([seed, 10])
    starts = np.sort(rng.choice(len(log) // BLOCK, MOST_ROWS // BLOCK, replace=False)) * BLOCK
    rows = log.part((starts[:, None] + np.arange(BLOCK)).ravel())
    follows = rows.follows.copy()
    begins = np.flatnonzero(~follows & (np.arange(len(rows)) % BLOCK > 0))
    follows[::BLOCK] &= np.diff(starts, prepend=-1) == BLOCK
    return replace(rows, follows=follows), begins


def _sample(target: Attached, observations: Values, rng: np.random.Generator) -> Any:
    return target.sample(observations.plain(), rng)


def _check_rows(rows: Block) -> tuple[str, ...]:
    """Refuse a log that is too short for its columns, and say what is left out."""
    notes = []
    inputs = 0
    for values in (rows.observations, rows.actions):
        for name, column in zip(values.names, values.columns):
            if isinstance(column, Categories):
                inputs += len(column.levels)
                continue
            wide = column.reshape(len(rows), -1)
            varied = (wide != wide[0]).any(axis=0)
            inputs += int(varied.sum())
            if not varied.all() and values is rows.observations:
                notes.append(f'Column "{name}" is constant in the log, and the learned process leaves it as it is.')
    if len(rows) < ROWS_PER_INPUT * inputs:
        raise InputError(
            f"A learned process needs {ROWS_PER_INPUT} rows for each of its {inputs} inputs (numbers, and labels one by one). "
            f"Got {len(rows):,} rows, and {ROWS_PER_INPUT * inputs:,} are needed; leave out columns that the policy does not "
            "need, or collect more."
        )
    return tuple(notes)
