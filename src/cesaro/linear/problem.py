"""`LinearProblem`: a known MDP, a target policy, a sampling distribution and features."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cesaro import checks
from cesaro.errors import InputError
from cesaro.linear import assumptions, error_bounds
from cesaro.linear.assumptions import AssumptionReport
from cesaro.linear.error_bounds import ErrorBounds
from cesaro.linear.tabular import TabularSystem


class LinearProblem(TabularSystem):
    """Off-policy evaluation with linear features on a known MDP.

    Args:
        mdp: the process.
        policy: the target policy `π`, `[S, A]`.
        sampling: the distribution `d_μ` that the pairs are drawn from, `[S, A]`; need not belong to any policy.
        features: `x(s, a)`, `[S, A, K]`.

    Matrices (`A, b, C`, `A2, b2, C2`, `A3, b3`, `B`, `c`, `g`), limits and stability come from `LinearSystem`.

    Example:
        >>> import cesaro as cs
        >>> p = cs.problems.two_state_counterexample()
        >>> p.A.round(12).tolist()
        [[-1.0, 6.0], [-2.0, 6.0]]
        >>> p.stability("diff-sgq").converges
        False
        >>> p.stability("diff-gq1").converges
        True
    """

    def __repr__(self) -> str:
        return f"LinearProblem({self.mdp!r}, {self.num_features} features)"

    def replace(self, **changes: Any) -> "LinearProblem":
        """The same problem with some of `mdp`, `policy`, `sampling`, `features` exchanged."""
        fields: dict[str, Any] = {
            "mdp": self.mdp,
            "policy": self.policy,
            "sampling": self.sampling,
            "features": self.features,
        }
        unknown = sorted(set(changes) - set(fields))
        if unknown:
            raise InputError(f"replace() takes {', '.join(fields)}. Got {', '.join(unknown)}.")
        return LinearProblem(**(fields | changes))

    def centered(self) -> "LinearProblem":
        """The same problem with features shifted to mean zero under the sampling distribution."""
        return self.replace(features=self.features - np.einsum("sa,sak->k", self.sampling, self.features))

    def mspbe(self, kind: int, reward_rate: float | None, weights: ArrayLike) -> float:
        """The mean squared projected Bellman error 1, 2, 3 or 4 at a rate and weights.

        1 projects the TD errors on `[1, X]`, 3 and 4 on `X` (they differ in what is learned, not in value), and 2 replaces
        the rate by its optimum given the weights (`reward_rate` is ignored there and may be None).
        """
        w = checks.float_array("weights", weights, ("feature",), (self.num_features,))
        if np.ndim(kind) > 0 or kind not in (1, 2, 3, 4):
            raise InputError(f"kind must be 1, 2, 3 or 4. Got {kind!r}.")
        target = self.r + self.difference @ w
        rate = float(self.d @ target) if kind == 2 else checks.number("reward_rate", reward_rate, low=-np.inf)
        basis = np.column_stack([np.ones(len(self.d)), self.X]) if kind == 1 else self.X
        return float(np.sum(self.d * self.project(target - rate, basis) ** 2))

    def assumptions(self, xi: float = 0.99) -> AssumptionReport:
        """Which assumptions of the theory hold here, by how much, in plain words."""
        return assumptions.assumptions(self, xi)

    def error_bounds(self, xi: float = 0.99) -> ErrorBounds:
        """Both bounds of Proposition 1, at `ξ` and at the least one that the problem allows, beside both actual errors."""
        return error_bounds.error_bounds(self, xi)
