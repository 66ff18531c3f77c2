"""One construction for every method: descend the scalar in `primal`, ascend it in `dual`, both from the same point."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Scalar

from cesaro import checks
from cesaro.algorithms.base import Algorithm, Batch, Hyper, Info, Objective, Params, State
from cesaro.errors import InputError

Schedule = Callable[[Any, Scalar, Hyper], Scalar]  # (step number, base, hyper) -> step size


def constant(count: Any, base: Scalar, hyper: Hyper) -> Scalar:
    """`α_k = base`."""
    return base


def robbins_monro(count: Any, base: Scalar, hyper: Hyper) -> Scalar:
    """`α_k = base / (k + offset)^power`, `k = 0, 1, …`; the theory wants `½ < power ≤ 1`."""
    return base / (count.astype(base.dtype) + hyper["offset"]) ** hyper["power"]


SCHEDULES: dict[str, Schedule] = {"constant": constant, "robbins-monro": robbins_monro}
# What a schedule adds to the numbers one may sweep.
SCHEDULE_DEFAULTS: dict[str, dict[str, float]] = {"constant": {}, "robbins-monro": {"offset": 1.0, "power": 1.0}}


class Target(NamedTuple):
    """How the objective sees its own primal: a rule `(target, primal, step number) -> target`; None: as it is."""

    update: Callable[[Params, Params, Any], Params] | None


CURRENT = Target(None)


def copied(every: int) -> Target:
    """A copy of the primal, renewed every `every` steps."""
    checks.count("every", every)

    def update(target: Params, primal: Params, count: Any) -> Params:
        renew = count % every == 0
        return jax.tree.map(lambda old, new: jnp.where(renew, new, old), target, primal)

    return Target(update)


def tracked(mixing: float) -> Target:
    """An exponential average of the primal: `target += mixing (primal − target)`."""
    if checks.number("mixing", mixing, low=0.0, low_open=True) > 1:
        raise InputError(f"mixing must be at most 1. Got {mixing!r}.")
    return Target(lambda target, primal, count: optax.incremental_update(primal, target, mixing))


def saddle_point(
    objective: Objective,
    *,
    optimizer: optax.GradientTransformation | None = None,
    schedule: str = "constant",
    target: Target = CURRENT,
    is_projected: bool = False,
) -> Algorithm:
    """Turn an objective into an algorithm.

    Args:
        objective: the scalar.
        optimizer: an Optax transformation *without* learning rate (`optax.scale_by_adam()`); default plain gradients. Step
            sizes multiply its output: `step_size` for the primal, `dual_step_size` for the dual and `rate_step_size` for the
            entry "rate" of the primal, each falling back to `step_size`.
        schedule: a name in `SCHEDULES`.
        target: the rule behind the objective's `target`; ignored by projected variants, whose target is the running average.
        is_projected: keep `objective.projected` and the dual in Euclidean balls of radius `hyper["radius"]` around zero, and
            report running averages of the iterates.
    """
    transform = optimizer or optax.identity()
    rule = SCHEDULES[schedule]
    counts = schedule != "constant" or is_projected or target.update is not None

    def init(key: Array, hyper: Hyper) -> State:
        primal, dual = objective.init(key)
        return State(
            primal=primal,
            dual=dual,
            target=primal if target.update is not None and not is_projected else None,
            average=jax.tree.map(jnp.zeros_like, primal) if is_projected else None,
            optimizer=(transform.init(primal), transform.init(dual)),
            count=jnp.zeros((), jnp.int32) if counts else None,
        )

    def seen(state: State) -> Params:
        if is_projected:
            return state.average
        return state.primal if target.update is None else state.target

    def step(state: State, batch: Batch, hyper: Hyper) -> tuple[State, Info]:
        base: Any = hyper["step_size"]
        value, (down, up) = jax.value_and_grad(objective.lagrangian, argnums=(0, 1))(
            state.primal, state.dual, seen(state), batch, hyper
        )
        primal_state, dual_state = state.optimizer
        down, primal_state = transform.update(down, primal_state, state.primal)
        up, dual_state = transform.update(up, dual_state, state.dual)
        alpha = rule(state.count, base, hyper)
        ascent = rule(state.count, hyper.get("dual_step_size", base), hyper)
        # The only sign flip.
        primal = jax.tree.map(lambda value, change: value - alpha * change, state.primal, down)
        dual = jax.tree.map(lambda value, change: value + ascent * change, state.dual, up)
        if "rate_step_size" in hyper:
            rate_step = rule(state.count, hyper["rate_step_size"], hyper)
            primal = {**primal, "rate": state.primal["rate"] - rate_step * down["rate"]}
        if is_projected:
            inside = {name: primal[name] for name in objective.projected}
            primal = {**primal, **optax.projections.projection_l2_ball(inside, hyper["radius"])}
            dual = optax.projections.projection_l2_ball(dual, hyper["radius"])
        count: Any = state.count + 1 if counts else None
        moved = State(
            primal=primal,
            dual=dual,
            target=target.update(state.target, primal, count) if target.update and not is_projected else None,
            average=_running_mean(state.average, primal, count) if is_projected else None,
            optimizer=(primal_state, dual_state),
            count=count,
        )
        return moved, Info(value)

    def report(state: State) -> Params:
        return state.average if is_projected else state.primal

    return Algorithm(init, step, report, objective.minibatches)


def _running_mean(mean: Params, value: Params, count: Any) -> Params:
    return jax.tree.map(lambda m, v: m + (v - m) / count.astype(v.dtype), mean, value)
