"""Where samples come from: a table of features and rows that point into it, the same for a whole sweep or changing."""

from collections.abc import Callable
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
        # Converted by NumPy: JAX would compile a program for it.
        jnp.asarray(here.astype(np.int32)),
        jnp.asarray(there.astype(np.int32)),
        jnp.asarray(rewards.astype(dtype)),
        jnp.asarray(features.astype(dtype)),
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


class Feed:
    """Rows that change from record to record; every seed draws from the same ones, by its own stream.

    Args:
        after: from the number of a record to its rows, always as many: pairs `[rows, 2, inputs]`, each `x` with its `x'`, and
            rewards `[rows]`. Asked for in order; what was given may change then.
        identity: gives a fingerprint of all rows that will ever come, which the first ones do not tell.
    """

    changes = True

    def __init__(self, after: Callable[[int], Any], identity: Callable[[], str] = str) -> None:
        self._after, self.identity = after, identity
        self._sent: tuple[int, str, SampleSource] | None = None

    def source(self, record: int, dtype: str) -> SampleSource:
        """The rows of a record on the device; those of the record before are given up."""
        if self._sent is not None and self._sent[:2] == (record, dtype):
            return self._sent[2]
        self._sent = None
        pairs, rewards = self._after(record)
        for name, values in (("rewards", rewards), ("features", pairs)):
            check_numbers(name, values, dtype)
        rows = len(rewards)
        sent = SampleSource(
            jnp.asarray(np.minimum(np.arange(1, rows + 1) * (2.0**32 / rows), 2.0**32 - 1).astype(np.uint32)),
            jnp.arange(0, 2 * rows, 2, dtype=jnp.int32),
            jnp.arange(1, 2 * rows, 2, dtype=jnp.int32),
            jnp.array(rewards, dtype),
            jnp.array(pairs.reshape(2 * rows, -1), dtype),
        )
        self._sent = record, dtype, sent
        return sent


class Still(Feed):
    """The same rows at every record."""

    changes = False
    identity = str  # its rows tell everything

    def __init__(self, data: LinearProblem | FeatureTransitions) -> None:
        self._data = data
        self._sent = None

    def source(self, record: int, dtype: str) -> SampleSource:
        if self._sent is None:
            self._sent = 0, dtype, source(self._data, dtype)
        return self._sent[2]
