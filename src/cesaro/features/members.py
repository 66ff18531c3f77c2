"""The networks that runs ended at, one per seed, in NumPy: values for `predict`, hidden layers for `DiffLSTD`, files."""

from typing import Any

import numpy as np

from cesaro.checks import Array
from cesaro.features.hidden_layer import CHUNK, HiddenLayer, Matrix, hidden


class Members:
    """Networks of one shape.

    Attributes:
        weights: of each layer, `[seeds, out, in]`.
        biases: of each layer, `[seeds, out]`; the last may be None.
        activation: between layers.
        num_actions: finite actions, whose probabilities are the last inputs; 0: none.
    """

    def __init__(self, weights: list[Any], biases: list[Any], activation: str, num_actions: int) -> None:
        self.weights, self.biases = weights, biases
        self.activation, self.num_actions = activation, num_actions

    @staticmethod
    def of(network: Any, num_actions: int) -> "Members":
        """From a `Network` whose leaves have leading axes `[settings, seeds]`, of its first setting."""
        layers = network.layers
        biases = [None if layer.bias is None else np.asarray(layer.bias[0]) for layer in layers]
        return Members([np.asarray(layer.weight[0]) for layer in layers], biases, network.activation, num_actions)

    def __len__(self) -> int:
        return len(self.weights[0])

    @property
    def num_inputs(self) -> int:
        return int(self.weights[0].shape[2]) + self.num_actions

    @property
    def has_hidden(self) -> bool:
        return len(self.weights) > 1

    @property
    def are_finite(self) -> Any:
        """`[seeds]`."""
        leaves = [part for part in (*self.weights, *self.biases) if part is not None]
        return np.all([np.isfinite(part).reshape(len(self), -1).all(axis=1) for part in leaves], axis=0)

    def values(self, seed: int, x: Matrix) -> Array:
        """The function of one member at inputs `[n, inputs]`, `[n]`."""
        weights = [part[seed] for part in self.weights]
        biases = [part[seed] for part in self.biases if part is not None]
        seen = self.num_inputs - self.num_actions
        result = np.empty(len(x))
        for start in range(0, len(x), CHUNK):
            rows = slice(start, start + CHUNK)
            inputs = x[rows, :seen].astype(weights[0].dtype, copy=False)
            outputs = hidden(inputs, weights[:-1], biases, self.activation) @ weights[-1].T
            if len(biases) == len(weights):
                outputs = outputs + biases[-1]
            result[rows] = np.sum(outputs * x[rows, seen:], axis=1) if self.num_actions else outputs[:, 0]
        return result

    def layer(self, seed: int) -> HiddenLayer:
        """The last hidden layer of one member."""
        return HiddenLayer(
            [part[seed] for part in self.weights[:-1]], [part[seed] for part in self.biases[:-1]], self.activation
        )
