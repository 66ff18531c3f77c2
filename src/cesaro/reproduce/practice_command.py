"""The command `cesaro reproduce practice`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cesaro.commands.errors import one_line_errors
from cesaro.commands.studies import print_study
from cesaro.errors import InputError

_OUT = Path("out")


def practice(
    env: Annotated[
        list[str] | None,
        typer.Option(
            help="Environment, or pendulum; repeat for more.", show_default="the MuJoCo study's four, pendulum"
        ),
    ] = None,
    sigma: Annotated[
        list[float] | None,
        typer.Option(
            help="Standard deviation of the behavior's noise; repeat for more.",
            show_default="0.1, 0.5, 0.9; pendulum 0.5, 1, 1.5",
        ),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(help="Rows of a MuJoCo log to use, spread evenly.", show_default="1000000")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A glance in minutes: HalfCheetah with noise 0.9 and pendulum with noise 1, 20,000 rows, small networks.",
        ),
    ] = False,
    actors: Annotated[
        Path | None,
        typer.Option(help="Folder with a target ENV.safetensors per environment.", show_default="those of cesaro"),
    ] = None,
    data: Annotated[
        Path, typer.Option(help="Folder that keeps the MuJoCo study's logs and truths; what it lacks is simulated.")
    ] = _OUT / "mujoco_data",
    out: Annotated[
        Path, typer.Option(help="Folder for the results; work in progress is in the same name + '.partial'.")
    ] = _OUT / "practice",
    force: Annotated[bool, typer.Option("--force", help="Replace the results of an earlier run.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    workers: Annotated[int, typer.Option(help="Threads; the results do not depend on it.")] = 2,
) -> None:
    """What settings that see no truth give: closed forms, networks and fitted Q on the MuJoCo study's logs and a pendulum's."""
    with one_line_errors():
        from cesaro.reproduce.practice import run
        from cesaro.reproduce.study import check_workers

        check_workers(workers)
        config = _config(env, sigma, rows, seed, quick, "" if actors is None else str(actors))
        for folder in (out, data):
            if folder.parent == _OUT:
                _OUT.mkdir(exist_ok=True)
        result = run(config, out, data=data, workers=workers, force=force, quiet=quiet)
    show(result, out)


def _config(
    envs: list[str] | None, sigmas: list[float] | None, rows: int | None, seed: int, quick: bool, actors: str
) -> Any:
    """The study that the options ask for. Noise that an environment's own list lacks is new for MuJoCo, which has one list
    for all; the pendulum has a list of its own, and takes part with those of its noises that are asked for, or with all asked
    for where it is alone."""
    from cesaro.reproduce.practice import QUICK, Config
    from cesaro.reproduce.practice.logs import PENDULUM

    size: dict[str, Any] = dict(QUICK) if quick else {}
    if envs:
        size["envs"] = tuple(envs)
    if rows is not None:
        size["rows"] = rows
    if sigmas:
        wanted = tuple(sorted(sigmas))
        is_alone = set(size.get("envs", Config.envs)) == {PENDULUM}
        size["sigmas"] = wanted
        size["noises"] = wanted if is_alone else tuple(noise for noise in Config.noises if noise in wanted)
    if len(set(sigmas or ())) < len(sigmas or ()):
        raise InputError(f"--sigma must be given once per noise. Got {', '.join(f'{s:g}' for s in sigmas or ())}.")
    return Config(seed=seed, actors=actors, **size)


def show(result: Any, out: Path) -> None:
    """Print the tables and the verdict."""
    from cesaro.reproduce.practice.show import print_tables, verdict

    held = "held.csv, " if result.held else ""
    print_study(result, out, print_tables, verdict, f"practice.csv, seeds.csv, methods.csv, {held}practice.png")
