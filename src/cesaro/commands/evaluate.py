"""`cesaro evaluate` and `cesaro compare`: a log and policies in, the answer out."""

import inspect
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cesaro.commands import output
from cesaro.commands.errors import one_line_errors
from cesaro.errors import InputError
from cesaro.text import for_command_line, shown_address

if TYPE_CHECKING:
    from cesaro.evaluation import Evaluation
    from cesaro.policies import Policy

# What `cesaro.read` takes, by the names of the options.
_ROLES = (
    *("observation", "action", "reward", "next_observation", "trajectory", "time", "terminated", "truncated"),
    *("weight", "available", "cost"),
)
_LOG_SETTINGS = (
    "reward_lag",
    "on_termination",
    "on_truncation",
    "drop_duplicates",
    "drop_incomplete",
    "skip_bad_files",
    "stream",
)
# What goes to the estimator as it is, where it is given.
_ESTIMATOR_SETTINGS = ("dual_features", "standard_errors", "draws", "approximator", "checkpoint", "address")
# They change where an answer goes or how it is computed, not what it is.
_ELSEWHERE = ("out", "force", "json", "quiet", "fail_on", "checkpoint", "engine", "address", "stream")


# Of an answer whose verdict `--fail-on` does not accept; 2 refuses an input, and 1 is for what the machine did.
VERDICT_EXIT = 3


def _option(panel: str, help: str, *names: str, metavar: str | None = None, default: str | bool = False) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel, show_default=default)


def _column(help: str) -> Any:
    return _option("Columns of the log (found by their usual names where not given)", help, metavar="COLUMN")


_LOG, _ESTIMATE, _OUTPUT = "How the log is read", "How the rate is estimated", "Output"
_FOUND = "the log's, or"

LogPath = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help="A Parquet, CSV, Arrow, NPZ or HDF5 file; a folder or pattern of Parquet, CSV or Arrow files, also at an address "
        "such as s3://bucket/logs; or minari:ID.",
    ),
]
Policies = Annotated[
    list[str],
    typer.Option(
        metavar="[NAME=]SPEC",
        help="The policy to evaluate: 'rule:on if temperature < 19 else off', file.py:NAME, a .csv, .onnx, .safetensors, .joblib "
        "or .zip file, uniform, constant:ACTION, logged (what the log did) or shipped:ENV.",
    ),
]
Observation = Annotated[list[str] | None, _column("What the policy sees; may be repeated; 'obs_*' is a vector.")]
Action = Annotated[list[str] | None, _column("What was done; may be repeated where it is several numbers.")]
Reward = Annotated[str | None, _column("What it earned.")]
Cost = Annotated[str | None, _column("What it cost, instead of --reward; the answer then speaks of costs.")]
NextObservation = Annotated[
    list[str] | None, _column("What was seen next; without it, the observation of the next row.")
]
Trajectory = Annotated[str | None, _column("Which rows belong together: an agent, a machine, an episode.")]
Time = Annotated[
    str | None, _column("Orders the rows of a trajectory and shows gaps; without it, the order of the file.")
]
Terminated = Annotated[str | None, _column("True where the row ended an episode.")]
Truncated = Annotated[str | None, _column("True where a time limit ended an episode.")]
Weight = Annotated[str | None, _column("How much a row counts.")]
Available = Annotated[list[str] | None, _column("Which actions were possible: a list, or 'available_*' columns.")]
Ignore = Annotated[
    list[str] | None,
    _option(
        _LOG,
        "Use no column for this role, such as time, even if one has its usual name; may be repeated.",
        metavar="ROLE",
    ),
]
Kind = Annotated[
    list[str] | None,
    _option(
        _LOG,
        "COLUMN=category for labels that look like numbers, or COLUMN=number; may be repeated.",
        metavar="COLUMN=KIND",
    ),
]
RewardLag = Annotated[int, _option(_LOG, "1 where a reward is logged one row late.", metavar="0|1", default="0")]
OnTermination = Annotated[
    str | None,
    _option(_LOG, "What follows the end of an episode: restart, keep or drop.", default=f"{_FOUND} restart"),
]
OnTruncation = Annotated[
    str | None, _option(_LOG, "What follows a time limit: keep, restart or drop.", default=f"{_FOUND} keep")
]
Gap = Annotated[
    str,
    _option(
        _LOG,
        "Cut a trajectory where a step in time is longer than this many median steps; none: never cut.",
        metavar="FACTOR|none",
        default="1.5",
    ),
]
DropDuplicates = Annotated[
    bool,
    _option(
        _LOG, "Count a row once if the log has it twice, with the same trajectory and --time.", "--drop-duplicates"
    ),
]
DropIncomplete = Annotated[
    bool,
    _option(
        _LOG,
        "Leave out rows with an empty entry in a column in use, and cut their trajectory there.",
        "--drop-incomplete",
    ),
]
ActionLow = Annotated[
    list[str] | None,
    _option(
        _LOG,
        "Cut logged actions below this, as the system did; may be repeated, one per dimension, none where it is open.",
        metavar="NUMBER|none",
    ),
]
ActionHigh = Annotated[
    list[str] | None, _option(_LOG, "Cut logged actions above this, likewise.", metavar="NUMBER|none")
]
SkipBadFiles = Annotated[bool, _option(_LOG, "Leave out files that cannot be read, and say which.", "--skip-bad-files")]
Stream = Annotated[
    bool | None,
    _option(
        _LOG,
        "Read the log block by block, or hold it in memory; the answer is the same.",
        "--stream/--no-stream",
        default="by size",
    ),
]
Features = Annotated[
    str,
    _option(
        _ESTIMATE,
        "What values may depend on: auto, one-hot, smooth[:N], splines[:N], linear, fourier[:N], polynomial:N or file.py:NAME.",
        default="auto",
    ),
]
DualFeatures = Annotated[
    str | None,
    _option(
        _ESTIMATE,
        "Features that the equations weight rows by, seldom needed: what --features takes, or same.",
        default="auto",
    ),
]
Method = Annotated[
    str,
    _option(
        _ESTIMATE,
        "auto (the closed form diff-lstd), a learned method such as diff-gq1, world (a learned process), or your own: "
        "file.py:NAME.",
        default="auto",
    ),
]
Approximators = Annotated[
    str | None,
    _option(
        _ESTIMATE,
        "For a learned method: linear, linear-random (another start) or mlp (networks; no interval).",
        default="linear",
    ),
]
Checkpoint = Annotated[
    Path | None,
    _option(
        _ESTIMATE,
        "A file to keep progress in; the same command resumes from it.",
        default="in OUT.partial of --out, for the closed form",
    ),
]
Ridge = Annotated[
    str | None,
    _option(
        _ESTIMATE,
        "Penalty on large weights: a number of at least 0, or auto: none for the closed form; for learned methods on our own "
        "features 1e-6 of the features' mean square, and none for networks.",
        default="auto",
    ),
]
StandardErrors = Annotated[
    str | None,
    _option(
        _ESTIMATE,
        "How rows depend on each other: independent, clustered (by trajectory), long-run (over time) or auto.",
        default="auto",
    ),
]
Draws = Annotated[
    int | None, _option(_ESTIMATE, "Actions drawn per state where the policy gives no probabilities.", default="1")
]
Set = Annotated[
    list[str] | None,
    _option(_ESTIMATE, "Another setting of the method, such as steps=1000000; may be repeated.", metavar="NAME=VALUE"),
]
Confidence = Annotated[float, _option(_ESTIMATE, "Level of the intervals.", default="0.95")]
Seed = Annotated[int, _option(_ESTIMATE, "Seed of everything random.", default="0")]
Trust = Annotated[bool, _option(_ESTIMATE, "Load policy files that run code: .joblib, .pkl, .zip.", "--trust")]
Engine = Annotated[
    str,
    _option(_ESTIMATE, "Where to compute: local, or ray (a cluster).", metavar="local|ray", default="local"),
]
Address = Annotated[
    str | None, _option(_ESTIMATE, "Address of the Ray cluster: auto or HOST:PORT.", default="one on this machine")
]
Unit = Annotated[str | None, _option(_OUTPUT, "Unit of a reward per step, such as '€ per minute'.")]
Out = Annotated[
    Path | None, _option(_OUTPUT, "Write the answer to this folder as well: report.html, JSON, text, pictures.")
]
Force = Annotated[bool, _option(_OUTPUT, "Replace the folder of an earlier answer.", "--force")]
Json = Annotated[bool, _option(_OUTPUT, "Print one JSON document instead of text.", "--json")]
FailOn = Annotated[
    str | None,
    _option(_OUTPUT, "Exit with code 3 on this verdict or a worse one, after the answer.", metavar="bad|caution"),
]
Quiet = Annotated[bool, _option(_OUTPUT, "No progress bar.", "--quiet")]


def evaluate(
    log: LogPath,
    policy: Policies,
    observation: Observation = None,
    action: Action = None,
    reward: Reward = None,
    cost: Cost = None,
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
    drop_duplicates: DropDuplicates = False,
    drop_incomplete: DropIncomplete = False,
    action_low: ActionLow = None,
    action_high: ActionHigh = None,
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
    fail_on: FailOn = None,
    quiet: Quiet = False,
) -> None:
    """What would this policy earn per step, in the long run? An answer from a log, with an interval and what to check."""
    _run(locals(), several=False)


def compare(
    log: LogPath,
    policy: Policies,
    observation: Observation = None,
    action: Action = None,
    reward: Reward = None,
    cost: Cost = None,
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
    drop_duplicates: DropDuplicates = False,
    drop_incomplete: DropIncomplete = False,
    action_low: ActionLow = None,
    action_high: ActionHigh = None,
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
    fail_on: FailOn = None,
    quiet: Quiet = False,
) -> None:
    """Rank several policies on one log and say which differences are beyond noise: repeat --policy."""
    _run(locals(), several=True)


def _run(given: dict[str, Any], *, several: bool) -> None:
    kept: list[Path] = []

    def resumes() -> bool:
        return any(path.exists() for path in kept)

    with one_line_errors(resumes=resumes), ExitStack() as held:
        settings = _settings(given)
        kinds, roles, gap = _kinds(given["kind"] or ()), roles_of(given, _ROLES), _gap(given["gap"])
        bounds = tuple(_bound(side, given[f"action_{side}"]) for side in ("low", "high"))
        if given["fail_on"] not in (None, "bad", "caution"):
            raise InputError(f"--fail-on must be bad or caution. Got {given['fail_on']!r}.")
        if not several and len(given["policy"]) > 1:
            raise InputError(f"evaluate takes one --policy. Got {len(given['policy'])}; for several: cesaro compare.")
        if several and len(given["policy"]) < 2:
            raise InputError("compare takes at least two --policy options. Got 1; for one: cesaro evaluate.")

        from cesaro import comparison, evaluation, files
        from cesaro.data import read
        from cesaro.estimators import registry
        from cesaro.report import folder as report

        out = None
        if given["out"] is not None:
            out = held.enter_context(report.ReportFolder(given["out"], force=given["force"]))
            if registry.method(given["method"]).kind == "closed form":
                settings.setdefault("checkpoint", out.path / report.PASSES)
        if "checkpoint" in settings:
            places = range(len(given["policy"])) if several else [None]
            kept += [comparison.numbered(settings["checkpoint"], place) for place in places]
        for path in kept:
            if out is not None and path.parent == out.path:
                out.file(path.name, progress=True)
            held.enter_context(files.holding(path))
        policies = _policies(given["policy"], given["trust"])
        chosen = {name: given[name] for name in _LOG_SETTINGS}
        log = read(given["log"], **roles, kinds=kinds, gap=gap, action_bounds=bounds, **chosen)
        if several:
            answer: Any = comparison.compare(log, policies, **settings)
        else:
            ((name, target),) = policies.items()
            answer = evaluation.evaluate(log, target, name=name, **settings)
        command = _repeating("compare" if several else "evaluate", compare if several else evaluate, given)
        if several:
            answer.evaluations.update({name: _worded(one, command) for name, one in answer.evaluations.items()})
        else:
            answer = _worded(answer, command)
        _print(answer, several, as_json=given["json"])
        if out is not None:
            names = (report.write_comparison if several else report.write_evaluation)(answer, out)
            pictures = sum(name.endswith(".png") for name in names)
            beside = ", ".join(name for name in names[1:] if not name.endswith(".png"))
            where = given["out"] / names[0]
            output.echo(f"Report: {where} (beside it: {beside}, {pictures} pictures)", aside=given["json"])
    failed = [one for one in (answer.evaluations.values() if several else [answer]) if _fails(one, given["fail_on"])]
    if failed:
        from cesaro.report.words import reasons

        verdicts = ", ".join(f"{one.name!r} is {one.verdict} ({', '.join(reasons(one))})" for one in failed)
        output.echo(f"--fail-on {given['fail_on']}: the verdict on {verdicts}.", aside=True)
        raise typer.Exit(VERDICT_EXIT)


def _fails(evaluation: Any, fail_on: str | None) -> bool:
    return fail_on is not None and evaluation.verdict in ("bad", fail_on)


def _worded(answer: "Evaluation", command: str) -> "Evaluation":
    """An answer in the words of the command line, with the command that repeats it."""
    answer.run["command"] = command
    answer.log["notes"] = [for_command_line(note) for note in answer.log["notes"]]
    findings = (
        replace(entry, sentence=for_command_line(entry.sentence), remedy=for_command_line(entry.remedy))
        for entry in answer.diagnostics
    )
    said = (for_command_line(warning) for warning in answer.warnings)
    return replace(answer, diagnostics=tuple(findings), warnings=tuple(said))


def _repeating(name: str, function: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """The command that repeats an answer: all that was given, but for where the answer goes and credentials in addresses."""
    words = ["cesaro", name]
    for parameter in inspect.signature(function).parameters.values():
        value = given[parameter.name]
        if parameter.name in _ELSEWHERE or value == parameter.default or value is None:
            continue
        if parameter.default is inspect.Parameter.empty and not isinstance(value, list):
            words.append(f"./{value}" if str(value).startswith("-") else str(value))  # else it would be an option
            continue
        option = f"--{parameter.name.replace('_', '-')}"
        for one in value if isinstance(value, list) else [value]:
            words += [option] if one is True else [option, str(one)]
    return shlex.join(shown_address(word) for word in words)


def _print(answer: Any, several: bool, *, as_json: bool) -> None:
    from cesaro.report import text, words

    if as_json:
        output.document(json.dumps(answer.to_dict(), indent=2, allow_nan=False))
        evaluations = answer.evaluations.values() if several else [answer]
        for names, warning in words.once((one.name, warning) for one in evaluations for warning in one.warnings):
            output.echo(f"warning: {', '.join(names)}: {warning}", aside=True)
        return
    console = output.console()
    for part in (text.render_comparison if several else text.render_evaluation)(answer):
        console.print(part)


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """What `cesaro.evaluate` takes beside the log and the policy; the estimator's own only where given."""
    settings = {name: given[name] for name in _ESTIMATOR_SETTINGS if given.get(name) is not None}
    if "approximator" in settings:
        _check_learned(given["method"], settings["approximator"])
    if given["engine"] != "local":
        settings["engine"] = given["engine"]
    options = {*given, "random_state"}
    for text in given["set"] or ():
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or name in settings:
            raise InputError(f"--set must be NAME=VALUE, each name once. Got {text!r}.")
        if name == "run":
            raise InputError(
                f"--set is for settings of the method. Got {text!r}; use --checkpoint, --engine, --address or --quiet."
            )
        if name in options:
            option = "seed" if name == "random_state" else name.replace("_", "-")
            raise InputError(f"--set is for settings without an option of their own. Got {text!r}; use --{option}.")
        settings[name] = _value(value)
    if given["ridge"] is not None:
        settings["ridge"] = _ridge(given["ridge"])
    named = {name: given[name] for name in ("features", "method", "confidence", "quiet")}
    return {**settings, **named, "random_state": given["seed"], "unit": given["unit"] or None}


def _check_learned(method: str, approximator: str) -> None:
    """Other methods take no approximator."""
    from cesaro.estimators import registry
    from cesaro.linear import METHODS

    if registry.method(method).kind != "learned":
        raise InputError(
            f"--approximator is for learned methods, and {method} is none. Got --approximator {approximator}; "
            f"add --method and one of {', '.join(METHODS)}."
        )


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


def _bound(side: str, texts: Sequence[str] | None) -> list[float | None] | None:
    """One side of `action_bounds`; None: it was not given."""
    if texts is None:
        return None
    try:
        return [None if text.lower() == "none" else float(text) for text in texts]
    except ValueError:
        raise InputError(f"--action-{side} must be a number or none. Got {', '.join(map(repr, texts))}.") from None


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


def roles_of(given: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """The columns that options give to these roles."""
    roles = {}
    for role in known:
        names = given[role]
        # One name may be a prefix such as obs_*, which a list may not hold.
        roles[role] = names[0] if isinstance(names, list) and len(names) == 1 else names or None
    for role in given["ignore"] or ():
        found = role.replace("-", "_")
        optional = [name for name in known if name not in ("observation", "action", "reward", "cost")]
        if found not in optional:
            hint = "; for that column: --ignore terminated --ignore truncated" if role in ("done", "dones") else ""
            raise InputError(f"--ignore must be one of {', '.join(optional)}. Got {role!r}{hint}.")
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
