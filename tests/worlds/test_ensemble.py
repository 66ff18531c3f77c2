"""What an ensemble of networks makes of their outputs: numbers with residuals, and labels drawn from probabilities."""

import numpy as np
import pytest

from cesaro.worlds.ensemble import Ensemble

ROWS, COUNT, SIZES = 500, 3, (2, 4, 2)


@pytest.fixture(scope="module")
def ensemble() -> Ensemble:
    """Residuals and sizes; nothing else is asked for here."""
    residuals = np.random.default_rng(0).normal(size=(40, COUNT)).astype(np.float32)
    none = np.zeros((1, 1), np.int64)
    return Ensemble(
        networks=None,
        count=COUNT,
        sizes=SIZES,
        residuals=residuals,
        rows=none[0],
        tree=None,
        order=none[0],
        starts=none,
        ends=none,
        r_squared=np.ones(COUNT),
        losses=np.ones(1),
        steps=0,
    )


@pytest.fixture(scope="module")
def outputs() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(ROWS, COUNT + sum(SIZES))).astype(np.float32)


def test_numbers_are_outputs_with_residuals_in_the_units_of_the_log(ensemble: Ensemble, outputs: np.ndarray) -> None:
    near = np.random.default_rng(2).integers(0, 40, ROWS)
    scale, shift = np.array([2.0, 0.1, 30.0]), np.array([1.0, -7.0, 0.0])
    found = ensemble.numbers(outputs, near, scale, shift)
    np.testing.assert_array_equal(found, (outputs[:, :COUNT] + ensemble.residuals[near]) * scale + shift)
    assert found.flags.f_contiguous


def test_labels_come_with_their_probabilities(ensemble: Ensemble, outputs: np.ndarray) -> None:
    """20,000 draws of the second column in one state: each share within four standard errors, which fails once in 4,000 times."""
    one = np.broadcast_to(outputs[0], (20_000, outputs.shape[1]))
    drawn = ensemble.labels(one, np.random.default_rng(3), 2)[:, 1]
    chances = np.exp(outputs[0, COUNT + 2 : COUNT + 6].astype(np.float64))
    chances /= chances.sum()
    shares = np.bincount(drawn, minlength=4) / len(drawn)
    assert (np.abs(shares - chances) <= 4 * np.sqrt(chances * (1 - chances) / len(drawn))).all()


def test_labels_that_nobody_asks_for_leave_other_random_numbers_as_they_are(
    ensemble: Ensemble, outputs: np.ndarray
) -> None:
    first, second = np.random.default_rng(4), np.random.default_rng(4)
    every, some = ensemble.labels(outputs, first, 3), ensemble.labels(outputs, second, 1)
    np.testing.assert_array_equal(some, every[:, :1])
    assert first.random() == second.random()
