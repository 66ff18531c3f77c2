"""The settings of the practice study: one per method, for all logs."""

import math
import shlex
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from cesaro.reproduce import mujoco, study
from cesaro.reproduce.practice.logs import ACTIONS, EXECUTED, PENDULUM, PENDULUMS, Subject

ENVS = (*mujoco.ENVS, PENDULUM)
# The log of the MuJoCo study's own --quick, and a short one of the pendulum.
QUICK: dict[str, Any] = {
    "envs": (*mujoco.QUICK["envs"], PENDULUM),
    "sigmas": mujoco.QUICK["sigmas"],
    "noises": (1.0,),
    "transitions": mujoco.QUICK["transitions"],
    "truth_steps": mujoco.QUICK["truth_steps"],
    "pendulum_rows": 20_000,
    "widths": (64, 64),
    "steps": 2_000,
    "batch_size": 256,
    "step_size": 1e-3,
    "seeds": 2,
    "fitted_q_mixing": 0.1,
    "members": 2,
    "world_widths": (32, 32),
    "held": (),
}

_require = partial(study.require, "practice")


@dataclass(frozen=True)
class Config:
    """The settings of the study; the defaults are the full study.

    Attributes:
        envs: MuJoCo environments, and "pendulum" for the smooth controller of `cesaro reproduce pendulum`.
        sigmas: noise of the MuJoCo logs; as `transitions`, `truth_steps` and `actors`, a setting of `cesaro reproduce mujoco`.
        noises: noise of the pendulum's logs.
        rows: of a MuJoCo log that are used, spread evenly; all where it has fewer.
        pendulum_rows: of a pendulum's log.
        maps: features of closed forms.
        map_seeds: for maps that are drawn at random.
        widths: units of the hidden layers of every network.
        steps, batch_size, step_size: of Adam, for every network.
        seeds: of every network.
        mixing: of Diff-SGQ's target network.
        discount: of fitted Q.
        fitted_q_mixing: of its target network. A wrong level of values decays by mixing · (1 − discount) per step: here to
            e⁻⁸ of itself in all steps, where Diff-SGQ's mixing would leave e⁻².
        members, world_widths: of learned worlds, whose members count as seeds.
        held: environments on whose logs the residual is also compared between held rates (`held`).
        seed: of logs and truths, maps and networks.
        actors: folder with a file ENV.safetensors per MuJoCo environment; empty: the actors that come with cesaro.
        actions: "executed": logged actions are cut to the actuators' bounds, as the systems cut them; "chosen": they are left
            as the behavior chose them, its noise beyond the bounds included.
    """

    envs: tuple[str, ...] = ENVS
    sigmas: tuple[float, ...] = (0.1, 0.5, 0.9)
    noises: tuple[float, ...] = (0.5, 1.0, 1.5)
    transitions: int = 1_000_000
    truth_steps: int = 1_000_000
    rows: int = 1_000_000
    pendulum_rows: int = 200_000
    maps: tuple[str, ...] = ("auto", "linear", "polynomial:2", "fourier:300")
    map_seeds: int = 2
    widths: tuple[int, ...] = (128, 128)
    steps: int = 40_000
    batch_size: int = 512
    step_size: float = 3e-4
    seeds: int = 5
    mixing: float = 0.005
    discount: float = 0.99
    fitted_q_mixing: float = 0.02
    members: int = 5
    world_widths: tuple[int, ...] = (256, 256, 256)
    held: tuple[str, ...] = mujoco.ENVS[:1]
    seed: int = 0
    actors: str = ""
    actions: str = EXECUTED

    def __post_init__(self) -> None:
        study.require_sizes("practice", self)
        _require(self.actions in ACTIONS, "actions", " or ".join(ACTIONS), self.actions)
        for name in ("envs", "maps"):
            value = getattr(self, name)
            _require(bool(value) and len(set(value)) == len(value), name, "one or more names, each once", value)
        for name in ("sigmas", "noises"):
            value = getattr(self, name)
            right = all(0 < entry < math.inf for entry in value) and all(a < b for a, b in pairwise(value))
            _require(right, name, "increasing finite numbers > 0", value)
        _require(bool(self.subjects), "sigmas", "such that a log is left (pendulum's are in 'noises')", self.sigmas)
        for name in ("widths", "world_widths"):
            value = getattr(self, name)
            _require(bool(value) and min(value) >= 1, name, "one or more integers ≥ 1", value)
        _require(self.members >= 2, "members", "an integer ≥ 2", self.members)
        counts = ("rows", "map_seeds", "steps", "batch_size", "seeds")
        for name in counts:
            _require(getattr(self, name) >= 1, name, "an integer ≥ 1", getattr(self, name))
        right = self.pendulum_rows >= 2 * PENDULUMS and self.pendulum_rows % PENDULUMS == 0
        _require(right, "pendulum_rows", f"a multiple of {PENDULUMS}, twice it or more", self.pendulum_rows)
        _require(0 < self.step_size < math.inf, "step_size", "a finite number > 0", self.step_size)
        for name in ("mixing", "fitted_q_mixing"):
            _require(0 < getattr(self, name) <= 1, name, "above 0 and at most 1", getattr(self, name))
        _require(0 <= self.discount < 1, "discount", "at least 0 and below 1", self.discount)
        _require(0 <= self.seed < 2**20, "seed", "an integer from 0 to 2²⁰ − 1", self.seed)
        _ = self.recorded  # which checks what is its own

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """Every log, by environment."""
        return tuple(
            Subject(env, noise) for env in self.envs for noise in (self.noises if env == PENDULUM else self.sigmas)
        )

    @property
    def recorded(self) -> mujoco.Config | None:
        """The MuJoCo study that records the logs and truths; None where only the pendulum is asked for."""
        envs = tuple(env for env in self.envs if env != PENDULUM)
        if not envs or not self.sigmas:
            return None
        return mujoco.Config(
            envs=envs,
            sigmas=self.sigmas,
            transitions=self.transitions,
            truth_steps=self.truth_steps,
            seed=self.seed,
            actors=self.actors,
        )


def command(config: Config) -> str:
    """A command that gives these settings; where no options do, the manifest itself does."""
    words = ["cesaro", "reproduce", "practice"]
    same: dict[str, Any] = {name: getattr(config, name) for name in ("rows", "seed", "actors", "actions")}
    if config == Config(**{**QUICK, **same}):
        words.append("--quick")
    elif config != Config(**same):
        return "cesaro reproduce --from manifest.json"
    words += ["--rows", str(config.rows), "--actions", config.actions, "--seed", str(config.seed)]
    return shlex.join([*words, *(["--actors", config.actors] if config.actors else [])])
