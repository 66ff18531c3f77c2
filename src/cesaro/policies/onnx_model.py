"""ONNX models, run on the CPU.

One float input `[n, d]`, or inputs with the names of the log's columns, `[n, 1]` or `[n]` each. What the output means is said by
its name or type, never guessed: `output_label` or `label`, as scikit-learn's classifiers are exported, are labels `[n]`;
`probabilities` or `logits` `[n, A]` (actions 0 … A−1, or the JSON list in the metadata entry `actions`); otherwise one
output, or the one called `action` or `actions`: whole numbers or text are labels `[n]`, floats continuous actions `[n, k]`.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import documents
from cesaro.checks import Array
from cesaro.errors import EvaluationWarning, InputError
from cesaro.policies import observed
from cesaro.policies.base import LogInfo, Policy, check_actions, check_probabilities, matrix
from cesaro.policies.observed import Observations

_FLOATS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
_COLUMNS = {
    **_FLOATS,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(string)": object,
}
# More columns than this are no list of actions.
MAX_ACTIONS = 1_000_000
_LABEL_TYPES = ("tensor(int64)", "tensor(string)")
_LABELS = ("output_label", "label")  # of classifiers that scikit-learn's converter and its relatives export
_PROBABILITIES = ("probabilities", "logits")
_MEANINGS = (*_PROBABILITIES, "actions", "action")


class OnnxModel(Policy):
    """A model file: probabilities over finite actions, or one action per observation."""

    _float_hint = "call the output probabilities or logits, or let it give whole numbers"

    def __init__(self, path: Path, *, name: str) -> None:
        self.name, self._path = name, path
        self._session = _session(path)
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        self._inputs = {one.name: one for one in inputs}
        self._is_matrix = len(inputs) == 1 and inputs[0].type in _FLOATS and len(inputs[0].shape) == 2
        are_columns = all(one.type in _COLUMNS and one.shape[1:] in ([], [1]) and one.shape for one in inputs)
        if not inputs or not (self._is_matrix or are_columns):
            raise InputError(
                f"'{path}' must have one float input of shape [n, d], or one input per column, of shape [n, 1]. "
                f"Got {_show(inputs)}; export the model with the observations as its only input."
            )
        if fixed := [one.shape[0] for one in inputs if isinstance(one.shape[0], int)]:
            raise InputError(
                f"'{path}' must take any number of observations. Got a fixed first axis of {fixed[0]}; "
                "export the model with a dynamic batch axis."
            )
        named = [output for meaning in _MEANINGS for output in outputs if output.name == meaning]
        self._also_gives = ""
        if not (self._metadata and any(output.name in _PROBABILITIES for output in named)):
            found = [output for output in outputs if output.name in _LABELS and output.type in _LABEL_TYPES]
            self._also_gives = named[0].name if found and named else ""
            named = found or named
        if not named and len(outputs) != 1:
            raise InputError(
                f"'{path}' must have one output, or one called probabilities, logits, action, actions or output_label. "
                f"Got {_show(outputs)}; rename or remove outputs."
            )
        self._output = (named or outputs)[0]
        if not self._output.type.startswith("tensor("):
            raise InputError(f"'{path}' must give an array. Got {_show([self._output])}; export it without a ZipMap.")
        if self._output.name in _PROBABILITIES:
            self.actions = self._read_actions()
        else:
            self.deterministic = True

    def bind(self, log: LogInfo) -> Policy:
        if self._also_gives:
            warnings.warn(
                f"'{self._path}' gives labels ({self._output.name}) and {self._also_gives}: the policy takes its labels. To draw "
                "actions by the probabilities instead, add the metadata entry actions, a JSON list of their labels.",
                EvaluationWarning,
                stacklevel=2,
            )
        return self

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
        inputs = self._matrix(observations) if self._is_matrix else self._by_name(observations)
        first = next(iter(inputs.values()))
        try:
            result = np.asarray(self._session.run([self._output.name], inputs)[0])
        except Exception as error:
            shapes = " and ".join(str(part.shape) for part in inputs.values())
            raise InputError(
                f"'{self._path}' failed on observations of shape {shapes} ({_reason(error)}); "
                "check that it was made for them."
            ) from error
        if result.shape[:1] != (len(first),):
            raise InputError(
                f"'{self._path}' must give one action per observation. "
                f"Got shape {result.shape} for {len(first)} observations; keep the first axis."
            )
        return result

    def _matrix(self, observations: Observations) -> dict[str, NDArray[Any]]:
        ((name, one),) = self._inputs.items()
        width = one.shape[1] if isinstance(one.shape[1], int) else None
        return {name: matrix(self._who, observations, width, _FLOATS[one.type])}

    def _by_name(self, observations: Observations) -> dict[str, NDArray[Any]]:
        """An input for each of some columns; a single one may have any name."""
        seen = observed.columns(observations)
        if len(self._inputs) == 1 and len(seen) == 1:
            seen = dict(zip(self._inputs, seen.values()))
        if missing := [name for name in self._inputs if name not in seen]:
            raise InputError(
                f"'{self._path}' has an input for each of the columns {', '.join(map(repr, self._inputs))}. Got no "
                f"{missing[0]!r} among those that the policy sees, {', '.join(map(repr, seen))}; give it as an "
                "observation column as well."
            )
        found = {}
        for name, one in self._inputs.items():
            column = seen[name]
            if one.type == "tensor(string)":
                found[name] = np.array([str(entry) for entry in column.tolist()], dtype=object)
            else:
                found[name] = matrix(self._who, {name: column}, 1, _COLUMNS[one.type])[:, 0]
            found[name] = found[name].reshape(-1, 1) if len(one.shape) == 2 else found[name]
        return found

    @property
    def _metadata(self) -> str | None:
        """The actions that the file itself names."""
        found: str | None = self._session.get_modelmeta().custom_metadata_map.get("actions")
        return found

    def _read_actions(self) -> tuple[Any, ...]:
        shape = self._output.shape
        text = self._metadata
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
        raise InputError(
            f"'{path}' is not an ONNX model that can be run ({_reason(error)}); export it again."
        ) from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _show(tensors: Any) -> str:
    return ", ".join(f"{tensor.name} {tensor.type} {tensor.shape}" for tensor in tensors) or "none"
