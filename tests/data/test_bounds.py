"""Actions that are cut to bounds: how bounds are given, what they refuse, and what is said of the rows."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cesaro.data import Transitions, read
from cesaro.data.settings import ActionBounds, check_bounds
from cesaro.errors import InputError

ACTIONS = np.array([[-3.0, 0.5], [0.0, 0.0], [2.0, 7.0], [-1.0, 1.0]])


def cut(bounds: Any, actions: Any = ACTIONS) -> Transitions:
    return Transitions(np.arange(4.0), actions, np.zeros(4), np.arange(4.0), action_bounds=bounds)


@pytest.mark.parametrize(
    ("bounds", "expected", "rows", "said"),
    [
        ((-1, 1), [[-1, 0.5], [0, 0], [1, 1], [-1, 1]], 2, "-1 … 1"),
        ((None, [1, 2.5]), [[-3, 0.5], [0, 0], [1, 2.5], [-1, 1]], 1, "-∞ … (1, 2.5)"),
        (([-2, None], None), [[-2, 0.5], [0, 0], [2, 7], [-1, 1]], 1, "(-2, -∞) … ∞"),
        (np.array([[-9, -9], [9, np.inf]]), ACTIONS, 0, "-9 … (9, ∞)"),
    ],
)
def test_actions_are_cut_and_counted(bounds: Any, expected: Any, rows: int, said: str) -> None:
    log = cut(bounds)
    np.testing.assert_array_equal(log.actions.plain(), expected)
    assert log.counts["cut actions"] == rows
    assert log.notes == (f"Actions were cut to {said} in {rows} of 4 rows.",)


def test_open_bounds_are_none() -> None:
    assert check_bounds((None, None)) is check_bounds((-np.inf, [np.inf])) is None
    assert "cut actions" not in cut(None).counts


def test_single_precision_stays_and_is_not_beyond_its_own_bound() -> None:
    actions = np.array([0.1, 0.2, -0.1, 0.0], dtype=np.float32)
    log = cut((-0.1, 0.1), actions)
    assert log.actions.plain().dtype == np.float32
    assert log.actions.plain().tolist() == np.array([0.1, 0.1, -0.1, 0.0], dtype=np.float32).tolist()
    assert log.counts["cut actions"] == 1
    assert ActionBounds((-0.1,), (0.1,)).beyond(actions).tolist() == [False, True, False, False]


def test_rows_that_are_dropped_as_copies_are_not_counted() -> None:
    settings: dict[str, Any] = {"time": [2, 1, 1, 3], "drop_duplicates": True, "action_bounds": (None, 1)}
    log = Transitions([1.0, 2.0, 2.0, 3.0], [0.0, 5.0, 5.0, 7.0], [0.0, 1.0, 1.0, 2.0], **settings)
    assert log.counts["cut actions"] == 2
    assert log.actions.plain().tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("bounds", "match"),
    [
        ((1, -1), r"low \(action_bounds\[0\]\) must be at most high \(action_bounds\[1\]\). Got 1 and -1; exchange"),
        ((0, [1, -2]), "Got 0 and -2 in dimension 1"),
        (([0, 0], [1, 1, 1]), "one per dimension. Got 2 and 3"),
        (([0, 0, 0], 1), "Transitions: action_bounds must have one number .* Got 3 for 2 dimensions"),
        (np.array(3), r"must be a pair \(low, high\). Got 3"),
        ("ab", "must be a pair"),
        ((1, 2, 3), "must be a pair"),
        (("low", 1), "must be a number, or one per dimension of the action. Got 'low'; None leaves"),
        ((None, [[1, 2]]), "must be a number"),
        ((None, []), "must be a number"),
        ((True, None), "must be a number"),
        ((np.nan, 1), "must be a number"),
        ((np.inf, None), "must be a number"),
    ],
)
def test_bounds_that_are_refused(bounds: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        cut(bounds)


def test_labels_have_no_bounds() -> None:
    columns = {"state": [0, 1, 0], "action": [0, 1, 1], "reward": [0.0, 1.0, 2.0]}
    with pytest.raises(InputError, match='Got labels in "action"; leave them out, or pass kinds='):
        read(columns, action_bounds=(0, 1)).load()
    assert read(columns, action_bounds=(0, 0.5), kinds={"action": "number"}).counts["cut actions"] == 2


@pytest.mark.parametrize(
    ("metadata", "match"),
    [
        (b'{"action_low": "x"}', "table: metadata action_low must be a number"),
        (
            b'{"action_low": [2], "action_high": [1, 3]}',
            "metadata action_low must be at most table: metadata action_high",
        ),
    ],
)
def test_bounds_that_metadata_carry(metadata: bytes, match: str) -> None:
    table = pa.table({"state": [0, 1, 0], "action": [0.0, 5.0, 1.0], "reward": [0.0, 1.0, 2.0]})
    with pytest.raises(InputError, match=match):
        read(table.replace_schema_metadata({b"cesaro": metadata}))
    told = read(table.replace_schema_metadata({b"cesaro": b'{"action_low": [null], "action_high": [3]}'}))
    assert told.origin is not None
    assert str(told.origin.bounds) == "-∞ … 3"
    assert told.load().actions.plain().tolist() == [0.0, 5.0]  # they are told, and cut nothing by themselves
