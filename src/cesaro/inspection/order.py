"""The order of rows: do they follow each other better by columns that were not used than they do now?

State and action then predict the next state clearly better. Which columns may be ids of trajectories or times is told by their
names and entries.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cesaro.data import Transitions
from cesaro.data.columns import basic_type, is_list, is_number, is_text
from cesaro.data.log import Origin
from cesaro.data.roles import RoleColumns, Roles, folded
from cesaro.data.settings import Settings
from cesaro.inspection.evidence import (
    contiguous,
    explains,
    is_material,
    own_kinds,
    renumbered,
    transitions,
    unused_columns,
)
from cesaro.inspection.names import CALENDAR, DAYS, TIMES, is_id, means
from cesaro.inspection.prediction import ENOUGH, LEVELS, Errors, Gain, as_inputs, as_targets, held_out

# Columns that are tried as ids of trajectories, and as times.
IDS_TRIED, TIMES_TRIED = 4, 2
# Rows per id, on average and at least.
REPEATS = 5
# Rows of one time, on average, where several trajectories share times.
SHARED = 1.5
# Of a column's variance, what lies within trajectories if it moves at all.
STILL = 0.05
# A column whose prediction gets worse by this much contradicts a better prediction of others.
WORSE = 0.1


class BetterOrder(NamedTuple):
    """Columns by which rows would follow each other better than they do now.

    Attributes:
        trajectory, time: the columns to add; None: none.
        drop_duplicates: whether rows are in the file twice.
        gain: of the held-out R² of the next state, given state and action.
        is_clear: whether rows follow each other so, and do not now.
    """

    trajectory: str | None
    time: str | None
    drop_duplicates: bool
    gain: Gain
    is_clear: bool


def better_order(origin: Origin, table: pa.Table, random_state: int = 0) -> BetterOrder | None:
    """The best of the ways to order the rows by unused columns, against the way they are in; None where there is none to try."""
    roles = origin.roles
    if roles.next_observation is not None:
        return None
    free = [name for name in unused_columns(origin) if name in table.column_names]
    ids = possible_ids(table, free) if roles.trajectory is None and "trajectory" not in origin.denied else []
    times = possible_times(table, free) if roles.time is None and "time" not in origin.denied else []
    if not ids and not times:
        return None
    now = transitions(table, roles, origin.kinds, origin.settings)
    before = None if now is None else followed(now, random_state)
    if before is None:
        return None
    best: BetterOrder | None = None
    others = [(trajectory, time) for time in (None, *times) for trajectory in (None, *ids)][1:]
    for trajectory, time, repeated, rows in in_orders(others, table, roles, origin.kinds, origin.settings):
        after = followed(rows, random_state)
        if after is None or after.left.shape[1] != before.left.shape[1]:
            continue
        moving = moves(rows, random_state)
        if not moving.any():
            continue
        gain = Gain.of(before.of(moving), after.of(moving), paired=False)
        is_worse = bool((after.by_column > before.by_column + WORSE).any())
        if is_worse:
            continue
        is_clear = follow_better(before, after, rows, random_state, moving)
        if is_clear and trajectory is not None and len(table[trajectory].unique()) <= LEVELS:
            kinds = {**origin.kinds, **own_kinds(origin, table)}
            seen = followed_if_seen(table, roles, kinds, origin.settings, trajectory, random_state)
            is_clear = seen is None or follow_better(seen, after, rows, random_state, moving)
        found = BetterOrder(trajectory, time, repeated, gain, is_clear)
        if best is None or (found.is_clear, gain.after) > (best.is_clear, best.gain.after + 0.01):
            best = found
    return best


class InOrder(NamedTuple):
    """Rows in the order of two columns; `is_repeated`: some are in the file twice and count once."""

    trajectory: str | None
    time: str | None
    is_repeated: bool
    log: Transitions


def in_orders(
    orders: Iterable[tuple[str | None, str | None]],
    table: pa.Table,
    roles: Roles,
    kinds: Mapping[str, str],
    settings: Settings,
) -> Iterator[InOrder]:
    """The rows of a table by each of some pairs of trajectory and time by which they can be read."""
    for trajectory, time in orders:
        here = replace(roles, trajectory=trajectory or roles.trajectory, time=time or roles.time)
        log = transitions(table, here, kinds, settings)
        is_repeated = log is None and here.time is not None
        if is_repeated:
            log = transitions(table, here, kinds, replace(settings, drop_duplicates=True))
        if log is not None:
            yield InOrder(trajectory, time, is_repeated, log)


def followed(log: Transitions, random_state: int) -> Errors | None:
    """How well state and action predict the next state; None where too few rows tell it."""
    if len(log) < ENOUGH:
        return None
    rows, number = contiguous(log, random_state)
    targets = as_targets(rows.next_observations)
    return held_out(as_inputs([rows.observations], rows.actions), targets, number) if targets else None


def followed_if_seen(
    table: pa.Table, roles: Roles, kinds: Mapping[str, str], settings: Settings, column: str, random_state: int
) -> Errors | None:
    """How well the next state is predicted, in the order of the rows, if a column is seen on both rows; None where it cannot be.

    A column of the state, such as a shift, explains by that what an id, such as a machine, explains only by the order.
    """
    own = roles.observation.columns
    seen = replace(roles, observation=RoleColumns((*own, column), "several"))
    log = transitions(table, seen, {**kinds, column: "category"}, settings)
    if log is None or len(log) < ENOUGH:
        return None
    rows, number = contiguous(log, random_state)
    after = rows.next_observations
    then = replace(after, names=after.names[-1:], columns=after.columns[-1:])
    targets = as_targets(replace(after, names=after.names[:-1], columns=after.columns[:-1]))
    return held_out(as_inputs([rows.observations, then], rows.actions), targets, number)


def follow_better(
    before: Errors, after: Errors, log: Transitions, random_state: int, moving: NDArray[np.bool_]
) -> bool:
    """Whether state and action predict the next state clearly better in the order of a log than they did before.

    One column is enough, because others may be independent by nature. Rows that are put together because they are alike predict
    each other without following each other: what comes next must be predicted better than any other row of the trajectory.
    """
    if before.left.shape[1] != after.left.shape[1]:
        return False
    single = np.eye(len(moving), dtype=np.bool_)
    gains = [Gain.of(before.of(column), after.of(column), paired=False) for column in single]
    clear = moving & np.array([is_material(gain, len(moving)) for gain in gains], dtype=np.bool_)
    if not clear.any():
        if not moving.any() or not is_material(Gain.of(before.of(moving), after.of(moving), paired=False)):
            return False
        clear = moving
    return follow(log, random_state, clear)


def follow(log: Transitions, random_state: int, columns: NDArray[np.bool_]) -> bool:
    """Whether state and action predict some columns of the next state better than those of any other row of the trajectory."""
    rows, number = contiguous(log, random_state)
    targets = [target for target, is_asked in zip(as_targets(rows.next_observations), columns, strict=True) if is_asked]
    inputs = as_inputs([rows.observations], rows.actions)
    codes = np.zeros(len(rows), dtype=np.int64) if rows.trajectory is None else renumbered(rows.trajectory)
    mixed = np.random.default_rng([random_state, 19]).random(len(rows))
    other = np.empty(len(rows), dtype=np.int64)
    other[np.lexsort((np.arange(len(rows)), codes))] = np.lexsort((mixed, codes))
    anywhere = held_out(inputs, [target[other] for target in targets], number)
    within = Gain.of(anywhere, held_out(inputs, targets, number), paired=True)
    return explains(within)


def moves(log: Transitions, random_state: int) -> NDArray[np.bool_]:
    """Which columns that `followed` predicts change within trajectories.

    What never does, such as the size of a shop, is no evidence that rows follow each other.
    """
    rows = contiguous(log, random_state).rows
    targets = as_targets(rows.next_observations)
    if rows.trajectory is None:
        return np.ones(len(targets), dtype=np.bool_)
    codes = np.unique(rows.trajectory, return_inverse=True)[1]
    counts = np.bincount(codes)
    found = []
    for target in targets:
        sums = np.stack([np.bincount(codes, weights=column) for column in target.T], axis=1)
        within = float(((target - (sums / counts[:, None])[codes]) ** 2).sum())
        found.append(within > STILL * float(((target - target.mean(axis=0)) ** 2).sum()))
    return np.array(found, dtype=np.bool_)


def possible_ids(table: pa.Table, names: Sequence[str]) -> list[str]:
    """Columns of text or whole numbers that repeat and are always there; first those whose names say so."""
    found = []
    for name in names:
        kind = basic_type(table.schema.field(name).type)
        if not (is_text(kind) or pa.types.is_integer(kind)) or table[name].null_count:
            continue
        if means(name, CALENDAR) or (means(name, DAYS if is_text(kind) else TIMES) and not is_id(name)):
            continue
        levels = len(table[name].unique())
        if 2 <= levels <= len(table) // REPEATS:
            found.append(name)
    return sorted(found, key=lambda name: not is_id(name))[:IDS_TRIED]


def possible_times(table: pa.Table, names: Sequence[str]) -> list[str]:
    """Columns of dates and times, and of numbers whose names say so."""
    found = []
    for name in names:
        kind = basic_type(table.schema.field(name).type)
        is_clock = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        if not (is_clock or (is_number(kind) and _counts_time(table, name))) or table[name].null_count:
            continue
        if len(table[name].unique()) > REPEATS:
            found.append(name)
    return found[:TIMES_TRIED]


def _counts_time(table: pa.Table, name: str) -> bool:
    """Whether numbers are times by their name; `week` and `log_steps` may be something else, and must tell rows apart."""
    if not means(name, TIMES + CALENDAR):
        return False
    is_whole = pa.types.is_integer(basic_type(table.schema.field(name).type))
    if folded(name) in TIMES or (is_whole and not means(name, CALENDAR)):
        return True
    others = [other for other in table.column_names if other != name and not is_list(table.schema.field(other).type)]
    rows = _different(table, [name, *others])  # those that are in the file twice count once
    return any(_different(table, [name, *by]) == rows for by in ([], *([one] for one in possible_ids(table, others))))


def panels(table: pa.Table, ids: Sequence[str], times: Sequence[str]) -> dict[str, str]:
    """Ids none of which has the same time twice, although rows share times, each with that time.

    Rows that are in the file twice count once.
    """
    found: dict[str, str] = {}
    pairs = [(name, time) for time in times if _different(table, [time]) * SHARED <= len(table) for name in ids]
    counts = {pair: _different(table, list(pair)) for pair in pairs if pair[0] != pair[1]}
    rows = {len(table)}
    if counts and max(counts.values()) < len(table):
        usable = [
            name for name in table.column_names if not pa.types.is_nested(basic_type(table.schema.field(name).type))
        ]
        rows = {_different(table, usable)}
    for (name, time), count in counts.items():
        if count in rows:
            found.setdefault(name, time)
    return found


def _different(table: pa.Table, names: list[str]) -> int:
    return len(table.select(names).group_by(names).aggregate([]))
