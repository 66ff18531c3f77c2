"""The notes of a log: what became of its rows, counted and in words, and which columns might have been used.

A `Tally` counts from some rows at a time, so that it serves a log in memory and one in windows alike.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cesaro.data.columns import as_times, basic_type, is_plain_text, is_text
from cesaro.data.continuing import Structure, Successors
from cesaro.data.roles import DEFAULTS, DONE, WEIGHTS, Roles
from cesaro.data.settings import Settings
from cesaro.data.sources.base import Source
from cesaro.data.texts import digits, is_number, orders
from cesaro.errors import CesaroError, InputError
from cesaro.text import Sentence, Wording, argument, option, visible

# How a caller says that steps of any length belong together.
NO_GAPS = Wording("gap=None (--gap none)", "--gap none")
_ROWS, _ENTRIES = 1 << 18, 1 << 22  # as many are looked at
_REPEATS = 10  # an id has at least as many rows, on average
_NAMED = 3
_TIMES = 1_000  # rows that tell whether a column holds times
# Columns with these names stand for another role, and were left out on purpose.
_OTHERS = {*DONE, *WEIGHTS, *(name for role, names in DEFAULTS.items() if role != "trajectory" for name in names)}


class Tally:
    """Counts of what became of the rows of a log, from some rows at a time.

    Args:
        has_next: whether the log has columns of next observations.
        settings: how rows become transitions.

    Attributes:
        cut_actions: rows whose action was cut; None: there are no bounds.
    """

    def __init__(self, has_next: bool, settings: Settings) -> None:
        self._has_next, self._settings = has_next, settings
        self._counts = dict.fromkeys(("rows", "kept", "trajectories", "episodes", "cuts", "restarts"), 0)
        self._dropped: dict[str, int] = {}
        self._end = -1  # the last row of the last episode
        self._lengths: set[int] = set()  # two at most
        self._resets = 0
        self._holes = 0  # cuts where a file or a row was left out
        self._incomplete: tuple[str, ...] = ()  # columns whose missing entries made rows be left out
        self.cut_actions: int | None = None

    def add(self, found: Structure, then: Successors) -> None:
        """Count rows, given what ids and flags say about them and what became of them."""
        counts = self._counts
        before = counts["rows"]
        ends = np.flatnonzero(found.ends_episode)
        counts["rows"] += len(found.ended)
        counts["kept"] += int(np.count_nonzero(then.keep))
        counts["trajectories"] += int(np.count_nonzero(found.ends_trajectory))
        counts["episodes"] += len(ends)
        counts["cuts"] += int(np.count_nonzero(then.cut))
        self._holes += int(np.count_nonzero(found.lost & ~found.ends_episode))
        counts["restarts"] += len(then.restarts)
        for reason, mask in then.dropped.items():
            self._dropped[reason] = self._dropped.get(reason, 0) + int(np.count_nonzero(mask))
        resets = then.restarts[found.truncated[then.restarts]]
        self._resets += len(resets)
        if len(resets) and len(self._lengths) < 2:
            lengths = np.diff(ends, prepend=self._end - before)[np.searchsorted(ends, resets)]
            self._lengths |= {int(lengths.min()), int(lengths.max())}
        if len(ends):
            self._end = before + int(ends[-1])

    def add_incomplete(self, rows: int, columns: Sequence[str]) -> None:
        """Count rows that were left out because of missing entries in these columns."""
        self._counts["rows"] += rows
        self._dropped["incomplete"] = rows
        self._incomplete = tuple(columns)

    def add_plain(self, rows: int) -> None:
        """Count rows that are all kept and none of which ends anything."""
        self._counts["rows"] += rows
        self._counts["kept"] += rows

    @property
    def counts(self) -> dict[str, int]:
        """Rows, kept ones, trajectories, episodes, cuts, restarts, cut actions, and dropped rows by reason."""
        cut = {} if self.cut_actions is None else {"cut actions": self.cut_actions}
        return self._counts | cut | {f"dropped: {reason}": count for reason, count in self._dropped.items() if count}

    def notes(self) -> list[str]:
        """Sentences on cut actions, cuts, dropped rows, restarts and resets."""
        notes: list[str] = []
        counts, settings = self._counts, self._settings
        if self.cut_actions is not None:
            rows = _many(counts["rows"], "row")
            notes.append(f"Actions were cut to {settings.action_bounds} in {self.cut_actions:,} of {rows}.")
        if self._holes:
            places = _many(self._holes, "place")
            notes.append(f"Trajectories were cut at {places} where {self._left_out} were left out.")
        if counts["cuts"] > self._holes:
            notes.append(
                Sentence(
                    "Trajectories were cut at {gaps} of more than {times} times their median step in time; {none} does not cut.",
                    gaps=_many(counts["cuts"] - self._holes, "gap"),
                    times=f"{settings.gap:g}",
                    none=NO_GAPS,
                )
            )
        if counts["kept"] < counts["rows"]:
            dropped = counts["rows"] - counts["kept"]
            notes.append(f"Dropped {dropped:,} of {_many(counts['rows'], 'row')}: {self._reasons()}.")
        if counts["restarts"]:
            notes.append(
                f"The next observation of {_many(counts['restarts'], 'row')} that ended an episode is the first one of "
                "the next episode."
            )
        if self._resets > 1 and len(self._lengths) == 1:
            notes.append(
                Sentence(
                    "Every truncated episode was reset after {steps}, and the observation does not show how many are left (such "
                    "a reset is not Markov), so the rate may be wrong; {keep} leaves the reset out.",
                    steps=_many(next(iter(self._lengths)), "step"),
                    keep=argument("on_truncation", "keep"),
                )
            )
        return notes

    def reject_nothing_left(self, log: str) -> None:
        """Refuse a log none of whose rows is a transition."""
        if not self._counts["kept"]:
            raise InputError.of(
                "{log} must leave at least one transition. Got none of {rows} ({reasons}); give {next_observation}, longer "
                "trajectories or another {on_termination} or {on_truncation}.",
                log=log,
                rows=_many(self._counts["rows"], "row"),
                reasons=self._reasons(),
                next_observation=argument("next_observation"),
                on_termination=argument("on_termination"),
                on_truncation=argument("on_truncation"),
            )

    def _reasons(self) -> str:
        """The reasons for which rows were dropped, each with their number."""
        settings = self._settings
        empty_in = " or ".join(f'"{visible(name)}"' for name in self._incomplete)
        without = "" if self._has_next else " without a next observation"
        why = {
            "cut": "before a gap in time without a next observation",
            "incomplete": f"with an empty entry in {empty_in}",
            "left out": f"before {self._left_out} that were left out",
            "trajectory end": "at the end of a trajectory without a next observation",
            "terminated": "terminated" + (without if settings.on_termination == "keep" else ""),
            "truncated": "truncated" + (without if settings.on_truncation == "keep" else ""),
            "reward lag": "at the end of a segment, whose reward would be on the next row",
        }
        return ", ".join(f"{count:,} {why[reason]}" for reason, count in self._dropped.items() if count)

    @property
    def _left_out(self) -> str:
        return "rows" if self._incomplete else "files"


def reject_empty(log: str, rows: int) -> None:
    """Refuse a log without rows."""
    if not rows:
        raise InputError(f"{log} must have at least one row. Got none; check what wrote it.")


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def unused_as_ids(names: Sequence[str], roles: Roles) -> tuple[str, ...]:
    """Unused columns that may be ids, where the log is taken as one trajectory for want of ids, flags and next observations."""
    told = (roles.trajectory, roles.terminated, roles.truncated, roles.next_observation)
    if any(role is not None for role in told):
        return ()
    used = set(roles.columns())
    return tuple(name for name in names if name not in used and name not in _OTHERS)


def unused_as_times(names: Sequence[str], roles: Roles) -> tuple[str, ...]:
    """Unused columns that may be times, where rows of a trajectory are taken in the order of the file."""
    if roles.trajectory is None or roles.time is not None or roles.next_observation is not None:
        return ()
    used = set(roles.columns())
    return tuple(name for name in names if name not in used)


def unused_notes(source: Source, roles: Roles, columns: Sequence[str]) -> list[str]:
    """A sentence where some of these columns look like ids, or like times where ids are known. Bad ones are no error.

    Ids are text or whole numbers that repeat.
    """
    is_known = roles.trajectory is not None
    if source.types is not None and not is_known:
        columns = [name for name in columns if _may_be_id(source.types.field(name).type)]
    if not columns:
        return []
    most = _TIMES if is_known else min(_ROWS, _ENTRIES // len(columns))
    try:
        head = source.head(columns, most)
        found = [name for name in columns if head is not None and (_is_time if is_known else _is_id)(head[name])]
    except MemoryError:
        raise
    except (CesaroError, pa.ArrowException, OSError, ValueError):
        return []
    return [] if not found else [_said_of_times(found[0])] if is_known else [_said_of_ids(found)]


def _is_time(column: pa.ChunkedArray) -> bool:
    kind = basic_type(column.type)
    if column.null_count or not len(column):
        return False
    if not is_plain_text(kind):
        return pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    texts = column.cast(kind).unique().to_pylist()
    if all(text.isascii() and text.isdigit() and len(text) <= 14 for text in texts):
        return bool(digits(np.array(texts, dtype=np.int64)))
    return as_times(column.cast(kind)) is not None or all(map(orders, texts))


def _said_of_times(column: str) -> str:
    name = visible(column)
    return Sentence(
        'Rows of a trajectory were taken in the order of the file; column "{column}" holds times and was not used: to order '
        "rows by it, give {time}.",
        column=name,
        time=Wording(f'time="{name}" (--time {name})', option("time", name)),
    )


def _may_be_id(kind: pa.DataType) -> bool:
    basic = basic_type(kind)
    return is_text(basic) or pa.types.is_integer(basic)


def _is_id(column: pa.ChunkedArray) -> bool:
    if not _may_be_id(column.type) or column.null_count:
        return False
    levels = column.unique()
    if not 2 <= len(levels) <= len(column) // _REPEATS:
        return False
    # A CSV file is looked at as text.
    return not is_text(basic_type(column.type)) or not any(map(_is_other, levels.to_pylist()))


def _is_other(level: str | bytes) -> bool:
    """Whether a level is missing, a flag or a number that is not whole."""
    text = level.decode(errors="replace") if isinstance(level, bytes) else level
    if text.strip().lower() in ("", "true", "false"):
        return True
    return is_number(text) and not text.strip().lstrip("+-").isdigit()


def _said_of_ids(names: Sequence[str]) -> str:
    if len(names) == 1:
        name = visible(names[0])
        given = Wording(f'trajectory="{name}" (--trajectory {name})', option("trajectory", name))
        return Sentence(
            'The log was taken as one trajectory; column "{column}" was not used: if it names trajectories, give {trajectory}.',
            column=name,
            trajectory=given,
        )
    shown = visible(", ".join(f'"{name}"' for name in names[:_NAMED]))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return Sentence(
        "The log was taken as one trajectory; columns {columns} were not used: if one of them names trajectories, give "
        "{trajectory}.",
        columns=f"{shown}{more}",
        trajectory=Wording("trajectory= (--trajectory)", "--trajectory COLUMN"),
    )
