"""Whole numbers as floats: below 2⁵³ each is a float64 of its own; then neighbors fall together, and ids would mix."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cesaro.data import read
from cesaro.data.values import Categories
from cesaro.errors import InputError

LARGEST = 2**53 - 1


def log(state: Any) -> dict[str, Any]:
    return {"state": state, "action": [0, 1, 0], "reward": [1.0, 2.0, 3.0], "next_state": state}


def labels(source: Any) -> list[Any]:
    """The labels of the states."""
    column = read(source, kinds={"state": "category"}).load().observations.columns[0]
    assert isinstance(column, Categories)
    return list(column.levels.tolist())


def test_floats_are_labels_up_to_the_largest_that_is_alone() -> None:
    assert labels(log(np.array([LARGEST, LARGEST - 1, -LARGEST], dtype=np.float64))) == [-LARGEST, LARGEST - 1, LARGEST]


@pytest.mark.parametrize("state", [LARGEST + 1, -LARGEST - 1, 2**61, 2**80])
def test_floats_beyond_that_are_no_labels(state: int) -> None:
    with pytest.raises(InputError, match=r"must hold whole numbers below 2\*\*53 to be labels. Got .* at row 1"):
        labels(log(np.array([1, state, 2], dtype=np.float64)))


def csv(path: Path, *states: str) -> Path:
    path.write_text("state,action,reward\n" + "".join(f"{state},0,1.0\n" for state in states), encoding="utf-8")
    return path


def test_ids_in_csv_keep_the_digits_that_floats_would_lose(tmp_path: Path) -> None:
    """They are read as they are written, and without a word from the user they are refused."""
    first, second = f"{LARGEST + 1}.0", f"{LARGEST + 2}.0"
    assert float(first) == float(second)
    path = csv(tmp_path / "log.csv", first, second, first)
    assert labels(path) == [first, second]
    with pytest.raises(
        InputError, match=r'column "state" must be clear about its kind. Got whole numbers of 2\*\*53 or more'
    ):
        read(path).load()


def test_small_numbers_in_csv_are_numbers(tmp_path: Path) -> None:
    path = csv(tmp_path / "log.csv", f"{LARGEST - 1}.0", f"{LARGEST - 2}.0", "1.0")
    assert labels(path) == [1, LARGEST - 2, LARGEST - 1]
    assert read(path).load().observations.plain().tolist() == [LARGEST - 1, LARGEST - 2]
