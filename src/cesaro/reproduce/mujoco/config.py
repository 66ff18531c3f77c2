"""The settings of the MuJoCo study: places, methods, grids, and which logs and truths it needs."""

import math
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from cesaro.learning.settings import Setting
from cesaro.reproduce import study
from cesaro.reproduce.mujoco.data import Recording, actor_file

BASELINE = "gradient-dice"
CLAIMED = "diff-gq1"
METHODS = ("diff-sgq", CLAIMED, "diff-gq2", BASELINE)
Place = tuple[str, float]  # an environment and a noise
ENVS = ("HalfCheetah-v5", "Walker2d-v5", "Hopper-v5", "Swimmer-v5")
STREAMS = 20
BATCH_SIZE = 100
# Minibatches between records, that the rate is averaged over, and between copies of the target network.
RECORD, WINDOW, COPIED = 10, 100, 100
QUICK: dict[str, Any] = {
    "envs": ENVS[:1],
    "sigmas": (0.9,),
    "transitions": 20_000,
    "truth_steps": 20_000,
    "lrs": (0.1, 0.01, 0.001),
    "lams": (1.0,),
    "runs": 5,
    "minibatches": 300,
}

_require = partial(study.require, "mujoco")


@dataclass(frozen=True)
class Config:
    """The settings of the study; the defaults are the full study.

    Attributes:
        envs: names of Gymnasium environments with vectors for actions, a column of the figure each.
        sigmas: standard deviations of the behavior's noise, a row each.
        transitions: of a log.
        truth_steps: of the simulation that gives the truth.
        lrs: the paper's learning rates; `learning.step_sizes` says what they are here.
        lams: λ, for GradientDICE.
        runs: independent runs per setting.
        minibatches: per run. An update of Diff-GQ2 takes two.
        seed: of logs and truths; run `i` uses the stream of samples number `seed · runs + i`, in every cell.
        actors: folder with a file ENV.safetensors per environment; empty: the actors that come with cesaro.
    """

    envs: tuple[str, ...] = ENVS
    sigmas: tuple[float, ...] = (0.1, 0.5, 0.9)
    transitions: int = 1_000_000
    truth_steps: int = 1_000_000
    lrs: tuple[float, ...] = (0.1, 0.05, 0.01, 0.005, 0.001)
    lams: tuple[float, ...] = (0.1, 1.0, 10.0)
    runs: int = 30
    minibatches: int = 1_000
    seed: int = 0
    actors: str = ""

    def __post_init__(self) -> None:
        study.require_sizes("mujoco", self)
        _require(_are(self.envs, bool), "envs", "different names of environments", self.envs)
        for name in ("sigmas", "lrs", "lams"):
            values = getattr(self, name)
            _require(_are(values, lambda v: 0 < v < math.inf), name, "different finite numbers > 0", values)
        least = 2 * STREAMS
        for name in ("transitions", "truth_steps"):
            _require(getattr(self, name) >= least, name, f"an integer ≥ {least}", getattr(self, name))
        _require(self.runs >= 2, "runs", "an integer ≥ 2", self.runs)
        rule = f"a positive multiple of {WINDOW}, below ten million"
        _require(self.minibatches % WINDOW == 0 and 0 < self.minibatches < 10**7, "minibatches", rule, self.minibatches)
        most = 2**32 // self.runs - 1
        _require(0 <= self.seed <= most, "seed", f"an integer from 0 to {most}", self.seed)

    @property
    def places(self) -> tuple[Place, ...]:
        """Every environment with every noise."""
        return tuple((env, sigma) for env in self.envs for sigma in self.sigmas)

    def settings(self, method: str) -> list[Setting]:
        """The grid of a method, in the paper's numbers."""
        if method == BASELINE:
            return [{"lr": lr, "lam": lam} for lr in self.lrs for lam in self.lams]
        return [{"lr": lr} for lr in self.lrs]

    @property
    def seeds(self) -> range:
        return range(self.seed * self.runs, (self.seed + 1) * self.runs)

    def truth(self, env: str) -> Recording:
        return self._recording(env, None, self.truth_steps)

    def log(self, place: Place) -> Recording:
        return self._recording(*place, self.transitions)

    def _recording(self, env: str, sigma: float | None, steps: int) -> Recording:
        return Recording(env, actor_file(env, self.actors), sigma, steps, STREAMS, self.seed)


def command(config: Config) -> str:
    """A command that gives these settings; where no options do, the manifest itself does."""
    words = ["cesaro", "reproduce", "mujoco"]
    same: dict[str, Any] = {"seed": config.seed, "actors": config.actors}
    if config == Config(**{**QUICK, "envs": config.envs, "sigmas": config.sigmas, **same}):
        words.append("--quick")
    elif config == Config(envs=config.envs, sigmas=config.sigmas, runs=config.runs, **same):
        words += ["--runs", str(config.runs)]
    else:
        return "cesaro reproduce --from manifest.json"
    for option, values in (("--env", config.envs), ("--sigma", config.sigmas)):
        for value in values:
            words += [option, str(value)]
    words += ["--seed", str(config.seed), *(["--actors", config.actors] if config.actors else [])]
    return shlex.join(words)


def _are(values: tuple[Any, ...], is_right: Callable[[Any], bool]) -> bool:
    return bool(values) and len(set(values)) == len(values) and all(is_right(value) for value in values)
