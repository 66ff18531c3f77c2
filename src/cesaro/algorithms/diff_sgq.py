"""Diff-SGQ: semi-gradient differential Q evaluation (section 3 of the paper).

    w += α (δ x − η w),   r̂ += α δ,   δ = R − r̂ + q(x') − q(x)

As a scalar: squared distances of `q(x)` and of `r̂` to goals that the gradient does not see. With a target network both
goals use the target: `r̂ += α (R + q⁻(x') − q⁻(x) − r̂)`. It may diverge (`cesaro reproduce counterexample`).
"""

import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Scalar

from cesaro.algorithms.base import Batch, Hyper, Objective, Params, value_objective
from cesaro.approximators import Approximator, squared_norm


def objective(approximator: Approximator, num_inputs: int) -> Objective:
    """The objective of Diff-SGQ."""
    q = approximator(num_inputs, bias=False)

    def lagrangian(primal: Params, dual: Params, target: Params, batch: Batch, hyper: Hyper) -> Scalar:
        seen = stop_gradient(target)
        here, there = q.both(seen["values"], batch.x, batch.x_next)
        value_goal = batch.reward + there - seen["rate"]
        rate_goal = batch.reward + there - here
        return (
            0.5 * jnp.mean((value_goal - q.apply(primal["values"], batch.x)) ** 2)
            + 0.5 * jnp.mean((rate_goal - primal["rate"]) ** 2)
            + 0.5 * hyper["ridge"] * squared_norm(primal["values"])
        )

    return value_objective(q, None, lagrangian, bootstraps=True)
