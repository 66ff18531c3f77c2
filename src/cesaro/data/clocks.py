"""Columns that advance by themselves, whatever anybody does, as the hour of the day does."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array

# A column with at most so many values may advance by itself.
MOST_LEVELS = 400
# So many of its steps must be the same from the same value; resets in between are jumps.
REGULAR = 0.98


@dataclass(frozen=True)
class Clock:
    """A column whose next value depends on its value alone.

    Attributes:
        levels: its values, sorted.
        following: which of them comes next.
    """

    levels: Array
    following: NDArray[np.int64]

    @staticmethod
    def of(now: NDArray[np.floating], then: NDArray[np.floating]) -> "Clock | None":
        """How a column advances; None if it does not do so by itself."""
        levels, at = np.unique(now, return_inverse=True)
        if not 1 < len(levels) <= MOST_LEVELS or len(now) < 10 * len(levels):
            return None
        to = np.minimum(np.searchsorted(levels, then), len(levels) - 1)
        counts = np.zeros((len(levels), len(levels)), np.int64)
        np.add.at(counts, (at, to), levels[to] == then)
        following = counts.argmax(axis=1)
        regular = counts[np.arange(len(levels)), following].sum()
        if regular < REGULAR * len(now):
            return None
        round_trip = _round_trip(following, int(np.bincount(at).argmax()))
        if np.isin(at, round_trip).mean() >= REGULAR:  # what else there is are odd values, such as an hour of 24
            levels, following = levels[round_trip], np.searchsorted(round_trip, following[round_trip])
        return Clock(levels, following) if (following != np.arange(len(levels))).all() else None

    def place(self, values: NDArray[np.floating]) -> NDArray[np.int64]:
        """Which level each value is nearest to."""
        return np.searchsorted((self.levels[1:] + self.levels[:-1]) / 2, values)

    def next(self, values: NDArray[np.floating]) -> Array:
        return self.levels[self.following[self.place(values)]]

    @cached_property
    def is_cycle(self) -> bool:
        """Whether it comes round to every value."""
        return len(_round_trip(self.following, 0)) == len(self.levels)

    @cached_property
    def _angles(self) -> Array:
        """Where on the circle every level is, `[levels]`."""
        order = np.empty(len(self.levels), np.int64)
        place = 0
        for number in range(len(order)):
            order[place] = number
            place = int(self.following[place])
        return 2 * np.pi * order / len(order)

    def waves(self, values: NDArray[np.floating], times: int = 1) -> Array:
        """Where on its circle each value is, as sines and cosines of once around to so many times, `[n, 2 · times]`."""
        table = [wave(k * self._angles) for k in range(1, times + 1) for wave in (np.sin, np.cos)]
        return np.stack(table, axis=1)[self.place(values)]


def _round_trip(following: NDArray[np.int64], place: int) -> NDArray[np.int64]:
    """The places, sorted, that come round for ever from this one on."""
    for _ in range(len(following)):  # by then it is one of them
        place = int(following[place])
    found, first = [place], place
    while (place := int(following[place])) != first:
        found.append(place)
    return np.sort(np.array(found, np.int64))
