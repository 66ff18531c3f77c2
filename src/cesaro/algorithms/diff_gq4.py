"""Diff-GQ4 (appendix of the paper): the rate is tracked as in Diff-SGQ, the weights descend the projected error at that rate.

    r̂ += α (ρ − r̂),   ν += α (ρ − r̂ − xᵀν) x,   w += α ((x − x') xᵀν − η w)

Its mean dynamics need not be stable; `LinearProblem.stability("diff-gq4", ridge=…)` tells.
"""

import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Scalar

from cesaro.algorithms.base import Batch, Hyper, Objective, Params, value_objective
from cesaro.approximators import Approximator, squared_norm


def objective(approximator: Approximator, num_inputs: int) -> Objective:
    """The objective of Diff-GQ4."""
    q, tau = approximator(num_inputs, bias=False), approximator(num_inputs, bias=False)

    def lagrangian(primal: Params, dual: Params, target: Params, batch: Batch, hyper: Hyper) -> Scalar:
        values = primal["values"]
        rho = batch.reward + q.change(values, batch.x, batch.x_next)
        weight = tau.apply(dual, batch.x)
        return (
            jnp.mean(weight * (rho - stop_gradient(primal["rate"])) - 0.5 * weight**2)
            + 0.5 * hyper["ridge"] * squared_norm(values)
            + 0.5 * (stop_gradient(jnp.mean(rho)) - primal["rate"]) ** 2
        )

    return value_objective(q, tau, lagrangian)
