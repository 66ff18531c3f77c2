"""Diff-GQ1: one-stage gradient differential Q evaluation (section 4 of the paper).

    ν += α (δ − yᵀν) y,   u += α ((y − y' + e₁) yᵀν − η I₀ u),   y = [1, x], u = [r̂, w]

The saddle point of `τ (ρ − r̂) − ½ τ² + ½ η ‖w‖²` with `ρ = R + q(x') − q(x)` and a dual function `τ` that has a bias. (The
paper's neural section writes `2 δ τ − τ²`: its learning rate is half of our step size.)
"""

import jax.numpy as jnp
from jaxtyping import Scalar

from cesaro.algorithms.base import Batch, Hyper, Objective, Params, value_objective
from cesaro.approximators import Approximator, squared_norm


def objective(approximator: Approximator, num_inputs: int) -> Objective:
    """The objective of Diff-GQ1."""
    q, tau = approximator(num_inputs, bias=False), approximator(num_inputs, bias=True)

    def lagrangian(primal: Params, dual: Params, target: Params, batch: Batch, hyper: Hyper) -> Scalar:
        values = primal["values"]
        error = batch.reward - primal["rate"] + q.change(values, batch.x, batch.x_next)
        weight = tau.apply(dual, batch.x)
        return jnp.mean(weight * error - 0.5 * weight**2) + 0.5 * hyper["ridge"] * squared_norm(values)

    return value_objective(q, tau, lagrangian, projected=("rate", "values"))
