"""From rows to transitions of one continuing process: order, pieces, successors.

Everything here works on row numbers, flags, ids and times as arrays, of the whole log or of some of its rows; observations
are never touched.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cesaro.data.blocks import Integers
from cesaro.data.settings import Settings

Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]


class DisorderError(Exception):
    """Two rows cannot be ordered; the caller knows how to name them."""

    def __init__(self, kind: Literal["equal", "flag"], order: Integers | None, i: int) -> None:
        super().__init__(kind)
        self.kind = kind
        self.rows = (i, i + 1) if order is None else (int(order[i]), int(order[i + 1]))


@dataclass(frozen=True)
class Ordered:
    """`order` (None: as they are) sorts the rows by (trajectory, time); codes and times are already sorted."""

    order: Integers | None
    trajectory: Codes | None
    time: NDArray[Any] | None


def order_rows(trajectory: Codes | None, time: NDArray[Any] | None, ended: Mask | None) -> Ordered:
    """Sort by (trajectory, time), in file order where there is no time.

    Without ids the episodes are the trajectories. Times that are all different then order the whole log, and the flags
    split it; times that repeat belong to episodes, which must be contiguous in the file.
    """
    if trajectory is not None or ended is None:
        return _ordered_within(trajectory, time)
    if time is None:
        return Ordered(None, episodes(ended), None)
    order = None if _is_ordered(None, time) else np.argsort(time, kind="stable")
    ordered = time if order is None else time[order]
    if not (ordered[1:] == ordered[:-1]).any():
        return Ordered(order, episodes(ended if order is None else ended[order]), ordered)
    result = _ordered_within(episodes(ended), time)
    if result.order is not None and result.trajectory is not None:
        late = ended[result.order][:-1] & (result.trajectory[1:] == result.trajectory[:-1])
        if late.any():
            raise DisorderError("flag", result.order, int(np.argmax(late)))
    return result


def episodes(ended: Mask) -> Codes:
    """Codes of trajectories where there are no ids: each ends with its flag."""
    codes = np.zeros(len(ended), dtype=np.int32)
    np.cumsum(ended[:-1], out=codes[1:])
    return codes


def _ordered_within(trajectory: Codes | None, time: NDArray[Any] | None) -> Ordered:
    if _is_ordered(trajectory, time):
        return Ordered(None, trajectory, time)
    order = sorting(trajectory, time)
    trajectory = None if trajectory is None else trajectory[order]
    if time is not None:
        time = time[order]
        same = time[1:] == time[:-1]
        if trajectory is not None:
            same &= trajectory[1:] == trajectory[:-1]
        if same.any():
            raise DisorderError("equal", order, int(np.argmax(same)))
    return Ordered(order, trajectory, time)


def _is_ordered(trajectory: Codes | None, time: NDArray[Any] | None) -> bool:
    """Whether trajectories are contiguous and times increase strictly within them."""
    if trajectory is None:
        return time is None or bool((time[1:] > time[:-1]).all())
    if not (trajectory[1:] >= trajectory[:-1]).all():
        return False
    return time is None or bool(((time[1:] > time[:-1]) | (trajectory[1:] != trajectory[:-1])).all())


def sorting(trajectory: NDArray[Any] | None, time: NDArray[Any] | None) -> Integers:
    """A stable sort by (trajectory, time)."""
    if trajectory is None:
        assert time is not None
        return np.argsort(time, kind="stable")
    if time is not None:
        # One integer key where it fits: several times faster, and stable because the row is part of it.
        bits = [int(time.max()) - int(time.min()), int(trajectory.max()), len(time)] if time.dtype.kind == "i" else []
        shifts = [number.bit_length() for number in bits]
        if bits and sum(shifts) < 63:
            key = trajectory.astype(np.int64) << shifts[0]
            key += time - time.min()
            key <<= shifts[2]
            key += np.arange(len(time))
            key.sort()
            key &= (1 << shifts[2]) - 1
            return key
        return np.lexsort((time, trajectory))
    narrow = trajectory.astype(np.int16) if trajectory.max() < 2**15 else trajectory  # NumPy sorts int16 by radix
    return np.argsort(narrow, kind="stable")


@dataclass(frozen=True)
class Structure:
    """Ends of trajectories and episodes among consecutive rows, as ids and flags tell them, `[n]` each.

    Attributes:
        ends_trajectory: no row of the same trajectory follows.
        terminated, truncated: a flag ends the row's episode; never both.
        ended: either of the two.
        ends_episode: the episode ends, by a flag or with its trajectory.
        lost: the rows that came next are in a file that was left out.
    """

    ends_trajectory: Mask
    terminated: Mask
    truncated: Mask
    ended: Mask
    ends_episode: Mask
    lost: Mask

    @property
    def ends_steps(self) -> Mask:
        """Rows from which no step leads to the row below."""
        return self.ends_episode | self.lost


def find_structure(
    rows: int,
    trajectory: NDArray[Any] | None,
    terminated: Mask | None,
    truncated: Mask | None,
    lost: Mask | None = None,
    is_last: bool = True,
) -> Structure:
    """The ends among ordered rows; codes and flags have an entry more, of the row below, unless the rows are the last ones."""
    none = np.zeros(rows, dtype=np.bool_)
    ends_trajectory = none.copy()
    if trajectory is not None:
        inner = rows - 1 if is_last else rows
        np.not_equal(trajectory[1 : inner + 1], trajectory[:inner], out=ends_trajectory[:inner])
    if is_last:
        ends_trajectory[-1] = True
    terminated = none if terminated is None else terminated[:rows]
    truncated = none if truncated is None else truncated[:rows] & ~terminated
    ended = terminated | truncated
    return Structure(
        ends_trajectory, terminated, truncated, ended, ends_trajectory | ended, none if lost is None else lost
    )


@dataclass(frozen=True)
class Successors:
    """The fate of consecutive rows: which are transitions, and where each of those leads.

    Attributes:
        keep: rows that are transitions.
        restarts: kept rows whose next observation is the first one of the next episode. That is the row below, in row
            order, and after the last row the first.
        linked: rows from which the row below goes on, as far as ids, flags and times say.
        compared: rows from which it goes on where their next observation is the observation of the row below.
        cut: rows before a gap in time, or before rows of the same episode that were left out.
        dropped: rows that are no transitions, by reason.
    """

    keep: Mask
    restarts: Integers
    linked: Mask
    compared: Integers
    cut: Mask
    dropped: dict[str, Mask]


def find_successors(found: Structure, cut: Mask, has_next: bool, settings: Settings) -> Successors:
    """Keep, drop or restart: what the settings make of every row; `cut`: those before a gap in time."""
    ends = found.ends_steps | cut
    if not ends.any():  # most blocks of a long log: nothing happens in them
        every, nowhere = np.ones(len(ends), dtype=np.bool_), np.empty(0, dtype=np.int64)
        return Successors(every, nowhere, every.copy(), nowhere, cut, {})
    dropped: dict[str, Mask] = {}
    restarted = np.zeros(len(ends), dtype=np.bool_)
    broken = found.lost & ~found.ends_episode
    unknown = np.zeros(len(ends), dtype=np.bool_) if has_next else broken  # rows whose successor was left out
    if not has_next:
        dropped["cut"] = cut
        dropped["trajectory end"] = found.ends_trajectory & ~found.ended
    for kind, where, rule in (
        ("terminated", found.terminated, settings.on_termination),
        ("truncated", found.truncated, settings.on_truncation),
    ):
        if rule == "restart":
            restarted |= where & ~found.lost
            unknown = unknown | (where & found.lost)
        elif rule == "drop" or not has_next:
            dropped[kind] = where
    dropped["left out"] = unknown
    keep = np.ones(len(ends), dtype=np.bool_)
    for mask in dropped.values():
        keep &= ~mask
    if settings.reward_lag:
        dropped["reward lag"] = ends & keep
        keep &= ~ends
    over = (
        found.ended & keep & ~found.ends_trajectory & ~found.lost
    )  # the reset state is, or may be, that of the row below
    return Successors(
        keep,
        np.flatnonzero(restarted & keep),
        ~ends | (over & restarted),
        np.flatnonzero(over & ~restarted),
        cut | broken,
        dropped,
    )
