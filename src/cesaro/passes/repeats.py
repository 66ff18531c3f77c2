"""Rows that a log holds more than once: runs of rows that repeat where chance does not explain it.

States and actions with few values repeat by nature, also several in a row. How long such runs are is seen at rows of the same
trajectory a short way apart, which are no copies of each other: runs of twice the length that never repeats there repeat
elsewhere because they were copied. Single rows are told as copies where no rows a short way apart are equal, or where equal
rewards are found at equal rows alone, although rows that are alike otherwise hardly ever have equal rewards.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.data import Block
from cesaro.passes.row_hashes import Hashes, distinct, hashed, mix_runs

# Rows of the runs that are looked at, each twice the one before.
RUNS = tuple(2**power for power in range(9))
# How far apart rows are compared that are no copies; nearer ones may be the same row, written twice.
APART = tuple(int(step) for step in np.unique(np.geomspace(8, 256, 32).round()))
# Rows of a block that are compared so, for runs of several rows.
COMPARED = 8_192
# Trajectories that are compared with those after them: many start alike.
STARTS = 4
# Hashes of runs that are kept, for each length.
MOST = 1 << 17
# Rows that repeat where rows a short way apart do not, although chance treats all alike: as often as this once in 3,000 logs.
UNLIKELY = 8.0
# Rewards tell a row: of pairs with equal rewards so many are equal rows, and of pairs that are alike otherwise so few.
TELLING, OTHERWISE = 0.95, 0.05


@dataclass
class Repeats:
    """Counts of repeated rows so far, by the length of runs.

    Attributes:
        compared, equal: pairs of runs a short way apart, and how many of them are equal, `[lengths]`.
        alike: of pairs of rows a short way apart, how many are equal; have equal rewards; are equal but for rewards.
        kept: hashes of runs, for each length; of a long log the smallest, so that copies are kept together.
    """

    compared: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(RUNS), dtype=np.int64))
    equal: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(RUNS), dtype=np.int64))
    alike: NDArray[np.int64] = field(default_factory=lambda: np.zeros(3, dtype=np.int64))
    kept: list[Hashes] = field(default_factory=lambda: [np.zeros(0, np.uint64)] * len(RUNS))

    @staticmethod
    def of(block: Block, rows: int) -> "Repeats":
        """The counts of the runs within one block of a log with so many rows."""
        found, size = Repeats(), len(block)
        limit = None if rows <= MOST else np.uint64(MOST / rows * 2.0**64)
        group = np.zeros(size, dtype=np.int64) if block.trajectory is None else block.trajectory
        runs = hashed(block)
        some = block.part(slice(0, COMPARED))
        parts = (runs[:COMPARED], some.rewards, hashed(some, rewards=False))
        found.alike = np.array([_equal(part, group, 1)[1] for part in parts])
        is_one, some_equal = group[0] == group[-1], True
        for level, length in enumerate(RUNS):
            if length > size:
                break
            if level:
                runs = mix_runs(runs, length // 2)
            mine = np.ones(len(runs), np.bool_) if limit is None else runs < limit
            if not is_one:
                mine &= group[: len(runs)] == group[length - 1 :]
            found.kept[level] = runs[mine]
            # Where no runs of half the length are equal, none of these are.
            found.compared[level], found.equal[level] = _equal(
                runs[:COMPARED] if level else runs, group, length, some_equal
            )
            some_equal = found.equal[level] > 0
            if not is_one:
                found.equal[level] += _equal_starts(runs, group, length)
        return found

    def add(self, other: "Repeats") -> None:
        """Count in the rows that follow."""
        self.compared, self.equal = self.compared + other.compared, self.equal + other.equal
        self.alike = self.alike + other.alike
        self.kept = [np.concatenate(both) for both in zip(self.kept, other.kept)]

    def state(self) -> dict[str, Any]:
        """Plain numbers and arrays, for a checkpoint."""
        return vars(self)

    @property
    def share(self) -> float:
        """The part of the rows that copies others; zero where rows repeat by nature."""
        by_chance = np.flatnonzero(self.equal)
        level = int(by_chance[-1]) + 2 if len(by_chance) else 1
        found = self._share(level) if level < len(RUNS) else 0.0
        alone, looked = self._share(0), int(self.compared[0])
        rows, rewards, others = self.alike
        never = not len(by_chance) and 2 * alone * looked >= UNLIKELY * max(1, len(self.kept[0]))
        if never or (rows > 0 and rows >= TELLING * rewards and rows <= OTHERWISE * others):
            found = max(found, alone)
        return found

    def _share(self, level: int) -> float:
        kept = np.sort(self.kept[level])
        return 1 - len(distinct(kept)) / len(kept) if len(kept) else 0.0


def _equal(runs: NDArray[Any], group: NDArray[np.int64], length: int, look: bool = True) -> tuple[int, int]:
    """Pairs of runs of one trajectory a short way apart, and how many are equal; none, if it is known and there is no `look`."""
    compared = equal = 0
    for step in APART:
        pairs = len(runs) - step
        if pairs <= 0:
            break
        same = runs[:pairs] == runs[step:] if look else np.zeros(1, np.bool_)
        if group[0] == group[len(runs) + length - 2]:
            compared, equal = compared + pairs, equal + int(np.count_nonzero(same))
        else:
            inside = group[:pairs] == group[step + length - 1 : step + length - 1 + pairs]
            compared, equal = compared + int(np.count_nonzero(inside)), equal + int(np.count_nonzero(same & inside))
    return compared, equal


def _equal_starts(runs: Hashes, group: NDArray[np.int64], length: int) -> int:
    """Neighboring trajectories that start alike and do not end alike, and so are no copies of each other."""
    borders = np.flatnonzero(np.diff(group)) + 1
    long = np.diff(borders) >= length
    starts, last = borders[:-1][long], borders[1:][long] - length
    found = 0
    for step in range(1, min(STARTS + 1, len(starts))):
        unlike = runs[last[:-step]] != runs[last[step:]]
        found += int(np.count_nonzero(unlike & (runs[starts[:-step]] == runs[starts[step:]])))
    return found
