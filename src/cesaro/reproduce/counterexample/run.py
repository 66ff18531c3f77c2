"""The counterexample study: every method at every step size, sampled and in expectation."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
from cesaro.files import Arrays
from cesaro.learning.source import SampleSource, draw, gather, source
from cesaro.linear import LinearProblem
from cesaro.linear.stability import Stability
from cesaro.reproduce.counterexample.config import METHODS, CounterexampleConfig
from cesaro.reproduce.settings import minibatches
from cesaro.reproduce.study import Jobs, Study

# Where r̂ and every weight start; dual variables start at 0.
START = 1.0
# Points of a trajectory, after each of which a run is scaled back to norm one.
_MARKS = 80
# An exponent counts as positive or negative from this many standard errors on: one-sided error rate 0.0013 each.
CLEAR = 3.0
# Diff-GQ1 and Diff-GQ2 are promised to converge up to this step size.
PROMISED_STEP = 2.0**-6
# Step sizes at which the spectral radius of Diff-SGQ's expected update is evaluated.
EXPECTED_STEPS = tuple(2.0**k for k in range(-20, 11))


@dataclass(frozen=True)
class Growth:
    """A method at a step size. Exponents are per unit of `samples · α`.

    Attributes:
        samples: length of a run.
        exponent: mean over runs of the sampled exponent.
        standard_error: of that mean.
        expected: log ρ(I + αG) of the expected update, what its growth tends to.
        expected_so_far: the expected update's own growth from the same start over the same samples.
        lower_bound: of Diff-SGQ's sampled exponent in the long run; None for the others, and where the bound says nothing.
        log_distance: median over runs of log ‖(r̂, w)‖ at the end. At the start it is log √2.
        closer: share of the runs that end closer to the solution than they began.
    """

    method: str
    step_size: float
    samples: int
    runs: int
    exponent: float
    standard_error: float
    expected: float
    expected_so_far: float
    lower_bound: float | None
    log_distance: float
    closer: float

    @property
    def is_positive(self) -> bool:
        return self.exponent > CLEAR * self.standard_error

    @property
    def is_negative(self) -> bool:
        return self.exponent < -CLEAR * self.standard_error


@dataclass(frozen=True)
class Trajectories:
    """A method's runs at the shown step size.

    Attributes:
        samples: at the marks, `[marks]`.
        expected: log ‖(r̂, w)‖ of the expected update, `[marks]`.
        sampled: the same of every run, `[runs, marks]`.
    """

    method: str
    samples: NDArray[np.int64]
    expected: Array
    sampled: Array


@dataclass(frozen=True)
class CounterexampleResult:
    """Exponents, trajectories and the exact facts behind them.

    Attributes:
        cells: in the order method, step size.
        trajectories: one per method.
        stability: eigenvalues and step limits, by method.
        radii: spectral radius of Diff-SGQ's `I + αA` at `EXPECTED_STEPS`.
    """

    config: CounterexampleConfig
    cells: tuple[Growth, ...]
    trajectories: tuple[Trajectories, ...]
    stability: dict[str, Stability]
    radii: Array

    def of(self, method: str) -> list[Growth]:
        return [cell for cell in self.cells if cell.method == method]

    @property
    def expected_update_diverges(self) -> bool:
        """Whether every eigenvalue of A has a positive real part, and every radius exceeds one, as it must."""
        return bool((self.stability["diff-sgq"].eigenvalues.real > 0).all() and (self.radii > 1).all())

    @property
    def sampled_update_diverges(self) -> bool:
        """Whether Diff-SGQ's exponent is positive at every step size."""
        return all(cell.is_positive for cell in self.of("diff-sgq"))

    @property
    def gradient_methods_converge(self) -> bool | None:
        """Whether both exponents are negative up to the promised step size; None if no such step size was run."""
        cells = [cell for cell in self.cells if cell.method != "diff-sgq" and cell.step_size <= PROMISED_STEP]
        return all(cell.is_negative and cell.expected < 0 for cell in cells) if cells else None

    def summary(self) -> dict[str, Any]:
        """The findings in JSON values; complex eigenvalues as [real, imaginary]."""
        methods = {}
        for method, stability in self.stability.items():
            cells = self.of(method)
            methods[method] = {
                "eigenvalues": [
                    [round(value.real, 6), round(value.imag, 6)] for value in stability.eigenvalues.tolist()
                ],
                "max_step_expected": _rounded(stability.max_step_expected),
                "max_step_sampled": _rounded(stability.max_step_sampled),
                "exponents": {f"{cell.step_size:g}": round(cell.exponent, 6) for cell in cells},
                "standard_errors": {f"{cell.step_size:g}": round(cell.standard_error, 6) for cell in cells},
            }
        return {
            "expected_update_diverges": self.expected_update_diverges,
            "sampled_update_diverges": self.sampled_update_diverges,
            "gradient_methods_converge": self.gradient_methods_converge,
            "methods": methods,
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


class CounterexampleStudy(Study[CounterexampleConfig, CounterexampleResult]):
    """The sampled runs of a method at a step size are a piece; what is exact is computed when the result is."""

    def jobs(self) -> Jobs:
        # Longest first, so that no long piece is left to the end; methods in turn, so that they compile side by side.
        pairs = [(method, step) for step in sorted(self.config.step_sizes) for method in reversed(METHODS)]
        return {_name(*pair): partial(_piece, self.config, *pair) for pair in pairs}

    def result(self, pieces: Mapping[str, Arrays]) -> CounterexampleResult:
        config, problem = self.config, problems.two_state_counterexample()
        stability = {method: problem.stability(method) for method in METHODS}
        cells, shown = [], []
        for method in METHODS:
            for step_size in config.step_sizes:
                norms, at = pieces[_name(method, step_size)]["norms"], marks(config, method, step_size)
                expected = expected_trajectory(stability[method], step_size, at)
                cells.append(_growth(config, problem, stability[method], step_size, norms, expected))
                if step_size == config.shown_step_size:
                    shown.append(Trajectories(method, at * minibatches(method), expected, norms))
        radii = np.array([spectral_radius(stability["diff-sgq"], step) for step in EXPECTED_STEPS])
        return CounterexampleResult(config, tuple(cells), tuple(shown), stability, radii)


STUDY = CounterexampleStudy


def _piece(config: CounterexampleConfig, method: str, step_size: float) -> Arrays:
    return {"norms": trajectories(config, method, step_size)}


def _name(method: str, step_size: float) -> str:
    return f"{method}_{step_size!r}"


def marks(config: CounterexampleConfig, method: str, step_size: float) -> NDArray[np.int64]:
    """Numbers of updates at which a trajectory is looked at, from 0 to the end."""
    updates = max(1, round(config.length(method) / step_size / minibatches(method)))
    return np.unique(np.round(np.linspace(0, updates, _MARKS + 1)).astype(np.int64))


def _growth(
    config: CounterexampleConfig,
    problem: LinearProblem,
    stability: Stability,
    step_size: float,
    norms: Array,
    expected: Array,
) -> Growth:
    method = stability.method
    samples = int(marks(config, method, step_size)[-1]) * minibatches(method)
    growth = (norms[:, -1] - norms[:, 0]) / (samples * step_size)
    bound = lower_bound(problem, step_size) if method == "diff-sgq" else -math.inf
    return Growth(
        method=method,
        step_size=step_size,
        samples=samples,
        runs=config.runs,
        exponent=float(growth.mean()),
        standard_error=float(growth.std(ddof=1) / math.sqrt(config.runs)),
        expected=expected_exponent(stability, step_size),
        expected_so_far=float(expected[-1] - expected[0]) / (samples * step_size),
        lower_bound=bound if math.isfinite(bound) else None,
        log_distance=float(np.median(norms[:, -1])),
        closer=float((norms[:, -1] < norms[:, 0]).mean()),
    )


# The sampled update.


class _Flow(NamedTuple):
    """Runs side by side: their states, scaled to norm one, and the logarithms of the scales, `[runs]`."""

    state: State
    scale: Any


def trajectories(config: CounterexampleConfig, method: str, step_size: float) -> Array:
    """log ‖(r̂, w)‖ of every sampled run at the marks, `[runs, marks]`."""
    seeds = np.arange(config.seed * config.runs, (config.seed + 1) * config.runs)
    with jax.enable_x64(True):
        origin = source(problems.two_state_counterexample(), "float64")
        start, advance, look = _program(method)
        keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), 1))(jnp.asarray(seeds, jnp.uint32))
        alpha = jnp.asarray(step_size, jnp.float64)
        flow = start(keys)
        at = marks(config, method, step_size)
        norms = [look(flow)]
        for first, last in zip(at[:-1].tolist(), at[1:].tolist()):
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
    """The norm over all but the first axis of all parts, `[runs]`."""
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
