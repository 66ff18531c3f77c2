"""Actor files: the weights of a deterministic network in safetensors, metadata `cesaro-actor/1`.

Tensors `layers.0.weight [out, in]`, `layers.0.bias [out]`, …; metadata, all text: `format` ("cesaro-actor/1"),
`activation` (between layers), `squash` (after the last), `low` and `high` (JSON lists of the action bounds, or null).

Some come with cesaro: trained by `cesaro train-target`, one file per environment.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from cesaro import checks, documents, files
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.policies.base import Policy
from cesaro.policies.observed import Observations, matrix

FORMAT = "cesaro-actor/1"
ACTIVATIONS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "silu": lambda x: x * expit(x),
    "sigmoid": expit,
}
SQUASHES = ("tanh", "clip", "none")  # tanh scaled to the bounds; cut off at the bounds; as it is
SHIPPED = "shipped"  # the word for the shipped actor of the environment at hand
_FOLDER = Path(__file__).parent / "actors"
_CHUNK = 8_192  # rows at a time: the hidden layers of a block would be larger than the block


class Actor(Policy):
    """A network that gives one continuous action per observation."""

    deterministic = True
    _float_hint = "an actor file gives continuous actions only"

    def __init__(
        self,
        layers: Sequence[tuple[NDArray[Any], NDArray[Any]]],
        *,
        activation: str,
        squash: str,
        low: Array | None,
        high: Array | None,
        name: str,
    ) -> None:
        self.name, self.low, self.high = name, low, high
        self._layers, self._activation, self._squash = tuple(layers), ACTIVATIONS[activation], squash

    def sample(self, observations: Observations, rng: np.random.Generator) -> NDArray[Any]:
        first = self._layers[0][0]
        inputs = matrix(self._who, observations, first.shape[1], first.dtype)
        with np.errstate(over="ignore", invalid="ignore"):  # an action that is not finite is refused where it is used
            outputs = [self._forward(inputs[start : start + _CHUNK]) for start in range(0, len(inputs), _CHUNK)]
        return np.concatenate(outputs) if outputs else np.empty((0, len(self._layers[-1][1])))

    def _forward(self, x: NDArray[Any]) -> NDArray[Any]:
        for number, (weight, bias) in enumerate(self._layers):
            x = x @ weight.T + bias
            if number < len(self._layers) - 1:
                x = self._activation(x)
        if self._squash == "none" or self.low is None or self.high is None:
            return x
        if self._squash == "tanh":
            x = self.low + (np.tanh(x) + 1) / 2 * (self.high - self.low)
        return np.clip(x, self.low, self.high)


def load(path: Path, *, name: str) -> Actor:
    """Read an actor file and check all of it."""
    metadata, tensors = _read(path)
    if metadata.get("format") != FORMAT:
        raise InputError(
            f"'{path}' must have the metadata entry format = {FORMAT!r}. Got {metadata.get('format')!r}; "
            "write it with cesaro.policies.save_actor."
        )
    layers = []
    for number in range(len(tensors) // 2):
        pair = [tensors.pop(f"layers.{number}.{part}", None) for part in ("weight", "bias")]
        if pair[0] is None or pair[1] is None:
            break
        layers.append((pair[0], pair[1]))
    if not layers or tensors:
        raise InputError(
            f"'{path}' must hold the tensors layers.0.weight, layers.0.bias, layers.1.weight, … and no others. "
            f"Got {', '.join(sorted(tensors)) or 'none'} beside {len(layers)} complete layers."
        )
    bounds = {field: _json(path, metadata, field) for field in ("low", "high")}
    return _checked(f"'{path}'", layers, bounds, metadata, name)


def save_actor(
    path: str | os.PathLike[str],
    weights: Sequence[ArrayLike],
    biases: Sequence[ArrayLike],
    *,
    activation: str,
    squash: str,
    low: ArrayLike | None,
    high: ArrayLike | None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write an actor file; it appears complete or not at all.

    Args:
        path: ends in `.safetensors`; an existing file is replaced.
        weights: `[out, in]` per layer, float32 or float64.
        biases: `[out]` per layer.
        activation: "relu", "tanh", "elu", "silu" or "sigmoid", after every layer but the last.
        squash: after the last layer: "tanh" (then scaled to the bounds), "clip" (cut off at the bounds) or "none".
        low: lower bounds of the action, one number per dimension; None only with "none".
        high: upper bounds likewise.
        metadata: further text entries.
    """
    from safetensors.numpy import save

    file = Path(path)
    if file.suffix.lower() != ".safetensors":
        raise InputError(f"path must end in .safetensors. Got {str(file)!r}.")
    if len(weights) != len(biases) or not len(weights):
        raise InputError(f"weights and biases must have one entry per layer. Got {len(weights)} and {len(biases)}.")
    layers = [(np.asarray(weight), np.asarray(bias)) for weight, bias in zip(weights, biases)]
    entries = {**(metadata or {}), "format": FORMAT, "activation": activation, "squash": squash}
    if not all(isinstance(part, str) for entry in entries.items() for part in entry):
        raise InputError(f"metadata must map text to text. Got {dict(metadata or {})!r}.")
    actor = _checked("The actor", layers, {"low": low, "high": high}, entries, file.stem)
    for field, bound in (("low", actor.low), ("high", actor.high)):
        entries[field] = json.dumps(None if bound is None else bound.tolist())
    tensors = {}
    for number, (weight, bias) in enumerate(layers):
        tensors[f"layers.{number}.weight"] = np.ascontiguousarray(weight)
        tensors[f"layers.{number}.bias"] = np.ascontiguousarray(bias)
    with files.chosen(file):
        files.write(file, _in_order(save(tensors, metadata=entries)))


def _in_order(data: bytes) -> bytes:
    """The same safetensors file with its header's entries sorted, so that equal actors are equal files."""
    length = int.from_bytes(data[:8], "little")
    header = json.dumps(documents.parse(data[8 : 8 + length]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[8 + length :]


def _checked(
    who: str,
    layers: list[tuple[NDArray[Any], NDArray[Any]]],
    bounds: dict[str, Any],
    text: Mapping[str, str],
    name: str,
) -> Actor:
    for field, known in (("activation", tuple(ACTIVATIONS)), ("squash", SQUASHES)):
        if text.get(field) not in known:
            raise InputError(f"{who} must have {field} {', '.join(known)}. Got {text.get(field)!r}.")
    width = None
    for number, (weight, bias) in enumerate(layers):
        if weight.dtype not in (np.float32, np.float64) or {weight.dtype, bias.dtype} != {layers[0][0].dtype}:
            raise InputError(
                f"{who} must have float32 or float64 throughout. "
                f"Got {weight.dtype} and {bias.dtype} in layer {number}; convert it."
            )
        fits = weight.ndim == 2 and weight.size and bias.shape == weight.shape[:1] and width in (None, weight.shape[1])
        if not fits:
            raise InputError(
                f"{who} must have weights [out, in] and biases [out] that fit together. Got {weight.shape} and "
                f"{bias.shape} in layer {number}{'' if width is None else f', after {width} outputs'}."
            )
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise InputError(f"{who} must have finite weights. Got NaN or infinite ones in layer {number}.")
        width = len(bias)
    checked: dict[str, Array | None] = {}
    for field, values in bounds.items():
        checked[field] = None
        if values is not None:
            checked[field] = checks.frozen(checks.float_array(f"{who}: {field}", values, ("dimension",), (width,)))
    low, high = checked["low"], checked["high"]
    if (low is None) != (high is None) or (low is None and text["squash"] != "none"):
        raise InputError(f"{who} must have both low and high, or squash none and neither. Got low {low}, high {high}.")
    if low is not None and high is not None and not (low < high).all():
        raise InputError(f"{who} must have low < high in every dimension. Got low {low}, high {high}.")
    return Actor(layers, activation=text["activation"], squash=text["squash"], low=low, high=high, name=name)


def _read(path: Path) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    from safetensors import safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            names = list(file.keys())
            return dict(file.metadata() or {}), {tensor: file.get_tensor(tensor) for tensor in names}
    except Exception as error:  # whatever is wrong with a file that should be safetensors
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"'{path}' is not a readable safetensors file ({reason}); write it again.") from error


def _json(path: Path, metadata: dict[str, str], field: str) -> Any:
    try:
        return documents.parse(metadata.get(field, "null"))
    except ValueError as error:
        raise InputError(
            f"'{path}' must have {field} as a JSON list of numbers, such as [-1.0, 1.0]. Got {metadata[field][:60]!r} "
            f"({error}); write it again."
        ) from error


def shipped() -> list[str]:
    """The environments for which an actor is shipped."""
    return sorted(file.stem for file in _FOLDER.glob("*.safetensors"))


def actor_path(env: Any) -> Path:
    """The file of the shipped actor for an environment, such as "HalfCheetah-v5"."""
    names = shipped()
    if not isinstance(env, str) or env not in names:
        there = ", ".join(names) or "none"
        raise InputError(
            f"A shipped actor must be for one of these environments: {there}. Got {env!r}; name a policy file."
        )
    return _FOLDER / f"{env}.safetensors"
