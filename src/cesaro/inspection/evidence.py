"""Evidence on how a log was described: do rows follow each other, does the reward stand on its own row, are labels numbers?

Every question is put as a comparison of two predictions on rows that were held out. Prediction that fails is no
evidence: states may be independent by nature. A better description shows by what it predicts and the given one does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import bdtrc

from cesaro.checks import Array
from cesaro.data import Block, Log, Transitions
from cesaro.data.columns import basic_type
from cesaro.data.log import Origin
from cesaro.data.roles import Roles, is_chosen
from cesaro.data.settings import Settings
from cesaro.data.sources.arrays import TableSource
from cesaro.data.sources.base import Source
from cesaro.data.transitions import loaded
from cesaro.data.values import Categories, Column, Values
from cesaro.errors import CesaroError
from cesaro.inspection.names import sounds_like_cost
from cesaro.inspection.prediction import (
    ENOUGH,
    ROWS,
    STRETCHES,
    Gain,
    are_many_numbers,
    as_inputs,
    as_numbers,
    as_targets,
    grouped,
    groups,
    held_out,
    stretches,
)
from cesaro.text import visible

# Rows of all columns that are read, at most, and entries; of longer logs in a few contiguous stretches.
EXCERPT, ENTRIES = 50_000, 1 << 21
# A gain of held-out R² that matters, and how many standard errors make it clear.
MATERIAL, CLEAR = 0.1, 5.0
# The reward belongs to the row before if that leaves at most this part of what its own row leaves, or if its own row
# tells less than this part of what the row before tells; then smaller gains count.
REMAINS, NOTHING, SLIGHT = 0.6, 0.2, 0.02
# The own row then adds no more than this part of what is explained and of what is left, nor does a row still farther away: where
# rewards are sluggish, every row before adds something.
ADDS, OLDER = 0.2, 0.1
# Standard deviations by which the spread of rare rows over stretches exceeds that of a steady system once in two thousand logs.
UNEVEN = 4.0
# Rare rows come with some group of rows if so many of them would be there by chance in fewer logs than this part. Those of fewer
# stretches tell nothing.
BY_CHANCE, FEWEST = 0.01, 3
# Factors of wrong units and misplaced decimal points; one is possible only where there are this many times as many rows that it
# would show in, because errors are seldom.
FACTORS, PLENTY = (100.0, 1_000.0), 10
# A column is made by the action of its row if what was known before tells less than the first part of it, and the action adds the
# second to what is known of its groups, or tells the third of its numbers: one that a policy acts by may be told by half. One of
# which the action alone tells less than the last part is not looked at any further. Whatever was known before, a column of more
# levels than there are actions is made by them if they tell the third part of what was left: those of a policy that acts by it
# cannot.
KNOWN, MADE, DETERMINED, HINT = 0.5, 0.3, 0.9, 0.05
# A log of at most so many labels of actions should have each of them more than once.
FEW_LEVELS = 30
# Of costs that were written as rewards, at most this part of the entries is above zero.
ABOVE_ZERO = 0.02


def is_material(gain: Gain, tried: int = 1) -> bool:
    """Whether one prediction explains clearly more than another, and so much that it matters."""
    return gain.value > MATERIAL and gain.clear > CLEAR + np.log2(tried)


def are_costs(name: str, entries: Array) -> bool:
    """Whether less of a column is better: by its name it is a cost, and its entries are not written as negative rewards."""
    return sounds_like_cost(name) and float((entries > 0).mean()) > ABOVE_ZERO


def unused_columns(origin: Origin) -> list[str]:
    """Columns without a role, in the order of the file; what the action was before bounds cut it tells nothing more."""
    used, names = set(origin.roles.columns()), origin.source.names
    return [name for name in names if name not in used and not is_chosen(name, names)]


def looked_at(source: Source) -> int:
    """The most rows that are read of all columns of a source."""
    return max(ENOUGH, min(EXCERPT, ENTRIES // len(source.names)))


def excerpt(origin: Origin) -> pa.Table | None:
    """All columns of some rows; None where they cannot be read."""
    try:
        return origin.source.excerpt(looked_at(origin.source))
    except (CesaroError, pa.ArrowException, OSError, ValueError):
        return None


def explains(gain: Gain) -> bool:
    """Whether one prediction clearly explains a part of what another one leaves that matters."""
    return gain.value > MATERIAL * (1 - gain.before) and gain.clear > CLEAR


def transitions(table: pa.Table, roles: Roles, kinds: Mapping[str, str], settings: Settings) -> Transitions | None:
    """The transitions of a table; None where roles, kinds and settings do not fit it."""
    try:
        return loaded(Origin(TableSource("excerpt", table), roles, kinds, settings))
    except CesaroError:
        return None


@dataclass(frozen=True)
class RewardLag:
    """Whether rewards stand one row too late, or too early.

    Attributes:
        gain: of the held-out R² of the reward or of its rank, whichever is clearer, given the row before (with a lag: the row
            behind) in place of its own.
        with_own: the R² given both; None where the gain is too small to ask.
        with_older: the R² given the row before and a row still farther away, likewise.
        is_of_rank: whether all this is about the rank.
    """

    gain: Gain
    with_own: float | None = None
    with_older: float | None = None
    is_of_rank: bool = False

    @property
    def is_sluggish(self) -> bool:
        """Whether rows farther away tell still more."""
        return self._adds(self.with_older, OLDER)

    @property
    def is_material(self) -> bool:
        least = SLIGHT if self._own_tells_nothing else MATERIAL
        return self.gain.value > least and self.gain.clear > CLEAR and not self.is_sluggish

    @property
    def is_clear(self) -> bool:
        less = 1 - self.gain.after < REMAINS * (1 - self.gain.before)
        return self.is_material and (less or self._own_tells_nothing) and not self._adds(self.with_own, ADDS)

    @property
    def _own_tells_nothing(self) -> bool:
        return self.gain.before < NOTHING * self.gain.after

    def _adds(self, together: float | None, part: float) -> bool:
        if together is None:
            return False
        more = together - self.gain.after
        return more > part * (1 - self.gain.after) or more > ADDS * self.gain.after


class Contiguous(NamedTuple):
    """Rows of a log in contiguous stretches; `number`: that of each, `[n]`."""

    rows: Block
    number: NDArray[np.int64]

    @property
    def pairs(self) -> NDArray[np.int64]:
        """Rows that go on from the row before."""
        same = np.append(False, self.number[1:] == self.number[:-1])
        return np.flatnonzero(self.rows.follows & same)


def contiguous(log: Log, random_state: int) -> Contiguous:
    """Some thousand rows of a log."""
    chosen = stretches(len(log), random_state)
    return Contiguous(log.part(chosen.rows), chosen.number)


def reward_lag(sample: Contiguous, lag: int) -> RewardLag | None:
    """The reward from its own (s, a, s') against that of the row before, or of the row behind where a lag was given."""
    rows = sample.rows
    late = sample.pairs
    late = late[np.isin(late - 1, late)]  # two rows stand before it
    own, other, older = (late - 2, late - 1, late) if lag else (late, late - 1, late - 2)
    if len(own) < ENOUGH:
        return None
    spread = float(rows.rewards[own].std())
    if not spread > 0:
        return None
    rewards = rows.rewards[own] / spread
    low, high = np.quantile(rewards, (0.001, 0.999))
    sizes = np.clip(rewards, low, high) if high > low else rewards
    # Rare events may hide all other rewards, which their ranks show.
    _, place, counts = np.unique(rewards, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2)[place] / len(rewards)
    targets = [sizes[:, None], ranks[:, None]]
    number = renumbered(sample.number[own])
    inputs = [_row_inputs(rows.part(at)) for at in (own, other)]
    by_own, by_other = (held_out(one, targets, number) for one in inputs)
    single = np.eye(len(targets), dtype=np.bool_)
    gains = [Gain.of(by_own.of(one), by_other.of(one), paired=True) for one in single]
    best = max(range(len(gains)), key=lambda place: gains[place].clear)
    gain = gains[best]
    if gain.value <= SLIGHT or gain.clear <= CLEAR:
        return RewardLag(gains[0])
    with_own, with_older = (
        held_out(np.concatenate([inputs[1], more], axis=1), [targets[best]], number).explained
        for more in (inputs[0], _row_inputs(rows.part(older)))
    )
    return RewardLag(gain, with_own, with_older, best == 1)


def are_events(rows: Block, rare: NDArray[np.bool_]) -> bool:
    """Whether rare rewards are events of the system: they come all along the log, and with certain states or actions.

    Errors of an export come in batches, or strike rows whatever happened in them; a wrong unit, which shows only where there was
    a reward, strikes any of the rows that it would show in. Every stretch counts once, because its rare rows may have one cause.
    """
    number = np.arange(len(rows)) * STRETCHES // len(rows)
    expected = np.bincount(number, minlength=STRETCHES) * rare.mean()
    spread = float(((np.bincount(number[rare], minlength=STRETCHES) - expected) ** 2 / expected).sum())
    if spread - (STRETCHES - 1) > UNEVEN * np.sqrt(2 * (STRETCHES - 1)):
        return False
    size, plenty = np.abs(rows.rewards), PLENTY * rare.sum()
    by_unit = (~rare & (factor * size >= size[rare].min()) for factor in FACTORS)
    struck = [~rare, *(others for others in by_unit if others.sum() > plenty)]
    usual = np.flatnonzero(~rare)
    at = np.sort(np.concatenate([np.flatnonzero(rare), usual[:: -(-len(usual) // ROWS)]]))
    part = rows.part(at)
    columns = [
        flags for values in (part.observations, part.actions, part.next_observations) for flags in groups(values)
    ]
    return all(_concentrate(columns, rare[at], others[at], number[at]) for others in struck)


def _concentrate(
    columns: Sequence[Array], rare: NDArray[np.bool_], others: NDArray[np.bool_], number: NDArray[np.int64]
) -> bool:
    """Whether some group of some column has more of the rare rows than of the others in the same stretches."""
    first = np.flatnonzero(rare)[np.unique(number[rare], return_index=True)[1]]
    sizes = np.bincount(number[others], minlength=STRETCHES)
    first = first[sizes[number[first]] > 0]
    if len(first) < FEWEST:
        return False
    chances = []
    for flags in columns:
        counts = np.stack([np.bincount(number[others], weights=flag[others], minlength=STRETCHES) for flag in flags.T])
        shares = (counts / np.maximum(sizes, 1))[:, number[first]].mean(axis=1)
        chances.append(bdtrc(flags[first].sum(axis=0) - 1, len(first), shares))
    every = np.concatenate(chances)
    return bool(every.min() * len(every) < BY_CHANCE)


def _row_inputs(rows: Block) -> Array:
    return as_inputs([rows.observations, rows.next_observations], rows.actions)


def renumbered(number: NDArray[np.int64]) -> NDArray[np.int64]:
    """Stretches counted without holes, so that every other one can be held out."""
    return np.unique(number, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True)
class Readings:
    """An action of whole numbers as labels, and as a number.

    Attributes:
        levels: how many labels there are.
        gain: of the held-out R² of reward and next state by labels, over that by the number.
    """

    levels: int
    gain: Gain

    @property
    def are_labels(self) -> bool:
        """Whether what happens differs between labels in a way that no smooth function of the number has."""
        return self.gain.value > 0.01 and self.gain.clear > CLEAR


def action_readings(sample: Contiguous) -> Readings | None:
    """Both readings of one action column of more than a few whole numbers; None where it is none."""
    rows = sample.rows
    column = rows.actions.columns[0]
    if len(rows.actions.columns) != 1 or not isinstance(column, Categories):
        return None
    if not are_many_numbers(column) or len(rows) < ENOUGH:
        return None
    spread = float(rows.rewards.std())
    targets = as_targets(as_numbers(rows.next_observations))
    if spread > 0:
        targets.append(((rows.rewards - rows.rewards.mean()) / spread)[:, None])
    if not targets:
        return None
    number = renumbered(sample.number)
    by_number, by_labels = (
        held_out(as_inputs([as_numbers(rows.observations)], actions), targets, number)
        for actions in (as_numbers(rows.actions), rows.actions)
    )
    return Readings(len(np.unique(column.codes)), Gain.of(by_number, by_labels, paired=True))


def own_kinds(origin: Origin, table: pa.Table) -> dict[str, str]:
    """Whole numbers that were labels by themselves stay labels beside other columns."""
    own = origin.roles.observation
    if len(own.columns) > 1 or own.columns[0] in origin.kinds or own.how == "prefixed":
        return {}
    return (
        {own.columns[0]: "category"} if pa.types.is_integer(basic_type(table.schema.field(own.columns[0]).type)) else {}
    )


def made_by_action(sample: Contiguous, place: int) -> float | None:
    """How well a row's action predicts a column of its own observation; None: the column is no result of the action."""
    rows, at = sample.rows, sample.pairs
    seen, column = rows.observations, rows.observations.columns[place]
    if len(at) < ENOUGH or not (isinstance(column, Categories) or column.ndim == 1):
        return None
    rest, actions, own = without(seen, place).take(at), rows.actions.take(at), taken(column, at)
    number = renumbered(sample.number[at])
    groups, numbers = grouped(own), as_targets(Values("lone", (seen.names[place],), (own,)))
    if not numbers:
        return None
    targets = [groups, *numbers]
    alone = held_out(as_inputs([actions], actions), targets, number)
    if 1 - alone.by_column.min() < HINT:
        return None
    known = as_inputs([seen.take(at - 1)], rows.actions.take(at - 1))
    more = as_inputs([rest if rest.columns else actions], actions)
    if rest.columns:
        known = np.concatenate([known, as_inputs([rest], rest)], axis=1)
    before, after = held_out(known, targets, number), held_out(np.concatenate([known, more], axis=1), targets, number)
    is_finer = actions.is_discrete and len(np.unique(numbers[0])) > len(actions.joint().levels)
    for chosen in (0, 1):
        of = np.arange(2) == chosen
        gain = Gain.of(before.of(of), after.of(of), paired=True)
        is_made = gain.before < KNOWN and (gain.value > MADE if chosen == 0 else gain.after > DETERMINED)
        is_told = chosen == 1 and is_finer and 1 - gain.after < (1 - DETERMINED) * (1 - gain.before)
        if gain.clear > CLEAR and (is_made or is_told):
            return gain.after
    return None


def without(values: Values, place: int) -> Values:
    """All columns but one."""
    kept = [number for number in range(len(values.columns)) if number != place]
    return replace(
        values,
        names=tuple(values.names[number] for number in kept),
        columns=tuple(values.columns[number] for number in kept),
    )


def taken(column: Column, at: NDArray[np.int64]) -> Column:
    """Some rows of a column."""
    return Categories(column.codes[at], column.levels) if isinstance(column, Categories) else column[at]


def odd_labels(actions: Values) -> list[str]:
    """Sentences on labels of text that are most likely typing errors: those that differ only in case or blanks, and rare ones."""
    column = actions.columns[0]
    if len(actions.columns) != 1 or not isinstance(column, Categories) or column.levels.dtype.kind != "O":
        return []
    counts = dict(zip(column.levels.tolist(), np.bincount(column.codes, minlength=len(column.levels)).tolist()))
    alike: dict[str, list[str]] = {}
    for label in (label for label in counts if isinstance(label, str)):
        alike.setdefault("".join(label.split()).casefold(), []).append(label)
    said, name = [], visible(actions.names[0])
    for labels in (labels for labels in alike.values() if len(labels) > 1):
        shown = " and ".join(
            f"{label!r} ({counts[label]:,} {'row' if counts[label] == 1 else 'rows'})" for label in labels
        )
        said.append(
            f'The labels {shown} of the action "{name}" differ only in case or blanks and count as different actions; write them '
            "in one way."
        )
    once = [label for labels in alike.values() if len(labels) == 1 for label in labels if counts[label] == 1]
    if once and len(column.codes) >= ENOUGH and len(counts) <= FEW_LEVELS:
        shown = ", ".join(map(repr, once[:3])) + (", …" if len(once) > 3 else "")
        said.append(
            f'The action "{name}" is {shown} in a single row{" each" if len(once) > 1 else ""}, of which nothing can be learned; '
            "correct the label if it is a typing error, or remove the row."
        )
    return said
