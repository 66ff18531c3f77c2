"""Columns that advance by themselves."""

import numpy as np

from cesaro.data.clocks import Clock


def test_only_what_advances_by_itself_does_so() -> None:
    rng = np.random.default_rng(0)
    hours = np.arange(500, dtype=np.float64) % 24
    assert Clock.of(hours, (hours + 1) % 24) is not None
    assert Clock.of(hours, np.where(rng.random(500) < 0.2, 0.0, (hours + 1) % 24)) is None
    assert Clock.of(hours, hours) is None  # it stays
    assert Clock.of(rng.random(500), rng.random(500)) is None


def test_waves_go_round_in_the_order_of_steps_and_meet() -> None:
    levels = np.array([30.0, 10.0, 20.0, 40.0])  # 10 → 40 → 30 → 20 → 10
    follow = {10.0: 40.0, 40.0: 30.0, 30.0: 20.0, 20.0: 10.0}
    now = np.tile(levels, 20)
    clock = Clock.of(now, np.array([follow[value] for value in now]))
    assert clock is not None
    assert clock.is_cycle
    waves = clock.waves(np.array([10.0, 40.0, 30.0, 20.0]))
    np.testing.assert_allclose(waves, [[0, 1], [1, 0], [0, -1], [-1, 0]], atol=1e-12)
    assert clock.waves(now, 2).shape == (80, 4)


def test_a_column_that_ends_in_part_of_its_values_is_no_cycle() -> None:
    now = np.tile(np.arange(6.0), 20)
    clock = Clock.of(now, np.where(now == 5, 3, now + 1))
    assert clock is not None
    assert not clock.is_cycle


def test_an_odd_value_does_not_stop_a_clock() -> None:
    hours = np.arange(2_400.0) % 24
    hours[1_000] = 24.0
    clock = Clock.of(hours[:-1], hours[1:])
    assert clock is not None
    assert clock.is_cycle
    np.testing.assert_array_equal(clock.levels, np.arange(24))
    assert clock.next(np.array([24.0])) == 0


def test_numbers_off_the_levels_belong_to_the_nearest() -> None:
    phase = (np.arange(500) % 10 / 10).astype(np.float32)
    clock = Clock.of(phase[:-1], phase[1:])
    assert clock is not None
    np.testing.assert_array_equal(clock.place(np.arange(10) / 10), np.arange(10))
    np.testing.assert_array_equal(clock.place(np.array([-1.0, 0.16, 2.0])), [0, 2, 9])
