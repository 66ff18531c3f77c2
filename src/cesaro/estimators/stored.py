"""Fitted estimators as files without pickle: plain data, and objects of a short list of our own classes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cesaro import files
from cesaro.data.clocks import Clock
from cesaro.diagnostics import Diagnostic
from cesaro.errors import InputError
from cesaro.estimators.pairs import Inputs, Role
from cesaro.estimators.run import Run
from cesaro.features.base import Fourier, Linear, Polynomial, Smooth, Splines
from cesaro.features.encoder import Encoder
from cesaro.features.maps import EncodedStates, Joint, OneHot, PerAction
from cesaro.features.networks import HiddenLayer, Members, NetworkInputs
from cesaro.passes.standard_errors import Estimate

SCHEMA = "cesaro-estimator/1"

_KINDS: tuple[type, ...] = (
    *(Diagnostic, Estimate, Inputs, Role, Run),
    *(Clock, Encoder, EncodedStates, Fourier, Joint, Linear, OneHot, PerAction, Polynomial, Smooth, Splines),
    *(HiddenLayer, Members, NetworkInputs),
)
_BY_NAME = {kind.__name__: kind for kind in _KINDS}
# Of a module that imports JAX.
_NETWORK = ("cesaro.approximators", "MLP")


class Storable:
    """An estimator that may stand inside of another one, as its features."""

    def stored_content(self) -> dict[str, Any]:
        """The content of a file."""
        raise NotImplementedError


def save(path: Any, estimator: str, content: dict[str, Any]) -> None:
    """Write the parts of a fitted estimator; the class's name says how to read them."""
    files.write_values(Path(path), SCHEMA, {"estimator": estimator, "content": content}, _described)


def load(path: Any, estimator: str, inside: Callable[[str], type]) -> dict[str, Any]:
    """Load what `save` wrote for the same class; `inside`: from the name of an estimator that is its features to its class."""
    found = files.read_metadata(Path(path), SCHEMA).get("estimator")
    if found != estimator:
        raise InputError(f"'{path}' holds a {found}, not a {estimator}; load it with that class.")
    remedy = "save the estimator again"
    content = files.read_values(Path(path), SCHEMA, partial(_made, inside), remedy).get("content")
    if not isinstance(content, dict):
        raise InputError(f"'{path}' is damaged (no content); {remedy}.")
    return content


def restored(kind: Any, content: dict[str, Any]) -> Any:
    """An estimator of this class, as it was."""
    result = kind(**content["parameters"])
    result._restore(dict(content["fitted"]))
    return result


def _described(value: Any) -> dict[str, Any]:
    """An object of our own by the name of its class and its parts."""
    if isinstance(value, Storable):  # features from another estimator
        return {"estimator": type(value).__name__, "content": value.stored_content()}
    if type(value) in _KINDS or (type(value).__module__, type(value).__name__) == _NETWORK:
        return {"kind": type(value).__name__, "fields": dict(vars(value))}
    raise InputError(
        f"This estimator cannot be saved: it holds a {type(value).__name__}, and only our own features, and methods, "
        "optimizers and targets by name, are written without pickle (a method of your own as 'file.py:name'); keep your code, "
        "and the estimate as JSON (Evaluation.to_dict)."
    )


def _made(inside: Callable[[str], type], described: dict[str, Any]) -> Any:
    """The object that `_described` was given."""
    if "estimator" in described:
        return restored(inside(described["estimator"]), described["content"])
    made: Any = object.__new__(_kind(described["kind"]))
    for name, part in described["fields"].items():
        object.__setattr__(made, name, part)
    return made


def _kind(name: str) -> type:
    if name == _NETWORK[1]:
        from cesaro.approximators import MLP

        return MLP
    return _BY_NAME[name]
