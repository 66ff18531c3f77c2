"""Figure 2: Boyan's chain with linear features, four methods, the whole grid of settings.

Panels: π(a0) = π0 in {.1, .3, .5, .7, .9} by sampling with μ0 = π0, ½ and 1 − π0. Every setting of every method learns from 30
streams of 5,000 samples; what counts is |r_π − mean of the last 100 r̂|, and each method shows its best setting, by the truth.

The paper's features contain q_π, so that there is no representation error. `misfit` takes features that do not:
`misfit_features` says which and why.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cesaro import exact, problems
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.files import Arrays, Workspace
from cesaro.learning import Sweep, grid, sweep
from cesaro.learning.settings import Setting
from cesaro.linear import LinearProblem
from cesaro.reproduce import study
from cesaro.reproduce.boyan.result import BASELINE, EXTRA_METHODS, PAPER_METHODS, Cell, Panel, Result

STARTS = {"zero": "linear", "authors": "linear-random"}
# Samples between records, and the r̂ that a record averages.
WINDOW = 100
QUICK: dict[str, Any] = {
    "pi0s": (0.1, 0.5, 0.9),
    "step_sizes": tuple(2.0**-k for k in range(10, 0, -1)),
    "runs": 10,
    "samples": 1_000,
}
_PROJECTED = "projected-"
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
class Config:
    """The settings of the study; the defaults are the full study.

    Attributes:
        methods: which methods, from `PAPER_METHODS` and `EXTRA_METHODS`.
        pi0s: probabilities of action 0 under the target, a column of the figure each.
        step_sizes: α.
        ridges: η, for all methods but Diff-SGQ and the projected ones.
        lams: λ, for GradientDICE.
        runs: independent runs per setting.
        samples: per run. A step of Diff-GQ2 takes two.
        radius: of the balls that the projected variants stay in; by default about twice the largest solution's norm.
        seed: run `i` uses the stream of samples number `seed · runs + i`; all panels, methods and settings share them.
        start: "zero", or "authors": weights uniform in ±1/√inputs.
        misfit: take features that q_π is not in the span of.
    """

    methods: tuple[str, ...] = PAPER_METHODS
    pi0s: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)
    step_sizes: tuple[float, ...] = tuple(2.0**-k for k in range(20, 0, -1))
    ridges: tuple[float, ...] = (0.0, 0.01, 0.1)
    lams: tuple[float, ...] = (0.0, 0.1, 1.0, 10.0)
    runs: int = 30
    samples: int = 5_000
    radius: float = 5.0
    seed: int = 0
    start: str = "zero"
    misfit: bool = False

    def __post_init__(self) -> None:
        known = PAPER_METHODS + EXTRA_METHODS
        _require(
            _are(self.methods, known.__contains__), "methods", f"different names of {', '.join(known)}", self.methods
        )
        _require(_are(self.pi0s, lambda p: 0 < p < 1), "pi0s", "different numbers between 0 and 1", self.pi0s)
        wanted = "different finite numbers > 0"
        _require(_are(self.step_sizes, lambda a: 0 < a < math.inf), "step_sizes", wanted, self.step_sizes)
        for name in ("ridges", "lams"):
            values = getattr(self, name)
            _require(_are(values, lambda v: 0 <= v < math.inf), name, "different finite numbers ≥ 0", values)
        _require(self.runs >= 2, "runs", "an integer ≥ 2", self.runs)
        rule = f"a positive multiple of {WINDOW} below 2³¹"
        _require(self.samples % WINDOW == 0 and 0 < self.samples < 2**31, "samples", rule, self.samples)
        _require(0 < self.radius < math.inf, "radius", "a finite number > 0", self.radius)
        most = 2**32 // self.runs - 1
        _require(0 <= self.seed <= most, "seed", f"an integer from 0 to {most}", self.seed)
        _require(self.start in STARTS, "start", " or ".join(map(repr, STARTS)), repr(self.start))

    @property
    def rows(self) -> tuple[tuple[tuple[float, float], ...], ...]:
        """`(π0, μ0)` of every panel of the figure, three rows."""
        rules: tuple[Callable[[float], float], ...] = (lambda p: p, lambda p: 0.5, lambda p: round(1 - p, 12))
        return tuple(tuple((p, rule(p)) for p in self.pi0s) for rule in rules)

    @property
    def panels(self) -> tuple[tuple[float, float], ...]:
        """The distinct ones, in the figure's order."""
        return tuple(dict.fromkeys(panel for row in self.rows for panel in row))

    def settings(self, method: str) -> list[Setting]:
        """The grid of a method."""
        if method == BASELINE:
            return grid(step_size=self.step_sizes, ridge=self.ridges, lam=self.lams)
        if method == "diff-sgq" or method.startswith(_PROJECTED):
            return grid(step_size=self.step_sizes)
        return grid(step_size=self.step_sizes, ridge=self.ridges)

    @property
    def run_steps(self) -> int:
        """Updates over all panels, methods, settings and runs."""
        per_panel = sum(len(self.settings(method)) * self.samples // _minibatches(method) for method in self.methods)
        return len(self.panels) * self.runs * per_panel

    def problem(self, pi0: float, mu0: float) -> LinearProblem:
        """The problem of a panel."""
        return problems.boyan_chain(pi0, mu0, features=misfit_features() if self.misfit else None)


def misfit_features() -> Array:
    """Features that misfit, `[13, 2, 5]`: Boyan's four of the state, and "action 1 is taken" in `s_0 … s_6` only.

    q_π = r(a) − r_π depends on the action alone, everywhere: half of it cannot be expressed. The columns are independent and the
    constant is in their span, as GradientDICE needs; the density ratio fits about as well as with the paper's features, so
    that what changes is the representation error of q_π.
    """
    default = problems.boyan_chain().features
    seen = default[:, :, -1:] * (np.arange(13) <= 6)[:, None, None]
    return np.concatenate([default[:, :, :4], seen], axis=2)


def run(config: Config, out: str | Path, *, workers: int = 2, force: bool = False, quiet: bool = False) -> Result:
    """Run the study, or what is left of it, and leave tables, figures and `manifest.json` in `out`.

    The results are the same for every number of workers, and after any interruption.

    Raises:
        InputError: a setting breaks its rule, or `out` cannot be used.
    """
    from cesaro.reproduce.boyan import figures as boyan_figures
    from cesaro.reproduce.boyan import show as boyan_tables

    study.check_workers(workers)
    _check_radius(config)
    with Workspace(out, {"study": "boyan", **asdict(config)}, force=force) as work:
        pieces = study.compute(work, _jobs(config), label="boyan", workers=workers, quiet=quiet)
        result = _result(config, pieces)
        boyan_tables.write_settings(result, work.path / "boyan.csv")
        boyan_tables.write_best(result, work.path / "best.csv")
        for name, plot in (("boyan", boyan_figures.plot), ("step_size", boyan_figures.plot_step_sizes)):
            plot(result).savefig(work.path / f"{name}.png", dpi=150, metadata={"Software": None})
        manifest = study.manifest("boyan", asdict(config), seed=config.seed, options={}, summary=result.summary())
        work.finish({**manifest, "command": _command(config)})
    return result


def learn(config: Config, panel: tuple[float, float], method: str) -> Sweep:
    """All runs of a method in a panel."""
    return sweep(
        method.removeprefix(_PROJECTED),
        config.problem(*panel),
        settings=config.settings(method),
        seeds=range(config.seed * config.runs, (config.seed + 1) * config.runs),
        budget=config.samples,
        record_every=WINDOW,
        window=WINDOW,
        approximator=STARTS[config.start],
        radius=config.radius if method.startswith(_PROJECTED) else None,
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
    return piece | _limits(None if method.startswith(_PROJECTED) else problem, method, best.setting)


def _limits(problem: LinearProblem | None, method: str = "", setting: Mapping[str, float] | None = None) -> Arrays:
    """Step limits and time constant at a setting; nan for projected variants, which a ball keeps from diverging."""
    found: dict[str, float | None] = dict.fromkeys(("max_step_expected", "max_step_sampled", "time_constant"))
    if problem is not None and setting is not None:
        others = {name: value for name, value in setting.items() if name != "step_size"}
        stability = problem.stability(method, **others)
        found = {name: getattr(stability, name) for name in ("max_step_expected", "max_step_sampled")}
        found["time_constant"] = stability.time_constant(setting["step_size"]) * _minibatches(method)
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


def _command(config: Config) -> str:
    """A command that gives these settings; where no options do, the manifest itself does."""
    words, same = ["cesaro reproduce boyan"], ("seed", "start", "misfit")
    is_all = config.methods == PAPER_METHODS + EXTRA_METHODS
    given = {name: getattr(config, name) for name in same} | ({"methods": config.methods} if is_all else {})
    if config == Config(**given, **QUICK):
        words.append("--quick")
    elif config == Config(**given, runs=config.runs, samples=config.samples):
        words.append(f"--runs {config.runs} --samples {config.samples}")
    else:
        return "cesaro reproduce --from manifest.json"
    words += (
        [f"--seed {config.seed} --start {config.start}"] + ["--misfit"] * config.misfit + ["--all-methods"] * is_all
    )
    return " ".join(words)


def _check_radius(config: Config) -> None:
    """The balls must hold the solutions `u = [r̂, w]`, or the projected variants cannot reach them."""
    if not any(method.startswith(_PROJECTED) for method in config.methods):
        return
    largest = 0.0
    for panel in config.panels:
        point = config.problem(*panel).td_fixed_point()
        largest = max(largest, float(np.hypot(point.reward_rate or 0.0, np.linalg.norm(point.weights))))  # type: ignore[arg-type]
    rule = f"at least {largest:.3g}, the norm of the largest solution"
    _require(config.radius >= largest, "radius", rule, config.radius)


def _minibatches(method: str) -> int:
    return 2 if method.removeprefix(_PROJECTED) == "diff-gq2" else 1


def _are(values: tuple[Any, ...], is_right: Callable[[Any], bool]) -> bool:
    return bool(values) and len(set(values)) == len(values) and all(is_right(value) for value in values)


def _require(holds: bool, name: str, rule: str, value: Any) -> None:
    if not holds:
        raise InputError(f"The '{name}' setting of the boyan study must be {rule}. Got {value} instead.")
