"""Files that we write: whole or not at all, by one run at a time, and back bit by bit."""

import json
import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cesaro import files
from cesaro.engines import map_ordered
from cesaro.errors import InputError


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    files.write(file, b"old")

    def interrupted() -> None:
        with files.replacing(file) as stream:
            stream.write(b"half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (file.read_bytes(), names(tmp_path)) == (b"old", ["a.txt"])
    files.write(file, b"new")
    assert (file.read_bytes(), names(tmp_path)) == (b"new", ["a.txt"])


def test_json_holds_what_utf_8_cannot_and_no_infinity(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    files.write_json(file, {"name": "naïve \udcff"})
    assert json.loads(file.read_text(encoding="utf-8")) == {"name": "naïve \udcff"}
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(file, {"rate": float("inf")})
    assert names(tmp_path) == ["a.json"]


def test_a_chosen_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "missing" / "a.npz"
    with pytest.raises(InputError, match=r"missing/a.npz' cannot be written \(No such file or directory\); choose"):
        files.write_values(file, "test/1", {})


def test_one_run_at_a_time(tmp_path: Path) -> None:
    """In one context, which a thread of its own does not share."""
    file = tmp_path / "a.npz"
    with files.holding(file):
        with files.holding(str(file)):  # who holds it goes on
            files.write(file, b"first")
        assert names(tmp_path) == [".a.npz.lock", "a.npz"]
        with ThreadPoolExecutor(1) as other, pytest.raises(InputError) as refused:
            other.submit(hold, file).result()
    who = rf"process {os.getpid()} on {re.escape(socket.gethostname())}, since 2.*\+00:00"
    assert re.fullmatch(
        rf"Another run is at work with '.*a\.npz' \({who}\); wait for it or choose another file\.", str(refused.value)
    )
    assert names(tmp_path) == ["a.npz"]
    hold(file)  # it is free again


def test_pieces_of_work_go_on_with_what_their_caller_holds(tmp_path: Path) -> None:
    """As a panel does that trains networks beside rollouts, with the files of their progress."""
    file = tmp_path / "a.npz"
    with files.holding(file):
        list(map_ordered(hold, [file, file], workers=2))
    assert names(tmp_path) == []


def hold(file: Path) -> None:
    with files.holding(file):
        pass


def test_a_kill_while_a_held_file_is_written_leaves_nothing_that_the_next_run_does_not_remove(tmp_path: Path) -> None:
    file, lock = tmp_path / "a.npz", tmp_path / ".a.npz.lock"
    others = tmp_path / ".a.npz.fedcba98.tmp"
    others.touch()
    (tmp_path / ".a.npz.0123abcd.tmp").write_bytes(b"half")
    lock.write_text("cesaro-lock/1 4711 there 2026-01-01T00:00:00+00:00 0123abcd\n")
    hold(file)
    assert names(tmp_path) == [others.name]
    lock.write_text("my own words")
    with pytest.raises(InputError, match=r"a\.npz\.lock' is in the way, and no run of ours wrote it"):
        hold(file)
    assert lock.read_text() == "my own words"


def test_links_and_folders_are_neither_followed_nor_replaced(tmp_path: Path) -> None:
    thesis, link, folder = tmp_path / "thesis.tex", tmp_path / "link.npz", tmp_path / "folder.npz"
    thesis.write_text("years of work")
    link.symlink_to(thesis)
    folder.mkdir()
    os.mkfifo(tmp_path / "pipe.npz")
    for name, what in (("link", "a link"), ("folder", "a folder"), ("pipe", "neither a file nor a folder")):
        for act in (hold, lambda file: files.write(file, b"")):
            with pytest.raises(
                InputError, match=rf"{name}\.npz' must be a file, or nothing yet\. Got {what}; remove it"
            ):
                act(tmp_path / f"{name}.npz")
    (tmp_path / ".a.npz.lock").symlink_to(thesis)
    with pytest.raises(InputError, match=r"\.a\.npz\.lock' must be a file"):
        hold(tmp_path / "a.npz")
    assert thesis.read_text() == "years of work"
    assert link.is_symlink()


@pytest.mark.parametrize("name", ["n" * 250, "ä" * 121])
def test_names_that_leave_no_room_are_refused_at_once(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"must have a name of at most 241 bytes, .* Got 2\d\d bytes"):
        hold(tmp_path / name)
    assert names(tmp_path) == []


class Point:
    def __init__(self, x: float) -> None:
        self.x = x


def described(value: Any) -> dict[str, Any] | None:
    return {"point": True, "at": {"x": value.x}} if isinstance(value, Point) else None


def test_values_come_back_bit_by_bit(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    values: dict[str, Any] = {
        "numbers": [0.1, -0.0, float("nan"), float("inf"), 5e-324, 2**70, True, None, "text", np.float32(0.1)],
        "nested": {"a": (1, [2.5, {"b": np.arange(6.0).reshape(2, 3)}]), 7: "a key that is no text"},
        "arrays": [np.array([1, 2], np.int8), np.zeros((0, 3), np.float32), np.array(True)],
        "labels": np.array(["x", 3, None], dtype=object),
        "own": [Point(0.1)],
    }
    files.write_values(file, "test/1", values, described)
    found = files.read_values(file, "test/1", lambda given: Point(given["at"]["x"]))
    assert list(found) == list(values)
    assert [repr(number) for number in found["numbers"]] == [
        *("0.1", "-0.0", "nan", "inf", "5e-324", str(2**70), "True", "None", "'text'", repr(float(np.float32(0.1)))),
    ]
    assert found["nested"]["a"][0] == 1
    assert isinstance(found["nested"]["a"], tuple)
    assert found["nested"]["a"][1][0] == 2.5
    np.testing.assert_array_equal(found["nested"]["a"][1][1]["b"], np.arange(6.0).reshape(2, 3))
    assert found["nested"][7] == "a key that is no text"
    for array, expected in zip(found["arrays"], values["arrays"]):
        assert (array.dtype, array.shape, array.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
    assert found["labels"].dtype == object
    assert found["labels"].tolist() == ["x", 3, None]
    assert found["own"][0].x == 0.1
    assert files.read_metadata(file, "test/1")["schema"] == "test/1"


@pytest.mark.parametrize("describe", [None, described])
def test_objects_without_a_description_are_refused_and_nothing_is_written(tmp_path: Path, describe: Any) -> None:
    with pytest.raises(InputError, match="A Path2 cannot be written without pickle"):
        files.write_values(tmp_path / "a.npz", "test/1", {"a": [type("Path2", (), {})()]}, describe)
    assert names(tmp_path) == []


def test_other_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    with pytest.raises(InputError, match="does not exist"):
        files.read_values(file, "test/1")
    files.write_values(file, "test/1", {"a": 1, "own": Point(1.0)}, described)
    with pytest.raises(InputError, match="holds 'test/1', not 'test/2'"):
        files.read_values(file, "test/2")
    with pytest.raises(InputError, match=r"is damaged \(ValueError: an object"):
        files.read_values(file, "test/1")
    whole = file.read_bytes()
    for data in (b"", b"no archive", whole[: len(whole) // 2]):
        file.write_bytes(data)
        with pytest.raises(InputError, match="is not a file of this package"):
            files.read_metadata(file, "test/1")
    for broken in ({"array": "a0"}, {"float": "0x1p99999"}, {"float": 3}, {"dict": [1]}):
        np.savez(file, meta=np.array(json.dumps({"schema": "test/1", "a": broken})))
        with pytest.raises(InputError, match=r"is damaged \(.*\); delete it\."):
            files.read_values(file, "test/1", remedy="delete it")
    np.savez(file, meta=np.array(json.dumps({"schema": "test/1"})), a=np.array([print], dtype=object))
    with pytest.raises(InputError, match=r"is not a file of this package \(ValueError\)"):  # it would need pickle
        files.read_arrays(file, "test/1")


@pytest.mark.parametrize("path", ["s3://bucket/out", "gs:/bucket/out", Path("s3://me:secret@bucket/out")])
def test_addresses_are_no_places_to_write_to(path: str | Path) -> None:
    with pytest.raises(InputError, match="out must be a path on this machine") as refused:
        files.reject_address("out", path)
    assert "secret" not in str(refused.value)
