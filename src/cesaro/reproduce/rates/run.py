"""The finite-sample analysis: how fast Projected Diff-GQ1 and Diff-GQ2 approach the TD fixed point on random problems.

The guarantee (appendix of the paper): with a constant step α ∝ N^{−½} for a run of N samples, iterates kept in balls that hold
the solution, and averages reported, ‖ū − u_TD‖² = O(N^{−½}) with high probability; the error to r_π then has a floor, what the
features cannot express. Diff-GQ2's r̂ follows the averaged weights with a constant step β, and its mean square error keeps a
term O(1), the variance of a constant-step average.

What to expect: the update is affine, so that the average of N iterates errs by the forgetting of the start, (−G)⁻¹(κ₀ − κ*)/(αN),
and by noise of variance O(1/N). With α ∝ N^{−½} both squares are O(1/N): the bound is not tight here.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from cesaro import exact, problems
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.files import Arrays, Workspace
from cesaro.learning import Sweep, sweep
from cesaro.linear import LinearProblem
from cesaro.reproduce import study

METHODS = ("diff-gq1", "diff-gq2")
# The exponent of the guarantee, and the one to expect.
GUARANTEED, EXPECTED = -0.5, -1.0
# Candidates for a seed of the study: numbers seed · CANDIDATES, seed · CANDIDATES + 1, …
CANDIDATES = 1_000
QUICK: dict[str, Any] = {"problems": 6, "horizons": tuple(2**k for k in range(8, 14)), "runs": 20, "resamples": 300}


@dataclass(frozen=True)
class Config:
    """The settings of the study; the defaults are the full study.

    Attributes:
        problems: how many random problems that satisfy the assumptions.
        states, actions, features: their size.
        concentration: of their random rows, policies and sampling distributions; the smaller, the harder.
        off_policy: share of the random distribution in the sampling distribution; the rest is the target's own stationary one.
        xi: F ⪰ 0 must hold at this ξ.
        horizons: numbers N of samples. Each has runs of its own with a step size of its own.
        runs: independent runs per problem, method and horizon.
        step_share: the step size at the shortest horizon, as a share of the largest one that is stable in mean square.
        radius_factor: the balls' radius, in units of ‖u_TD‖.
        rate_step_size: the constant β of Diff-GQ2's r̂ in the third panel; elsewhere β = α.
        resamples: of the bootstrap behind the intervals.
        seed: problems are searched from number `1000 · seed` on; run `i` of the j-th problem uses the stream of samples number
            `(seed · problems + j) · runs + i`.
    """

    problems: int = 20
    states: int = 7
    actions: int = 3
    features: int = 3
    concentration: float = 0.1
    off_policy: float = 0.2
    xi: float = 0.99
    horizons: tuple[int, ...] = tuple(2**k for k in range(8, 18))
    runs: int = 40
    step_share: float = 0.5
    radius_factor: float = 3.0
    rate_step_size: float = 0.1
    resamples: int = 1_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("problems", "states", "actions", "features"):
            value = getattr(self, name)
            _require(value >= 1, name, "an integer ≥ 1", value)
        _require(self.concentration > 0, "concentration", "a number > 0", self.concentration)
        _require(0 <= self.off_policy <= 1, "off_policy", "a number from 0 to 1", self.off_policy)
        _require(0 < self.xi < 1, "xi", "a number between 0 and 1", self.xi)
        first = self.horizons[0] if self.horizons else 0
        right = len(self.horizons) >= 3 and first >= 2 and first % 2 == 0 and self.horizons[-1] < 2**31
        right = right and all(a < b and b % first == 0 for a, b in zip(self.horizons, self.horizons[1:]))
        rule = "at least three increasing multiples of the first, which must be even"
        _require(right, "horizons", rule, self.horizons)
        _require(self.runs >= 2, "runs", "an integer ≥ 2", self.runs)
        _require(0 < self.step_share < 1, "step_share", "a number between 0 and 1", self.step_share)
        _require(1 < self.radius_factor < math.inf, "radius_factor", "a finite number > 1", self.radius_factor)
        _require(0 < self.rate_step_size <= 1, "rate_step_size", "a number > 0 and at most 1", self.rate_step_size)
        _require(self.resamples >= 100, "resamples", "an integer ≥ 100", self.resamples)
        last = 2**32 // (self.problems * self.runs) - 1
        _require(0 <= self.seed <= last, "seed", f"an integer from 0 to {last}", self.seed)


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

    def typical(self, method: str, quantity: str) -> Array:
        """The geometric mean of that over problems, `[horizons]`: problems differ in scale by orders of magnitude."""
        return np.asarray(np.exp(np.log(self.means(method, quantity)).mean(axis=0)))

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
            "floor": round(self.floor, 6),
            "rms_error_to_truth": {
                method: round(float(self.root_mean_square(method, "truth")[-1]), 6) for method in METHODS
            },
            "raw_rate_variance_over_predicted": round(float(np.mean(raw / self.predicted_variance)), 4),
        }


def run(config: Config, out: str | Path, *, workers: int = 2, force: bool = False, quiet: bool = False) -> Result:
    """Run the study, or what is left of it, and leave two tables, a figure and `manifest.json` in `out`.

    The results are the same for every number of workers, and after any interruption.

    Raises:
        InputError: a setting breaks its rule, too few candidates satisfy the assumptions, or `out` cannot be used.
    """
    from cesaro.reproduce.rates import figures as rates_figures
    from cesaro.reproduce.rates import show as rates_tables

    study.check_workers(workers)
    chosen, rejected = choose(config)
    with Workspace(out, {"study": "rates", **asdict(config)}, force=force) as work:
        pieces = study.compute(work, _jobs(config, chosen), label="rates", workers=workers, quiet=quiet)
        result = Result(config, chosen, rejected, _errors(chosen, pieces))
        rates_tables.write_errors(result, work.path / "rates.csv")
        rates_tables.write_problems(result, work.path / "problems.csv")
        rates_figures.plot(result).savefig(work.path / "rates.png", dpi=150, metadata={"Software": None})
        manifest = study.manifest("rates", asdict(config), seed=config.seed, options={}, summary=result.summary())
        work.finish({**manifest, "command": _command(config)})
    return result


def choose(config: Config) -> tuple[tuple[Chosen, ...], tuple[int, ...]]:
    """The first candidates that satisfy every assumption of the propositions, and the numbers of those that do not."""
    chosen: list[Chosen] = []
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


def candidate(config: Config, number: int) -> LinearProblem:
    """A random problem with centered features."""
    size = config.states, config.actions, config.features
    problem = problems.random_problem(number, *size, concentration=config.concentration)
    own = exact.stationary_distribution(problem.mdp, problem.policy)
    return problem.replace(sampling=(1 - config.off_policy) * own + config.off_policy * problem.sampling).centered()


def _known(number: int, position: int, problem: LinearProblem, margin: float) -> Chosen:
    point = problem.td_fixed_point()
    assert point.reward_rate is not None  # the fixed point is unique
    assert point.weights is not None
    stability = {method: problem.stability(method) for method in METHODS}
    pair, next_pair, probability = problem.sample_space
    rho = problem.r[pair] + (problem.X[next_pair] - problem.X[pair]) @ point.weights
    variance = float(probability @ rho**2 - (probability @ rho) ** 2)
    return Chosen(
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


def learn(config: Config, chosen: Chosen, method: str) -> Sweep:
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
        window=_minibatches(method),
        record=("weights", "last_reward_rate"),
        radius=config.radius_factor * chosen.size,
        workers=1,
        quiet=True,
    )


def slope(errors: Array, log_horizons: Array, resamples: int, seed: int) -> Slope:
    """Least squares slopes of the log of the mean over runs, `[problems, horizons, runs]`, and their mean over problems.

    The bootstrap draws problems with replacement and, within each drawn problem, runs.
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
        sums = random.multinomial(runs, np.full(runs, 1 / runs), size=count)  # how often each run is drawn
        means = np.einsum("pr,prh->ph", sums, by_run[drawn]) / runs
        found[i] = mean_slopes(np.log(means)).mean()
    each = mean_slopes(np.log(errors.mean(axis=2)))
    low, high = np.quantile(found, [0.025, 0.975])
    return Slope(float(each.mean()), float(low), float(high), each)


def _jobs(config: Config, chosen: tuple[Chosen, ...]) -> dict[str, Callable[[], Arrays]]:
    # Methods in turn, so that they compile side by side.
    pairs = [(problem, method) for problem in chosen for method in reversed(METHODS)]
    return {_name(problem, method): partial(_piece, config, problem, method) for problem, method in pairs}


def _name(chosen: Chosen, method: str) -> str:
    return f"{method}_{chosen.number}"


def _piece(config: Config, chosen: Chosen, method: str) -> Arrays:
    """What the runs of each horizon end with."""
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


def _errors(chosen: tuple[Chosen, ...], pieces: Mapping[str, Arrays]) -> dict[tuple[str, str], Array]:
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


def _command(config: Config) -> str:
    """A command that gives these settings; where no options do, the manifest itself does."""
    if config == Config(**{**QUICK, "seed": config.seed}):
        return f"cesaro reproduce rates --quick --seed {config.seed}"
    if config == Config(problems=config.problems, runs=config.runs, seed=config.seed):
        return f"cesaro reproduce rates --problems {config.problems} --runs {config.runs} --seed {config.seed}"
    return "cesaro reproduce --from manifest.json"


def _minibatches(method: str) -> int:
    return 2 if method == "diff-gq2" else 1


def _require(holds: bool, name: str, rule: str, value: Any) -> None:
    if not holds:
        raise InputError(f"The '{name}' setting of the rates study must be {rule}. Got {value} instead.")
