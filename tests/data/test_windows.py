"""Digests of columns: equal exactly where rows are equal, however Arrow holds them."""

import pickle
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cesaro.data.windows import Digests, column_digest

ROWS = 41
_RNG = np.random.default_rng(0)
_HALF = _RNG.random(ROWS) > 0.5
_TEXT = pa.array(_RNG.choice(["", "a", "bb", "ccc"], ROWS))

COLUMNS: dict[str, Any] = {
    "floats": pa.array(_RNG.random(ROWS)),
    "float32": pa.array(_RNG.random(ROWS).astype(np.float32)),
    "flags": pa.array(_HALF),
    "missing numbers": pa.array(_RNG.random(ROWS), mask=_HALF),
    "missing flags": pa.array(_RNG.random(ROWS) > 0.3, mask=_HALF),
    "text": _TEXT,
    "missing text": pc.if_else(pa.array(_HALF), _TEXT, None),
    "large text": _TEXT.cast(pa.large_string()),
    "viewed text": _TEXT.cast(pa.string_view()),
    "dictionary": _TEXT.dictionary_encode(),
    "missing dictionary": pc.if_else(pa.array(_HALF), _TEXT, None).dictionary_encode(),
    "vectors": pa.FixedSizeListArray.from_arrays(pa.array(_RNG.random(2 * ROWS)), 2),
    "lists": pa.array([[1.0] * int(n) for n in _RNG.integers(0, 3, ROWS)]),
    "missing lists": pa.array([None if half else ["a", None] for half in _HALF]),
    "times": pa.array(np.arange(ROWS).astype("datetime64[us]")),
    "decimals": pa.array([Decimal(n) for n in range(ROWS)]),
    "records": pa.array([{"a": n} for n in range(ROWS)]),
    "runs": pc.run_end_encode(pa.array([1] * 20 + [2] * 21)),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_rows_count_and_not_how_they_are_held(name: str) -> None:
    column = COLUMNS[name]
    digest = column_digest(pa.chunked_array([column]))
    for cuts in ([0, 7, ROWS], [0, 1, 1, 8, 40, ROWS]):
        parts = [column.slice(start, stop - start) for start, stop in pairwise(cuts)]
        assert column_digest(pa.chunked_array(parts)) == digest
    longer = pa.concat_arrays([column.slice(3, 5), column, column.slice(0, 3)])
    assert column_digest(pa.chunked_array([longer.slice(5, ROWS)])) == digest
    assert column_digest(pa.chunked_array([column.slice(1), column.slice(0, 1)])) != digest
    assert column_digest(pa.chunked_array([column.slice(1)])) != digest
    assert column_digest(pa.chunked_array([], column.type)) != digest


def test_a_dictionary_may_hold_more_and_in_another_order() -> None:
    codes, words = pa.array([2, 0, 2, 1], pa.int32()), pa.array(["a", "b", "c"])
    plain = pa.DictionaryArray.from_arrays(codes, words)
    other = pa.DictionaryArray.from_arrays(pa.array([0, 3, 0, 1], pa.int32()), pa.array(["c", "b", "unused", "a"]))
    assert plain.to_pylist() == other.to_pylist()
    assert column_digest(pa.chunked_array([plain])) == column_digest(pa.chunked_array([other]))


def test_missing_entries_have_no_value() -> None:
    buffers = [pa.array([True, False]).buffers()[1]]
    first, second = (
        pa.Array.from_buffers(pa.float64(), 2, [*buffers, pa.py_buffer(np.array([1.0, hidden]).tobytes())])
        for hidden in (2.0, 3.0)
    )
    assert column_digest(pa.chunked_array([first])) == column_digest(pa.chunked_array([second]))


def test_readings_are_compared_and_copies_begin_anew() -> None:
    digests, numbers = Digests(3), pa.chunked_array([pa.array([1.0, 2.0])])

    def agrees(digests: Digests, block: int, values: pa.ChunkedArray, is_untouched: bool = True) -> bool:
        return digests.agree("x", block, values, is_untouched)

    assert agrees(digests, 1, numbers, is_untouched=False)
    assert not digests.is_known("x", 1)
    assert agrees(digests, 1, numbers)
    assert digests.is_known("x", 1)
    assert not agrees(digests, 1, pa.chunked_array([pa.array([1.0, -2.0])]))
    assert agrees(digests, 0, numbers, is_untouched=False)
    assert not agrees(digests, 0, pa.chunked_array([pa.array([1.0, -2.0])]))
    assert not digests.is_known("x", 0)
    assert not agrees(digests, 2, numbers.cast(pa.float32()))
    other = pickle.loads(pickle.dumps(digests))
    assert other.found == {}
    assert agrees(other, 2, numbers)
    assert digests.merge(other.found) is None
    assert digests.unread("x", other.found["x"]).tolist() == []
    assert Digests(3).unread("x", digests.found["x"]).tolist() == [0, 1, 2]
    third = Digests(3)
    assert agrees(third, 2, pa.chunked_array([pa.array([5.0])]))
    assert third.merge(digests.found) == ("x", 2)
    assert third.merge({"x": digests.found["x"][1:2]}, 1) is None
