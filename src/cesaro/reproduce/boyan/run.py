"""The study of Boyan's chain: every setting of every method in every panel."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from cesaro import exact
from cesaro.files import Arrays
from cesaro.learning import Sweep, sweep
from cesaro.linear import LinearProblem
from cesaro.reproduce.boyan.config import BASELINE, PROJECTED, STARTS, WINDOW, BoyanConfig
from cesaro.reproduce.boyan.result import BoyanResult, MethodRuns, PanelFit
from cesaro.reproduce.settings import minibatches
from cesaro.reproduce.study import Jobs, Study

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


class BoyanStudy(Study[BoyanConfig, BoyanResult]):
    """All runs of a method in a panel are a piece."""

    paints_beside = True

    def jobs(self) -> Jobs:
        _check_radius(self.config)
        order = [method for method in _ORDER if method in self.config.methods]
        # The first panel of every method first: that is when it compiles, and different methods compile side by side.
        first, *others = self.config.panels
        pairs = [(first, method) for method in order] + [(panel, method) for method in order for panel in others]
        return {_name(panel, method): partial(_piece, self.config, panel, method) for panel, method in pairs}

    def result(self, pieces: Mapping[str, Arrays]) -> BoyanResult:
        cells = {}
        for panel in self.config.panels:
            for method in self.config.methods:
                piece: dict[str, Any] = dict(pieces[_name(panel, method)])
                best = int(piece.pop("best"))
                scalars = {name: float(value) for name, value in piece.items() if value.ndim == 0}
                settings = self.config.settings(method)
                cells[panel, method] = MethodRuns(
                    method, settings, best=None if best < 0 else best, **{**piece, **scalars}
                )
        return BoyanResult(self.config, {panel: _panel(self.config, panel) for panel in self.config.panels}, cells)


STUDY = BoyanStudy


def _check_radius(config: BoyanConfig) -> None:
    """Refuse balls that do not hold the solutions `u = [r̂, w]`, which the projected variants could not reach."""
    if not any(method.startswith(PROJECTED) for method in config.methods):
        return
    largest = 0.0
    for panel in config.panels:
        point = config.problem(*panel).td_fixed_point()
        largest = max(largest, float(np.hypot(point.reward_rate or 0.0, np.linalg.norm(point.weights))))  # type: ignore[arg-type]
    rule = f"at least {largest:.3g}, the norm of the largest solution"
    config.require("radius", config.radius >= largest, rule)


def _name(panel: tuple[float, float], method: str) -> str:
    return f"{method}_{panel[0]!r}_{panel[1]!r}"


def learn(config: BoyanConfig, panel: tuple[float, float], method: str) -> Sweep:
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


def _piece(config: BoyanConfig, panel: tuple[float, float], method: str) -> Arrays:
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


def _panel(config: BoyanConfig, panel: tuple[float, float]) -> PanelFit:
    problem = config.problem(*panel)
    truth, rate = problem.exact.reward_rate, problem.td_fixed_point().reward_rate
    assert rate is not None  # there is a fixed point in every panel, with either features
    ratio = exact.density_ratio(problem.mdp, problem.policy, problem.sampling).reshape(-1)
    missing = ratio - problem.project(ratio, problem.X)
    fit = problem.error_bounds().representation_error, math.sqrt(problem.d @ missing**2)
    return PanelFit(*panel, truth, *fit, rate - truth)
