"""The stall study: walks and closed forms under noise exactly, and networks trained from several starts."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cesaro.files import Arrays
from cesaro.reproduce import study
from cesaro.reproduce.stall import exact, networks, show
from cesaro.reproduce.stall.config import PROBLEMS, Config, Key, command, keys
from cesaro.reproduce.stall.exact import Limits, Walk
from cesaro.reproduce.stall.networks import PROBE, Trained
from cesaro.reproduce.stall.problem import Problem
from cesaro.reproduce.stall.result import Result


def run(config: Config, out: str | Path, *, workers: int = 2, force: bool = False, quiet: bool = False) -> Result:
    """Run the study, or what is left of it, and leave tables, a figure and `manifest.json` in `out`.

    Raises:
        InputError: a setting breaks its rule, or `out` cannot be used.
    """
    study.check_workers(workers)
    with study.Folder(out, {"study": "stall", **asdict(config)}, force=force) as work:
        pieces = study.compute(work, _jobs(config), label="stall", workers=workers, quiet=quiet)
        result = _result(config, pieces)
        show.write_walks(result, work.file("walks.csv"))
        show.write_limits(result, work.file("noise.csv"))
        show.write_trained(result, work.file("networks.csv"))
        show.plot(result).savefig(work.file("stall.png"), dpi=150, metadata={"Software": None})
        manifest = study.manifest("stall", asdict(config), seed=config.seed, options={}, summary=result.summary())
        work.finish({**manifest, "command": command(config)})
    return result


def _jobs(config: Config) -> dict[str, Callable[[], Arrays]]:
    jobs: dict[str, Callable[[], Arrays]] = {_name(key): partial(_train, config, key) for key in keys(config)}
    jobs |= {f"walk_{states}": partial(_walk, states) for states in config.walks}
    return jobs | {f"noise_{noise:g}": partial(_limits, config, noise) for noise in config.noises}


def _train(config: Config, key: Key) -> Arrays:
    problem = PROBLEMS[key.problem]
    rows, held_out = problem.log(key.rows, 2 * config.seed), problem.log(PROBE, 2 * config.seed + 1)
    seeds = [config.seed * 100 + i for i in range(config.seeds if key.start == "behavior" else 1)]
    shares = {"behavior": 0.0, "truth": 1.0, "solution": 1.0, "beyond": 2.0}
    share = float(key.start) if key.method == "held" else shares[key.start]
    size: dict[str, Any] = {"width": config.width}
    values = None
    if key.start == "solution":
        values = networks.true_values(problem, rows, steps=config.steps, seed=seeds[0], **size)
    found = networks.train(
        problem,
        key.method,
        rows,
        held_out,
        steps=config.held_steps if key.method == "held" else config.steps,
        seeds=seeds,
        start=problem.behavior_rate + share * problem.way,
        values=values,
        **size,
    )
    return found._asdict()


def _walk(states: int) -> Arrays:
    return {"walk": np.array(exact.walk(states))}


def _limits(config: Config, noise: float) -> Arrays:
    return {"limits": np.array(exact.limits(Problem(noise=noise), config.rows, 2 * config.seed))}


def _result(config: Config, pieces: Mapping[str, Arrays]) -> Result:
    many = PROBLEMS["many"]
    return Result(
        config,
        [
            Walk(int(found[0]), *found[1:].tolist())
            for found in (pieces[f"walk_{states}"]["walk"] for states in config.walks)
        ],
        [Limits(*pieces[f"noise_{noise:g}"]["limits"].tolist()) for noise in config.noises],
        {key: Trained(**pieces[_name(key)]) for key in keys(config)},
        {name: float(PROBLEMS[name].log(config.rows, 2 * config.seed).rewards.var()) for name in config.problems},
        networks.true_line(many, many.log(PROBE, 2 * config.seed + 1).x),
    )


def _name(key: Key) -> str:
    return "_".join(map(str, key))
