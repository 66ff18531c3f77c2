"""Finite Markov decision processes: validation, the chain that a policy induces, and its recurrent classes."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from cesaro import checks
from cesaro.checks import Array
from cesaro.errors import InputError, MultichainError

Chain: TypeAlias = Array | sp.csr_array  # a stochastic matrix [S, S]

_AXES = ("state", "action", "next state")


class TabularMDP:
    """A finite MDP: what every action does in every state, and what it earns.

    Args:
        probabilities: `p(s' | s, a)`, either one array `[S, A, S]` or a sequence of `A` SciPy sparse matrices `[S, S]`.
        rewards: expected reward `r(s, a)`, `[S, A]`.

    Rows must sum to one to rounding (1e-9 in float64) and are then normalized. The arrays are copied and read-only.

    Example:
        >>> import cesaro as cs
        >>> stay_or_move = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
        >>> mdp = cs.TabularMDP(stay_or_move, rewards=[[0, 0], [1, 0]])
        >>> mdp
        TabularMDP(2 states, 2 actions, dense)
        >>> cs.exact.reward_rate(mdp, [[0, 1], [1, 0]])
        1.0
    """

    probabilities: Array | tuple[sp.csr_array, ...]
    rewards: Array

    def __init__(self, probabilities: ArrayLike | Sequence[Any], rewards: ArrayLike) -> None:
        if sp.issparse(probabilities):
            raise InputError(
                "probabilities must be a sequence with one sparse matrix [S, S] per action. "
                "Got a single sparse matrix; wrap it in a list if there is one action."
            )
        if isinstance(probabilities, Sequence) and len(probabilities) > 0 and any(map(sp.issparse, probabilities)):
            self.probabilities = _sparse_probabilities(probabilities)
            states, actions = self.probabilities[0].shape[0], len(self.probabilities)
        else:
            dense = checks.float_array("probabilities", probabilities, _AXES, (None, None, None))
            states, actions, successors = dense.shape
            if successors != states:
                raise InputError(
                    f"probabilities must have shape [S, A, S]. Got {dense.shape}; "
                    "the first and the last axis both run over states."
                )
            tolerance = checks.row_sum_tolerance(np.asarray(probabilities).dtype)
            self.probabilities = checks.frozen(checks.distributions("probabilities", dense, _AXES, tolerance, over=1))
        self.rewards = checks.frozen(checks.float_array("rewards", rewards, _AXES[:2], (states, actions)))

    @property
    def num_states(self) -> int:
        """The number of states, `S`."""
        return int(self.rewards.shape[0])

    @property
    def num_actions(self) -> int:
        """The number of actions, `A`."""
        return int(self.rewards.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether the probabilities are sparse matrices, one per action."""
        return isinstance(self.probabilities, tuple)

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return f"TabularMDP({self.num_states} states, {self.num_actions} actions, {kind})"

    def check_policy(self, policy: ArrayLike) -> Array:
        """`policy` as a read-only array `[S, A]` whose rows are distributions."""
        array = checks.float_array("policy", policy, _AXES[:2], self.rewards.shape)
        tolerance = checks.row_sum_tolerance(np.asarray(policy).dtype)
        return checks.frozen(checks.distributions("policy", array, _AXES[:2], tolerance, over=1))

    def check_sampling(self, sampling: ArrayLike) -> Array:
        """`sampling` as a read-only distribution over all pairs, `[S, A]`; single entries may be zero."""
        array = checks.float_array("sampling", sampling, _AXES[:2], self.rewards.shape)
        tolerance = checks.row_sum_tolerance(np.asarray(sampling).dtype)
        return checks.frozen(checks.distributions("sampling", array, _AXES[:2], tolerance, over=2))

    def state_chain(self, policy: Array) -> Chain:
        """The transition matrix over states under a (checked) policy, `[S, S]`; sparse if the MDP is."""
        if isinstance(self.probabilities, tuple):
            # Not sum(): a generator starting at 0 would add an int to a sparse matrix.
            chain = sp.csr_array((self.num_states, self.num_states), dtype=np.float64)
            for action, matrix in enumerate(self.probabilities):
                chain = chain + sp.diags_array(policy[:, action]) @ matrix
            chain = sp.csr_array(chain)
            chain.eliminate_zeros()
            chain.sort_indices()
            return chain
        return np.asarray((policy[:, None, :] @ self.probabilities)[:, 0, :])

    def expect_next(self, values: Array) -> Array:
        """`Σ_s' p(s' | s, a) values[s']` for every pair: `[S, ...]` to `[S, A, ...]`."""
        tail = values.shape[1:]
        flat = values.reshape(self.num_states, -1)
        if isinstance(self.probabilities, tuple):
            result = np.stack([matrix @ flat for matrix in self.probabilities], axis=1)
        else:
            result = self.probabilities.reshape(-1, self.num_states) @ flat
        return np.asarray(result.reshape(self.num_states, self.num_actions, *tail))

    def push_forward(self, weights: Array) -> Array:
        """`Σ_{s, a} weights[s, a] p(s' | s, a)` for every `s'`: `[S, A]` to `[S]`."""
        if isinstance(self.probabilities, tuple):
            return np.asarray(sum(matrix.T @ weights[:, a] for a, matrix in enumerate(self.probabilities)))
        return np.asarray(weights.reshape(-1) @ self.probabilities.reshape(-1, self.num_states))


def recurrent_classes(chain: Chain) -> tuple[NDArray[np.intp], ...]:
    """The closed communicating classes of a chain, each as a sorted array of states."""
    if not isinstance(chain, sp.csr_array) and _reaches_all(chain) and _reaches_all(chain.T):
        return (np.arange(len(chain)),)  # the usual dense case, without building a graph
    pattern = chain if isinstance(chain, sp.csr_array) else sp.csr_array(chain > 0)
    count, label = connected_components(pattern, directed=True, connection="strong")
    edges = pattern.tocoo()
    closed = np.ones(count, dtype=bool)
    closed[label[edges.row[label[edges.row] != label[edges.col]]]] = False
    return tuple(np.flatnonzero(label == c) for c in np.flatnonzero(closed))


def single_class(chain: Chain) -> NDArray[np.intp]:
    """The recurrent class of a unichain; raises `MultichainError` where there are several."""
    classes = recurrent_classes(chain)
    if len(classes) == 1:
        return classes[0]
    shown = "; ".join(_abbreviate(members) for members in classes[:8])
    more = f"; and {len(classes) - 8} more" if len(classes) > 8 else ""
    raise MultichainError(
        f"The policy must induce a unichain, but it has {len(classes)} recurrent classes of states ({shown}{more}): "
        "each has a reward rate of its own; evaluate them one at a time, or change the policy so that they are connected.",
        tuple(tuple(int(s) for s in members) for members in classes),
    )


def _reaches_all(matrix: Array) -> bool:
    """Whether state 0 leads to every state."""
    reached = np.zeros(len(matrix), dtype=bool)
    reached[0] = True
    frontier = np.array([0])
    while len(frontier):
        found = (matrix[frontier] > 0).any(axis=0) & ~reached
        reached |= found
        frontier = np.flatnonzero(found)
    return bool(reached.all())


def _abbreviate(members: NDArray[np.intp]) -> str:
    if len(members) <= 6:
        return "{" + ", ".join(map(str, members)) + "}"
    return "{" + ", ".join(map(str, members[:4])) + f", …, {members[-1]}: {len(members)} states}}"


def _sparse_probabilities(matrices: Sequence[Any]) -> tuple[sp.csr_array, ...]:
    result = []
    shape = None
    for action, matrix in enumerate(matrices):
        if not sp.issparse(matrix):
            raise InputError(
                f"probabilities must be sparse for every action or dense for all. Got {type(matrix).__name__} "
                f"for action {action}; convert it with scipy.sparse.csr_array."
            )
        shape = shape or matrix.shape
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape != shape or shape[0] == 0:
            raise InputError(
                f"probabilities must hold one sparse matrix [S, S] per action, all of one shape. "
                f"Got {matrix.shape} for action {action} and {shape} for action 0."
            )
        if matrix.dtype.kind not in "biuf":
            raise InputError(f"probabilities must be real. Got dtype {matrix.dtype} for action {action}.")
        tolerance = checks.row_sum_tolerance(matrix.dtype)
        csr = sp.csr_array(matrix, dtype=np.float64, copy=True)
        csr.sum_duplicates()
        for wrong, rule in ((~np.isfinite(csr.data), "be finite"), (csr.data < 0, "not be negative")):
            if wrong.any():
                entry = int(np.argmax(wrong))
                state = int(np.searchsorted(csr.indptr, entry, side="right")) - 1
                raise InputError(
                    f"probabilities must {rule}. Got {csr.data[entry]:g} at state {state}, action {action}, "
                    f"next state {csr.indices[entry]}; probabilities lie between 0 and 1."
                )
        with np.errstate(over="ignore"):
            sums = np.asarray(csr.sum(axis=1)).ravel()
        if (np.abs(sums - 1) > tolerance).any():
            state = int(np.argmax(np.abs(sums - 1) > tolerance))
            raise InputError(
                f"probabilities must sum to one over next state. Got {sums[state]:.12g} at state {state}, "
                f"action {action}; add what is missing or divide by the sum."
            )
        csr.data /= np.repeat(sums, np.diff(csr.indptr))
        csr.eliminate_zeros()
        csr.sort_indices()
        for part in (csr.data, csr.indices, csr.indptr):
            part.flags.writeable = False
        result.append(csr)
    return tuple(result)
