"""Places that a folder or a pattern leads to: whatever may hold a part of the log is read, refused or named."""

import bz2
import glob
import gzip
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from cesaro.data import read
from cesaro.data.sources import places
from cesaro.data.sources.files import FilesSource
from cesaro.data.sources.formats import open_path
from cesaro.data.sources.places import EVERYTHING, Location, Selection
from cesaro.errors import InputError

ROWS = 10


def rows(start: int) -> pa.Table:
    numbers = range(start, start + ROWS)
    return pa.table({"state": [n % 3 for n in numbers], "action": [0] * ROWS, "reward": [float(n) for n in numbers]})


def written(path: Path, start: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    (pq.write_table if path.suffix == ".parquet" else pyarrow.csv.write_csv)(rows(start), path)
    return path


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Three files in two folders."""
    for number, name in enumerate(("a.parquet", "sub/b.parquet", "z.parquet")):
        written(tmp_path / "logs" / name, number * ROWS)
    return tmp_path / "logs"


def rewards(source: Any, **options: Any) -> list[float]:
    log = read(source, **options)
    return [reward for block in log.blocks() for reward in block.rewards.tolist()]


def files(source: Path | str, **options: Any) -> tuple[str, ...]:
    found = open_path(str(source), **options)
    assert isinstance(found, FilesSource)
    return found.files.names


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Lock a folder, also for a user who may read everything."""
    refused: set[str] = set()
    scandir = os.scandir

    def listed(path: str) -> Any:
        if os.path.realpath(path) in refused:
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listed)
    return lambda folder: refused.add(os.path.realpath(folder))


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _broken(path: Path) -> None:
    path.symlink_to(path.parent / "absent")


def _round(path: Path) -> None:
    path.symlink_to(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened, pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)  # the path of a socket may not be long
        opened.bind(path.name)


OBSTACLES: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "a named pipe": ("part.parquet", _pipe, "a named pipe"),
    "a socket": ("part.parquet", _socket, "a socket"),
    "a device": ("part.parquet", lambda path: path.symlink_to(os.devnull), "a device"),
    "a broken link": ("part.parquet", _broken, "a broken link"),
    "a broken link to a folder, perhaps": ("day=3", _broken, "a broken link"),
    "a link to itself": ("part.parquet", _round, "what cannot be opened (Too many levels of symbolic links)"),
    "an empty folder named like a file": ("part.parquet", Path.mkdir, "a folder without logs"),
}


@pytest.mark.parametrize("name", OBSTACLES)
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_read_is_named(name: str, stream: bool, logs: Path) -> None:
    entry, make, got = OBSTACLES[name]
    make(logs / entry)
    for source in (logs, f"{logs}/**/*.parquet", f"file://{logs}"):
        with pytest.raises(InputError) as error:
            rewards(source, stream=stream)
        assert str(error.value) == (
            f"{entry} must be readable, because it may hold a part of the log. Got {got}; repair or move it, or leave such "
            "files out (skip_bad_files=True, --skip-bad-files)."
        )
        log = read(source, skip_bad_files=True, stream=stream)
        assert log.notes[0] == f"Left out 1 of 4 files that cannot be read: {entry} ({got})."
        assert log.counts["files"] == 3
        # No transition leads over the place where it would have been.
        assert 9.0 not in rewards(source, skip_bad_files=True, stream=stream)


@pytest.mark.parametrize("stream", [False, True])
def test_a_folder_that_cannot_be_listed_is_named(stream: bool, logs: Path, locked: Callable[[Path], None]) -> None:
    everything = sum(rewards(logs))
    locked(logs / "sub")
    got = r"^sub must be readable, .* Got a folder that cannot be read \(Permission denied\); repair .* \(skip_bad_files=True"
    for source in (logs, f"{logs}/**/*.parquet", f"file://{logs}"):
        with pytest.raises(InputError, match=got):
            read(source, stream=stream)
        log = read(source, skip_bad_files=True, stream=stream)
        assert log.notes[0].startswith(
            "Left out 1 of 3 files that cannot be read: sub (a folder that cannot be read (Perm"
        )
        assert sum(rewards(source, skip_bad_files=True, stream=stream)) < everything
    with pytest.raises(InputError, match=r"^sub must be readable, .* Got a folder that .*; repair or move it\.$"):
        read(f"{logs}/*/*.parquet")
    with pytest.raises(
        InputError, match=r"must hold a file that can be read. Got 1 that cannot, the last because: sub must"
    ):
        read(f"{logs}/*/*.parquet", skip_bad_files=True)
    assert files(f"{logs}/*.parquet") == ("a.parquet", "z.parquet")  # nothing below the folder is asked for
    assert files(f"{logs}/*/b.parquet") == ("sub/b.parquet",)  # its name is known without a list
    locked(logs)
    with pytest.raises(InputError, match=r"^logs must be readable, .* Got a folder that cannot be read \(Permission"):
        read(logs)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_permissions(mode: int, logs: Path) -> None:
    (logs / "sub").chmod(mode)
    try:
        with pytest.raises(InputError, match=r"^sub.* must be readable, .* Permission denied"):
            read(logs)
        with pytest.raises(InputError, match="Got: Permission denied; check the path and its permissions"):
            read(logs / "sub" / "b.parquet")
    finally:
        (logs / "sub").chmod(0o700)


def test_entries_of_a_folder_that_may_only_be_listed(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right to go there names are known, and nothing else."""
    (logs / "sub" / "notes.txt").write_text("")
    stat = os.stat

    def refused(path: Any, *args: Any, **options: Any) -> os.stat_result:
        if os.path.dirname(path) == str(logs / "sub"):
            raise PermissionError(13, "Permission denied", path)
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", refused)
    with pytest.raises(
        InputError, match=r"^sub/b.parquet must be readable, .* Got what cannot be opened \(Permission denied"
    ):
        read(logs)
    with pytest.raises(
        InputError, match=r"b.parquet must be a file or a folder that can be read. Got: Permission denied;"
    ):
        read(logs / "sub" / "b.parquet")
    assert files(logs, skip_bad_files=True) == ("a.parquet", "z.parquet")


def test_what_has_the_name_of_no_log_is_left_alone(logs: Path) -> None:
    (logs / "README.txt").write_text("")
    (logs / "_SUCCESS").write_text("")
    (logs / ".part.parquet.crc").write_text("")
    (logs / "empty").mkdir()
    _socket(logs / "x.sock")
    _pipe(logs / "pipe")
    _broken(logs / ".#lock")
    source = open_path(str(logs))
    assert files(logs) == ("a.parquet", "sub/b.parquet", "z.parquet")
    assert source.notes == ()


def test_keys_of_folders_beside_one_that_cannot_be_read(tmp_path: Path, locked: Callable[[Path], None]) -> None:
    for agent in (1, 2, 3):
        written(tmp_path / f"agent={agent}" / "part.parquet", agent * ROWS)
    locked(tmp_path / "agent=2")
    with pytest.raises(InputError, match=r"^agent=2 must be readable"):
        read(tmp_path)
    log = read(tmp_path, trajectory="agent", skip_bad_files=True)
    assert log.lengths is not None
    assert log.lengths.tolist() == [ROWS - 1, ROWS - 1]


def test_other_formats_beside_parquet_are_named_whatever_they_are(logs: Path) -> None:
    _broken(logs / "b.csv")
    source = open_path(str(logs))
    assert files(logs) == ("a.parquet", "sub/b.parquet", "z.parquet")
    assert source.notes == ("The Parquet files of the folder were read, and not b.csv.",)


def test_data_that_cannot_be_one_of_several_files_are_named(tmp_path: Path) -> None:
    written(tmp_path / "a.csv")
    for name in ("b.npz", "c.h5", "d.csv.xz", "e.txt"):
        (tmp_path / name).write_bytes(b"")
    source = open_path(str(tmp_path))
    assert files(tmp_path) == ("a.csv",)
    assert source.notes == ("Only Parquet, CSV and Arrow files of a folder are read, and not b.npz, c.h5, d.csv.xz.",)


def test_a_file_beside_its_compressed_copy_does_not_count_twice(tmp_path: Path) -> None:
    text = written(tmp_path / "a.csv").read_bytes()
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text))
    with pytest.raises(
        InputError, match=r"must hold every file once. Got a.csv and a.csv.gz; remove one of the two, or"
    ):
        open_path(str(tmp_path))
    assert files(f"{tmp_path}/*.gz") == ("a.csv.gz",)


@pytest.mark.parametrize("stream", [False, True])
def test_all_members_of_a_compressed_file_are_read(stream: bool, tmp_path: Path) -> None:
    text = written(tmp_path / "a.csv").read_bytes()
    head, _, rest = text.partition(b"\n")
    codec = pa.Codec("zstd")
    packed: dict[str, Callable[[bytes], bytes]] = {
        "a.csv.gz": gzip.compress,
        "a.csv.bz2": bz2.compress,
        "a.csv.zst": lambda part: bytes(codec.compress(part)),
    }
    for name, compress in packed.items():
        (tmp_path / name).write_bytes(compress(head + b"\n") + compress(rest))
        assert rewards(tmp_path / name, stream=stream) == rewards(tmp_path / "a.csv")
        (tmp_path / name).write_bytes(compress(text) + b"more")
        with pytest.raises(InputError, match=rf"^{name} must be a CSV file"):
            rewards(tmp_path / name, stream=stream)


def test_logs_that_are_hidden_are_named(logs: Path) -> None:
    written(logs / "_part.parquet")
    written(logs / "sub" / ".part.parquet")
    written(logs / "_temporary" / "part.parquet")
    source = open_path(str(logs))
    assert files(logs) == ("a.parquet", "sub/b.parquet", "z.parquet")
    assert source.notes == (
        "Left out _part.parquet, _temporary/part.parquet, sub/.part.parquet: "
        "names that begin with a dot or an underscore are not part of a log.",
    )
    assert files(f"{logs}/*.parquet") == ("_part.parquet", "a.parquet", "z.parquet")  # as the shell does it


# Links


def test_linked_folders_are_read(tmp_path: Path, logs: Path) -> None:
    written(tmp_path / "elsewhere" / "c.parquet", 30)
    (logs / "linked").symlink_to(tmp_path / "elsewhere")
    expected = ("a.parquet", "linked/c.parquet", "sub/b.parquet", "z.parquet")
    for source in (logs, f"{logs}/**/*.parquet"):
        assert files(source) == expected
        assert open_path(str(source)).notes == ()


def test_what_links_lead_to_is_read_once(tmp_path: Path, logs: Path) -> None:
    written(tmp_path / "elsewhere" / "c.parquet", 30)
    for link, target in (
        ("latest", logs / "sub"),  # sorts before the folder itself
        ("round", logs),
        ("up", tmp_path),
        ("first", tmp_path / "elsewhere"),
        ("second", tmp_path / "elsewhere"),
        ("newest.parquet", logs / "z.parquet"),
    ):
        (logs / link).symlink_to(target)
    (logs / "sub" / "back").symlink_to("..")
    found = open_path(str(logs))
    assert files(logs) == ("a.parquet", "first/c.parquet", "sub/b.parquet", "z.parquet")
    repeated = ("latest", "newest.parquet", "round", "second", "sub/back", "up/elsewhere", "up/logs")
    listing = places.on_this_machine(str(logs), EVERYTHING, lambda name: name.endswith(".parquet"))
    assert listing.repeated == sorted(repeated)
    assert found.notes == (
        "Read only once, although links lead there by another name: latest, newest.parquet, round and 4 more.",
    )
    assert sum(rewards(logs)) == sum(rewards(pa.concat_tables([rows(0), rows(30), rows(10), rows(20)])))


def test_two_links_to_a_file_elsewhere_are_two_files(tmp_path: Path) -> None:
    """As stores of files by their content have it."""
    written(tmp_path / "store" / "0d1f.parquet")
    (tmp_path / "logs").mkdir()
    for name in ("a.parquet", "b.parquet"):
        (tmp_path / "logs" / name).symlink_to(tmp_path / "store" / "0d1f.parquet")
    assert files(tmp_path / "logs") == ("a.parquet", "b.parquet")


def test_folders_may_have_the_names_of_logs(tmp_path: Path) -> None:
    """As Spark writes them."""
    for number in range(2):
        written(tmp_path / f"{number}.parquet" / "part-0.parquet", number * ROWS)
    for source in (tmp_path, f"{tmp_path}/**/*.parquet", f"{tmp_path}/*/*.parquet"):
        assert files(source) == ("0.parquet/part-0.parquet", "1.parquet/part-0.parquet")
    with pytest.raises(InputError, match=r"^0.parquet must be readable, .* Got a folder;"):
        read(f"{tmp_path}/*.parquet")


def test_deep_folders(tmp_path: Path) -> None:
    written(tmp_path / "a.parquet")
    home, depth = os.getcwd(), 1_000
    try:
        os.chdir(tmp_path)
        for _ in range(depth):
            os.mkdir("d")
            os.chdir("d")
        assert files(tmp_path) == ("a.parquet",)
    finally:
        for _ in range(depth):
            os.chdir("..")
            os.rmdir("d")
        os.chdir(home)


# Patterns


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.parquet", "a.parquet", True),
        ("*.parquet", "b/a.parquet", False),
        ("**/*.parquet", "a.parquet", True),
        ("**/*.parquet", "b/c/a.parquet", True),
        ("**/*.parquet", ".b/a.parquet", False),
        (".b/*.parquet", ".b/a.parquet", True),
        ("*", ".a.parquet", False),
        ("*", "_a.parquet", True),
        ("b/**", "b/c/a.parquet", True),
        ("b/**/c/*", "b/c/a", True),
        ("b/**/c/*", "b/x/c/a", True),
        ("b/**/c/*", "b/x/a", False),
        ("**/**/a", "x/y/z/a", True),
        ("[ab]?/x", "b1/x", True),
        ("[!a]/x", "a/x", False),
        ("b//*/", "b/a", True),
    ],
)
def test_patterns(pattern: str, path: str, matches: bool) -> None:
    wanted = Selection.of(pattern)
    for name in path.split("/"):
        wanted = wanted.inside(name)
    assert wanted.is_complete == matches


def test_patterns_agree_with_glob(tmp_path: Path) -> None:
    for name in ("a.csv", "b/a.csv", "b/c/a.csv", ".h/a.csv", "b/.a.csv", "d1/x/a.csv", "d2/x/a.csv", "_u/a.csv"):
        written(tmp_path / name)
    for pattern in (
        "*.csv",
        "*/a.csv",
        "**/*.csv",
        "d?/**/a.csv",
        "*/x/*.csv",
        ".h/*.csv",
        "b/../*.csv",
        "*/../b/*.csv",
    ):
        expected = sorted({os.path.realpath(path) for path in glob.glob(f"{tmp_path}/{pattern}", recursive=True)})
        found = open_path(f"{tmp_path}/{pattern}")
        assert isinstance(found, FilesSource)
        assert sorted(os.path.realpath(file.path) for file in found.files) == expected, pattern


# Object stores


class Store:
    """A store of which only the listing is asked for."""

    def __init__(self, entries: list[pa.fs.FileInfo] | Exception) -> None:
        self.entries = entries

    def get_file_info(self, asked: Any) -> Any:
        if isinstance(asked, str):
            return pa.fs.FileInfo(asked, pa.fs.FileType.Directory)
        if isinstance(self.entries, Exception):
            raise self.entries
        return self.entries


def stored(entries: list[pa.fs.FileInfo] | Exception) -> Any:
    found = Location("logs", "bucket/logs", "", Store(entries))
    return places.in_store(found, "s3://bucket/logs", EVERYTHING, lambda name: name.endswith(".parquet"))


def test_the_listing_of_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cesaro.data.sources.places.PAUSES", ())
    names = ["b.parquet", "a.parquet", "_c.parquet", "_t/d.parquet", "README", "day=1"]
    kinds = [pa.fs.FileType.File] * 5 + [pa.fs.FileType.Directory]
    entries = [pa.fs.FileInfo(f"bucket/logs/{name}", kind) for name, kind in zip(names, kinds)]
    odd = pa.fs.FileInfo("bucket/logs/x.parquet", pa.fs.FileType.Unknown)
    listing = stored([*entries, odd])
    assert [file.name for file in listing.files] == ["a.parquet", "b.parquet", "x.parquet"]
    assert [file.obstacle for file in listing.files] == ["", "", "neither a file nor a folder"]
    assert listing.others == ["README"]
    assert listing.hidden == ["_c.parquet", "_t/d.parquet"]
    with pytest.raises(PermissionError):
        stored(PermissionError(13, "Access Denied"))
