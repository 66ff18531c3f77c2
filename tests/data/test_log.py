"""Blocks, values and what a loaded log says about itself."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cesaro.data import Block, Categories, Log, Transitions, Values, read
from cesaro.data import blocks as block_module
from cesaro.data.transitions import excerpt

BLOCK = 16  # instead of 65,536


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_module, "BLOCK_ROWS", BLOCK)


def make(rows: int, *, real: bool, flags: bool, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "load": rng.normal(size=rows),
        "region": rng.choice(["n", "s", "w"], rows),
        "action": rng.integers(0, 3, rows),
        "reward": rng.normal(size=rows),
        "trajectory": np.sort(rng.integers(0, 5, rows)),
        "weight": rng.uniform(size=rows),
        "available": [[0, 1, 2]] * rows,
    }
    if real:
        columns |= {"next_load": rng.normal(size=rows), "next_region": rng.choice(["n", "x"], rows)}
    if flags:
        columns |= {"terminated": rng.uniform(size=rows) < 0.1, "truncated": rng.uniform(size=rows) < 0.1}
    return pa.table(columns)


def opened(source: Any) -> Log:
    return read(source, observation=["load", "region"], weight="weight")


def joined(blocks: list[Block]) -> dict[str, Any]:
    """All blocks as one, field by field."""
    result: dict[str, Any] = {}
    for name in ("rewards", "weights", "trajectory", "follows", "available"):
        result[name] = np.concatenate([getattr(block, name) for block in blocks])
    for name in ("observations", "actions", "next_observations"):
        plain = [getattr(block, name).plain() for block in blocks]
        if isinstance(plain[0], dict):
            result |= {f"{name}.{key}": np.concatenate([part[key] for part in plain]) for key in plain[0]}
        else:
            result[name] = np.concatenate(plain)
    return result


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("flags", [False, True])
def test_blocks_are_the_whole(real: bool, flags: bool) -> None:
    log = opened(make(100, real=real, flags=flags)).load()
    blocks = list(log.blocks())
    assert [block.key for block in blocks] == [(0, i) for i in range(7)]
    whole = joined(blocks)
    for name in ("rewards", "weights", "trajectory", "available"):
        np.testing.assert_array_equal(whole[name], getattr(log, name))
    np.testing.assert_array_equal(np.cumsum(~whole["follows"]) - 1, log.segment)
    for name in ("observations", "next_observations"):
        for key, column in getattr(log, name).plain().items():
            np.testing.assert_array_equal(whole[f"{name}.{key}"], column)
    np.testing.assert_array_equal(whole["actions"], log.actions.plain())
    assert sum(map(len, blocks)) == len(log)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("groups", [1, 7, 16, 1000])
def test_blocks_do_not_depend_on_row_groups(groups: int, tmp_path: Path) -> None:
    table = make(100, real=False, flags=True)
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=groups)
    expected, found = list(opened(table).blocks()), list(opened(tmp_path / "log.parquet").blocks())
    assert [block.key for block in found] == [block.key for block in expected]
    assert [len(block) for block in found] == [len(block) for block in expected]
    for name, array in joined(found).items():
        np.testing.assert_array_equal(array, joined(expected)[name])


@pytest.mark.usefixtures("small_blocks")
def test_blocks_begin_anew_in_every_file(tmp_path: Path) -> None:
    table = make(100, real=False, flags=False)
    for name, start, rows in (("a", 0, 40), ("b", 40, 10), ("c", 50, 50)):
        pq.write_table(table.slice(start, rows), tmp_path / f"{name}.parquet")
    blocks = list(opened(tmp_path).blocks())
    assert [block.key for block in blocks] == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1), (2, 2), (2, 3)]
    whole = opened(table).load()
    assert (np.cumsum(~joined(blocks)["follows"]) - 1).tolist() == whole.segment.tolist()
    assert joined(blocks)["rewards"].tolist() == whole.rewards.tolist()


@pytest.mark.usefixtures("small_blocks")
def test_block_without_transitions_is_left_out() -> None:
    rows = 3 * BLOCK
    trajectory = np.where(np.arange(rows) < BLOCK, 0, np.where(np.arange(rows) < 2 * BLOCK, np.arange(rows), rows))
    log = Transitions(np.arange(rows), np.zeros(rows, int), np.zeros(rows), trajectory=trajectory)
    assert [block.key for block in log.blocks()] == [(0, 0), (0, 2)]


def test_contiguous_blocks_copy_nothing() -> None:
    rows = 3 * block_module.BLOCK_ROWS
    log = Transitions(np.zeros((rows, 2)), np.zeros(rows), np.zeros(rows))
    block = next(log.blocks())
    assert len(block) == block_module.BLOCK_ROWS
    base = log.observations.plain()
    assert np.shares_memory(block.observations.plain(), base)
    assert np.shares_memory(block.next_observations.plain(), base)


def test_log_survives_pickling() -> None:
    log = opened(make(20, real=True, flags=True)).load()
    other = pickle.loads(pickle.dumps(log))
    assert other.rewards.tolist() == log.rewards.tolist()
    assert other.schema == log.schema


def test_schema_reads_well() -> None:
    text = repr(opened(make(5, real=False, flags=False)).schema)
    assert "observation      load, region  (named: number, category)" in text
    assert "action           action  (lone: category)" in text
    assert "on_termination   restart" in text


def test_counts_and_notes() -> None:
    log = Transitions([0, 1, 2, 3], [0, 1, 0, 1], [0.0] * 4, trajectory=[0, 0, 1, 1], terminated=[0, 1, 0, 0])
    assert log.counts == {
        "rows": 4,
        "kept": 3,
        "trajectories": 2,
        "episodes": 2,
        "cuts": 0,
        "restarts": 1,
        "dropped: trajectory end": 1,
        "files": 1,
    }
    assert log.notes == (
        "Dropped 1 of 4 rows: 1 at the end of a trajectory without a next observation.",
        "The next observation of 1 row that ended an episode is the first one of the next episode.",
    )


# Values


def labelled(*columns: list[Any]) -> Values:
    parts = []
    for column in columns:
        levels = sorted(set(column))
        codes = np.array([levels.index(label) for label in column], dtype=np.int32)
        parts.append(Categories(codes, np.array(levels, dtype=object)))
    form: Any = "named" if len(columns) > 1 else "lone"
    return Values(form, tuple("abc"[: len(columns)]), tuple(parts))


_ROWS = st.lists(st.tuples(*(st.sampled_from("xyz") for _ in range(3))), min_size=1, max_size=20)


@given(_ROWS)
def test_joint_labels(rows: list[tuple[str, ...]]) -> None:
    values = labelled(*(list(column) for column in zip(*rows)))
    joint = values.joint()
    assert joint.labels().tolist() == rows
    assert joint.levels.tolist() == sorted(set(rows))


def test_joint_of_a_lone_column_is_the_column() -> None:
    values = labelled(["b", "a", "b"])
    assert values.joint() is values.columns[0]
    with pytest.raises(TypeError, match="labels in every column"):
        Values("lone", ("x",), (np.zeros(3),)).joint()


def test_take_and_plain() -> None:
    values = Values("named", ("x", "y"), (np.array([1.0, 2.0, 3.0]), labelled(["b", "a", "b"]).columns[0]))
    assert len(values) == 3
    assert not values.is_discrete
    assert labelled(["a"]).is_discrete
    part = values.take(np.array([2, 0]))
    assert part.plain()["x"].tolist() == [3.0, 1.0]
    assert part.plain()["y"].tolist() == ["b", "b"]
    assert values.take(slice(1, 2)).plain()["y"].tolist() == ["a"]
    vector = Values("vector", ("v",), (np.ones((3, 2)),))
    assert vector.plain().shape == (3, 2)
    assert len(vector.take(slice(0, 2))) == 2


def test_an_excerpt_has_whole_trajectories() -> None:
    """Trajectories of 3 to 30 rows: of at most 400 rows those are taken whole that are not longer than a twentieth of them."""
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(60), rng.integers(3, 31, 60))
    rewards = np.arange(len(ids)) + 0.0
    log = Transitions(rng.normal(size=(len(ids), 2)), rng.normal(size=len(ids)), rewards, trajectory=ids)
    part = excerpt(log, 400, 0)
    assert 350 < len(part) <= 400
    assert excerpt(log, 400, 0).rewards.tolist() == part.rewards.tolist() != excerpt(log, 400, 1).rewards.tolist()
    rows = np.searchsorted(log.rewards, part.rewards)
    assert part.next_observations.plain() == pytest.approx(log.next_observations.plain()[rows])
    assert part.actions.plain() == pytest.approx(log.actions.plain()[rows])
    assert part.lengths is not None
    assert log.lengths is not None
    assert log.trajectory is not None
    ends = np.cumsum(part.lengths)
    for low, high in zip(ends - part.lengths, ends):
        assert len(set(log.trajectory[rows[low:high]])) == 1
        length = log.lengths[log.trajectory[rows[low]]]
        assert high - low in {min(20, length), length % 20}
    (block,) = part.blocks()
    assert np.flatnonzero(~block.follows).tolist() == (ends - part.lengths).tolist()


def test_an_excerpt_of_one_long_trajectory_has_stretches_of_it() -> None:
    rng = np.random.default_rng(0)
    log = Transitions(rng.normal(size=5_000), rng.normal(size=5_000), np.arange(5_000) + 0.0)
    part = excerpt(log, 1_000, 0)
    assert part.lengths is not None
    assert set(part.lengths) <= {50, 49}
    assert len(part.lengths) == 20
    assert (np.diff(part.rewards) == 1).sum() >= 20 * 48
