"""Roles, kinds and everything that is refused: one sentence with file, column, row and remedy."""

import json
import os
import socket
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from cesaro.data import Categories, Transitions, Values, read
from cesaro.errors import InputError


def log(**columns: Any) -> dict[str, Any]:
    """A small discrete log; a column that is None is left out."""
    base: dict[str, Any] = {"state": ["a", "b", "a"], "action": [0, 1, 0], "reward": [1.0, 2.0, 3.0]}
    return {name: column for name, column in (base | columns).items() if column is not None}


def refused(match: str, source: Any, **options: Any) -> None:
    with pytest.raises(InputError, match=match) as caught:
        read(source, **options).load()
    text = str(caught.value)
    assert text.endswith((".", "?"))
    assert text.isprintable()


def categories(values: Values) -> Categories:
    column = values.columns[0]
    assert isinstance(column, Categories)
    return column


# Roles


@pytest.mark.parametrize(
    ("columns", "roles"),
    [
        (["obs", "actions", "rewards"], {"observation": ("obs",), "action": ("actions",), "reward": ("rewards",)}),
        (["observation_0", "observation_1", "action", "reward"], {"observation": ("observation_0", "observation_1")}),
        (["state_1", "state_0", "action", "reward"], {"observation": ("state_0", "state_1")}),
        (["state", "action_0", "action_1", "reward"], {"action": ("action_0", "action_1")}),
        (["state", "action", "reward", "next_state"], {"next_observation": ("next_state",)}),
        (["obs", "action", "reward", "next_state"], {"next_observation": ("next_state",)}),
        (
            ["obs_0", "obs_1", "action", "reward", "next_obs_1", "next_obs_0"],
            {"next_observation": ("next_obs_0", "next_obs_1")},
        ),
        (["state", "action", "reward", "episode", "step"], {"trajectory": ("episode",), "time": ("step",)}),
        (
            ["state", "action", "reward", "trajectory_id", "timestamp"],
            {"trajectory": ("trajectory_id",), "time": ("timestamp",)},
        ),
        (
            ["state", "action", "reward", "terminals", "timeouts"],
            {"terminated": ("terminals",), "truncated": ("timeouts",)},
        ),
        (["state", "action", "reward", "terminated", "truncated", "done"], {"terminated": ("terminated",)}),
    ],
)
def test_default_names(columns: list[str], roles: dict[str, tuple[str, ...]]) -> None:
    flags = ("terminals", "timeouts", "terminated", "truncated", "done")
    opened = read(pa.table({name: [False, False] if name in flags else [0.5, 1.5] for name in columns}))
    for role, expected in roles.items():
        assert opened.schema.roles[role].columns == expected


def test_all_missing_entries_are_counted(tmp_path: Path) -> None:
    refused(r"Got an empty entry at row 1 \(counted from 0\), 2 in all; fill them in", log(reward=[1.0, None, None]))
    file = tmp_path / "log.csv"
    file.write_text("state,action,reward\na,0,1\n,1,2\n,0,3\n", encoding="utf-8")
    refused(r"Got an empty entry at row 1 \(counted from 0\), line 3, 2 in all; fill them in", file)


def test_columns_with_a_comma_are_a_list() -> None:
    refused(r'pass observation=\["state", "action"\]', log(), observation="state, action")


def test_an_argument_misspelt_is_named() -> None:
    with pytest.raises(InputError, match=r"^read has no argument 'rewards'; did you mean 'reward'\?$"):
        read({}, rewards="r")  # type: ignore[call-arg]


def test_unasked_columns_are_said() -> None:
    found = read(log(weight=[1.0, 2.0, 3.0]))
    assert "weight" not in found.schema.roles
    assert any('"weight" was not used' in note for note in found.notes)
    weighted = read(log(weight=[1.0, 2.0, 3.0]), weight="weight").load()
    assert weighted.weights is not None
    assert weighted.weights.tolist() == [1.0, 2.0]
    assert not any("weight" in note for note in read(log(weight=[1.0, 2.0, 3.0]), weight=False).notes)


@pytest.mark.parametrize(
    ("match", "columns", "options"),
    [
        (r'observation must be clear .* "obs" and "state"; pass observation="obs"', {"obs": [1, 2, 3]}, {}),
        (r'observation must be clear .* "state" and "obs_\*"', {"obs_0": [1, 2, 3]}, {}),
        (r'reward must be clear .* "reward" and "rewards"', {"rewards": [1, 2, 3]}, {}),
        (r'time must be clear .* "time" and "step"', {"time": [1, 2, 3], "step": [1, 2, 3]}, {}),
        (r'"done" may mean termination or a time limit.*terminated="done"', {"done": [0, 0, 1]}, {}),
        (r'"done" may mean .* Got no truncated', {"done": [0, 0, 1], "terminated": [0, 0, 1]}, {}),
        (
            r'columns of action must be known. Got the columns "state", "reward"; call read\(…, action="…"\)',
            {"action": None},
            {},
        ),
        (
            r"observation and action and reward must be known",
            {"state": None, "action": None, "reward": None, "x": [1]},
            {},
        ),
        (r'must have the column "stat" that observation= names.*did you mean "state"\?', {}, {"observation": "stat"}),
        (r'columns that begin with "x_"', {}, {"observation": "x_*"}),
        (r"must be a column name, a list of names or a prefix", {}, {"observation": 3}),
        (r"must be a column name, a list of names or a prefix", {}, {"observation": []}),
        (r'must name each column once. Got "state" twice', {}, {"observation": ["state", "state"]}),
        (r"reward must be one column", {}, {"reward": ["reward", "action"]}),
        (
            r'numbered from 0 without a hole. Got "x_2" in place 1',
            {"x_0": [1, 2, 3], "x_2": [1, 2, 3]},
            {"observation": "x_*"},
        ),
        (
            r'numbered columns or named ones, not both. Got "x_0" and "x_mean"',
            {"x_0": [1], "x_mean": [1]},
            {"observation": "x_*"},
        ),
        (
            r'a next column for every observation column.*"next_y"',
            {"x": [1], "y": [1], "next_x": [1]},
            {"observation": ["x", "y"]},
        ),
        (
            r"next_observation must be given where observation is",
            {"x": [1.0, 2, 3], "next_state": [1, 2, 3]},
            {"observation": "x"},
        ),
        (
            r"must have the columns of observation. Got 2 against 1",
            {"x": [1], "y": [1]},
            {"next_observation": ["x", "y"]},
        ),
        (r"must not share a column", {}, {"observation": "state", "next_observation": "state"}),
        (r"must not be one column", {"end": [0, 0, 1]}, {"terminated": "end", "truncated": "end"}),
        (
            r'kinds must name columns of the observation or the action. Got "reward"',
            {},
            {"kinds": {"reward": "number"}},
        ),
        (r'kinds of "state" must be "number" or "category"', {}, {"kinds": {"state": "float"}}),
        (r"kinds must map columns", {}, {"kinds": ["state"]}),
        (r"available must be clear", {"available": [[0]] * 3, "available_0": [1, 1, 1]}, {}),
    ],
)
def test_unclear_roles_are_refused(match: str, columns: dict[str, Any], options: dict[str, Any]) -> None:
    refused(match, log(**columns), **options)


def test_false_says_that_there_is_no_such_column() -> None:
    columns = log(done=[0, 0, 1], time=[5, 5, 5], next_state=["a", "b", "a"])
    options: dict[str, Any] = {"time": False, "next_observation": False, "terminated": False, "truncated": False}
    assert set(read(columns, **options).load().schema.roles) == {"observation", "action", "reward"}


# Forms and kinds


@pytest.mark.parametrize(
    ("observation", "form", "discrete", "dtype"),
    [
        ([1, 2, 1], "lone", True, "int64"),
        (np.array([1, 2, 1], dtype=np.uint8), "lone", True, "int64"),
        (["x", "y", "x"], "lone", True, "object"),
        ([True, False, True], "lone", True, "bool"),
        (pd.Series(["x", "y", "x"], dtype="category"), "lone", True, "object"),
        (pd.Series([3, 4, 3], dtype="category"), "lone", True, "int64"),
        ([1.0, 2.0, 1.0], "lone", False, "float64"),
        (np.array([1, 2, 1], dtype=np.float16), "lone", False, "float32"),
        (np.array([1, 2, 1], dtype=np.float32), "lone", False, "float32"),
        (pa.array([Decimal("1.5"), Decimal("2.5"), Decimal("1.0")]), "lone", False, "float64"),
        (np.ones((3, 2), dtype=np.float32), "vector", False, "float32"),
        (np.ones((3, 2), dtype=np.int64), "vector", False, "float64"),
        (np.ones((3, 1)), "vector", False, "float64"),
        (np.ones((3, 2), dtype=bool), "vector", False, "float64"),
        ([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "vector", False, "float64"),
    ],
)
def test_form_follows_from_the_type(observation: Any, form: str, discrete: bool, dtype: str) -> None:
    found = read(log(state=observation)).load()
    assert found.observations.form == found.schema.observation.form == form
    assert found.observations.is_discrete == discrete
    assert found.observations.plain().dtype == dtype


def test_kinds_override() -> None:
    assert read(log(), kinds={"action": "number"}).action_levels is None
    found = read(log(state=[1.0, 2.0, 1.0]), kinds={"state": "category"}).load()
    assert found.observations.plain().tolist() == [1, 2]
    named = log(x=[1, 2, 3], y=[0.5, 0.5, 1.5])
    for key in ("x", "observation"):
        assert read(named, observation=["x"], kinds={key: "number"}).schema.observation.kinds == ("number",)
    kinds = read(named, observation=["x", "y"], kinds={"x": "category"}).schema.observation.kinds
    assert kinds == ("category", "number")
    single = read(log(state=np.array([[1], [2], [1]])), kinds={"state": "category"}).load()
    assert single.observations.form == "lone"
    assert single.observations.plain().tolist() == [1, 2]
    vector = read(log(state=np.array([[1], [2], [1]])), kinds={"state": "number"}).load()
    assert vector.observations.plain().tolist() == [[1.0], [2.0]]


def test_prefixed_columns_of_mixed_kinds_are_named() -> None:
    columns = log(state=None, x_load=[0.5, 1.5, 2.5], x_hour=[1, 2, 3])
    found = read(columns, observation="x_*").load()
    assert found.observations.form == "vector"
    assert found.observations.names == ("x_load", "x_hour")
    assert found.observations.plain().tolist() == [[0.5, 1.0], [1.5, 2.0]]
    mixed = read({**columns, "x_region": ["n", "s", "n"]}, observation="x_*").load()
    assert mixed.observations.form == "named"


def test_lists_among_named_columns_become_one_column_per_entry() -> None:
    found = read(log(x=[[1.0, 2.0]] * 3), observation=["x", "state"]).load()
    assert found.observations.names == ("x_0", "x_1", "state")


def test_several_action_columns_are_a_vector() -> None:
    found = read(log(action=None, action_0=[0.5, 1.0, 2.0], action_1=[1, 2, 3])).load()
    assert found.actions.form == "vector"
    assert found.actions.names == ("action_0", "action_1")
    assert found.action_levels is None
    listed = read(log(u=[0.5, 1.0, 2.0], v=[1, 2, 3]), action=["u", "v"]).load()
    assert listed.actions.plain().tolist() == found.actions.plain().tolist()
    refused(
        "several action columns must all hold numbers.*join the action columns",
        log(v=["x"] * 3),
        action=["action", "v"],
    )


def test_levels_cover_next_observations() -> None:
    found = Transitions(["b", "c"], [0, 1], [0.0, 1.0], ["z", "a"])
    now, then = categories(found.observations), categories(found.next_observations)
    assert now.levels is then.levels
    assert now.levels.tolist() == ["a", "b", "c", "z"]
    assert then.codes.tolist() == [3, 0]


def test_levels_that_no_row_has_are_left_out() -> None:
    column = pd.Series(["x", "z", "x"], dtype=pd.CategoricalDtype(["z", "y", "x"]))
    assert categories(read(log(state=column)).load().observations).levels.tolist() == ["x", "z"]


def test_integer_next_states_that_pandas_made_floats() -> None:
    frame = pd.DataFrame({"state": [1, 2, 3], "next_state": [2, 3, np.nan], "action": [0] * 3, "reward": [0.0] * 3})
    found = read(frame.assign(terminated=[0, 0, 1])).load()
    assert found.next_observations.plain().tolist() == [2, 3, 1]


def test_large_ids_stay_exact() -> None:
    ids = [2**53, 2**53 + 1, 2**53, 2**53 + 1]
    columns = {"state": ids, "action": [0] * 4, "reward": [0.0] * 4, "trajectory": ids}
    for source in (columns, pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        found = read(source).load()
        assert found.trajectory is not None
        assert found.trajectory.tolist() == [0, 1]
        assert categories(found.observations).levels.tolist() == ids[:2]
    unsigned = pa.array([2**64 - 1, 2**64 - 2] * 2, pa.uint64())
    assert read({**columns, "trajectory": unsigned}).counts["trajectories"] == 2
    refused(r"labels of at most 2\*\*63 − 1. Got 18446744073709551615 at row 0", {**columns, "state": unsigned})
    refused(
        r"float64 holds exactly.*9007199254740993 at row 1.*kinds=", {**columns, "x": ids}, observation=["x", "state"]
    )


def test_large_ids_in_csv(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    first, second = 2**70, 2**70 + 1
    rows = [f"{s},{s},0,1.0" for s in (first, second, first, second)]
    path.write_text("\n".join(["state,trajectory,action,reward", *rows]))
    refused(r"whole numbers of 2\*\*53 or more; pass kinds=", path)
    found = read(path, kinds={"state": "category"}).load()
    assert found.counts["trajectories"] == 2
    assert categories(found.observations).levels.tolist() == [str(first), str(second)]


@pytest.mark.parametrize("column", ["reward", "time", "terminated", "weight"])
def test_stray_text_in_csv_must_be_corrected(column: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    values = {name: ["0", "1", "2"] for name in ("state", "action", "reward", column)}
    values[column] = ["0", "oops", "1"]
    path.write_text("\n".join([",".join(values), *(",".join(row) for row in zip(*values.values()))]))
    options = {"weight": "weight"} if column == "weight" else {}
    refused(
        rf"log.csv: column \"{column}\" must hold numbers or text, not both. Got 'oops' at row 1 \(counted from 0\), line 3; "
        r"correct that entry\.$",
        path,
        **options,
    )


@pytest.mark.parametrize(("column", "owner"), [("state", "state"), ("next_state", "state"), ("action", "action")])
def test_kinds_that_are_offered_for_text_in_csv_are_taken(column: str, owner: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    values = {name: ["a", "b", "c"] for name in ("state", "action", "next_state")} | {"reward": ["0", "1", "2"]}
    values[column] = ["1", "b", "2"]
    path.write_text("\n".join([",".join(values), *(",".join(row) for row in zip(*values.values()))]))
    refused(rf"Got 'b' at row 1 .*correct that entry, or pass kinds=\{{\"{owner}\": \"category\"\}} if", path)
    found = read(path, kinds={owner: "category"}).load()
    role = {"state": found.observations, "next_state": found.next_observations, "action": found.actions}[column]
    assert role.plain().tolist() == ["1", "b", "2"]


def test_text_from_data_is_written_out(tmp_path: Path) -> None:
    odd = "re\nward\x1b[31m"
    refused(r'column "re\\nward\\x1b\[31m" must be finite', log(**{odd: [np.nan] * 3}), reward=odd)
    refused(r"re\\nward", {odd: [1]})
    (tmp_path / "log.csv").write_bytes(b"state,action,reward\n1,2\x1b[31m\n")
    refused(r"log.csv", tmp_path / "log.csv")


# Refused data


@pytest.mark.parametrize(
    ("match", "columns"),
    [
        (
            r'column "reward" must be finite. Got nan at row 1 \(counted from 0\); fill it in, or',
            {"reward": [1.0, np.nan, 2.0]},
        ),
        (r'column "reward" must be finite. Got inf at row 2', {"reward": [1.0, 2.0, np.inf]}),
        (r'column "reward" must not have missing entries. Got an empty entry at row 1', {"reward": [1.0, None, 2.0]}),
        (r"column \"reward\" must hold numbers. Got 'x' at row 0", {"reward": ["x", "y", "z"]}),
        (r'column "reward" must hold numbers', {"reward": [[1.0]] * 3}),
        (
            r'column "state" must be finite. Got -inf at row 0 \(counted from 0\), entry 1',
            {"state": np.array([[1, -np.inf], [1, 1], [1, 1]])},
        ),
        (r'column "state" must not have missing entries. Got an empty entry at row 2', {"state": ["a", "b", None]}),
        (r'column "state" must hold numbers. Got no entry at all', {"state": pa.nulls(3)}),
        (
            r"must hold lists of one length \(2 in the first row\). Got 1 entries at row 1",
            {"state": [[1.0, 2.0], [1.0], [1.0, 2.0]]},
        ),
        (r"must hold lists with at least one entry", {"state": pa.array([[], [], []], pa.list_(pa.float64()))}),
        (r"must not have missing entries. Got an empty entry at row 1", {"state": pa.array([[1.0], [None], [2.0]])}),
        (r"lists of numbers", {"state": [["a"], ["b"], ["c"]]}),
        (r"must be clear about its kind. Got lists of one entry of type int64", {"state": np.ones((3, 1), int)}),
        (r"must be clear about its kind. Got lists of one entry", {"action": np.ones((3, 1), int)}),
        (r"Got type struct<x: int64>; flatten it", {"state": [{"x": 1}] * 3}),
        (r"Got type timestamp.*for example into the hour", {"state": np.arange(3).astype("datetime64[s]")}),
        (r"must have shape \[row\] or \[row, entry\]. Got \(3, 2, 2\)", {"state": np.zeros((3, 2, 2))}),
        (r"Got dtype complex128", {"state": np.zeros(3, complex)}),
        (r'"action" must be an array of numbers, text or true/false', {"action": [1, "a", 2]}),
        (r'column "action" must not have missing entries. Got an empty entry at row 0', {"action": [None, 1, 2]}),
        (r'the same number of rows. Got 3 in "state" and 2 in "reward"', {"reward": [1.0, 2.0]}),
        (r'column "terminated" must be true/false or 0/1. Got 2 at row 1', {"terminated": [0, 2, 1]}),
        (r"column \"terminated\" must be true/false or 0/1. Got 'no' at row 0", {"terminated": ["no", "no", "yes"]}),
        (r'column "truncated" must not have missing entries', {"truncated": [False, None, True]}),
        (
            r"column \"time\" must hold times.* write times as 2024-01-31 14:00:00 or as numbers",
            {"time": ["1", "2", "3"]},
        ),
        (r'column "time" must hold times', {"time": [True, False, True]}),
        (r'column "time" must hold times', {"time": pa.array([1, 2, 3], pa.time32("s"))}),
        (r'column "time" must be finite. Got nan at row 1', {"time": [0.0, np.nan, 1.0]}),
        (r'column "time" must not have missing entries. Got an empty entry at row 1', {"time": [0, None, 1]}),
        (
            r'column "trajectory" must not have missing entries. Got an empty entry at row 1',
            {"trajectory": ["x", None, "x"]},
        ),
        (r'column "trajectory" must hold whole numbers.*Got 0.5 at row 0', {"trajectory": [0.5, 1.0, 1.0]}),
        (r'column "trajectory" must hold one id per row', {"trajectory": [[1], [2], [3]]}),
        (r"must have at least one row", {"state": [], "action": [], "reward": []}),
        (r"must leave at least one transition. Got none of 3 rows", {"trajectory": [1, 2, 3]}),
        (r'"next_state" must have the form of "state"', {"next_state": [[1.0]] * 3}),
        (
            r'"next_state" must have the width of "state" \(2\). Got 3',
            {"state": np.ones((3, 2)), "next_state": np.ones((3, 3))},
        ),
        (r'"next_state" must hold labels of the type of the column it belongs to', {"next_state": [1, 2, 3]}),
        (r'"next_state" must hold whole numbers', {"state": [1, 2, 3], "next_state": [1.0, 2.5, 3.0]}),
    ],
)
def test_bad_columns_are_refused(match: str, columns: dict[str, Any]) -> None:
    refused(match, log(**columns))


def test_bad_weights_are_refused() -> None:
    for match, weights in (
        (r'column "weight" must not be negative. Got -1 at row 1', [1.0, -1.0, 1.0]),
        (r'column "weight" must not be zero in every row', [0.0, 0.0, 1.0]),
        (r'column "weight" must be finite. Got nan', [0.0, np.nan, 1.0]),
        (r'column "weight" must not have missing entries', [0.0, None, 1.0]),
    ):
        refused(match, log(weight=weights), weight="weight")


def test_category_kind_needs_labels() -> None:
    refused("whole numbers below", log(state=[0.5, 1.0, 2.0]), kinds={"state": "category"})
    refused("must have one entry per row to hold labels", log(state=np.ones((3, 2))), kinds={"state": "category"})
    refused(
        'must be "number", because it holds lists',
        log(x=[[1.0]] * 3),
        observation=["x", "state"],
        kinds={"x": "category"},
    )
    refused("must hold numbers. Got 'a' at row 0", log(), kinds={"state": "number"})


def test_rows_are_counted_within_their_file(tmp_path: Path) -> None:
    for name, reward in (("a", 1.0), ("b", float("nan"))):
        pq.write_table(pa.table(log(reward=[1.0, 1.0, reward])), tmp_path / f"{name}.parquet")
    refused(
        rf"^{tmp_path.name}: column \"reward\" must be finite. Got nan at row 2 of b.parquet \(counted from 0\)",
        tmp_path,
    )


def test_row_of_the_file_is_named_after_sorting() -> None:
    columns = log(state=[1.0, 2.0, 3.0], next_state=[1.0, np.nan, 3.0], time=[2, 1, 0])
    refused(r'column "next_state" must not have missing .* Got one at row 1', columns)
    refused(
        r'column "reward" must be finite and at most 1e\+100 in size where.* Got nan at row 0',
        log(reward=[np.nan, 1.0, 2.0], time=[2, 1, 0]),
        reward_lag=1,
    )


# Files


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("log.parquet", b"", r"log.parquet must hold a log. Got an empty file"),
        ("log.parquet", b"PAR1 nothing else", r"log.parquet must be a complete Parquet file"),
        ("log.parquet", b"a,b\n1,2\n", r"log.parquet must be a complete Parquet file"),
        ("log.arrow", b"ARROW1\0\0 broken", r"log.arrow must be a complete Arrow file"),
        ("log.feather", b"FEA1 old", r"log.feather must be a complete Arrow file"),
        ("log.npz", b"PK\x03\x04 broken", r"log.npz must be a complete NPZ file"),
        ("log.hdf5", b"\x89HDF broken", r"log.hdf5 must be a complete HDF5 file"),
        ("log.csv", b"\n\n", r"log.csv must be a CSV file with a header"),
        ("log.csv", b"state,action,reward\n", r"log.csv must have at least one row"),
        ("log.csv", b"state,action,reward\n1,2\n", r"log.csv must be a CSV file"),
        ("log.csv", b"state,state,reward\n1,2,3\n", r'different column names. Got "state" twice'),
        ("log.csv", b"state|action|reward\n1|2|3\n", r"holds '\|': write the file with commas"),
        (
            "log.csv",
            b"state,action,reward\n1,0,\n2,0,1\n",
            r'column "reward" must not have missing entries. Got an empty entry at row 0',
        ),
        (
            "log.csv",
            b"state,action,reward\na,0,1\n,0,1\n",
            r'column "state" must not have missing entries. Got an empty entry at row 1',
        ),
        (
            "log.csv",
            b"state,action,reward\n1.5,0,1\nabc,0,1\n",
            r"numbers or text, not both. Got 'abc' at row 1.*kinds=",
        ),
        ("log.csv", b"state,action,reward\n\xff\xfe,0,1\n", r"log.csv"),
        ("log.xyz", b"whatever", r"log.xyz must be Parquet, CSV, Arrow/Feather, NPZ or HDF5. Got .xyz"),
        ("log", b"whatever", r"Got no file ending"),
    ],
)
def test_broken_files_are_refused(name: str, content: bytes, match: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    refused(match, tmp_path / name)


def test_paths_without_a_log(tmp_path: Path) -> None:
    refused("must hold Parquet, CSV or Arrow files. Got a folder without any", tmp_path)
    refused("must be an existing file, folder or pattern", tmp_path / "absent.parquet")
    refused("must match files. Got none", str(tmp_path / "*.parquet"))
    refused("must be an existing file", "a\0b")
    (tmp_path / "a.txt").write_text("x")
    refused(r"must match Parquet, CSV or Arrow files only. Got a.txt", str(tmp_path / "a*"))
    for text in ("", " ", "\n"):
        refused("A log's path must not be empty", text)
    refused("A log must be a path, a pyarrow table", 3)
    refused("A log must be a path", pl.LazyFrame({"x": [1]}))


def test_paths_that_are_no_regular_file(tmp_path: Path) -> None:
    pipe = tmp_path / "log.parquet"
    os.mkfifo(pipe)
    refused(r"log.parquet must be a regular file or a folder. Got a named pipe; copy", pipe)
    refused(r"^log.parquet must be readable, .* Got a named pipe; repair or move it\.$", str(tmp_path / "*.parquet"))
    refused(r"^log.parquet must be readable, .* Got a named pipe; repair or move it\.$", tmp_path)
    refused(r"null must be a regular file or a folder. Got a device", os.devnull)
    pipe.unlink()
    pipe.mkdir()
    refused(r"^log.parquet must be readable, .* Got a folder; repair or move it\.$", str(tmp_path / "*.parquet"))
    (tmp_path / "part.parquet").symlink_to(tmp_path / "absent")
    refused(r"^part.parquet must be readable, .* Got a broken link; repair or move it\.$", str(tmp_path / "p*.parquet"))
    refused(
        r"part.parquet must be an existing file, folder or pattern. Got a broken link; check", tmp_path / "part.parquet"
    )
    (tmp_path / "round.parquet").symlink_to(tmp_path / "round.parquet")
    refused(
        r"round.parquet must be a file or a folder that can be read. Got: Too many levels", tmp_path / "round.parquet"
    )
    with socket.socket(socket.AF_UNIX) as opened, pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)  # the path of a socket may not be long
        opened.bind("log.csv")
        refused(r"log.csv must be a regular file or a folder. Got a socket", "log.csv")


def test_files_of_different_schemas(tmp_path: Path) -> None:
    pq.write_table(pa.table(log()), tmp_path / "a.parquet")
    pq.write_table(pa.table(log(reward=[1, 2, 3])), tmp_path / "b.parquet")
    refused(
        r'b.parquet must have the schema of a.parquet. Got type int64 instead of double in column "reward"', tmp_path
    )
    pq.write_table(pa.table(log(extra=[1, 2, 3])), tmp_path / "b.parquet")
    refused(r'b.parquet must have the columns of a.parquet. Got "extra" only in b.parquet', tmp_path)
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    refused("b.parquet must be a complete Parquet file", tmp_path)


def test_tables_without_columns_or_with_twice_the_same(tmp_path: Path) -> None:
    refused("must have columns. Got none", pa.table({}))
    refused("must have columns. Got none", {})
    refused("must have columns. Got none", pd.DataFrame())
    double = pa.table([pa.array([1]), pa.array([2])], names=["x", "x"])
    refused('table must have different column names. Got "x" twice', double)
    refused('frame must have different column names. Got "x" twice', pd.DataFrame([[1, 2]], columns=["x", "x"]))
    pq.write_table(double, tmp_path / "log.parquet")
    refused(r'log.parquet must have different column names. Got "x" twice', tmp_path / "log.parquet")
    pyarrow.feather.write_feather(pa.table({}), tmp_path / "log.feather")
    refused("must have columns. Got none", tmp_path / "log.feather")


def test_frames_of_objects() -> None:
    refused('"state" must be an array of numbers, text or true/false', pd.DataFrame(log(state=[1, "a", object()])))
    refused("Python objects", pl.DataFrame(log(state=[object()] * 3)))
    refused("with type object.*; convert it to numbers, text or true/false", log(state=[object()] * 3))


@pytest.mark.parametrize(
    ("values", "got"),
    [
        ([1, None, "a", "b"], r"Got 'a' \(str\) at row 2 \(counted from 0\) after int"),
        (["a", "b", 3, 4], r"Got 3 \(int\) at row 2 \(counted from 0\) after str"),
        ([1, 0, True, 2], r"Got True \(bool\) at row 2"),
        ([1.0, 2, 3, Decimal(1)], r"Got Decimal\('1'\) \(Decimal\) at row 3"),
        ([1, 2, object(), "a"], r"Got <object .* \(object\) at row 2"),
        ([1, [2], 3, 4], r"Got \[2\] \(list\) at row 1"),
        ([[1.0], [2.0], ["a"], [1.0]], r"Got 'a' \(str\) at row 2 \(counted from 0\) after float"),
        (["a", "\n" * 90, 1.5, "a"], r"Got 1.5 \(float\) at row 2"),
        ([1, "\n" * 90, 1.5, "a"], r"Got '[\\n]+… \(str\) at row 1"),
    ],
)
def test_mixed_types_name_the_first_row_that_differs(values: list[Any], got: str) -> None:
    array = np.empty(4, dtype=object)
    array[:] = values
    columns = {"action": [0, 1, 0, 1], "reward": [0.0] * 4}
    end = ".*; convert the column to one type\\.$"
    refused(rf'arrays: "state" must be an array .* not of several types\. {got}{end}', {**columns, "state": values})
    refused(rf'arrays: "state" must be an array .* not of several types\. {got}{end}', {**columns, "state": array})
    frame = pd.DataFrame({**columns, "state": pd.Series(array)})
    refused(rf'frame: "state" must be an array .* not of several types\. {got}{end}', frame)
    objects = pl.DataFrame({**columns, "state": pl.Series(values, dtype=pl.Object)})
    refused(rf'frame: "state" must be an array .* not of several types\. {got}{end}', objects)


def test_mixed_types_beside_missing_entries() -> None:
    refused(r"Got nan \(float\) at row 1 \(counted from 0\) after str", log(state=["a", float("nan"), "b"]))
    refused(
        r"missing entries. Got an empty entry at row 1",
        pd.DataFrame(log(state=pd.Series(["a", np.nan, "b"], dtype=object))),
    )
    frame = pd.DataFrame(log(state=pd.Series(["a", np.nan, 1], dtype=object)))
    refused(r"Got 1 \(int\) at row 2 \(counted from 0\) after str", frame)
    frame = pd.DataFrame(log(state=pd.Series(["a", "b", 1], dtype="category")))
    refused(r"Got 1 \(int\) at row 2 \(counted from 0\) after str", frame)
    wide = np.array([[1, 2], [3, "a"], [5, 6]], dtype=object)
    refused(r"Got 'a' \(str\) at row 1 \(counted from 0\) after int", log(state=wide))


def test_array_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", state=np.array([{}] * 3), action=[0, 1, 0], reward=[1.0, 2.0, 3.0])
    refused("log.npz must be a complete NPZ file. Got: Object arrays cannot be loaded", tmp_path / "log.npz")
    np.savez(tmp_path / "log.npz", **log(reward=[1.0]))
    refused('the same number of rows. Got 3 in "state" and 1 in "reward"', tmp_path / "log.npz")
    np.savez(tmp_path / "log.npz", **log(reward=np.float64(1.0)))
    refused(r'array "reward" must have shape \[row\] or \[row, entry\]. Got \(\)', tmp_path / "log.npz")
    with h5py.File(tmp_path / "log.h5", "w") as file:
        file["inner/state"] = [1, 2, 3]
    refused("must have columns. Got none", tmp_path / "log.h5")


@pytest.mark.parametrize("fixed", [True, False])
def test_text_in_hdf5_that_is_not_utf8(fixed: bool, tmp_path: Path) -> None:
    def write(state: list[bytes]) -> Path:
        with h5py.File(tmp_path / "log.h5", "w") as file:
            file["action"], file["reward"] = [0, 1, 0], [1.0, 2.0, 3.0]
            file.create_dataset("state", data=state, dtype=f"S{len(state[1])}" if fixed else h5py.string_dtype())
        return tmp_path / "log.h5"

    match = r'log.h5: column "state" must hold text in UTF-8\. Got b\'b\\xff\' at row 1 \(counted from 0\); write'
    refused(match, write([b"a", b"b\xff", b"c"]))
    assert read(write([b"a", "ü".encode(), b"c"])).load().observations.plain().tolist() == ["a", "ü"]


def test_names_in_hdf5_that_are_not_utf8_are_left_alone(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "log.h5", "w") as file:
        for name, values in log().items():
            file[name] = values
        h5py.h5d.create(file.id, b"\xff", h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((3,)))
    assert len(read(tmp_path / "log.h5").load()) == 2


def test_times_in_steps_of_several_units() -> None:
    """Arrow would take the steps for single ones."""
    time = np.arange(3).view("M8[3D]")
    refused(
        r'arrays: "time" must hold numbers, text or true/false. Got dtype datetime64\[3D\]; convert', log(time=time)
    )
    assert len(read(log(time=time.astype("M8[D]"))).load()) == 2


def test_npz_header_that_promises_too_much(tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", **log(reward=np.ones(3)))
    content = (tmp_path / "log.npz").read_bytes()
    assert content.count(b"(3,), }   ") >= 1
    (tmp_path / "log.npz").write_bytes(content.replace(b"(3,), }          ", b"(3000000000000,), }"[:17].ljust(17)))
    refused("log.npz", tmp_path / "log.npz")


# Settings that a log carries


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "table"])
def test_metadata_of_collected_logs(suffix: str, tmp_path: Path) -> None:
    columns = log(next_state=["b", "a", "z"], terminated=[False, False, True])
    settings = {"on_termination": "keep", "on_truncation": "keep", "env": "x"}
    table = pa.table(columns).replace_schema_metadata({b"cesaro": json.dumps(settings)})
    source: Any = tmp_path / f"log.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, source)
    elif suffix == "arrow":
        pyarrow.feather.write_feather(table, source)
    else:
        source = table
    assert read(source).load().next_observations.plain().tolist() == ["b", "a", "z"]
    assert read(source).schema.settings.on_termination == "keep"
    assert read(source, on_termination="restart").load().next_observations.plain().tolist() == ["b", "a", "a"]


@pytest.mark.parametrize(
    ("metadata", "match"),
    [
        (b"{", 'metadata "cesaro" must be a JSON object'),
        (b"[]", 'metadata "cesaro" must be a JSON object'),
        (b'{"on_truncation": 3}', "table: metadata on_truncation must be one of keep, restart, drop. Got 3"),
    ],
)
def test_wrong_metadata(metadata: bytes, match: str) -> None:
    refused(match, pa.table(log()).replace_schema_metadata({b"cesaro": metadata}))


# Actions that were possible


@pytest.mark.parametrize(
    "columns",
    [
        {"available": [[0, 1], [1], [0]]},
        {"available": pa.array([[1, 0], [1], [0]], pa.list_(pa.int16()))},
        {"available": np.array([[True, True], [False, True], [True, False]])},
        {"available_0": [True, False, True], "available_1": [1, 1, 0]},
    ],
)
def test_available_actions(columns: dict[str, Any]) -> None:
    found = read(log(**columns)).load()
    assert found.available is not None
    assert found.available.tolist() == [[True, True], [False, True]]
    assert next(found.blocks()).available is not None


def test_available_text_labels_follow_the_order() -> None:
    columns = log(action=["no", "yes", "no"], available=[["no"], ["yes", "no"], ["no", "yes"]], time=[1, 2, 0])
    found = read(columns).load()
    assert found.action_levels is not None
    assert found.action_levels.tolist() == ["no", "yes"]
    assert found.available is not None
    assert found.available.tolist() == [[True, True], [True, False]]


@pytest.mark.parametrize(
    ("match", "columns"),
    [
        (
            r"must include the action that was taken. Got 1 taken but not available at row 1",
            {"available": [[0], [0], [0]]},
        ),
        (r"must include the action that was taken. Got 0 .* row 2", {"available": [[0], [1], []]}),
        (
            r"must list actions that the log has. Got 7 at row 1 .*, which no row took",
            {"available": [[0], [1, 7], [0]]},
        ),
        (r"must list labels of the type of the action column \(int64\)", {"available": [["0"], ["1"], ["0"]]}),
        (r"must list labels of the type", {"available": [["reject"], ["reject"], ["reject"]]}),
        (r"must not have missing entries. Got an empty entry at row 1", {"available": [[0], None, [0]]}),
        (r"must not have missing entries. Got one at row 1", {"available": [[0], [1, None], [0]]}),
        (r"one flag for each of the 2 actions", {"available": np.ones((3, 3), dtype=bool)}),
        (r'column "available_7" must hold lists of labels, or be named available_<action>', {"available_7": [1, 1, 1]}),
        (r"must come with a column for every action. Got none for 1; add available_1", {"available_0": [1, 1, 1]}),
        (r'column "available_0" must be true/false or 0/1', {"available_0": [1, 2, 1], "available_1": [1, 1, 1]}),
        (
            r"available must come with actions that are labels",
            {"available": [[0], [1], [0]], "action": [0.5, 1.5, 2.0]},
        ),
    ],
)
def test_bad_available_columns_are_refused(match: str, columns: dict[str, Any]) -> None:
    refused(match, log(**columns))


def test_available_of_another_column_can_be_left_out() -> None:
    columns = log(available_memory=[1.5, 2.5, 3.5])
    refused('column "available_memory" must hold lists of labels', columns)
    assert read(columns, available=False).load().available is None


# Transitions


def test_transitions_take_dicts_in_any_order() -> None:
    found = Transitions({"x": [1.0, 2.0], "y": ["a", "b"]}, [0, 1], [0.0, 1.0], {"y": ["b", "c"], "x": [2.0, 3.0]})
    assert found.observations.names == found.next_observations.names == ("x", "y")
    assert found.next_observations.plain()["y"].tolist() == ["b", "c"]


@pytest.mark.parametrize(
    ("match", "make"),
    [
        ("actions? must be one array. Got a dict", lambda: Transitions([0.5], cast(Any, {"a": [1]}), [0.0])),
        ("at least one column. Got an empty dict", lambda: Transitions({}, [1], [0.0])),
        ("must have the columns of observations", lambda: Transitions({"x": [1.0]}, [1], [0.0], {"z": [1.0]})),
        ("must be like observations", lambda: Transitions([1.0], [1], [0.0], {"z": [1.0]})),
        ("must be like observations", lambda: Transitions({"z": [1.0]}, [1], [0.0], [1.0])),
        ('"observation" must be an array', lambda: Transitions("abc", [1], [0.0])),
        ("the same number of rows", lambda: Transitions([1.0, 2.0], [1], [0.0])),
        ('kinds must name columns .* Got "x"', lambda: Transitions([1.0], [1], [0.0], kinds={"x": "number"})),
        ("rename it", lambda: Transitions({"x": [1.0], "next_x": [1.0]}, [1], [0.0], {"x": [1.0], "next_x": [1.0]})),
    ],
)
def test_bad_transitions_are_refused(match: str, make: Callable[[], Any]) -> None:
    with pytest.raises(InputError, match=match):
        make()
