"""The options of `cesaro evaluate` and `cesaro compare`."""

from pathlib import Path
from typing import Annotated, Any

import typer


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
        help="uniform, constant:ACTION, logged, shipped:ENV, file.py:NAME, or a .csv, .onnx, .safetensors or .zip file.",
    ),
]
Observation = Annotated[list[str] | None, _column("What the policy sees; may be repeated; 'obs_*' is a vector.")]
Action = Annotated[list[str] | None, _column("What was done; may be repeated where it is several numbers.")]
Reward = Annotated[str | None, _column("What it earned.")]
NextObservation = Annotated[list[str] | None, _column("What was seen next; else that of the next row.")]
Trajectory = Annotated[str | None, _column("Which rows belong together: an agent, a machine, an episode.")]
Time = Annotated[str | None, _column("Orders the rows of a trajectory and shows gaps; else the order of the file.")]
Terminated = Annotated[str | None, _column("True where the row ended an episode.")]
Truncated = Annotated[str | None, _column("True where a time limit ended an episode.")]
Weight = Annotated[str | None, _column("How much a row counts.")]
Available = Annotated[list[str] | None, _column("Which actions were possible: a list, or 'available_*' columns.")]
Ignore = Annotated[
    list[str] | None,
    _option(_LOG, "Take no column for this role; may be repeated.", metavar="ROLE"),
]
Kind = Annotated[
    list[str] | None,
    _option(
        _LOG, "COLUMN=category for labels that look like numbers, or COLUMN=number; may be repeated.", metavar="C=K"
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
        "Cut where a step in time takes more than this many median steps; none: time orders the rows and never cuts.",
        metavar="FACTOR|none",
        default="1.5",
    ),
]
SkipBadFiles = Annotated[bool, _option(_LOG, "Leave out files that cannot be read, and say which.", "--skip-bad-files")]
Stream = Annotated[
    bool | None,
    _option(
        _LOG,
        "Read the log in blocks again and again, or hold it in memory; the answer is the same.",
        "--stream/--no-stream",
        default="by size",
    ),
]
Features = Annotated[
    str,
    _option(_ESTIMATE, "auto, one-hot, linear, fourier[:N], polynomial:N or file.py:NAME.", default="auto"),
]
DualFeatures = Annotated[
    str | None, _option(_ESTIMATE, "The same choice for the dual features, or same.", default="auto")
]
Method = Annotated[
    str,
    _option(_ESTIMATE, "auto (the closed form diff-lstd), or a learned method such as diff-gq1.", default="auto"),
]
Approximators = Annotated[
    str | None,
    _option(
        _ESTIMATE,
        "Of a learned method: linear, linear-random (another start) or mlp (networks; no interval).",
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
        "A number of at least 0, or auto: none for the closed form; for learned methods on our own features 1e-6 of "
        "the features' mean square, and none for networks.",
        default="auto",
    ),
]
StandardErrors = Annotated[str | None, _option(_ESTIMATE, "auto, independent, clustered or long-run.", default="auto")]
Draws = Annotated[
    int | None, _option(_ESTIMATE, "Actions drawn per state where the policy gives no probabilities.", default="1")
]
Set = Annotated[
    list[str] | None,
    _option(_ESTIMATE, "Another setting of the method, such as steps=1000000; may be repeated.", metavar="NAME=VALUE"),
]
Confidence = Annotated[float, _option(_ESTIMATE, "Level of the intervals.", default="0.95")]
Seed = Annotated[int, _option(_ESTIMATE, "Seed of everything random.", default="0")]
Trust = Annotated[bool, _option(_ESTIMATE, "Allow policy files that run pickled code.", "--trust")]
Engine = Annotated[
    str,
    _option(
        _ESTIMATE, "Where the log is worked through: local, or ray, a cluster.", metavar="local|ray", default="local"
    ),
]
Address = Annotated[
    str | None, _option(_ESTIMATE, "Of the Ray cluster, such as auto or HOST:PORT.", default="one on this machine")
]
Unit = Annotated[str | None, _option(_OUTPUT, "Of a reward per step, such as '€ per minute'.")]
Out = Annotated[
    Path | None, _option(_OUTPUT, "Write the answer to this folder as well: report.html, JSON, text, pictures.")
]
Force = Annotated[bool, _option(_OUTPUT, "Replace the folder of an earlier answer.", "--force")]
Json = Annotated[bool, _option(_OUTPUT, "Print one JSON document instead of text.", "--json")]
Quiet = Annotated[bool, _option(_OUTPUT, "No progress bar.", "--quiet")]
