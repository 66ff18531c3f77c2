"""A log that was taken as one trajectory says which columns could have told trajectories apart."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from cesaro.data import read

from .sources.writers import WRITERS

ROWS = 200
NOTE = (
    'The log was taken as one trajectory; column "agent" was not used: if it names trajectories, give trajectory="agent" '
    "(--trajectory agent)."
)


def table(**columns: Any) -> pa.Table:
    t = np.arange(ROWS)
    return pa.table({"state": t % 3, "action": t % 2, "reward": t / 7, "agent": [f"a{i % 4}" for i in t], **columns})


def notes(source: Any, **options: Any) -> list[str]:
    return [note for note in read(source, **options).notes if "one trajectory" in note]


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("agent", [None, [i % 4 for i in range(ROWS)]])
def test_files(tmp_path: Path, ending: str, agent: list[int] | None) -> None:
    file = tmp_path / f"log.{ending}"
    WRITERS[ending](table() if agent is None else table(agent=agent), file)
    assert notes(file) == [NOTE]
    assert notes(file, trajectory="agent") == []


def test_frames_and_tables() -> None:
    for frame in (table(), table().to_pandas(), pl.from_arrow(table())):
        assert notes(frame) == [NOTE]
    frame = pd.DataFrame(table().to_pandas())
    frame["mixed"] = pd.Series([1, "x"] * (ROWS // 2), dtype=object)
    assert notes(frame) == [NOTE]


@pytest.mark.parametrize(
    "agent",
    [
        list(range(ROWS)),  # a row number
        ["same"] * ROWS,
        [i % 4 + 0.5 for i in range(ROWS)],
        [i % 2 == 0 for i in range(ROWS)],
        [i % 4 if i else None for i in range(ROWS)],
    ],
)
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_columns_that_are_no_ids(tmp_path: Path, agent: list[Any], ending: str) -> None:
    file = tmp_path / f"log.{ending}"
    WRITERS[ending](table(agent=agent), file)
    assert notes(file) == []


def test_logs_that_say_what_belongs_together() -> None:
    flag = [False] * (ROWS - 1) + [True]
    assert notes(table(terminated=flag)) == []
    assert notes(table(next_state=np.arange(ROWS) % 3)) == []
    assert notes(table(), trajectory=False) == []
    assert notes(table(done=np.arange(ROWS) % 2), terminated=False, truncated=False) == [NOTE]


def test_several_columns_are_named_together() -> None:
    (note,) = notes(table(hour=np.arange(ROWS) % 8))
    assert 'columns "agent", "hour" were not used: if one of them names trajectories' in note


def test_a_broken_column_that_nobody_asked_for_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    rows = b"".join(b"%d,%d,1.0,\xff\n" % (t % 3, t % 2) for t in range(ROWS))
    file.write_bytes(b"state,action,reward,agent\n" + rows)
    assert notes(file) == []
