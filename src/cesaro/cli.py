"""The command `cesaro`. Every command imports what it needs itself, so that `cesaro --help` answers at once."""

import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cesaro import __version__
from cesaro.commands import evaluate as evaluation
from cesaro.commands import simulate as simulation
from cesaro.commands.doctor import doctor
from cesaro.commands.errors import one_line_errors as _one_line_errors
from cesaro.commands.sort import sort
from cesaro.commands.studies import print_study
from cesaro.errors import InputError
from cesaro.reproduce import mujoco_command, practice_command, stall_command

if TYPE_CHECKING:
    from cesaro.reproduce import counterexample as counterexample_study
    from cesaro.reproduce import coverage as coverage_study
    from cesaro.reproduce import rates as rates_study
    from cesaro.reproduce.assumption import Result
    from cesaro.reproduce.boyan import result as boyan_result
    from cesaro.reproduce.pendulum import result as pendulum_result

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
for command in (evaluation.evaluate, evaluation.compare, simulation.collect, simulation.truth, simulation.train_target):
    app.command()(command)
app.command()(sort)
app.command()(doctor)
reproduce = typer.Typer(no_args_is_help=True, invoke_without_command=True)
app.add_typer(reproduce, name="reproduce")
reproduce.command()(mujoco_command.mujoco)
reproduce.command()(practice_command.practice)
reproduce.command()(stall_command.stall)

# Studies write here unless told otherwise; this folder is ours to make, any other must exist.
_OUT = Path("out")

Out = Annotated[Path, typer.Option(help="Folder for the results; work in progress is in the same name + '.partial'.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the results of an earlier run.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]
Workers = Annotated[int, typer.Option(help="Threads; the results do not depend on it.")]


def main() -> None:
    """The entry point of the `cesaro` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a letter is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="cesaro")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cesaro {__version__}")
        raise typer.Exit


@app.callback()
def _cesaro(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """What would this policy earn per step, in the long run? Average-reward off-policy evaluation from logs."""


@reproduce.callback()
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
    engine: Annotated[
        str, typer.Option(help="Where pieces of a study are computed: local, or ray, a cluster.", metavar="local|ray")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Of the Ray cluster, such as auto or HOST:PORT.", show_default="one on this machine"),
    ] = None,
) -> None:
    """Repeat the paper's figures and tables: give a study, or --from manifest.json."""
    with _one_line_errors():
        name = context.invoked_subcommand
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
        _make_own_folder(out)
        if changed := repeat.other_versions(recorded):
            typer.echo(f"note: other versions than in the manifest ({'; '.join(changed)}).", err=True)
        result = recorded.run(out, workers=workers, force=force, quiet=quiet)
        lines = repeat.differences(recorded, result)
    if recorded.study in _PRINTERS:
        _PRINTERS[recorded.study](result, out)
    if not lines:
        typer.echo("Repeated: the summary is identical to the manifest's.")
        return
    typer.echo("NOT repeated: the summary differs from the manifest's.")
    for line in lines:
        typer.echo(f"  {line}")
    raise typer.Exit(1)


@reproduce.command()
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
    with _one_line_errors():
        from cesaro.reproduce.assumption import QUICK, Config, run
        from cesaro.reproduce.study import check_workers

        if quick and trials is not None:
            raise InputError(
                f"--quick means --trials {QUICK['trials']}; give one of the two. Got --trials {trials} as well."
            )
        wanted = QUICK["trials"] if quick else Config.trials if trials is None else trials
        config = Config(trials=wanted, seed=seed, simplex=simplex)
        check_workers(workers)
        _make_own_folder(out)
        result = run(config, out, workers=workers, force=force, quiet=quiet)
    _print_assumption(result, out)


def _print_assumption(result: "Result", out: Path) -> None:
    from cesaro.reproduce.assumption.show import print_tables, verdict

    print_study(result, out, print_tables, verdict, "assumption.csv, assumption.png")


@reproduce.command()
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
    with _one_line_errors():
        from cesaro.reproduce.boyan import EXTRA_METHODS, PAPER_METHODS, QUICK, Config, run
        from cesaro.reproduce.study import check_workers

        given = {name: value for name, value in (("runs", runs), ("samples", samples)) if value is not None}
        if quick and given:
            raise InputError(f"--quick sets {' and '.join(given)} itself; give one of the two.")
        methods = PAPER_METHODS + EXTRA_METHODS * all_methods
        size = QUICK if quick else given
        config = Config(methods=methods, seed=seed, misfit=misfit, start=start, **size)
        check_workers(workers)
        out = _OUT / ("boyan_misfit" if misfit else "boyan") if out is None else out
        _make_own_folder(out)
        result = run(config, out, workers=workers, force=force, quiet=quiet)
    _print_boyan(result, out)


def _print_boyan(result: "boyan_result.Result", out: Path) -> None:
    from cesaro.reproduce.boyan.show import print_tables, verdict

    print_study(result, out, print_tables, verdict, "boyan.csv, best.csv, boyan.png, step_size.png")


@reproduce.command()
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
    with _one_line_errors():
        from cesaro.reproduce.counterexample import QUICK, Config, run
        from cesaro.reproduce.study import check_workers

        if quick and runs is not None:
            raise InputError(
                f"--quick means --runs {QUICK['runs']} and more; give one of the two. Got --runs {runs} as well."
            )
        size = QUICK if quick else {"runs": Config.runs if runs is None else runs}
        config = Config(seed=seed, **size)
        check_workers(workers)
        _make_own_folder(out)
        result = run(config, out, workers=workers, force=force, quiet=quiet)
    _print_counterexample(result, out)


def _print_counterexample(result: "counterexample_study.Result", out: Path) -> None:
    from cesaro.reproduce.counterexample.show import print_tables, verdict

    print_study(result, out, print_tables, verdict, "counterexample.csv, trajectories.csv, counterexample.png")


@reproduce.command()
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
    with _one_line_errors():
        from cesaro.reproduce.rates import QUICK, Config, run
        from cesaro.reproduce.study import check_workers

        if quick and not (problems is None and runs is None):
            raise InputError(
                f"--quick means --problems {QUICK['problems']}, --runs {QUICK['runs']} and more; give --quick or those."
            )
        wanted = {"problems": problems, "runs": runs}
        size = QUICK if quick else {name: value for name, value in wanted.items() if value is not None}
        config = Config(seed=seed, **size)
        check_workers(workers)
        _make_own_folder(out)
        result = run(config, out, workers=workers, force=force, quiet=quiet)
    _print_rates(result, out)


def _print_rates(result: "rates_study.Result", out: Path) -> None:
    from cesaro.reproduce.rates.show import print_tables, verdict

    print_study(result, out, print_tables, verdict, "rates.csv, problems.csv, rates.png")


@reproduce.command()
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
    with _one_line_errors():
        from cesaro.reproduce.coverage import QUICK, Config, run
        from cesaro.reproduce.study import check_workers

        if quick and logs is not None:
            raise InputError(
                f"--quick means --logs {QUICK['logs']} and more; give one of the two. Got --logs {logs} as well."
            )
        size = QUICK if quick else {"logs": Config.logs if logs is None else logs}
        config = Config(seed=seed, **size)
        check_workers(workers)
        _make_own_folder(out)
        result = run(config, out, workers=workers, force=force, quiet=quiet)
    _print_coverage(result, out)


def _print_coverage(result: "coverage_study.Result", out: Path) -> None:
    from cesaro.reproduce.coverage.show import print_tables, verdict

    print_study(result, out, print_tables, verdict, "coverage.csv, series.csv, coverage.png")


@reproduce.command()
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
    with _one_line_errors():
        from cesaro.reproduce.pendulum import QUICK, Config, run
        from cesaro.reproduce.study import check_workers

        if quick and logs is not None:
            raise InputError(
                f"--quick means --logs {QUICK['logs']} and more; give one of the two. Got --logs {logs} as well."
            )
        size = QUICK if quick else {"logs": Config.logs if logs is None else logs}
        config = Config(seed=seed, **size)
        check_workers(workers)
        _make_own_folder(out)
        result = run(config, out, workers=workers, force=force, quiet=quiet)
    _print_pendulum(result, out)


def _print_pendulum(result: "pendulum_result.Result", out: Path) -> None:
    from cesaro.reproduce.pendulum.show import print_tables, verdict

    print_study(result, out, print_tables, verdict, "pendulum.csv, logs.csv, settings.csv, pendulum.png")


# What to print after a study that --from repeats.
_PRINTERS: dict[str, Callable[[Any, Path], None]] = {
    "assumption": _print_assumption,
    "boyan": _print_boyan,
    "counterexample": _print_counterexample,
    "coverage": _print_coverage,
    "mujoco": mujoco_command.show,
    "pendulum": _print_pendulum,
    "practice": practice_command.show,
    "rates": _print_rates,
    "stall": stall_command.show,
}


def _make_own_folder(out: Path) -> None:
    if out.parent == _OUT:
        _OUT.mkdir(exist_ok=True)


if __name__ == "__main__":
    main()
