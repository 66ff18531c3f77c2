"""The contract: a method is one scalar, minimized over `primal` and maximized over `dual`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Scalar

from cesaro.approximators import Function

Params = Any  # a pytree of arrays
Hyper = dict[str, Any]  # swept numbers by name, traced


class Batch(NamedTuple):
    """`k` independent minibatches of `b` transitions, as inputs of the approximators."""

    x: Float[Array, "k b inputs"]
    reward: Float[Array, "k b"]
    x_next: Float[Array, "k b inputs"]


class Objective(NamedTuple):
    """A method, independent of optimizers, schedules, seeds and devices.

    Attributes:
        init: `(key) -> (primal, dual)`. By convention `primal` is a dict whose entry "rate" is the scalar `r̂`.
        lagrangian: `(primal, dual, target, batch, hyper) -> scalar`, minimized over `primal`, maximized over `dual`. `target` is
            `primal` seen through a rule (current, copied, averaged); apply `stop_gradient` to it.
        reward_rate: `(primal) -> scalar`.
        values: `(primal, inputs) -> q`; None for methods without values.
        defaults: the numbers one may sweep and their defaults; None means "as `step_size`".
        minibatches: independent minibatches per step.
        projected: the entries of `primal` that the projected variant keeps in a ball; empty: there is no such variant.
        function: the entry of `primal` that holds the function: of values, or of a density ratio where there are no values.
        bootstraps: whether its goals are its own values, so that with networks it needs a target network.
    """

    init: Callable[[Array], tuple[Params, Params]]
    lagrangian: Callable[[Params, Params, Params, Batch, Hyper], Scalar]
    reward_rate: Callable[[Params], Scalar]
    values: Callable[[Params, Array], Array] | None
    defaults: dict[str, float | None]
    minibatches: int = 1
    projected: tuple[str, ...] = ()
    function: str = "values"
    bootstraps: bool = False

    @property
    def learns_ratio(self) -> bool:
        """Whether it learns a density ratio and no values."""
        return self.values is None

    @property
    def shapes(self) -> tuple[Params, Params]:
        """`primal` and `dual` as shapes and types."""
        return jax.eval_shape(lambda: self.init(jax.random.key(0)))

    @property
    def recorded(self) -> slice:
        """Where the function stands in all of `primal` but the rate, as one vector: the record "weights" of a sweep."""
        primal = self.shapes[0]
        sizes = {
            name: sum(leaf.size for leaf in jax.tree.leaves(primal[name])) for name in sorted(primal) if name != "rate"
        }
        start = sum(size for name, size in sizes.items() if name < self.function)
        return slice(start, start + sizes.get(self.function, 0))

    @property
    def has_dual(self) -> bool:
        """Whether anything is maximized over."""
        return bool(jax.tree.leaves(self.shapes[1]))


class State(NamedTuple):
    """The state of a run between two steps: all that the next step needs; None where a variant does not need it."""

    primal: Params
    dual: Params
    target: Params
    average: Params
    optimizer: Any
    count: Any


class Info(NamedTuple):
    """Diagnostics of a step."""

    lagrangian: Scalar


class Algorithm(NamedTuple):
    """An objective with an optimizer: pure functions of explicit state.

    Attributes:
        init: `(key, hyper) -> State`.
        step: `(state, batch, hyper) -> (State, Info)`.
        report: `(state) -> primal`, the iterate to report: the running average for projected variants.
        minibatches: as in `Objective`.
    """

    init: Callable[[Array, Hyper], State]
    step: Callable[[State, Batch, Hyper], tuple[State, Info]]
    report: Callable[[State], Params]
    minibatches: int


def value_objective(
    q: Function,
    dual: Function | None,
    lagrangian: Callable[[Params, Params, Params, Batch, Hyper], Scalar],
    *,
    defaults: dict[str, float | None] | None = None,
    minibatches: int = 1,
    projected: tuple[str, ...] = (),
    bootstraps: bool = False,
) -> Objective:
    """An objective whose primal is a rate that starts at zero and a value function `q`, `{"rate": r̂, "values": …}`."""

    def init(key: Array) -> tuple[Params, Params]:
        primal_key, dual_key = jax.random.split(key) if dual is not None else (key, key)
        return {"rate": jnp.zeros(()), "values": q.init(primal_key)}, {} if dual is None else dual.init(dual_key)

    return Objective(
        init=init,
        lagrangian=lagrangian,
        reward_rate=lambda primal: primal["rate"],
        values=lambda primal, x: q.apply(primal["values"], x),
        defaults={"step_size": 0.01, "ridge": 0.0, **(defaults or {})},
        minibatches=minibatches,
        projected=projected,
        bootstraps=bootstraps,
    )
