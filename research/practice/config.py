"""The settings of the practice study: one per method, for all logs."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar

from cesaro.reproduce.mujoco.config import ENVS as ROBOTS
from cesaro.reproduce.mujoco.config import MujocoConfig
from cesaro.reproduce.settings import (
    POSITIVE,
    RUNS,
    SEED,
    SIDES,
    About,
    Option,
    Requirement,
    StudyConfig,
    at_least,
    one_of,
    several,
)
from research.practice.logs import CHOSEN, EXECUTED, PENDULUM, PENDULUMS, Subject

ENVS = (*ROBOTS, PENDULUM)
_ROBOTS_QUICK = MujocoConfig.ABOUT.quick

_NAMES = several("one or more names, each once", bool, different=True)
_NOISES = Requirement(
    "increasing finite numbers > 0",
    lambda noises: all(0 < noise < math.inf for noise in noises) and all(a < b for a, b in pairwise(noises)),
)
_WIDTHS = several("one or more integers ≥ 1", lambda width: width >= 1, most=SIDES)
_MIXING = Requirement("above 0 and at most 1", lambda share: 0 < share <= 1)
_PENDULUM_ROWS = Requirement(
    f"a multiple of {PENDULUMS}, twice it or more", lambda rows: rows >= 2 * PENDULUMS and rows % PENDULUMS == 0
)


@dataclass(frozen=True)
class PracticeConfig(StudyConfig):
    """The settings of the study; the defaults are the full study.

    Attributes:
        envs: MuJoCo environments, and "pendulum" for the smooth controller of the suite's pendulum.
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

    # The log of the MuJoCo study's own --quick, and a short one of the pendulum.
    ABOUT: ClassVar = About(
        __package__,
        "A glance in minutes: HalfCheetah with noise 0.9 and pendulum with noise 1, 20,000 rows, small networks.",
        {
            "envs": (*_ROBOTS_QUICK["envs"], PENDULUM),
            "sigmas": _ROBOTS_QUICK["sigmas"],
            "noises": (1.0,),
            "transitions": _ROBOTS_QUICK["transitions"],
            "truth_steps": _ROBOTS_QUICK["truth_steps"],
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
        },
        data_help="Folder that keeps the MuJoCo study's logs and truths; what it lacks is simulated.",
    )

    envs: Annotated[
        tuple[str, ...],
        _NAMES,
        Option("Environment, or pendulum; repeat for more.", "env", "the MuJoCo study's four, pendulum"),
    ] = ENVS
    sigmas: Annotated[
        tuple[float, ...],
        _NOISES,
        Option("Standard deviation of the noise in the MuJoCo logs; repeat for more.", "sigma"),
    ] = (0.1, 0.5, 0.9)
    noises: Annotated[
        tuple[float, ...],
        _NOISES,
        Option("Standard deviation of the noise in the pendulum's logs; repeat for more.", "noise"),
    ] = (0.5, 1.0, 1.5)
    transitions: int = 1_000_000
    truth_steps: int = 1_000_000
    rows: Annotated[int, at_least(1), Option("Rows of a MuJoCo log to use, spread evenly.")] = 1_000_000
    pendulum_rows: Annotated[int, _PENDULUM_ROWS] = 200_000
    maps: Annotated[tuple[str, ...], _NAMES] = ("auto", "linear", "polynomial:2", "fourier:300")
    map_seeds: Annotated[int, at_least(1, most=RUNS)] = 2
    widths: Annotated[tuple[int, ...], _WIDTHS] = (128, 128)
    steps: Annotated[int, at_least(1)] = 40_000
    batch_size: Annotated[int, at_least(1)] = 512
    step_size: Annotated[float, POSITIVE] = 3e-4
    seeds: Annotated[int, at_least(1, most=RUNS)] = 5
    mixing: Annotated[float, _MIXING] = 0.005
    discount: Annotated[float, Requirement("at least 0 and below 1", lambda discount: 0 <= discount < 1)] = 0.99
    fitted_q_mixing: Annotated[float, _MIXING] = 0.02
    members: Annotated[int, at_least(2, most=1_000)] = 5
    world_widths: Annotated[tuple[int, ...], _WIDTHS] = (256, 256, 256)
    held: tuple[str, ...] = ROBOTS[:1]
    seed: Annotated[
        int,
        Requirement("an integer from 0 to 2²⁰ − 1", lambda seed: 0 <= seed < 2**20),
        SEED,
    ] = 0
    actors: Annotated[
        str, Option("Folder with a target ENV.safetensors per environment.", "", "those of cesaro", is_path=True)
    ] = ""
    actions: Annotated[
        str,
        one_of(EXECUTED, CHOSEN),
        Option(
            "Logged actions: cut to the actuators' bounds, or as the behavior chose them.", metavar="executed|chosen"
        ),
    ] = EXECUTED

    def check(self) -> None:
        self.require("sigmas", bool(self.subjects), "such that a log is left (pendulum's are in 'noises')")
        _ = self.recorded  # which checks what is its own

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """Every log, by environment."""
        return tuple(
            Subject(env, noise) for env in self.envs for noise in (self.noises if env == PENDULUM else self.sigmas)
        )

    @property
    def recorded(self) -> MujocoConfig | None:
        """The MuJoCo study that records the logs and truths; None where only the pendulum is asked for."""
        envs = tuple(env for env in self.envs if env != PENDULUM)
        if not envs or not self.sigmas:
            return None
        return MujocoConfig(
            envs=envs,
            sigmas=self.sigmas,
            transitions=self.transitions,
            truth_steps=self.truth_steps,
            seed=self.seed,
            actors=self.actors,
        )
