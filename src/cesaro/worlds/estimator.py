"""`WorldRate`: the rate of a policy in the world that was learned from the log."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from cesaro import checks
from cesaro.checks import Array
from cesaro.data import Log
from cesaro.diagnostics import Subject
from cesaro.diagnostics.worlds import Residual, WorldFacts
from cesaro.engines import map_ordered
from cesaro.errors import InputError
from cesaro.estimators.base import Estimator
from cesaro.estimators.registry import Kind
from cesaro.estimators.run import Run
from cesaro.features.networks import NetworkInputs
from cesaro.passes.influence import InfluencePass
from cesaro.passes.prepare import Prepared
from cesaro.passes.run import Running, run_pass
from cesaro.passes.standard_errors import Estimate
from cesaro.policies import Attached
from cesaro.progress import stage
from cesaro.worlds.process import Rates, Rollout, median_estimate
from cesaro.worlds.residual import residual
from cesaro.worlds.tabular import TabularWorld
from cesaro.worlds.world import World

# Rollouts behind each value, and their steps.
ROLLOUTS, HORIZON = 20, 200


@dataclass(frozen=True)
class WorldAnswer:
    """A target in a world, beside what the world says of things that the log knows.

    Attributes:
        rates: of the target.
        control: of the log's own behavior; None if that depends on the start.
        residual: by held-out rows; None for a discrete log, whose world is what it shows.
        facts: for findings.
    """

    rates: Rates
    control: Rates | None
    residual: Residual | None
    facts: WorldFacts

    @property
    def estimate(self) -> Estimate:
        """The median over members, with the spread of bootstrap members, the error of the simulation and what rows prove."""
        proven = 0.0 if self.residual is None else self.residual.proven
        return median_estimate(self.rates.by_member, self.rates.error, proven)


def ask_world(world: World, target: Attached, seed: int, *, quiet: bool) -> WorldAnswer:
    """Run a target in a fitted world, and look how far the world can be believed.

    Raises:
        InputError: the target varies an action that the log does not, or its rate depends on the start.
    """
    _check_actions(world.log_, target)
    process: Any = world.process_
    is_table = isinstance(process, TabularWorld)

    def of_target() -> tuple[Rates, Residual | None]:
        with stage("running the policy in the learned process", quiet=quiet):
            rates = world.rate(target)
        if is_table:
            return rates, None
        with stage("comparing the learned process with held-out rows", quiet=quiet):
            return rates, residual(world, target, seed)

    def of_log() -> Rates | None:
        with stage("running the log's own behavior in the learned process", quiet=quiet):
            return _control(world)

    works: list[Callable[[], Any]] = [of_target, of_log]  # beside each other, since the steps of rollouts are short
    (rates, found), control = map_ordered(lambda work: work(), works, workers=len(works))
    facts = WorldFacts(
        control=None if control is None else control.rate,
        control_error=0.0 if control is None else float(np.hypot(control.spread, control.error)),
        residual=found,
        explained=None if is_table else dict(world.report()["explained"]),
        far=rates.far,
        jumps=rates.jumps,
        logged_jumps=0.0 if is_table else float(process.is_jump.mean()),
    )
    return WorldAnswer(rates, control, found, facts)


class WorldRate(Estimator):
    """The rate of a policy where the log's process was learned: run the target there, and look what it earns.

    The answer is the median over members. Its standard error is their spread, since each learned from a bootstrap of the log,
    with the error of the simulation; the interval is Student's with one degree of freedom less than there are members, and
    reaches further by what held-out rows prove the world to be wrong by, for this target (`residual_`).

    Args:
        features: must be "auto": a world has none.
        members: processes that are learned.
        widths: units of the hidden layers of networks.
        batch_size: rows of one step of training.
        standard_errors: of the log's own rate: "auto", "independent", "clustered" or "long-run".
        random_state: seed of everything random.
        checkpoint: as in `run`; it keeps the progress of training.
        engine: must be "local".
        address: must be None.
        quiet: no progress bar.
        run: how the fit is run.

    Attributes:
        world_: the learned process.
        rates_: what the target earns in every member.
        control_: what the log's own behavior earns there; None if that depends on the start.
        residual_: what held-out rows say; None for a discrete log, whose world is what it shows.
    """

    kind: Kind = "world"

    def __init__(
        self,
        features: Any = "auto",
        members: int = 5,
        widths: tuple[int, ...] = (64, 64),
        batch_size: int = 256,
        standard_errors: str = "auto",
        random_state: int = 0,
        checkpoint: str | os.PathLike[str] | None = None,
        engine: str = "local",
        address: str | None = None,
        quiet: bool = False,
        run: Run | None = None,
    ) -> None:
        self.features = features
        self.members = members
        self.widths = widths
        self.batch_size = batch_size
        self.standard_errors = standard_errors
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.engine = engine
        self.address = address
        self.quiet = quiet
        self.run = run

    def fit(self, data: Any, policy: Any = None) -> Self:
        """Learn the process of a log, and run `policy` in it."""
        run = self._run()
        if not isinstance(data, Log):
            raise InputError("A world needs a log; ready features do not tell what comes next. See cesaro.read.")
        for name, only in (("features", "auto"), ("engine", "local")):
            if (given := getattr(run if name != "features" else self, name)) != only:
                raise InputError(f"{name} must be {only!r} for a world. Got {given!r}.")
        seed = checks.count("random_state", self.random_state, low=0)
        opened = data.opened(quiet=run.quiet)
        sample = opened.part(np.arange(min(len(opened), 2)))
        discrete = sample.observations.is_discrete and sample.actions.is_discrete
        features: Any = "auto" if discrete else NetworkInputs.of(opened, seed)
        prepared = Prepared(
            opened, policy, features=features, dual_features="same", draws=1, random_state=seed, quiet=run.quiet
        )
        running, plan = Running(run.quiet), self._begin(prepared)
        if prepared.is_logged:
            return self._fit_logged(plan, running)
        self._count(run_pass(InfluencePass(plan, None), prepared, running))
        target = prepared.policy
        assert target is not None
        world = World(self.members, self.widths, self.batch_size, seed, run.quiet, run.checkpoint).fit(opened)
        found = ask_world(world, target, seed, quiet=run.quiet)
        rates = found.rates
        self.world_, self.rates_, self.control_, self.residual_ = world, rates, found.control, found.residual
        self.answer_, self.estimate_ = found, found.estimate
        self._known = None
        self._summary = {
            "method": "world (learned process)",
            **{key: value for key, value in world.report().items() if key not in ("notes", "explained")},
            "spread_over_members": rates.spread,
            "simulation_error": rates.error,
            "standard_errors": "spread over bootstrap members",
            "random_state": self.random_state,
        }
        return self._end()

    @property
    def subject_(self) -> Subject:
        if self.prepared_.is_logged:
            return super().subject_
        return replace(super().subject_, world=self.answer_.facts)

    @property
    def has_values(self) -> bool:
        """Values take rollouts for every pair, which pictures of a whole log would need too many of."""
        return False

    def predict(self, observations: Any, actions: Any = None) -> Array:
        """Differential values `q(s, a)` by rollouts in the world, centered over the pairs that are asked for, `[n]`.

        Pairs share their random numbers as far as the policy allows, so that differences are less noisy than values.
        """
        self._fitted()
        if self.prepared_.is_logged:
            raise InputError("The policy 'logged' has a rate and nothing else; give a policy to evaluate.")
        assert self._inputs is not None
        seen, taken = self._inputs.pairs(observations, actions)
        process: Any = self.world_.process_
        count, each = len(seen), process.members * ROLLOUTS
        _, act = self.world_._target(self.prepared_.policy)
        earned = np.zeros(count)
        for row in range(count):
            rng = np.random.default_rng([self.random_state, 16])
            one = np.zeros(each, np.int64) + row
            state = process.state_of(seen.take(one))
            done = process.step(state, process.coded(taken.take(one)), rng)
            rollout = Rollout(process, act, done.state, rng)
            total = done.rewards - self.estimate_.value
            for _ in range(HORIZON):
                total = total + rollout.step()[2].rewards - self.estimate_.value
            earned[row] = total.mean()
        return earned - earned.mean()


def _control(world: World) -> Rates | None:
    try:
        return world.rate("logged")
    except InputError:  # it is a finding that the world has no such rate; the target may have one
        return None


def _check_actions(log: Log, target: Any) -> None:
    """An action that never varied in the log tells nothing of what another one would do."""
    rows = log.part(np.arange(len(log))) if len(log) <= 100_000 else log.sample(0).rows
    if rows.actions.is_discrete:
        return
    logged = np.asarray(rows.actions.columns[0], dtype=np.float64).reshape(len(rows), -1)
    rng = np.random.default_rng(0)
    wanted = np.asarray(target.sample(rows.next_observations.take(slice(0, 1_000)).plain(), rng)).reshape(
        -1, logged.shape[1]
    )
    for place in np.flatnonzero((logged == logged[0]).all(axis=0)):
        name = rows.actions.names[place] if len(rows.actions.names) > place else f"{rows.actions.names[0]}[{place}]"
        if (wanted[:, place] != logged[0, place]).any():
            raise InputError(
                f'The log must vary what the target varies. Action "{name}" is {logged[0, place]:g} in every row, and policy '
                f"{target.name!r} gives others, such as {wanted[wanted[:, place] != logged[0, place]][0, place]:g}; "
                "collect rows in which it varies."
            )
