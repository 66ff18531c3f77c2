"""When networks stop learning: each group of members by itself, whatever the others do."""

from typing import Any

import numpy as np
import pytest

import cesaro as cs
from cesaro.worlds import training
from cesaro.worlds.training import CHUNK, GROUP, PATIENCE, STEP_SIZES, Progress

pytestmark = pytest.mark.usefixtures("adam_is_allowed")
MOST = 100 * CHUNK


def start(members: int) -> Progress:
    groups = -(-members // GROUP)
    zero, weights = np.zeros(groups, np.int64), np.zeros((members, 1), np.float32)
    return Progress([weights], None, [weights], np.full(members, np.inf), None, zero, zero, np.zeros(groups, np.bool_))


def numbered(now: Progress, look: int) -> Progress:
    """Networks that hold the number of the look that they were trained to."""
    return now._replace(networks=[np.full((len(now.best), 1), look, np.float32)])


def test_a_group_stops_when_its_own_members_gain_nothing() -> None:
    members, now = GROUP + 2, start(GROUP + 2)
    losses = np.ones(members)
    for look in range(1, 40):
        losses[0] *= 0.9  # a member of the first group gains at every look
        now = training._looked(numbered(now, look), losses, MOST)
        if look == 1 + PATIENCE:
            assert now.size.tolist() == [0, 1]
    assert now.is_done.tolist() == [False, True]
    assert now.size.tolist() == [0, len(STEP_SIZES) - 1]
    kept = np.asarray(now.kept[0])[:, 0]
    assert kept[0] == 39
    assert (kept[1:] == 1).all()  # at their best, and not touched any more
    now = training._looked(numbered(now, 40), np.zeros(members), MOST)
    kept = np.asarray(now.kept[0])[:, 0]
    assert (kept[:GROUP] == 40).all()
    assert (kept[GROUP:] == 1).all()


def test_with_a_smaller_step_size_a_group_goes_on_from_its_best() -> None:
    members, now = 2 * GROUP, start(2 * GROUP)
    losses = np.ones(members)
    for look in range(1, 2 + PATIENCE):
        losses[:GROUP] *= 0.9
        now = training._looked(numbered(now, look), losses, MOST)
    networks = np.asarray(now.networks[0])[:, 0]
    assert (networks[:GROUP] == 1 + PATIENCE).all()
    assert (networks[GROUP:] == 1).all()


def test_all_groups_end_with_the_last_step() -> None:
    now = training._looked(numbered(start(2 * GROUP), 1), np.ones(2 * GROUP), CHUNK)
    assert now.is_done.all()


def test_members_are_the_same_beside_a_group_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first group of twelve members learns what it learns where the second one may not go on."""
    monkeypatch.setattr(training, "MOST_STEPS", 5 * CHUNK)
    looked, stops = training._looked, {"second": False}

    def stopped(now: Progress, losses: Any, most: int) -> Progress:
        found = looked(now, losses, most)
        return found._replace(is_done=found.is_done | [False, stops["second"]]) if len(found.is_done) == 2 else found

    monkeypatch.setattr(training, "_looked", stopped)
    rng = np.random.default_rng(0)
    state, action = rng.normal(size=(1_201, 2)), rng.normal(size=1_200)
    log = cs.Transitions(state[:-1], action, state[:-1, 0] + action, 0.5 * state[:-1] + 0.1 * state[1:])
    every = []
    for stops["second"] in (False, True):
        every.append(cs.World(GROUP + 2, widths=(8,), quiet=True).fit(log).process_.model.losses)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(every[0][:GROUP], every[1][:GROUP])
    assert (every[0][GROUP:] < every[1][GROUP:]).all()
