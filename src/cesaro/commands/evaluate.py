"""`cesaro evaluate` and `cesaro compare`: a log and policies in, the answer out."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cesaro.commands.command_line import repeating
from cesaro.commands.errors import one_line_errors
from cesaro.commands.evaluate_options import (
    Action,
    Address,
    Approximators,
    Available,
    Checkpoint,
    Confidence,
    Draws,
    DualFeatures,
    Engine,
    Features,
    Force,
    Gap,
    Ignore,
    Json,
    Kind,
    LogPath,
    Method,
    NextObservation,
    Observation,
    OnTermination,
    OnTruncation,
    Out,
    Policies,
    Quiet,
    Reward,
    RewardLag,
    Ridge,
    Seed,
    Set,
    SkipBadFiles,
    StandardErrors,
    Stream,
    Terminated,
    Time,
    Trajectory,
    Truncated,
    Trust,
    Unit,
    Weight,
)
from cesaro.commands.wording import command_line
from cesaro.errors import InputError
from cesaro.text import visible

if TYPE_CHECKING:
    from cesaro.policies import Policy

# What `cesaro.read` takes, by the names of the options.
_ROLES = (
    *("observation", "action", "reward", "next_observation", "trajectory", "time", "terminated", "truncated"),
    *("weight", "available"),
)
_LOG_SETTINGS = ("reward_lag", "on_termination", "on_truncation", "skip_bad_files", "stream")
# What goes to the estimator as it is, where it is given.
_ESTIMATOR_SETTINGS = ("dual_features", "standard_errors", "draws", "approximator", "checkpoint", "address")


def evaluate(
    log: LogPath,
    policy: Policies,
    observation: Observation = None,
    action: Action = None,
    reward: Reward = None,
    next_observation: NextObservation = None,
    trajectory: Trajectory = None,
    time: Time = None,
    terminated: Terminated = None,
    truncated: Truncated = None,
    weight: Weight = None,
    available: Available = None,
    ignore: Ignore = None,
    kind: Kind = None,
    reward_lag: RewardLag = 0,
    on_termination: OnTermination = None,
    on_truncation: OnTruncation = None,
    gap: Gap = "1.5",
    skip_bad_files: SkipBadFiles = False,
    stream: Stream = None,
    features: Features = "auto",
    dual_features: DualFeatures = None,
    method: Method = "auto",
    approximator: Approximators = None,
    checkpoint: Checkpoint = None,
    ridge: Ridge = None,
    standard_errors: StandardErrors = None,
    draws: Draws = None,
    set: Set = None,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    engine: Engine = "local",
    address: Address = None,
    trust: Trust = False,
    unit: Unit = None,
    out: Out = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """What would this policy earn per step, in the long run? The answer from a log, with its interval and what to check."""
    _run(locals(), several=False)


def compare(
    log: LogPath,
    policy: Policies,
    observation: Observation = None,
    action: Action = None,
    reward: Reward = None,
    next_observation: NextObservation = None,
    trajectory: Trajectory = None,
    time: Time = None,
    terminated: Terminated = None,
    truncated: Truncated = None,
    weight: Weight = None,
    available: Available = None,
    ignore: Ignore = None,
    kind: Kind = None,
    reward_lag: RewardLag = 0,
    on_termination: OnTermination = None,
    on_truncation: OnTruncation = None,
    gap: Gap = "1.5",
    skip_bad_files: SkipBadFiles = False,
    stream: Stream = None,
    features: Features = "auto",
    dual_features: DualFeatures = None,
    method: Method = "auto",
    approximator: Approximators = None,
    checkpoint: Checkpoint = None,
    ridge: Ridge = None,
    standard_errors: StandardErrors = None,
    draws: Draws = None,
    set: Set = None,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    engine: Engine = "local",
    address: Address = None,
    trust: Trust = False,
    unit: Unit = None,
    out: Out = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Several policies on one log, with all paired differences: repeat --policy."""
    _run(locals(), several=True)


def _run(given: dict[str, Any], *, several: bool) -> None:
    kept: list[Path] = []

    def resumes() -> bool:
        return any(path.exists() for path in kept)

    with one_line_errors(resumes=resumes, words=command_line):
        settings = _settings(given)
        kinds, roles, gap = _kinds(given["kind"] or ()), _roles(given), _gap(given["gap"])
        if not several and len(given["policy"]) > 1:
            raise InputError(f"evaluate takes one --policy. Got {len(given['policy'])}; for several: cesaro compare.")
        if several and len(given["policy"]) < 2:
            raise InputError("compare takes at least two --policy options. Got 1; for one: cesaro evaluate.")

        from cesaro import comparison, evaluation
        from cesaro.data import read
        from cesaro.report import folder as report

        out = None if given["out"] is None else report.ReportFolder(given["out"], force=given["force"])
        if out is not None:
            out.check()
            if given["method"] in ("auto", "diff-lstd"):
                settings.setdefault("checkpoint", out.path / report.PASSES)
        if "checkpoint" in settings:
            places = range(len(given["policy"])) if several else [None]
            kept += [comparison.numbered(settings["checkpoint"], place) for place in places]
        policies = _policies(given["policy"], given["trust"])
        log = read(given["log"], **roles, kinds=kinds, gap=gap, **{name: given[name] for name in _LOG_SETTINGS})
        if several:
            answer: Any = comparison.compare(log, policies, **settings)
        else:
            ((name, target),) = policies.items()
            answer = evaluation.evaluate(log, target, name=name, **settings)
        command = repeating("compare" if several else "evaluate", compare if several else evaluate, given)
        for one in answer.evaluations.values() if several else [answer]:
            one.run["command"] = command
            one.log["notes"] = [note if "(--" in note else command_line(note) for note in one.log["notes"]]
        _print(answer, several, as_json=given["json"])
        if out is not None:
            files = (report.write_comparison if several else report.write_evaluation)(answer, out)
            pictures = sum(file.endswith(".png") for file in files)
            beside = ", ".join(file for file in files[1:] if not file.endswith(".png"))
            where = given["out"] / files[0]
            typer.echo(visible(f"Report: {where} (beside it: {beside}, {pictures} pictures)"), err=given["json"])


def _print(answer: Any, several: bool, *, as_json: bool) -> None:
    from cesaro.report import text

    if as_json:
        typer.echo(json.dumps(answer.to_dict(), indent=2, allow_nan=False))
        evaluations = answer.evaluations.values() if several else [answer]
        for one in evaluations:
            for warning in one.warnings:
                typer.echo(visible(f"warning: {one.name}: {warning}"), err=True)
        return
    from rich.console import Console

    console = Console(highlight=False)
    for part in (text.render_comparison if several else text.render_evaluation)(answer):
        console.print(part)


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """What `cesaro.evaluate` takes beside the log and the policy; the estimator's own only where given."""
    settings = {name: given[name] for name in _ESTIMATOR_SETTINGS if given.get(name) is not None}
    if "approximator" in settings and given["method"] in ("auto", "diff-lstd"):
        from cesaro.linear import METHODS

        raise InputError(
            f"--approximator is for learned methods, and {given['method']} is the closed form. Got --approximator "
            f"{settings['approximator']}; add --method and one of {', '.join(METHODS)}."
        )
    if given["engine"] != "local":
        settings["engine"] = given["engine"]
    options = {*given, "random_state"}
    for text in given["set"] or ():
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or name in settings:
            raise InputError(f"--set must be NAME=VALUE, each name once. Got {text!r}.")
        if name in options:
            option = "seed" if name == "random_state" else name.replace("_", "-")
            raise InputError(f"--set is for settings without an option of their own. Got {text!r}; use --{option}.")
        settings[name] = _value(value)
    if given["ridge"] is not None:
        settings["ridge"] = _ridge(given["ridge"])
    named = {name: given[name] for name in ("features", "method", "confidence", "quiet")}
    return {**settings, **named, "random_state": given["seed"], "unit": given["unit"] or None}


def _ridge(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--ridge must be auto or a number ≥ 0. Got {text!r}.") from None


def _gap(text: str) -> float | None:
    if text.lower() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--gap must be none or a number ≥ 1. Got {text!r}.") from None


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _kinds(given: Sequence[str]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for text in given:
        column, equals, kind = text.rpartition("=")
        if not equals or not column or kind not in ("category", "number"):
            raise InputError(f"--kind must be COLUMN=category or COLUMN=number. Got {text!r}.")
        if kinds.setdefault(column, kind) != kind:
            raise InputError(f"--kind must say one thing about the column {column!r}. Got category and number.")
    return kinds


def _roles(given: dict[str, Any]) -> dict[str, Any]:
    roles = {}
    for role in _ROLES:
        names = given[role]
        # One name may be a prefix such as obs_*, which a list may not hold.
        roles[role] = names[0] if isinstance(names, list) and len(names) == 1 else names or None
    for role in given["ignore"] or ():
        found = role.replace("-", "_")
        if found not in _ROLES or found in ("observation", "action", "reward"):
            optional = ", ".join(_ROLES[3:])
            hint = "; for that column: --ignore terminated --ignore truncated" if role in ("done", "dones") else ""
            raise InputError(f"--ignore must be one of {optional}. Got {role!r}{hint}.")
        if roles[found] is not None:
            raise InputError(
                f"--ignore {role} and --{found.replace('_', '-')} exclude each other; give one of the two."
            )
        roles[found] = False
    return roles


def _policies(given: Sequence[str], trust: bool) -> "dict[str, Policy]":
    from cesaro.policies import parse, policy

    found: dict[str, Policy] = {}
    for text in given:
        name, spec = parse(text)
        made = policy(spec, name=name, trust=trust)
        if made.name in found:
            raise InputError(
                f"--policy must have different names. Got {made.name!r} twice; write --policy NAME={spec}."
            )
        found[made.name] = made
    return found
