"""The study of Boyan's chain: every setting of every method in every panel, and the comparison that the paper makes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cesaro import exact
from cesaro.checks import Array
from cesaro.files import Arrays
from cesaro.learning import Sweep, sweep
from cesaro.learning.arguments import Setting
from cesaro.linear import LinearProblem
from cesaro.reproduce.boyan.config import (
    BASELINE,
    PAPER_METHODS,
    PROJECTED,
    STARTS,
    WINDOW,
    BoyanConfig,
)
from cesaro.reproduce.settings import minibatches
from cesaro.reproduce.study import Jobs, Study, paired

# A margin counts as clear from this many standard errors on.
CLEAR = 2.0
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


@dataclass(frozen=True)
class PanelFit:
    """The exact fit of the features in a panel.

    Attributes:
        value_error: `inf_c ‖Π_X q − q‖_D` over `q = q_π + c`.
        ratio_error: `‖Π_X ρ − ρ‖_D` of the density ratio `ρ`.
        rate_gap: `r_TD − r_π`, the error of the limit: of the value-based methods without ridge, and of GradientDICE too.
    """

    pi0: float
    mu0: float
    truth: float
    value_error: float
    ratio_error: float
    rate_gap: float


@dataclass(frozen=True)
class MethodRuns:
    """A method in a panel: every setting's final error, and the best setting's curve.

    Attributes:
        mean: mean final error over runs, `[settings]`; infinite where a run diverged.
        std: its standard deviation over runs; infinite where a run diverged.
        diverged: how many runs diverged, `[settings]`.
        first_divergence: the first sample at which one did; −1 where none did.
        best: number of the best setting; None if each had a diverged run.
        final: final errors of its runs, `[runs]`.
        samples, curve, band: samples, mean error and its standard deviation over runs at every record.
        max_step_expected, max_step_sampled: step limits of the expected update and in mean square at the best ridge and lam.
        time_constant: of its expected update, in samples; infinite where that diverges. These three are nan for projected
            variants, which a ball keeps from diverging, and nan limits mean none.
    """

    method: str
    settings: list[Setting]
    mean: Array
    std: Array
    diverged: Array
    first_divergence: Array
    best: int | None
    final: Array
    samples: Array
    curve: Array
    band: Array
    max_step_expected: float
    max_step_sampled: float
    time_constant: float

    @property
    def error(self) -> float:
        return math.inf if self.best is None else float(self.mean[self.best])

    @property
    def has_theory(self) -> bool:
        return not math.isnan(self.time_constant)

    @property
    def spread(self) -> float:
        return math.inf if self.best is None else float(self.std[self.best])


@dataclass(frozen=True)
class PanelTally:
    """Wins and losses of a method against GradientDICE over all panels; margins are GradientDICE's error minus its own."""

    method: str
    wins: int
    clear_wins: int
    clear_losses: int
    smallest: float
    largest: float


@dataclass(frozen=True)
class BoyanResult:
    """Everything the tables and figures show."""

    config: BoyanConfig
    panels: dict[tuple[float, float], PanelFit]
    cells: dict[tuple[tuple[float, float], str], MethodRuns]

    def margin(self, panel: tuple[float, float], method: str) -> tuple[float, float] | None:
        """GradientDICE's final error minus the method's, and the standard error of this mean of paired differences."""
        own, other = self.cells[panel, method], self.cells.get((panel, BASELINE))
        if method == BASELINE or other is None or own.best is None or other.best is None:
            return None
        return paired(other.final, own.final)

    @property
    def tallies(self) -> list[PanelTally]:
        """One per method that GradientDICE can be compared with."""
        found = []
        for method in self.config.methods:
            margins = [m for panel in self.panels if (m := self.margin(panel, method)) is not None]
            if margins:
                means = [mean for mean, _ in margins]
                found.append(
                    PanelTally(
                        method,
                        wins=sum(mean > 0 for mean in means),
                        clear_wins=sum(mean > CLEAR * error for mean, error in margins),
                        clear_losses=sum(mean < -CLEAR * error for mean, error in margins),
                        smallest=min(means),
                        largest=max(means),
                    )
                )
        return found

    @property
    def claim_holds(self) -> bool | None:
        """Whether the paper's value-based methods all beat GradientDICE in all panels; None if they were not all run."""
        tallies = [tally for tally in self.tallies if tally.method in PAPER_METHODS]
        return all(tally.wins == len(self.panels) for tally in tallies) if len(tallies) == 3 else None

    def summary(self) -> dict[str, Any]:
        """The comparison in JSON values."""
        tallies = {tally.method: tally for tally in self.tallies}
        methods = {}
        for method in self.config.methods:
            cells = [self.cells[panel, method] for panel in self.panels]
            entry: dict[str, Any] = {
                "mean_final_error": _rounded(float(np.mean([cell.error for cell in cells]))),
                "settings_with_divergence": int(sum((cell.diverged > 0).sum() for cell in cells)),
            }
            if tally := tallies.get(method):
                entry |= {name: getattr(tally, name) for name in ("wins", "clear_wins", "clear_losses")}
            methods[method] = entry
        gaps = [abs(panel.rate_gap) for panel in self.panels.values()]
        return {
            "panels": len(self.panels),
            "claim_holds": self.claim_holds,
            "methods": methods,
            "largest_error_of_the_td_fixed_point": round(max(gaps), 6),
        }


def _rounded(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


class BoyanStudy(Study[BoyanConfig, BoyanResult]):
    """All runs of a method in a panel are a piece."""

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
