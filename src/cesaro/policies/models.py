"""Models that other libraries trained: scikit-learn's, Stable-Baselines3's and ONNX files.

Those of the first two are pickled, and loading them runs code, so that it needs trust.
"""

import copy
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import documents, user_code
from cesaro.checks import Array
from cesaro.errors import EvaluationWarning, InputError
from cesaro.policies import labels, observed
from cesaro.policies.base import LogInfo, Policy, check_actions, check_probabilities
from cesaro.policies.observed import Observations, matrix
from cesaro.text import GIVE, Sentence, Wording, argument

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


class FittedModel(Policy):
    """A model of scikit-learn, or of what builds on it: a classifier's labels or a regressor's numbers are the actions.

    It acts by `model.predict`, without randomness, as it would be put to use.

    A model that was fitted on a data frame gets the log's columns of the same names, and ignores the others. One that was
    fitted on an array gets all observation columns, in the log's order.
    """

    deterministic = True

    def __init__(self, model: Any, *, name: str) -> None:
        self.name, self._model = name, model
        self._check_fitted()
        self._names = [str(column) for column in getattr(model, "feature_names_in_", ())]
        self._width: int | None = getattr(model, "n_features_in_", None)
        self._classes = getattr(model, "classes_", None)

    def bind(self, log: LogInfo) -> Policy:
        has_names = len(log.names) == len(log.columns) > 0  # else they are the entries of a column of vectors
        missing = [column for column in self._names if column not in log.columns]
        if missing and has_names:
            raise InputError(
                Sentence(
                    "{who} was fitted on the columns {names}, and the policy sees {seen} of the log {log}. Got no {column}; "
                    "{give} {observation} as well, or rename the log's column.",
                    who=self._who,
                    names=", ".join(map(repr, self._names)),
                    seen=", ".join(map(repr, log.columns)),
                    log=log.name,
                    column=repr(missing[0]),
                    give=GIVE,
                    observation=argument("observation", missing[0]),
                )
            )
        if log.actions is None:
            return self
        bound = copy.copy(self)
        if self._classes is None:
            column = log.action_columns[0] if log.action_columns else "action"
            bound._unknown_remedy = Sentence(
                "it gives numbers: if the log's actions are amounts, read them with {kind}, else round to a label in a function",
                kind=Wording(f"kinds={{{column!r}: 'number'}}", f"--kind {column}=number"),
            )
        elif np.ndim(self._classes) == 1 and (labels.Index(log.actions).codes(np.asarray(self._classes)) < 0).all():
            raise InputError(
                f"{self._who} knows the classes {labels.show(self._classes)} ({labels.kind(self._classes)}), and the log "
                f"{log.name} has the actions {labels.show(log.actions)} ({labels.kind(log.actions)}): none is the same; fit the "
                "model on the log's labels, or write a function that translates what it predicts."
            )
        else:
            bound._unknown_remedy = (
                "the log cannot tell what follows an action that it never shows, so fit the model without it"
            )
        return bound

    def sample(self, observations: Observations, rng: np.random.Generator) -> NDArray[Any]:
        chosen: NDArray[Any] = self._called(observations, self._predict)
        return chosen

    def _predict(self, observations: Observations) -> NDArray[Any]:
        return labels.array(self._model.predict(self._inputs(observations)))

    def _inputs(self, observations: Observations) -> Any:
        seen = observed.columns(observations)
        if set(self._names) <= set(seen) and self._names:
            return observed.frame({column: seen[column] for column in self._names})
        if self._width is not None and len(seen) != self._width:
            raise InputError(
                f"{self._who} takes {self._width} columns, and the policy sees {len(seen)}: {', '.join(map(repr, seen))}; give "
                "the observation columns that the model was fitted on."
            )
        if self._names:  # a vector whose entries have no names
            return observed.frame(dict(zip(self._names, seen.values())))
        are_numbers = all(column.dtype.kind in "biuf" for column in seen.values())
        return np.column_stack([np.asarray(part, dtype=None if are_numbers else object) for part in seen.values()])

    def _check_fitted(self) -> None:
        from sklearn.utils.validation import check_is_fitted

        if not hasattr(self._model, "predict"):
            raise InputError(
                f"{self._who} must be a model that predicts actions. Got a {user_code.type_name(self._model)} without predict; "
                "put a classifier or a regressor behind it in a Pipeline."
            )
        user_code.call(
            lambda error: f"{self._who} must be fitted before it can act. Got {error}; call fit on it first.",
            check_is_fitted,
            self._model,
        )


def is_fitted_model(x: Any) -> bool:
    """Whether this is an object of scikit-learn, which is loaded then."""
    base = sys.modules.get("sklearn.base")
    return base is not None and isinstance(x, base.BaseEstimator)


def load_pickled(path: Path, *, trust: bool) -> Any:
    """Load a joblib or pickle file; only with trust, because loading it runs code."""
    if not trust:
        raise InputError(
            f"'{path}' is a pickled object, and loading it runs the code inside; if you trust who made it, pass trust=True "
            "(--trust on the command line), else export the model to ONNX."
        )
    import joblib

    return user_code.call(
        lambda error: (
            f"'{path}' cannot be loaded ({error}); save the model again, with joblib.dump and the installed versions."
        ),
        joblib.load,
        path,
    )


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


def load_stable_baselines(path: Path, *, name: str, trust: bool) -> StableBaselines:
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


class OnnxModel(Policy):
    """A model file, run on the CPU: probabilities over finite actions, or one action per observation.

    It has one float input `[n, d]`, or inputs with the names of the log's columns, `[n, 1]` or `[n]` each. What the output means
    is said by its name or type, never guessed: `output_label` or `label`, as scikit-learn's classifiers are exported, are labels
    `[n]`; `probabilities` or `logits` `[n, A]` (actions 0 … A−1, or the JSON list in the metadata entry `actions`); otherwise one
    output, or the one called `action` or `actions`: whole numbers or text are labels `[n]`, floats continuous actions `[n, k]`.
    """

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
        are_labels = raw.dtype.kind not in "f"
        return raw[:, 0] if are_labels and raw.ndim == 2 and raw.shape[1] == 1 else raw

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
