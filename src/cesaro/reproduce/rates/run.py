"""The rates study: random problems that satisfy the assumptions, on each runs of every length, and slopes of their errors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from cesaro import exact, problems
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.files import Arrays
from cesaro.learning import Sweep, sweep
from cesaro.linear import LinearProblem
from cesaro.reproduce.rates.config import METHODS, RatesConfig
from cesaro.reproduce.settings import minibatches
from cesaro.reproduce.study import Jobs, Study

# Candidates for a seed of the study: numbers seed · CANDIDATES, seed · CANDIDATES + 1, …
CANDIDATES = 1_000
# The exponent of the guarantee, and the one to expect.
GUARANTEED, EXPECTED = -0.5, -1.0
# Probabilities to fail: the 1 − δ quantiles over runs are compared with the bound. Of 40 runs two are above the last one.
DELTAS = (0.5, 0.2, 0.1, 0.05)
# The squared error that the lemma of each method bounds.
BOUNDED = {"diff-gq1": "solution", "diff-gq2": "weights"}


@dataclass(frozen=True)
class ChosenProblem:
    """A problem that satisfies the assumptions, and what is known of it exactly.

    Attributes:
        number: the seed of `cesaro.problems.random_problem`.
        position: among the chosen ones.
        solution: `u_TD = [r̂, w]`, `[K + 1]`.
        truth: `r_π`.
        margin: ξ minus the projected operator's norm, by how far F ⪰ 0 holds.
        max_steps: largest step that is stable in mean square, by method.
        time_constants: updates at step size 1 after which the slowest direction has shrunk by e, by method.
        rate_variance: of `½(ρ₁ + ρ₂)` at the solution, what Diff-GQ2's r̂ averages.
    """

    number: int
    position: int
    problem: LinearProblem
    solution: Array
    truth: float
    margin: float
    max_steps: dict[str, float]
    time_constants: dict[str, float]
    rate_variance: float

    @property
    def size(self) -> float:
        """`‖u_TD‖`; its square is the error of the start, 0."""
        return float(np.linalg.norm(self.solution))

    @property
    def floor(self) -> float:
        """`|r_TD − r_π|`, exactly: what no number of samples removes."""
        return abs(float(self.solution[0]) - self.truth)

    def step_size(self, config: RatesConfig, method: str, horizon: int) -> float:
        """`α_N = share · α_max · (N_1/N)^½`."""
        return config.step_share * self.max_steps[method] * math.sqrt(config.horizons[0] / horizon)


@dataclass(frozen=True)
class Slope:
    """A slope of log error against log samples, mean over problems, with a 95 % bootstrap interval over problems and runs.

    Attributes:
        by_problem: the slope of every problem, `[problems]`.
    """

    value: float
    low: float
    high: float
    by_problem: Array


@dataclass(frozen=True)
class RatesResult:
    """Squared errors of every run, and slopes.

    Attributes:
        chosen: the problems.
        rejected: numbers of the candidates that broke an assumption.
        errors: by series, `[problems, horizons, runs]`. A series is (method, quantity); the quantities are "solution"
            ‖ū − u_TD‖², "weights" ‖w̄ − w_TD‖², "rate" (r̄ − r_TD)², "truth" (r̄ − r_π)², "last" (r̂ − r_TD)² of the raw iterate and,
            for Diff-GQ2 with the constant β, "constant" and "constant-last", the squared errors to r_TD of the average and of
            the raw iterate.
    """

    config: RatesConfig
    chosen: tuple[ChosenProblem, ...]
    rejected: tuple[int, ...]
    errors: dict[tuple[str, str], Array]

    def means(self, method: str, quantity: str) -> Array:
        """Mean squared error over runs, `[problems, horizons]`."""
        return np.asarray(self.errors[method, quantity].mean(axis=2))

    def quantiles(self, method: str, quantity: str, delta: float) -> Array:
        """The `1 − δ` quantile of the squared error over runs, `[problems, horizons]`."""
        return np.asarray(np.quantile(self.errors[method, quantity], 1 - delta, axis=2))

    def constants(self, method: str, delta: float) -> Array:
        """The least `K₀` with which `K₀ √(5/N) (8 + 2 log(2/δ))` bounds that quantile, `[problems, horizons]`."""
        shape = np.sqrt(5 / np.array(self.config.horizons)) * (8 + 2 * math.log(2 / delta))
        return self.quantiles(method, BOUNDED[method], delta) / shape

    def typical(self, method: str, quantity: str) -> Array:
        """The typical mean over problems, `[horizons]`."""
        return typical(self.means(method, quantity))

    def root_mean_square(self, method: str, quantity: str) -> Array:
        """The root mean square error over runs and problems, `[horizons]`."""
        return np.asarray(np.sqrt(self.means(method, quantity).mean(axis=0)))

    @property
    def floor(self) -> float:
        """The root mean square of `r_TD − r_π` over problems."""
        return math.sqrt(float(np.mean([problem.floor**2 for problem in self.chosen])))

    @property
    def predicted_variance(self) -> Array:
        """The variance of Diff-GQ2's raw r̂ around r_TD at the constant β, `β/(2 − β) Var ½(ρ₁ + ρ₂)`, `[problems]`."""
        beta = self.config.rate_step_size
        return np.array([beta / (2 - beta) * problem.rate_variance for problem in self.chosen])

    @cached_property
    def slopes(self) -> dict[tuple[str, str], Slope]:
        """Slopes over all horizons, by series."""
        return self._slopes(0)

    @cached_property
    def late_slopes(self) -> dict[tuple[str, str], Slope]:
        """Slopes over the longer half of the horizons, by series."""
        return self._slopes(min(len(self.config.horizons) // 2, len(self.config.horizons) - 2))

    def _slopes(self, first: int) -> dict[tuple[str, str], Slope]:
        horizons = np.log(np.array(self.config.horizons[first:], dtype=float))
        return {
            series: slope(np.asarray(errors[:, first:]), horizons, self.config.resamples, self.config.seed)
            for series, errors in self.errors.items()
            if series[1] != "truth"
        }

    @cached_property
    def quantile_slopes(self) -> dict[tuple[str, float], Slope]:
        """Slopes of the quantiles of what the lemmas bound, over all horizons, by method and `δ`."""
        horizons = np.log(np.array(self.config.horizons, dtype=float))
        return {
            (method, delta): slope(
                self.errors[method, BOUNDED[method]], horizons, self.config.resamples, self.config.seed, delta
            )
            for method in METHODS
            for delta in DELTAS
        }

    @property
    def guarantee_is_probable(self) -> bool:
        """Whether the whole interval of the quantiles' slopes is at or below the guaranteed −½, at every `δ`."""
        return all(found.high <= GUARANTEED for found in self.quantile_slopes.values())

    @property
    def guarantee_holds(self) -> bool:
        """Whether the whole interval of both methods' slopes is at or below the guaranteed −½."""
        return all(self.slopes[method, "solution"].high <= GUARANTEED for method in METHODS)

    def summary(self) -> dict[str, Any]:
        """The findings in JSON values."""

        def shown(found: Slope) -> dict[str, float]:
            spread = {"flattest": found.by_problem.max(), "steepest": found.by_problem.min()}
            numbers = {"slope": found.value, "low": found.low, "high": found.high, **spread}
            return {name: round(float(value), 4) for name, value in numbers.items()}

        raw = self.means("diff-gq2", "constant-last")[:, -1]
        return {
            "problems": [problem.number for problem in self.chosen],
            "candidates_rejected": len(self.rejected),
            "guarantee_holds": self.guarantee_holds,
            "slopes": {f"{method} {what}": shown(found) for (method, what), found in self.slopes.items()},
            "late_slopes": {f"{method} {what}": shown(found) for (method, what), found in self.late_slopes.items()},
            "guarantee_is_probable": self.guarantee_is_probable,
            "quantile_slopes": {
                f"{method} {delta:g}": shown(found) for (method, delta), found in self.quantile_slopes.items()
            },
            "needed_constants": {
                f"{method} {delta:g}": [float(f"{value:.4g}") for value in typical(self.constants(method, delta))]
                for method in METHODS
                for delta in DELTAS
            },
            "floor": round(self.floor, 6),
            "rms_error_to_truth": {
                method: round(float(self.root_mean_square(method, "truth")[-1]), 6) for method in METHODS
            },
            "raw_rate_variance_over_predicted": round(float(np.mean(raw / self.predicted_variance)), 4),
        }


def typical(values: Array) -> Array:
    """The geometric mean over problems, the first axis: they differ in scale by orders of magnitude."""
    return np.asarray(np.exp(np.log(values).mean(axis=0)))


def slope(errors: Array, log_horizons: Array, resamples: int, seed: int, delta: float | None = None) -> Slope:
    """Least squares slopes of the log of the mean over runs, `[problems, horizons, runs]`, and their mean over problems.

    The bootstrap draws problems with replacement and, within each drawn problem, runs. With `delta` the `1 − δ` quantile over
    runs takes the place of the mean.
    """
    centered = log_horizons - log_horizons.mean()
    weights = centered / np.sum(centered**2)

    def mean_slopes(logs: Array) -> Array:
        return np.asarray(np.tensordot(logs, weights, axes=(-1, 0)))

    count, _, runs = errors.shape
    random = np.random.default_rng(seed)
    by_run = np.moveaxis(errors, 2, 1)  # [problems, runs, horizons]
    found = np.empty(resamples)
    for i in range(resamples):
        drawn = random.integers(count, size=count)
        if delta is None:
            sums = random.multinomial(runs, np.full(runs, 1 / runs), size=count)  # how often each run is drawn
            over_runs = np.einsum("pr,prh->ph", sums, by_run[drawn]) / runs
        else:
            rows = random.integers(runs, size=(count, runs, 1))
            over_runs = np.quantile(np.take_along_axis(by_run[drawn], rows, axis=1), 1 - delta, axis=1)
        found[i] = mean_slopes(np.log(over_runs)).mean()
    each = mean_slopes(np.log(errors.mean(axis=2) if delta is None else np.quantile(errors, 1 - delta, axis=2)))
    low, high = np.quantile(found, [0.025, 0.975])
    return Slope(float(each.mean()), float(low), float(high), each)


class RatesStudy(Study[RatesConfig, RatesResult]):
    """All runs of a method on a problem are a piece."""

    @cached_property
    def choice(self) -> tuple[tuple[ChosenProblem, ...], tuple[int, ...]]:
        """The problems, and the numbers of the candidates that broke an assumption."""
        return choose(self.config)

    def jobs(self) -> Jobs:
        # Methods in turn, so that they compile side by side.
        pairs = [(problem, method) for problem in self.choice[0] for method in reversed(METHODS)]
        return {_name(problem, method): partial(_piece, self.config, problem, method) for problem, method in pairs}

    def result(self, pieces: Mapping[str, Arrays]) -> RatesResult:
        return RatesResult(self.config, *self.choice, _errors(self.choice[0], pieces))


STUDY = RatesStudy


def choose(config: RatesConfig) -> tuple[tuple[ChosenProblem, ...], tuple[int, ...]]:
    """The first candidates that satisfy every assumption of the propositions, and the numbers of those that do not."""
    chosen: list[ChosenProblem] = []
    rejected: list[int] = []
    for number in range(config.seed * CANDIDATES, (config.seed + 1) * CANDIDATES):
        if len(chosen) == config.problems:
            break
        problem = candidate(config, number)
        report, point = problem.assumptions(config.xi), problem.td_fixed_point()
        if not all(assumption.holds for assumption in report) or point.kind != "unique":
            rejected.append(number)
            continue
        chosen.append(_known(number, len(chosen), problem, report["F-positive"].margin))
    if len(chosen) < config.problems:
        raise InputError(
            f"Only {len(chosen)} of {CANDIDATES} random problems satisfy all assumptions at ξ = {config.xi:g}, and the "
            f"rates study needs {config.problems}; take fewer problems, fewer features, or a larger xi or concentration."
        )
    return tuple(chosen), tuple(rejected)


def candidate(config: RatesConfig, number: int) -> LinearProblem:
    """A random problem with centered features."""
    size = config.states, config.actions, config.features
    problem = problems.random_problem(number, *size, concentration=config.concentration)
    own = exact.stationary_distribution(problem.mdp, problem.policy)
    return problem.replace(sampling=(1 - config.off_policy) * own + config.off_policy * problem.sampling).centered()


def _known(number: int, position: int, problem: LinearProblem, margin: float) -> ChosenProblem:
    point = problem.td_fixed_point()
    assert point.reward_rate is not None  # the fixed point is unique
    assert point.weights is not None
    stability = {method: problem.stability(method) for method in METHODS}
    pair, next_pair, probability = problem.sample_space
    rho = problem.r[pair] + (problem.X[next_pair] - problem.X[pair]) @ point.weights
    variance = float(probability @ rho**2 - (probability @ rho) ** 2)
    return ChosenProblem(
        number=number,
        position=position,
        problem=problem,
        solution=np.append(point.reward_rate, point.weights),
        truth=problem.exact.reward_rate,
        margin=margin,
        max_steps={method: found.max_step_sampled or 0.0 for method, found in stability.items()},
        time_constants={method: found.time_constant(1.0) for method, found in stability.items()},
        rate_variance=variance / 2,
    )


def learn(config: RatesConfig, chosen: ChosenProblem, method: str) -> Sweep:
    """All runs of a method on a problem: every horizon's step size; for Diff-GQ2, with β = α and with the constant β."""
    settings = []
    for horizon in config.horizons:
        alpha = chosen.step_size(config, method, horizon)
        rates = (
            ({},) if method == "diff-gq1" else ({"rate_step_size": alpha}, {"rate_step_size": config.rate_step_size})
        )
        settings += [{"step_size": alpha, **rate} for rate in rates]
    first = (config.seed * config.problems + chosen.position) * config.runs
    return sweep(
        method,
        chosen.problem,
        settings=settings,
        seeds=range(first, first + config.runs),
        budget=config.horizons[-1],
        record_every=config.horizons[0],
        window=minibatches(method),
        record=("weights", "last_reward_rate"),
        radius=config.radius_factor * chosen.size,
        workers=1,
        quiet=True,
    )


def _name(chosen: ChosenProblem, method: str) -> str:
    return f"{method}_{chosen.number}"


def _piece(config: RatesConfig, chosen: ChosenProblem, method: str) -> Arrays:
    """Weights and rates that the runs of each horizon end with."""
    found = learn(config, chosen, method)
    at = np.array(config.horizons) // config.horizons[0] - 1
    horizon = np.arange(len(at))
    per_horizon = len(found.settings) // len(at)

    def ends(values: Array, offset: int = 0) -> Array:
        return np.asarray(values[horizon * per_horizon + offset, :, at])  # [horizons, runs, …]

    rate, last = found.reward_rate, found.records["last_reward_rate"]
    piece = {"weights": ends(found.records["weights"]), "rate": ends(rate), "last": ends(last)}
    if per_horizon == 2:
        piece |= {"constant": ends(rate, 1), "constant-last": ends(last, 1)}
    return piece


def _errors(chosen: tuple[ChosenProblem, ...], pieces: Mapping[str, Arrays]) -> dict[tuple[str, str], Array]:
    errors: dict[tuple[str, str], list[Array]] = {}
    for problem in chosen:
        for method in METHODS:
            piece = pieces[_name(problem, method)]
            weights = np.sum((piece["weights"] - problem.solution[1:]) ** 2, axis=-1)
            squares = {name: (values - problem.solution[0]) ** 2 for name, values in piece.items() if name != "weights"}
            squares |= {
                "solution": weights + squares["rate"],
                "weights": weights,
                "truth": (piece["rate"] - problem.truth) ** 2,
            }
            for name, values in squares.items():
                errors.setdefault((method, name), []).append(values)
    return {series: np.stack(parts) for series, parts in errors.items()}
