"""Section 3's counterexample: two states on which Diff-SGQ diverges at every constant step size, Diff-GQ1 and Diff-GQ2 converge.

Rewards are zero, so that every update is linear, κ ← (I + αG_k) κ, and the solution is 0. A run is summed up by its Lyapunov
exponent, the growth of log ‖(r̂, w)‖ per unit of `samples · α`: positive, it leaves every bound; negative, it goes to 0.

Diff-SGQ, expected: both eigenvalues λ of G = A have a positive real part, and then |1 + αλ|² = 1 + 2α Re λ + α²|λ|² > 1 for every
α > 0. Sampled: the exponents of a product of random matrices add up to E log |det(I + αG_k)|, so that the largest is at least
half of it; here that is `lower_bound`, positive for every α > 0 but those within 10⁻⁵ of 1, where one matrix is singular.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from cesaro import problems
from cesaro.algorithms import REGISTRY, State, saddle_point
from cesaro.approximators import linear
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.files import Arrays, Workspace
from cesaro.learning.source import Source, draw, gather, source
from cesaro.linear import LinearProblem
from cesaro.linear.stability import Stability
from cesaro.reproduce import study

METHODS = ("diff-sgq", "diff-gq1", "diff-gq2")
# Where r̂ and every weight start; dual variables start at 0.
START = 1.0
# An exponent counts as positive or negative from this many standard errors on: one-sided error rate 0.0013 each.
CLEAR = 3.0
# Diff-GQ1 and Diff-GQ2 are promised to converge up to this step size.
PROMISED_STEP = 2.0**-6
# Step sizes at which the spectral radius of Diff-SGQ's expected update is evaluated.
EXPECTED_STEPS = tuple(2.0**k for k in range(-20, 11))
QUICK: dict[str, Any] = {"step_sizes": tuple(2.0**k for k in range(-8, 1, 2)), "runs": 100}
# Points of a trajectory, after each of which a run is scaled back to norm one.
_MARKS = 80


@dataclass(frozen=True)
class Config:
    """The settings of the study; the defaults are the full study.

    Attributes:
        step_sizes: α.
        shown_step_size: the one whose trajectories are drawn, among `step_sizes`.
        runs: independent runs per method and step size.
        horizon: length of Diff-SGQ's runs, in units of 1/α samples.
        settling: the same for Diff-GQ1 and Diff-GQ2, whose slowest direction shrinks far more slowly than Diff-SGQ's grows.
        seed: run `i` uses the stream of samples number `seed · runs + i`; all methods and step sizes share them.
    """

    step_sizes: tuple[float, ...] = tuple(2.0**k for k in range(-10, 1))
    shown_step_size: float = 2.0**-6
    runs: int = 400
    horizon: float = 20.0
    settling: float = 100.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("horizon", "settling"):
            value = getattr(self, name)
            _require(1 <= value <= 1_000, name, "a number from 1 to 1000", value)
        steps = self.step_sizes
        # Two samples at least: an update of Diff-GQ2.
        most = min(self.horizon, self.settling) / 2
        right = bool(steps) and len(set(steps)) == len(steps) and all(1e-5 <= step <= most for step in steps)
        _require(right, "step_sizes", f"different numbers from 0.00001 to {most:g}", steps)
        _require(
            self.shown_step_size in steps, "shown_step_size", f"one of the step sizes {steps}", self.shown_step_size
        )
        _require(self.runs >= 2, "runs", "an integer ≥ 2", self.runs)
        last = 2**32 // self.runs - 1
        _require(0 <= self.seed <= last, "seed", f"an integer from 0 to {last}", self.seed)

    def length(self, method: str) -> float:
        """Of a method's runs, in units of 1/α samples."""
        return self.horizon if method == "diff-sgq" else self.settling

    def marks(self, method: str, step_size: float) -> NDArray[np.int64]:
        """Numbers of updates at which a trajectory is looked at, from 0 to the end."""
        updates = max(1, round(self.length(method) / step_size / _minibatches(method)))
        return np.unique(np.round(np.linspace(0, updates, _MARKS + 1)).astype(np.int64))


@dataclass(frozen=True)
class Cell:
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
class Result:
    """Exponents, trajectories and the exact facts behind them.

    Attributes:
        cells: in the order method, step size.
        trajectories: one per method.
        stability: eigenvalues and step limits, by method.
        radii: spectral radius of Diff-SGQ's `I + αA` at `EXPECTED_STEPS`.
    """

    config: Config
    cells: tuple[Cell, ...]
    trajectories: tuple[Trajectories, ...]
    stability: dict[str, Stability]
    radii: Array

    def of(self, method: str) -> list[Cell]:
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


def run(config: Config, out: str | Path, *, workers: int = 2, force: bool = False, quiet: bool = False) -> Result:
    """Run the study, or what is left of it, and leave two tables, a figure and `manifest.json` in `out`.

    The results are the same for every number of workers, and after any interruption.

    Raises:
        InputError: a setting breaks its rule, or `out` cannot be used.
    """
    from cesaro.reproduce.counterexample import figures as counterexample_figures
    from cesaro.reproduce.counterexample import show as counterexample_tables

    study.check_workers(workers)
    with Workspace(out, {"study": "counterexample", **asdict(config)}, force=force) as work:
        pieces = study.compute(work, _jobs(config), label="counterexample", workers=workers, quiet=quiet)
        result = _result(config, pieces)
        counterexample_tables.write_exponents(result, work.path / "counterexample.csv")
        counterexample_tables.write_trajectories(result, work.path / "trajectories.csv")
        counterexample_figures.plot(result).savefig(
            work.path / "counterexample.png", dpi=150, metadata={"Software": None}
        )
        summary = result.summary()
        manifest = study.manifest("counterexample", asdict(config), seed=config.seed, options={}, summary=summary)
        work.finish({**manifest, "command": _command(config)})
    return result


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
    def advance(origin: Source, keys: jax.Array, flow: _Flow, alpha: jax.Array, first: Any, last: Any) -> _Flow:
        hyper = {"step_size": alpha, "rate_step_size": alpha, "ridge": jnp.zeros_like(alpha)}

        def one(state: State, key: jax.Array, number: Any) -> State:
            batch = gather(origin, draw(origin, key, number * samples, samples)[:, None])
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
    return math.log(spectral_radius(stability, step_size)) / (step_size * _minibatches(stability.method))


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


# Pieces.


def _jobs(config: Config) -> dict[str, Callable[[], Arrays]]:
    def piece(method: str, step_size: float) -> Arrays:
        return {"norms": trajectories(config, method, step_size)}

    # Longest first, so that no long piece is left to the end; methods in turn, so that they compile side by side.
    pairs = [(method, step) for step in sorted(config.step_sizes) for method in reversed(METHODS)]
    return {_name(*pair): partial(piece, *pair) for pair in pairs}


def _name(method: str, step_size: float) -> str:
    return f"{method}_{step_size!r}"


def _result(config: Config, pieces: Mapping[str, Arrays]) -> Result:
    problem = problems.two_state_counterexample()
    stability = {method: problem.stability(method) for method in METHODS}
    cells, shown = [], []
    for method in METHODS:
        for step_size in config.step_sizes:
            norms, marks = pieces[_name(method, step_size)]["norms"], config.marks(method, step_size)
            expected = expected_trajectory(stability[method], step_size, marks)
            cells.append(_cell(config, problem, stability[method], step_size, norms, expected))
            if step_size == config.shown_step_size:
                shown.append(Trajectories(method, marks * _minibatches(method), expected, norms))
    radii = np.array([spectral_radius(stability["diff-sgq"], step) for step in EXPECTED_STEPS])
    return Result(config, tuple(cells), tuple(shown), stability, radii)


def _cell(
    config: Config, problem: LinearProblem, stability: Stability, step_size: float, norms: Array, expected: Array
) -> Cell:
    method = stability.method
    samples = int(config.marks(method, step_size)[-1]) * _minibatches(method)
    growth = (norms[:, -1] - norms[:, 0]) / (samples * step_size)
    bound = lower_bound(problem, step_size) if method == "diff-sgq" else -math.inf
    return Cell(
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


def _command(config: Config) -> str:
    """A command that gives these settings; where no options do, the manifest itself does."""
    if config == Config(**{**QUICK, "seed": config.seed}):
        return f"cesaro reproduce counterexample --quick --seed {config.seed}"
    if config == Config(runs=config.runs, seed=config.seed):
        return f"cesaro reproduce counterexample --runs {config.runs} --seed {config.seed}"
    return "cesaro reproduce --from manifest.json"


def _minibatches(method: str) -> int:
    return 2 if method == "diff-gq2" else 1


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _require(holds: bool, name: str, rule: str, value: Any) -> None:
    if not holds:
        raise InputError(f"The '{name}' setting of the counterexample study must be {rule}. Got {value} instead.")
