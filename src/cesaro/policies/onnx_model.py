"""ONNX models, run on the CPU.

One float input `[n, d]`. What the output means is said by its name or type, never guessed:
`probabilities` or `logits` `[n, A]` (actions 0 … A−1, or the JSON list in the metadata entry `actions`); otherwise one
output, or the one called `action` or `actions`: whole numbers or text are labels `[n]`, floats continuous actions `[n, k]`.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import documents
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.policies.base import Observations, Policy, check_actions, check_probabilities, matrix

_FLOATS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
# More columns than this are no list of actions.
MAX_ACTIONS = 1_000_000
_MEANINGS = ("probabilities", "logits", "actions", "action")


class OnnxModel(Policy):
    """A model file: probabilities over finite actions, or one action per observation."""

    _float_hint = "call the output probabilities or logits, or let it give whole numbers"

    def __init__(self, path: Path, *, name: str) -> None:
        self.name, self._path = name, path
        self._session = _session(path)
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if len(inputs) != 1 or inputs[0].type not in _FLOATS or len(inputs[0].shape) != 2:
            raise InputError(
                f"'{path}' must have one float input of shape [n, d]. "
                f"Got {_show(inputs)}; export the model with the observations as its only input."
            )
        rows, width = inputs[0].shape
        if isinstance(rows, int):
            raise InputError(
                f"'{path}' must take any number of observations. Got a fixed first axis of {rows}; "
                "export the model with a dynamic batch axis."
            )
        self._input, self._dtype = inputs[0].name, _FLOATS[inputs[0].type]
        self._width = width if isinstance(width, int) else None
        named = [output for meaning in _MEANINGS for output in outputs if output.name == meaning]
        if not named and len(outputs) != 1:
            raise InputError(
                f"'{path}' must have one output, or one called probabilities, logits, action or actions. "
                f"Got {_show(outputs)}; rename or remove outputs."
            )
        self._output = (named or outputs)[0]
        if not self._output.type.startswith("tensor("):
            raise InputError(f"'{path}' must give an array. Got {_show([self._output])}; export it without a ZipMap.")
        if self._output.name in ("probabilities", "logits"):
            self.actions = self._read_actions()
        else:
            self.deterministic = True

    def probabilities(self, observations: Observations) -> Array:
        if self.actions is None:
            return super().probabilities(observations)
        raw = self._run(observations)
        if self._output.name == "logits" and raw.ndim == 2 and raw.shape[1]:
            raw = np.asarray(raw, dtype=np.float64)
            with np.errstate(invalid="ignore", over="ignore"):
                raw = np.exp(raw - raw.max(axis=1, keepdims=True))
                raw /= raw.sum(axis=1, keepdims=True)
        return check_probabilities(self._who, raw, observations, self.actions)

    def sample(self, observations: Observations, rng: np.random.Generator) -> NDArray[Any]:
        if self.actions is not None:
            return super().sample(observations, rng)
        raw = self._run(observations)
        labels = raw.dtype.kind not in "f"
        return raw[:, 0] if labels and raw.ndim == 2 and raw.shape[1] == 1 else raw

    def _run(self, observations: Observations) -> NDArray[Any]:
        inputs = matrix(self._who, observations, self._width, self._dtype)
        try:
            result = np.asarray(self._session.run([self._output.name], {self._input: inputs})[0])
        except Exception as error:
            raise InputError(
                f"'{self._path}' failed on observations of shape {inputs.shape} ({_reason(error)}); "
                "check that it was made for them."
            ) from error
        if result.shape[:1] != (len(inputs),):
            raise InputError(
                f"'{self._path}' must give one action per observation. "
                f"Got shape {result.shape} for {len(inputs)} observations; keep the first axis."
            )
        return result

    def _read_actions(self) -> tuple[Any, ...]:
        shape = self._output.shape
        text = self._session.get_modelmeta().custom_metadata_map.get("actions")
        count = shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None
        given: Any = range(count) if text is None and count is not None and count <= MAX_ACTIONS else None
        got = repr(text if text is None else text[:60])
        if text is not None:
            try:
                given = documents.parse(text)
            except ValueError as error:
                got += f" ({error})"
        if not isinstance(given, list | range) or count not in (None, len(given)):
            raise InputError(
                f"'{self._path}' must say which actions its output {self._output.name!r} of shape {list(shape)} stands "
                f"for, at most {MAX_ACTIONS:,}: add the metadata entry actions, a JSON list of the labels. Got {got}."
            )
        return check_actions(f"'{self._path}'", given)


def _session(path: Path) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise InputError(
            f"'{path}' needs onnxruntime, which is not installed; run: pip install 'cesaro[onnx]'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what goes wrong is raised
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # a corrupt file, missing external data, an unknown operator
        raise InputError(f"'{path}' is no ONNX model that can be run ({_reason(error)}); export it again.") from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _show(tensors: Any) -> str:
    return ", ".join(f"{tensor.name} {tensor.type} {tensor.shape}" for tensor in tensors) or "none"
