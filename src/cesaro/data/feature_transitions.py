"""Transitions whose features are ready: no policy, no feature map."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cesaro import checks
from cesaro.checks import Array
from cesaro.errors import InputError


class FeatureTransitions:
    """Rows `(x, R, x')` with `x = x(S, A)` and `x'` the features of `(S', A')`, or their mean over the target's `A'`.

    Args:
        x: features of the pair, `[N, K]`.
        rewards: `[N]`.
        x_next: features after the step under the target policy, `[N, K]`.
        trajectory: which trajectory a row belongs to, `[N]`; None: unknown.
        weights: non-negative weight of each row, `[N]`; None: all alike.

    Example:
        >>> import cesaro as cs
        >>> data = cs.FeatureTransitions([[1.0], [2.0]], [0.5, 1.5], [[2.0], [1.0]])
        >>> data
        FeatureTransitions(2 rows, 1 features)
    """

    def __init__(
        self,
        x: ArrayLike,
        rewards: ArrayLike,
        x_next: ArrayLike,
        *,
        trajectory: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> None:
        self.x = checks.frozen(checks.float_array("x", x, ("row", "feature"), (None, None), largest=checks.LARGEST))
        rows = len(self.x)
        self.rewards = checks.frozen(checks.float_array("rewards", rewards, ("row",), (rows,), largest=checks.LARGEST))
        self.x_next = checks.frozen(
            checks.float_array("x_next", x_next, ("row", "feature"), self.x.shape, largest=checks.LARGEST)
        )
        self.trajectory: NDArray[Any] | None = None
        if trajectory is not None:
            self.trajectory = np.array(trajectory)
            if self.trajectory.shape != (rows,):
                raise InputError(f"trajectory must have shape [row={rows}]. Got {self.trajectory.shape}.")
        self.weights: Array | None = None
        if weights is not None:
            self.weights = checks.float_array("weights", weights, ("row",), (rows,), largest=checks.LARGEST)
            if (self.weights < 0).any() or not self.weights.any():
                raise InputError(
                    f"weights must be non-negative and not all zero. Got a minimum of {self.weights.min():g}; "
                    "drop rows with weight ≤ 0."
                )
            if self.weights[self.weights > 0].min() < checks.SMALLEST:
                raise InputError(
                    f"weights must be 0 or at least {checks.SMALLEST:g}, so that no product is lost. "
                    f"Got {self.weights[self.weights > 0].min():g}; multiply all of them (only their ratios matter)."
                )
            checks.frozen(self.weights)

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        return f"FeatureTransitions({len(self)} rows, {self.x.shape[1]} features)"
