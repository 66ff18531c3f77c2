"""GradientDICE (Zhang, Liu and Whiteson, 2020), the density-ratio baseline of the paper.

    θ −= α (x (f' − f + λu) + ηθ),   κ += α (τ (x' − x) − f x),   u += αλ (τ − 1 − u),   r̂ += α (τR − r̂)

with `τ = xᵀθ` the density ratio and `f = xᵀκ`. It has no values. With `λ = 0` and zero weights it never moves.
"""

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Scalar

from cesaro.algorithms.base import Batch, Hyper, Objective, Params
from cesaro.approximators import Approximator, squared_norm


def objective(approximator: Approximator, num_inputs: int) -> Objective:
    """The objective of GradientDICE; the entry "ratio" of the primal holds `θ`."""
    tau, f = approximator(num_inputs, bias=False), approximator(num_inputs, bias=False)

    def init(key: Array) -> tuple[Params, Params]:
        primal_key, dual_key = jax.random.split(key)
        primal = {"rate": jnp.zeros(()), "ratio": tau.init(primal_key)}
        return primal, {"test": f.init(dual_key), "normalizer": jnp.zeros(())}

    def lagrangian(primal: Params, dual: Params, target: Params, batch: Batch, hyper: Hyper) -> Scalar:
        ratio = tau.apply(primal["ratio"], batch.x)
        here, there = f.both(dual["test"], batch.x, batch.x_next)
        u = dual["normalizer"]
        return (
            jnp.mean(ratio * (there - here) - 0.5 * here**2)
            + hyper["lam"] * (u * jnp.mean(ratio) - u - 0.5 * u**2)
            + 0.5 * hyper["ridge"] * squared_norm(primal["ratio"])
            + 0.5 * (stop_gradient(jnp.mean(ratio * batch.reward)) - primal["rate"]) ** 2
        )

    return Objective(
        init=init,
        lagrangian=lagrangian,
        reward_rate=lambda primal: primal["rate"],
        values=None,
        defaults={"step_size": 0.01, "ridge": 0.0, "lam": 1.0},
        function="ratio",
    )
