"""Where samples come from: a table of features, and rows that point into it."""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt32

from cesaro.algorithms.base import Batch
from cesaro.algorithms.dynamics import WeightedRows
from cesaro.checks import Array as FloatArray
from cesaro.data import FeatureTransitions
from cesaro.errors import InputError
from cesaro.linear import LinearProblem


class SampleSource(NamedTuple):
    """Rows to draw from, as arguments of a compiled program: problems of one size share it.

    Attributes:
        cumulative: cumulative probabilities in units of 2⁻³², `[rows]`, so that draws do not depend on the float precision.
        here: index of `x` in the table, `[rows]`.
        there: index of `x'`, `[rows]`.
        rewards: `[rows]`.
        features: `[table, inputs]`.
    """

    cumulative: UInt32[Array, " rows"]
    here: Int[Array, " rows"]
    there: Int[Array, " rows"]
    rewards: Float[Array, " rows"]
    features: Float[Array, "table inputs"]


# Rows that were sent to the device once stay there as long as the transitions live: methods share them.
_SENT: WeakKeyDictionary[FeatureTransitions, dict[str, SampleSource]] = WeakKeyDictionary()


def source(data: "LinearProblem | FeatureTransitions", dtype: str) -> SampleSource:
    """The rows of a known problem (every tuple with its probability) or of transitions (each with its weight)."""
    if not isinstance(data, FeatureTransitions):
        return _send(data, dtype)
    sent = _SENT.setdefault(data, {})
    if dtype not in sent:
        sent[dtype] = _send(data, dtype)
    return sent[dtype]


def _send(data: "LinearProblem | FeatureTransitions", dtype: str) -> SampleSource:
    here, there, probability, rewards, features = _table(data)
    for name, values in (("rewards", rewards), ("features", features)):
        check_numbers(name, values, dtype)
    # The last entry is the largest number, so that every draw falls on a row of positive probability.
    last = int(np.flatnonzero(probability)[-1])
    cumulative = np.minimum(np.cumsum(probability) * 2.0**32, 2.0**32 - 1).astype(np.uint32)
    cumulative[last:] = 2**32 - 1
    return SampleSource(
        jnp.asarray(cumulative),
        jnp.asarray(here, jnp.int32),
        jnp.asarray(there, jnp.int32),
        jnp.asarray(rewards, dtype),
        jnp.asarray(features, dtype),
    )


def check_numbers(name: str, values: Any, dtype: str) -> None:
    """Numbers that the precision cannot hold would turn into infinities."""
    largest = max(float(values.max()), -float(values.min()))
    if largest > float(np.finfo(dtype).max):
        raise InputError(f"{name} must be numbers of {dtype}. Got {largest:g}; scale them, or take float64.")


def rows_of(data: "LinearProblem | FeatureTransitions") -> WeightedRows:
    """The same rows with their probabilities, in float64, for exact expectations."""
    here, there, probability, rewards, features = _table(data)
    return WeightedRows(features[here], rewards, features[there], probability)


def _table(data: "LinearProblem | FeatureTransitions") -> tuple[Any, Any, FloatArray, FloatArray, FloatArray]:
    if isinstance(data, LinearProblem):
        here, there, probability = data.sample_space
        return here, there, probability, data.r[here], data.X
    if isinstance(data, FeatureTransitions):
        rows = len(data)
        probability = _shares(data.weights, rows)
        return np.arange(rows), rows + np.arange(rows), probability, data.rewards, np.concatenate([data.x, data.x_next])
    raise InputError(
        f"The data must be a LinearProblem or FeatureTransitions. Got {type(data).__name__}; known MDPs become one with "
        "cesaro.LinearProblem(mdp, policy=…, sampling=…, features=…), and a log goes to cesaro.Learned(method).fit(log, policy)."
    )


def _shares(weights: FloatArray | None, rows: int) -> FloatArray:
    if weights is None:
        return np.full(rows, 1 / rows)
    scaled = weights / weights.max()  # so that no sum overflows
    return scaled / scaled.sum()


def draw(cumulative: UInt32[Array, " rows"], key: Array, first: Int[Array, ""], count: int) -> Int[Array, " count"]:
    """Row numbers of samples `first … first + count − 1` of the stream that `key` names.

    Every sample has a key of its own, so that a stream does not depend on how it is cut into steps, blocks or chunks.
    """
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(first + jnp.arange(count, dtype=jnp.int32))
    bits = jax.vmap(lambda k: jax.random.bits(k, (), jnp.uint32))(keys)
    # A row owns the numbers from its predecessor's entry up to below its own; the last one owns the largest too.
    rows = jnp.searchsorted(cumulative, bits, side="right")
    last = jnp.searchsorted(cumulative, cumulative[-1], side="left")
    return jnp.minimum(rows, last).astype(jnp.int32)


def gather(origin: SampleSource, rows: Int[Array, "..."]) -> Batch:
    """The transitions of these rows."""
    return Batch(origin.features[origin.here[rows]], origin.rewards[rows], origin.features[origin.there[rows]])
