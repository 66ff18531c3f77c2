"""The MuJoCo study: logs and truths where they are missing, then every setting of every method on every log."""

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

import jax
import numpy as np

from cesaro.errors import InputError
from cesaro.files import Arrays
from cesaro.reproduce import study
from cesaro.reproduce.mujoco import data as recordings
from cesaro.reproduce.mujoco import learning, show
from cesaro.reproduce.mujoco.config import BATCH_SIZE, METHODS, Config, Place, command
from cesaro.reproduce.mujoco.data import Recording, Stored
from cesaro.reproduce.mujoco.result import Cell, Rate, Result


def collect(config: Config, data: str | Path, *, workers: int | None = None, quiet: bool = False) -> None:
    """Simulate the logs and truths that the folder `data` lacks, all streams in one pool of processes."""
    wanted = [config.log(place) for place in config.places] + [config.truth(env) for env in config.envs]
    recordings.collect(wanted, Path(data), workers=workers, quiet=quiet)


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
    if workers is not None:
        study.check_workers(workers)
    folder = Path(os.path.abspath(out)).parent / "mujoco_data" if data is None else Path(data)
    with study.Folder(out, force=force) as work:
        collect(config, folder, workers=workers, quiet=quiet)
        truths = {env: _stored(config.truth(env), folder) for env in config.envs}
        logs = {place: _stored(config.log(place), folder) for place in config.places}
        rates = {env: Rate(*recordings.rate(recordings.load(stored))) for env, stored in truths.items()}
        contents = {stored.file.stem: stored.content[:16] for stored in (*truths.values(), *logs.values())}
        work.resume({"study": "mujoco", **asdict(config), "data": contents})
        jobs = _jobs(config, logs, rates, workers)
        pieces = study.compute(work, jobs, label="mujoco", workers=_at_a_time(logs), quiet=quiet)
        result = _result(config, pieces, rates, contents)
        show.write_settings(result, work.file("mujoco.csv"))
        show.write_best(result, work.file("best.csv"))
        show.write_curves(result, work.file("curves.csv"))
        for name, figure in show.figures(result).items():
            figure.savefig(work.file(f"{name}.png"), dpi=150, metadata={"Software": None})
        manifest = study.manifest("mujoco", asdict(config), seed=config.seed, options={}, summary=result.summary())
        about = {
            "command": command(config),
            "device": _device(),
            "simulators": next(iter(logs.values())).settings["versions"],
        }
        work.finish({**manifest, **about})
    return result


def _jobs(
    config: Config, logs: Mapping[Place, Stored], truths: Mapping[str, Rate], workers: int | None
) -> dict[str, Callable[[], Arrays]]:
    """A job per log and method."""
    read = recordings.Logs(logs)

    def piece(place: Place, method: str) -> Arrays:
        log = read[place]
        found = learning.piece(
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
                piece["samples"] / BATCH_SIZE,
                None if best < 0 else best,
                piece["offline"],
                float(piece["seconds"]),
            )
    actors = {env: config.truth(env).settings["actor"][:16] for env in config.envs}
    return Result(config, truths, behaviors, cells, actors, contents)


def _stored(recording: Recording, folder: Path) -> Stored:
    found = recordings.find(recording, folder)
    if found is None:
        raise InputError(
            f"'{folder}' must hold a file for {recording.stem}. Got none: it was taken away meanwhile; run again."
        )
    return found


def _device() -> str:
    return str(jax.devices()[0].device_kind)
