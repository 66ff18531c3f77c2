"""From rows to transitions of one continuing process: order, pieces, successors.

Everything here works on row numbers, flags, ids and times as whole arrays; observations are never touched.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cesaro.data.settings import Settings

Rows = NDArray[np.int64]
Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]

_OWN_STEPS = 3  # a trajectory with fewer steps is judged by the median of all
_LONG = 256  # from this length on a partition per stretch is faster than one sort of all
_STRETCH = 1 << 15  # rows at a time, so that intermediate results stay in the cache


class DisorderError(Exception):
    """Two rows cannot be ordered; the caller knows how to name them."""

    def __init__(self, kind: Literal["equal", "flag"], order: Rows | None, i: int) -> None:
        super().__init__(kind)
        self.kind = kind
        self.rows = (i, i + 1) if order is None else (int(order[i]), int(order[i + 1]))


@dataclass(frozen=True)
class Ordered:
    """`order` (None: as they are) sorts the rows by (trajectory, time); codes and times are already sorted."""

    order: Rows | None
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
        return Ordered(None, _episodes(ended), None)
    order = None if _is_ordered(None, time) else np.argsort(time, kind="stable")
    ordered = time if order is None else time[order]
    if not (ordered[1:] == ordered[:-1]).any():
        return Ordered(order, _episodes(ended if order is None else ended[order]), ordered)
    result = _ordered_within(_episodes(ended), time)
    if result.order is not None and result.trajectory is not None:
        late = ended[result.order][:-1] & (result.trajectory[1:] == result.trajectory[:-1])
        if late.any():
            raise DisorderError("flag", result.order, int(np.argmax(late)))
    return result


def _episodes(ended: Mask) -> Codes:
    codes = np.zeros(len(ended), dtype=np.int32)
    np.cumsum(ended[:-1], out=codes[1:])
    return codes


def _ordered_within(trajectory: Codes | None, time: NDArray[Any] | None) -> Ordered:
    if _is_ordered(trajectory, time):
        return Ordered(None, trajectory, time)
    order = _sorting(trajectory, time)
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


def _sorting(trajectory: Codes | None, time: NDArray[Any] | None) -> Rows:
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
class Successors:
    """What becomes of each ordered row.

    Attributes:
        keep: rows that are transitions.
        ends: rows on which row i + 1 does not follow, as far as ids, flags and times say.
        ended: rows that a flag ends.
        restart_at, restart_to: rows whose next observation is the observation of another row, and that row.
        counts: rows, kept ones, dropped ones by reason, trajectories, episodes, cuts, restarts.
        reset_after: the one episode length at which every restarted truncation happened.
    """

    keep: Mask
    ends: Mask
    ended: Mask
    restart_at: Rows
    restart_to: Rows
    counts: dict[str, int]
    reset_after: int | None


def find_successors(
    rows: int, ordered: Ordered, terminated: Mask | None, truncated: Mask | None, has_next: bool, settings: Settings
) -> Successors:
    """Pieces and successors of ordered rows; flags are in the same order."""
    none = np.zeros(rows, dtype=np.bool_)
    ends_trajectory = none.copy()
    ends_trajectory[-1] = True
    if ordered.trajectory is not None:
        np.not_equal(ordered.trajectory[1:], ordered.trajectory[:-1], out=ends_trajectory[:-1])
    terminated = none if terminated is None else terminated
    truncated = none if truncated is None else truncated & ~terminated
    ended = terminated | truncated
    ends_episode = ends_trajectory | ended
    cut = _cuts(ordered.time, ordered.trajectory, ends_episode, settings.gap)
    ends = ends_episode | cut

    dropped: dict[str, Mask] = {}
    restarted = none.copy()
    if not has_next:
        dropped["cut"] = cut
        dropped["trajectory end"] = ends_trajectory & ~ended
    for kind, where, rule in (
        ("terminated", terminated, settings.on_termination),
        ("truncated", truncated, settings.on_truncation),
    ):
        if rule == "restart":
            restarted |= where
        elif rule == "drop" or not has_next:
            dropped[kind] = where
    keep = ~none
    for mask in dropped.values():
        keep &= ~mask
    if settings.reward_lag:
        dropped["reward lag"] = ends & keep
        keep &= ~ends
    restart_at = np.flatnonzero(restarted & keep)
    counts: dict[str, int] = {
        "rows": rows,
        "kept": int(np.count_nonzero(keep)),
        "trajectories": int(np.count_nonzero(ends_trajectory)),
        "episodes": int(np.count_nonzero(ends_episode)),
        "cuts": int(np.count_nonzero(cut)),
        "restarts": len(restart_at),
        **{f"dropped: {reason}": int(np.count_nonzero(mask)) for reason, mask in dropped.items() if mask.any()},
    }
    return Successors(
        keep,
        ends,
        ended,
        restart_at,
        _next_starts(restart_at, ends_episode),
        counts,
        _common_length(restart_at[truncated[restart_at]], ends_episode),
    )


def _cuts(time: NDArray[Any] | None, trajectory: Codes | None, ends: Mask, gap: float | None) -> Mask:
    """Rows before a gap in time; what counts as one is judged by the steps within episodes of the same trajectory."""
    cut = np.zeros(len(ends), dtype=np.bool_)
    if time is None or gap is None or ends[:-1].all() or _is_regular(time, ends):
        return cut
    inside = ~ends[:-1]
    steps = _steps(time)[inside].astype(np.float64, copy=False)
    with np.errstate(over="ignore"):
        usual = np.median(steps) if trajectory is None else _usual_steps(steps, trajectory[:-1][inside], gap)
        cut[:-1][inside] = steps > gap * usual
    return cut


def _usual_steps(steps: NDArray[np.float64], trajectory: Codes, gap: float) -> NDArray[np.float64]:
    """Per step the median of its trajectory, or that of all steps where the trajectory has too few.

    A trajectory whose steps differ too little to be cut is given its longest step, which saves the sorting.
    """
    starts = np.append(0, np.flatnonzero(trajectory[1:] != trajectory[:-1]) + 1)
    lengths = np.diff(starts, append=len(steps))
    usual = np.maximum.reduceat(steps, starts)
    few = lengths < _OWN_STEPS
    uneven = ~few & (usual > gap * np.minimum.reduceat(steps, starts))
    if uneven.any():
        chosen = np.repeat(uneven, lengths)
        usual[uneven] = _medians(steps[chosen], lengths[uneven])
    if few.any():
        usual[few] = np.median(steps)
    return np.repeat(usual, lengths)


def _medians(values: NDArray[np.float64], lengths: Rows) -> NDArray[np.float64]:
    """Medians of consecutive stretches of non-negative values."""
    starts = np.cumsum(lengths) - lengths
    if len(values) >= _LONG * len(lengths):
        return np.array([np.median(part) for part in np.split(values, starts[1:])])
    ordered = values[np.lexsort((values, np.repeat(np.arange(len(lengths)), lengths)))]
    low, high = ordered[starts + (lengths - 1) // 2], ordered[starts + lengths // 2]
    return low + (high - low) / 2


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
    """Differences; those of int64 as uint64, which holds them all."""
    if time.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.diff(time)
    bits = time.view(np.uint64)
    return bits[1:] - bits[:-1]


def _next_starts(at: Rows, ends_episode: Mask) -> Rows:
    """First row of the next episode in row order; after the last one comes the first."""
    starts = np.append(0, np.flatnonzero(ends_episode[:-1]) + 1)
    following = np.searchsorted(starts, at, side="right")
    return starts[np.where(following < len(starts), following, 0)]


def _common_length(at: Rows, ends_episode: Mask) -> int | None:
    if len(at) < 2:
        return None
    last = np.flatnonzero(ends_episode)
    lengths = np.diff(last, prepend=-1)[np.searchsorted(last, at)]
    return int(lengths[0]) if (lengths == lengths[0]).all() else None


def segments(linked: Mask, kept: Rows) -> Rows:
    """Codes of the contiguous pieces of kept rows: row i + 1 goes on from row i where that is `linked`."""
    last = np.flatnonzero(~linked)
    lengths = np.diff(np.searchsorted(kept, last, side="right"), prepend=0, append=len(kept))
    lengths = lengths[lengths > 0]
    return np.repeat(np.arange(len(lengths)), lengths)
