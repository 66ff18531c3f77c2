"""Columns in the names of folders, and categories of several files."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cesaro as cs
from cesaro.data import Log
from cesaro.data import blocks as block_module
from cesaro.data.sources.files import FilesSource
from cesaro.data.sources.formats import open_path
from cesaro.errors import InputError

from .writers import WRITERS


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_module, "BLOCK_ROWS", 8)


def rows(start: int) -> pa.Table:
    numbers = np.arange(start, start + 20)
    return pa.table({"x": numbers * 1.0, "action": numbers % 2, "reward": numbers * 0.5})


def written(folder: Path, names: list[str], ending: str = "parquet") -> Path:
    for number, name in enumerate(names):
        path = folder / name / f"part.{ending}"
        path.parent.mkdir(parents=True)
        WRITERS[ending](rows(20 * number), str(path))
    return folder


def both(folder: Path, **options: Any) -> list[Log]:
    found: list[Log] = [
        cs.read(folder, action="action", reward="reward", **options, stream=stream).opened() for stream in (False, True)
    ]
    assert found[0].counts == found[1].counts
    assert found[0].notes == found[1].notes
    return found


@pytest.mark.parametrize("ending", WRITERS)
def test_keys_of_folders_are_columns(ending: str, tmp_path: Path) -> None:
    names = ["agent=1/place=a%20b", "agent=1/place=c", "agent=2/place=c"]
    source = open_path(str(written(tmp_path, names, ending)))
    assert source.names == ("x", "action", "reward", "agent", "place")
    if source.types is not None:
        assert source.types.field("agent").type == pa.int64()
    for log in both(tmp_path, observation=["x", "place"], trajectory="agent"):
        assert log.lengths is not None
        assert log.lengths.tolist() == [39, 19]
        blocks = list(log.blocks())
        places = [place for block in blocks for place in block.observations.plain()["place"].tolist()]
        assert places == ["a b"] * 20 + ["c"] * 38
        then = np.concatenate([block.next_observations.plain()["x"] for block in blocks])
        np.testing.assert_array_equal(then, [*range(1, 40), *range(41, 60)])
    for log in both(tmp_path, observation="x", trajectory="place"):  # no other column tells the structure
        assert log.lengths is not None
        assert log.lengths.tolist() == [19, 39]
    for log in both(tmp_path, observation="x"):
        assert len(log) == 59
    head = source.head(["place"], 3)
    assert head is not None
    assert head.to_pydict() == {"place": ["a b"] * 3}


def test_keys_that_are_no_columns(tmp_path: Path) -> None:
    written(tmp_path, ["agent=1", "agent=2/x=7", "other"])
    source = open_path(str(tmp_path))
    assert source.names == ("x", "action", "reward")
    assert source.notes == ('The folders\' names hold "agent", which is not a column because not all files have it.',)


def test_a_missing_value(tmp_path: Path) -> None:
    written(tmp_path, ["agent=1", "agent=__HIVE_DEFAULT_PARTITION__"])
    for stream in (False, True):
        with pytest.raises(
            InputError,
            match=r'"agent" must not have missing entries. Got an empty entry at row 0 of agent=__HIVE.*20 in all',
        ):
            cs.read(tmp_path, observation="x", trajectory="agent", stream=stream).opened()


def test_parquet_goes_before_other_formats(tmp_path: Path) -> None:
    written(tmp_path, ["a"])
    WRITERS["csv"](rows(0), str(tmp_path / "a" / "b.csv"))
    source = open_path(str(tmp_path))
    assert isinstance(source, FilesSource)
    assert source.files.names == ("a/part.parquet",)
    assert source.notes == ("The Parquet files of the folder were read, and not a/b.csv.",)
    WRITERS["arrow"](rows(0), str(tmp_path / "c.arrow"))
    (tmp_path / "a" / "part.parquet").unlink()
    with pytest.raises(InputError, match=r"must hold files of one format. Got a/b.csv and c.arrow"):
        open_path(str(tmp_path))


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_many_categories_in_narrow_codes(ending: str, tmp_path: Path) -> None:
    tables = []
    for number, kind in enumerate((pa.int8(), pa.int8(), pa.int16())):
        labels = [f"{number} {label:03}" for label in range(100)]
        column = pa.DictionaryArray.from_arrays(pa.array(range(100), kind), labels)
        table = pa.table({"x": column, "action": [0] * 100, "reward": [1.0] * 100})
        tables.append(table)
        WRITERS[ending](table, str(tmp_path / f"{number}.{ending}"))
    for log in both(tmp_path, observation="x"):
        found = [label for block in log.blocks() for label in block.observations.plain().tolist()]
        assert found == [f"{row // 100} {row % 100:03}" for row in range(299)]
    whole = cs.read(pa.concat_tables(tables[:2]), observation="x").load()
    assert len(set(whole.observations.plain().tolist())) == 199
