"""The settings of the study of Boyan's chain: methods, panels, grids and features."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cesaro import problems
from cesaro.checks import Array
from cesaro.learning import grid
from cesaro.learning.settings import Setting
from cesaro.linear import LinearProblem
from cesaro.reproduce import study

BASELINE = "gradient-dice"
PAPER_METHODS = ("diff-sgq", "diff-gq1", "diff-gq2", BASELINE)
EXTRA_METHODS = ("diff-gq3", "diff-gq4", "projected-diff-gq1", "projected-diff-gq2")
PROJECTED = "projected-"
STARTS = {"zero": "linear", "authors": "linear-random"}
# Samples between records, and the r̂ that a record averages.
WINDOW = 100
QUICK: dict[str, Any] = {
    "pi0s": (0.1, 0.5, 0.9),
    "step_sizes": tuple(2.0**-k for k in range(10, 0, -1)),
    "runs": 10,
    "samples": 1_000,
}

_require = partial(study.require, "boyan")


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
        study.require_sizes("boyan", self)
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
        if method == "diff-sgq" or method.startswith(PROJECTED):
            return grid(step_size=self.step_sizes)
        return grid(step_size=self.step_sizes, ridge=self.ridges)

    @property
    def run_steps(self) -> int:
        """Updates over all panels, methods, settings and runs."""
        per_panel = sum(len(self.settings(method)) * self.samples // minibatches(method) for method in self.methods)
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


def check_radius(config: Config) -> None:
    """The balls must hold the solutions `u = [r̂, w]`, or the projected variants cannot reach them."""
    if not any(method.startswith(PROJECTED) for method in config.methods):
        return
    largest = 0.0
    for panel in config.panels:
        point = config.problem(*panel).td_fixed_point()
        largest = max(largest, float(np.hypot(point.reward_rate or 0.0, np.linalg.norm(point.weights))))  # type: ignore[arg-type]
    rule = f"at least {largest:.3g}, the norm of the largest solution"
    _require(config.radius >= largest, "radius", rule, config.radius)


def minibatches(method: str) -> int:
    return 2 if method.removeprefix(PROJECTED) == "diff-gq2" else 1


def command(config: Config) -> str:
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


def _are(values: tuple[Any, ...], is_right: Callable[[Any], bool]) -> bool:
    return bool(values) and len(set(values)) == len(values) and all(is_right(value) for value in values)
