"""Fitted estimators as files without pickle: plain data, and objects of a short list of our own classes."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from cesaro import storage
from cesaro.errors import InputError
from cesaro.estimators.diagnostics import Diagnostic
from cesaro.estimators.influence import Estimate
from cesaro.estimators.inputs import Inputs, Role
from cesaro.estimators.neural_members import Members
from cesaro.features.base import Fourier, Linear, Polynomial
from cesaro.features.encoder import Encoder
from cesaro.features.hidden_layer import HiddenLayer
from cesaro.features.maps import EncodedStates, Joint, OneHot, PerAction
from cesaro.features.network_inputs import NetworkInputs

SCHEMA = "cesaro-estimator/1"

_KINDS: tuple[type, ...] = (
    *(Diagnostic, Estimate, Inputs, Role),
    *(Encoder, EncodedStates, Fourier, Joint, Linear, OneHot, PerAction, Polynomial),
    *(HiddenLayer, Members, NetworkInputs),
)
_BY_NAME = {kind.__name__: kind for kind in _KINDS}
# Of a module that imports JAX.
_NETWORK = ("cesaro.approximators", "MLP")


def save(path: Any, estimator: str, content: dict[str, Any]) -> None:
    """Write the parts of a fitted estimator; the class's name says how to read them."""
    arrays: dict[str, Any] = {}
    meta = {"schema": SCHEMA, "estimator": estimator, "content": packed(content, arrays)}
    storage.write_arrays(Path(path), meta, arrays)


def load(path: Any, estimator: str) -> dict[str, Any]:
    """What `save` wrote for the same class."""
    meta, arrays = storage.read_arrays(Path(path), SCHEMA)
    if meta.get("estimator") != estimator:
        raise InputError(f"'{path}' holds a {meta.get('estimator')}, not a {estimator}; load it with that class.")
    try:
        content = unpacked(meta["content"], arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"'{path}' is damaged ({type(error).__name__}: {error}); save the estimator again.") from None
    if not isinstance(content, dict):
        raise InputError(f"'{path}' is damaged (no content); save the estimator again.")
    return content


def packed(value: Any, arrays: dict[str, Any]) -> Any:
    """`value` as plain JSON; arrays go to `arrays` and leave their name."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, np.generic):
        return packed(value.item(), arrays)
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return {"labels": [packed(label, arrays) for label in value.tolist()]}
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return {"tuple": [packed(part, arrays) for part in value]}
    if isinstance(value, list):
        return {"list": [packed(part, arrays) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[key, packed(part, arrays)] for key, part in value.items()]}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "stored_content"):  # features from another estimator
        return {"estimator": type(value).__name__, "content": packed(value.stored_content(), arrays)}
    if type(value) in _KINDS or (type(value).__module__, type(value).__name__) == _NETWORK:
        return {"kind": type(value).__name__, "fields": packed(dict(vars(value)), arrays)}
    raise InputError(
        f"This estimator cannot be saved: it holds a {type(value).__name__}, and only our own features, and optimizers and "
        "targets by name, are written without pickle; keep your code, and the estimate as JSON (Evaluation.to_dict)."
    )


def unpacked(value: Any, arrays: dict[str, Any]) -> Any:
    """What `packed` was given."""
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float.fromhex(value["float"])
    if "array" in value:
        return arrays[value["array"]]
    if "labels" in value:
        labels = np.empty(len(value["labels"]), dtype=object)
        labels[:] = [unpacked(label, arrays) for label in value["labels"]]
        return labels
    if "tuple" in value:
        return tuple(unpacked(part, arrays) for part in value["tuple"])
    if "list" in value:
        return [unpacked(part, arrays) for part in value["list"]]
    if "dict" in value:
        return {key: unpacked(part, arrays) for key, part in value["dict"]}
    if "estimator" in value:
        return _estimator(value["estimator"], unpacked(value["content"], arrays))
    kind = _kind(value["kind"])
    made: Any = object.__new__(kind)
    for name, part in unpacked(value["fields"], arrays).items():
        object.__setattr__(made, name, part)
    return made


def _kind(name: str) -> type:
    if name == _NETWORK[1]:
        from cesaro.approximators import MLP

        return MLP
    return _BY_NAME[name]


def _estimator(name: str, content: dict[str, Any]) -> Any:
    if name != "Learned":
        raise ValueError(f"an estimator {name!r} inside another")
    from cesaro.estimators.learned import Learned

    return restored(Learned, content)


def restored(kind: Any, content: dict[str, Any]) -> Any:
    """An estimator of this class, as it was."""
    result = kind(**content["parameters"])
    for name, value in content["fitted"].items():
        setattr(result, name, value)
    return result
