"""The shuffle buffer: every row equally often, the same rows for a seed, and what a sorted log leaves in it."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cesaro as cs
from cesaro.data import Block
from cesaro.data import blocks as block_module
from cesaro.data.shuffled import RENEWALS, ShuffleBuffer

Array = NDArray[np.float64]
BLOCK, TAG = 32, 10**6


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_module, "BLOCK_ROWS", BLOCK)
    monkeypatch.setattr(block_module, "STRETCH_BLOCKS", 5)


def make(rewards: Array, weights: Array | None = None) -> cs.Transitions:
    return cs.Transitions(
        np.zeros(len(rewards)), np.zeros(len(rewards)), rewards, np.zeros(len(rewards)), weights=weights
    )


class Turned:
    """A record of what entered a buffer: rewards and visits of every row group."""

    def __init__(self) -> None:
        self.rewards: list[Array] = []
        self.visits: list[int] = []

    def __call__(self, group: Block, visit: int) -> tuple[Array]:
        self.rewards.append(group.rewards)
        self.visits.append(visit)
        return (group.rewards + TAG * visit,)


def buffer(log: Any, turned: Turned | None = None, **settings: Any) -> ShuffleBuffer:
    return ShuffleBuffer(log, turned or Turned(), **({"rows": 96, "seed": 0, "reach": 7} | settings))


@pytest.mark.parametrize(("rows", "reach"), [(96, 7), (96, 1), (40, 19), (640, 7)])
def test_every_row_comes_once_and_stays_equally_long(rows: int, reach: int) -> None:
    """19 blocks, the last of 9 rows: as many visits as a block has parts take each row once, and all stay equally long."""
    total = 18 * BLOCK + 9
    turned = Turned()
    shuffled = buffer(make(np.arange(float(total))), turned, rows=rows, reach=reach)
    rows = shuffled.rows
    if rows == total:
        assert shuffled.step == 0
        assert sorted(shuffled.after(50)[0]) == list(range(total))
        return
    seen: dict[float, int] = {}
    renewals = 3 * total // shuffled.step + RENEWALS
    for renewal in range(renewals):
        (here,) = shuffled.after(renewal)
        assert here.shape == (rows,)
        for tag in here:
            seen[tag] = seen.get(tag, 0) + 1
    stream, visits = np.concatenate(turned.rewards), np.repeat(turned.visits, list(map(len, turned.rewards)))
    assert max(map(len, turned.rewards)) <= -(-BLOCK // shuffled.parts)
    orders = []
    for cycle in range(2):
        part = visits // shuffled.parts == cycle
        assert sorted(stream[part]) == list(range(total))
        orders.append(stream[part].tolist())
    assert orders[0] != orders[1]
    # Of the second cycle all came and went.
    stays = [seen[reward + TAG * visit] for reward, visit in zip(stream, visits) if visit // shuffled.parts == 1]
    assert set(stays) == {RENEWALS}


def test_a_seed_gives_the_same_rows_however_they_are_asked_for() -> None:
    log = make(np.arange(613.0))
    steps, leap, other = buffer(log), buffer(log), buffer(log, seed=1)
    seen = [steps.after(renewal)[0].copy() for renewal in range(60)]
    np.testing.assert_array_equal(leap.after(59)[0], seen[-1])
    assert not np.array_equal(other.after(0)[0], seen[0])
    assert len(np.intersect1d(seen[0], seen[RENEWALS])) == 0


def test_rows_that_are_skipped_are_not_turned() -> None:
    turned = Turned()
    shuffled = buffer(make(np.arange(613.0)), turned)
    shuffled.after(100)
    assert sum(map(len, turned.rewards)) <= shuffled.rows + 2 * BLOCK


def test_weights_are_copies() -> None:
    """Weights that grow along the log, from 0 to 4 times their mean: each row comes as often as its share, up to one draw."""
    total = 20 * BLOCK
    weights = 8.0 * np.linspace(0, 1, total) ** 3
    turned = Turned()
    shuffled = buffer(make(np.arange(float(total)), weights), turned, weight=float(weights.mean()))
    cycles = 40
    for renewal in range(0, cycles * total // shuffled.step, RENEWALS):
        shuffled.after(renewal)
    stream, visits = np.concatenate(turned.rewards), np.repeat(turned.visits, list(map(len, turned.rewards)))
    share, copies = weights / weights.mean(), np.zeros((cycles - 2, total))
    for cycle in range(cycles - 2):
        part = stream[visits // shuffled.parts == cycle].astype(np.int64)
        copies[cycle] = np.bincount(part, minlength=total)
        assert (np.abs(copies[cycle] - share) < 1).all()
    # A row's mean over cycles has a standard error of at most ½/√38; five of them are exceeded once in 3,000 tests of 640 rows.
    assert np.abs(copies.mean(axis=0) - share).max() < 5 * 0.5 / np.sqrt(cycles - 2)


def test_a_heavy_row_takes_no_memory() -> None:
    """One row has nearly all of the weight: it comes in pieces, as often as its share."""
    total, heavy = 20 * BLOCK, 100
    weights = np.ones(total)
    weights[heavy] = 1e9
    turned = Turned()
    log = make(np.arange(float(total)), weights)
    shuffled = buffer(log, turned, weight=float(weights.mean()))
    for renewal in range(0, 6 * total // shuffled.step, RENEWALS):
        shuffled.after(renewal)
    assert max(map(len, turned.rewards)) <= BLOCK
    cycles = np.array(turned.visits) // shuffled.parts
    found = np.concatenate([rewards for rewards, cycle in zip(turned.rewards, cycles) if 0 < cycle < 4])
    assert abs(np.count_nonzero(found == heavy) - 3 * total) <= 3
    assert np.count_nonzero(found != heavy) <= 3
    leaps = [buffer(log, weight=float(weights.mean())).after(40)[0] for _ in range(2)]
    np.testing.assert_array_equal(leaps[0], leaps[1])


@pytest.mark.parametrize(("blocks", "groups", "most"), [(256, 32, 0.012), (250, 32, 0.06), (40, 40, 0.03)])
def test_a_sorted_log_leaves_little(blocks: int, groups: int, most: float) -> None:
    """Rewards sorted from 0 to 1, the worst case: errors of the buffer's mean, in standard deviations of the reward.

    Blocks drawn independently would leave 1/√32 = 0.18 at a time in a buffer of 32 groups, and 1/√232 = 0.066 over the second
    half of 100 renewals. With one group of every stratum it is as much as is asked for here, or less: of 100 other seeds none
    comes within a fifth of the former, and the latter is four standard deviations or more.
    """
    rewards = np.sort(np.random.default_rng(0).random(blocks * BLOCK))
    shuffled = ShuffleBuffer(make(rewards), lambda group, visit: (group.rewards,), rows=256, seed=0, reach=32)
    assert shuffled.groups == groups
    errors = np.array([shuffled.after(renewal)[0].mean() for renewal in range(100)]) - rewards.mean()
    errors /= rewards.std()
    assert np.sqrt(np.mean(errors**2)) < most
    assert abs(errors[50:].mean()) < most / 2
