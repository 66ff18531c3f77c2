"""Which labels are the same, and what text stands for."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cesaro.policies import labels

SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-5, 5),
    st.floats(allow_nan=False),
    st.integers(-5, 5).map(float),
    st.text(max_size=3),
    st.sampled_from(["0", "1", "True"]),
)


def same(one: Any, other: Any) -> bool:
    """Equality as the documentation says it, written without keys."""
    if isinstance(one, bool) or isinstance(other, bool):
        return isinstance(one, bool) and isinstance(other, bool) and one == other
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str) and one == other
    return bool(one == other)


@given(st.lists(SCALARS, max_size=8), st.lists(SCALARS, max_size=8))
def test_codes_find_equal_labels(known: list[Any], asked: list[Any]) -> None:
    distinct: list[Any] = []
    for label in known:
        if not any(same(label, other) for other in distinct):
            distinct.append(label)
    index = labels.Index(distinct)
    expected = [next((i for i, label in enumerate(distinct) if same(label, value)), -1) for value in asked]
    assert index.codes(labels.array(asked)).tolist() == expected


@given(st.data())
def test_codes_of_typed_arrays(data: st.DataObject) -> None:
    known = data.draw(st.lists(st.one_of(SCALARS, st.integers(-3, 300)), max_size=6, unique_by=labels.key))
    dtype = data.draw(st.sampled_from(["i1", "u1", "i8", "u8", "f4", "f8", "?", "U3", "O"]))
    elements = {
        "?": st.booleans(),
        "U3": st.sampled_from(["0", "1", "a", ""]),
        "O": SCALARS,
        "f4": st.sampled_from([0.0, 1.0, 0.5, np.nan, np.inf, 1e30]),
        "f8": st.sampled_from([0.0, 1.0, -2.0, 0.5, np.nan, -np.inf, 2.0**63]),
        "u8": st.sampled_from([0, 1, 2**63, 2**64 - 1]),
    }.get(dtype, st.integers(0, 100))
    values = np.array(data.draw(st.lists(elements, max_size=6)), dtype=dtype)
    expected = [next((i for i, label in enumerate(known) if same(label, v)), -1) for v in values.tolist()]
    assert labels.Index(known).codes(values).tolist() == expected


def test_numpy_scalars_are_plain() -> None:
    index = labels.Index([np.int8(3), np.float32(1.0), np.str_("a"), np.bool_(True)])
    assert index.labels == (3, 1.0, "a", True)
    assert [index.find(x) for x in (3.0, 1, "a", True, np.array(3), "3")] == [0, 1, 2, 3, 0, -1]


@pytest.mark.parametrize(
    ("text", "levels", "label"),
    [
        ("3", [0, 3], 3),
        (" -3 ", [0, 3], -3),
        ("3.0", [0, 3], 3),
        ("3.5", [0, 3], None),
        ("three", [0, 3], None),
        ("1_0", [0, 10], None),
        ("9" * 5000, [0, 1], None),
        ("True", [False, True], True),
        ("false", [False, True], False),
        ("1", [False, True], None),
        ("1", ["0", "1"], "1"),
        (" 1", ["0", "1"], " 1"),
    ],
)
def test_text_among_labels(text: str, levels: list[Any], label: Any) -> None:
    found = labels.read(text, np.array(levels))
    assert found == label
    assert type(found) is type(label)


def test_text_as_numbers() -> None:
    assert labels.read_vector("0.5, -1e2") == (0.5, -100.0)
    assert [labels.read_vector(text) for text in ("", "a", "1,,2", "nan", "inf", "1_0")] == [None] * 6


def test_lists_keep_their_types() -> None:
    mixed = labels.array([0, "0", True])
    assert mixed.tolist() == [0, "0", True]
    assert mixed.dtype == object
    assert labels.array([[1, 2], [3, 4]]).shape == (2, 2)


def test_words() -> None:
    assert labels.kind([1, 2.0]) == "integers"
    assert labels.kind([1, 2.5]) == "numbers"
    assert labels.kind([True, "a"]) == "truth values and text"
    assert labels.show(range(8)) == "0, 1, 2, 3, 4, 5, … (8 in all)"
