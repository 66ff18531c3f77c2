"""Does the residual of a log tell a wrong rate from the right one? q is fitted with the rate held, and δ² compared.

    min_q E[(R − c + q(x') − q(x))²],   c = behavior + share · (truth − behavior)

This is what Diff-GQ1 minimizes over q where transitions are deterministic, with the best dual there is. If δ² is as small at the
mean logged reward as at the truth, on rows that were not trained on too, no gradient of it moves the rate. It looks at the
truth: a diagnosis, and no estimate.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Scalar

from cesaro.algorithms.base import Batch, Hyper, Objective, Params, value_objective
from cesaro.approximators import MLP, Approximator
from cesaro.data import FeatureTransitions
from cesaro.estimators.learned.base import adam, seed_numbers
from cesaro.features.networks import Members
from cesaro.files import Arrays
from cesaro.learning import sweep
from cesaro.suite.fitted_q import inputs_of
from research.practice.config import PracticeConfig
from research.practice.logs import Case

# Rates that are held: shares of the way from the mean logged reward to the truth.
SHARES = (0.0, 0.5, 1.0)
# The last rows of a log, whole streams of it, are not trained on.
HELD_OUT = 0.1
SEEDS = 2


def objective(approximator: Approximator, num_inputs: int) -> Objective:
    """½ E[δ²] over q, with the rate at the swept number `held`."""
    q = approximator(num_inputs, bias=False)

    def lagrangian(primal: Params, dual: Params, target: Params, batch: Batch, hyper: Hyper) -> Scalar:
        here, there = q.both(primal["values"], batch.x, batch.x_next)
        return 0.5 * jnp.mean((batch.reward - hyper["held"] + there - here) ** 2)

    return value_objective(q, None, lagrangian, defaults={"held": 0.0})


def held_residuals(config: PracticeConfig, case: Case) -> Arrays:
    """`held [shares, 2]`: mean δ² of training rows and of held-out rows over the variance of rewards, a mean over seeds."""
    rows = inputs_of(case.log, case.policy, config.seed)
    gap, scale = case.truth[0] - case.behavior[0], float(rows.rewards.std())
    # In units of the rewards' deviation, and upward: with −R and −q the residual is the same.
    rewards = (rows.rewards - case.behavior[0]) * float(np.sign(gap) or 1.0) / scale
    count = round((1 - HELD_OUT) * len(rows))
    parts = [slice(0, count), slice(count, None)]
    rates = [share * abs(gap) / scale for share in SHARES]
    found = sweep(
        objective,
        FeatureTransitions(rows.x[:count], rewards[:count], rows.x_next[:count]),
        settings=[{"step_size": config.step_size, "held": rate} for rate in rates],
        seeds=seed_numbers(config.seed, SEEDS),
        budget=config.steps * config.batch_size,
        record_every=config.steps * config.batch_size,
        window=config.batch_size,
        batch_size=config.batch_size,
        approximator=MLP(config.widths),
        optimizer=adam(),
        keep_final=True,
        quiet=True,
    )
    residuals = np.zeros((len(SHARES), 2))
    for i, rate in enumerate(rates):
        members = Members.of(jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], found.final["values"]), 0)
        for seed in range(SEEDS):
            for k, part in enumerate(parts):
                change = members.values(seed, rows.x_next[part]) - members.values(seed, rows.x[part])
                residuals[i, k] += ((rewards[part] - rate + change) ** 2).mean() / SEEDS
    return {"held": residuals}
