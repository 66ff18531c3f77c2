"""Diff-GQ2: two-stage gradient differential Q evaluation (section 5 of the paper) from two independent samples per step.

    ν += α (ρ₁ − ρ₂ − x₁ᵀν) x₁,   w += α ([(x₁ − x₁') − (x₂ − x₂')] x₁ᵀν − η w),   r̂ += β (½(ρ₁ + ρ₂) − r̂)

(The paper prints the `w` update with `+ (x₂ − x₂')`, and in the appendix with the sign of the whole flipped; both are slips.) The
rate is tracked beside the saddle point; in the projected variant it follows the averaged weights, through `target`.
"""

import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Scalar

from cesaro.algorithms.base import Batch, Hyper, Objective, Params, value_objective
from cesaro.approximators import Approximator, squared_norm


def objective(approximator: Approximator, num_inputs: int) -> Objective:
    """The objective of Diff-GQ2."""
    q, tau = approximator(num_inputs, bias=False), approximator(num_inputs, bias=False)

    def rho(values: Params, batch: Batch) -> Array:
        return batch.reward + q.change(values, batch.x, batch.x_next)

    def rhos(values: Params, batch: Batch) -> tuple[Array, ...]:
        """`ρ` of both minibatches: networks take them in one product, linear functions apart, as elementwise work."""
        return tuple(rho(values, batch)) if q.joined else tuple(rho(values, Batch(*one)) for one in zip(*batch))

    def lagrangian(primal: Params, dual: Params, target: Params, batch: Batch, hyper: Hyper) -> Scalar:
        first, second = rhos(primal["values"], batch)
        weight = tau.apply(dual, batch.x[0])
        goal = stop_gradient(0.5 * sum(map(jnp.mean, rhos(target["values"], batch))))
        return (
            jnp.mean(weight * (first - second) - 0.5 * weight**2)
            + 0.5 * hyper["ridge"] * squared_norm(primal["values"])
            + 0.5 * (goal - primal["rate"]) ** 2
        )

    return value_objective(q, tau, lagrangian, defaults={"rate_step_size": None}, minibatches=2, projected=("values",))
