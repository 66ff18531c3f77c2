"""Diff-GQ3 (appendix of the paper): as Diff-GQ1 with dual features without a constant, and the ridge on the rate too.

ν += α (δ − xᵀν) x,   u += α ((y − y' + e₁) xᵀν − η u)
"""

import jax.numpy as jnp
from jaxtyping import Scalar

from cesaro.algorithms.base import Batch, Hyper, Objective, Params, value_objective
from cesaro.approximators import Approximator, squared_norm


def objective(approximator: Approximator, num_inputs: int) -> Objective:
    """The objective of Diff-GQ3."""
    q, tau = approximator(num_inputs, bias=False), approximator(num_inputs, bias=False)

    def lagrangian(primal: Params, dual: Params, target: Params, batch: Batch, hyper: Hyper) -> Scalar:
        values = primal["values"]
        error = batch.reward - primal["rate"] + q.change(values, batch.x, batch.x_next)
        weight = tau.apply(dual, batch.x)
        return jnp.mean(weight * error - 0.5 * weight**2) + 0.5 * hyper["ridge"] * squared_norm(primal)

    return value_objective(q, tau, lagrangian)
