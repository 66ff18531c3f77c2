"""`TabularSystem`: a known MDP, a target policy, a sampling distribution and features as a linear system over pairs."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lstsq

from cesaro import checks, exact
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.linear.expectations import Samples
from cesaro.linear.system import LinearSystem
from cesaro.mdp import TabularMDP


class SampleSpace(NamedTuple):
    """Every tuple `(s, a, s', a')` of positive probability under `d_μπ`; pairs are numbered `s·A + a`."""

    pair: NDArray[np.intp]  # [N]
    next_pair: NDArray[np.intp]  # [N]
    probability: Array  # [N]


class TabularSystem(LinearSystem):
    """The pieces of a `LinearProblem`, over pairs; see there."""

    def __init__(self, mdp: TabularMDP, *, policy: ArrayLike, sampling: ArrayLike, features: ArrayLike) -> None:
        if not isinstance(mdp, TabularMDP):
            raise InputError(f"mdp must be a TabularMDP. Got {type(mdp).__name__}; build one with cesaro.TabularMDP.")
        self.mdp = mdp
        self.policy = mdp.check_policy(policy)
        self.sampling = mdp.check_sampling(sampling)
        shape = (mdp.num_states, mdp.num_actions, None)
        self.features = checks.frozen(
            checks.float_array("features", features, ("state", "action", "feature"), shape, largest=checks.LARGEST)
        )

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

    def project(self, values: Array, basis: Array) -> Array:
        """The `D`-orthogonal projection of `values [n]` on the columns of `basis [n, k]`, of any rank."""
        root = np.sqrt(self.d)
        weights = lstsq(root[:, None] * basis, root * values, cond=1e-12, lapack_driver="gelsy")[0]
        return np.asarray(basis @ weights)
