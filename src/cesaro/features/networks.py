"""Networks of pairs in NumPy, without JAX: their inputs, their values, and their last hidden layer as features.

Inputs are columns standardized, labels one-hot, and the action or its probabilities beside them.

Finite actions: `[s, e_a]` for a logged pair and `[s', π(·|s')]` for the next one, which `MLP(actions=A)` turns into the exact
mean of `q(s', a')`. Continuous actions: `[s, a]`, with one draw of `a'`: a network is not linear in its inputs, and their mean
over draws would be the inputs of no pair. More draws are more rows (`Prepared.features_of(block, repeat)`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data import Log
from cesaro.data.values import Values
from cesaro.errors import InputError
from cesaro.features.encoder import MAX_DENSE, Encoder
from cesaro.features.maps import (
    EncodedStates,
    FeatureMap,
    Joint,
    NextActions,
    PerAction,
    ReadyPairs,
    action_probabilities,
    as_actions,
)
from cesaro.policies import Attached

Float32 = NDArray[np.float32]
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
    """The inputs of the last layer of a network, in single precision, `[n, inputs]` to `[n, size]`."""

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


class NetworkInputs(FeatureMap):
    """A feature map whose features are a network's inputs.

    Attributes:
        size: inputs in all.
        num_actions: finite actions, whose probabilities are the last inputs; 0 where actions are numbers.
        description: in words.
    """

    def __init__(self, state: Encoder, action: Encoder | int) -> None:
        self._state = state
        self._action = action if isinstance(action, Encoder) else None
        self.num_actions = 0 if isinstance(action, Encoder) else action
        self.size = state.size + (self.num_actions or (self._action.size if self._action is not None else 0))
        beside = f"probabilities of {self.num_actions} actions" if self.num_actions else "the action"
        self.description = f"{state.size} inputs of the observation, and {beside}"
        if self.size > MAX_DENSE:
            raise InputError(
                f"{self.size:,} inputs are too many for a network ({self.description}): at most {MAX_DENSE:,} are possible; "
                "group levels, or leave columns out."
            )

    @staticmethod
    def of(log: Log, random_state: int) -> "NetworkInputs":
        """Fitted on the seeded sample of rows that every map is fitted on."""
        rows = log.sample(random_state).rows
        finite = rows.actions.is_discrete
        return NetworkInputs(
            Encoder(rows.observations, rows.next_observations),
            len(rows.actions.joint().levels) if finite else Encoder(rows.actions),
        )

    def encoded(self, observations: Values, actions: Values) -> ReadyPairs:
        state = self._state(observations)
        if self._action is not None:
            return ReadyPairs(np.concatenate([state, self._action(actions)], axis=1))
        chosen = np.zeros((len(state), self.num_actions), np.float32)
        chosen[np.arange(len(state)), actions.joint().codes] = 1.0
        return ReadyPairs(np.concatenate([state, chosen], axis=1))

    def actions(self, observations: Values, policy: Attached, rng: np.random.Generator, draws: int) -> NextActions:
        """One action, or probabilities: `draws` matter only to finite actions whose policy samples, as shares."""
        if self._action is not None:
            return NextActions(None, (policy.sample(observations.plain(), rng),))
        return NextActions(action_probabilities(observations, policy, self.num_actions, rng, draws))

    def encoded_next(self, observations: Values, actions: NextActions) -> ReadyPairs:
        state = self._state(observations)
        if actions.chances is None:
            assert self._action is not None
            chosen: Any = self._action(as_actions(actions.drawn[0]))
        else:
            chosen = actions.chances.astype(np.float32)
        return ReadyPairs(np.concatenate([state, chosen], axis=1))

    def hidden(self, layer: HiddenLayer) -> PerAction | Joint:
        """The features that a network with these inputs has in its last hidden layer."""
        if self._action is not None:
            return Joint((self._state, self._action), layer)
        return PerAction(EncodedStates(self._state, layer), self.num_actions)
