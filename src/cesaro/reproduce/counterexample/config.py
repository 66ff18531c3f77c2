"""The settings of the counterexample study."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.reproduce import study

METHODS = ("diff-sgq", "diff-gq1", "diff-gq2")
QUICK: dict[str, Any] = {"step_sizes": tuple(2.0**k for k in range(-8, 1, 2)), "runs": 100}
# Points of a trajectory, after each of which a run is scaled back to norm one.
_MARKS = 80

_require = partial(study.require, "counterexample")


@dataclass(frozen=True)
class Config:
    """The settings of the study; the defaults are the full study.

    Attributes:
        step_sizes: α.
        shown_step_size: the one whose trajectories are drawn, among `step_sizes`.
        runs: independent runs per method and step size.
        horizon: length of Diff-SGQ's runs, in units of 1/α samples.
        settling: the same for Diff-GQ1 and Diff-GQ2, whose slowest direction shrinks far more slowly than Diff-SGQ's grows.
        seed: run `i` uses the stream of samples number `seed · runs + i`; all methods and step sizes share them.
    """

    step_sizes: tuple[float, ...] = tuple(2.0**k for k in range(-10, 1))
    shown_step_size: float = 2.0**-6
    runs: int = 400
    horizon: float = 20.0
    settling: float = 100.0
    seed: int = 0

    def __post_init__(self) -> None:
        study.require_sizes("counterexample", self)
        for name in ("horizon", "settling"):
            value = getattr(self, name)
            _require(1 <= value <= 1_000, name, "a number from 1 to 1000", value)
        steps = self.step_sizes
        # Two samples at least: an update of Diff-GQ2.
        most = min(self.horizon, self.settling) / 2
        right = bool(steps) and len(set(steps)) == len(steps) and all(1e-5 <= step <= most for step in steps)
        _require(right, "step_sizes", f"different numbers from 0.00001 to {most:g}", steps)
        _require(
            self.shown_step_size in steps, "shown_step_size", f"one of the step sizes {steps}", self.shown_step_size
        )
        _require(self.runs >= 2, "runs", "an integer ≥ 2", self.runs)
        last = 2**32 // self.runs - 1
        _require(0 <= self.seed <= last, "seed", f"an integer from 0 to {last}", self.seed)

    def length(self, method: str) -> float:
        """Of a method's runs, in units of 1/α samples."""
        return self.horizon if method == "diff-sgq" else self.settling

    def marks(self, method: str, step_size: float) -> NDArray[np.int64]:
        """Numbers of updates at which a trajectory is looked at, from 0 to the end."""
        updates = max(1, round(self.length(method) / step_size / minibatches(method)))
        return np.unique(np.round(np.linspace(0, updates, _MARKS + 1)).astype(np.int64))


def minibatches(method: str) -> int:
    return 2 if method == "diff-gq2" else 1


def command(config: Config) -> str:
    """A command that gives these settings; where no options do, the manifest itself does."""
    if config == Config(**{**QUICK, "seed": config.seed}):
        return f"cesaro reproduce counterexample --quick --seed {config.seed}"
    if config == Config(runs=config.runs, seed=config.seed):
        return f"cesaro reproduce counterexample --runs {config.runs} --seed {config.seed}"
    return "cesaro reproduce --from manifest.json"
