"""The study of Boyan's chain: every setting of every method in every panel."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cesaro import exact
from cesaro.files import Arrays
from cesaro.learning import Sweep, sweep
from cesaro.linear import LinearProblem
from cesaro.reproduce import study
from cesaro.reproduce.boyan import show
from cesaro.reproduce.boyan.config import (
    BASELINE,
    PROJECTED,
    STARTS,
    WINDOW,
    Config,
    check_radius,
    command,
    minibatches,
)
from cesaro.reproduce.boyan.result import Cell, Panel, Result

# The order of work: most expensive first, so that no long piece is left to the end, and next to each other what shares least.
_ORDER = (
    BASELINE,
    "diff-gq2",
    "diff-gq1",
    "projected-diff-gq2",
    "diff-gq4",
    "diff-gq3",
    "projected-diff-gq1",
    "diff-sgq",
)


def run(config: Config, out: str | Path, *, workers: int = 2, force: bool = False, quiet: bool = False) -> Result:
    """Run the study, or what is left of it, and leave tables, figures and `manifest.json` in `out`.

    The results are the same for every number of workers, and after any interruption.

    Raises:
        InputError: a setting breaks its rule, or `out` cannot be used.
    """
    study.check_workers(workers)
    check_radius(config)
    with study.Folder(out, {"study": "boyan", **asdict(config)}, force=force) as work:
        pieces = study.compute(work, _jobs(config), label="boyan", workers=workers, quiet=quiet)
        result = _result(config, pieces)
        show.write_settings(result, work.file("boyan.csv"))
        show.write_best(result, work.file("best.csv"))
        for name, plot in (("boyan", show.plot), ("step_size", show.plot_step_sizes)):
            plot(result).savefig(work.file(f"{name}.png"), dpi=150, metadata={"Software": None})
        manifest = study.manifest("boyan", asdict(config), seed=config.seed, options={}, summary=result.summary())
        work.finish({**manifest, "command": command(config)})
    return result


def learn(config: Config, panel: tuple[float, float], method: str) -> Sweep:
    """All runs of a method in a panel."""
    return sweep(
        method.removeprefix(PROJECTED),
        config.problem(*panel),
        settings=config.settings(method),
        seeds=range(config.seed * config.runs, (config.seed + 1) * config.runs),
        budget=config.samples,
        record_every=WINDOW,
        window=WINDOW,
        approximator=STARTS[config.start],
        radius=config.radius if method.startswith(PROJECTED) else None,
        workers=1,
        quiet=True,
    )


def _piece(config: Config, panel: tuple[float, float], method: str) -> Arrays:
    found = learn(config, panel, method)
    problem = config.problem(*panel)
    truth = problem.exact.reward_rate
    errors = np.abs(found.reward_rate - truth)  # nan once diverged
    at = np.where(found.diverged_at < 0, np.iinfo(np.int64).max, found.diverged_at).min(axis=1)
    piece = {
        "mean": found.final_error(truth),
        "std": np.where(found.diverged, np.inf, errors[:, :, -1].std(axis=1)),
        "diverged": (found.diverged_at >= 0).sum(axis=1),
        "first_divergence": np.where(found.diverged, at, -1),
        "samples": found.samples,
    }
    if found.diverged.all():
        nothing = np.full(len(found.samples), np.nan)
        return piece | {"best": np.array(-1), "final": nothing[:0], "curve": nothing, "band": nothing} | _limits(None)
    best = found.best(truth)
    piece |= {"best": np.array(best.index), "final": errors[best.index, :, -1], "curve": best.curve, "band": best.band}
    return piece | _limits(None if method.startswith(PROJECTED) else problem, method, best.setting)


def _limits(problem: LinearProblem | None, method: str = "", setting: Mapping[str, float] | None = None) -> Arrays:
    """Step limits and time constant at a setting; nan for projected variants, which a ball keeps from diverging."""
    found: dict[str, float | None] = dict.fromkeys(("max_step_expected", "max_step_sampled", "time_constant"))
    if problem is not None and setting is not None:
        others = {name: value for name, value in setting.items() if name != "step_size"}
        stability = problem.stability(method, **others)
        found = {name: getattr(stability, name) for name in ("max_step_expected", "max_step_sampled")}
        found["time_constant"] = stability.time_constant(setting["step_size"]) * minibatches(method)
    return {name: np.array(np.nan if value is None else value) for name, value in found.items()}


def _jobs(config: Config) -> dict[str, Callable[[], Arrays]]:
    order = [method for method in _ORDER if method in config.methods]
    # The first panel of every method first: that is when it compiles, and different methods compile side by side.
    pairs = [(config.panels[0], method) for method in order]
    pairs += [(panel, method) for method in order for panel in config.panels[1:]]
    return {_name(panel, method): partial(_piece, config, panel, method) for panel, method in pairs}


def _name(panel: tuple[float, float], method: str) -> str:
    return f"{method}_{panel[0]!r}_{panel[1]!r}"


def _result(config: Config, pieces: Mapping[str, Arrays]) -> Result:
    cells = {}
    for panel in config.panels:
        for method in config.methods:
            piece: dict[str, Any] = dict(pieces[_name(panel, method)])
            best = int(piece.pop("best"))
            scalars = {name: float(value) for name, value in piece.items() if value.ndim == 0}
            cells[panel, method] = Cell(
                method, config.settings(method), best=None if best < 0 else best, **{**piece, **scalars}
            )
    return Result(config, {panel: _panel(config, panel) for panel in config.panels}, cells)


def _panel(config: Config, panel: tuple[float, float]) -> Panel:
    problem = config.problem(*panel)
    truth, rate = problem.exact.reward_rate, problem.td_fixed_point().reward_rate
    assert rate is not None  # there is a fixed point in every panel, with either features
    ratio = exact.density_ratio(problem.mdp, problem.policy, problem.sampling).reshape(-1)
    missing = ratio - problem.project(ratio, problem.X)
    fit = problem.error_bounds().representation_error, math.sqrt(problem.d @ missing**2)
    return Panel(*panel, truth, *fit, rate - truth)
