"""Rows of a log that is larger than memory in random order: random row groups that pass through a buffer.

A row group is a random part of one block. Blocks are visited again and again: the log is cut into as many strata of consecutive
blocks as the buffer holds row groups, and one block of every stratum comes after the other. So the buffer holds rows of every
region of the log at any time, also where a log is sorted. Groups enter at one end and leave at the other, so that every row stays
equally long.
"""

import math
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cesaro.data import blocks
from cesaro.data.blocks import Block, Stretch
from cesaro.data.log import Log

# Blocks that the buffer holds rows of, where the log has as many.
REACH = 64
# Renewals after which all rows of the buffer have been replaced.
RENEWALS = 8

Arrays: TypeAlias = tuple[NDArray[Any], ...]


class ShuffleBuffer:
    """Some rows of a log, as arrays, of which the oldest are replaced by others again and again.

    Args:
        log: the log.
        turn: from a row group and the number of the visit to arrays `[n, …]`.
        rows: of the buffer, at most.
        seed: of the order of blocks and of the parts that are taken of them.
        weight: the mean weight of the log's rows; None: all are alike. A row comes in proportion to its weight, as copies.
        reach: blocks that the buffer holds rows of, more where it holds more whole ones; default 64.

    Attributes:
        rows: as many as one row group of every stratum has.
        groups: row groups that the buffer holds.
        parts: row groups that a block is cut into; as many visits take every row once.
        step: rows that a renewal replaces; 0 where the buffer holds the whole log.
    """

    def __init__(
        self,
        log: Log,
        turn: Callable[[Block, int], Arrays],
        *,
        rows: int,
        seed: int,
        weight: float | None = None,
        reach: int | None = None,
    ) -> None:
        self._log, self._turn, self._seed, self._weight = log, turn, seed, weight
        self._stretches = log.stretches
        self._ends = np.cumsum([len(stretch.blocks) for stretch in self._stretches])
        blocks = int(self._ends[-1])
        # Strata have as many blocks as there are rounds, or one less, and fewer of the latter than rounds.
        most = max(REACH if reach is None else reach, rows * blocks // len(log))
        self._rounds = 1 if 2 * blocks <= 3 * most else -(-blocks // most)
        self.groups = -(-blocks // self._rounds)
        held = self.groups * len(log) / blocks
        self.parts = math.ceil(held / rows)
        self.rows, self.step = min(rows, round(held / self.parts)), 0
        if weight is not None or self.rows < len(log):  # all rows stay equally long
            self.step = max(1, self.rows // RENEWALS)
            self.rows = self.step * RENEWALS
        self._bounds = np.arange(self.groups + 1) * blocks // self.groups
        self._strata = np.random.default_rng([seed, 0]).permutation(self.groups)
        self._coming = self._row_groups()
        self._arrays: Arrays = ()
        self._waiting: Arrays = ()  # turned, and not yet in the buffer
        self._taken = 0  # rows that entered the buffer since the beginning

    def after(self, renewals: int) -> Arrays:
        """The rows after so many renewals, in place; the buffer does not go back."""
        end = self.rows + renewals * self.step
        while self._taken < end:
            if not self._waiting:
                group, visit = next(self._coming)
                if self._taken + len(group) <= end - self.rows:  # would leave before it is seen
                    self._taken += len(group)
                    continue
                self._waiting = self._turn(group, visit)
            size = min(len(self._waiting[0]), end - self._taken)
            if not self._arrays:
                self._arrays = tuple(np.empty((self.rows, *part.shape[1:]), part.dtype) for part in self._waiting)
            slots = np.arange(self._taken, self._taken + size) % self.rows
            for array, part in zip(self._arrays, self._waiting):
                array[slots] = part[:size]
            left = size < len(self._waiting[0])
            self._waiting = tuple(part[size:] for part in self._waiting) if left else ()
            self._taken += size
        return self._arrays

    def _row_groups(self) -> Iterator[tuple[Block, int]]:
        """Parts of blocks with the number of the visit, without end."""
        for visit in count():
            for number in self._order(visit):
                for block in self._log.blocks(self._alone(number)):
                    for group in self._parts(block, visit):
                        yield group, visit

    def _order(self, visit: int) -> Iterator[int]:
        """Every block once, in rounds: one of each stratum, in the same order; those with one less pause in different rounds."""
        rng = np.random.default_rng([self._seed, 1, visit])
        pauses = iter(rng.permutation(self._rounds))
        strata = []
        for low, high in pairwise(self._bounds):
            chosen = low + rng.permutation(high - low)
            strata.append(chosen if len(chosen) == self._rounds else np.insert(chosen, next(pauses), -1))
        for numbers in np.stack(strata, axis=1)[:, self._strata]:
            yield from map(int, numbers[numbers >= 0])

    def _alone(self, number: int) -> Stretch:
        """One block of the log, by its number over all stretches."""
        at = int(np.searchsorted(self._ends, number, side="right"))
        stretch = self._stretches[at]
        place = len(stretch.blocks) - (int(self._ends[at]) - number)
        return stretch._replace(blocks=stretch.blocks[place : place + 1])

    def _parts(self, block: Block, visit: int) -> Iterator[Block]:
        """The rows of a block that one visit takes; as many visits as there are parts take each row once.

        They come together, unless weights make so many copies that these would take more memory than a block or the buffer.
        """
        rng = np.random.default_rng([self._seed, 2, *block.key, visit // self.parts])
        shuffled, first = rng.permutation(len(block)), int(rng.integers(self.parts))
        chosen = np.sort(shuffled[(first + visit) % self.parts :: self.parts])
        if block.weights is None or self._weight is None:
            if len(chosen):
                yield block.part(chosen)
            return
        copies = np.floor(block.weights[chosen] / self._weight + rng.random(len(chosen)))
        ends = np.cumsum(copies.astype(np.int64))
        total, most = int(ends[-1]) if len(ends) else 0, min(self.rows, blocks.BLOCK_ROWS)
        for start in range(0, total, most):
            places = np.arange(start, min(start + most, total))
            yield block.part(chosen[np.searchsorted(ends, places, side="right")])
