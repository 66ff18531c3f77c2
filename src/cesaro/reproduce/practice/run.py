"""The practice study: every method on every log, and the truths that score them."""

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from cesaro.errors import EvaluationWarning
from cesaro.files import Arrays
from cesaro.reproduce import mujoco, study
from cesaro.reproduce.mujoco import data as recordings
from cesaro.reproduce.practice import show
from cesaro.reproduce.practice.config import Config, command
from cesaro.reproduce.practice.held import held_residuals
from cesaro.reproduce.practice.logs import PENDULUM, Case, Shelf, Subject, mujoco_case, pendulum_case
from cesaro.reproduce.practice.methods import fits, methods
from cesaro.reproduce.practice.result import Result, Truth


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
    study.check_workers(workers)
    folder = Path(os.path.abspath(out)).parent / "mujoco_data" if data is None else Path(data)
    with study.Folder(out, force=force) as work:
        shelf, contents = _shelf(config, folder, quiet)
        work.resume({"study": "practice", **asdict(config), "data": contents})
        # Refusals and runs that diverged are counted; filters of warnings are shared by all threads.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvaluationWarning)
            pieces = study.compute(work, _jobs(config, shelf), label="practice", workers=workers, quiet=quiet)
        result = _result(config, pieces)
        show.write_estimates(result, work.file("practice.csv"))
        show.write_seeds(result, work.file("seeds.csv"))
        show.write_methods(result, work.file("methods.csv"))
        if result.held:
            show.write_held(result, work.file("held.csv"))
        show.plot(result).savefig(work.file("practice.png"), dpi=150, metadata={"Software": None})
        manifest = study.manifest("practice", asdict(config), seed=config.seed, options={}, summary=result.summary())
        work.finish({**manifest, "command": command(config)})
    return result


def _shelf(config: Config, folder: Path, quiet: bool) -> tuple[Shelf, dict[str, str]]:
    """The logs, simulated where they are missing, and checksums of what they hold."""
    recorded, files = config.recorded, {}
    if recorded is not None:
        mujoco.collect(recorded, folder, quiet=quiet)
        wanted = {"truth " + env: recorded.truth(env) for env in recorded.envs}
        wanted |= {Subject(*place).label: recorded.log(place) for place in recorded.places}
        files = {name: recordings.find(recording, folder) for name, recording in wanted.items()}

    def load(subject: Subject) -> Case:
        if subject.env == PENDULUM:
            return pendulum_case(subject.sigma, config.pendulum_rows, config.seed, config.actions)
        log, truth = files[subject.label], files["truth " + subject.env]
        assert log is not None
        assert truth is not None
        actor = recordings.actor_file(subject.env, config.actors)
        return mujoco_case(log, truth, actor, config.rows, config.actions)

    return Shelf(load), {name: stored.content[:16] for name, stored in files.items() if stored is not None}


def _jobs(config: Config, shelf: Shelf) -> dict[str, Callable[[], Arrays]]:
    """By log, so that few logs are in memory at a time."""
    jobs: dict[str, Callable[[], Arrays]] = {}
    for subject in config.subjects:
        jobs[f"{subject.file}_truth"] = partial(_truth, shelf, subject)
        for name, fit in fits(config).items():
            jobs[f"{subject.file}_{name}"] = partial(_fit, shelf, subject, fit)
        if subject.env in config.held:
            jobs[f"{subject.file}_held"] = partial(_fit, shelf, subject, partial(held_residuals, config))
    return jobs


def _truth(shelf: Shelf, subject: Subject) -> Arrays:
    case = shelf(subject)
    return {"truth": np.array([*case.truth, *case.behavior, len(case.log)])}


def _fit(shelf: Shelf, subject: Subject, fit: Callable[[Case], Arrays]) -> Arrays:
    return fit(shelf(subject))


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
