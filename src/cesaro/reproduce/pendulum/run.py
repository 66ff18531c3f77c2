"""The pendulum study: every setting on every log, as a user would fit it, and the exact rates of the controllers."""

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from cesaro.closed_forms.tabular import NotIdentified
from cesaro.diagnostics import widened, worst
from cesaro.errors import EvaluationWarning
from cesaro.estimators import DiffLSTD
from cesaro.files import Arrays
from cesaro.reproduce import study
from cesaro.reproduce.pendulum import show
from cesaro.reproduce.pendulum.config import CONFIDENCE, Config, command
from cesaro.reproduce.pendulum.model import CONTROLLERS, exact_rate, log, simulated_rate
from cesaro.reproduce.pendulum.result import Result, Truth, settings


def run(config: Config, out: str | Path, *, workers: int = 2, force: bool = False, quiet: bool = False) -> Result:
    """Run the study, or what is left of it, and leave three tables, a figure and `manifest.json` in `out`.

    The results but for times are the same for every number of workers, and after any interruption.

    Raises:
        InputError: a setting breaks its rule, or `out` cannot be used.
    """
    study.check_workers(workers)
    with study.Folder(out, {"study": "pendulum", **asdict(config)}, force=force) as work:
        jobs = _jobs(config)
        # Refusals and ridges that answer in spite of one are counted; filters of warnings are shared by all threads.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvaluationWarning)
            pieces = study.compute(work, jobs, label="pendulum", workers=workers, quiet=quiet)
        result = _result(config, pieces)
        show.write_cells(result, work.file("pendulum.csv"))
        show.write_logs(result, work.file("logs.csv"))
        show.write_settings(result, work.file("settings.csv"))
        show.plot(result).savefig(work.file("pendulum.png"), dpi=150, metadata={"Software": None})
        manifest = study.manifest("pendulum", asdict(config), seed=config.seed, options={}, summary=result.summary())
        work.finish({**manifest, "command": command(config)})
    return result


def _jobs(config: Config) -> dict[str, Callable[[], Arrays]]:
    logs = [(controller, noise, seed) for seed in config.seeds for controller, noise in config.cells]
    jobs: dict[str, Callable[[], Arrays]] = {_name(*log): partial(_piece, config, *log) for log in logs}
    return jobs | {f"truth_{controller}": partial(_truth, config, controller) for controller in config.controllers}


def _name(controller: str, noise: float, seed: int) -> str:
    return f"{controller}_{noise:g}_{seed}"


def random_numbers(controller: str, noise: float, seed: int) -> np.random.Generator:
    """Of one log, whatever others there are."""
    return np.random.default_rng([seed, list(CONTROLLERS).index(controller), round(1e6 * noise)])


def _truth(config: Config, name: str) -> Arrays:
    controller, steps = CONTROLLERS[name], math.ceil(10 / config.reset)
    rates = [exact_rate(controller, config.reset, config.grid, offset) for offset in (0.5, 0.25)]
    checked = simulated_rate(controller, steps, config.agents, config.reset, random_numbers(name, 0.0, config.seed))
    return {"truth": np.array([*rates, *checked])}


def _piece(config: Config, name: str, noise: float, seed: int) -> Arrays:
    """Every setting on one log; nan where the log does not identify the rate."""
    controller = CONTROLLERS[name]
    rng = random_numbers(name, noise, seed)
    data = log(controller, noise, config.rows, config.pendulums, config.reset, rng)
    chosen = settings(config)
    piece: Arrays = {
        key: np.full(len(chosen), math.nan) for key in ("estimate", "standard_error", "low", "high", "seconds")
    }
    piece["identified"] = np.zeros(len(chosen), dtype=bool)
    piece["behavior"] = np.array(data.rewards.mean())
    for i, setting in enumerate(chosen):
        start = time.perf_counter()
        try:
            fitted = DiffLSTD(*setting[1:], random_state=seed, quiet=True).fit(data, controller)
        except NotIdentified:
            fitted = None
        piece["seconds"][i] = time.perf_counter() - start
        if fitted is not None:
            answer = widened(fitted.estimate_, fitted.diagnostics_ if setting.is_default else ())
            found = (answer.value, answer.standard_error, *answer.interval(CONFIDENCE))
            for key, value in zip(("estimate", "standard_error", "low", "high"), found):
                piece[key][i] = value
            piece["identified"][i] = fitted.solution_.is_identified
        if setting.is_default:
            piece |= _diagnosed(fitted)
    return piece


def _diagnosed(fitted: DiffLSTD | None) -> Arrays:
    if fitted is None:
        return {"verdict": np.array("refused"), "findings": np.array("")}
    findings = sorted((d for d in fitted.diagnostics_ if d.verdict != "ok"), key=lambda found: found.severity)
    names = "; ".join(f"{found.name} ({found.verdict})" for found in findings)
    return {"verdict": np.array(worst(findings)), "findings": np.array(names)}


def _result(config: Config, pieces: Mapping[str, Arrays]) -> Result:
    truths = {name: Truth(*(float(v) for v in pieces[f"truth_{name}"]["truth"])) for name in config.controllers}
    logs = [(controller, noise, seed) for controller, noise in config.cells for seed in config.seeds]
    return Result(config, truths, {log: pieces[_name(*log)] for log in logs})
