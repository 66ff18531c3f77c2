"""What `DiffLSTD` makes of continuous logs: two pendulum controllers, logged with noise, in several feature maps.

The target is a fixed controller, the log comes from the same controller plus Gaussian noise, and the rate of the target is known
(`pendulum_model`). Every setting is fitted as a user would, on logs that nothing was tuned on; the default is one of them, and
none is chosen by the truth. Intervals cover the limit in the features that were taken, so that misses tell what features
cannot express, or what the log does not determine.
"""

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from cesaro.errors import EvaluationWarning, InputError
from cesaro.estimators import DiffLSTD
from cesaro.estimators.diagnostics import worst
from cesaro.estimators.tabular import NotIdentified
from cesaro.files import Arrays, Workspace
from cesaro.reproduce import study
from cesaro.reproduce.pendulum.model import CONTROLLERS, exact_rate, log, simulated_rate
from cesaro.reproduce.pendulum.result import Result, Truth, settings

CONFIDENCE = 0.95
QUICK: dict[str, Any] = {
    "controllers": ("smooth",),
    "rows": 20_000,
    "logs": 1,
    "maps": (100, 200),
    "grid": (101, 21),
    "agents": 1_000,
}


@dataclass(frozen=True)
class Config:
    """The settings of the study; the defaults are the full study.

    Attributes:
        controllers: the targets, by name.
        noises: standard deviations of the noise that the behavior adds to the torque.
        rows: of a log.
        pendulums: how many a log is from, one trajectory each.
        logs: per controller and noise.
        reset: probability of a reset after every step.
        maps: numbers of random Fourier features; ridges go with the last.
        ridges: relative to the mean square of the features, which is one for Fourier features.
        degrees: of polynomial features.
        grid: angles and speeds of the starts behind the exact rates.
        agents: pendulums of the simulation that checks these, for ten mean times between resets each.
        seed: of the first log; it is its `random_state` too, and the next log has the next.
    """

    controllers: tuple[str, ...] = tuple(CONTROLLERS)
    noises: tuple[float, ...] = (0.5, 1.0, 1.5)
    rows: int = 200_000
    pendulums: int = 20
    logs: int = 5
    reset: float = 1 / 200
    maps: tuple[int, ...] = (200, 400, 800)
    ridges: tuple[float, ...] = (1e-8, 1e-6, 1e-4, 1e-2)
    degrees: tuple[int, ...] = (3, 4)
    grid: tuple[int, ...] = (301, 51)
    agents: int = 10_000
    seed: int = 100

    def __post_init__(self) -> None:
        known = bool(self.controllers) and all(name in CONTROLLERS for name in self.controllers)
        rule = f"one or more of {', '.join(CONTROLLERS)}, each once"
        _require(known and _increasing(sorted(self.controllers)), "controllers", rule, self.controllers)
        for name in ("noises", "maps", "ridges", "degrees"):
            value = getattr(self, name)
            right = bool(value) and value[0] > 0 and value[-1] < math.inf and _increasing(value)
            _require(right, name, "increasing finite numbers > 0", value)
        for name in ("pendulums", "logs"):
            _require(getattr(self, name) >= 1, name, "an integer ≥ 1", getattr(self, name))
        right = self.rows >= 2 * self.pendulums and self.rows % self.pendulums == 0
        _require(right, "rows", "a multiple of the number of pendulums, twice it or more", self.rows)
        _require(0 < self.reset < 1, "reset", "a number between 0 and 1", self.reset)
        _require(len(self.grid) == 2 and min(self.grid) >= 1, "grid", "two integers ≥ 1", self.grid)
        _require(self.agents >= 2, "agents", "an integer ≥ 2", self.agents)
        last = 2**32 - 1 - self.logs
        _require(0 <= self.seed <= last, "seed", f"an integer from 0 to {last}", self.seed)

    @property
    def seeds(self) -> range:
        """Of the logs."""
        return range(self.seed, self.seed + self.logs)

    @property
    def cells(self) -> list[tuple[str, float]]:
        """Every controller with every noise."""
        return [(controller, noise) for controller in self.controllers for noise in self.noises]


def run(config: Config, out: str | Path, *, workers: int = 2, force: bool = False, quiet: bool = False) -> Result:
    """Run the study, or what is left of it, and leave three tables, a figure and `manifest.json` in `out`.

    The results but for times are the same for every number of workers, and after any interruption.

    Raises:
        InputError: a setting breaks its rule, or `out` cannot be used.
    """
    from cesaro.reproduce.pendulum import figures as pendulum_figures
    from cesaro.reproduce.pendulum import show as pendulum_tables

    study.check_workers(workers)
    jobs = _jobs(config)
    with Workspace(out, {"study": "pendulum", **asdict(config)}, force=force) as work:
        # Refusals and ridges that answer in spite of one are counted; filters of warnings are shared by all threads.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvaluationWarning)
            pieces = study.compute(work, jobs, label="pendulum", workers=workers, quiet=quiet)
        result = _result(config, pieces)
        pendulum_tables.write_cells(result, work.path / "pendulum.csv")
        pendulum_tables.write_logs(result, work.path / "logs.csv")
        pendulum_tables.write_settings(result, work.path / "settings.csv")
        pendulum_figures.plot(result).savefig(work.path / "pendulum.png", dpi=150, metadata={"Software": None})
        manifest = study.manifest("pendulum", asdict(config), seed=config.seed, options={}, summary=result.summary())
        work.finish({**manifest, "command": _command(config)})
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
            found = (fitted.reward_rate_, fitted.standard_error_, *fitted.interval(CONFIDENCE))
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


def _command(config: Config) -> str:
    """A command that gives these settings; where no options do, the manifest itself does."""
    if config == Config(**{**QUICK, "seed": config.seed}):
        return f"cesaro reproduce pendulum --quick --seed {config.seed}"
    if config == Config(logs=config.logs, seed=config.seed):
        return f"cesaro reproduce pendulum --logs {config.logs} --seed {config.seed}"
    return "cesaro reproduce --from manifest.json"


def _increasing(values: Any) -> bool:
    return all(a < b for a, b in pairwise(values))


def _require(holds: bool, name: str, rule: str, value: Any) -> None:
    if not holds:
        raise InputError(f"The '{name}' setting of the pendulum study must be {rule}. Got {value} instead.")
