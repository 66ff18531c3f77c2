"""Rows with missing entries: left out where asked, and never bridged."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cesaro as cs
from cesaro.data import Transitions
from cesaro.errors import InputError

Row = dict[str, Any]


def oracle(rows: list[Row], *, lag: int, restart: bool, has_next: bool) -> list[tuple[Any, ...]]:
    """Transitions `(s, a, r, s')`, row by row: rows are in order, with the id of their trajectory and a flag at its end."""

    def is_complete(row: Row) -> bool:
        needed = ["state", "action", *([] if lag else ["reward"])]
        if has_next and not (row["ended"] and restart):
            needed.append("after")
        return all(row[name] is not None for name in needed)

    found = []
    for place, row in enumerate(rows):
        below = rows[(place + 1) % len(rows)]
        goes_on = place + 1 < len(rows) and below["id"] == row["id"] and not row["ended"]
        if not is_complete(row) or (lag and not (goes_on and is_complete(below) and below["reward"] is not None)):
            continue
        if row["ended"] and restart:
            after = below["state"] if is_complete(below) else None
        elif has_next:
            after = row["after"]
        else:
            after = below["state"] if goes_on and is_complete(below) else None
        if after is not None:
            found.append((row["state"], row["action"], (below if lag else row)["reward"], after))
    return found


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("has_next", [True, False])
@pytest.mark.parametrize("form", ["numbers", "labels"])
def test_no_row_is_bridged(lag: int, restart: bool, has_next: bool, form: str) -> None:
    """Transitions are those that a plain loop finds, whatever is missing, and in whatever order the file holds the rows."""
    rng = np.random.default_rng([lag, restart, has_next])
    for _ in range(6):
        value = float if form == "numbers" else "s{}".format
        states = [value(number) for number in range(31)]
        rows: list[Row] = [
            {
                "id": place // 10,
                "time": place,
                "state": states[place],
                "action": "ab"[rng.integers(2)],
                "reward": float(place),
                "after": states[place + 1],
                "ended": bool(place % 10 == 9),
            }
            for place in range(30)
        ]
        for name in ("state", "action", "reward", "after"):
            for place in rng.choice(30, size=2, replace=False):
                rows[place][name] = None
        # Trajectories count in the order in which they first appear.
        mixed = [5, 15, 25, *(place for place in rng.permutation(30) if place not in (5, 15, 25))]
        for shuffled in (rows, [rows[place] for place in mixed]):
            given = {name: [row[name] for row in shuffled] for name in rows[0]}
            roles: Row = {"observation": "state", "trajectory": "id", "time": "time", "terminated": "ended"}
            after: Any = "after" if has_next else False
            log = cs.read(
                given,
                **roles,
                next_observation=after,
                reward_lag=lag,
                on_termination="restart" if restart else "drop",
                gap=None,
                drop_incomplete=True,
            ).load()
            expected = oracle(rows, lag=lag, restart=restart, has_next=has_next)
            if not restart:
                expected = [one for one in expected if (states.index(one[0]) % 10) != 9]
            got = zip(log.observations.plain(), log.actions.plain(), log.rewards, log.next_observations.plain())
            assert [(s, a, r, t) for s, a, r, t in got] == expected
            assert (log.counts["rows"], log.counts["kept"]) == (30, len(expected))


def test_the_note_says_what_it_cost() -> None:
    observation = [0.0, 1.0, np.nan, 3.0, 4.0, 5.0]
    log = Transitions(observation, ["a", "b", "a", "b", "a", "b"], np.arange(6.0), drop_incomplete=True)
    assert log.next_observations.plain().tolist() == [1.0, 4.0, 5.0]
    assert log.notes == (
        "Trajectories were cut at 1 place where rows were left out.",
        'Dropped 3 of 6 rows: 1 with an empty entry in "observation", 1 at the end of a trajectory without a next observation, '
        "1 before rows that were left out.",
    )
    vectors = np.column_stack([observation, np.ones(6)])
    again = Transitions(vectors, ["a", "b", "a", "b", "a", "b"], np.arange(6.0), drop_incomplete=True)
    assert again.rewards.tolist() == log.rewards.tolist() == [0.0, 3.0, 4.0]


def test_entries_of_text_count_as_missing(tmp_path: Path) -> None:
    """An error names the line and what stands there; with the option the rows go, and later errors still name the right line."""
    lines = ["state,action,reward", "a,go,1", "b,,2", "a,go,3", "b,stay,n/a", "a,go,5", "b,go,6", "a,stay,7"]
    file = tmp_path / "log.csv"
    file.write_text("\n".join(lines))
    with pytest.raises(
        cs.InputError, match=r'"reward" .* \'n/a\', which counts as an empty entry, at row 3 .*, line 5; fill'
    ):
        cs.read(file).load()
    log = cs.read(file, drop_incomplete=True).load()
    assert (log.observations.plain().tolist(), log.rewards.tolist()) == (["a", "b"], [5.0, 6.0])
    file.write_text("\n".join([*lines, "b,go,inf"]))
    with pytest.raises(cs.InputError, match=r"Got inf at row 7 \(counted from 0\), line 9; replace it"):
        cs.read(file, drop_incomplete=True).load()
    file.write_text("\n".join([lines[0], "a,,1", "b,,2"]))
    with pytest.raises(cs.InputError, match=r'Got none of 2 rows \(2 with an empty entry in "action"\)'):
        cs.read(file, drop_incomplete=True).load()


def test_ids_times_and_flags_must_be_there() -> None:
    rows: Row = {"state": [0.0, 1.0, 2.0], "action": ["a", "b", "a"], "reward": [1.0, 2.0, 3.0]}
    for name, entries in (
        ("trajectory", ["x", None, "x"]),
        ("time", [0, None, 2]),
        ("terminated", [False, None, False]),
    ):
        with pytest.raises(
            cs.InputError, match=rf'"{name}" must not have missing entries.*; fill it in or remove that row'
        ):
            cs.read({**rows, name: entries}, drop_incomplete=True).load()


def test_a_complaint_counts_the_rows_that_were_left_out() -> None:
    """Also where it is about an entry of a dictionary, which many rows may share."""
    state = pa.array([1.0, 2.0, 1.0, 2.5, 1.0]).dictionary_encode()
    table = pa.table({"state": state, "action": [0, 1, 0, 1, 0], "reward": [1.0, None, 1.0, 2.0, 1.0]})
    log = cs.read(table, kinds={"state": "category"}, drop_incomplete=True)
    with pytest.raises(InputError, match=r"Got 2\.5 at row 3 \(counted from 0\)"):
        log.load()
