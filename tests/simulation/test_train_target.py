"""Training of target policies: a run that was killed and resumed gives the same actor (needs Stable-Baselines3)."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cesaro import files
from cesaro.errors import InputError
from cesaro.policies import policy, save_actor
from cesaro.simulation import train_target as module
from cesaro.simulation.train_target import train_target

needs_library = pytest.mark.skipif(
    importlib.util.find_spec("stable_baselines3") is None, reason="stable_baselines3 is not installed (it needs torch)"
)
SMALL = {"learning_starts": 60, "buffer_size": 250, "batch_size": 16}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(module, "SETTINGS", {**module.SETTINGS, **SMALL})
    monkeypatch.setattr(module, "WIDTHS", (8, 8))
    monkeypatch.setattr(module, "EPISODES", 2)
    return {"steps": 350, "segment": 100, "quiet": True}


def content(file: Path) -> tuple[dict[str, str], dict[str, bytes]]:
    """Metadata and tensors, whose order in the file is not fixed."""
    from safetensors import safe_open

    with safe_open(file, framework="numpy") as opened:
        return opened.metadata(), {name: opened.get_tensor(name).tobytes() for name in opened.keys()}  # noqa: SIM118


@pytest.mark.skipif(importlib.util.find_spec("stable_baselines3") is not None, reason="stable_baselines3 is installed")
def test_missing_library(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"needs Stable-Baselines3: pip install torch==2.13.0"):
        train_target("Pendulum-v1", out=tmp_path / "actor.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_the_file_appears_and_replaces_actors_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of the library itself is left out."""
    kept: list[dict[str, Any]] = []

    def write(file: Path, model: Any, metadata: dict[str, str]) -> None:
        layer: dict[str, Any] = {"activation": "relu", "squash": "none", "low": None, "high": None}
        save_actor(file, [np.ones((1, 1))], [np.ones(1)], metadata=metadata, **layer)

    def keep(file: Path, state: dict[str, Any], model: Any) -> None:
        kept.append(state)
        files.write_arrays(file, state, {})

    for name, stub in (("_make", str), ("_new", str), ("_learn", str), ("_versions", dict), ("_returns", str)):
        monkeypatch.setattr(module, name, lambda *_, stub=stub, **__: [1.0] if stub is str else stub())
    monkeypatch.setattr(module, "_checkpoint", keep)
    monkeypatch.setattr(module, "_write_actor", write)
    out, thesis = tmp_path / "actor.safetensors", tmp_path / "thesis.safetensors"
    for force in (False, True):
        assert train_target("any", out=out, steps=20, segment=10, force=force, quiet=True) == out
        assert [file.name for file in tmp_path.iterdir()] == ["actor.safetensors"]
    assert [state["steps"] for state in kept] == [10, 20, 10, 20]
    thesis.write_text("years of work")
    with pytest.raises(InputError, match="was not written by train-target, so that --force leaves it alone"):
        train_target("any", out=thesis, steps=20, force=True, quiet=True)
    out.unlink()
    out.symlink_to(thesis)
    with pytest.raises(InputError, match="exists and is a link, not a file"):
        train_target("any", out=out, steps=20, force=True, quiet=True)
    assert thesis.read_text() == "years of work"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["actor.safetensors", "thesis.safetensors"]


@needs_library
@pytest.mark.filterwarnings("ignore")
def test_killed_and_resumed_is_the_same_actor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: dict[str, Any]
) -> None:
    whole, out = tmp_path / "whole.safetensors", tmp_path / "actor.safetensors"
    train_target("Pendulum-v1", out=whole, **small)
    learn = module._learn

    def killed(model: Any, size: int, *, seed: tuple[int, int]) -> None:
        if seed[1] == 200:  # the third of four segments; the replay buffer has not yet gone round
            learn(model, size // 2, seed=seed)
            raise KeyboardInterrupt
        learn(model, size, seed=seed)

    monkeypatch.setattr(module, "_learn", killed)
    with pytest.raises(KeyboardInterrupt):
        train_target("Pendulum-v1", out=out, **small)
    assert not out.exists()
    work = tmp_path / "actor.safetensors.partial"
    checkpoint = work / "checkpoint.npz"
    assert files.read_metadata(checkpoint, "cesaro-training/2")["steps"] == 200
    files.temporary(checkpoint).write_bytes(
        checkpoint.read_bytes()[:100]
    )  # as a kill during the next checkpoint leaves it
    monkeypatch.setattr(module, "_learn", learn)
    with pytest.raises(InputError, match="holds a run with another seed"):
        train_target("Pendulum-v1", out=out, seed=1, **small)
    train_target("Pendulum-v1", out=out, **small)
    assert content(out) == content(whole)
    with pytest.raises(InputError, match="exists; add --force"):
        train_target("Pendulum-v1", out=out, **small)
    other = tmp_path / "other.safetensors"
    train_target("Pendulum-v1", out=other, seed=1, **small)
    assert content(other)[1] != content(whole)[1]


@needs_library
@pytest.mark.filterwarnings("ignore")
def test_the_file_is_the_actor_that_was_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: dict[str, Any]
) -> None:
    models: list[Any] = []
    write = module._write_actor

    def keep(file: Path, model: Any, metadata: dict[str, str]) -> None:
        models.append(model)
        write(file, model, metadata)

    monkeypatch.setattr(module, "_write_actor", keep)
    file = train_target("Pendulum-v1", out=tmp_path / "actor.safetensors", **small)
    rows = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    expected, _ = models[0].predict(rows, deterministic=True)
    found = policy(file).sample(rows, np.random.default_rng(0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert np.ptp(expected) > 1e-3


@needs_library
@pytest.mark.filterwarnings("ignore")
def test_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"TD3 needs observations and actions that are vectors of numbers\. Got CartPole"
    ):
        train_target("CartPole-v1", out=tmp_path / "actor.safetensors")
