"""When networks stop learning: each group of members by itself, whatever the others do."""

from typing import Any

import jax
import numpy as np
import pytest

import cesaro as cs
from cesaro.worlds import training
from cesaro.worlds.training import CHUNK, GROUP, PATIENCE, STEP_SIZES, Progress, Rows

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


@pytest.mark.parametrize("batch_size", [1, 256, 1_000, 70_000])
def test_a_chunk_is_drawn_in_equal_parts_that_memory_has_room_for(batch_size: int) -> None:
    count = training._drawn_together(batch_size)
    larger = [more for more in range(count + 1, CHUNK + 1) if CHUNK % more == 0]
    assert CHUNK % count == 0
    assert count == 1 or count * batch_size <= training.DRAWN
    assert all(more * batch_size > training.DRAWN for more in larger)


@pytest.mark.parametrize("batch_size", [8, 1_000])
def test_every_step_takes_the_rows_that_its_own_key_draws(batch_size: int) -> None:
    """Beside a plain loop over steps; with the larger batches a chunk is drawn in several parts."""
    rng, members, sizes = np.random.default_rng(0), 2, (2,)
    rows = Rows(
        inputs=rng.normal(size=(60, 2)).astype(np.float32),
        numbers=rng.normal(size=(60, 1)).astype(np.float32),
        labels=rng.integers(0, 2, (60, 1)).astype(np.int32),
        known=np.ones((60, 1), np.bool_),
        weights=np.ones(60, np.float32),
    )
    own, held_out = rng.integers(0, 60, (members, 60)), rng.integers(0, 60, (members, 10))
    networks = training.first_networks(rng, members, (2, 4, 3))
    optimizer = training._optimizer()
    state, keys = jax.vmap(optimizer.init)(networks), jax.random.split(jax.random.key(1), members)
    steps = np.full(members, 0.01, np.float32)
    found, _, losses = training._chunk(
        networks, state, rows, own, held_out, keys, steps, sizes=sizes, batch_size=batch_size
    )

    @jax.jit
    def step(network: Any, state: Any, batch: Rows) -> Any:
        updates, state = optimizer.update(jax.grad(training._loss)(network, batch, sizes), state)
        return jax.tree.map(lambda old, change: old - 0.01 * change, network, updates), state

    for member in range(members):
        network, its = jax.tree.map(lambda leaf, m=member: leaf[m], (networks, state))
        for key in jax.random.split(keys[member], CHUNK):
            drawn = own[member][np.asarray(jax.random.randint(key, (batch_size,), 0, 60))]
            network, its = step(network, its, jax.tree.map(lambda leaf, at=drawn: leaf[at], rows))
        for mine, plain in zip(jax.tree.leaves(found), jax.tree.leaves(network)):
            np.testing.assert_allclose(mine[member], plain, atol=2e-5)
        looked_at = jax.tree.map(lambda leaf, m=member: leaf[held_out[m]], rows)
        assert losses[member] == pytest.approx(float(training._loss(network, looked_at, sizes)), abs=2e-5)


def test_outputs_of_one_member_take_one_program_however_many_rows_there_are() -> None:
    rng = np.random.default_rng(2)
    networks = jax.device_put(training.first_networks(rng, 3, (2, 8, 5)))
    programs: Any = training.outputs_of
    compiled = programs._cache_size()
    for rows in (0, 1, training.MOST_TILED, training.MOST_TILED + 1, 3 * training.MOST_TILED):
        inputs = rng.normal(size=(rows, 2)).astype(np.float32)
        found = training.outputs_of_one(networks, 1, inputs)
        (first, bias), (last, shift) = jax.tree.map(lambda leaf: np.asarray(leaf)[1], networks)
        hidden = inputs @ first + bias
        expected = hidden / (1 + np.exp(-hidden)) @ last + shift
        assert found.shape == (rows, 5)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert programs._cache_size() == compiled + 1
