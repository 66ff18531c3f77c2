"""The command `cesaro reproduce mujoco`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cesaro.commands.errors import one_line_errors
from cesaro.commands.studies import print_study
from cesaro.errors import InputError

_OUT = Path("out")


def mujoco(
    env: Annotated[
        list[str] | None, typer.Option(help="Environment; repeat for more.", show_default="the paper's four, v5")
    ] = None,
    sigma: Annotated[
        list[float] | None,
        typer.Option(help="Standard deviation of the behavior's noise; repeat for more.", show_default="0.1, 0.5, 0.9"),
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Runs per setting.", show_default="30")] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A glance in minutes: HalfCheetah with noise 0.9, 20,000 transitions, 5 runs, 300 minibatches, fewer settings.",
        ),
    ] = False,
    actors: Annotated[
        Path | None,
        typer.Option(help="Folder with a target ENV.safetensors per environment.", show_default="those of cesaro"),
    ] = None,
    data: Annotated[Path, typer.Option(help="Folder that keeps logs and truths; what it lacks is simulated.")] = _OUT
    / "mujoco_data",
    only: Annotated[
        str | None, typer.Option(help="data: simulate logs and truths, and stop there.", show_default="everything")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the results; work in progress is in the same name + '.partial'.")
    ] = _OUT / "mujoco",
    force: Annotated[bool, typer.Option("--force", help="Replace the results of an earlier run.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes, and threads on a CPU; the results do not depend on it.", show_default="every core"
        ),
    ] = None,
) -> None:
    """Figure 4 and the appendix's figure: MuJoCo tasks with networks, four methods with the whole grid of settings."""
    with one_line_errors():
        from cesaro.reproduce.mujoco import QUICK, Config, collect, run
        from cesaro.reproduce.study import check_workers

        if only not in (None, "data"):
            raise InputError(f"--only must be data, or left out. Got {only!r}.")
        if quick and runs is not None:
            raise InputError(
                f"--quick means --runs {QUICK['runs']} and more; give one of the two. Got --runs {runs} as well."
            )
        given: dict[str, Any] = {"envs": tuple(env or ()), "sigmas": tuple(sigma or ()), "runs": runs}
        size = {**(QUICK if quick else {}), **{name: value for name, value in given.items() if value not in (None, ())}}
        config = Config(seed=seed, actors="" if actors is None else str(actors), **size)
        if workers is not None:
            check_workers(workers)
        for folder in (out, data):
            if folder.parent == _OUT:
                _OUT.mkdir(exist_ok=True)
        if only == "data":
            collect(config, data, workers=workers, quiet=quiet)
            typer.echo(f"Logs and truths: {data}")
            return
        result = run(config, out, data=data, workers=workers, force=force, quiet=quiet)
    show(result, out)


def show(result: Any, out: Path) -> None:
    """Print the tables and the verdict."""
    from cesaro.reproduce.mujoco.show import figures_of, print_tables, verdict

    files = ["mujoco.csv", "best.csv", "curves.csv", *(f"{name}.png" for name in figures_of(result.config))]
    print_study(result, out, print_tables, verdict, ", ".join(files))
