"""The rows that a sweep draws from at each record: the same, or rows that change, of a log that is larger than memory."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from cesaro.data import FeatureTransitions
from cesaro.learning.source import SampleSource, check_numbers, source
from cesaro.linear import LinearProblem


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
