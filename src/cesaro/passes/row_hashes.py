"""One number per row that depends on nothing but its entries, and how such numbers are mixed.

It tells which rows a network was fitted on, wherever those rows return (`row_hashes`, `overlap`), and which rows a log holds more
than once (`repeats.py`); `mixed` alone gives random signs (`projection.py`).
"""

import numpy as np
from numpy.typing import NDArray

from cesaro.data import Block, Log
from cesaro.data.values import Categories, Values

Hashes = NDArray[np.uint64]

# Odd numbers without pattern, and where the upper bits of a product are folded into the lower ones.
FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
HALF, THIRD = np.uint64(32), np.uint64(29)
# Rows at a time, so that columns stay in the cache.
CHUNK = 8_192
# Hashes that are kept of one log.
MOST = 1 << 20


def row_hashes(log: Log) -> Hashes:
    """Hashes of each row's observation, action, reward and next observation, sorted; labels count by their number.

    Of a log with more than a million rows only the smallest hashes are kept, about a million: which rows these are depends on
    nothing but themselves, so that two logs can be compared.
    """
    share = MOST / max(len(log), MOST)
    limit = np.uint64(share * 2.0**64) if share < 1 else None
    found: list[Hashes] = []
    for block in log.blocks():
        hashes = hashed(block)
        found.append(hashes if limit is None else hashes[hashes < limit])
    result = np.concatenate(found)
    result.sort()
    return result


def hashed(rows: Block, rewards: bool = True) -> Hashes:
    """One number for each row, in their order; `rewards`: whether these count."""
    state = np.zeros(len(rows), np.uint64)
    for start in range(0, len(rows), CHUNK):
        part = slice(start, start + CHUNK)
        for words in (
            *_words(rows.observations.take(part)),
            *_words(rows.actions.take(part)),
            *([_bits(rows.rewards[part])] if rewards else []),
            *_words(rows.next_observations.take(part)),
        ):
            mix(state[part], words)
    return state


def mix(state: Hashes, words: Hashes) -> None:
    """Mix what was hashed so far with what comes next, in place: fresh memory would take longer than the mixing."""
    state ^= words
    for factor, shift in ((FIRST, HALF), (SECOND, THIRD)):
        state *= factor
        state ^= state >> shift


def mix_runs(runs: Hashes, half: int) -> Hashes:
    """From hashes of runs of `half` rows to those of runs twice as long, in the same memory."""
    size = len(runs) - half
    for start in range(0, size, CHUNK):
        stop = min(start + CHUNK, size)
        part = runs[start:stop] * SECOND  # since equal halves would cancel
        mix(part, runs[start + half : stop + half])
        runs[start:stop] = part
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


def _words(values: Values) -> list[Hashes]:
    """64 bits of every row, column by column."""
    found: list[Hashes] = []
    for column in values.columns:
        if isinstance(column, Categories):
            found.append(column.codes.astype(np.uint64))
        else:
            found.extend(_bits(column.T if column.ndim == 2 else column[None]))
    return found


def _bits(numbers: NDArray[np.floating]) -> Hashes:
    """Zero has two signs, and one hash."""
    return (np.ascontiguousarray(numbers, dtype=np.float64) + 0.0).view(np.uint64)
