"""Checksums of functions and objects: what they do not see would be resumed with."""

import importlib
import sys
import threading
from pathlib import Path

import pytest

from cesaro.errors import InputError
from cesaro.simulation.provenance import identity


def test_a_changed_module_changes_the_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of an importable module is stored by name; its code counts all the same."""
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "policy_of_a_test.py"
    found = []
    for action in (0.5, -1.5, 0.5):
        file.write_text(f"def act(observations):\n    return observations * 0 + {action}\n")
        sys.modules.pop(file.stem, None)
        importlib.invalidate_caches()
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        module = importlib.import_module(file.stem)
        sys.dont_write_bytecode = before
        found.append(identity("Pendulum-v1", module.act)["policy_object"])
    assert found[0] == found[2] != found[1]


class WithALock:
    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_what_cannot_be_stored_gets_a_sentence() -> None:
    with pytest.raises(InputError, match=r"policy must be an object that can be stored.*leave out= away"):
        identity("Pendulum-v1", WithALock())
