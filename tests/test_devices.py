"""Where compiled programs are kept: in a folder that can be moved, turned off and repaired."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cesaro import devices

VARIABLES = (
    "JAX_COMPILATION_CACHE_DIR",
    "JAX_COMPILATION_CACHE_MAX_SIZE",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES",
)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment that says nothing; what a test sets is taken back."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return monkeypatch


def test_the_folder_is_the_users_and_can_be_moved(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.delenv(devices.CACHE, raising=False)
    bare.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    kept = devices.keep_programs()
    assert kept is not None
    assert kept.parent == tmp_path / "home/cesaro/programs"
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(kept)
    assert devices.keep_programs() is None  # what the environment says of JAX is left to JAX
    bare.delenv("JAX_COMPILATION_CACHE_DIR")
    bare.setenv(devices.CACHE, str(tmp_path / "else"))
    moved = devices.keep_programs()
    assert moved is not None
    assert moved.parent == tmp_path / "else/programs"
    assert moved.name == kept.name


def test_it_can_be_off_and_need_not_be_writable(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv(devices.CACHE, devices.OFF)
    assert devices.keep_programs() is None
    (tmp_path / "file").touch()
    bare.setenv(devices.CACHE, str(tmp_path / "file"))
    assert devices.keep_programs() is None
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_parts_of_programs_are_removed(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those of a process that was killed are removed; what another one writes at the moment stays."""
    bare.setenv(devices.CACHE, str(tmp_path))
    folder = devices.keep_programs()
    assert folder is not None
    for name in ("whole-cache", "whole-atime", "part-cache", "fresh-cache"):
        (folder / name).write_bytes(b"x")
    for name in ("whole-cache", "part-cache"):
        os.utime(folder / name, (time.time() - 600,) * 2)
    bare.delenv("JAX_COMPILATION_CACHE_DIR")
    devices.keep_programs()
    assert {file.name for file in folder.iterdir()} == {"whole-cache", "whole-atime", "fresh-cache"}


def test_programs_of_versions_that_nobody_uses_are_removed(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After months; those in use stay however old their programs are, and so does what is not ours."""
    bare.setenv(devices.CACHE, str(tmp_path))
    folder = devices.keep_programs()
    assert folder is not None
    for name in ("jax-0.1-old", "jax-0.1-recent", "other"):
        (folder.parent / name).mkdir()
        (folder.parent / name / "whole-cache").write_bytes(b"x")
    for name, days in ((folder.name, 400), ("jax-0.1-old", 91), ("jax-0.1-recent", 89), ("other", 400)):
        os.utime(folder.parent / name, (time.time() - 86_400 * days,) * 2)
    bare.delenv("JAX_COMPILATION_CACHE_DIR")
    devices.keep_programs()
    assert {found.name for found in folder.parent.iterdir()} == {folder.name, "jax-0.1-recent", "other"}


@pytest.mark.slow
def test_a_second_command_compiles_nothing(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv(devices.CACHE, str(tmp_path / "cache"))
    bare.chdir(tmp_path)
    command = [sys.executable, "-m", "cesaro.cli", "reproduce", "counterexample", "--force"]
    found = []
    for _ in range(2):
        subprocess.run(command, check=True, capture_output=True, timeout=600)
        found.append({file.name for file in (tmp_path / "cache").rglob("*-cache")})
    assert len(found[0]) > 1
    assert found[1] == found[0]
