"""`LinearProblem`: a known MDP, a target policy, a sampling distribution and features."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lstsq

from cesaro import checks, exact
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.linear.system import LinearSystem, Samples
from cesaro.mdp import TabularMDP

if TYPE_CHECKING:
    from cesaro.linear.assumptions import AssumptionReport
    from cesaro.linear.error_bounds import ErrorBounds


class SampleSpace(NamedTuple):
    """Every tuple `(s, a, s', a')` of positive probability under `d_μπ`; pairs are numbered `s·A + a`."""

    pair: NDArray[np.intp]  # [N]
    next_pair: NDArray[np.intp]  # [N]
    probability: Array  # [N]


class LinearProblem(LinearSystem):
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

    def __init__(self, mdp: TabularMDP, *, policy: ArrayLike, sampling: ArrayLike, features: ArrayLike) -> None:
        if not isinstance(mdp, TabularMDP):
            raise InputError(f"mdp must be a TabularMDP. Got {type(mdp).__name__}; build one with cesaro.TabularMDP.")
        self.mdp = mdp
        self.policy = mdp.check_policy(policy)
        self.sampling = mdp.check_sampling(sampling)
        shape = (mdp.num_states, mdp.num_actions, None)
        self.features = checks.frozen(checks.float_array("features", features, ("state", "action", "feature"), shape))

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

    # The pieces, over pairs.

    @property
    def X(self) -> Array:
        """Features, `[n, K]`."""
        return self.features.reshape(-1, self.features.shape[2])

    @property
    def d(self) -> Array:
        """Sampling distribution, `[n]`."""
        return self.sampling.reshape(-1)

    @property
    def r(self) -> Array:
        """Rewards, `[n]`."""
        return self.mdp.rewards.reshape(-1)

    def apply_chain(self, values: Array) -> Array:
        """`P values` over pairs: `[n, ...]` to `[n, ...]`."""
        shaped = values.reshape(*self.policy.shape, *values.shape[1:])
        by_state = np.einsum("sa,sa...->s...", self.policy, shaped)
        return self.mdp.expect_next(by_state).reshape(values.shape)

    @cached_property
    def difference(self) -> Array:
        """`(P − I) X`, `[n, K]`: the expected change of the features in one step."""
        return self.apply_chain(self.X) - self.X

    @cached_property
    def exact(self) -> exact.Solution:
        """The exact rate, values, stationary law and density ratio of the target policy."""
        return exact.solve(self.mdp, self.policy)

    @cached_property
    def sample_space(self) -> SampleSpace:
        """All tuples that sampling can produce, with their probabilities."""
        actions = self.mdp.num_actions
        chain = self.mdp.probabilities
        pairs, successors, weights = [], [], []
        for action in range(actions):
            matrix = chain[action] if isinstance(chain, tuple) else sp.csr_array(chain[:, action])
            entries = sp.coo_array(matrix)
            pairs.append(entries.row.astype(np.intp) * actions + action)
            successors.append(entries.col.astype(np.intp))
            weights.append(self.sampling[entries.row, action] * entries.data)
        pair, successor, weight = map(np.concatenate, (pairs, successors, weights))
        probability = weight[:, None] * self.policy[successor]
        row, next_action = np.nonzero(probability)
        order = np.lexsort((successor[row] * actions + next_action, pair[row]))
        row, next_action = row[order], next_action[order]
        return SampleSpace(pair[row], successor[row] * actions + next_action, probability[row, next_action])

    @property
    def samples(self) -> Samples:
        pair, next_pair, probability = self.sample_space
        x = self.X[pair]
        return Samples(x, self.X[next_pair] - x, self.r[pair], probability)

    @property
    def num_samples(self) -> int:
        return len(self.sample_space.probability)

    # What follows from the matrices.

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

    def project(self, values: Array, basis: Array) -> Array:
        """The `D`-orthogonal projection of `values [n]` on the columns of `basis [n, k]`, of any rank."""
        root = np.sqrt(self.d)
        weights = lstsq(root[:, None] * basis, root * values, cond=1e-12, lapack_driver="gelsy")[0]
        return np.asarray(basis @ weights)

    def assumptions(self, xi: float = 0.99) -> "AssumptionReport":
        """Which assumptions of the theory hold here, by how much, in plain words."""
        from cesaro.linear.assumptions import assumptions

        return assumptions(self, xi)

    def error_bounds(self, xi: float = 0.99) -> "ErrorBounds":
        """Both bounds of Proposition 1 beside both actual errors, where the proposition applies."""
        from cesaro.linear.error_bounds import error_bounds

        return error_bounds(self, xi)
