"""`LinearSystem`: expectations, and what follows from them: TD fixed points, limits and stability of every method.

`EmpiricalProblem` is that of the rows of a log, which are a distribution of their own; `rate_force` tells how firmly they hold a
rate. `LinearProblem`, that of a known MDP, is in `problem.py`.
"""

from functools import cached_property

import numpy as np

from cesaro.checks import Array
from cesaro.linear import fixed_point, stability
from cesaro.linear.expectations import Expectations, Samples
from cesaro.linear.fixed_point import FixedPoint
from cesaro.linear.methods import AffineForm
from cesaro.linear.stability import Limit, Stability


class LinearSystem(Expectations):
    """Expectations over weighted rows `(x, r, E[x'] − x)`, and what follows from them for every method.

    `A, b, C` have the rate as first unknown; in `A2, b2, C2` it is eliminated; `A3, b3` have dual features without the constant.
    """

    def td_fixed_point(self) -> FixedPoint:
        """The solutions of `A u + b = 0`: unique, none or many."""
        return fixed_point.td_fixed_point(self)

    def limit(self, method: str | AffineForm, *, ridge: float = 0.0, lam: float = 1.0) -> Limit:
        """Where a method converges to from zero; raises `NoLimitError` with the reason where it does not.

        `method` is a name, or the affine form of a method of your own (`cesaro.learning.affine_form`).
        `lam` is GradientDICE's weight of the normalization.
        """
        return stability.limit(self, method, ridge=ridge, lam=lam)

    def stability(
        self, method: str | AffineForm, *, ridge: float = 0.0, lam: float = 1.0, rate_step_ratio: float = 1.0
    ) -> Stability:
        """Whether the mean dynamics of a method converge, how fast, and up to which step size.

        `method` is a name, or the affine form of a method of your own (`cesaro.learning.affine_form`).
        `rate_step_ratio` is `β/α` of Diff-GQ2.
        """
        return stability.stability(self, method, ridge=ridge, lam=lam, rate_step_ratio=rate_step_ratio)


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


def rate_force(x: Array, x_next: Array, dual: Array | None = None) -> float:
    """`min_w E[(1 − (x − x̄')ᵀw)²]`: how fast the best objective of Diff-GQ1 grows as r̂ leaves its optimum, per `(Δr̂)²`.

    It is one minus the uncentered R² of a regression of 1 on x − x̄', with x̄' the *mean* next features given the pair. With one
    feature per pair it is `1/E_d[ratio²]` for the density ratio of the target. At 0 every rate fits equally well.

    Args:
        x: features of the pairs, `[N, K]`.
        x_next: features after the step, `[N, K]`: means, or single draws.
        dual: features `[N, M]` of the pairs; x − x' is regressed on them and a constant to average over draws, as the dual of
            Diff-GQ1 does. With one feature per pair, `dual=x` takes the means over each pair's rows. None: x' as it is, right
            where it holds means or nothing is random; the noise of single draws would count as force.

    Example:
        >>> import numpy as np
        >>> from cesaro.linear import rate_force
        >>> x, x_next = np.zeros((2, 1)), np.array([[1.0], [-1.0]])
        >>> rate_force(x, x_next)  # differences average out: r̂ alone moves the mean
        1.0
        >>> round(rate_force(x, np.abs(x_next)), 9)  # w can take the place of r̂
        0.0
        >>> round(rate_force(x, np.array([[3.0], [-1.0]])), 9)  # two draws after one pair seem to differ
        0.8
        >>> round(rate_force(x, np.array([[3.0], [-1.0]]), dual=x), 9)  # their mean is 1, as before
        0.0
    """
    change = x - x_next
    if dual is not None:
        tests = np.column_stack([np.ones(len(dual)), dual])
        change = tests @ np.linalg.lstsq(tests, change, rcond=1e-10)[0]
    weights = np.linalg.lstsq(change, np.ones(len(change)), rcond=1e-10)[0]
    return max(0.0, 1.0 - float((change @ weights).mean()))
