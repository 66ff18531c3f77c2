"""Studies and the scoreboard, which run for long, resume, and write a folder: `cesaro reproduce` and `cesaro suite`.

A study has a command of its own, whose options are the fields of its settings; `--from` repeats any of them.
"""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from cesaro.commands import program
from cesaro.commands.options import PlainQuiet, PlainSeed
from cesaro.commands.program import one_line_errors
from cesaro.devices import starting_jax
from cesaro.errors import InputError
from cesaro.reproduce import MOVED, STUDIES
from cesaro.reproduce.settings import About, Spec, StudyConfig, is_size, options_of

app = typer.Typer(no_args_is_help=True, invoke_without_command=True)

# Studies write here unless told otherwise; this folder is ours to make, any other must exist.
_OUT = Path("out")

Out = Annotated[Path, typer.Option(help="Folder for the results; work in progress is in the same name + '.partial'.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the results of an earlier run.")]
Workers = Annotated[int, typer.Option(help="Threads; the results do not depend on it.")]
Engine = Annotated[str, typer.Option(help="Where to compute: local, or ray (a cluster).", metavar="local|ray")]
Address = Annotated[
    str | None,
    typer.Option(help="Address of the Ray cluster: auto or HOST:PORT.", show_default="one on this machine"),
]
Manifest = Annotated[
    Path | None, typer.Option("--from", help="Repeat the study that this manifest.json records.", show_default=False)
]


@app.callback()
def _reproduce(
    context: typer.Context,
    manifest: Manifest = None,
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
    _repeat(manifest, STUDIES, out, force=force, quiet=quiet, workers=workers)


def study_command(package: str, *, repeats: bool = False) -> Callable[..., None]:
    """The command of a study: an option per field of its settings that has one, and what all studies take.

    Args:
        package: dotted name of the study's package; the first line of its docstring is the help of the command.
        repeats: whether the command itself takes `--from`.
    """
    study = import_module(package)
    settings: type[StudyConfig] = study.Config
    about, options = settings.ABOUT, options_of(settings)

    def command(
        *,
        out: Path | None,
        force: bool,
        quiet: bool,
        workers: int | None,
        quick: bool,
        data: Path | None = None,
        only: str | None = None,
        manifest: Path | None = None,
        **given: Any,
    ) -> None:
        if manifest is not None:
            _repeat(manifest, {about.name: package}, out, force=force, quiet=quiet, workers=workers)
            return
        with one_line_errors():
            if only not in (None, "data"):
                raise InputError(f"--only must be data, or left out. Got {only!r}.")
            config = _settings(settings, options, quick, given)
            with starting_jax():
                import_module(f"{package}.run")
            from cesaro.reproduce.study import check_workers, loaded, run

            program.loaded()
            if workers is not None:
                check_workers(workers)
            out = _OUT / _folder(about, options, given) if out is None else out
            with own_folder(out, data):
                if only is not None and data is not None:
                    loaded(config, workers=workers, quiet=quiet).collect(data)
                    program.echo(f"Logs and truths: {data}")
                    return
                result = run(config, out, data=data, workers=workers, force=force, quiet=quiet)
        _print(about, result, out)

    parameters = _parameters(about, options, repeats)
    command.__name__, command.__doc__ = about.name, (study.__doc__ or "").partition("\n")[0]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # what Typer looks at
    return command


def _parameters(about: About, options: list[Spec], repeats: bool) -> list[inspect.Parameter]:
    """Settings up to the seed, then flags with `--quick` first, then other settings; places and ways to run come last."""
    flags, values = ([spec for spec in options if spec.is_flag == is_flag] for is_flag in (True, False))
    first = next(number for number, spec in enumerate(values) if spec.name == "seed") + 1
    found = [_parameter("manifest", Manifest, None)] if repeats else []
    found += [_option(about, spec) for spec in values[:first]]
    found.append(_parameter("quick", Annotated[bool, typer.Option("--quick", help=about.quick_help)], False))
    found += [_option(about, spec) for spec in (*flags, *values[first:])]
    if about.data_help:
        found.append(_parameter("data", Annotated[Path, typer.Option(help=about.data_help)], _OUT / "mujoco_data"))
        only = typer.Option(help="data: simulate logs and truths, and stop there.", show_default="everything")
        found.append(_parameter("only", Annotated[str | None, only], None))
    folders = [spec.option.folder for spec in flags if spec.option.folder]
    if folders:
        places = ", or ".join(str(_OUT / folder) for folder in (about.name, *folders))
        out = typer.Option(help="Folder for the results.", show_default=places)
        found.append(_parameter("out", Annotated[Path | None, out], None))
    else:
        found.append(_parameter("out", Out, _OUT / about.name))
    found += [_parameter("force", Force, False), _parameter("quiet", PlainQuiet, False)]
    every_core = Annotated[int | None, typer.Option(help=about.workers_help, show_default="every core")]
    return [*found, _parameter("workers", *((every_core, None) if about.workers_help else (Workers, 2)))]


def _option(about: About, spec: Spec) -> inspect.Parameter:
    """A setting as Typer takes it; where `--quick` or a flag may set it too, None says that it was not given."""
    option, kind, default = spec.option, spec.kind, spec.default
    if spec.is_flag:
        return _parameter(spec.name, Annotated[bool, typer.Option(spec.typed, help=option.help)], False)
    shown: Any = option.default or (", ".join(map(str, default)) if spec.is_list else str(default))
    if spec.is_list:
        kind, default = list[kind] | None, None  # type: ignore[valid-type] # a type that is known at run time
    elif option.is_path:
        kind, default = Path | None, None
    elif is_size(spec, about):
        kind, default = kind | None, None
    else:
        shown = True
    info = typer.Option(spec.typed, help=option.help, show_default=shown, metavar=option.metavar or None)
    return _parameter(spec.name, Annotated[kind, info], default)


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _settings(
    settings: type[StudyConfig], options: list[Spec], is_quick: bool, given: Mapping[str, Any]
) -> StudyConfig:
    """The settings that the options ask for, or a refusal."""
    about = settings.ABOUT
    sizes = {spec.name: spec.typed for spec in options if is_size(spec, about)}
    also = [f"{typed} {given[name]}" for name, typed in sizes.items() if given[name] is not None]
    if is_quick and also:
        means = ", ".join(f"{typed} {about.quick[name]}" for name, typed in sizes.items())
        means += " and more" * (len(about.quick) > len(sizes))
        raise InputError(f"--quick means {means}; give one of the two. Got {', '.join(also)} as well.")
    found = dict(about.quick) if is_quick else {}
    for spec in options:
        value = given[spec.name]
        if spec.is_flag:
            value = spec.option.flag if value else None
        elif spec.is_list:
            value = tuple(value) if value else None
        elif spec.option.is_path and value is not None:
            value = str(value)
        if value is not None:
            found[spec.name] = value
    return settings(**found)


def _folder(about: About, options: list[Spec], given: Mapping[str, Any]) -> str:
    """The name of the folder for the results: that of the study, or of a flag that has one of its own."""
    own = (spec.option.folder for spec in options if spec.option.folder and given[spec.name])
    return next(own, about.name)


def _repeat(
    manifest: Path, studies: dict[str, str], out: Path | None, *, force: bool, quiet: bool, workers: int | None
) -> None:
    """Run the study of a manifest again, and say whether its summary came out the same."""
    with one_line_errors():
        from cesaro.reproduce import study

        recorded = study.read(manifest, studies)
        config, about = recorded.config, recorded.config.ABOUT
        if workers is not None:
            study.check_workers(workers)
        out = _OUT / about.name if out is None else out
        if changed := study.other_versions(recorded):
            program.echo(f"note: other versions than in the manifest ({'; '.join(changed)}).", aside=True)
        with own_folder(out):
            result = study.run(config, out, workers=workers, force=force, quiet=quiet)
        lines = study.differences(recorded, result)
    _print(about, result, out)
    if not lines:
        program.echo("Repeated: the summary is identical to the manifest's.")
        return
    program.echo("NOT repeated: the summary differs from the manifest's.")
    for line in lines:
        program.echo(f"  {line}")
    raise typer.Exit(1)


def _print(about: About, result: Any, out: Path) -> None:
    """Tables, the verdict, and which files are where."""
    show = import_module(f"{about.package}.show")
    console = program.console()
    show.print_tables(result, console)
    for line in show.verdict(result):
        console.print(line, markup=False)
    program.echo(f"Results: {out} ({', '.join(show.files(result))}, manifest.json)")


@contextmanager
def own_folder(*folders: Path | None) -> Iterator[None]:
    """Make the folder `out`, if results go there, and remove it again if nothing came into it; any other folder must exist."""
    is_made = not _OUT.exists() and any(folder is not None and folder.parent == _OUT for folder in folders)
    if is_made:
        _OUT.mkdir(exist_ok=True)
    try:
        yield
    finally:
        if is_made:
            with suppress(OSError):  # it holds something
                _OUT.rmdir()


def run_alone(package: str) -> None:
    """The command of a study that is not in this package, as `python -m PACKAGE`."""
    os.environ["MPLBACKEND"] = "agg"  # as for the command `cesaro`
    alone = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    alone.command()(study_command(package, repeats=True))
    with program.claimed():
        alone(prog_name=f"python -m {package}")


def _elsewhere(sentence: str) -> Callable[[], None]:
    """The command of a study that is no longer here, whatever its options."""

    def command() -> None:
        with one_line_errors():
            raise InputError(sentence)

    command.__doc__ = sentence
    return command


def suite(
    only: Annotated[
        list[str] | None,
        typer.Option(help="A system; repeat for more.", show_default="every development system"),
    ] = None,
    exam: Annotated[
        bool,
        typer.Option(
            "--exam", help="Exam systems too. Look at them once, when nothing is left to choose: they judge a release."
        ),
    ] = False,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="A method, a group (closed, default, learned, network, world), all, or your own: file.py:NAME; may be repeated.",
            show_default="closed",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few logs of each system: minutes instead of hours.")
    ] = False,
    logs: Annotated[
        int | None,
        typer.Option(help="At most so many logs of each kind, where fewer will do.", show_default="as the design has"),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(help="Only logs of so many rows: 2000, 5000, 20000 or 200000.", show_default="every size"),
    ] = None,
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            help="A folder of a finished scoreboard, whose other methods are shown beside these; repeat for more."
        ),
    ] = None,
    seed: PlainSeed = 0,
    out: Out = Path("out") / "suite",
    force: Force = False,
    quiet: PlainQuiet = False,
    workers: Annotated[
        int | None, typer.Option(help="Processes; the results do not depend on it.", show_default="every core")
    ] = None,
    engine: Engine = "local",
    address: Address = None,
) -> None:
    """Score methods on systems whose answers are known: errors, coverage, ranks, and how often "ok" was wrong."""
    with one_line_errors():
        with starting_jax():
            from cesaro.suite import run, scoreboard
        from cesaro.engines import using

        with own_folder(out), using(engine, address):
            board = run.score(
                method or ["closed"],
                only=only or None,
                exam=exam,
                quick=quick,
                logs=logs,
                rows=rows,
                beside=beside or (),
                out=out,
                seed=seed,
                workers=workers,
                force=force,
                quiet=quiet,
            )
    console = program.console()
    for table in scoreboard.tables(board):
        console.print(table)
        console.print()
    program.echo(f"Results: {out} (answers, scores, overall, verdicts and faults as .csv, pictures, manifest.json)")


for _name in ("mujoco", "assumption", "boyan", "counterexample", "rates", "coverage"):
    app.command(_name)(study_command(STUDIES[_name]))
for _name, _sentence in MOVED.items():
    _any_options = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(_name, hidden=True, context_settings=_any_options)(_elsewhere(_sentence))
