"""Fingerprints of environments and policies: what they do not see would be resumed with."""

import importlib
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import cesaro as cs
from cesaro.errors import InputError
from cesaro.simulation import sinks
from cesaro.simulation.provenance import identity


def test_a_changed_module_changes_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        found.append(identity("Pendulum-v1", module.act)["policy_fingerprint"])
    assert found[0] == found[2] != found[1]


class WithALock:
    def __init__(self, action: float = 1.0) -> None:
        self.lock, self.action = threading.Lock(), action

    def act(self, observations: Any) -> Any:
        return observations[:, :1] * 0 + self.action


def test_locks_do_not_count() -> None:
    assert identity("Pendulum-v1", WithALock().act) == identity("Pendulum-v1", WithALock().act)
    assert identity("Pendulum-v1", WithALock().act) != identity("Pendulum-v1", WithALock(2.0).act)
    assert identity(WithALock, "constant:0").keys() == {"env_fingerprint", "policy_fingerprint"}


@pytest.mark.slow
@pytest.mark.parametrize("changed", ["policy.py", "helper.py"])
def test_a_log_is_not_finished_with_another_policy_file(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that acts alike in most states, or imports something that changed."""
    monkeypatch.chdir(tmp_path)
    Path("policy.py").write_text("from helper import FAR\ndef act(s):\n    return (s[:, 2] > FAR) * 1\n")
    Path("helper.py").write_text("FAR = 100.0\n")

    def collected() -> Any:
        return cs.collect("CartPole-v1", "policy.py:act", 60, streams=2, out="log.parquet", workers=1, quiet=True)

    def interrupted(self: Any, *_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(sinks.ParquetSink, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            collected()
    before = Path(changed).read_text()
    Path(changed).write_text(before.replace("FAR", "FAR ").replace("100", "101"))
    with pytest.raises(InputError, match=r"unfinished work with other settings \(.*policy"):
        collected()
    Path(changed).write_text(before)
    assert len(collected()) == 60
