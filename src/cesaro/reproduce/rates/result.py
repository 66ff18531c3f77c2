"""What came out of the rates study: squared errors of every run, and their slopes against samples."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cesaro.checks import Array
from cesaro.linear import LinearProblem
from cesaro.reproduce.rates.config import METHODS, Config

# The exponent of the guarantee, and the one to expect.
GUARANTEED, EXPECTED = -0.5, -1.0
# Probabilities to fail: the 1 − δ quantiles over runs are compared with the bound. Of 40 runs two are above the last one.
DELTAS = (0.5, 0.2, 0.1, 0.05)
# The squared error that the lemma of each method bounds.
BOUNDED = {"diff-gq1": "solution", "diff-gq2": "weights"}


@dataclass(frozen=True)
class Chosen:
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

    def step_size(self, config: Config, method: str, horizon: int) -> float:
        """`α_N = share · α_max · (N_1/N)^½`."""
        return config.step_share * self.max_steps[method] * math.sqrt(config.horizons[0] / horizon)


@dataclass(frozen=True)
class Slope:
    """Of log error against log samples, mean over problems, with a 95 % bootstrap interval over problems and runs.

    Attributes:
        by_problem: the slope of every problem, `[problems]`.
    """

    value: float
    low: float
    high: float
    by_problem: Array


@dataclass(frozen=True)
class Result:
    """Squared errors of every run, and slopes.

    Attributes:
        chosen: the problems.
        rejected: numbers of the candidates that broke an assumption.
        errors: by series, `[problems, horizons, runs]`. A series is (method, quantity); the quantities are "solution"
            ‖ū − u_TD‖², "weights" ‖w̄ − w_TD‖², "rate" (r̄ − r_TD)², "truth" (r̄ − r_π)², "last" (r̂ − r_TD)² of the raw iterate and,
            for Diff-GQ2 with the constant β, "constant" and "constant-last", the squared errors to r_TD of the average and of
            the raw iterate.
    """

    config: Config
    chosen: tuple[Chosen, ...]
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
        """Over runs and problems, `[horizons]`."""
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
        """Over all horizons, by series."""
        return self._slopes(0)

    @cached_property
    def late_slopes(self) -> dict[tuple[str, str], Slope]:
        """Over the longer half of the horizons, by series."""
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
        """Of the quantiles of what the lemmas bound, over all horizons, by method and `δ`."""
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
