"""Discounted fitted-Q evaluation, the baseline that people use today, as an `Objective` beside the differential methods.

    q(x) → R + γ q⁻(x'),   rate (1 − γ) · mean q(x')

The mean is over the logged next states with the target's actions, so that the answer is the target's discounted return from
there, per step. It tends to the reward rate as γ → 1; at γ = 0.99 it looks about a hundred steps ahead.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient
from jaxtyping import Scalar

from cesaro.algorithms.base import Batch, Hyper, Objective, Params, value_objective
from cesaro.algorithms.saddle_point import Target
from cesaro.approximators import Approximator
from cesaro.checks import Array
from cesaro.data import FeatureTransitions, Transitions
from cesaro.estimators.learned.base import adam, seed_numbers
from cesaro.estimators.learned.network_run import standardized
from cesaro.estimators.learned.rows import dense
from cesaro.features.networks import Members, NetworkInputs
from cesaro.learning import sweep
from cesaro.passes.prepare import Prepared
from cesaro.policies.base import Policy

# Records of a run: whoever looks at them sees whether it still moves.
RECORDS = 40


def objective(approximator: Approximator, num_inputs: int) -> Objective:
    """Squared distances of `q(x)` and of the rate to goals that the gradient does not see; sweeps `discount`."""
    q = approximator(num_inputs, bias=True)

    def lagrangian(primal: Params, dual: Params, target: Params, batch: Batch, hyper: Hyper) -> Scalar:
        following = q.apply(stop_gradient(target)["values"], batch.x_next)
        value_goal = batch.reward + hyper["discount"] * following
        rate_goal = (1 - hyper["discount"]) * jnp.mean(following)
        return 0.5 * jnp.mean((value_goal - q.apply(primal["values"], batch.x)) ** 2) + 0.5 * (
            (rate_goal - primal["rate"]) ** 2
        )

    return value_objective(q, None, lagrangian, defaults={"discount": 0.99})


def inputs_of(log: Transitions, policy: Policy, random_state: int) -> FeatureTransitions:
    """A log as the inputs that `Learned` gives its networks: standardized columns, `[s, a]` and `[s', π(s')]`."""
    inputs = NetworkInputs.of(log, random_state)
    return dense(Prepared(log, policy, features=inputs, dual_features="same", draws=1, random_state=random_state))


@dataclass(frozen=True)
class FittedQ:
    """Rates that the seeds ended at.

    Attributes:
        rates: `(1 − γ) · mean q(x')` over all rows, `[seeds]`; NaN where a run diverged.
        tracked: the rate that was tracked along the way, `[seeds, records]`.
    """

    rates: Array
    tracked: Array


def fitted_q(
    data: FeatureTransitions,
    *,
    approximator: Approximator,
    discount: float,
    steps: int,
    batch_size: int,
    step_size: float,
    target: Target,
    seeds: int,
    random_state: int = 0,
) -> FittedQ:
    """Train with Adam on standardized rewards, then read the answer off all rows.

    Subtracting the mean logged reward changes no answer, since it moves `q` by a constant; runs start at that mean.
    """
    rows, shift, scale = standardized(data)
    record = max(1, steps // RECORDS)
    runs = sweep(
        objective,
        rows,
        settings=[{"step_size": step_size, "discount": discount}],
        seeds=seed_numbers(random_state, seeds),
        budget=record * max(1, steps // record) * batch_size,
        record_every=record * batch_size,
        window=record * batch_size,
        batch_size=batch_size,
        approximator=approximator,
        optimizer=adam(),
        target=target,
        keep_final=True,
        quiet=True,
    )
    members = Members.of(runs.final["values"], 0)
    values = np.array([members.values(seed, data.x_next).mean() for seed in range(len(members))])
    kept = (runs.diverged_at[0] < 0) & np.isfinite(values)
    return FittedQ(np.where(kept, shift + scale * (1 - discount) * values, np.nan), shift + scale * runs.reward_rate[0])
