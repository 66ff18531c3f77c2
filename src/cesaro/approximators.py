"""Function approximators: what an objective builds its functions from. Linear or not is only this argument."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Scalar

from cesaro import checks
from cesaro.errors import InputError

# A hidden layer of that many units between two such has a gigabyte of weights.
MOST_LAYERS, MOST_UNITS, MOST_ACTIONS = 100, 16_384, 1_000_000

Params = Any

# From this many inputs on, a function is worth a matrix product of its own.
WIDE = 32


class Function(NamedTuple):
    """A family of real functions of `inputs` numbers.

    Attributes:
        init: `(key) -> params`.
        apply: `(params, x [..., inputs]) -> [...]`.
        joined: evaluate `x` and `x'` in one product, which is faster for networks.
        slope: `(params, x' − x) -> q(x') − q(x)`, of a function that is affine in `x`: half of the work; None for others.
    """

    init: Callable[[Array], Params]
    apply: Callable[[Params, Float[Array, "... inputs"]], Float[Array, "..."]]
    joined: bool = False
    slope: Callable[[Params, Float[Array, "... inputs"]], Float[Array, "..."]] | None = None

    def both(
        self, params: Params, x: Float[Array, "... inputs"], x_next: Float[Array, "... inputs"]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """The function at `x` and at `x'`."""
        if not self.joined:
            return self.apply(params, x), self.apply(params, x_next)
        here, there = jnp.split(self.apply(params, jnp.concatenate([x, x_next], axis=-2)), 2, axis=-1)
        return here, there

    def change(
        self, params: Params, x: Float[Array, "... inputs"], x_next: Float[Array, "... inputs"]
    ) -> Float[Array, "..."]:
        """The function at `x'` minus that at `x`."""
        if self.slope is not None:
            return self.slope(params, x_next - x)
        here, there = self.both(params, x, x_next)
        return there - here


class Approximator(Protocol):
    """Builds a function of `num_inputs` numbers, with or without a bias."""

    def __call__(self, num_inputs: int, *, bias: bool) -> Function: ...


def linear(num_inputs: int, *, bias: bool) -> Function:
    """`xᵀw`, or `b + xᵀw`, started at zero."""
    return _linear(num_inputs, bias, spread=0.0)


def linear_random(num_inputs: int, *, bias: bool) -> Function:
    """The same, started uniformly in ±1/√inputs (as the authors' code does)."""
    return _linear(num_inputs, bias, spread=num_inputs**-0.5)


def _linear(num_inputs: int, bias: bool, spread: float) -> Function:
    def init(key: Array) -> Params:
        if spread == 0.0:
            weights, offset = jnp.zeros(num_inputs), jnp.zeros(())
        else:
            weight_key, bias_key = jax.random.split(key)
            weights = jax.random.uniform(weight_key, (num_inputs,), minval=-spread, maxval=spread)
            offset = jax.random.uniform(bias_key, (), minval=-spread, maxval=spread)
        return {"weights": weights, "bias": offset} if bias else {"weights": weights}

    def slope(params: Params, x: Float[Array, "... inputs"]) -> Float[Array, "..."]:
        if num_inputs >= WIDE:
            return x @ params["weights"]
        # A product and a sum instead of a dot: under vmap it stays elementwise, which compiles to one fused loop.
        weights = params["weights"].reshape((1,) * (x.ndim - 1) + (num_inputs,))
        return jnp.sum(x * weights, axis=-1)

    def apply(params: Params, x: Float[Array, "... inputs"]) -> Float[Array, "..."]:
        return slope(params, x) + params["bias"] if bias else slope(params, x)

    return Function(init, apply, slope=slope)


@jax.custom_jvp
def relu(x: Array) -> Array:
    """`max(x, 0)`, whose derivative is read off the result: nothing else has to be kept for it."""
    return jnp.maximum(x, 0)


@relu.defjvp
def _relu_derivative(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    result = relu(*primals)
    return result, jnp.where(result > 0, tangents[0], 0)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": relu,
    "tanh": jnp.tanh,
    "elu": jax.nn.elu,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
}
INITIALIZERS: dict[str, Callable[..., Array]] = {
    "orthogonal": jax.nn.initializers.orthogonal(column_axis=0),  # weights are [out, in]
    "lecun": jax.nn.initializers.lecun_normal(in_axis=1, out_axis=0),
    "he": jax.nn.initializers.he_normal(in_axis=1, out_axis=0),
}


class Network(eqx.Module):
    """Dense layers with one activation between them: a pytree of its weights `[out, in]` and biases `[out]`."""

    layers: tuple[eqx.nn.Linear, ...]
    activation: str = eqx.field(static=True)

    def hidden(self, x: Float[Array, "... inputs"]) -> Float[Array, "... width"]:
        """The inputs of the last layer."""
        for layer in self.layers[:-1]:
            x = ACTIVATIONS[self.activation](_affine(layer, x))
        return x

    def __call__(self, x: Float[Array, "... inputs"]) -> Float[Array, "... heads"]:
        return _affine(self.layers[-1], self.hidden(x))


def _affine(layer: eqx.nn.Linear, x: Float[Array, "... inputs"]) -> Float[Array, "... outputs"]:
    result = x @ layer.weight.T
    return result if layer.bias is None else result + jnp.broadcast_to(layer.bias, result.shape)


@dataclass(frozen=True)
class MLP:
    """A network, as the paper's by default: two layers of 64 ReLU units, orthogonal weights, zero biases, a small last layer.

    Args:
        widths: units of each hidden layer; with none the function is linear.
        activation: "relu", "tanh", "elu", "silu" or "gelu".
        initializer: of weights: "orthogonal", "lecun" or "he"; biases start at zero.
        head_scale: the last layer's weights are multiplied by this.
        actions: 0, or the number of finite actions. Then the last `actions` inputs are the probabilities of each action (a unit
            vector for a known one), the network sees the others and has one output per action, and the function is their mean:
            the expectation over the next action is exact.

    Hidden layers have biases. The last one has a bias if the method asks for it or if there are hidden layers.

    Example:
        >>> import jax
        >>> from cesaro.approximators import MLP
        >>> function = MLP(widths=(8,))(3, bias=False)
        >>> function.apply(function.init(jax.random.key(0)), jax.numpy.ones((5, 3))).shape
        (5,)
    """

    widths: tuple[int, ...] = (64, 64)
    activation: str = "relu"
    initializer: str = "orthogonal"
    head_scale: float = 1e-3
    actions: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.widths, tuple | list):
            raise InputError(f"widths must be a sequence of integers, one per hidden layer. Got {self.widths!r}.")
        if len(self.widths) > MOST_LAYERS:
            raise InputError(
                f"widths must have at most {MOST_LAYERS} entries, one per hidden layer. Got {len(self.widths)}."
            )
        widths = tuple(checks.count("widths", width, high=MOST_UNITS) for width in self.widths)
        object.__setattr__(self, "widths", widths)
        for name, known in (("activation", ACTIVATIONS), ("initializer", INITIALIZERS)):
            if str(getattr(self, name)) not in known:
                raise InputError(f"{name} must be one of {', '.join(known)}. Got {getattr(self, name)!r}.")
        checks.number("head_scale", self.head_scale, low=0.0, high=checks.LARGEST_SETTING)
        checks.count("actions", self.actions, low=0, high=MOST_ACTIONS)

    def __call__(self, num_inputs: int, *, bias: bool) -> Function:
        seen = num_inputs - self.actions
        if seen < 1:
            raise InputError(f"A network for {self.actions} actions needs inputs beside them. Got {num_inputs} in all.")
        sizes = (seen, *self.widths, self.actions or 1)
        has_bias = bias or bool(self.widths)

        def init(key: Array) -> Network:
            keys = jax.random.split(key, len(sizes) - 1)
            last = len(keys) - 1
            return Network(
                tuple(
                    self._layer(
                        keys[i], sizes[i], sizes[i + 1], i < last or has_bias, self.head_scale if i == last else 1.0
                    )
                    for i in range(len(keys))
                ),
                self.activation,
            )

        def apply(params: Network, x: Float[Array, "... inputs"]) -> Float[Array, "..."]:
            if not self.actions:
                return params(x)[..., 0]
            return jnp.sum(params(x[..., :seen]) * x[..., seen:], axis=-1)

        return Function(init, apply, joined=True)

    def _layer(self, key: Array, inputs: int, outputs: int, use_bias: bool, scale: float) -> eqx.nn.Linear:
        layer = eqx.nn.Linear(inputs, outputs, use_bias=use_bias, key=key)
        weight = scale * INITIALIZERS[self.initializer](key, (outputs, inputs), layer.weight.dtype)
        layer = eqx.tree_at(lambda part: part.weight, layer, weight)
        return eqx.tree_at(lambda part: part.bias, layer, jnp.zeros(outputs, weight.dtype)) if use_bias else layer


APPROXIMATORS: dict[str, Approximator] = {"linear": linear, "linear-random": linear_random, "mlp": MLP()}


def squared_norm(params: Params) -> Scalar:
    """`‖params‖²`, for the ridge."""
    return sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(params)), start=jnp.zeros(()))
