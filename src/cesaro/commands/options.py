"""Options that several commands share, each written once: the log and its columns, how rates are estimated, where answers go.

`log_options`, `estimate_options` and `output_options` are never called: their parameters are the options, with types, defaults
and help. `taking_options` gives them to a command, whose signature typer reads.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cesaro.errors import InputError

if TYPE_CHECKING:
    from cesaro.data import Log
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
Effort = Annotated[
    str | None,
    _option(
        _ESTIMATE,
        "How much is asked so that the interval aims at the true rate: none (an answer at once, whose interval is about one kind "
        "of features), quick (other features and a learned process, too: up to a minute for 20,000 rows) or full (more of it).",
        metavar="none|quick|full",
        default="quick; none with --method or --features",
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
Device = Annotated[
    str | None,
    _option(
        _ESTIMATE,
        "Where the closed form's products are computed: cpu, gpu or auto (a GPU that JAX sees).",
        default="auto",
    ),
]
Set = Annotated[
    list[str] | None,
    _option(
        _ESTIMATE,
        "A setting of the method, such as steps=1000000 or widths=64,64; may be repeated.",
        metavar="NAME=VALUE",
    ),
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

# Commands with few options show them in one panel.
PlainForce = Annotated[bool, typer.Option("--force", help="Replace what an earlier run wrote.")]
PlainJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
PlainQuiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
PlainSeed = Annotated[int, typer.Option(help="Seed of all random numbers.")]


def log_options(
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
) -> None:
    """The log, the policies, and how the log is read. Never called: see `taking_options`."""


def estimate_options(
    effort: Effort = None,
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
    device: Device = None,
    trust: Trust = False,
) -> None:
    """How rates are estimated. Never called: see `taking_options`."""


def output_options(
    unit: Unit = None,
    out: Out = None,
    force: Force = False,
    json: Json = False,
    fail_on: FailOn = None,
    quiet: Quiet = False,
) -> None:
    """Where the answer goes. Never called: see `taking_options`."""


def some_options(group: Callable[..., None], *names: str) -> list[inspect.Parameter]:
    """Some of the options of a group, for a command that does not take all of them."""
    return [inspect.signature(group).parameters[name] for name in names]


def taking_options(
    *groups: Callable[..., None] | Sequence[inspect.Parameter],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, which takes `**given`, the parameters of these functions as its signature.

    Typer makes options of what `inspect.signature` and the annotations say, and calls the command with a value for each; the
    functions themselves are never called, so that every option stands in one place.
    """

    def taking(command: Callable[..., None]) -> Callable[..., None]:
        parameters = [
            one
            for group in groups
            for one in (inspect.signature(group).parameters.values() if callable(group) else group)
        ]
        made: Any = command
        made.__signature__ = inspect.Signature(parameters)
        made.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return taking


def read_log(given: Mapping[str, Any]) -> "Log":
    """The log that options describe."""
    kinds, roles, gap = _kinds(given["kind"] or ()), roles_of(given, _ROLES), _gap(given["gap"])
    bounds = tuple(_bound(side, given[f"action_{side}"]) for side in ("low", "high"))

    from cesaro.data import read

    chosen = {name: given[name] for name in _LOG_SETTINGS}
    return read(given["log"], **roles, kinds=kinds, gap=gap, action_bounds=bounds, **chosen)


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


def policies_of(given: Sequence[str], trust: bool) -> "dict[str, Policy]":
    """The policies that options name, by their names, which must differ."""
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
