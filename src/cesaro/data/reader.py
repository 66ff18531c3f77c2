"""Open a log, whatever holds it."""

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from cesaro.data import minari_source
from cesaro.data.files import open_path
from cesaro.data.log import Log
from cesaro.data.minari_source import MinariSource
from cesaro.data.roles import Given, check_kinds, find_roles
from cesaro.data.settings import GAP, check_settings
from cesaro.data.sources import ArraySource, FrameSource, Source, TableSource
from cesaro.data.unused import possible_ids
from cesaro.errors import InputError
from cesaro.text import shown_address


def read(
    source: Any,
    *,
    observation: Given = None,
    action: Given = None,
    reward: Given = None,
    next_observation: Given = None,
    trajectory: Given = None,
    time: Given = None,
    terminated: Given = None,
    truncated: Given = None,
    weight: Given = None,
    available: Given = None,
    kinds: Mapping[str, str] | None = None,
    reward_lag: int = 0,
    on_termination: str | None = None,
    on_truncation: str | None = None,
    gap: float | None = GAP,
    skip_bad_files: bool = False,
    stream: bool | None = None,
) -> Log:
    """Open a log. Its columns are checked now, its data are read on first use.

    Args:
        source: path of a Parquet, CSV or Arrow/Feather file, of a folder of such files or a pattern, all of one format and
            one schema (in a folder with Parquet files others are ignored; keys of folders, `agent=1/…`, are columns); the
            same in an object store (`s3://bucket/logs`, `gs://…`, `abfs://…`, `hdfs://…`; options go into the query,
            `?region=…`, and credentials come from the environment); path of an NPZ or HDF5 file; the id of a
            Minari data set on this machine (also `minari:ID`); a pyarrow table, a pandas or Polars frame, or a dict of
            arrays. A damaged HDF5 file can crash or hang the C library that reads it, which cannot be caught here, so
            convert HDF5 from sources that you do not trust to another format first.
        observation: one column, a list of columns, or a prefix `"obs_*"` whose columns are the entries of one vector.
        action: likewise; several columns must be numbers.
        next_observation: like `observation`, in the same order. Without it the next row of the trajectory is the next
            observation.
        reward: the column of what a step earned.
        trajectory: the column of ids that say which rows belong together.
        time: the column that orders the rows of a trajectory and shows gaps.
        terminated: the column of flags: the episode ended with this row by itself.
        truncated: the column of flags: a time limit ended the episode with this row.
        weight: the column that says how much a row counts.
        available: a column of lists of the actions that were possible, or a prefix `"available_*"` of flags per action.
        kinds: "number" or "category" per column, where the type alone would say the other.
        reward_lag: 1 where the reward of a row is logged on the next one.
        on_termination: what the last row of an episode becomes, see `Transitions`. None: what the log's own metadata say,
            else "restart".
        on_truncation: the same for a time limit. None: what the log's own metadata say, else "keep".
        gap: rows are sorted by time, and a trajectory is cut where a step takes more than `gap` times its median step (that
            of all trajectories, where it has fewer than 3 steps). None: time orders the rows and never cuts, for logs whose
            steps take irregular times by nature, such as calls.
        skip_bad_files: whether files that cannot be read are left out; `Log.notes` then names them, and trajectories are
            cut there. Without it they are an error.
        stream: whether the log is read in blocks again and again and never held in memory; the answers are the same. None:
            where it would take more than 256 MiB of memory. Its rows must be sorted then; `cesaro sort` does that.

    A role that is not given takes a column with one of its usual names, if there is exactly one: `observation(s)`, `obs`,
    `state(s)` (or these with `_0`, `_1`, …); `action(s)`; `reward(s)`; `next_` before the observation's names;
    `trajectory`, `trajectory_id`, `episode`, `episode_id`; `time`, `timestamp`, `step`; `terminated`, `terminations`,
    `terminal(s)`; `truncated`, `truncations`, `timeout(s)`; `available`. False says that the log has no such column.
    `done` and `weight` are never taken unasked. What was used stands in `Log.schema`.

    Example:
        >>> from cesaro.data import read
        >>> log = read({"state": ["idle", "busy", "idle"], "action": [0, 1, 0], "reward": [0.0, 2.0, 0.0]})
        >>> log.load()
        Transitions(2 transitions, 3 rows)
        >>> log.notes
        ('Dropped 1 of 3 rows: 1 at the end of a trajectory without a next observation.',)
    """
    if not isinstance(skip_bad_files, bool):
        raise InputError(f"skip_bad_files must be True or False. Got {skip_bad_files!r}.")
    opened = _open(source, skip_bad_files)
    given: dict[str, Given] = {
        "observation": observation,
        "action": action,
        "reward": reward,
        "next_observation": next_observation,
        "trajectory": trajectory,
        "time": time,
        "terminated": terminated,
        "truncated": truncated,
        "weight": weight,
        "available": available,
    }
    if observation is not None and next_observation is None:
        fixed = {role: columns for role, columns in opened.roles.items() if role != "next_observation"}
    else:
        fixed = dict(opened.roles)
    given = {role: fixed.get(role) if value is None else value for role, value in given.items()}
    settings = check_settings(opened.name, reward_lag, on_termination, on_truncation, gap, opened.options)
    roles, notes = find_roles(opened.name, opened.names, given)
    used = (*roles.observation.columns, *roles.action.columns)
    known = {column: kind for column, kind in opened.kinds.items() if column in used}
    chosen = known | check_kinds(opened.name, kinds, roles)
    unused = () if trajectory is False else possible_ids(opened.names, roles)
    return Log(opened, roles, chosen, settings, tuple(notes), unused, stream)


def _open(source: Any, skip_bad_files: bool) -> Source:
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if not isinstance(path, str):
            path = os.fsdecode(path)
        if path.startswith(minari_source.PREFIX):
            return MinariSource(path.removeprefix(minari_source.PREFIX))
        if not os.path.lexists(path) and minari_source.local_path(path) is not None:
            return MinariSource(path)
        opened = open_path(path, skip_bad_files)
        opened.given = shown_address(path)
        return opened
    if isinstance(source, pa.Table):
        return TableSource("table", source)
    if isinstance(source, pa.RecordBatch):
        return TableSource("table", pa.Table.from_batches([source]))
    if isinstance(source, Mapping):
        return ArraySource("arrays", source)
    if type(source).__module__.split(".")[0] in ("pandas", "polars") and type(source).__name__ == "DataFrame":
        return FrameSource("frame", source)
    raise InputError(
        "A log must be a path, a pyarrow table, a pandas or Polars frame or a dict of arrays. "
        f"Got a {type(source).__name__}; convert it to one of these."
    )
