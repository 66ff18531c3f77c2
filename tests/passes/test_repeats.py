"""Rows that a log holds more than once are told from rows that repeat by nature."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import cesaro as cs
from cesaro.data import blocks
from cesaro.passes import repeats
from cesaro.passes.repeats import Repeats

Columns = dict[str, NDArray[Any]]


def share(columns: Columns) -> float:
    return share_of(
        cs.Transitions(
            columns["state"], columns["action"], columns["reward"], columns["after"], trajectory=columns.get("run")
        )
    )


def share_of(log: cs.Log) -> float:
    found = Repeats()
    for block in log.opened().blocks():
        found.add(Repeats.of(block, len(log)))
    return found.share


def walk(rows: int, noise: float, seed: int = 0) -> Columns:
    """Three states, two actions, and rewards that are numbers where there is noise."""
    rng = np.random.default_rng(seed)
    state = np.cumsum(rng.integers(0, 2, rows + 1)) % 3
    rewards = (state[:-1] == 2) + noise * rng.normal(size=rows)
    return {"state": state[:-1], "action": rng.integers(0, 2, rows), "reward": rewards, "after": state[1:]}


def line(rows: int, seed: int = 0) -> Columns:
    """Numbers alone."""
    rng = np.random.default_rng(seed)
    state = rng.normal(size=rows + 1)
    return {"state": state[:-1], "action": rng.normal(size=rows), "reward": state[1:] ** 2, "after": state[1:]}


def taken(columns: Columns, rows: NDArray[Any]) -> Columns:
    return {name: column[rows] for name, column in columns.items()}


def copies(columns: Columns, times: int, named: bool) -> Columns:
    size = len(columns["state"])
    found = taken(columns, np.tile(np.arange(size), times))
    return found | ({"run": np.repeat(np.arange(times), size)} if named else {})


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("noise", [0.3, 0.0])
@pytest.mark.parametrize("times", [2, 40])
def test_copies_of_a_whole_log_are_counted(times: int, noise: float, named: bool) -> None:
    """Windows across the seams are new, so that a little less is found without ids."""
    assert share(copies(walk(300, noise), times, named)) == pytest.approx(1 - 1 / times, abs=0.03)


@pytest.mark.parametrize("rows", [300, 3_000, 30_000])
@pytest.mark.parametrize("noise", [0.3, 0.0])
def test_rows_that_repeat_by_nature_are_no_copies(rows: int, noise: float) -> None:
    assert [share(walk(rows, noise, seed)) for seed in range(5)] == [0.0] * 5


def test_a_part_that_was_appended_again_is_counted() -> None:
    again = np.r_[0:10_000, 3_000:3_500]
    assert share(taken(line(10_000), again)) == pytest.approx(500 / 10_500, abs=0.001)
    assert share(taken(walk(10_000, 0.0), again)) == pytest.approx(500 / 10_500, abs=0.007)  # less a window


def test_copies_among_shuffled_rows_are_told_by_their_rewards() -> None:
    columns, rng = walk(3_000, 0.3), np.random.default_rng(1)
    assert share(taken(columns, rng.permutation(3_000))) == 0
    assert share(taken(copies(columns, 2, named=False), rng.permutation(6_000))) == pytest.approx(0.5)


def test_rows_that_were_written_twice_are_counted() -> None:
    assert share(taken(line(5_000), np.repeat(np.arange(5_000), 2))) == pytest.approx(0.5, abs=0.01)


def test_a_cycle_is_no_copy() -> None:
    row = np.arange(5_000)
    assert share({"state": row % 7, "action": row * 0, "reward": (row % 7 == 3) * 1.5, "after": (row + 1) % 7}) == 0


def test_a_system_at_rest_is_no_copy() -> None:
    rng = np.random.default_rng(0)
    works = np.cumsum(rng.random(20_001) < 0.01) % 2
    state = np.where(works, rng.normal(size=20_001), 0.0)
    assert share({"state": state[:-1], "action": works[:-1], "reward": state[:-1] ** 2, "after": state[1:]}) == 0


def test_episodes_with_one_start_and_no_chance_but_actions_are_no_copies() -> None:
    actions = np.random.default_rng(0).integers(0, 2, (500, 40))
    place = np.concatenate([np.zeros((500, 1), dtype=int), np.cumsum(actions, axis=1)], axis=1) * 0.1
    here, after = place[:, :-1].ravel(), place[:, 1:].ravel()
    run = np.repeat(np.arange(500), 40)
    assert share({"state": here, "action": actions.ravel(), "reward": after * 2, "after": after, "run": run}) == 0


@pytest.mark.parametrize("few", [0, 10**9])
def test_repeated_numbers_are_counted_alike_however_many(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against all pairs, written out; of some numbers that stand there three times, a step apart and others."""
    monkeypatch.setattr(repeats, "FEW", few)
    numbers = np.random.default_rng(0).permutation(400).astype(np.uint64)
    numbers[[8, 16, 100, 108, 150, 151, 300]] = numbers[[0, 0, 40, 40, 3, 3, 40]]
    steps = repeats.APART
    pairs = [(i, i + step) for step in steps.tolist() for i in range(len(numbers) - step)]
    expected = sum(int(numbers[i] == numbers[j]) for i, j in pairs)
    assert expected > 3
    assert repeats._count_equal(numbers, steps, repeats._repeated(numbers)) == expected


def test_streamed_logs_have_the_same_share_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = taken(line(6_000), np.r_[0:6_000, 0:2_000])
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    roles: Any = {"observation": ["state"], "action": ["action"], "reward": "reward", "next_observation": ["after"]}
    exact = share(columns)
    monkeypatch.setattr(repeats, "MOST", 1_000)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 1_024)
    log = cs.read(tmp_path / "log.parquet", stream=True, **roles)
    found = Repeats()
    for block in log.opened().blocks():
        found.add(Repeats.of(block, len(log)))
    assert max(sum(map(len, kept)) for kept in found.kept) < 1_200
    # A thousand kept runs: the share has a standard error of 0.014.
    assert found.share == pytest.approx(exact, abs=0.056)


def snippet(times: int) -> cs.Evaluation:
    """The log of the review: 300 rows and as many copies, each a trajectory."""
    rng, rows = np.random.default_rng(0), 300
    state = np.cumsum(rng.integers(0, 2, rows + 1)) % 3
    action = rng.integers(0, 2, rows)
    reward = (state[:-1] == 2) + 0.3 * rng.normal(size=rows)
    parts = (np.tile(part, times) for part in (state[:-1], action, reward, state[1:]))
    log = cs.Transitions(*parts, trajectory=np.repeat(range(times), rows))
    return cs.evaluate(log, np.full((3, 2), 0.5), quiet=True)


@pytest.mark.parametrize("times", [2, 40])
def test_an_answer_from_copies_is_bad(times: int) -> None:
    answer = snippet(times)
    assert answer.verdict == "bad"
    entry = next(entry for entry in answer.diagnostics if entry.name == "copied rows")
    assert entry.verdict == "bad"
    assert "Drop the copies" in entry.remedy


def test_a_next_state_is_hashed_alike_wherever_it_lies_in_memory() -> None:
    """In the memory of the row below or in columns of its own; numbers that are alike in other places are other rows."""
    rng = np.random.default_rng(5)
    states, actions, rewards = rng.integers(0, 3, (4_000, 2)), rng.integers(0, 3, (4_000, 1)), rng.integers(0, 2, 4_000)
    after = np.append(states[1:], states[-1:], axis=0)
    logs = [
        cs.Transitions(states * 1.0, actions * 1.0, rewards * 1.0),
        cs.Transitions(states * 1.0, actions * 1.0, rewards * 1.0, after * 1.0),
    ]
    first, second = (Repeats.of(next(iter(log.blocks())).part(slice(0, 3_999)), 3_999) for log in logs)
    rows = np.column_stack([states, actions, rewards, after])[:-1]
    assert len(np.unique(first.kept[0])) == len(np.unique(rows, axis=0))
    for one, other in zip(first.kept, second.kept):
        np.testing.assert_array_equal(one, other)
    for name in ("compared", "equal", "alike"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("borders", [[], [1], [90, 250, 255, 399]])
def test_pairs_are_counted_as_by_a_plain_loop(borders: list[int], length: int) -> None:
    """Runs a short way apart and in one trajectory, and the equal ones among them, of numbers with repeats and without."""
    group = np.searchsorted(borders, np.arange(400 + length - 1), side="right").astype(np.int64)
    for numbers in (np.arange(400), np.arange(400) % 40, np.arange(400) % 53):
        pairs = [
            (i, i + step)
            for step in repeats.APART.tolist()
            for i in range(400 - step)
            if group[i] == group[i + step + length - 1]
        ]
        equal = sum(int(numbers[i] == numbers[j]) for i, j in pairs)
        found = repeats._equal(numbers, group, np.array(borders, np.int64), length)
        assert found == (len(pairs), equal)
        assert repeats._equal(numbers, group, np.array(borders, np.int64), length, look=False) == (len(pairs), 0)


def test_hashes_do_not_depend_on_how_many_columns_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    state = rng.normal(size=(101, 7))
    block = next(iter(cs.Transitions(state[:-1], rng.normal(size=(100, 3)), state[1:, 0], state[1:]).blocks()))
    together = repeats._hashed_once(block)
    assert len(np.unique(together)) == 100
    for numbers in (1, 300):
        monkeypatch.setattr(repeats, "TOGETHER", numbers)
        np.testing.assert_array_equal(repeats._hashed_once(block), together)
