"""Stable-Baselines3 zip files: only with trust, because loading them runs pickled code."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import user_code
from cesaro.errors import InputError
from cesaro.policies.base import Policy, matrix
from cesaro.policies.observed import Observations


class StableBaselines(Policy):
    """The deterministic actions of a saved model of any algorithm; observations as the model saw them in training."""

    deterministic = True

    def __init__(self, model: Any, *, name: str) -> None:
        self.name, self._model = name, model
        self._space = type(model.observation_space).__name__
        shape = model.observation_space.shape
        if self._space == "Dict" or (self._space != "Discrete" and (shape is None or len(shape) != 1)):
            raise InputError(
                f"{self._who} takes observations of the space {model.observation_space}, not [n, d]; "
                "write a function in a Python file that prepares them and calls the model, and pass file.py:name."
            )

    def sample(self, observations: Observations, rng: np.random.Generator) -> NDArray[Any]:
        space = self._model.observation_space
        if self._space == "Discrete":
            inputs = matrix(self._who, observations, 1, np.int64)[:, 0]
        else:
            inputs = matrix(self._who, observations, space.shape[0], space.dtype)
        actions: NDArray[Any] = self._called(inputs, self._predict)
        return actions

    def _predict(self, inputs: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self._model.predict(inputs, deterministic=True)[0])


def load(path: Path, *, name: str, trust: bool) -> StableBaselines:
    """Rebuild the policy network from its class, spaces and weights; the algorithm around it is not needed."""
    if not trust:
        raise InputError(
            f"'{path}' is a Stable-Baselines3 model, and loading it runs the pickled code inside; "
            "if you trust who made it, pass trust=True (--trust on the command line)."
        )
    if not zipfile.is_zipfile(path):
        raise InputError(f"'{path}' is not a zip file; save the model again with model.save(path).")
    with zipfile.ZipFile(path) as archive:
        if not {"data", "policy.pth"} <= set(archive.namelist()):
            raise InputError(
                f"'{path}' is not a Stable-Baselines3 model: it lacks data or policy.pth; use model.save(path)."
            )
    try:
        from stable_baselines3.common.save_util import load_from_zip_file
    except ImportError as error:
        raise InputError(
            f"'{path}' needs Stable-Baselines3, which is not installed; run: "
            "pip install torch==2.13.0 && pip install 'cesaro[targets]'"
        ) from error

    def rebuilt() -> StableBaselines:
        # What training alone needs is replaced, so that it need not be unpickled.
        training = {"learning_rate": 0.0, "lr_schedule": _no_learning, "clip_range": 0.2, "exploration_schedule": None}
        data, parameters, _ = load_from_zip_file(path, device="cpu", custom_objects=training)
        options = {key: value for key, value in (data.get("policy_kwargs") or {}).items() if key != "device"}
        if data.get("use_sde"):
            options["use_sde"] = True
        model = data["policy_class"](data["observation_space"], data["action_space"], _no_learning, **options)
        model.load_state_dict(parameters["policy"])
        model.set_training_mode(False)
        return StableBaselines(model, name=name)

    made: StableBaselines = user_code.call(
        lambda error: (
            f"'{path}' cannot be loaded by this Stable-Baselines3 ({error}); save the model with the installed version."
        ),
        rebuilt,
    )
    return made


def _no_learning(_: float) -> float:
    return 0.0
