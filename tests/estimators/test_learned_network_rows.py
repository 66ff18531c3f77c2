"""Rows that networks were fitted on, known again by one number each."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cesaro as cs
from cesaro.passes.repeats import distinct, overlap, row_hashes

Array = NDArray[np.float64]


def test_every_part_of_a_row_counts() -> None:
    x = np.random.default_rng(4).integers(0, 4, size=(50, 6)).astype(np.float64)

    def hashed(x: Array) -> Any:
        return row_hashes(cs.Transitions(x[:, :2], x[:, 2:3], x[:, 3], x[:, 4:]))

    known = distinct(hashed(x))
    assert len(known) == len(np.unique(x, axis=0))
    for column in range(6):
        assert overlap(hashed(x + 0.125 * np.eye(6)[column]), known) == 0
    assert overlap(hashed(np.where(x == 0, -0.0, x)), known) == 1
    # Numbers of few bits, in two columns: none collide.
    grid = np.stack(np.meshgrid(np.arange(300.0), np.arange(300.0)), axis=-1).reshape(-1, 2)
    assert len(distinct(hashed(np.concatenate([grid, 0 * grid, 0 * grid], axis=1)))) == 90_000


def test_large_logs_are_compared_by_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 6,000 and of 3,000 rows about 500 hashes are kept; a third of the smaller log is in the larger one.

    The share has a standard error of 0.021; five of them are exceeded once in a million tests.
    """
    monkeypatch.setattr("cesaro.passes.repeats.MOST_HASHES", 500)
    x = np.random.default_rng(1).normal(size=(8_000, 4))

    def hashed(rows: Any) -> Any:
        return row_hashes(cs.Transitions(rows[:, :1], rows[:, 1], rows[:, 2], rows[:, 3:]))

    large, small = hashed(x[:6_000]), hashed(x[5_000:])
    assert 400 < len(large) < 600
    assert overlap(small, distinct(large)) == pytest.approx(1 / 3, abs=0.11)
    assert overlap(hashed(x[:900]), distinct(large)) == 1
    assert overlap(hashed(x[6_000:]), distinct(large)) == 0
