"""The coverage study: simulated logs, and on each the intervals by several rules."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.closed_forms.growth import NOISE
from cesaro.closed_forms.tabular import NotIdentified
from cesaro.data import FeatureTransitions
from cesaro.estimators import DiffLSTD, Estimate
from cesaro.features import COMPONENTS
from cesaro.files import Arrays
from cesaro.passes.projection import COSINES, project
from cesaro.passes.standard_errors import ENOUGH_CLUSTERS, independent
from cesaro.reproduce import study
from cesaro.reproduce.coverage import default, show
from cesaro.reproduce.coverage.chains import CHAINS, SERIES, Known, expected_features, known, quantities, simulate
from cesaro.reproduce.coverage.config import BATCHES, CONFIDENCE, Config, command, rows
from cesaro.reproduce.coverage.result import RULES, Result

# Logs in a piece.
CHUNK = 50


def run(config: Config, out: str | Path, *, workers: int = 2, force: bool = False, quiet: bool = False) -> Result:
    """Run the study, or what is left of it, and leave three tables, two figures and `manifest.json` in `out`.

    The results are the same for every number of workers, and after any interruption.

    Raises:
        InputError: a setting breaks its rule, or `out` cannot be used.
    """
    study.check_workers(workers)
    # The pieces depend on the default rule too.
    rules = {"cosines": COSINES, "enough_clusters": ENOUGH_CLUSTERS, "noise": NOISE, "components": COMPONENTS}
    settings = {"study": "coverage", **asdict(config), **rules}
    with study.Folder(out, settings, force=force) as work:
        problems = {name: known(name, config.stay, config.ridge) for name in CHAINS}
        pieces = study.compute(work, _jobs(config, problems), label="chains", workers=workers, quiet=quiet)
        on_systems = study.compute(work, default.jobs(config), label="systems", workers=workers, quiet=quiet)
        result = _result(config, problems, pieces, default.Result.of(config, on_systems))
        show.write_cells(result, work.file("coverage.csv"))
        show.write_series(result, work.file("series.csv"))
        show.write_systems(result, work.file("systems.csv"))
        for name, figure in (("coverage.png", show.plot(result)), ("systems.png", show.plot_systems(result.systems))):
            figure.savefig(work.file(name), dpi=150, metadata={"Software": None})
        manifest = study.manifest("coverage", asdict(config), seed=config.seed, options={}, summary=result.summary())
        work.finish({**manifest, "command": command(config)})
    return result


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
        independent(value, project(fitted.sampling_.spans, 0, series)),
    )


def batch_means(value: float, series: Array) -> Estimate:
    """Means of equal batches as independent observations."""
    means = series.reshape(BATCHES, -1).mean(axis=1)
    return Estimate(value, float(means.std(ddof=1)) / math.sqrt(BATCHES), BATCHES - 1)


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


def _result(
    config: Config, problems: dict[str, Known], pieces: Mapping[str, Arrays], systems: default.Result
) -> Result:
    parts: dict[str, dict[tuple[str, int], Array]] = {"estimates": {}, "half_widths": {}}
    for chain in problems:
        for trajectories in config.trajectories:
            for what, by_kind in parts.items():
                chunks = [pieces[_name(chain, trajectories, k)][what] for k in range(0, config.logs, CHUNK)]
                by_kind[chain, trajectories] = np.concatenate(chunks, axis=-1)
    return Result(config, problems, parts["estimates"], parts["half_widths"], systems)
