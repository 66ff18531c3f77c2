"""`cesaro reproduce`: the paper's studies and ours, a command each, and `--from`, which repeats any of them."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from cesaro.commands import output
from cesaro.commands.errors import one_line_errors
from cesaro.devices import starting_jax
from cesaro.errors import InputError

app = typer.Typer(no_args_is_help=True, invoke_without_command=True)

# Studies write here unless told otherwise; this folder is ours to make, any other must exist.
_OUT = Path("out")

Out = Annotated[Path, typer.Option(help="Folder for the results; work in progress is in the same name + '.partial'.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the results of an earlier run.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]
Workers = Annotated[int, typer.Option(help="Threads; the results do not depend on it.")]
Engine = Annotated[str, typer.Option(help="Where to compute: local, or ray (a cluster).", metavar="local|ray")]
Address = Annotated[
    str | None,
    typer.Option(help="Address of the Ray cluster: auto or HOST:PORT.", show_default="one on this machine"),
]
Actors = Annotated[
    Path | None,
    typer.Option(help="Folder with a target ENV.safetensors per environment.", show_default="those of cesaro"),
]


@app.callback()
def _reproduce(
    context: typer.Context,
    manifest: Annotated[
        Path | None,
        typer.Option("--from", help="Repeat the study that this manifest.json records.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="With --from: folder for the results.", show_default="out/STUDY")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="With --from: replace the results of an earlier run.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="With --from: no progress bar.")] = False,
    workers: Annotated[int, typer.Option(help="With --from: threads.")] = 2,
    engine: Engine = "local",
    address: Address = None,
) -> None:
    """Repeat the paper's figures and tables: give a study, or --from manifest.json."""
    name = context.invoked_subcommand
    with one_line_errors(is_work=name is None):
        if engine != "local" or address is not None:
            from cesaro.engines import using

            context.with_resource(using(engine, address))
        if name is not None:
            if manifest is not None or out is not None or force or quiet or workers != 2:
                raise InputError(
                    "Options before the study's name belong to --from alone, but for --engine and --address; write: "
                    f"reproduce {name} OPTIONS."
                )
            return
        if manifest is None:
            raise InputError(
                "reproduce needs the name of a study, or --from manifest.json; see: cesaro reproduce --help."
            )
        from cesaro.reproduce import repeat
        from cesaro.reproduce.study import check_workers

        recorded = repeat.read(manifest)
        check_workers(workers)
        out = _OUT / recorded.study if out is None else out
        make_own_folder(out)
        if changed := repeat.other_versions(recorded):
            output.echo(f"note: other versions than in the manifest ({'; '.join(changed)}).", aside=True)
        result = recorded.run(out, workers=workers, force=force, quiet=quiet)
        lines = repeat.differences(recorded, result)
    _print(recorded.study, result, out)
    if not lines:
        output.echo("Repeated: the summary is identical to the manifest's.")
        return
    output.echo("NOT repeated: the summary differs from the manifest's.")
    for line in lines:
        output.echo(f"  {line}")
    raise typer.Exit(1)


@app.command()
def mujoco(
    env: Annotated[
        list[str] | None, typer.Option(help="Environment; repeat for more.", show_default="the paper's four, v5")
    ] = None,
    sigma: Annotated[
        list[float] | None,
        typer.Option(help="Standard deviation of the behavior's noise; repeat for more.", show_default="0.1, 0.5, 0.9"),
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Runs per setting.", show_default="30")] = None,
    seed: Seed = 0,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A glance in minutes: HalfCheetah with noise 0.9, 20,000 transitions, 5 runs, 300 minibatches, fewer settings.",
        ),
    ] = False,
    actors: Actors = None,
    data: Annotated[Path, typer.Option(help="Folder that keeps logs and truths; what it lacks is simulated.")] = _OUT
    / "mujoco_data",
    only: Annotated[
        str | None, typer.Option(help="data: simulate logs and truths, and stop there.", show_default="everything")
    ] = None,
    out: Out = _OUT / "mujoco",
    force: Force = False,
    quiet: Quiet = False,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes, and threads on a CPU; the results do not depend on it.", show_default="every core"
        ),
    ] = None,
) -> None:
    """Figure 4 and the appendix's figure: MuJoCo tasks with networks, four methods with the whole grid of settings."""

    def settings(study: Any) -> Any:
        if only not in (None, "data"):
            raise InputError(f"--only must be data, or left out. Got {only!r}.")
        size = _size(study, quick, "runs", runs)
        places = {"envs": tuple(env or ()), "sigmas": tuple(sigma or ())}
        size |= {name: values for name, values in places.items() if values}
        return study.Config(seed=seed, actors=_text(actors), **size)

    is_data = only == "data"
    _run("mujoco", settings, out, data=data, only_data=is_data, force=force, quiet=quiet, workers=workers)


@app.command()
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
    actions: Annotated[
        str,
        typer.Option(
            metavar="executed|chosen",
            help="Logged actions: cut to the actuators' bounds, or as the behavior chose them.",
        ),
    ] = "executed",
    seed: Seed = 0,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A glance in minutes: HalfCheetah with noise 0.9 and pendulum with noise 1, 20,000 rows, small networks.",
        ),
    ] = False,
    actors: Actors = None,
    data: Annotated[
        Path, typer.Option(help="Folder that keeps the MuJoCo study's logs and truths; what it lacks is simulated.")
    ] = _OUT / "mujoco_data",
    out: Out = _OUT / "practice",
    force: Force = False,
    quiet: Quiet = False,
    workers: Workers = 2,
) -> None:
    """What settings that see no truth give: closed forms, networks and fitted Q on the MuJoCo study's logs and a pendulum's."""

    def settings(study: Any) -> Any:
        return practice_settings(study, env, sigma, rows, seed, quick, _text(actors), actions)

    _run("practice", settings, out, data=data, force=force, quiet=quiet, workers=workers)


def practice_settings(
    study: Any,
    envs: list[str] | None,
    sigmas: list[float] | None,
    rows: int | None,
    seed: int,
    quick: bool,
    actors: str,
    actions: str = "executed",
) -> Any:
    """The practice study that the options ask for. Noise that an environment's own list lacks is new for MuJoCo, which has one
    list for all; the pendulum has a list of its own, and takes part with those of its noises that are asked for, or with all
    asked for where it is alone."""
    size: dict[str, Any] = dict(study.QUICK) if quick else {}
    if envs:
        size["envs"] = tuple(envs)
    if rows is not None:
        size["rows"] = rows
    if sigmas:
        wanted = tuple(sorted(sigmas))
        is_alone = set(size.get("envs", study.Config.envs)) == {study.PENDULUM}
        size["sigmas"] = wanted
        size["noises"] = wanted if is_alone else tuple(noise for noise in study.Config.noises if noise in wanted)
    if len(set(sigmas or ())) < len(sigmas or ()):
        raise InputError(f"--sigma must be given once per noise. Got {', '.join(f'{s:g}' for s in sigmas or ())}.")
    return study.Config(seed=seed, actors=actors, actions=actions, **size)


@app.command()
def stall(
    seeds: Annotated[int | None, typer.Option(help="Runs per problem and method.", show_default="2")] = None,
    seed: Seed = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A glance in seconds: one problem, 10,000 rows, 3,600 steps, 1 run.")
    ] = False,
    out: Out = _OUT / "stall",
    force: Force = False,
    quiet: Quiet = False,
    workers: Workers = 2,
) -> None:
    """Why a network trained with Diff-GQ1 stays near the log's rate: slow, misled by noise, or free to fit any rate?"""

    def settings(study: Any) -> Any:
        return study.Config(seed=seed, **_size(study, quick, "seeds", seeds))

    _run("stall", settings, out, force=force, quiet=quiet, workers=workers)


@app.command()
def assumption(
    trials: Annotated[int | None, typer.Option(help="Random chains per table row.", show_default="10000")] = None,
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A glance in seconds: 300 trials.")] = False,
    simplex: Annotated[
        str,
        typer.Option(help="How rows of P are drawn: stick-breaking, or uniform (the paper's wording, for contrast)."),
    ] = "stick-breaking",
    out: Out = _OUT / "assumption",
    force: Force = False,
    quiet: Quiet = False,
    workers: Workers = 2,
) -> None:
    """Tables 1 and 2: how often the assumption that F is positive semidefinite holds on random chains."""

    def settings(study: Any) -> Any:
        return study.Config(seed=seed, simplex=simplex, **_size(study, quick, "trials", trials))

    _run("assumption", settings, out, force=force, quiet=quiet, workers=workers)


@app.command()
def boyan(
    runs: Annotated[int | None, typer.Option(help="Runs per setting.", show_default="30")] = None,
    samples: Annotated[int | None, typer.Option(help="Samples per run.", show_default="5000")] = None,
    seed: Seed = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A glance in seconds: 7 panels, 10 step sizes, 10 runs, 1,000 samples.")
    ] = False,
    all_methods: Annotated[
        bool, typer.Option("--all-methods", help="Also Diff-GQ3, Diff-GQ4 and projected Diff-GQ1 and Diff-GQ2.")
    ] = False,
    misfit: Annotated[bool, typer.Option("--misfit", help="Features that cannot express the values.")] = False,
    start: Annotated[
        str, typer.Option(help="Where weights start: zero, or authors (random, as in their code).")
    ] = "zero",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="out/boyan, or out/boyan_misfit")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    workers: Workers = 2,
) -> None:
    """Figure 2: Boyan's chain, four methods with the whole grid of settings, in 13 panels."""

    def settings(study: Any) -> Any:
        given = {name: value for name, value in (("runs", runs), ("samples", samples)) if value is not None}
        if quick and given:
            raise InputError(f"--quick sets {' and '.join(given)} itself; give one of the two.")
        methods = study.PAPER_METHODS + study.EXTRA_METHODS * all_methods
        return study.Config(methods=methods, seed=seed, misfit=misfit, start=start, **(study.QUICK if quick else given))

    out = _OUT / ("boyan_misfit" if misfit else "boyan") if out is None else out
    _run("boyan", settings, out, force=force, quiet=quiet, workers=workers)


@app.command()
def counterexample(
    runs: Annotated[int | None, typer.Option(help="Runs per method and step size.", show_default="400")] = None,
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A glance in seconds: 100 runs, 5 step sizes.")] = False,
    out: Out = _OUT / "counterexample",
    force: Force = False,
    quiet: Quiet = False,
    workers: Workers = 2,
) -> None:
    """Section 3's counterexample: Diff-SGQ diverges at every step size, Diff-GQ1 and Diff-GQ2 converge."""

    def settings(study: Any) -> Any:
        return study.Config(seed=seed, **_size(study, quick, "runs", runs))

    _run("counterexample", settings, out, force=force, quiet=quiet, workers=workers)


@app.command()
def rates(
    problems: Annotated[int | None, typer.Option(help="Random problems.", show_default="20")] = None,
    runs: Annotated[
        int | None, typer.Option(help="Runs per problem, method and number of samples.", show_default="40")
    ] = None,
    seed: Seed = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A glance in seconds: 6 problems, 20 runs, up to 8,192 samples.")
    ] = False,
    out: Out = _OUT / "rates",
    force: Force = False,
    quiet: Quiet = False,
    workers: Workers = 2,
) -> None:
    """The finite-sample analysis: how fast Projected Diff-GQ1 and Diff-GQ2 approach the TD fixed point."""

    def settings(study: Any) -> Any:
        given = {name: value for name, value in (("problems", problems), ("runs", runs)) if value is not None}
        if quick and given:
            sets = f"--problems {study.QUICK['problems']}, --runs {study.QUICK['runs']}"
            raise InputError(f"--quick means {sets} and more; give --quick or those.")
        return study.Config(seed=seed, **(study.QUICK if quick else given))

    _run("rates", settings, out, force=force, quiet=quiet, workers=workers)


@app.command()
def coverage(
    logs: Annotated[
        int | None, typer.Option(help="Logs per chain and number of trajectories.", show_default="1000")
    ] = None,
    seed: Seed = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A glance in seconds: 40 logs, up to 150 autocorrelation times.")
    ] = False,
    out: Out = _OUT / "coverage",
    force: Force = False,
    quiet: Quiet = False,
    workers: Workers = 2,
) -> None:
    """How often intervals hold what they are for: logs of a fast and a sticky chain, features that fit and that do not."""

    def settings(study: Any) -> Any:
        return study.Config(seed=seed, **_size(study, quick, "logs", logs))

    _run("coverage", settings, out, force=force, quiet=quiet, workers=workers)


@app.command()
def pendulum(
    logs: Annotated[int | None, typer.Option(help="Logs per controller and noise.", show_default="5")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first log; the next log has the next.")] = 100,
    quick: Annotated[
        bool, typer.Option("--quick", help="A glance in seconds: 1 controller, 1 log of 20,000 rows, smaller maps.")
    ] = False,
    out: Out = _OUT / "pendulum",
    force: Force = False,
    quiet: Quiet = False,
    workers: Workers = 2,
) -> None:
    """Continuous logs: what several feature maps, ridges and the default make of a pendulum's controllers."""

    def settings(study: Any) -> Any:
        return study.Config(seed=seed, **_size(study, quick, "logs", logs))

    _run("pendulum", settings, out, force=force, quiet=quiet, workers=workers)


def _run(
    name: str,
    settings: Callable[[Any], Any],
    out: Path,
    *,
    data: Path | None = None,
    only_data: bool = False,
    force: bool,
    quiet: bool,
    workers: int | None,
) -> None:
    """Run a study and print what came out.

    Args:
        name: of the study and its command.
        settings: makes the study's `Config` from the study's package, or refuses the options.
        data: folder of logs and truths, for the studies that keep some.
        only_data: simulate what that folder lacks, and stop there.
    """
    with one_line_errors():
        from cesaro.reproduce.repeat import STUDIES
        from cesaro.reproduce.study import check_workers

        with starting_jax():
            study = import_module(STUDIES[name])
        config = settings(study)
        if workers is not None:
            check_workers(workers)
        make_own_folder(out)
        if data is not None:
            make_own_folder(data)
        if only_data:
            study.collect(config, data, workers=workers, quiet=quiet)
            output.echo(f"Logs and truths: {data}")
            return
        folders = {} if data is None else {"data": data}
        result = study.run(config, out, **folders, workers=workers, force=force, quiet=quiet)
    _print(name, result, out)


def _size(study: Any, is_quick: bool, option: str, value: int | None) -> dict[str, Any]:
    """The size of a study that one option sets: what --quick stands for, the number that was given, or nothing."""
    if not is_quick:
        return {} if value is None else {option: value}
    if value is not None:
        means = f"--{option} {study.QUICK[option]}" + " and more" * (len(study.QUICK) > 1)
        raise InputError(f"--quick means {means}; give one of the two. Got --{option} {value} as well.")
    return dict(study.QUICK)


def _print(name: str, result: Any, out: Path) -> None:
    """Tables, the verdict, and which files are where."""
    from cesaro.reproduce.repeat import STUDIES

    show = import_module(f"{STUDIES[name]}.show")
    console = output.console()
    show.print_tables(result, console)
    for line in show.verdict(result):
        console.print(line, markup=False)
    output.echo(f"Results: {out} ({', '.join(show.files(result))}, manifest.json)")


def make_own_folder(folder: Path) -> None:
    if folder.parent == _OUT:
        _OUT.mkdir(exist_ok=True)


def _text(folder: Path | None) -> str:
    return "" if folder is None else str(folder)
