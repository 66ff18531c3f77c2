"""What settings that see no truth give: every method with one fixed setting, on the MuJoCo study's logs and on a pendulum's.

`cesaro reproduce mujoco` chooses settings by the true rate, as the paper does. Whoever holds a log cannot. Here each method has
one setting for all logs, that of `Config`, and networks are trained with Adam until they should have settled (the verdict says
where they have not): closed forms in several feature maps, neural Diff-SGQ with a slowly moving target, the closed form on the
last layer that it learned, neural Diff-GQ1, and discounted fitted-Q evaluation, which is what people do today. Seeds show the
spread.

No setting was chosen among others by an error. They are not blind either: before they were fixed, a smaller trial of much the
same settings on one of the logs (HalfCheetah, noise 0.5) had been compared with its truth.
"""

import math
import os
import shlex
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from cesaro.errors import EvaluationWarning, InputError
from cesaro.files import Arrays, Workspace
from cesaro.reproduce import mujoco, study
from cesaro.reproduce.mujoco import data as mujoco_data
from cesaro.reproduce.practice.logs import PENDULUM, PENDULUMS, Case, Shelf, Subject, mujoco_case, pendulum_case
from cesaro.reproduce.practice.methods import fits, methods
from cesaro.reproduce.practice.result import Result, Truth

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
    "held": (),
}


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
        held: environments on whose logs the residual is also compared between held rates (`practice_held`).
        seed: of logs and truths, maps and networks.
        actors: folder with a file ENV.safetensors per MuJoCo environment; empty: the actors that come with cesaro.
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
    held: tuple[str, ...] = mujoco.ENVS[:1]
    seed: int = 0
    actors: str = ""

    def __post_init__(self) -> None:
        for name in ("envs", "maps"):
            value = getattr(self, name)
            _require(bool(value) and len(set(value)) == len(value), name, "one or more names, each once", value)
        for name in ("sigmas", "noises"):
            value = getattr(self, name)
            right = all(0 < entry < math.inf for entry in value) and all(a < b for a, b in pairwise(value))
            _require(right, name, "increasing finite numbers > 0", value)
        _require(bool(self.subjects), "sigmas", "such that a log is left (pendulum's are in 'noises')", self.sigmas)
        _require(bool(self.widths) and min(self.widths) >= 1, "widths", "one or more integers ≥ 1", self.widths)
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


def run(
    config: Config,
    out: str | Path,
    *,
    data: str | Path | None = None,
    workers: int = 2,
    force: bool = False,
    quiet: bool = False,
) -> Result:
    """Run the study, or what is left of it, and leave three tables, a figure and `manifest.json` in `out`.

    Args:
        data: folder with the logs and truths of the MuJoCo study; None: `mujoco_data` beside `out`. What is missing there is
            simulated first.
        workers: fits at a time; results but for times do not depend on it, nor on interruptions.

    Raises:
        InputError: a setting breaks its rule, `out` cannot be used, or a file in `data` is not what it should be.
    """
    from cesaro.reproduce.practice import figures as practice_figures
    from cesaro.reproduce.practice import show as practice_tables

    study.check_workers(workers)
    Workspace(out, {}, force=force).check()
    folder = Path(os.path.abspath(out)).parent / "mujoco_data" if data is None else Path(data)
    shelf, contents = _shelf(config, folder, quiet)
    with Workspace(out, {"study": "practice", **asdict(config), "data": contents}, force=force) as work:
        # Refusals and runs that diverged are counted; filters of warnings are shared by all threads.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvaluationWarning)
            pieces = study.compute(work, _jobs(config, shelf), label="practice", workers=workers, quiet=quiet)
        result = _result(config, pieces)
        practice_tables.write_estimates(result, work.path / "practice.csv")
        practice_tables.write_seeds(result, work.path / "seeds.csv")
        practice_tables.write_methods(result, work.path / "methods.csv")
        if result.held:
            practice_tables.write_held(result, work.path / "held.csv")
        practice_figures.plot(result).savefig(work.path / "practice.png", dpi=150, metadata={"Software": None})
        manifest = study.manifest("practice", asdict(config), seed=config.seed, options={}, summary=result.summary())
        work.finish({**manifest, "command": _command(config)})
    return result


def _shelf(config: Config, folder: Path, quiet: bool) -> tuple[Shelf, dict[str, str]]:
    """The logs, simulated where they are missing, and checksums of what they hold."""
    recorded, files = config.recorded, {}
    if recorded is not None:
        mujoco.collect(recorded, folder, quiet=quiet)
        wanted = {"truth " + env: recorded.truth(env) for env in recorded.envs}
        wanted |= {Subject(*place).label: recorded.log(place) for place in recorded.places}
        files = {name: mujoco_data.find(recording, folder) for name, recording in wanted.items()}

    def load(subject: Subject) -> Case:
        if subject.env == PENDULUM:
            return pendulum_case(subject.sigma, config.pendulum_rows, config.seed)
        log, truth = files[subject.label], files["truth " + subject.env]
        assert log is not None
        assert truth is not None
        return mujoco_case(log, truth, mujoco_data.actor_file(subject.env, config.actors), config.rows)

    return Shelf(load), {name: stored.content[:16] for name, stored in files.items() if stored is not None}


def _jobs(config: Config, shelf: Shelf) -> dict[str, Callable[[], Arrays]]:
    """By log, so that few logs are in memory at a time."""
    jobs: dict[str, Callable[[], Arrays]] = {}
    for subject in config.subjects:
        jobs[f"{subject.file}_truth"] = partial(_truth, shelf, subject)
        for name, fit in fits(config).items():
            jobs[f"{subject.file}_{name}"] = partial(_fit, shelf, subject, fit)
        if subject.env in config.held:
            jobs[f"{subject.file}_held"] = partial(_fit, shelf, subject, partial(_held, config))
    return jobs


def _truth(shelf: Shelf, subject: Subject) -> Arrays:
    case = shelf(subject)
    return {"truth": np.array([*case.truth, *case.behavior, len(case.log)])}


def _fit(shelf: Shelf, subject: Subject, fit: Callable[[Case], Arrays]) -> Arrays:
    return fit(shelf(subject))


def _held(config: Config, case: Case) -> Arrays:
    from cesaro.reproduce.practice.held import held_residuals

    return held_residuals(config, case)


def _result(config: Config, pieces: Mapping[str, Arrays]) -> Result:
    truths, found = {}, {}
    for subject in config.subjects:
        truth, error, behavior, its_error, rows = (float(v) for v in pieces[f"{subject.file}_truth"]["truth"])
        truths[subject] = Truth(truth, error, behavior, its_error, int(rows))
        parts = [pieces[f"{subject.file}_{name}"] for name in fits(config)]
        for method in methods(config):
            for kind in ("", ".note", ".moved", ".offline", ".seconds"):
                own = [part[method.name + kind] for part in parts if method.name + kind in part]
                if own:
                    found[subject, method.name + kind] = np.concatenate([np.atleast_1d(array) for array in own])
    held = {subject: pieces[f"{subject.file}_held"]["held"] for subject in truths if subject.env in config.held}
    return Result(config, truths, found, held)


def _command(config: Config) -> str:
    """A command that gives these settings; where no options do, the manifest itself does."""
    words = ["cesaro", "reproduce", "practice"]
    same: dict[str, Any] = {"rows": config.rows, "seed": config.seed, "actors": config.actors}
    if config == Config(**{**QUICK, **same}):
        words.append("--quick")
    elif config != Config(**same):
        return "cesaro reproduce --from manifest.json"
    words += ["--rows", str(config.rows), "--seed", str(config.seed)]
    return shlex.join([*words, *(["--actors", config.actors] if config.actors else [])])


def _require(holds: bool, name: str, rule: str, value: Any) -> None:
    if not holds:
        raise InputError(f"The '{name}' setting of the practice study must be {rule}. Got {value} instead.")
