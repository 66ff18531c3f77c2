"""Stable-Baselines3 models: refused without trust, and otherwise the actions that the library itself gives."""

import importlib.util
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cesaro.errors import InputError
from cesaro.policies import policy

needs_library = pytest.mark.skipif(
    importlib.util.find_spec("stable_baselines3") is None, reason="stable_baselines3 is not installed (it needs torch)"
)
RNG = np.random.default_rng(0)


def test_trust_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(b"PK")
    with pytest.raises(InputError, match=r"model\.zip' .*pickled code.*trust=True \(--trust"):
        policy(path)


def test_other_archives(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(b"no zip")
    with pytest.raises(InputError, match="not a zip file"):
        policy(path, trust=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "nothing")
    with pytest.raises(InputError, match=r"it lacks data or policy\.pth"):
        policy(path, trust=True)


@pytest.mark.skipif(importlib.util.find_spec("stable_baselines3") is not None, reason="stable_baselines3 is installed")
def test_missing_library(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "{}")
        archive.writestr("policy.pth", "")
    with pytest.raises(InputError, match=r"pip install torch==2.13.0 && pip install 'cesaro\[targets\]'"):
        policy(path, trust=True)


@needs_library
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("algorithm", "environment", "options"),
    [
        ("PPO", "CartPole-v1", {"n_steps": 8, "batch_size": 8}),
        ("PPO", "Pendulum-v1", {"n_steps": 8, "batch_size": 8, "use_sde": True}),
        ("A2C", "CartPole-v1", {}),
        ("DQN", "CartPole-v1", {"buffer_size": 10}),
        ("TD3", "Pendulum-v1", {"buffer_size": 10}),
        ("DDPG", "Pendulum-v1", {"buffer_size": 10}),
        ("SAC", "Pendulum-v1", {"buffer_size": 10, "policy_kwargs": {"net_arch": [8, 8]}}),
    ],
)
def test_actions_of_the_library(algorithm: str, environment: str, options: dict[str, Any], tmp_path: Path) -> None:
    import stable_baselines3

    model = getattr(stable_baselines3, algorithm)("MlpPolicy", environment, seed=0, device="cpu", **options)
    model.save(tmp_path / "model.zip")
    loaded = policy(tmp_path / "model.zip", trust=True)
    observations = RNG.normal(size=(50, model.observation_space.shape[0]))
    expected = model.predict(observations.astype(np.float32), deterministic=True)[0]
    assert loaded.deterministic
    np.testing.assert_array_equal(loaded.sample(observations, RNG), expected)


@needs_library
@pytest.mark.filterwarnings("ignore")
def test_broken_model(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "{}")
        archive.writestr("policy.pth", "nothing")
    with pytest.raises(InputError, match=r"model\.zip' cannot be loaded by this Stable-Baselines3"):
        policy(path, trust=True)


@needs_library
@pytest.mark.filterwarnings("ignore")
def test_wrong_number_of_columns(tmp_path: Path) -> None:
    from stable_baselines3 import TD3

    TD3("MlpPolicy", "Pendulum-v1", buffer_size=10, device="cpu").save(tmp_path / "model.zip")
    with pytest.raises(InputError, match="takes 3 numbers per observation, and the log has 4"):
        policy(tmp_path / "model.zip", trust=True).sample(np.zeros((5, 4)), RNG)
