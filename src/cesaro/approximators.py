"""Function approximators: what an objective builds its functions from. Linear or not is only this argument."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Scalar

Params = Any

# From this many inputs on, a function is worth a matrix product of its own.
WIDE = 32


class Function(NamedTuple):
    """A family of real functions of `inputs` numbers.

    Attributes:
        init: `(key) -> params`.
        apply: `(params, x [..., inputs]) -> [...]`.
    """

    init: Callable[[Array], Params]
    apply: Callable[[Params, Float[Array, "... inputs"]], Float[Array, "..."]]


class Approximator(Protocol):
    """Builds a function of `num_inputs` numbers, with or without a bias."""

    def __call__(self, num_inputs: int, *, bias: bool) -> Function: ...


def linear(num_inputs: int, *, bias: bool) -> Function:
    """`xᵀw`, or `b + xᵀw`, started at zero."""
    return _linear(num_inputs, bias, spread=0.0)


def linear_random(num_inputs: int, *, bias: bool) -> Function:
    """The same, started uniformly in ±1/√inputs (as the authors' code does)."""
    return _linear(num_inputs, bias, spread=num_inputs**-0.5)


def _linear(num_inputs: int, bias: bool, spread: float) -> Function:
    def init(key: Array) -> Params:
        if spread == 0.0:
            weights, offset = jnp.zeros(num_inputs), jnp.zeros(())
        else:
            weight_key, bias_key = jax.random.split(key)
            weights = jax.random.uniform(weight_key, (num_inputs,), minval=-spread, maxval=spread)
            offset = jax.random.uniform(bias_key, (), minval=-spread, maxval=spread)
        return {"weights": weights, "bias": offset} if bias else {"weights": weights}

    def apply(params: Params, x: Float[Array, "... inputs"]) -> Float[Array, "..."]:
        if num_inputs < WIDE:
            # A product and a sum instead of a dot: under vmap it stays elementwise, which compiles to one fused loop.
            weights = params["weights"].reshape((1,) * (x.ndim - 1) + (num_inputs,))
            result = jnp.sum(x * weights, axis=-1)
        else:
            result = x @ params["weights"]
        return result + params["bias"] if bias else result

    return Function(init, apply)


APPROXIMATORS: dict[str, Approximator] = {"linear": linear, "linear-random": linear_random}


def squared_norm(params: Params) -> Scalar:
    """`‖params‖²`, for the ridge."""
    return sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(params)), start=jnp.zeros(()))
