"""The forward pass of a dense network in NumPy, and its last hidden layer as features; no JAX, nothing to compile."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating]

# Rows of one pass: layers stay near the cache.
CHUNK = 8_192


def _gelu(x: Matrix) -> Matrix:
    """The approximation by a hyperbolic tangent, as in JAX."""
    one, half = x.dtype.type(1), x.dtype.type(0.5)
    inner = x.dtype.type(np.sqrt(2 / np.pi)) * (x + x.dtype.type(0.044715) * x**3)
    return half * x * (one + np.tanh(inner))


# By the names in `cesaro.approximators`.
ACTIVATIONS: dict[str, Callable[[Matrix], Matrix]] = {
    "relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "tanh": np.tanh,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, x.dtype.type(0)))),
    "silu": lambda x: x * (x.dtype.type(0.5) * (np.tanh(x.dtype.type(0.5) * x) + x.dtype.type(1))),
    "gelu": _gelu,
}


def hidden(x: Matrix, weights: Sequence[Matrix], biases: Sequence[Matrix], activation: str) -> Matrix:
    """`[n, inputs]` through layers `[out, in]`, each followed by the activation, in their precision."""
    x = x.astype(weights[0].dtype, copy=False) if weights else x
    for weight, bias in zip(weights, biases):
        x = ACTIVATIONS[activation](x @ weight.T + bias)
    return x


class HiddenLayer:
    """What the last layer of a network sees, in single precision, `[n, inputs]` to `[n, size]`."""

    def __init__(self, weights: Sequence[Matrix], biases: Sequence[Matrix], activation: str) -> None:
        self._weights = [np.ascontiguousarray(weight, dtype=np.float32) for weight in weights]
        self._biases = [np.ascontiguousarray(bias, dtype=np.float32) for bias in biases]
        self._activation = activation
        self.size = len(self._biases[-1])
        self.description = f"the {self.size} units of a network's last hidden layer"

    def __call__(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        result = np.empty((len(inputs), self.size), np.float32)
        for start in range(0, len(inputs), CHUNK):
            rows = slice(start, start + CHUNK)
            result[rows] = hidden(inputs[rows], self._weights, self._biases, self._activation)
        return result
