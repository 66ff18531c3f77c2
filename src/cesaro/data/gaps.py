"""Gaps in time: a step that is much longer than the usual one of its trajectory cuts it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.data.blocks import Array, Integers
from cesaro.data.continuing import Mask
from cesaro.errors import InputError

DISTINCT = 1 << 20  # different steps that are counted, where a trajectory is too long to be held
_OWN_STEPS = 3  # a trajectory with fewer steps is judged by the median of all
_LONG = 256  # from this length on a partition per run is faster than one sort of all
_STRETCH = 1 << 15  # rows at a time, so that intermediate results stay in the cache


def cuts(time: NDArray[Any] | None, trajectory: NDArray[Any] | None, ends: Mask, gap: float | None) -> Mask:
    """Rows before a gap in time; what counts as one is judged by the steps within episodes of the same trajectory."""
    cut = np.zeros(len(ends), dtype=np.bool_)
    if time is None or gap is None or ends[:-1].all() or _is_regular(time, ends):
        return cut
    at, steps = steps_within(time, ends)
    codes = np.zeros(len(at), dtype=np.int64) if trajectory is None else trajectory[at]
    lengths = _lengths(codes)
    usual = _own_steps(steps, lengths, gap)
    few = np.isnan(usual)
    if few.any():
        usual[few] = _medians(steps, np.array([len(steps)]))
    cut[at] = are_long(steps, np.repeat(usual, lengths), gap)
    return cut


def steps_within(time: NDArray[Any], ends: Mask) -> tuple[Integers, Array]:
    """Rows that do not end an episode, and the time that passes until the next row; `time` may have one entry more."""
    at = np.flatnonzero(~ends[: len(time) - 1])
    return at, _steps(time)[at].astype(np.float64, copy=False)


def are_long(steps: Array, usual: Array | float, gap: float) -> Mask:
    """Steps of more than `gap` times the usual one."""
    with np.errstate(over="ignore"):
        return steps > gap * usual


class UsualSteps:
    """The usual step of every trajectory, from some rows at a time; exact, whatever the length of a trajectory.

    Args:
        gap: how many usual steps cut a trajectory.
        error: made where a trajectory has too many different steps.
    """

    def __init__(self, gap: float, error: Callable[[], InputError]) -> None:
        self._gap, self._error = gap, error
        self._all = _Counted()
        self._open, self._open_code = _Counted(), -1
        self._found: list[tuple[Integers, Array, Array]] = []  # codes, usual steps, longest steps

    def add(self, steps: Array, codes: Integers) -> None:
        """Count steps, given the code of the trajectory of each, which never decreases."""
        if not len(steps):
            return
        self._all.add(steps)
        lengths = _lengths(codes)
        stops = np.cumsum(lengths)
        first = stops[0]
        if codes[0] == self._open_code:
            self._open.add(steps[:first])
            steps, codes, lengths = steps[first:], codes[first:], lengths[1:]
        if not len(lengths):
            return
        self._close()
        last = len(steps) - lengths[-1]
        if last:
            starts = np.cumsum(lengths[:-1]) - lengths[:-1]
            usual = _own_steps(steps[:last], lengths[:-1], self._gap)
            self._found.append((codes[starts], usual, np.maximum.reduceat(steps[:last], starts)))
        self._open, self._open_code = _Counted(), int(codes[-1])
        self._open.add(steps[last:])

    def _close(self) -> None:
        """Note the usual step of the trajectory at hand, which is complete."""
        own = self._open
        if not own.count:
            return
        if own.count < _OWN_STEPS:
            usual = np.nan
        elif not are_long(np.array(own.high), own.low, self._gap):
            usual = own.high
        elif (median := own.median()) is None:
            raise self._error()
        else:
            usual = median
        self._found.append((np.array([self._open_code]), np.array([usual]), np.array([own.high])))

    def finish(self, trajectories: int) -> Array | None:
        """Per trajectory its usual step; None: no trajectory is cut."""
        self._close()
        if not self._found:
            return None
        codes, found, longest = (np.concatenate(parts) for parts in zip(*self._found))
        few = np.isnan(found)
        if few.any():
            median = self._all.median()
            if median is None and are_long(longest[few], self._all.low, self._gap).any():
                raise self._error()
            found[few] = longest[few] if median is None else median
        if not are_long(longest, found, self._gap).any():
            return None
        usual = np.full(trajectories, np.inf)
        usual[codes] = found
        return usual


class _Counted:
    """Different values and how often they occur, up to `DISTINCT` of them."""

    def __init__(self) -> None:
        self.count = 0
        self.low, self.high = np.inf, -np.inf
        self._is_full = False
        self._values, self._counts = np.zeros(0), np.zeros(0, dtype=np.int64)
        self._waiting: list[tuple[Array, Integers]] = []

    def add(self, values: Array) -> None:
        self.count += len(values)
        low, high = float(values.min()), float(values.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        if self._is_full:
            return
        if low == high:
            self._waiting.append((values[:1].copy(), np.array([len(values)])))
        else:
            self._waiting.append(np.unique(values, return_counts=True))
        if sum(len(part) for part, _ in self._waiting) > max(len(self._values), 1 << 12):
            self._unite()

    def _unite(self) -> None:
        parts = [(self._values, self._counts), *self._waiting]
        self._waiting = []
        self._values, place = np.unique(np.concatenate([part for part, _ in parts]), return_inverse=True)
        self._counts = np.zeros(len(self._values), dtype=np.int64)
        np.add.at(self._counts, place, np.concatenate([counts for _, counts in parts]))
        if len(self._values) > DISTINCT:
            self._is_full = True
            self._values, self._counts = np.zeros(0), np.zeros(0, dtype=np.int64)

    def median(self) -> float | None:
        """The median; None: there are too many different values."""
        self._unite()
        if self._is_full:
            return None
        last = np.cumsum(self._counts)
        low, high = self._values[np.searchsorted(last, [(self.count - 1) // 2, self.count // 2], side="right")]
        return float(_between(low, high))


def _lengths(codes: NDArray[Any]) -> Integers:
    """Lengths of the runs of equal codes."""
    return np.diff(np.flatnonzero(codes[1:] != codes[:-1]) + 1, prepend=0, append=len(codes))


def _own_steps(steps: Array, lengths: Integers, gap: float) -> Array:
    """The median step of consecutive trajectories; NaN where one has too few steps.

    A trajectory whose steps differ too little to be cut is given its longest step, which saves the sorting.
    """
    starts = np.cumsum(lengths) - lengths
    usual = np.maximum.reduceat(steps, starts)
    few = lengths < _OWN_STEPS
    uneven = ~few & are_long(usual, np.minimum.reduceat(steps, starts), gap)
    if uneven.any():
        chosen = np.repeat(uneven, lengths)
        usual[uneven] = _medians(steps[chosen], lengths[uneven])
    usual[few] = np.nan
    return usual


def _medians(values: Array, lengths: Integers) -> Array:
    """Medians of consecutive runs of non-negative values."""
    starts = np.cumsum(lengths) - lengths
    if len(values) >= _LONG * len(lengths):
        low, high = np.array([_middle(part) for part in np.split(values, starts[1:])]).T
        return _between(low, high)
    ordered = values[np.lexsort((values, np.repeat(np.arange(len(lengths)), lengths)))]
    return _between(ordered[starts + (lengths - 1) // 2], ordered[starts + lengths // 2])


def _middle(values: Array) -> Array:
    at = [(len(values) - 1) // 2, len(values) // 2]
    return np.partition(values, at)[at]


def _between(low: Any, high: Any) -> Any:
    """The median from the two middle values."""
    with np.errstate(invalid="ignore"):
        return np.where(low == high, low, low + (high - low) / 2)


def _is_regular(time: NDArray[Any], ends: Mask) -> bool:
    """Whether all steps within episodes are alike, so that nothing is cut."""
    first = int(np.argmin(ends[:-1]))
    usual = _steps(time[first : first + 2])[0]
    for start in range(0, len(time) - 1, _STRETCH):
        steps = _steps(time[start : start + _STRETCH + 1])
        if not ((steps == usual) | ends[start : start + len(steps)]).all():
            return False
    return True


def _steps(time: NDArray[Any]) -> NDArray[Any]:
    """Differences of consecutive times; those of int64 as uint64, which holds them all."""
    if time.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.diff(time)
    bits = time.view(np.uint64)
    return bits[1:] - bits[:-1]
