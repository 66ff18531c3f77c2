"""Columns in, transitions out: convert, order, find successors, check, and say what was done."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cesaro.data import columns as numbers
from cesaro.data import labels
from cesaro.data.available import available_actions
from cesaro.data.columns import Place
from cesaro.data.continuing import DisorderError, Ordered, Successors, find_successors, order_rows, segments
from cesaro.data.role_values import Pair, role_values
from cesaro.data.roles import Roles
from cesaro.data.schema import Schema, describe
from cesaro.data.settings import Settings
from cesaro.data.sources import Source
from cesaro.data.values import Categories, Values
from cesaro.errors import InputError

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
_LARGE = 1 << 27  # bytes


@dataclass(frozen=True)
class Parts:
    """A log in memory: every row that its source holds, ordered; `kept` are those that are transitions.

    The next observation of row i is row i of `next_values`, or the observation of row i + 1 where that is None; that of
    row `restart_at[j]` is the observation of row `restart_to[j]`.
    """

    name: str
    schema: Schema
    file_rows: tuple[int, ...]
    observations: Values
    next_values: Values | None
    actions: Values
    rewards: Array
    weights: Array | None
    trajectory: NDArray[np.int32] | None
    available: NDArray[np.bool_] | None
    restart_at: Rows
    restart_to: Rows
    kept: Rows
    segment: Rows  # per kept row
    counts: dict[str, int]
    notes: tuple[str, ...]


def assemble(
    source: Source, roles: Roles, kinds: Mapping[str, str], settings: Settings, notes: tuple[str, ...]
) -> Parts:
    """Read `source` and make transitions of its rows."""
    assembly = _Assembly(source, roles, kinds, settings, notes)
    assembly.release()
    parts = assembly.parts()
    assembly.release()
    return parts


class _Assembly:
    def __init__(
        self, source: Source, roles: Roles, kinds: Mapping[str, str], settings: Settings, notes: tuple[str, ...]
    ) -> None:
        table, self.files = source.table(roles, kinds)
        self.log, self.roles, self.kinds, self.settings = source.name, roles, kinds, settings
        self.rows = table.num_rows
        if not self.rows:
            raise InputError(f"{self.log} must have at least one row. Got none; check what wrote it.")
        self.schema = describe(self.log, roles, table.schema, kinds, settings)
        self.has_next = roles.next_observation is not None
        self.notes = [*source.notes, *notes]  # what the source says once it has been read
        self._is_large = table.nbytes > _LARGE
        self._columns = {name: table[name] for name in table.column_names}
        self._uses = [column for _, columns in roles.items() for column in columns]

    def release(self) -> None:
        """Give back the memory that decoding needed, which Arrow would keep beside the arrays."""
        if self._is_large:
            pa.default_memory_pool().release_unused()

    def place(self, column: str) -> Place:
        return Place(self.log, column, self.files)

    def column(self, name: str) -> pa.ChunkedArray:
        """A column's data; let go of at the last use, so that at most one column is in memory twice."""
        self._uses.remove(name)
        return self._columns[name] if name in self._uses else self._columns.pop(name)

    def single(self, name: str) -> pa.ChunkedArray:
        """A column of a role that has one entry per row; arrays `[n, 1]` are taken as `[n]`."""
        column = self.column(name)
        if pa.types.is_fixed_size_list(column.type) and column.type.list_size == 1 and not column.null_count:
            column = pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
        return column

    def parts(self) -> Parts:
        roles = self.roles
        terminated = self._optional(roles.terminated, labels.flags)
        truncated = self._optional(roles.truncated, labels.flags)
        ordered = self._ordered(terminated, truncated)
        order = ordered.order
        if order is not None:
            terminated = None if terminated is None else terminated[order]
            truncated = None if truncated is None else truncated[order]
        found = find_successors(self.rows, ordered, terminated, truncated, self.has_next, self.settings)
        kept = np.flatnonzero(found.keep)
        if not len(kept):
            raise InputError(
                f"{self.log} must leave at least one transition. Got none of {_many(self.rows, 'row')} "
                f"({self._reasons(found)}); give next_observation=, longer trajectories or another on_… setting."
            )
        rewards = self._rewards(order, kept)
        weights = self._weights(order, kept)
        observations, next_values = self._observations(order, found)
        actions, available = self._actions(order)
        linked = _linked(ordered, found, observations, next_values)
        self._say(found)
        _freeze(observations, next_values, actions)
        return Parts(
            self.log,
            self.schema,
            tuple(rows for _, rows in self.files) if order is None else (self.rows,),
            observations,
            next_values,
            actions,
            rewards,
            weights,
            ordered.trajectory,
            available,
            found.restart_at,
            found.restart_to,
            kept,
            segments(linked, kept),
            found.counts | {"files": len(self.files)},
            tuple(self.notes),
        )

    def _optional(self, column: str | None, reader: Callable[[pa.ChunkedArray, Place], Any]) -> Any:
        return None if column is None else reader(self.single(column), self.place(column))

    def _ordered(self, terminated: Any, truncated: Any) -> Ordered:
        ended = terminated
        if truncated is not None:
            ended = truncated if ended is None else ended | truncated
        ids = self._optional(self.roles.trajectory, labels.identities)
        time = self._optional(self.roles.time, labels.times)
        try:
            ordered = order_rows(ids, time, ended)
        except DisorderError as error:
            place = self.place(self.roles.time or "")
            both = " and ".join(place.row(row) for row in error.rows)
            give = "" if ids is not None else ", or give trajectory="
            if error.kind == "flag":
                raise place.error(
                    "must put the flagged row of an episode last", f"{both} in the other order", f"sort the file{give}"
                ) from None
            raise place.error(
                "must be different in every row of a trajectory", f"the same at {both}", f"remove one of them{give}"
            ) from None
        if ordered.order is not None:
            by = "trajectory" if time is None else "time" if ids is None else "(trajectory, time)"
            self.notes.append(f"The rows were sorted by {by}.")
        return ordered

    def _rewards(self, order: Rows | None, kept: Rows) -> Array:
        """Per row its reward; with a lag the entry of the next row, and only those that are used must be there."""
        lag = self.settings.reward_lag
        place = self.place(self.roles.reward)
        raw = numbers.floats(self.single(place.column), place, missing=lag > 0, exact=False)
        raw = raw.astype(np.float64, copy=False)
        if not lag:
            numbers.reject_nonfinite(raw, place)
            return raw if order is None else raw[order]
        rewards = np.append((raw if order is None else raw[order])[1:], np.nan)
        wrong = ~np.isfinite(rewards[kept])
        if wrong.any():
            row = int(kept[np.argmax(wrong)]) + lag
            raise place.error(
                "must be finite where a transition needs it",
                f"{rewards[row - lag]} at {place.row(row if order is None else int(order[row]))}",
                "fill it in or remove that row",
            )
        return rewards

    def _weights(self, order: Rows | None, kept: Rows) -> Array | None:
        if self.roles.weight is None:
            return None
        place = self.place(self.roles.weight)
        weights = numbers.floats(self.single(place.column), place, exact=False).astype(np.float64, copy=False)
        numbers.reject_nonfinite(weights, place)
        if (weights < 0).any():
            row = int(np.argmax(weights < 0))
            got = f"{weights[row]:g} at {place.row(row)}"
            raise place.error("must not be negative", got, "give rows that shall not count weight 0")
        weights = weights if order is None else weights[order]
        if not weights[kept].any():
            raise place.error("must not be zero in every row", "no positive weight", "leave weight= out")
        return weights

    def _observations(self, order: Rows | None, found: Successors) -> tuple[Values, Values | None]:
        role = self.schema.observation
        then = self.roles.next_observation
        pairs: list[Pair] = []
        for i, name in enumerate(role.columns):
            names = [name] if then is None else [name, then.columns[i]]
            pairs.append([(self.column(own), self.place(own)) for own in names])
        asked = [name in self.kinds for name in role.columns]
        if then is None:
            return role_values(role, pairs, asked, order)[0], None
        needed = found.keep.copy()
        needed[found.restart_at] = False
        if order is not None:
            needed[order] = needed.copy()
        now, after = role_values(role, pairs, asked, order, needed)
        return now, after

    def _actions(self, order: Rows | None) -> tuple[Values, NDArray[np.bool_] | None]:
        role = self.schema.action
        pairs: list[Pair] = [[(self.column(name), self.place(name))] for name in role.columns]
        actions = role_values(role, pairs, [name in self.kinds for name in role.columns], None)[0]
        available = None
        if self.roles.available is not None:
            labelled = actions.columns[0]
            if not isinstance(labelled, Categories):
                raise InputError(
                    f"{self.log}: available must come with actions that are labels. Got numbers; pass available=False, "
                    "or kinds= if the actions are labels."
                )
            names = self.roles.available.columns
            columns = [self.column(name) for name in names]
            available = available_actions(columns, [self.place(name) for name in names], labelled)
        if order is None:
            return actions, available
        return actions.take(order), None if available is None else available[order]

    def _say(self, found: Successors) -> None:
        counts = found.counts
        if counts["cuts"]:
            self.notes.append(
                f"Trajectories were cut at {_many(counts['cuts'], 'gap')} of more than {self.settings.gap:g} times their "
                "median step in time; gap=None (--gap none) keeps the order and does not cut."
            )
        if counts["kept"] < counts["rows"]:
            dropped = counts["rows"] - counts["kept"]
            self.notes.append(f"Dropped {dropped} of {_many(counts['rows'], 'row')}: {self._reasons(found)}.")
        if counts["restarts"]:
            self.notes.append(
                f"The next observation of {_many(counts['restarts'], 'row')} that ended an episode is the first one of "
                "the next episode."
            )
        if found.reset_after is not None:
            self.notes.append(
                f"Every truncated episode was reset after {_many(found.reset_after, 'step')}: such a reset is not Markov "
                'in the observation, so the rate may be wrong; on_truncation="keep" leaves it out.'
            )

    def _reasons(self, found: Successors) -> str:
        without = "" if self.has_next else " without a next observation"
        why = {
            "cut": "before a gap in time without a next observation",
            "trajectory end": "at the end of a trajectory without a next observation",
            "terminated": "terminated" + (without if self.settings.on_termination == "keep" else ""),
            "truncated": "truncated" + (without if self.settings.on_truncation == "keep" else ""),
            "reward lag": "at the end of a piece, whose reward would be on the next row",
        }
        return ", ".join(f"{found.counts[key]} {why[key[9:]]}" for key in found.counts if key.startswith("dropped: "))


def _linked(ordered: Ordered, found: Successors, now: Values, then: Values | None) -> NDArray[np.bool_]:
    """Where row i + 1 goes on from row i: also over the end of an episode whose reset state is that row."""
    linked = ~found.ends
    at = np.flatnonzero(found.ended[:-1] & found.keep[:-1])
    if ordered.trajectory is not None:
        at = at[ordered.trajectory[at + 1] == ordered.trajectory[at]]
    if not len(at):
        return linked
    follows = np.zeros(len(at), dtype=np.bool_)
    place = np.minimum(np.searchsorted(found.restart_at, at), max(len(found.restart_at) - 1, 0))
    restarted = found.restart_at[place] == at if len(found.restart_at) else follows
    follows[restarted] = found.restart_to[place[restarted]] == at[restarted] + 1
    if then is not None:
        own = at[~restarted]
        follows[~restarted] = then.take(own).equals(now.take(own + 1))
    linked[at] = follows
    return linked


def _freeze(*roles: Values | None) -> None:
    """Read-only: feature maps and policies see these arrays."""
    for column in (column for values in roles if values is not None for column in values.columns):
        (column.codes if isinstance(column, Categories) else column).flags.writeable = False


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
