"""Tables: arrays, mappings, CSV."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cesaro.data import Transitions
from cesaro.errors import InputError
from cesaro.policies import attach, policy
from cesaro.policies.tables import TableStates


def log(observations: Any, actions: Any, next_observations: Any = None) -> Transitions:
    return Transitions(observations, actions, np.zeros(len(actions)), next_observations or observations)


NUMBERS = log([0, 2, 1], [0, 1, 0])
TEXT = log(["a", "b"], ["go", "stop"])
EXACT = [[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]]


def write(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


# Arrays


def test_rows_are_states() -> None:
    found = attach(EXACT, NUMBERS).probabilities(np.array([2, 0, 2]))
    np.testing.assert_array_equal(found, np.array(EXACT)[[2, 0, 2]])
    assert policy(EXACT).name == "table"
    assert policy(np.array(EXACT), name="mine").name == "mine"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([[0.5, 0.4]], r"must sum to one over action\. Got 0\.9 at state 0"),
        ([[1.5, -0.5]], r"must not be negative\. Got -0\.5 at state 0, action 1"),
        ([[np.nan, 1]], "must be finite"),
        ([0.5, 0.5], r"must have shape \[state, action\]"),
        ([["a"]], "must be a real array"),
        ([], "must have shape"),
        ((["a", "b"], lambda s: s), r"cesaro\.policies\.Finite\(actions, function\)"),
    ],
)
def test_broken_tables(table: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        policy(table)


def test_state_without_a_row() -> None:
    with pytest.raises(
        InputError, match=r"state 2 in the log .* has none: its states are 0, 1 \(integers\); add the row"
    ):
        attach(EXACT[:2], NUMBERS)
    only_next = log([0, 1], [0, 1], [1, 2])
    with pytest.raises(InputError, match="state 2 in the log"):
        attach(EXACT[:2], only_next)
    with pytest.raises(
        InputError, match=r"state 'a' in the log .*; text never match integers, so write the states as the log does"
    ):
        attach(EXACT, TEXT)
    with pytest.raises(InputError, match=r"state -1 among the observations has none"):
        policy(EXACT).probabilities(np.array([-1]))


@pytest.mark.parametrize(
    ("observations", "words"),
    [
        (np.zeros(2), "one column of numbers"),
        (np.zeros((2, 3)), "vectors of numbers"),
        ({"x": [0.0, 1.0], "y": [1, 2]}, "the columns x, y"),
    ],
)
def test_tables_need_discrete_states(observations: Any, words: str) -> None:
    with pytest.raises(InputError, match=f"is a table and needs one column of discrete states. Got {words}"):
        attach([[1.0, 0.0]], log(observations, [0, 1]))


def test_action_that_was_never_logged() -> None:
    attach([[0.5, 0.5, 0.0]] * 3, NUMBERS).probabilities(np.array([0]))
    with pytest.raises(InputError, match="gives probability 1 to the action 2 at the observation 0,"):
        attach([[0.0, 0.0, 1.0]] * 3, NUMBERS).probabilities(np.array([0]))


# Mappings


def test_mappings() -> None:
    attached = attach({"b": "stop", "a": {"stop": 0.25, "go": 0.75}}, TEXT)
    np.testing.assert_array_equal(attached.probabilities(np.array(["a", "b"])), [[0.75, 0.25], [0, 1]])
    numbers = attach({np.int64(0): 1, 1.0: 0, 2: {0: 1}}, NUMBERS)
    np.testing.assert_array_equal(numbers.probabilities(np.array([0, 1, 2])), [[0, 1], [1, 0], [1, 0]])


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({}, "empty mapping"),
        ({0: {}}, "Got none for state 0"),
        ({0: {0: 0.5, 1: 0.4}}, r"state 0 must sum to one\. Got 0\.9"),
        ({0: {0: "all"}}, r"state 0: the probability of 0 must be a number ≥ 0\. Got 'all'"),
        ({0: {0: -1.0, 1: 2.0}}, r"must be a number ≥ 0\. Got -1\.0"),
        ({0: {0: 0.5, np.float64(0.0): 0.5, 1: 0.0}, 1: 0}, "sum to one"),
    ],
)
def test_broken_mappings(mapping: dict[Any, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        policy(mapping)


# Several columns, and any names


HEATING = Transitions(
    {"temperature": [18.0, 20.5, 18.0], "tariff": ["low", "low", "high"]},
    ["on", "off", "off"],
    np.zeros(3),
    {"temperature": [20.5, 18.0, 18.0], "tariff": ["low", "high", "low"]},
)
SEEN = {"temperature": np.array([18.0, 18.0, 20.5]), "tariff": np.array(["high", "low", "low"], dtype=object)}
HEATED = [[1, 0], [0, 1], [0.75, 0.25]]  # off, on


@pytest.mark.parametrize(
    "text",
    [
        "temperature,tariff,action,probability\n18,low,on,1\n18,high,off,1\n20.5,low,off,.75\n20.5,low,on,.25\n",
        "tariff,temperature,off,on\nlow,18.0,0,1\nhigh,18.0,1,0\nlow,20.5,0.75,0.25\n",
        "tariff,heater,temperature,prob\nlow,on,18.0,1\nhigh,off,18.0,1\nlow,off,20.5,0.75\nlow,on,20.5,0.25\n",
    ],
)
def test_tables_over_several_columns(text: str, tmp_path: Path) -> None:
    np.testing.assert_array_equal(attach(write(tmp_path, text), HEATING).probabilities(SEEN), HEATED)


def test_a_table_need_not_look_at_every_column(tmp_path: Path) -> None:
    attached = attach(write(tmp_path, "tariff,whatever I do\nlow,on\nhigh,off\n"), HEATING)
    np.testing.assert_array_equal(attached.probabilities(SEEN), [[1, 0], [0, 1], [0, 1]])


def test_one_column_may_have_any_name(tmp_path: Path) -> None:
    found = attach(write(tmp_path, "where,what\na,stop\nb,go\n"), TEXT).probabilities(np.array(["a", "b"]))
    np.testing.assert_array_equal(found, [[0, 1], [1, 0]])
    wide = attach(write(tmp_path, "s,1,0\n0,.5,.5\n1,0,1\n2,.75,.25\n"), NUMBERS).probabilities(np.array([0, 1, 2]))
    np.testing.assert_array_equal(wide, EXACT)


def test_a_column_that_is_taken_for_another_is_named(tmp_path: Path) -> None:
    words = "the log's entries of 'observation', for which 'tariff' is taken, are integers, and 'low' is none"
    with pytest.raises(InputError, match=words):
        attach(write(tmp_path, "tariff,action\nlow,1\n"), NUMBERS)


def test_states_of_several_columns_in_a_mapping() -> None:
    rules = {(18, "low"): "on", (18, "high"): "off", (20.5, "low"): {"off": 0.75, "on": 0.25}}
    np.testing.assert_array_equal(attach(rules, HEATING).probabilities(SEEN), HEATED)
    with pytest.raises(
        InputError, match=r"a table whose states have 2 labels each, and the log has one column of labels"
    ):
        attach({("a", "b"): "go"}, TEXT)
    with pytest.raises(InputError, match=r"must have states of one form.* Got states of 1, 2 labels"):
        policy({("a", "b"): "go", "a": "go"})


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=20, unique=True), st.integers(0, 2**32 - 1))
def test_states_of_several_columns_are_found_as_in_a_dict(states: list[tuple[int, ...]], seed: int) -> None:
    rows = {state: row for row, state in enumerate(states)}
    seen = np.random.default_rng(seed).integers(0, 5, (30, 3))
    assert TableStates(states).codes(list(seen.T)).tolist() == [rows.get(tuple(one), -1) for one in seen.tolist()]


def test_frames() -> None:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    columns = {
        "tariff": ["low", "high", "low"],
        "temperature": [18.0, 18.0, 20.5],
        "off": [0.0, 1.0, 0.75],
        "on": [1.0, 0.0, 0.25],
    }
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        np.testing.assert_array_equal(attach(frame, HEATING).probabilities(SEEN), HEATED)
    indexed = pd.DataFrame(columns).set_index(["tariff", "temperature"])
    np.testing.assert_array_equal(attach(indexed, HEATING).probabilities(SEEN), HEATED)
    certain = pd.DataFrame({"seen": [0, 1, 2], "action": [1, 0, 1]})
    np.testing.assert_array_equal(attach(certain, NUMBERS).probabilities(np.array([0, 1, 2])), [[0, 1], [1, 0], [0, 1]])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"0": [0.5, 0.5, 1], "1": [0.5, 0.5, 0]}, "must have columns of what the policy sees"),
        ({"state": [0, 1], "action": [0, None]}, "'table', row 1: column 'action' is empty"),
        ({"state": [0, 1], "action": [0, 1], "p": [1, 2]}, "'table', row 1: a probability must be a number .* Got 2"),
        ({"state": ["0", "1", "2"], "action": [0, 1, 0]}, "integers never match text"),
        ({"state": [0, 1, 2], "action": ["0", "1", "0"]}, "labels are compared as they are"),
        ({"state": [], "action": []}, "has a header and no rows"),
    ],
)
def test_broken_frames(columns: dict[str, list[Any]], words: str) -> None:
    import pandas as pd

    with pytest.raises(InputError, match=words):
        attach(pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in columns.items()}), NUMBERS)


def test_a_series_is_refused() -> None:
    import pandas as pd

    with pytest.raises(InputError, match="whose labels would be lost"):
        policy(pd.Series([0, 1]))


def test_a_state_of_several_columns_without_a_row(tmp_path: Path) -> None:
    attached = attach(write(tmp_path, "temperature,tariff,action\n18,low,on\n"), HEATING)
    with pytest.raises(
        InputError, match=r"must have a row for every state, and \(18\.0, 'high'\) .* has none; add the row"
    ):
        attached.probabilities(SEEN)
    with pytest.raises(InputError, match="line 2: the log's entries of 'temperature' are numbers, and 'warm' is none"):
        attach(write(tmp_path, "temperature,tariff,action\nwarm,low,on\n"), HEATING)


# CSV


@pytest.mark.parametrize(
    "text",
    [
        "state,action,probability\n0,0,0.5\n0,1,0.5\n1,0,1\n2,1,0.75\n2,0,0.25\n",
        "probability,state,action\r\n0.5,0,1\r\n0.5,0,0\r\n1,1,0\r\n0.25,2,0\r\n0.75,2,1\r\n",
        "\ufeffstate,0,1\n0,0.5,.5\n\n1,1,0\n2,0.25,7.5e-1\n",
        'state, "1" ,0\n0,0.5,0.5\n1.0,0,1\n2, 0.75,0.25\n'.replace('"', ""),
    ],
)
def test_forms_of_csv(text: str, tmp_path: Path) -> None:
    attached = attach(write(tmp_path, text), NUMBERS)
    np.testing.assert_array_equal(attached.probabilities(np.array([0, 1, 2])), EXACT)
    assert attached.name == "table"


def test_certain_actions(tmp_path: Path) -> None:
    path = write(tmp_path, "state,action\na,stop\nb,go\n")
    found = attach(str(path), TEXT).probabilities(np.array(["a", "b"]))
    np.testing.assert_array_equal(found, [[0, 1], [1, 0]])


def test_text_is_read_as_the_log_has_it(tmp_path: Path) -> None:
    path = write(tmp_path, "state,action\n0,1\n1,0\n")
    observations = np.array(["0", "1"])
    found = attach(path, log(observations, ["0", "1"])).probabilities(observations)
    np.testing.assert_array_equal(found, [[0, 1], [1, 0]])
    vectors = Transitions([0, 1], np.zeros((2, 2)), [0, 0], [0, 1])
    path = write(tmp_path, 'state,action\n0,"0.5,1"\n1,"0,-1"\n')
    drawn = attach(path, vectors).sample(np.array([1, 0]), np.random.default_rng(0))
    assert drawn.tolist() == [[0.0, -1.0], [0.5, 1.0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("state,action,probability\n", "a header and no rows"),
        ("state;action;probability\n0;0;1\n", "must have columns of what the policy sees"),
        ("action,probability\n0,1\n", "must have columns of what the policy sees"),
        ("state,action,probability,note\n0,0,1,x\n", "must have columns of what the policy sees"),
        ("state,probability\n0,1\n", "must have columns of what the policy sees"),
        ("0,0.5,0.5\n1,1,0\n", "name every column once"),
        ("0,1\n0,1\n1,1\n2,0\n", "must have columns of what the policy sees"),
        ("s,t,0\n0,1,0\n", "must have columns of what the policy sees"),
        ("state,0,0\n0,1,0\n", "name every column once"),
        ("state,0,\n0,1,0\n", "name every column once"),
        ("state,0,1\n0,1\n", r"table\.csv', line 2: must have 3 fields as the header\. Got 2"),
        ("state,0,1\n0,1,\n", "line 2: column '1' is empty"),
        ("state,0,1\n0,1,x\n", "line 2: a probability must be a number between 0 and 1. Got 'x'"),
        ("state,0,1\n0,1,nan\n", "Got 'nan'"),
        ("state,0,1\n0,2,-1\n", "Got '2'"),
        ("state,0,1\n0,0.5,0.4\n1,1,0\n2,1,0\n", r"state 0 must sum to one\. Got 0\.9"),
        ("state,0,1\n0,1,0\n0,1,0\n", "line 3: state 0 and action 0 occur twice"),
        ("state,0,1\n0,1,0\n0.0,1,0\n", "line 3: state 0 and action 0 occur twice"),
        ("state,action\n0,0\n0,1\n1,0\n2,0\n", r"state 0 must sum to one\. Got 2"),
        ("state,0,1\n0,1,0\n1,1,0\n", "state 2 in the log"),
        ("state,action\n0,go\n", "line 2: the log's actions are integers, and 'go' is none; write them as"),
        ("state,action\na,0\n", "line 2: the log's states are integers, and 'a' is none"),
        ('state,action\n"0,0\n', "cannot be read as CSV"),
    ],
)
def test_broken_csv(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words) as caught:
        attach(write(tmp_path, text), NUMBERS)
    assert "\n" not in str(caught.value)


def test_unreadable_csv(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b"state,action\n\xff\xfe,0\n")
    with pytest.raises(InputError, match=r"table\.csv' cannot be read as CSV"):
        policy(path)
    with pytest.raises(InputError, match=r"missing\.csv' cannot be found"):
        policy(tmp_path / "missing.csv")
    with pytest.raises(InputError, match="needs a log"):
        policy(write(tmp_path, "state,action\n0,1\n")).probabilities(np.array([0]))
    with pytest.raises(InputError, match=r"must have columns of what the policy sees \('observation_0', "):
        attach(path, log(np.zeros((2, 3)), [0, 1]))
    with pytest.raises(
        InputError, match=r"table\.csv' holds a row for each state, and the log .* one column of numbers"
    ):
        attach(path, log(np.zeros(2), [0, 1]))


@given(st.text(max_size=60) | st.text(alphabet='state,cioprbly01."\n\r ', max_size=60))
def test_any_text_is_a_table_or_one_sentence(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text(text, encoding="utf-8", errors="replace", newline="")
    try:
        found = attach(path, NUMBERS).probabilities(np.array([0, 1, 2]))
    except InputError:
        return
    assert found is not None
    np.testing.assert_allclose(found.sum(axis=1), 1)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_every_form_is_the_same_policy(
    tmp_path_factory: pytest.TempPathFactory, states: int, actions: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.ones(actions), size=states)
    pairs = [(s, a) for s in range(states) for a in range(actions)]
    data = log(*(list(column) for column in zip(*pairs)))
    folder = tmp_path_factory.getbasetemp()
    long = "".join(f"{s},{a},{float(table[s, a])!r}\n" for s, a in rng.permutation(pairs))
    wide = "".join(f"{s},{','.join(map(str, row))}\n" for s, row in enumerate(table.tolist()))
    forms: list[Any] = [table, {s: dict(enumerate(row)) for s, row in enumerate(table.tolist())}]
    for number, text in enumerate(
        (f"state,action,probability\n{long}", f"state,{','.join(map(str, range(actions)))}\n{wide}")
    ):
        forms.append(folder / f"table{number}.csv")
        forms[-1].write_text(text)
    observations = rng.integers(0, states, 10)
    for form in forms:
        found = attach(form, data).probabilities(observations)
        assert found is not None
        np.testing.assert_allclose(found, table[observations], rtol=1e-12)
