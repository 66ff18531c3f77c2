"""The updates on the counterexample: sampled runs of the methods themselves, and exactly what the expected update does."""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from cesaro import problems
from cesaro.algorithms import REGISTRY, State, saddle_point
from cesaro.approximators import linear
from cesaro.checks import Array
from cesaro.learning.source import SampleSource, draw, gather, source
from cesaro.linear import LinearProblem
from cesaro.linear.stability import Stability
from cesaro.reproduce.counterexample.config import Config, minibatches

# Where r̂ and every weight start; dual variables start at 0.
START = 1.0


# The sampled update.


class _Flow(NamedTuple):
    """Runs side by side: their states, scaled to norm one, and the logarithms of the scales, `[runs]`."""

    state: State
    scale: Any


def trajectories(config: Config, method: str, step_size: float) -> Array:
    """log ‖(r̂, w)‖ of every sampled run at the marks, `[runs, marks]`."""
    seeds = np.arange(config.seed * config.runs, (config.seed + 1) * config.runs)
    with jax.enable_x64(True):
        origin = source(problems.two_state_counterexample(), "float64")
        start, advance, look = _program(method)
        keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), 1))(jnp.asarray(seeds, jnp.uint32))
        alpha = jnp.asarray(step_size, jnp.float64)
        flow = start(keys)
        marks = config.marks(method, step_size)
        norms = [look(flow)]
        for first, last in zip(marks[:-1].tolist(), marks[1:].tolist()):
            flow = advance(origin, keys, flow, alpha, first, last)
            norms.append(look(flow))
        return np.stack([np.asarray(values, np.float64) for values in norms], axis=1)


@cache
def _program(method: str) -> tuple[Callable[..., _Flow], Callable[..., _Flow], Callable[[_Flow], Any]]:
    """The method itself, on many runs at once; compiled once for all step sizes and lengths."""
    algorithm = saddle_point(REGISTRY[method](linear, 1))
    samples = algorithm.minibatches

    def initial(key: jax.Array) -> State:
        state = algorithm.init(key, {})
        return state._replace(primal=jax.tree.map(lambda value: jnp.full_like(value, START), state.primal))

    @jax.jit
    def start(keys: jax.Array) -> _Flow:
        return _Flow(jax.vmap(initial)(keys), jnp.zeros(len(keys)))

    @jax.jit
    def advance(origin: SampleSource, keys: jax.Array, flow: _Flow, alpha: jax.Array, first: Any, last: Any) -> _Flow:
        hyper = {"step_size": alpha, "rate_step_size": alpha, "ridge": jnp.zeros_like(alpha)}

        def one(state: State, key: jax.Array, number: Any) -> State:
            batch = gather(origin, draw(origin.cumulative, key, number * samples, samples)[:, None])
            return algorithm.step(state, batch, hyper)[0]

        state = jax.lax.fori_loop(
            first, last, lambda number, state: jax.vmap(one, in_axes=(0, 0, None))(state, keys, number), flow.state
        )
        # The update is linear: to scale a state is to scale all that follows.
        size = _norm((state.primal, state.dual))
        smaller = {name: jax.tree.map(partial(_divide, size), getattr(state, name)) for name in ("primal", "dual")}
        return _Flow(state._replace(**smaller), flow.scale + jnp.log(size))

    return start, advance, jax.jit(lambda flow: flow.scale + jnp.log(_norm(flow.state.primal)))


def _norm(parts: Any) -> Any:
    """Over all but the first axis of all parts, `[runs]`."""
    return jnp.sqrt(sum(jnp.sum(leaf.reshape(len(leaf), -1) ** 2, axis=1) for leaf in jax.tree.leaves(parts)))


def _divide(size: Any, leaf: Any) -> Any:
    return leaf / size.reshape(-1, *(1,) * (leaf.ndim - 1))


# The expected update.


def expected_trajectory(stability: Stability, step_size: float, marks: NDArray[np.int64]) -> Array:
    """log ‖(r̂, w)‖ of the expected update at these numbers of updates, `[marks]`."""
    mean, layout = stability.mean, stability.mean.layout
    state = np.zeros(layout.size)
    state[layout.rate] = state[layout.weights] = START
    primal = np.r_[layout.rate, np.arange(layout.size)[layout.weights]]
    once = np.eye(layout.size) + step_size * mean.G
    norms, scale = [math.log(np.linalg.norm(state[primal]))], 0.0
    for gap in np.diff(marks).tolist():
        state = np.linalg.matrix_power(once, gap) @ state
        size = float(np.linalg.norm(state))
        state, scale = state / size, scale + math.log(size)
        norms.append(scale + math.log(np.linalg.norm(state[primal])))
    return np.array(norms)


def spectral_radius(stability: Stability, step_size: float) -> float:
    """ρ(I + αG)."""
    return float(np.max(np.abs(1 + step_size * stability.eigenvalues)))


def expected_exponent(stability: Stability, step_size: float) -> float:
    """log ρ(I + αG) per unit of `samples · α`."""
    return math.log(spectral_radius(stability, step_size)) / (step_size * minibatches(stability.method))


def lower_bound(problem: LinearProblem, step_size: float) -> float:
    """Half of E log |det(I + αG_k)| per unit of α, for Diff-SGQ with one feature: det(I + α y qᵀ) = 1 + α qᵀy.

    Example:
        >>> lower_bound(problems.two_state_counterexample(), 2.0**-10) > 2.4
        True
    """
    pair, next_pair, probability = problem.sample_space
    x, z = problem.X[pair, 0], problem.X[next_pair, 0] - problem.X[pair, 0]
    determinant = 1 + step_size * (x * z - 1)  # y = (1, x), q = (−1, z)
    with np.errstate(divide="ignore"):
        return float(probability @ np.log(np.abs(determinant)) / 2 / step_size)
