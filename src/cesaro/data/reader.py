"""Read a log: a source, roles and settings become a `Log`, which opens in memory, or in blocks where it is large."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cesaro.checks import named_arguments
from cesaro.data.log import Log, OpenedLog, Origin
from cesaro.data.notes import unused_as_ids, unused_as_times
from cesaro.data.roles import Given, Schema, check_kinds, describe, find_roles
from cesaro.data.settings import GAP, carried_bounds, check_settings
from cesaro.data.sources.files import FilesSource
from cesaro.data.sources.formats import IN_PIECES, open_source
from cesaro.data.streamed import Streamed
from cesaro.data.transitions import FeatureTransitions, Transitions, loaded
from cesaro.errors import InputError
from cesaro.progress import stage
from cesaro.text import Wording, argument, switch

# A log of more bytes than this is read in blocks again and again, and never held in memory.
STREAM_BYTES = 1 << 28


@named_arguments
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
    cost: str | None = None,
    kinds: Mapping[str, str] | None = None,
    reward_lag: int = 0,
    on_termination: str | None = None,
    on_truncation: str | None = None,
    gap: float | None = GAP,
    drop_duplicates: bool = False,
    drop_incomplete: bool = False,
    action_bounds: Any = None,
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
            arrays. Links are followed, and each folder is read once. Of HDF5 only what is written in the file itself is
            read. A damaged HDF5 file can crash or hang the C library that reads it, which cannot be caught here, so
            convert HDF5 from sources that you do not trust to another format first.
        observation: one column, a list of columns, or a prefix `"obs_*"` whose columns are the entries of one vector.
        action: likewise; several columns must be numbers.
        next_observation: like `observation`, in the same order. Without it the next row of the trajectory is the next
            observation.
        reward: the column of what a step earned.
        cost: instead of `reward`, the column of what a step cost. A reward is then minus its entry, so that a higher rate is
            still better; reports speak of costs.
        trajectory: the column of ids that say which rows belong together.
        time: the column that orders the rows of a trajectory and shows gaps.
        terminated: the column of flags: the episode ended with this row by itself.
        truncated: the column of flags: a time limit ended the episode with this row.
        weight: the column that says how much a row counts.
        available: a column of lists of the actions that were possible, or a prefix `"available_*"` of flags per action.
        kinds: "number" or "category" by column, where the column's type alone would be read as the other.
        reward_lag: 1 where the reward of a row is logged on the next one.
        on_termination: what the last row of an episode becomes, see `Transitions`. None: what the log's own metadata say,
            else "restart".
        on_truncation: the same for a time limit. None: what the log's own metadata say, else "keep".
        gap: rows are sorted by time, and a trajectory is cut where a step takes more than `gap` times its median step (that
            of all trajectories, where it has fewer than 3 steps). None: time orders the rows and never cuts, for logs whose
            steps take irregular times by nature, such as calls.
        drop_duplicates: whether rows of one trajectory and time that agree in every column in use count once, as where an
            export holds rows twice. Without it two rows of one time are an error. It needs `time`, and a log in memory.
        drop_incomplete: whether rows with an empty entry (also NaN) in a column in use are left out. The trajectory is cut there,
            because the row before has no next observation then; `Log.notes` says how many rows that cost. Ids, times and flags
            must be there all the same: without them nobody knows which rows follow which. It needs a log in memory.
        action_bounds: a pair (low, high) that logged actions are cut to, where the system cut them and the log holds what it was
            asked for. Each is a number, or one per dimension; None on an open side. `Log.notes` says how many rows were cut.
        skip_bad_files: whether files and folders that cannot be read are left out; `Log.notes` then names them, and
            trajectories are cut there. Without it they are an error.
        stream: whether the log is read block by block, once per pass, and never held in memory; the answers are the same. None:
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
    check_outcome(reward, cost)
    opened = open_source(source, skip_bad_files)
    given: dict[str, Given] = {
        "observation": observation,
        "action": action,
        "reward": reward,
        "cost": cost,
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
    if cost is not None:
        given["reward"] = None
    ends, drops = (on_termination, on_truncation), (drop_duplicates, drop_incomplete)
    settings = check_settings(opened.name, reward_lag, *ends, gap, opened.options, *drops, action_bounds)
    settings = replace(settings, cost=cost is not None)
    roles, notes = find_roles(opened.name, opened.names, given)
    if cost is not None:
        notes.append(
            f'Findings, JSON and Python speak of rewards, which are minus "{roles.reward}", so that a higher rate is better.'
        )
    if settings.drop_duplicates and roles.time is None:
        raise InputError.of(
            "{log}: {drop_duplicates} needs a column of times, because rows that are alike may also follow each "
            "other. Got none; {give} {time}.",
            log=opened.name,
            drop_duplicates=switch("drop_duplicates"),
            time=Wording("time=", "--time COLUMN"),
        )
    used = (*roles.observation.columns, *roles.action.columns)
    known = {column: kind for column, kind in opened.kinds.items() if column in used}
    chosen = known | check_kinds(opened.name, kinds, roles)
    unused = () if trajectory is False else unused_as_ids(opened.names, roles)
    unused += () if time is False else unused_as_times(opened.names, roles)
    if cost is not None:
        given["reward"] = cost
    inferred = tuple(role for role, _ in roles.items() if given.get(role) is None)
    denied = tuple(role for role, value in given.items() if value is False)
    bounds = carried_bounds(opened.name, opened.options)
    origin = Origin(opened, roles, chosen, settings, inferred, denied, bounds, tuple(notes), unused)
    return LogHandle(origin, stream)


def check_outcome(reward: Given, cost: str | None) -> None:
    """Refuse a column of rewards beside one of costs."""
    if cost is not None and reward is not None:
        raise InputError.of(
            "{cost} and {reward} exclude each other: an outcome is better if it is low, or if it is high. Got {costs} and "
            "{rewards}; leave out one of the two.",
            cost=argument("cost"),
            reward=argument("reward"),
            costs=repr(cost),
            rewards=repr(reward),
        )


class LogHandle(Log):
    """A log whose columns are known and whose data are read on first use: what `read` gives.

    Args:
        stream: whether it is read in blocks; None: where it is large.
    """

    origin: Origin

    def __init__(self, origin: Origin, stream: bool | None) -> None:
        source = origin.source
        self.name, self.origin = source.name, origin
        if stream and not isinstance(source, FilesSource):
            raise InputError.of(
                "{streamed} needs a log of {formats} files. Got {log}, which is read as a whole; leave {stream} out, or "
                "write it as Parquet.",
                streamed=Wording("stream=True", "--stream"),
                formats=IN_PIECES,
                log=self.name,
                stream=argument("stream"),
            )
        self._stream = stream
        self._loaded: Transitions | None = None
        self._streamed: Streamed | None = None
        self._schema: Schema | None = None
        if source.types is not None:
            self._schema = describe(self.name, origin.roles, source.types, origin.kinds, origin.settings)

    @property
    def schema(self) -> Schema:
        return super().schema if self._schema is None else self._schema

    @property
    def num_rows(self) -> int:
        known = self.origin.source.num_rows
        return super().num_rows if known is None else known

    def opened(self, *, quiet: bool = True) -> OpenedLog:
        if self._streamed is None:
            if not self._opens_in_blocks():
                with stage("reading the log", quiet=quiet):
                    return self.load()
            self._streamed = Streamed(self.origin, quiet=quiet)
        return self._streamed

    def _opens_in_blocks(self) -> bool:
        """Whether the log is to be read in blocks."""
        origin = self.origin
        if self._stream is not None:
            return self._stream
        if self._loaded is not None or not isinstance(origin.source, FilesSource):
            return False
        return origin.source.nbytes(origin.roles) > STREAM_BYTES

    def load(self) -> Transitions:
        if self._loaded is None:
            self._loaded = loaded(self.origin)
        return self._loaded

    def __repr__(self) -> str:
        rows = self.origin.source.num_rows
        return f"Log({self.name}{'' if rows is None else f', {rows} rows'})"


def as_log(log: Any) -> Log:
    """The log that a question is about: as it was read, or read from a path as it is."""
    if isinstance(log, Log):
        return log
    if isinstance(log, FeatureTransitions):
        raise InputError("evaluate needs a log; ready features go to an estimator: cesaro.DiffLSTD().fit(data).")
    if isinstance(log, str | Path):
        return read(log)
    raise InputError(f"log must be a Log, Transitions or a path. Got {type(log).__name__}; see cesaro.read.")
