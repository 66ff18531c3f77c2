"""Logs in pieces: whatever the format and the sizes, the pieces are the whole."""

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import cesaro as cs
from cesaro.data import blocks as block_module
from cesaro.data.roles import RoleColumns, Roles
from cesaro.data.sources import files
from cesaro.data.sources.files import FilesSource
from cesaro.data.sources.formats import open_path
from cesaro.errors import InputError

from .writers import WRITERS, Writer

ROWS = 230
ROLES = Roles(RoleColumns(("x", "place")), RoleColumns(("action",)), "reward", trajectory="run")


def table() -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "reward": rng.normal(size=ROWS),
            "action": rng.integers(0, 3, ROWS),
            "unused": np.arange(ROWS),
            "place": rng.choice(["north", "south", "ä"], ROWS),
            "x": rng.normal(size=ROWS).astype(np.float32),
            "run": [f"run {row // 50}" for row in range(ROWS)],
        }
    )


def with_lists() -> pa.Table:
    vectors = np.random.default_rng(1).normal(size=(ROWS, 3))
    return table().set_column(4, "x", pa.array(list(vectors), pa.list_(pa.float64())))


def _european(data: pa.Table, path: Path) -> None:
    lines = [[str(entry).replace(".", ",") for entry in row.values()] for row in data.to_pylist()]
    path.write_text("\n".join(";".join(line) for line in [data.column_names, *lines]))


# How files are written, and how their names end.
WAYS: dict[str, tuple[str, Writer]] = {
    **{ending: (ending, write) for ending, write in WRITERS.items()},
    "one row group": ("parquet", pq.write_table),
    "row groups of 13": ("parquet", partial(WRITERS["parquet"], rows=13)),
    "plain pages": ("parquet", lambda data, path: pq.write_table(data, path, use_dictionary=False, row_group_size=90)),
    "csv with decimal commas": ("csv", _european),
}


def opened(path: Path | str, **options: Any) -> FilesSource:
    found = open_path(str(path), **options)
    assert isinstance(found, FilesSource)
    return found


def pieces(
    source: FilesSource, roles: Roles, start: int = 0, kinds: dict[str, str] | None = None
) -> list[list[pa.Table]]:
    types = source.piece_types(roles, kinds or {})
    source = pickle.loads(pickle.dumps(source))
    found = [list(source.batches(file, roles.columns(), start)) for file in range(len(source.files))]
    for blocks in found:
        assert all(block.schema.equals(types) for block in blocks)
        assert all(len(block) == block_module.BLOCK_ROWS for block in blocks[:-1])
        assert all(0 < len(block) <= block_module.BLOCK_ROWS for block in blocks[-1:])
    return found


def check(path: Path | str, roles: Roles = ROLES, kinds: dict[str, str] | None = None) -> FilesSource:
    whole, files = opened(path).table(roles, kinds or {})
    source = opened(path)
    for start in (0, block_module.BLOCK_ROWS, 3 * block_module.BLOCK_ROWS, 12 * block_module.BLOCK_ROWS):
        row = 0
        for (_, rows), blocks in zip(files, pieces(source, roles, start, kinds), strict=True):
            found = pa.concat_tables([whole.slice(0, 0), *blocks])
            expected = whole.slice(row + start, max(0, rows - start))
            # Bit for bit; a text is the same whatever dictionary holds it.
            assert found.to_pydict() == expected.to_pydict()
            row += rows
    assert source.files.names == tuple(name for name, _ in files)
    assert source.file_rows() == tuple(rows for _, rows in files)
    assert source.num_rows == len(whole)
    return source


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_module, "BLOCK_ROWS", 20)
    monkeypatch.setattr(files, "CHUNK", 1_000)


@pytest.mark.parametrize("name", WAYS)
def test_pieces_are_the_whole(name: str, tmp_path: Path) -> None:
    ending, write = WAYS[name]
    write(table(), tmp_path / f"log.{ending}")
    check(tmp_path / f"log.{ending}")
    (tmp_path / "logs" / "day=2").mkdir(parents=True)
    for place, part in (("a", table().slice(0, 75)), ("day=2/a", table().slice(75, 40)), ("z", table().slice(115))):
        write(part.select(part.column_names[:: -1 if place == "z" else 1]), tmp_path / "logs" / f"{place}.{ending}")
    source = check(tmp_path / "logs")
    assert source.files.names == (f"a.{ending}", f"day=2/a.{ending}", f"z.{ending}")
    check(tmp_path / "logs" / f"*.{ending}")
    whole = opened(tmp_path / "logs").table(ROLES, {})[0]
    assert whole.to_pydict() == opened(tmp_path / f"log.{ending}").table(ROLES, {})[0].to_pydict()


@pytest.mark.parametrize("name", ["row groups of 13", "arrow", "feather", "arrows"])
def test_lists_come_in_pieces(name: str, tmp_path: Path) -> None:
    ending, write = WAYS[name]
    write(with_lists(), tmp_path / f"log.{ending}")
    source = check(tmp_path / f"log.{ending}")
    assert source.nbytes(ROLES) >= ROWS * 3 * 8


@pytest.mark.parametrize("name", WAYS)
def test_the_size_in_memory_is_about_right(name: str, tmp_path: Path) -> None:
    ending, write = WAYS[name]
    write(table(), tmp_path / f"log.{ending}")
    source = opened(tmp_path / f"log.{ending}")
    held = source.table(ROLES, {})[0].nbytes
    assert held / 2.5 < source.nbytes(ROLES) < held * 2.5


def test_a_file_without_rows_has_no_pieces(tmp_path: Path) -> None:
    for name in ("row groups of 13", "arrow", "csv"):
        ending, write = WAYS[name]
        folder = tmp_path / ending
        folder.mkdir()
        write(table(), folder / f"a.{ending}")
        write(table().slice(0, 0), folder / f"b.{ending}")
        assert [len(blocks) for blocks in pieces(check(folder), ROLES)] == [12, 0]


def test_an_excerpt_has_every_column_that_can_be_read(tmp_path: Path) -> None:
    """Text that is not UTF-8 in a column that nobody asked for, in a file of few rows and in one of many."""
    broken = pa.StringArray.from_buffers(1, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff"))
    data = table().append_column("note", pa.concat_arrays([broken] * ROWS))
    WRITERS["arrow"](data, tmp_path / "log.arrow")
    for rows in (ROWS, 80):
        found = opened(tmp_path / "log.arrow").excerpt(rows)
        assert found.column_names == table().column_names
        assert found.slice(0, 10).to_pydict() == table().slice(0, 10).to_pydict()
    _broken_header(tmp_path / "log.arrow")
    with pytest.raises(InputError, match=r"^log.arrow must be a complete Arrow file"):
        opened(tmp_path / "log.arrow").excerpt(ROWS)


# CSV: types of the whole column


def lines(tmp_path: Path, *entries: str, name: str = "log.csv", separator: str = ",") -> Path:
    """A log whose observation has these entries, 100 rows of each, so that every chunk sees one."""
    rows = [separator.join((entry, str(row % 2), "1")) for entry in entries for row in range(100)]
    (tmp_path / name).write_text("\n".join([separator.join(("x", "action", "reward")), *rows]) + "\n", encoding="utf-8")
    return tmp_path / name


PLAIN = Roles(RoleColumns(("x",)), RoleColumns(("action",)), "reward")


@pytest.mark.parametrize(
    ("entries", "kind"),
    [
        (("1", "2.5"), pa.float64()),
        (("2.5", "1"), pa.float64()),
        (("", "7"), pa.int64()),
        (("0", "true", "1"), pa.bool_()),
        (("2024-01-01", "2024-01-01 10:00:00"), pa.timestamp("s")),
        (("2024-01-01 10:00:00.5", "2024-01-01"), pa.timestamp("ns")),
        (("2024-01-01T10:00:00.5Z", "2024-01-01T10:00:00Z"), pa.timestamp("ns", "UTC")),
        (("2024-01-01", "10:00:00"), pa.string()),
        (("true", "false", "maybe"), pa.string()),
    ],
)
def test_types_come_from_all_chunks(entries: tuple[str, ...], kind: pa.DataType, tmp_path: Path) -> None:
    source = check(lines(tmp_path, *entries), PLAIN)
    assert source.piece_types(PLAIN, {}).field("x").type == kind
    one = pyarrow.csv.read_csv(tmp_path / "log.csv")
    assert one.schema.field("x").type == kind


def test_what_comes_first_in_dates_is_found_in_all_chunks(tmp_path: Path) -> None:
    timed = Roles(RoleColumns(("action",)), RoleColumns(("action",)), "reward", time="x")
    for last, day in (("31/01/2025 14:30", 5), ("01/31/2025 14:30", 4)):
        source = check(lines(tmp_path, "05/04/2024", last), timed)
        assert source.piece_types(timed, {}).field("x").type == pa.timestamp("s")
        assert source.table(timed, {})[0]["x"][0].as_py().day == day


@pytest.mark.parametrize(
    ("entries", "kind"),
    [
        (("2", "true"), pa.string()),
        (("0x1F", "2.5"), pa.string()),
        (("1500-01-01", "2024-01-01 10:00:00.5"), pa.string()),
    ],
)
def test_chunks_that_contradict_each_other_are_text(
    entries: tuple[str, ...], kind: pa.DataType, tmp_path: Path
) -> None:
    """Where the first chunks would fit the type of the others, if it were not for what stands in them."""
    path = lines(tmp_path, *entries)
    assert pyarrow.csv.read_csv(path).schema.field("x").type == kind
    labels = {"x": "category"}
    source = check(path, PLAIN, labels)
    assert source.piece_types(PLAIN, labels).field("x").type == kind


def test_files_agree_on_types(tmp_path: Path) -> None:
    lines(tmp_path, "1", name="a.csv")
    lines(tmp_path, "2.5", "", name="b.csv")
    source = check(tmp_path, PLAIN)
    assert source.piece_types(PLAIN, {}).field("x").type == pa.float64()


def refused(match: str, path: Path, kinds: dict[str, str] | None = None) -> None:
    """In one piece and in many, with the same sentence."""
    for use in (FilesSource.table, FilesSource.piece_types):
        source = opened(path)
        with pytest.raises(InputError, match=match):
            getattr(source, use.__name__)(PLAIN, kinds or {})


def test_text_that_is_a_mistake_is_refused_with_its_row(tmp_path: Path) -> None:
    refused(
        r"^log.csv: column \"x\" must hold numbers or text, not both. Got 'n/a!' at row 100 \(",
        lines(tmp_path, "1", "n/a!"),
    )
    refused(r"Got '2,5', a decimal comma; write it with a decimal point", lines(tmp_path, "1", '"2,5"'))
    large = lines(tmp_path, "1", "92233720368547758070")
    refused(r"must be clear about its kind. Got whole numbers of 2\*\*53 or more", large)
    source = check(large, PLAIN, {"x": "category"})
    assert source.piece_types(PLAIN, {"x": "category"}).field("x").type == pa.string()
    check(large, PLAIN, {"x": "number"})


def test_rows_of_several_files_are_named_with_their_file(tmp_path: Path) -> None:
    lines(tmp_path, "1", name="a.csv")
    lines(tmp_path, "2", "abc", name="b.csv")
    refused(r"numbers or text, not both. Got 'abc' at row 100 of b.csv \(counted from 0\)", tmp_path)


def test_decimal_commas_far_down(tmp_path: Path) -> None:
    path = lines(tmp_path, "1", "2,5", separator=";")
    source = check(path, PLAIN)
    assert source.piece_types(PLAIN, {}).field("x").type == pa.float64()
    assert any("decimal commas" in note for note in source.notes)
    refused(r"Got '0\.5', a decimal point in a file whose other columns", _points(tmp_path))
    labels = check(_points(tmp_path), PLAIN, {"x": "category"})
    assert labels.piece_types(PLAIN, {"x": "category"}).field("x").type == pa.float64()


def _points(tmp_path: Path) -> Path:
    """Decimal points in the observation, commas in the reward."""
    rows = [f"0.5;{row % 2};1,5" for row in range(300)]
    (tmp_path / "points.csv").write_text("\n".join(["x;action;reward", *rows]))
    return tmp_path / "points.csv"


def test_separators_must_agree(tmp_path: Path) -> None:
    lines(tmp_path, "1", name="a.csv")
    lines(tmp_path, "1", name="b.csv", separator=";")
    with pytest.raises(InputError, match=r"b.csv must separate its columns as a.csv does. Got ';' instead of ','"):
        opened(tmp_path)


def test_line_ends(tmp_path: Path) -> None:
    text = lines(tmp_path, "1", "2.5", "3").read_bytes()
    for number, end in enumerate((b"\r\n", b"\r", b"\n\n")):
        path = tmp_path / f"ends{number}.csv"
        path.write_bytes(text.replace(b"\n", end))
        assert check(path, PLAIN).num_rows == 300


def test_rows_are_counted_without_types(tmp_path: Path) -> None:
    for name in ("csv", "csv.gz", "arrows"):
        ending, write = WAYS[name]
        write(table(), tmp_path / f"log.{ending}")
        assert opened(tmp_path / f"log.{ending}").file_rows() == (ROWS,)


# Folders


def test_folders_hold_one_format(tmp_path: Path) -> None:
    WRITERS["arrow"](table(), tmp_path / "a.arrow")
    WRITERS["csv"](table(), tmp_path / "b.csv")
    with pytest.raises(InputError, match=r"must hold files of one format. Got a.arrow and b.csv; name one"):
        opened(tmp_path)
    (tmp_path / "b.csv").rename(tmp_path / "_b.csv")
    (tmp_path / "notes.txt").write_text("no log")
    assert opened(tmp_path).files.names == ("a.arrow",)


# Files that cannot be read


def _broken_header(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _broken_page(path: Path) -> None:
    """Its footer is fine: only the data tell."""
    content = bytearray(path.read_bytes())
    content[4:200] = b"\xff" * 196
    path.write_bytes(content)


def _broken_line(path: Path) -> None:
    path.write_text(path.read_text() + "1,2\n")


BROKEN: dict[str, tuple[str, Callable[[Path], None]]] = {
    "parquet, cut": ("row groups of 13", _broken_header),
    "parquet, a page": ("one row group", _broken_page),
    "arrow, cut": ("arrow", _broken_header),
    "arrow stream, cut": ("arrows", _broken_header),
    "csv, a line": ("csv", _broken_line),
    "csv.gz, cut": ("csv.gz", _broken_header),
}


@pytest.mark.parametrize("name", BROKEN)
def test_files_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    writer, damage = BROKEN[name]
    ending, write = WAYS[writer]
    for number in range(3):
        write(table().slice(number * 70, 70), tmp_path / f"part-{number}.{ending}")
    damage(tmp_path / f"part-1.{ending}")
    options: dict[str, Any] = {"observation": ["x", "place"], "trajectory": "run"}
    with pytest.raises(InputError, match=rf"^part-1.{ending} must be a"):
        cs.read(tmp_path, **options).load()
    with pytest.raises(InputError, match=rf"^part-1.{ending} must be a"):
        pieces(opened(tmp_path), ROLES)

    log = cs.read(tmp_path, skip_bad_files=True, **options)
    said = [note for note in log.load().notes if note.startswith("Left out")]
    assert len(said) == 1
    assert said[0].startswith(f"Left out 1 of 3 files that cannot be read: part-1.{ending} (")
    assert log.counts["files"] == 2
    whole = opened(tmp_path, skip_bad_files=True)
    expected, files = whole.table(ROLES, {})
    assert [name for name, _ in files] == [f"part-{number}.{ending}" for number in (0, 2)]
    source = opened(tmp_path, skip_bad_files=True)
    found = [block for blocks in pieces(source, ROLES) for block in blocks]
    assert pa.concat_tables(found).to_pydict() == expected.to_pydict()
    assert source.files.names == whole.files.names
    assert source.file_rows() == whole.file_rows() == (70, 70)
    assert [text.partition(": ")[0] for text in source.files.skipped] == [f"part-1.{ending}"]
    assert source.notes == whole.notes


@pytest.mark.parametrize("name", ["file", "stream"])
def test_a_huge_record_batch_takes_no_memory(name: str, tmp_path: Path) -> None:
    rows = 300_000
    batch = pa.record_batch({"x": np.arange(rows) * 1.0, "y": np.arange(rows), "z": np.arange(rows)})
    path = tmp_path / "log.arrow"
    writer = pyarrow.ipc.new_file if name == "file" else pyarrow.ipc.new_stream
    with writer(str(path), batch.schema) as file:
        file.write_batch(batch)
    source = opened(path)
    before, found = pa.total_allocated_bytes(), []
    for block in source.batches(0, ["y", "x"]):
        assert pa.total_allocated_bytes() - before < batch.nbytes / 10
        found.append(int(block["y"][-1].as_py()))
    assert found == [*range(block_module.BLOCK_ROWS - 1, rows - 1, block_module.BLOCK_ROWS), rows - 1]


def test_no_file_left(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.parquet").write_bytes(b"PAR1")
    with pytest.raises(
        InputError, match=r"must hold a file that can be read. Got 2 that cannot, the last because: b.parq"
    ):
        opened(tmp_path, skip_bad_files=True)
    with pytest.raises(InputError, match=r"skip_bad_files must be True or False. Got 1"):
        cs.read(tmp_path, skip_bad_files=1)  # type: ignore[arg-type]
