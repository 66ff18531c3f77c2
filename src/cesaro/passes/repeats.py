"""Rows that return: within a log that holds them more than once, or in another log.

Every row has a number that depends on nothing but its entries (`hashed`). It tells which rows a network was fitted on, wherever
those rows return (`row_hashes`, `overlap`), and which rows a log holds more than once (`Repeats`): runs of rows that repeat where
chance does not explain it. `mix` alone gives random signs (`standard_errors.py`).

States and actions with few values repeat by nature, also several in a row. How long such runs are is seen at rows of the same
trajectory a short way apart, which are no copies of each other: runs of twice the length that never repeats there repeat
elsewhere because they were copied. Single rows are told as copies where no rows a short way apart are equal, or where equal
rewards are found at equal rows alone, although rows that are alike otherwise hardly ever have equal rewards.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.data import Block, Log
from cesaro.data.values import Categories, Values

Hashes = NDArray[np.uint64]

# Odd numbers without pattern, and where the upper bits of a product are folded into the lower ones.
FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
ROUNDS = ((FIRST, np.uint64(32)), (SECOND, np.uint64(29)))
# Rows at a time: a column and what is mixed with it stay near the cache, and threads seldom wait for the interpreter.
CHUNK = 65_536
# Numbers of a table whose bits are looked at together: 8 MiB of them.
TOGETHER = 2**20
# Hashes that are kept of one log.
MOST_HASHES = 1 << 20


def row_hashes(log: Log) -> Hashes:
    """Hashes of each row's observation, action, reward and next observation, sorted; labels count by their number.

    Of a log with more than a million rows only the smallest hashes are kept, about a million: which rows these are depends on
    nothing but themselves, so that two logs can be compared.
    """
    share = MOST_HASHES / max(len(log), MOST_HASHES)
    limit = np.uint64(share * 2.0**64) if share < 1 else None
    found: list[Hashes] = []
    for block in log.blocks():
        hashes = hashed(block)
        found.append(hashes if limit is None else hashes[hashes < limit])
    result = np.concatenate(found)
    result.sort()
    return result


def hashed(rows: Block, rewards: bool = True) -> Hashes:
    """One number for each row, in their order; `rewards`: whether these count. Files of fitted networks hold such numbers."""
    counted = [rows.rewards] if rewards else []
    parts: list[Values | NDArray[Any]] = [rows.observations, rows.actions, *counted, rows.next_observations]
    return _mixed(np.zeros(len(rows), np.uint64), parts)


def _hashed_once(rows: Block) -> Hashes:
    """Another number for each row: the bits of its entries, each times a number without pattern, added up and mixed at the end.

    It takes a third of the steps of `hashed`, and no file holds these numbers. Where a next state is the state of the row below,
    in the same memory, its sum is not made again.
    """
    here = _weighed(rows.observations, 0)
    below, last = slice(1, None), slice(len(rows) - 1, None)
    if rows.observations.take(below).is_in_memory_of(rows.next_observations.take(slice(0, -1))):
        there = np.append(here[1:], _weighed(rows.next_observations.take(last), 0))
    else:
        there = _weighed(rows.next_observations, 0)
    there *= SECOND  # or a row that stays where it is would be like every other that does
    here += there
    here += _weighed(rows.actions, 1)
    here += _weighed(rows.rewards, 2)
    for factor, shift in ROUNDS:
        here *= factor
        here ^= np.right_shift(here, shift, out=there)
    return here


def _weighed(values: Values | NDArray[Any], place: int) -> Hashes:
    """The sum of the bits of each row's numbers, times factors that belong to a place.

    Many columns of a table at once: every step needs Python's interpreter for a moment, and other threads wait for it.
    """
    found: Hashes | None = None
    before = 0
    for table in _tables(values):
        together = max(1, TOGETHER // max(1, table.shape[1]))
        for first in range(0, len(table), together):
            words = _bits(table[first : first + together])
            words *= _factors(place, before + len(words))[before:, None]
            before += len(words)
            sums = words[0] if len(words) == 1 else np.add.reduce(words, axis=0)
            found = sums if found is None else np.add(found, sums, out=found)
    assert found is not None
    return found


def _tables(values: Values | NDArray[Any]) -> list[NDArray[Any]]:
    """The numbers of all rows, `[columns, n]` each; of labels their codes."""
    columns = values.columns if isinstance(values, Values) else (values,)
    arrays = (column.codes if isinstance(column, Categories) else column for column in columns)
    return [array.T if array.ndim == 2 else array[None] for array in arrays]


def _bits(numbers: NDArray[Any]) -> Hashes:
    """A copy of their bits, whose lower half tells numbers with few digits apart, too."""
    if numbers.dtype.kind != "f":
        return numbers.astype(np.uint64, order="C")
    numbers = np.add(numbers, numbers.dtype.type(0), order="C")  # zero has two signs, and one hash
    if numbers.itemsize < 8:
        return numbers.view(f"u{numbers.itemsize}").astype(np.uint64)
    words = numbers.astype(np.float64, copy=False).view(np.uint64)
    words ^= words >> np.uint64(32)
    return words


@lru_cache(100)
def _factors(place: int, count: int) -> Hashes:
    """Odd numbers without pattern; fewer of them are the first of more."""
    return np.random.default_rng([17, place]).integers(0, 2**64, count, np.uint64) | np.uint64(1)


def _mixed(state: Hashes, parts: Sequence[Values | NDArray[Any]]) -> Hashes:
    """The numbers of rows, mixed in place with every column of these parts of them."""
    spare = np.empty((2, min(CHUNK, len(state))), np.uint64)
    for start in range(0, len(state), CHUNK):
        chunk = slice(start, start + CHUNK)
        some = state[chunk]
        words, shifted = spare[:, : len(some)]
        for part in parts:
            for column in _columns(part.take(chunk)) if isinstance(part, Values) else [part[chunk]]:
                if column.dtype.kind == "f":  # zero has two signs, and one hash
                    np.add(column, 0.0, out=words.view(np.float64))
                else:
                    np.copyto(words, column, casting="unsafe")
                mix(some, words, shifted)
    return state


def mix(state: Hashes, words: Hashes, shifted: Hashes | None = None) -> None:
    """Mix what was hashed so far with what comes next, in place: fresh memory would take longer than the mixing.

    `shifted`: memory of the same size, for what is in between.
    """
    state ^= words
    for factor, shift in ROUNDS:
        state *= factor
        state ^= np.right_shift(state, shift, out=shifted)


def mix_runs(runs: Hashes, half: int) -> Hashes:
    """From hashes of runs of `half` rows to those of runs twice as long, in the same memory.

    That of a run is a polynomial of the hashes of its rows, which are mixed well already.
    """
    size, power = len(runs) - half, np.uint64(pow(int(SECOND), half, 2**64))
    spare = np.empty(min(CHUNK, size), np.uint64)
    for start in range(0, size, CHUNK):
        stop = min(start + CHUNK, size)
        later = np.multiply(runs[start + half : stop + half], power, out=spare[: stop - start])
        runs[start:stop] += later
    return runs[:size]


def distinct(hashes: Hashes) -> Hashes:
    """Each once; they are sorted."""
    return hashes[np.concatenate([[True], hashes[1:] != hashes[:-1]])]


def overlap(hashes: Hashes, known: Hashes) -> float:
    """The share of rows that are among those known, as far as both logs keep hashes; both are sorted."""
    if not len(known) or not len(hashes):
        return 0.0
    compared = hashes
    if (
        float(known[-1]) < (1 - 64 / len(known)) * 2.0**64
    ):  # larger ones were left out: the last of all hashes is hardly so small
        compared = hashes[: np.searchsorted(hashes, known[-1], side="right")]
    if not len(compared):
        return 0.0
    places = np.minimum(np.searchsorted(known, compared), len(known) - 1)
    return float(np.mean(known[places] == compared))


def _columns(values: Values) -> list[NDArray[Any]]:
    """The numbers of every row, column by column; of labels their codes."""
    found: list[NDArray[Any]] = []
    for column in values.columns:
        if isinstance(column, Categories):
            found.append(column.codes)
        else:
            found.extend(column.T if column.ndim == 2 else column[None])
    return found


# Rows of the runs that are looked at, each twice the one before.
RUNS = tuple(2**power for power in range(9))
# How far apart rows are compared that are no copies; nearer ones may be the same row, written twice.
APART = np.unique(np.geomspace(8, 256, 32).round()).astype(np.int64)
# Rows of a block that are compared so, for runs of several rows.
COMPARED = 8_192
# Trajectories that are compared with those after them: many start alike.
STARTS = 4
# Hashes of runs that are kept, for each length.
MOST = 1 << 17
# Rows that repeat where rows a short way apart do not, although chance treats all alike: as often as this once in 3,000 logs.
UNLIKELY = 8.0
# So few repeated numbers are compared where they are; of more, all numbers are.
FEW = 32
# Rewards tell a row: of pairs with equal rewards so many are equal rows, and of pairs that are alike otherwise so few.
TELLING, OTHERWISE = 0.95, 0.05


@dataclass
class Repeats:
    """Counts of repeated rows so far, by the length of runs.

    Attributes:
        compared, equal: pairs of runs a short way apart, and how many of them are equal, `[lengths]`.
        alike: of pairs of rows a short way apart, how many are equal; have equal rewards; are equal but for rewards.
        kept: hashes of runs, for each length, block by block; of a long log the smallest, so that copies are kept together.
    """

    compared: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(RUNS), dtype=np.int64))
    equal: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(RUNS), dtype=np.int64))
    alike: NDArray[np.int64] = field(default_factory=lambda: np.zeros(3, dtype=np.int64))
    kept: list[list[Hashes]] = field(default_factory=lambda: [[np.zeros(0, np.uint64)] for _ in RUNS])

    @staticmethod
    def of(block: Block, rows: int) -> "Repeats":
        """The counts of the runs within one block of a log with so many rows."""
        found, size = Repeats(), len(block)
        limit = None if rows <= MOST else np.uint64(MOST / rows * 2.0**64)
        group = np.zeros(size, dtype=np.int64) if block.trajectory is None else block.trajectory
        runs = _hashed_once(block)
        borders = np.flatnonzero(group[1:] != group[:-1]) + 1
        some_equal = True
        for level, length in enumerate(RUNS):
            if length > size:
                break
            if level:
                runs = mix_runs(runs, length // 2)
            found.kept[level] = [_kept(runs, limit, group if len(borders) else None, length)]
            # Where no runs of half the length are equal, none of these are.
            found.compared[level], found.equal[level] = _equal(
                runs[:COMPARED] if level else runs, group, borders, length, some_equal
            )
            some_equal = found.equal[level] > 0
            if not level:
                found.alike = _alike(block.part(slice(0, COMPARED)), runs[:COMPARED], group, borders, some_equal)
            if len(borders):
                found.equal[level] += _equal_starts(runs, borders, length)
        return found

    def add(self, other: "Repeats") -> None:
        """Count in the rows that follow."""
        self.compared, self.equal = self.compared + other.compared, self.equal + other.equal
        self.alike = self.alike + other.alike
        for mine, theirs in zip(self.kept, other.kept):
            mine.extend(theirs)

    def state(self) -> dict[str, Any]:
        """Plain numbers and arrays, for a checkpoint."""
        return vars(self) | {"kept": [np.concatenate(parts) for parts in self.kept]}

    @staticmethod
    def of_state(state: dict[str, Any]) -> "Repeats":
        """The counts whose `state` this is."""
        return Repeats(**state | {"kept": [[part] for part in state["kept"]]})

    @property
    def share(self) -> float:
        """The part of the rows that copies others; zero where rows repeat by nature."""
        by_chance = np.flatnonzero(self.equal)
        level = int(by_chance[-1]) + 2 if len(by_chance) else 1
        found = self._share(level) if level < len(RUNS) else 0.0
        alone, looked = self._share(0), int(self.compared[0])
        rows, rewards, others = self.alike
        never = not len(by_chance) and 2 * alone * looked >= UNLIKELY * max(1, sum(map(len, self.kept[0])))
        if never or (rows > 0 and rows >= TELLING * rewards and rows <= OTHERWISE * others):
            found = max(found, alone)
        return found

    def _share(self, level: int) -> float:
        kept = np.sort(np.concatenate(self.kept[level]))
        return 1 - len(distinct(kept)) / len(kept) if len(kept) else 0.0


def _kept(runs: Hashes, limit: np.uint64 | None, group: NDArray[np.int64] | None, length: int) -> Hashes:
    """A copy of the hashes of runs that lie in one group each, if there are several, below a limit, if there is one."""
    if limit is None:
        return runs.copy() if group is None else runs[group[: len(runs)] == group[length - 1 :]]
    few = np.flatnonzero(runs < limit)
    return runs[few if group is None else few[group[few] == group[few + (length - 1)]]]


def _equal(
    runs: NDArray[Any], group: NDArray[np.int64], borders: NDArray[np.int64], length: int, look: bool = True
) -> tuple[int, int]:
    """Pairs of runs of one trajectory a short way apart, and how many are equal; none, if it is known and there is no `look`."""
    size = len(runs)
    steps, rows = APART[size > APART], size + length - 1
    edges = np.concatenate([[0], borders[borders < rows], [rows]])
    compared = int(np.maximum((edges[1:] - edges[:-1])[:, None] - (length - 1) - steps, 0).sum())
    # One sort tells sooner than all comparisons whether there is anything to count.
    repeated = _repeated(runs) if look else runs[:0]
    if not len(repeated):
        return compared, 0
    if len(edges) == 2:
        return compared, _count_equal(runs, steps, repeated)
    equal = 0
    for step in steps:
        pairs = size - step
        inside = group[:pairs] == group[step + length - 1 : step + length - 1 + pairs]
        equal += int(np.count_nonzero(inside & (runs[:pairs] == runs[step:])))
    return compared, equal


def _repeated(numbers: NDArray[Any]) -> NDArray[Any]:
    """The numbers that stand there more than once, sorted."""
    ordered = np.sort(numbers)
    return ordered[1:][ordered[1:] == ordered[:-1]]


def _count_equal(numbers: NDArray[Any], steps: NDArray[np.int64], repeated: NDArray[Any]) -> int:
    """The equal ones among all pairs of numbers that are one of the steps apart; `repeated`: those that stand there again."""
    if len(repeated) <= FEW:
        nearest = repeated[np.minimum(np.searchsorted(repeated, numbers), len(repeated) - 1)]
        at = np.flatnonzero(nearest == numbers)
        apart = at[:, None] - at
        return int(np.count_nonzero((numbers[at][:, None] == numbers[at]) & np.isin(apart, steps)))
    equal = np.zeros((len(steps), len(numbers)), np.bool_)
    for row, step in zip(equal, steps):
        np.equal(numbers[:-step], numbers[step:], out=row[step:])
    return int(np.count_nonzero(equal))


def _alike(
    rows: Block, hashes: Hashes, group: NDArray[np.int64], borders: NDArray[np.int64], some_equal: bool
) -> NDArray[np.int64]:
    """Of pairs of rows a short way apart, how many are equal; have equal rewards; are equal but for rewards.

    `some_equal`: whether any rows are equal. Rows that differ in their first column are not hashed again, without rewards.
    """

    def equal(numbers: NDArray[Any], look: bool = True) -> int:
        return _equal(numbers, group, borders, 1, look)[1]

    some_alike = equal(_columns(rows.observations)[0]) > 0
    others = equal(hashed(rows, rewards=False)) if some_alike else 0
    return np.array([equal(hashes, some_equal), equal(rows.rewards), others])


def _equal_starts(runs: Hashes, borders: NDArray[np.int64], length: int) -> int:
    """Neighboring trajectories that start alike and do not end alike, and so are no copies; `borders`: where they start."""
    long = np.diff(borders) >= length
    starts, last = borders[:-1][long], borders[1:][long] - length
    found = 0
    for step in range(1, min(STARTS + 1, len(starts))):
        unlike = runs[last[:-step]] != runs[last[step:]]
        found += int(np.count_nonzero(unlike & (runs[starts[:-step]] == runs[starts[step:]])))
    return found
