"""Which columns belong in an observation: those that it leaves out and that explain errors, and those that hardly belong there.

The latter are keys of rows, results of a step, which no policy sees in time, and what other columns are on the next row. Numbers
that may stand for missing entries are found here as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data import Block, Transitions
from cesaro.data.columns import basic_type, is_number, is_text
from cesaro.data.log import Origin
from cesaro.data.roles import RoleColumns
from cesaro.data.values import Categories, Column, Values
from cesaro.inspection import evidence
from cesaro.inspection.evidence import (
    CLEAR,
    MADE,
    Contiguous,
    own_kinds,
    renumbered,
    taken,
    transitions,
    unused_columns,
)
from cesaro.inspection.names import is_id
from cesaro.inspection.order import possible_times
from cesaro.inspection.prediction import ENOUGH, Gain, as_inputs, as_targets, grouped, held_out

# Unused columns that are tried as what the observation leaves out.
CONTEXTS_TRIED = 40
# A context explains this part of the errors at least; one that explains more than this many times as much by its own
# entry as by that of the row before is made in the row, and known too late.
EXPLAINS, FRESH = 0.01, 2.0
# Entries that are different, as a part of all: those of a key. Rows that a file holds twice have one key.
DIFFERENT = 0.9
# A key rises, or falls, in so many of its steps; one in no order does in half of them.
ONE_WAY = 0.999
# Rows in which a number stands for a missing entry: as many, and at most this part.
FEWEST, FEW = 3, 0.05
# Rows whose entry is that of another column on the next row, as a part of all, for the column to be what comes next; as many rows
# tell it.
SAME, TOLD_BY = 0.99, 20_000


class Context(NamedTuple):
    """An unused column that explains errors of the prediction.

    Attributes:
        gain: of the held-out R² of the errors, by the column's entry on the row before.
        now: the same by its entry on the row itself.
    """

    column: str
    gain: Gain
    now: float


def possible_contexts(origin: Origin, table: pa.Table) -> list[str]:
    """Unused columns that may belong to the observation: neither times nor ids, always there, and not the same in every row."""
    names = [name for name in unused_columns(origin) if name in table.column_names]
    times = possible_times(table, names)
    free = (name for name in names if name not in times and not is_id(name) and _may_be_context(table, name))
    return list(islice(free, CONTEXTS_TRIED))


def with_columns(origin: Origin, table: pa.Table, names: Sequence[str]) -> Transitions | None:
    """The excerpt with more columns behind those of the observation; None where that cannot be."""
    own = origin.roles.observation.columns
    roles = replace(origin.roles, observation=RoleColumns((*own, *names), "several"))
    return transitions(table, roles, {**origin.kinds, **own_kinds(origin, table)}, origin.settings)


def _may_be_context(table: pa.Table, name: str) -> bool:
    kind = basic_type(table.schema.field(name).type)
    if table[name].null_count or not (is_text(kind) or is_number(kind) or pa.types.is_boolean(kind)):
        return False
    levels = len(table[name].unique())
    return levels >= 2 and (is_number(kind) or levels <= 50)


def contexts(errors: Array, sample: Contiguous, columns: Mapping[str, Column]) -> list[Context]:
    """Unused columns that explain errors, best first: known on the row before, and no more by the row itself."""
    at = sample.pairs
    if len(at) < ENOUGH or not float(errors[at].std()) > 0:
        return []
    targets = [(errors[at] / float(errors[at].std()))[:, None]]
    number = renumbered(sample.number[at])
    none = held_out(np.zeros((len(at), 1)), targets, number)
    clear = CLEAR + np.log2(max(1, len(columns)))  # as many are tried
    found = []
    for name, column in columns.items():
        now, before = grouped(taken(column, at)), grouped(taken(column, at - 1))
        gain = Gain.of(none, held_out(before, targets, number), paired=True)
        own = Gain.of(none, held_out(now, targets, number), paired=True)
        if gain.value > EXPLAINS and gain.clear > clear and own.value < FRESH * gain.value:
            found.append(Context(name, gain, own.value))
    return sorted(found, key=lambda one: -one.gain.value)


def are_distinct(numbers: NDArray[np.floating] | NDArray[np.integer]) -> bool:
    """Whether nearly every entry is a whole number of its own."""
    return len(np.unique(numbers)) >= DIFFERENT * len(numbers) and bool((numbers == np.round(numbers)).all())


def is_key(sample: Contiguous, name: str) -> bool:
    """Whether a column of the observation tells rows apart and nothing else.

    Nearly every row has a whole number of its own. It goes one way from row to row; or neither the row before nor the rest of its
    row predicts it, and it adds nothing to what they predict of the reward and of the other columns of the next state.
    """
    rows, at = sample.rows, sample.pairs
    seen = rows.observations
    place = seen.names.index(name)
    column = seen.columns[place]
    if len(at) < ENOUGH or isinstance(column, Categories) or column.ndim > 1 or not are_distinct(column):
        return False
    rises = float(np.mean(column[at] > column[at - 1]))
    if max(rises, 1 - rises) > ONE_WAY:
        return True
    rest, actions = evidence.without(seen, place), rows.actions.take(at)
    number = renumbered(sample.number[at])
    own = Values("lone", (name,), (column[at],))
    before = as_inputs([seen.take(at - 1)], rows.actions.take(at - 1))
    known = as_inputs([rest.take(at)] if rest.columns else [actions], actions)
    nothing = np.zeros((len(at), 1))
    ranks = np.argsort(np.argsort(column[at])).astype(np.float64) / len(at)
    itself = [ranks[:, None], grouped(column[at])]
    if _explains(nothing, np.concatenate([before, known], axis=1), itself, number):
        return False
    then = evidence.without(rows.next_observations, place).take(at)
    targets = as_targets(then) if then.columns else []
    spread = float(rows.rewards[at].std())
    if spread > 0:
        targets.append((rows.rewards[at] / spread)[:, None])
    return not targets or not _explains(
        known, np.concatenate([known, as_inputs([own], actions)], axis=1), targets, number
    )


def _explains(less: Array, more: Array, targets: Sequence[Array], number: NDArray[np.int64]) -> bool:
    """Whether more inputs clearly predict any of the targets better."""
    before, after = held_out(less, targets, number), held_out(more, targets, number)
    clear = CLEAR + np.log2(len(targets))
    single = np.eye(len(targets), dtype=np.bool_)
    return any(Gain.of(before.of(one), after.of(one), paired=True).clear > clear for one in single)


class Sentinel(NamedTuple):
    """A number that may stand for missing entries: in how many rows it is, and the ends of all others."""

    value: float
    rows: int
    low: float
    high: float


def sentinel(column: pa.ChunkedArray) -> Sentinel | None:
    """The lowest or highest number, where it repeats in few rows and is farther from all others than these are apart."""
    numbers = column.drop_null().cast(pa.float64(), safe=False).to_numpy()
    values, counts = np.unique(numbers[np.isfinite(numbers)], return_counts=True)
    if len(values) < 3:
        return None
    for end, low, high, gap in (
        (0, values[1], values[-1], values[1] - values[0]),
        (-1, values[0], values[-2], values[-1] - values[-2]),
    ):
        if FEWEST <= counts[end] <= FEW * len(numbers) and gap > high - low:
            return Sentinel(float(values[end]), int(counts[end]), float(low), float(high))
    return None


def known_before(names: Sequence[str], order: Sequence[str], action: str) -> list[str]:
    """Columns of an observation that a file has before its action; all, where it has none there and their order tells nothing."""
    place = {name: number for number, name in enumerate(order)}
    known = [name for name in names if place.get(name, -1) < place.get(action, len(order))]
    return known or list(names)


def is_result(sample: Contiguous, name: str, known: Sequence[str], is_behind: bool) -> bool:
    """Whether a column is a result of its row: made by the action, or fresh and yet a part of the reward.

    It is compared with what is `known` before, and not with other results, which may tell the same. Where it stands behind
    another result (`is_behind`), any clear effect will do.
    """
    rows, at = sample.rows, sample.pairs
    values = rows.observations
    places = [values.names.index(other) for other in known]
    rest = replace(values, names=tuple(known), columns=tuple(values.columns[place] for place in places))
    place = values.names.index(name)
    column = values.columns[place]
    if evidence.made_by_action(sample, place) is not None:
        return True
    number = renumbered(sample.number[at])

    def gain(targets: Sequence[Array], without: Array, more: Array) -> Gain:
        both = np.concatenate([without, more], axis=1)
        return Gain.of(held_out(without, targets, number), held_out(both, targets, number), paired=True)

    own = grouped(taken(column, at))
    if float(own.std(axis=0).max(initial=0.0)) > 0:
        before = as_inputs([values.take(at - 1)], rows.actions.take(at - 1))
        context = np.concatenate([before, as_inputs([rest.take(at)], rest.take(at))], axis=1)
        by_action = gain([own], context, as_inputs([rest.take(at)], rows.actions.take(at)))
        if by_action.before < 0.5 and by_action.value > (0 if is_behind else MADE) and by_action.clear > CLEAR:
            return True
    spread = float(rows.rewards[at].std())
    if not spread > 0:
        return False
    targets = [(rows.rewards[at] / spread)[:, None]]
    without = as_inputs([rest.take(at)], rows.actions.take(at))
    now = gain(targets, without, own)
    if not (now.clear > CLEAR if is_behind else evidence.explains(now)):
        return False
    return now.value > FRESH * gain(targets, without, grouped(taken(column, at - 1))).value


def what_comes_next(log: Transitions | Block, name: str) -> str | None:
    """The column of the observation whose entry on the next row a column holds; None: there is none."""
    some = np.arange(min(len(log), TOLD_BY))
    seen, after = log.observations.take(some), log.next_observations.take(some)
    own = seen.columns[seen.names.index(name)]
    if len(np.unique(own.codes if isinstance(own, Categories) else own)) <= 2:
        return None
    for other, then in zip(after.names, after.columns):
        if other == name or isinstance(own, Categories) != isinstance(then, Categories):
            continue
        mine, theirs = (one.labels() if isinstance(one, Categories) else one for one in (own, then))
        if mine.shape == theirs.shape and float(np.mean(mine == theirs)) > SAME:
            return other
    return None


def may_be_result(sample: Contiguous, name: str, known: Sequence[str], is_behind_action: bool) -> bool:
    """Whether little speaks for a column as a result of its row where it stands behind the action, or much where it does not."""
    if is_behind_action:
        return is_result(sample, name, known, is_behind=True)
    return evidence.made_by_action(sample, sample.rows.observations.names.index(name)) is not None
