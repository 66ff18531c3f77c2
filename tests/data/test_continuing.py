"""From rows to transitions of one continuing process, against the rules written out row by row."""

from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cesaro.data import Transitions, read
from cesaro.errors import InputError


@dataclass
class Row:
    number: int
    observation: int
    next: int | None
    reward: float
    trajectory: int | None = None
    time: int | None = None
    terminated: bool = False
    truncated: bool = False


@dataclass
class Rules:
    has_next: bool = False
    flags: bool = False
    reward_lag: int = 0
    on_termination: str = "restart"
    on_truncation: str = "keep"


class DisorderedError(Exception):
    pass


def episodes_in_order(rows: list[Row], rules: Rules) -> list[tuple[int | None, list[Row]]]:
    """(trajectory, rows) per trajectory: ids where they exist, else episodes where flags do, else all rows."""
    timed = rows[0].time is not None

    def by_time(part: list[Row]) -> list[Row]:
        if not timed:
            return part
        times = [row.time for row in part]
        if len(set(times)) < len(times):
            raise DisorderedError
        return sorted(part, key=lambda row: row.time or 0)

    def split(part: list[Row]) -> list[list[Row]]:
        found: list[list[Row]] = [[]]
        for row in part:
            found[-1].append(row)
            if row.terminated or row.truncated:
                found.append([])
        return [episode for episode in found if episode]

    if rows[0].trajectory is not None:
        ids = list(dict.fromkeys(row.trajectory for row in rows))
        return [(code, by_time([row for row in rows if row.trajectory == name])) for code, name in enumerate(ids)]
    if not rules.flags:
        return [(None, by_time(rows))]
    try:
        return list(enumerate(split(by_time(rows))))
    except DisorderedError:
        pass
    episodes = [by_time(episode) for episode in split(rows)]
    for episode in episodes:
        if any(row.terminated or row.truncated for row in episode[:-1]):
            raise DisorderedError
    return list(enumerate(episodes))


def transitions(rows: list[Row], rules: Rules) -> list[dict[str, Any]]:
    """Every transition with its trajectory and segment."""
    pieces: list[tuple[int | None, list[Row], str]] = []  # trajectory, rows, why it ends
    starts: list[tuple[int, Row]] = []  # first rows of episodes, with the piece they open
    parts = episodes_in_order(rows, rules)
    steps = [
        [
            (b.time or 0) - (a.time or 0)
            for a, b in pairwise(part)
            if a.time is not None and not (a.terminated or a.truncated)
        ]
        for _, part in parts
    ]
    pooled = [step for own in steps for step in own]
    for (code, part), own in zip(parts, steps):
        judges = own if len(own) >= 3 else pooled
        piece: list[Row] = []
        fresh = True
        for i, row in enumerate(part):
            if not piece and fresh:
                starts.append((len(pieces), row))
            piece.append(row)
            why = ""
            if row.terminated:
                why = "terminated"
            elif row.truncated:
                why = "truncated"
            elif i == len(part) - 1:
                why = "end"
            elif row.time is not None and (part[i + 1].time or 0) - row.time > 1.5 * median(judges):
                why = "cut"
            if why:
                pieces.append((code, piece, why))
                piece, fresh = [], why != "cut"
    result: list[dict[str, Any]] = []
    segment = 0
    for number, (code, piece, why) in enumerate(pieces):
        goes_on = False
        for i, row in enumerate(piece):
            last = i == len(piece) - 1
            new = {"observation": row.observation, "reward": row.reward, "trajectory": code, "segment": segment}
            if not last:
                new["next"] = row.next if rules.has_next else piece[i + 1].observation
                if rules.reward_lag:
                    new["reward"] = piece[i + 1].reward
                result.append(new)
                continue
            rule = {"terminated": rules.on_termination, "truncated": rules.on_truncation}.get(why, "keep")
            if rule == "drop" or (rule == "keep" and not rules.has_next) or rules.reward_lag:
                continue
            if rule == "restart":
                to = next((s for opens, s in starts if opens > number), starts[0][1])
                new["next"] = to.observation
            else:
                new["next"] = row.next
            result.append(new)
            if why in ("terminated", "truncated") and number + 1 < len(pieces) and pieces[number + 1][0] == code:
                after = pieces[number + 1][1][0]
                goes_on = to is after if rule == "restart" else row.next == after.observation
        segment += not goes_on
    dense = {code: i for i, code in enumerate(dict.fromkeys(row["segment"] for row in result))}
    return [{**row, "segment": dense[row["segment"]]} for row in result]


def as_log(rows: list[Row], rules: Rules) -> Transitions:
    return Transitions(
        np.array([row.observation for row in rows]),
        np.arange(len(rows)) % 2,
        np.array([row.reward for row in rows]),
        np.array([row.next for row in rows]) if rules.has_next else None,
        trajectory=None if rows[0].trajectory is None else np.array([row.trajectory for row in rows]),
        time=None if rows[0].time is None else np.array([row.time for row in rows]),
        terminated=[row.terminated for row in rows] if rules.flags else None,
        truncated=[row.truncated for row in rows] if rules.flags else None,
        reward_lag=rules.reward_lag,
        on_termination=rules.on_termination,
        on_truncation=rules.on_truncation,
    )


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Row], Rules]:
    rules = Rules(
        has_next=draw(st.booleans()),
        flags=draw(st.booleans()),
        reward_lag=draw(st.sampled_from([0, 0, 1])),
        on_termination=draw(st.sampled_from(["restart", "keep", "drop"])),
        on_truncation=draw(st.sampled_from(["restart", "keep", "drop"])),
    )
    count = draw(st.integers(1, 14))
    with_ids, with_time, unique = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    times = draw(
        st.permutations(range(count)) if unique else st.lists(st.integers(0, 9), min_size=count, max_size=count)
    )
    stretch = draw(st.sampled_from([1, 1, 3]))
    rows = [
        Row(
            i,
            i,
            draw(st.sampled_from([100 + i, (i + 1) % count, 0])) if rules.has_next else None,
            float(i) / 4,
            draw(st.integers(0, 3)) if with_ids else None,
            int(times[i]) ** stretch if with_time else None,
            rules.flags and draw(st.integers(0, 3)) == 0,
            rules.flags and draw(st.integers(0, 3)) == 0,
        )
        for i in range(count)
    ]
    return rows, rules


@pytest.mark.slow
@given(logs())
@settings(max_examples=600)
def test_transitions_follow_the_rules(log: tuple[list[Row], Rules]) -> None:
    rows, rules = log
    try:
        expected = transitions(rows, rules)
    except DisorderedError:
        with pytest.raises(InputError, match=r"column \"time\" must"):
            as_log(rows, rules)
        return
    if not expected:
        with pytest.raises(InputError, match="must leave at least one transition"):
            as_log(rows, rules)
        return
    found = as_log(rows, rules)
    assert found.observations.plain().tolist() == [row["observation"] for row in expected]
    assert found.next_observations.plain().tolist() == [row["next"] for row in expected]
    assert found.rewards.tolist() == [row["reward"] for row in expected]
    assert found.actions.plain().tolist() == [row["observation"] % 2 for row in expected]
    assert found.segment.tolist() == [row["segment"] for row in expected]
    codes = None if found.trajectory is None else found.trajectory.tolist()
    assert codes == (None if expected[0]["trajectory"] is None else [row["trajectory"] for row in expected])
    counts = found.counts
    assert counts["rows"] == len(rows)
    assert counts["kept"] == len(expected) == len(found)
    assert sum(n for key, n in counts.items() if key.startswith("dropped")) == len(rows) - len(expected)


def example(**changes: Any) -> Transitions:
    """Two episodes of one id: a b c | d e, the first one ended by `terminated` or `truncated`."""
    arguments: dict[str, Any] = {
        "observations": ["a", "b", "c", "d", "e"],
        "actions": [0, 1, 0, 1, 0],
        "rewards": [1.0, 2.0, 3.0, 4.0, 5.0],
        "trajectory": [7] * 5,
    }
    return Transitions(**(arguments | changes))


ENDS = [False, False, True, False, False]
NEXT = ["b", "c", "z", "e", "y"]


@pytest.mark.parametrize(
    ("flag", "rule", "real", "expected"),
    [
        ("terminated", "restart", False, "bcde"),
        ("terminated", "restart", True, "bcdey"),
        ("terminated", "keep", False, "bce"),
        ("terminated", "keep", True, "bczey"),
        ("terminated", "drop", False, "bce"),
        ("terminated", "drop", True, "bcey"),
        ("truncated", "restart", False, "bcde"),
        ("truncated", "restart", True, "bcdey"),
        ("truncated", "keep", False, "bce"),
        ("truncated", "keep", True, "bczey"),
        ("truncated", "drop", False, "bce"),
        ("truncated", "drop", True, "bcey"),
    ],
)
def test_end_of_an_episode(flag: str, rule: str, real: bool, expected: str) -> None:
    name = "on_termination" if flag == "terminated" else "on_truncation"
    log = example(**{flag: ENDS, name: rule}, next_observations=NEXT if real else None)
    assert "".join(log.next_observations.plain()) == expected


def test_defaults_restart_after_termination_and_keep_truncated_transitions() -> None:
    assert "".join(example(terminated=ENDS, next_observations=NEXT).next_observations.plain()) == "bcdey"
    assert "".join(example(truncated=ENDS, next_observations=NEXT).next_observations.plain()) == "bczey"
    both = example(terminated=ENDS, truncated=ENDS, next_observations=NEXT)
    assert "".join(both.next_observations.plain()) == "bcdey"


def test_last_episode_restarts_at_the_first() -> None:
    log = example(terminated=[False, False, True, False, True])
    assert "".join(log.next_observations.plain()) == "bcdea"
    assert log.counts["restarts"] == 2
    assert log.segment.tolist() == [0, 0, 0, 0, 0]  # the restart of the first episode is the next row


def test_episodes_are_the_trajectories_without_ids() -> None:
    log = example(trajectory=None, terminated=[False, False, True, False, True])
    assert log.trajectory is not None
    assert log.trajectory.tolist() == [0, 0, 0, 1, 1]
    assert log.segment.tolist() == [0, 0, 0, 1, 1]


def test_no_ids_and_no_flags_are_one_trajectory() -> None:
    log = example(trajectory=None)
    assert log.trajectory is None
    assert "".join(log.next_observations.plain()) == "bcde"
    assert log.counts["dropped: trajectory end"] == 1


@pytest.mark.parametrize("real", [False, True])
def test_gap_cuts(real: bool) -> None:
    log = example(time=[0, 1, 2, 4, 5], next_observations=NEXT if real else None)
    assert log.counts["cuts"] == 1
    assert "".join(log.next_observations.plain()) == ("bczey" if real else "bce")
    assert log.segment.tolist() == ([0, 0, 0, 1, 1] if real else [0, 0, 1])
    assert any("gap" in note for note in log.notes)


def test_gap_of_one_and_a_half_steps_does_not_cut() -> None:
    assert example(time=[0.0, 2.0, 4.0, 7.0, 9.0]).counts["cuts"] == 0
    assert example(time=[0.0, 2.0, 4.0, 7.01, 9.0]).counts["cuts"] == 1


def test_irregular_times_only_order_where_asked() -> None:
    time = np.cumsum(np.random.default_rng(0).exponential(size=300))
    columns = ([0] * 300, [0, 1] * 150, np.arange(300.0))
    cut = Transitions(*columns, time=time)
    assert cut.counts["cuts"] > 50
    assert any("gap=None (--gap none) does not cut" in note for note in cut.notes)
    whole = Transitions(*columns, time=time[::-1], gap=None)
    assert (len(whole), whole.counts["cuts"]) == (299, 0)
    assert whole.rewards[:3].tolist() == [299.0, 298.0, 297.0]
    steps = np.diff(time)
    wide = Transitions(*columns, time=time, gap=3)
    assert wide.counts["cuts"] == np.count_nonzero(steps > 3 * np.median(steps))
    assert any("of more than 3 times their median step" in note for note in wide.notes)
    arrays = {"state": columns[0], "action": columns[1], "reward": columns[2], "time": time}
    assert read(arrays, gap=None).counts["cuts"] == 0
    for wrong in (0.5, float("nan"), "none", True):
        with pytest.raises(InputError, match="gap must be a number ≥ 1"):
            Transitions(*columns, time=time, gap=wrong)  # type: ignore[arg-type]


def test_each_trajectory_is_cut_by_its_own_steps() -> None:
    def of(times: dict[str, list[float]]) -> Transitions:
        ids = [name for name, own in times.items() for _ in own]
        joined = [time for own in times.values() for time in own]
        rows = len(ids)
        return Transitions(np.arange(rows), [0] * rows, [0.0] * rows, trajectory=ids, time=joined)

    minutes: list[float] = [60 * i for i in range(40)]
    slow: list[float] = [120 * i for i in range(9)]
    assert of({"A": minutes, "B": slow}).counts["cuts"] == 0
    assert of({"B": slow, "A": minutes}).counts["cuts"] == 0
    gap = [*slow[:5], *(time + 61 for time in slow[5:])]
    log = of({"A": minutes, "B": gap})
    assert log.counts["cuts"] == 1
    assert 44 not in log.observations.plain()
    assert of({"A": minutes, "B": [time + 60 * (time > 480) for time in slow]}).counts["cuts"] == 0
    # Two steps are too few to know what is usual.
    assert of({"A": minutes, "B": [0, 120, 240]}).counts["cuts"] == 2
    assert of({"A": minutes, "B": [0, 120, 240, 360]}).counts["cuts"] == 0
    assert of({"B": [0, 120, 240], "A": minutes, "C": [0, 1e6, 1e6 + 1, 1e6 + 2]}).counts["cuts"] == 3
    # The way from one episode to the next is no step.
    assert example(time=[0, 2, 4, 100, 102], terminated=ENDS).counts["cuts"] == 0


@pytest.mark.parametrize(("ids", "rows"), [(2, 1501), (40, 30)])
def test_cuts_of_uneven_steps(ids: int, rows: int) -> None:
    rng = np.random.default_rng(ids)
    time = np.cumsum(rng.exponential(rng.uniform(1, 9, (ids, 1)), (ids, rows)), axis=1)
    steps = np.diff(time, axis=1)
    expected = np.count_nonzero(steps > 1.5 * np.median(steps, axis=1, keepdims=True))
    n = ids * rows
    log = Transitions(
        np.arange(n), np.zeros(n, int), np.zeros(n), trajectory=np.repeat(np.arange(ids), rows), time=time.ravel()
    )
    assert log.counts["cuts"] == expected


def test_steps_too_long_for_a_float() -> None:
    time = [-1.7e308, 1.7e308, -1.7e308, 0.0, 1e308, 1.7e308]
    log = Transitions(np.arange(6), [0] * 6, [0.0] * 6, trajectory=["A"] * 2 + ["B"] * 4, time=time)
    assert log.observations.plain().tolist() == [0, 3, 4]  # only B has a median that times 1.5 is finite


def test_a_restart_skips_pieces_that_a_gap_opened() -> None:
    log = Transitions(
        ["a", "b", "c", "d", "e"],
        [0] * 5,
        [0.0] * 5,
        trajectory=[1, 2, 2, 2, 2],
        time=[0, 0, 1, 5, 6],
        terminated=[0, 0, 0, 0, 1],
        on_termination="restart",
    )
    # Row e ends trajectory 2, whose second piece began at d; the next episode is that of a.
    assert log.next_observations.plain().tolist() == ["c", "e", "a"]


def test_single_row_trajectories() -> None:
    rows: dict[str, Any] = {"observations": ["a", "b"], "actions": [0, 1], "rewards": [1.0, 2.0], "trajectory": [1, 2]}
    with pytest.raises(InputError, match="2 at the end of a trajectory without a next observation"):
        Transitions(**rows)
    restarted = Transitions(**rows, terminated=[1, 1])
    assert restarted.next_observations.plain().tolist() == ["b", "a"]
    assert restarted.segment.tolist() == [0, 1]
    alone = Transitions(["a"], [0], [1.0], terminated=[True])
    assert alone.next_observations.plain().tolist() == ["a"]


def test_interleaved_agents_are_taken_apart() -> None:
    log = Transitions(
        ["a0", "b0", "a1", "b1", "a2"], [0] * 5, [0.0] * 5, trajectory=["x", "y", "x", "y", "x"], time=[0, 5, 1, 6, 2]
    )
    assert log.observations.plain().tolist() == ["a0", "a1", "b0"]
    assert log.next_observations.plain().tolist() == ["a1", "a2", "b1"]
    assert "The rows were sorted by (trajectory, time)." in log.notes


def test_trajectories_come_in_order_of_first_appearance() -> None:
    log = Transitions([0, 1, 2, 3], [0] * 4, [0.0] * 4, trajectory=["z", "a", "z", "a"])
    assert log.observations.plain().tolist() == [0, 1]
    assert log.trajectory is not None
    assert log.trajectory.tolist() == [0, 1]


def test_lagged_reward_is_on_the_next_row() -> None:
    log = example(reward_lag=1, rewards=[np.nan, 2.0, 3.0, 4.0, 5.0])
    assert log.rewards.tolist() == [2.0, 3.0, 4.0, 5.0]
    real = example(reward_lag=1, next_observations=NEXT)
    assert real.rewards.tolist() == [2.0, 3.0, 4.0, 5.0]
    assert real.counts["dropped: reward lag"] == 1
    assert example(reward_lag=1, terminated=ENDS).rewards.tolist() == [2.0, 3.0, 5.0]
    with pytest.raises(InputError, match=r'column "reward" must be finite.* nan at row 3 \(counted from 0\)'):
        example(reward_lag=1, rewards=[1.0, 2.0, 3.0, np.nan, 5.0])


def test_fixed_resets_are_said_not_to_be_markov() -> None:
    ends = [False, True, False, True, False]
    notes = example(truncated=ends, on_truncation="restart").notes
    assert any("after 2 steps" in note and "not Markov" in note for note in notes)
    assert not any("Markov" in note for note in example(truncated=ends).notes)
    uneven = [False, True, False, False, True]
    assert not any("Markov" in note for note in example(truncated=uneven, on_truncation="restart").notes)


def test_reset_states_in_next_columns_leave_one_segment() -> None:
    keep = {"truncated": ENDS, "on_truncation": "keep"}
    assert example(next_observations=["b", "c", "d", "e", "y"], **keep).segment.tolist() == [0, 0, 0, 0, 0]
    assert example(next_observations=NEXT, **keep).segment.tolist() == [0, 0, 0, 1, 1]


def test_next_entries_that_no_transition_uses_may_be_missing() -> None:
    missing = ["b", "c", None, "e", "y"]
    assert "".join(example(terminated=ENDS, next_observations=missing).next_observations.plain()) == "bcdey"
    with pytest.raises(
        InputError, match=r'column "next_observation" must not have missing .* row 2 \(counted from 0\)'
    ):
        example(truncated=ENDS, next_observations=missing)
    numbers = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    after = np.array([2.0, 3.0, np.nan, 5.0, 6.0])
    log = example(observations=numbers, terminated=ENDS, next_observations=after)
    assert log.next_observations.plain().tolist() == [2.0, 3.0, 4.0, 5.0, 6.0]
    with pytest.raises(InputError, match="row 2"):
        example(observations=numbers, next_observations=after)


def test_missing_next_entries_are_looked_for_in_the_file_order() -> None:
    columns: dict[str, Any] = {
        "observations": [1.0, 2.0, 3.0],
        "actions": [0, 1, 0],
        "rewards": [0.0] * 3,
        "time": [2, 1, 0],
    }
    log = Transitions(**columns, next_observations=[np.nan, 1.0, 2.0], terminated=[1, 0, 0])
    assert log.next_observations.plain().tolist() == [2.0, 1.0, 3.0]
    with pytest.raises(InputError, match="row 2"):
        Transitions(**columns, next_observations=[4.0, 1.0, np.nan], terminated=[1, 0, 0])


@pytest.mark.parametrize(
    "time",
    [
        np.array([3, 1, 2, 0, 4], dtype=np.uint64) + np.uint64(2**63),
        np.array([3, 1, 2, 0, 4]) * 2 + (2**53 + 1),
        np.array([3, 1, 2, 0, 4], dtype="datetime64[s]"),
        np.array([3, 1, 2, 0, 4], dtype="datetime64[D]"),
        np.array([3, 1, 2, 0, 4], dtype="timedelta64[ms]"),
        np.array([3, 1, 2, 0, 4], dtype=np.float16),
        np.array([2**63 - 1, -(2**62), 0, -(2**63), 2**63 - 1]) - np.array([1, 0, 0, 0, 0]),
    ],
)
def test_times_of_every_type_sort(time: Any) -> None:
    log = Transitions([0, 1, 2, 3, 4], [0] * 5, [0.0] * 5, np.arange(5) + 10, time=time)
    assert log.observations.plain().tolist() == [3, 1, 2, 0, 4]


def test_equal_times_name_both_rows() -> None:
    with pytest.raises(
        InputError,
        match=r"row 1 \(counted from 0\) and row 3 \(counted from 0\); add to the column what tells",
    ):
        example(time=[0, 1, 2, 1, 4])
    with pytest.raises(InputError, match="pass trajectory= if several trajectories share times"):
        example(time=[0, 1, 2, 1, 4], trajectory=None)


def test_flagged_row_before_the_end_of_its_episode_is_refused() -> None:
    with pytest.raises(InputError, match="flagged row of an episode last"):
        example(trajectory=None, time=[0, 2, 1, 0, 1], terminated=[0, 0, 1, 0, 1])


def test_rules_must_be_known() -> None:
    with pytest.raises(InputError, match="on_termination must be one of restart, keep, drop"):
        example(on_termination="stop")
    with pytest.raises(InputError, match="on_truncation must be one of"):
        example(on_truncation=1)
    for lag in (2, True, 0.0, "1"):
        with pytest.raises(InputError, match="reward_lag must be 0 or 1"):
            example(reward_lag=lag)


def test_order_does_not_depend_on_the_way_it_is_found() -> None:
    rng = np.random.default_rng(3)
    rows, ids = 5000, 40
    trajectory = rng.integers(0, ids, rows)
    time = rng.permutation(rows)
    expected = None
    for shift, dtype in ((0, np.int64), (2**40, np.int64), (0, np.float64)):
        log = Transitions(
            np.arange(rows),
            np.zeros(rows, int),
            np.zeros(rows),
            np.arange(rows),
            trajectory=trajectory,
            time=(time + shift).astype(dtype) * 8,
        )
        found = log.observations.plain()
        expected = found if expected is None else expected
        np.testing.assert_array_equal(found, expected)
    first = {name: place for place, name in reversed(list(enumerate(trajectory.tolist())))}
    slow = sorted(range(rows), key=lambda i: (first[int(trajectory[i])], time[i]))
    assert expected is not None
    assert expected.tolist() == slow
