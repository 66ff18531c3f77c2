"""The rates study: random problems that satisfy the assumptions, and on each runs of every length."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from cesaro import exact, problems
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.files import Arrays
from cesaro.learning import Sweep, sweep
from cesaro.linear import LinearProblem
from cesaro.reproduce import study
from cesaro.reproduce.rates import show
from cesaro.reproduce.rates.config import METHODS, Config, command
from cesaro.reproduce.rates.result import Chosen, Result

# Candidates for a seed of the study: numbers seed · CANDIDATES, seed · CANDIDATES + 1, …
CANDIDATES = 1_000


def run(config: Config, out: str | Path, *, workers: int = 2, force: bool = False, quiet: bool = False) -> Result:
    """Run the study, or what is left of it, and leave two tables, a figure and `manifest.json` in `out`.

    The results are the same for every number of workers, and after any interruption.

    Raises:
        InputError: a setting breaks its rule, too few candidates satisfy the assumptions, or `out` cannot be used.
    """
    study.check_workers(workers)
    with study.Folder(out, {"study": "rates", **asdict(config)}, force=force) as work:
        chosen, rejected = choose(config)
        pieces = study.compute(work, _jobs(config, chosen), label="rates", workers=workers, quiet=quiet)
        result = Result(config, chosen, rejected, _errors(chosen, pieces))
        show.write_errors(result, work.file("rates.csv"))
        show.write_problems(result, work.file("problems.csv"))
        show.plot(result).savefig(work.file("rates.png"), dpi=150, metadata={"Software": None})
        manifest = study.manifest("rates", asdict(config), seed=config.seed, options={}, summary=result.summary())
        work.finish({**manifest, "command": command(config)})
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


def _minibatches(method: str) -> int:
    return 2 if method == "diff-gq2" else 1
