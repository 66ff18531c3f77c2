"""Figure 4 and the appendix's figure: MuJoCo tasks with networks, four methods, the whole grid of settings.

The target is the deterministic actor of an environment, the behavior the same with normal noise of standard deviation σ on its
actions. Every setting of every method learns from 30 streams of 1,000 minibatches of 100 transitions; what counts is |r_π − mean
r̂ over the last 100 minibatches|, and each method shows its best setting, by the truth.

Beside r̂, every method has a second estimate from the networks it ends at, over all rows: the mean of `R + q(x') − q(x)`, or for
GradientDICE that of `τ(x) R`.
"""

import math
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cesaro.errors import InputError
from cesaro.files import Arrays, Workspace
from cesaro.learning.settings import Setting
from cesaro.reproduce import study
from cesaro.reproduce.mujoco import data as mujoco_data
from cesaro.reproduce.mujoco import learning as mujoco_learning
from cesaro.reproduce.mujoco.data import Recording, Stored
from cesaro.reproduce.mujoco.result import BASELINE, METHODS, Cell, Place, Rate, Result

ENVS = ("HalfCheetah-v5", "Walker2d-v5", "Hopper-v5", "Swimmer-v5")
STREAMS = 20
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


@dataclass(frozen=True)
class Config:
    """The settings of the study; the defaults are the full study.

    Attributes:
        envs: names of Gymnasium environments with vectors for actions, a column of the figure each.
        sigmas: standard deviations of the behavior's noise, a row each.
        transitions: of a log.
        truth_steps: of the simulation that gives the truth.
        lrs: the paper's learning rates; `mujoco_learning.step_sizes` says what they are here.
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
        _require(_are(self.envs, bool), "envs", "different names of environments", self.envs)
        for name in ("sigmas", "lrs", "lams"):
            values = getattr(self, name)
            _require(_are(values, lambda v: 0 < v < math.inf), name, "different finite numbers > 0", values)
        least = 2 * STREAMS
        for name in ("transitions", "truth_steps"):
            _require(getattr(self, name) >= least, name, f"an integer ≥ {least}", getattr(self, name))
        _require(self.runs >= 2, "runs", "an integer ≥ 2", self.runs)
        window = mujoco_learning.WINDOW
        rule = f"a positive multiple of {window}, below ten million"
        _require(self.minibatches % window == 0 and 0 < self.minibatches < 10**7, "minibatches", rule, self.minibatches)
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
        return Recording(env, mujoco_data.actor_file(env, self.actors), sigma, steps, STREAMS, self.seed)


def collect(config: Config, data: str | Path, *, workers: int | None = None, quiet: bool = False) -> None:
    """Simulate the logs and truths that the folder `data` lacks, all streams in one pool of processes."""
    recordings = [config.log(place) for place in config.places] + [config.truth(env) for env in config.envs]
    mujoco_data.collect(recordings, Path(data), workers=workers, quiet=quiet)


def run(
    config: Config,
    out: str | Path,
    *,
    data: str | Path | None = None,
    workers: int | None = None,
    force: bool = False,
    quiet: bool = False,
) -> Result:
    """Run the study, or what is left of it, and leave tables, figures and `manifest.json` in `out`.

    Args:
        data: folder that keeps logs and truths; None: `mujoco_data` beside `out`. What is missing there is simulated first.
        workers: processes of the simulation, and threads of learning on a CPU; None: one per core.

    The results but for times are the same for every number of workers, and after any interruption.

    Raises:
        InputError: a setting breaks its rule, `out` cannot be used, or a file in `data` is not what it should be.
    """
    from cesaro.reproduce.mujoco import figures as mujoco_figures
    from cesaro.reproduce.mujoco import show as mujoco_tables

    if workers is not None:
        study.check_workers(workers)
    folder = Path(os.path.abspath(out)).parent / "mujoco_data" if data is None else Path(data)
    Workspace(out, {}, force=force).check()
    collect(config, folder, workers=workers, quiet=quiet)
    truths = {env: _stored(config.truth(env), folder) for env in config.envs}
    logs = {place: _stored(config.log(place), folder) for place in config.places}
    rates = {env: Rate(*mujoco_data.rate(mujoco_data.load(stored))) for env, stored in truths.items()}
    contents = {stored.file.stem: stored.content[:16] for stored in (*truths.values(), *logs.values())}
    settings = {"study": "mujoco", **asdict(config), "data": contents}
    with Workspace(out, settings, force=force) as work:
        jobs = _jobs(config, logs, rates, workers)
        pieces = study.compute(work, jobs, label="mujoco", workers=_at_a_time(logs), quiet=quiet)
        result = _result(config, pieces, rates, contents)
        mujoco_tables.write_settings(result, work.path / "mujoco.csv")
        mujoco_tables.write_best(result, work.path / "best.csv")
        mujoco_tables.write_curves(result, work.path / "curves.csv")
        for name, figure in mujoco_figures.figures(result).items():
            figure.savefig(work.path / f"{name}.png", dpi=150, metadata={"Software": None})
        manifest = study.manifest("mujoco", asdict(config), seed=config.seed, options={}, summary=result.summary())
        about = {
            "command": _command(config),
            "device": _device(),
            "simulators": next(iter(logs.values())).settings["versions"],
        }
        work.finish({**manifest, **about})
    return result


def _jobs(
    config: Config, logs: Mapping[Place, Stored], truths: Mapping[str, Rate], workers: int | None
) -> dict[str, Callable[[], Arrays]]:
    """A job per log and method."""
    read = mujoco_data.Logs(logs)

    def piece(place: Place, method: str) -> Arrays:
        log = read[place]
        found = mujoco_learning.piece(
            method,
            log.data,
            config.settings(method),
            truth=truths[place[0]].value,
            seeds=config.seeds,
            minibatches=config.minibatches,
            workers=workers,
        )
        return {**found, "behavior": np.array(log.behavior)}

    first = _first_of_each_width(logs)
    places = [*first, *(place for place in config.places if place not in first)]
    # The baseline has the largest grid.
    return {_name(place, m): partial(piece, place, m) for place in places for m in reversed(METHODS)}


def _first_of_each_width(logs: Mapping[Place, Stored]) -> list[Place]:
    """Logs of one width share compiled programs: these come first, so that each program compiles once, all at a time."""
    found: dict[int, Place] = {}
    for place, stored in logs.items():
        found.setdefault(stored.inputs, place)
    return list(found.values())


def _at_a_time(logs: Mapping[Place, Stored]) -> int:
    """Threads of learning: on a CPU the runs of one sweep fill all cores; an accelerator waits for compilers and for logs."""
    import jax

    return 1 if jax.default_backend() == "cpu" else len(METHODS) * len(_first_of_each_width(logs))


def _name(place: Place, method: str) -> str:
    return f"{place[0].replace('/', '_')}_{place[1]!r}_{method}"


def _result(config: Config, pieces: Mapping[str, Arrays], truths: dict[str, Rate], contents: dict[str, str]) -> Result:
    cells, behaviors = {}, {}
    for place in config.places:
        for method in METHODS:
            piece = pieces[_name(place, method)]
            best = int(piece["best"])
            behaviors[place] = Rate(*(float(value) for value in piece["behavior"]))
            cells[place, method] = Cell(
                method,
                config.settings(method),
                truths[place[0]].value,
                piece["reward_rate"],
                piece["diverged_at"],
                piece["samples"] / mujoco_learning.BATCH_SIZE,
                None if best < 0 else best,
                piece["offline"],
                float(piece["seconds"]),
            )
    actors = {env: config.truth(env).settings["actor"][:16] for env in config.envs}
    return Result(config, truths, behaviors, cells, actors, contents)


def _stored(recording: Recording, folder: Path) -> Stored:
    found = mujoco_data.find(recording, folder)
    if found is None:
        raise InputError(
            f"'{folder}' must hold a file for {recording.stem}. Got none: it was taken away meanwhile; run again."
        )
    return found


def _device() -> str:
    import jax

    return str(jax.devices()[0].device_kind)


def _command(config: Config) -> str:
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


def _require(holds: bool, name: str, rule: str, value: Any) -> None:
    if not holds:
        raise InputError(f"The '{name}' setting of the mujoco study must be {rule}. Got {value} instead.")
