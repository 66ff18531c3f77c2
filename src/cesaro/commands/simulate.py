"""`cesaro collect`, `cesaro truth` and `cesaro train-target`: logs, truths and target policies by simulation."""

import os
from contextlib import ExitStack
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from cesaro.commands import program
from cesaro.commands.options import PlainForce, PlainJson, PlainQuiet, PlainSeed
from cesaro.commands.program import one_line_errors
from cesaro.errors import InputError

EnvName = Annotated[str, typer.Argument(metavar="ENV", help="The name of a Gymnasium environment, such as Hopper-v5.")]
Policy = Annotated[
    str,
    typer.Option(
        metavar="SPEC",
        help="shipped (the actor that comes with cesaro for ENV), uniform, constant:ACTION, file.py:NAME, or a .csv, "
        ".onnx, .safetensors, .joblib or .zip file.",
    ),
]
Steps = Annotated[int, typer.Option(help="Steps, over all streams together.", show_default=False)]
Sigma = Annotated[float, typer.Option(help="Standard deviation of normal noise on continuous actions.")]
Epsilon = Annotated[float, typer.Option(help="Probability of a uniform action, where actions are discrete.")]
Streams = Annotated[int, typer.Option(help="Independent runs, each from a reset of its own.")]
NoTimeLimit = Annotated[
    bool, typer.Option("--no-time-limit", help="Drop the environment's limit on the length of episodes.")
]
Workers = Annotated[
    int | None, typer.Option(help="Processes; the results do not depend on it.", show_default="all cores")
]
Trust = Annotated[bool, typer.Option("--trust", help="Load policy files that run code: .joblib, .pkl, .zip.")]


# Shorter streams may show little but their start.
_LONG = 1_000


def collect(
    env: EnvName,
    policy: Policy,
    steps: Steps,
    sigma: Sigma = 0.0,
    epsilon: Epsilon = 0.0,
    streams: Streams = 20,
    seed: PlainSeed = 0,
    no_time_limit: NoTimeLimit = False,
    out: Annotated[
        str | None,
        typer.Option(help="A .parquet file, or the id of a Minari data set.", show_default="ENV.parquet"),
    ] = None,
    format: Annotated[str, typer.Option(metavar="parquet|minari", help="What to write.")] = "parquet",
    workers: Workers = None,
    trust: Trust = False,
    force: PlainForce = False,
    quiet: PlainQuiet = False,
) -> None:
    """Simulate a policy in an environment and log what happens, for `cesaro evaluate`; the same command resumes."""
    with one_line_errors():
        from cesaro.simulation.collection import write
        from cesaro.simulation.streams import plan

        if out is None and format == "minari":
            raise InputError("--format minari needs --out with the id of the data set, such as cheetah/noisy-v0.")
        target = f"{_file_name(env)}.parquet" if out is None else out
        jobs = plan(
            env,
            policy,
            steps,
            seed=seed,
            streams=streams,
            sigma=sigma,
            epsilon=epsilon,
            time_limit=not no_time_limit,
            trust=trust,
        )
        about = write(jobs, target, format=format, workers=workers, force=force, quiet=quiet)
        program.echo(
            f"{about['steps']:,} transitions in {streams} streams; {_ends(about)}; mean reward {about['mean_reward']:.6g}."
        )
        if about["resumed_steps"]:
            program.echo(
                f"Resumed: {about['resumed_steps']:,} of these transitions were there already, from a run that was interrupted."
            )
        if format == "minari":
            from cesaro.simulation.collection import REMARK

            program.echo(f"Note: {REMARK}")
        elif about["truncated"]:
            program.echo(f"Note: {about['reset_rule']}")
        program.echo(f"Log: {'minari:' if format == 'minari' else ''}{target}")


def truth(
    env: EnvName,
    policy: Policy,
    steps: Steps,
    streams: Streams = 20,
    seed: PlainSeed = 0,
    no_time_limit: NoTimeLimit = False,
    confidence: Annotated[float, typer.Option(help="Level of the interval.")] = 0.95,
    out: Annotated[
        Path | None, typer.Option(help="Write the answer to this JSON file as well.", show_default=False)
    ] = None,
    workers: Workers = None,
    trust: Trust = False,
    force: PlainForce = False,
    json: PlainJson = False,
    quiet: PlainQuiet = False,
) -> None:
    """The reward rate of a policy in an environment by simulation, with its standard error from batch means."""
    with one_line_errors(resumes=False), ExitStack() as held:
        from cesaro import checks, files
        from cesaro.simulation.monte_carlo import monte_carlo_rate

        checks.number("confidence", confidence, low=0.0, low_open=True, high=1.0)
        if out is not None:
            _check_file(out, force=force)
            held.enter_context(files.holding(out, "out (--out)"))
        rate = monte_carlo_rate(
            env,
            policy,
            steps,
            seed=seed,
            streams=streams,
            time_limit=not no_time_limit,
            workers=workers,
            trust=trust,
            quiet=quiet,
        )
        answer = rate.to_dict(confidence)
        if out is not None:
            files.write_json(out, answer)
        if json:
            program.document(dumps(answer, indent=2, allow_nan=False))
        else:
            low, high = rate.interval(confidence)
            program.echo(
                f"{rate.env}, {rate.policy['name']}: {rate.value:.6g} per step, standard error {rate.standard_error:.2g}, "
                f"{100 * confidence:.4g} % interval {low:.6g} to {high:.6g}"
            )
            program.echo(f"{steps:,} steps in {streams} streams, {rate.batches} batches; {_ends(answer)}.")
            if steps // streams < _LONG:
                program.echo(
                    f"Note: a stream of {steps // streams:,} steps begins at a reset, and its first steps may not be the "
                    f"long run; take more steps, so that streams have {_LONG:,} or more, or fewer --streams."
                )
        if out is not None:
            program.echo(f"Results: {out}", aside=json)


def train_target(
    env: EnvName,
    steps: Annotated[int, typer.Option(help="Steps in the environment.")] = 300_000,
    seed: PlainSeed = 0,
    out: Annotated[
        Path | None, typer.Option(help="The actor's .safetensors file.", show_default="ENV.safetensors")
    ] = None,
    force: PlainForce = False,
    quiet: PlainQuiet = False,
) -> None:
    """Train TD3 (Stable-Baselines3) and write its deterministic actor as a policy file; the same command resumes."""
    with one_line_errors():
        from cesaro.simulation.train_target import train_target as train

        target = Path(f"{_file_name(env)}.safetensors") if out is None else out
        train(env, out=target, steps=steps, seed=seed, force=force, quiet=quiet)
        program.echo(f"Actor: {target}")


def _ends(about: dict[str, Any]) -> str:
    limit = about["time_limit"]
    cut = "no time limit" if limit is None else f"{about['truncated']:,} cut by the time limit of {limit:,} steps"
    return f"{about['terminated']:,} episodes terminated, {cut}"


def _file_name(env: str) -> str:
    return env.replace("/", "-").replace(":", "-")


def _check_file(out: Path, *, force: bool) -> None:
    if not out.absolute().parent.is_dir():
        raise InputError(
            f"The folder '{out.absolute().parent}', which would hold the answer, does not exist; create it."
        )
    from cesaro import documents, files
    from cesaro.simulation.monte_carlo import SCHEMA

    files.reject_other(out, "choose another file (--out)")
    if not os.path.lexists(out):
        return
    if not force:
        raise InputError(f"'{out}' exists; add --force to replace it, or choose another file (--out).")
    try:
        found = documents.read(out)
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise InputError(
            f"'{out}' was not written by truth, so that --force leaves it alone; choose another file (--out)."
        )
