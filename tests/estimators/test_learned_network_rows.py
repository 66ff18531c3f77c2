"""Rows that networks were fitted on, known again by one number each."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import cesaro as cs
from cesaro.estimators.neural_rows import distinct, overlap, row_hashes

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
