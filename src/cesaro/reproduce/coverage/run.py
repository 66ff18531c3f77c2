"""How often the intervals of `DiffLSTD` hold what they are for: simulated logs of a known chain, and the exact limit.

An interval covers the limit of the estimator in its features under the law of the log, which the exact layer gives; what
features cannot express is no part of it. With one-hot features the influence series is a martingale difference, so that any
formula covers; the study therefore has features that do not fit, and a chain that hardly moves, where the formula for
independent rows must fail.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data import FeatureTransitions
from cesaro.errors import InputError
from cesaro.estimators import DiffLSTD, Estimate
from cesaro.estimators.influence import ENOUGH_CLUSTERS, independent
from cesaro.estimators.projection import COSINES, project
from cesaro.estimators.tabular import NotIdentified
from cesaro.files import Arrays, Workspace
from cesaro.reproduce import study
from cesaro.reproduce.coverage.chains import CHAINS, SERIES, Known, expected_features, known, quantities, simulate

RULES = ("default", "batches", "independent")
CONFIDENCE = 0.95
# Batch means: as many of equal length, with Student's t.
BATCHES = 20
# The promise: the share of logs covered, in every cell from this many autocorrelation times and logs on.
PROMISED, PROMISED_LENGTH, PROMISED_LOGS = (0.925, 0.97), 500, 1_000
# Independent rows must cover less than this on the sticky chain with misfit features, or the study proves nothing.
CONTRAST = 0.8
# Logs in a piece.
CHUNK = 50
QUICK: dict[str, Any] = {"logs": 40, "lengths": (50, 150)}


@dataclass(frozen=True)
class Config:
    """The settings of the study; the defaults are the full study.

    Attributes:
        logs: simulated logs per chain and number of trajectories.
        lengths: rows of a log, in autocorrelation times of the chain. Shorter logs are the beginnings of the longest.
        trajectories: how many equal ones a log consists of, each from the stationary law of the behavior.
        stay: probability that the sticky chain stays where it is for a step.
        ridge: of the features "ridge", which otherwise are the misfit ones.
        seed: a piece's random numbers depend on the seed, its chain, its number of trajectories and its own number.
    """

    logs: int = 1_000
    lengths: tuple[int, ...] = (50, 150, 500)
    trajectories: tuple[int, ...] = (1, 5, 50)
    stay: float = 0.85
    ridge: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        _require(self.logs >= 2, "logs", "an integer ≥ 2", self.logs)
        for name in ("lengths", "trajectories"):
            value = getattr(self, name)
            right = bool(value) and value[0] >= 1 and all(a < b for a, b in pairwise(value))
            _require(right, name, "increasing integers ≥ 1", value)
        _require(0 < self.stay < 1, "stay", "a number between 0 and 1", self.stay)
        _require(0 < self.ridge < math.inf, "ridge", "a finite number > 0", self.ridge)
        _require(0 <= self.seed < 2**32, "seed", "an integer from 0 to 2³² − 1", self.seed)

    @property
    def is_full(self) -> bool:
        """Whether the promise is about these settings."""
        return self.logs >= PROMISED_LOGS and self.lengths[-1] >= PROMISED_LENGTH and self.trajectories == (1, 5, 50)


def rows(config: Config, problem: Known) -> tuple[int, ...]:
    """Rows of a log for each length: rounded up, so that trajectories and batches are equal."""
    unit = math.lcm(BATCHES, *config.trajectories)
    return tuple(math.ceil(length * problem.autocorrelation_time / unit) * unit for length in config.lengths)


def intervals(problem: Known, pairs: NDArray[np.intp]) -> dict[tuple[str, str], tuple[Estimate, ...]]:
    """Estimates for all series on one log, by the rules in their order; a refused estimate is not there.

    Args:
        pairs: of each trajectory, the last one after the end of the log, `[trajectories, steps + 1]`.
    """
    pair, next_state = pairs[:, :-1].ravel(), pairs[:, 1:].ravel() // 2
    trajectory = np.repeat(np.arange(len(pairs)), pairs.shape[1] - 1)
    rewards = problem.mdp.rewards.ravel()[pair]
    found: dict[tuple[str, str], tuple[Estimate, ...]] = {}
    for kind, table in problem.features.items():
        try:
            one, other = (
                DiffLSTD(ridge=problem.ridges[kind], quiet=True).fit(
                    FeatureTransitions(
                        table.reshape(-1, table.shape[2])[pair],
                        rewards,
                        expected_features(target, table)[next_state],
                        trajectory=trajectory,
                    )
                )
                for target in problem.targets
            )
        except NotIdentified:
            continue
        values = quantities(kind, one.reward_rate_, other.reward_rate_, one.behavior_.value)
        series = quantities(kind, one.influence_, other.influence_, one.behavior_influence_)
        if not found:
            found["none", "behavior"] = _by_rule(one, one.behavior_.value, one.behavior_influence_)
        found |= {key: _by_rule(one, values[key], series[key]) for key in values}
    return found


def _by_rule(fitted: DiffLSTD, value: float, series: Array) -> tuple[Estimate, ...]:
    return (
        fitted.sampling_.over_time().estimate(value, series),
        batch_means(value, series),
        independent(value, project(fitted.sampling_.layout, 0, series)),
    )


def batch_means(value: float, series: Array) -> Estimate:
    """Means of equal batches as independent observations."""
    means = series.reshape(BATCHES, -1).mean(axis=1)
    return Estimate(value, float(means.std(ddof=1)) / math.sqrt(BATCHES), BATCHES - 1)


class Cell(NamedTuple):
    """What was found for one series in logs of one kind.

    Attributes:
        rows: of a log.
        answered: share of logs with an estimate; the rest was refused, as the log did not identify the rate.
        coverage: share of all logs whose interval holds the truth, by rule.
        half_width: mean of the intervals' half widths, by rule.
        bias: mean error of the estimates.
        deviation: standard deviation of the estimates.
    """

    chain: str
    trajectories: int
    length: int
    rows: int
    features: str
    quantity: str
    answered: float
    coverage: dict[str, float]
    half_width: dict[str, float]
    bias: float
    deviation: float


@dataclass(frozen=True)
class Result:
    """Estimates and half widths of every log.

    Attributes:
        problems: the chains, by name.
        estimates: by (chain, trajectories), `[lengths, series, logs]`; nan where refused.
        half_widths: the same by rule, `[lengths, series, rules, logs]`.
    """

    config: Config
    problems: dict[str, Known]
    estimates: dict[tuple[str, int], Array]
    half_widths: dict[tuple[str, int], Array]

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell, shortest logs first."""
        found = []
        for i, length in enumerate(self.config.lengths):
            for (chain, trajectories), estimates in self.estimates.items():
                problem = self.problems[chain]
                for j, key in enumerate(SERIES):
                    errors, halves = estimates[i, j] - problem.truths[key], self.half_widths[chain, trajectories][i, j]
                    answered = np.isfinite(errors)
                    covered = np.abs(errors) <= halves  # nan is not
                    some = bool(answered.any())
                    found.append(
                        Cell(
                            chain,
                            trajectories,
                            length,
                            rows(self.config, problem)[i],
                            *key,
                            answered=float(answered.mean()),
                            coverage={rule: float(covered[k].mean()) for k, rule in enumerate(RULES)},
                            half_width={
                                rule: float(halves[k, answered].mean()) if some else math.nan
                                for k, rule in enumerate(RULES)
                            },
                            bias=float(errors[answered].mean()) if some else math.nan,
                            deviation=float(errors[answered].std()) if some else math.nan,
                        )
                    )
        return tuple(found)

    def cells_at(self, length: int) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if cell.length == length)

    @property
    def promised(self) -> tuple[Cell, ...]:
        """Those of the longest logs."""
        return self.cells_at(self.config.lengths[-1])

    @property
    def outside(self) -> tuple[Cell, ...]:
        """Cells of the longest logs whose default intervals cover too little or too much."""
        low, high = PROMISED
        return tuple(cell for cell in self.promised if not low <= cell.coverage["default"] <= high)

    @property
    def contrast(self) -> tuple[Cell, ...]:
        """Single rates and differences of targets with misfit features on the sticky chain, longest logs."""
        return tuple(
            cell
            for cell in self.promised
            if (cell.chain, cell.features) == ("sticky", "misfit") and cell.quantity in ("rate", "difference")
        )

    @property
    def is_telling(self) -> bool:
        """Whether the study could have failed: independent rows cover too little where they should."""
        return all(cell.coverage["independent"] < CONTRAST for cell in self.contrast)

    def summary(self) -> dict[str, Any]:
        """The findings in JSON values."""

        def span(cells: tuple[Cell, ...], rule: str) -> list[float]:
            shares = [cell.coverage[rule] for cell in cells]
            return [round(min(shares), 4), round(max(shares), 4)]

        return {
            "autocorrelation_times": {
                name: round(problem.autocorrelation_time, 4) for name, problem in self.problems.items()
            },
            "rows": {name: list(rows(self.config, problem)) for name, problem in self.problems.items()},
            "cells": len(self.promised),
            "cells_outside": len(self.outside),
            "coverage": {str(length): span(self.cells_at(length), "default") for length in self.config.lengths},
            "coverage_batches": {str(length): span(self.cells_at(length), "batches") for length in self.config.lengths},
            "coverage_independent_contrast": span(self.contrast, "independent"),
            "is_telling": self.is_telling,
            "answered": round(min(cell.answered for cell in self.cells), 4),
        }


def run(config: Config, out: str | Path, *, workers: int = 2, force: bool = False, quiet: bool = False) -> Result:
    """Run the study, or what is left of it, and leave two tables, a figure and `manifest.json` in `out`.

    The results are the same for every number of workers, and after any interruption.

    Raises:
        InputError: a setting breaks its rule, or `out` cannot be used.
    """
    from cesaro.reproduce.coverage import figures as coverage_figures
    from cesaro.reproduce.coverage import show as coverage_tables

    study.check_workers(workers)
    problems = {name: known(name, config.stay, config.ridge) for name in CHAINS}
    # The pieces depend on the default rule too.
    settings = {"study": "coverage", **asdict(config), "cosines": COSINES, "enough_clusters": ENOUGH_CLUSTERS}
    with Workspace(out, settings, force=force) as work:
        pieces = study.compute(work, _jobs(config, problems), label="coverage", workers=workers, quiet=quiet)
        result = _result(config, problems, pieces)
        coverage_tables.write_cells(result, work.path / "coverage.csv")
        coverage_tables.write_series(result, work.path / "series.csv")
        coverage_figures.plot(result).savefig(work.path / "coverage.png", dpi=150, metadata={"Software": None})
        manifest = study.manifest("coverage", asdict(config), seed=config.seed, options={}, summary=result.summary())
        work.finish({**manifest, "command": _command(config)})
    return result


def _jobs(config: Config, problems: Mapping[str, Known]) -> dict[str, Callable[[], Arrays]]:
    return {
        _name(chain, trajectories, first): partial(_piece, config, problem, trajectories, first)
        for first in range(0, config.logs, CHUNK)
        for chain, problem in problems.items()
        for trajectories in config.trajectories
    }


def _name(chain: str, trajectories: int, first: int) -> str:
    return f"{chain}_{trajectories}_{first}"


def _piece(config: Config, problem: Known, trajectories: int, first: int) -> Arrays:
    """The logs from number `first` on, at most `CHUNK`; a log is the same however many there are."""
    rng = np.random.default_rng([config.seed, CHAINS.index(problem.name), trajectories, first])
    lengths, logs = rows(config, problem), min(CHUNK, config.logs - first)
    pairs = simulate(problem, CHUNK * trajectories, lengths[-1] // trajectories, rng)
    estimates = np.full((len(lengths), len(SERIES), logs), math.nan)
    halves = np.full((len(lengths), len(SERIES), len(RULES), logs), math.nan)
    for log in range(logs):
        own = pairs[log * trajectories : (log + 1) * trajectories]
        for i, count in enumerate(lengths):
            for key, by_rule in intervals(problem, own[:, : count // trajectories + 1]).items():
                j = SERIES.index(key)
                estimates[i, j, log] = by_rule[0].value
                halves[i, j, :, log] = [found.standard_error * _quantile(found.degrees_of_freedom) for found in by_rule]
    return {"estimates": estimates, "half_widths": halves}


@cache
def _quantile(degrees_of_freedom: float) -> float:
    return Estimate(0.0, 1.0, degrees_of_freedom).interval(CONFIDENCE)[1]


def _result(config: Config, problems: dict[str, Known], pieces: Mapping[str, Arrays]) -> Result:
    parts: dict[str, dict[tuple[str, int], Array]] = {"estimates": {}, "half_widths": {}}
    for chain in problems:
        for trajectories in config.trajectories:
            for what, by_kind in parts.items():
                chunks = [pieces[_name(chain, trajectories, k)][what] for k in range(0, config.logs, CHUNK)]
                by_kind[chain, trajectories] = np.concatenate(chunks, axis=-1)
    return Result(config, problems, parts["estimates"], parts["half_widths"])


def _command(config: Config) -> str:
    """A command that gives these settings; where no options do, the manifest itself does."""
    if config == Config(**{**QUICK, "seed": config.seed}):
        return f"cesaro reproduce coverage --quick --seed {config.seed}"
    if config == Config(logs=config.logs, seed=config.seed):
        return f"cesaro reproduce coverage --logs {config.logs} --seed {config.seed}"
    return "cesaro reproduce --from manifest.json"


def _require(holds: bool, name: str, rule: str, value: Any) -> None:
    if not holds:
        raise InputError(f"The '{name}' setting of the coverage study must be {rule}. Got {value} instead.")
