"""`EmpiricalProblem`: the rows of a log as a distribution of their own."""

from functools import cached_property

import numpy as np

from cesaro.checks import Array
from cesaro.linear.expectations import Samples
from cesaro.linear.system import LinearSystem


class EmpiricalProblem(LinearSystem):
    """Rows `(x, R, x̄')`, each drawn with its share of the weights.

    Args:
        x: features of the pairs, `[n, K]`.
        rewards: `[n]`.
        x_next: features after the step under the target policy, `[n, K]`.
        weights: non-negative, `[n]`; None: all alike.

    Example:
        >>> import numpy as np
        >>> from cesaro.linear import EmpiricalProblem
        >>> log = EmpiricalProblem(np.array([[1.0], [2.0]]), np.array([0.5, 1.5]), np.array([[2.0], [1.0]]))
        >>> round(log.limit("diff-gq1").reward_rate, 9)
        1.0
    """

    def __init__(self, x: Array, rewards: Array, x_next: Array, weights: Array | None = None) -> None:
        self._x, self._rewards, self._x_next = x, rewards, x_next
        count = len(rewards)
        scaled = np.ones(count) if weights is None else weights / weights.max()
        self._d = np.asarray(scaled / scaled.sum())

    def __repr__(self) -> str:
        return f"EmpiricalProblem({len(self._d)} rows, {self.num_features} features)"

    @property
    def X(self) -> Array:
        return self._x

    @property
    def d(self) -> Array:
        return self._d

    @property
    def r(self) -> Array:
        return self._rewards

    @cached_property
    def difference(self) -> Array:
        return self._x_next - self._x

    @property
    def samples(self) -> Samples:
        return Samples(self._x, self.difference, self._rewards, self._d)

    @property
    def num_samples(self) -> int:
        return len(self._d)

    def thinned(self, most: int, seed: int = 0) -> "EmpiricalProblem":
        """At most `most` of the rows, drawn without replacement; the problem itself where it has no more."""
        count = len(self._d)
        if count <= most:
            return self
        rows = np.sort(np.random.default_rng([seed, 0]).choice(count, most, replace=False))
        if not self._d[rows].any():
            rows = np.sort(np.argsort(-self._d, kind="stable")[:most])
        return EmpiricalProblem(self._x[rows], self._rewards[rows], self._x_next[rows], self._d[rows])
