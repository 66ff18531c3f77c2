"""`LinearProblem`: a known MDP, a target policy, a sampling distribution and features.

What the theory says about it stands here as well: which of its assumptions hold, and how far by Proposition 1 a TD fixed point
can be from the truth, beside how far it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lstsq
from scipy.sparse.linalg import LinearOperator, svds

from cesaro import checks, exact
from cesaro.checks import Array
from cesaro.errors import InputError, MultichainError, ToleranceError
from cesaro.linear.expectations import Samples
from cesaro.linear.fixed_point import RANK_TOLERANCE
from cesaro.linear.system import LinearSystem
from cesaro.mdp import TabularMDP, recurrent_classes
from cesaro.solvers import Krylov, choose

# Up to this many states the margin of the chain is computed exactly.
EXACT_STATES = 2_000
# Feature means up to this share of the feature's root mean square count as zero.
CENTERED = 1e-9


class SampleSpace(NamedTuple):
    """Every tuple `(s, a, s', a')` of positive probability under `d_μπ`; pairs are numbered `s·A + a`."""

    pair: NDArray[np.intp]  # [N]
    next_pair: NDArray[np.intp]  # [N]
    probability: Array  # [N]


@dataclass(frozen=True)
class Assumption:
    """One assumption: `margin` is positive by how far it holds, zero or negative by how far it fails."""

    name: str
    holds: bool
    margin: float
    sentence: str


class AssumptionReport:
    """All assumptions in a fixed order; index by name, iterate, or print as a table."""

    def __init__(self, entries: tuple[Assumption, ...]) -> None:
        self._entries = {entry.name: entry for entry in entries}

    def __iter__(self) -> Iterator[Assumption]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, name: str) -> Assumption:
        if name not in self._entries:
            raise InputError(f"name must be one of {', '.join(self._entries)}. Got {name!r}.")
        return self._entries[name]

    def __repr__(self) -> str:
        rows = [f"{'assumption':<20} {'holds':<6}{'margin':>10}  what it means"]
        for entry in self:
            rows.append(f"{entry.name:<20} {'yes' if entry.holds else 'NO':<6}{entry.margin:>10.3g}  {entry.sentence}")
        return "\n".join(rows)


@dataclass(frozen=True)
class ErrorBounds:
    """Bounds and errors of the TD fixed point; bounds are None where neither the proposition nor its looser form for features
    with a mean applies, errors where no fixed point exists.

    With `Π` the projection on the features and `κ = ‖dᵀ(P − I)‖_{D⁻¹}`, the bound of the values is
    `(‖P‖_D + 1) / (1 − ξ − ‖Π 1‖_D κ)` times the representation error, if `‖ΠPΠ‖_D ≤ ξ` and the denominator is positive; that of
    the rate is `κ` times it. Features of mean zero have `Π 1 = 0`: Proposition 1. Its proof drops `‖Π (r̂* − r_π) 1‖_D` for them,
    which is at most `‖Π 1‖_D κ ‖Xw* − q_π − c‖_D`.

    Attributes:
        applies: whether all assumptions of the proposition hold, mean zero among them.
        reason: one sentence or two.
        value_bound: bound of `inf_c ‖Xw* − q_π − c‖_D`, at the given `ξ`.
        value_error: its actual value.
        rate_bound: bound of `|r̂* − r_π|`, at the given `ξ`.
        rate_error: its actual value.
        representation_error: `inf_c ‖Π_X q − q‖_D` over `q = q_π + c`, what the features cannot express.
        projected_norm: `‖ΠPΠ‖_D`, the least `ξ` with `F ⪰ 0`.
        tight_value_bound: as `value_bound`, at the least `ξ`; it may exist where the given `ξ` is too small.
        tight_rate_bound: as `rate_bound`, at the least `ξ`.
        constant_share: `‖Π 1‖_D`, the part of a constant that features can express: 0 if they have mean zero, at most 1.
    """

    applies: bool
    reason: str
    value_bound: float | None
    value_error: float | None
    rate_bound: float | None
    rate_error: float | None
    representation_error: float
    projected_norm: float
    tight_value_bound: float | None
    tight_rate_bound: float | None
    constant_share: float


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
        self.features = checks.frozen(
            checks.float_array("features", features, ("state", "action", "feature"), shape, largest=checks.LARGEST)
        )

    def __repr__(self) -> str:
        return f"LinearProblem({self.mdp!r}, {self.num_features} features)"

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
        return _assumptions(self, xi)

    def error_bounds(self, xi: float = 0.99) -> ErrorBounds:
        """Both bounds of Proposition 1, at `ξ` and at the least one that the problem allows, beside both actual errors."""
        return _error_bounds(self, xi)


# The assumptions of the theory.


def _assumptions(problem: LinearProblem, xi: float) -> AssumptionReport:
    """Check every assumption; never raises on a problem that breaks one."""
    xi = checks.number("xi", xi, low=0.0, low_open=True, high=1.0)
    return AssumptionReport(
        (
            _chain(problem),
            _coverage(problem),
            _independent(problem),
            _non_constant(problem),
            _fixed_point(problem),
            _contraction(problem, xi),
            _zero_mean(problem),
        )
    )


def _chain(problem: LinearProblem) -> Assumption:
    """Margin: `1/‖(I − P + 1 mᵀ)⁻¹‖_∞` with uniform `m`, which falls to zero as the chain falls apart; beyond `EXACT_STATES`
    an estimate, or a lower bound from the longest expected time to the most visited state."""
    chain = problem.mdp.state_chain(problem.policy)
    classes = recurrent_classes(chain)
    size = problem.mdp.num_states
    if len(classes) > 1:
        text = f"The target policy splits the states into {len(classes)} groups that it never leaves: no single rate exists."
        return Assumption("unichain", False, 1.0 - len(classes), text)
    try:
        if size <= EXACT_STATES:
            dense = chain.toarray() if isinstance(chain, sp.csr_array) else chain
            norm = float(np.linalg.norm(np.linalg.inv(np.eye(size) - dense + 1 / size), np.inf))
            return Assumption("unichain", True, 1 / norm, _one_chain(size, classes[0]))
        solver = choose(chain, int(np.argmax(problem.exact.state_distribution)))
        if isinstance(solver, Krylov):
            margin = 1 / solver.inverse_norm
        else:
            margin = 1 / (2 + 2 * float(solver.values(np.ones(size)).max()))
    except (ToleranceError, np.linalg.LinAlgError):  # it nearly falls apart, beyond what floats can tell
        margin = 0.0
    return Assumption("unichain", True, margin, _one_chain(size, classes[0]))


def _one_chain(size: int, recurrent: NDArray[np.intp]) -> str:
    transient = size - len(recurrent)
    text = "The target policy has one long-run behavior, wherever it starts"
    return text + (f"; {transient} of {size} states are left for good." if transient else ".")


def _coverage(problem: LinearProblem) -> Assumption:
    empty = int(np.sum(problem.sampling == 0))
    smallest = float(problem.sampling.min())
    if not empty:
        text = f"Every state-action pair is sampled, the rarest with probability {smallest:.2g}."
        return Assumption("coverage", True, smallest, text)
    try:
        needed = float(problem.exact.stationary_distribution[problem.sampling == 0].sum())
        share = f"; the target policy spends {needed:.2%} of its time in them"
    except MultichainError:
        share = ""
    text = f"{empty} of {problem.sampling.size} state-action pairs are never sampled{share}."
    return Assumption("coverage", False, -empty / problem.sampling.size, text)


def _independent(problem: LinearProblem) -> Assumption:
    rank, margin = _rank(problem.X)
    if rank == problem.num_features:
        text = f"The {rank} features are linearly independent: no feature repeats what the others say."
        return Assumption("independent-columns", True, margin, text)
    text = (
        f"The features are rank-deficient (rank {rank} of {problem.num_features}): some weights are not determined, "
        "the predictions can still be."
    )
    return Assumption("independent-columns", False, (rank - problem.num_features) / problem.num_features, text)


def _non_constant(problem: LinearProblem) -> Assumption:
    """Margin: the sine of the angle between the constant and the span of the features."""
    columns = problem.X
    ones = np.ones(len(columns))
    norms = np.linalg.norm(columns, axis=0)
    scaled = columns / np.where(norms > 0, norms, 1.0)
    u, s, _ = np.linalg.svd(scaled, full_matrices=False)
    basis = u[:, s > RANK_TOLERANCE * max(s[0], 1.0)]
    sine = float(np.linalg.norm(ones - basis @ (basis.T @ ones)) / np.sqrt(len(ones)))
    full = _rank(columns)[0] == problem.num_features
    if sine <= 1e-9:
        text = (
            "The features contain the constant: values are determined up to a shift only, which Diff-GQ1's theory excludes "
            "and GradientDICE needs."
        )
        return Assumption("non-constant", False, 0.0, text)
    if not full:
        text = (
            "No combination of features is a non-zero constant, but some combination is zero (see independent-columns)."
        )
        return Assumption("non-constant", False, 0.0, text)
    return Assumption(
        "non-constant", True, sine, "No combination of features is a constant, so values are pinned down."
    )


def _fixed_point(problem: LinearProblem) -> Assumption:
    point = problem.td_fixed_point()
    if point.kind == "unique":
        text = f"There is exactly one TD fixed point; its rate is {point.reward_rate:.6g}."
        return Assumption("fixed-point", True, point.conditioning, text)
    if point.kind == "many":
        agree = (
            f"all with the rate {point.reward_rate:.6g}" if point.rate_is_unique else "and they disagree on the rate"
        )
        text = f"There are infinitely many TD fixed points, {agree}."
        return Assumption("fixed-point", True, 0.0, text)
    text = "There is no TD fixed point: the equations contradict each other; a ridge is needed."
    return Assumption("fixed-point", False, -point.residual, text)


def _contraction(problem: LinearProblem, xi: float) -> Assumption:
    norm = projected_norm(problem)
    if norm <= xi:
        text = f"One step of the target policy shrinks projected values (norm {norm:.4g} ≤ ξ = {xi:g}): error bounds apply."
    else:
        text = (
            f"One step of the target policy can stretch projected values (norm {norm:.4g} > ξ = {xi:g}): sampling is too far "
            "from the target, or values are too persistent, for the error bounds."
        )
    return Assumption("F-positive", bool(norm <= xi), xi - norm, text)


def _zero_mean(problem: LinearProblem) -> Assumption:
    size = np.sqrt(np.diag(problem.C2))
    worst = float(np.max(np.abs(problem.c) / np.where(size > 0, size, 1.0)))
    if is_centered(problem):
        return Assumption("zero-mean", True, 0.0, "All features have mean zero under sampling.")
    text = f"Features have means up to {worst:.2g} of their size under sampling: Proposition 1 needs p.centered()."
    return Assumption("zero-mean", False, -worst, text)


def _rank(columns: Array) -> tuple[int, float]:
    norms = np.linalg.norm(columns, axis=0)
    s = np.linalg.svd(columns / np.where(norms > 0, norms, 1.0), compute_uv=False)
    s = np.pad(s, (0, columns.shape[1] - len(s)))
    return int(np.sum(s > RANK_TOLERANCE * max(s[0], 1.0))), float(s[-1] / max(s[0], 1e-300))


# Proposition 1.


def _error_bounds(problem: LinearProblem, xi: float) -> ErrorBounds:
    """Evaluate both bounds at `ξ` and at the least one, and both errors."""
    xi = checks.number("xi", xi, low=0.0, low_open=True, high=1.0)
    d, q = problem.d, problem.exact.differential_values.reshape(-1)
    missing, one_missing = q - problem.project(q, problem.X), 1 - problem.project(np.ones_like(q), problem.X)
    representation = _distance(missing, one_missing, d)
    point = problem.td_fixed_point()
    value_error = rate_error = None
    if point.weights is not None and point.reward_rate is not None:
        value_error = _distance(problem.X @ point.weights - q, np.ones_like(q), d)
        rate_error = abs(point.reward_rate - problem.exact.reward_rate)
    norm, centered = projected_norm(problem), is_centered(problem)
    share = 0.0 if centered else float(np.sqrt(d @ (1 - one_missing) ** 2))
    lacks = ""
    value_bound = rate_bound = tight_value_bound = tight_rate_bound = None
    if (d == 0).any():
        lacks = "the sampling distribution must be positive for every pair"
    elif point.kind == "none":
        lacks = "there is no TD fixed point"
    elif not point.rate_is_unique or point.kind == "many":
        lacks = "features (with the constant) must be linearly independent"
    else:
        moved = problem.mdp.push_forward(problem.sampling)[:, None] * problem.policy - problem.sampling
        drift = float(np.sqrt(np.sum(moved.reshape(-1) ** 2 / d)))
        factor = (weighted_norm(problem) + 1) * representation
        if norm <= xi and xi + share * drift < 1:
            value_bound = factor / (1 - xi - share * drift)
            rate_bound = drift * value_bound
        if norm + share * drift < 1:
            tight_value_bound = factor / (1 - norm - share * drift)
            tight_rate_bound = drift * tight_value_bound
        if norm > xi:
            lacks = f"F ⪰ 0 needs ‖Π P Π‖_D ≤ ξ = {xi:g}, and it is {norm:.4g}"
    if not centered:
        lacks = "features must have mean zero under the sampling distribution; use p.centered()"
    reason = f"The proposition does not apply: {lacks}." if lacks else "All assumptions of the proposition hold."
    if not centered and value_bound is not None:
        reason += f" Looser bounds hold, with {xi + share * drift:.4g} in place of ξ."
    return ErrorBounds(
        applies=not lacks,
        reason=reason,
        value_bound=value_bound,
        value_error=value_error,
        rate_bound=rate_bound,
        rate_error=rate_error,
        representation_error=representation,
        projected_norm=norm,
        tight_value_bound=tight_value_bound,
        tight_rate_bound=tight_rate_bound,
        constant_share=share,
    )


def is_centered(problem: LinearProblem) -> bool:
    """Whether all feature means are zero to rounding."""
    return bool((np.abs(problem.c) <= CENTERED * np.sqrt(np.diag(problem.C2))).all())


def projected_norm(problem: LinearProblem) -> float:
    """`‖Π_X P Π_X‖_D`; `F ⪰ 0` exactly if it is at most `ξ`.

    With `Q` an orthonormal basis of the columns of `D^½X`, it is the largest singular value of `Qᵀ D^½ P X w`, `D^½Xw = Q`.
    """
    root = np.sqrt(problem.d)[:, None]
    scaled = root * problem.X
    columns = np.linalg.norm(scaled, axis=0)
    keep = columns > 0
    u, s, vt = np.linalg.svd(scaled[:, keep] / columns[keep], full_matrices=False)
    rank = int(np.sum(s > 1e-12 * s[0])) if s.size else 0
    if rank == 0:
        return 0.0
    to_weights = (vt[:rank].T / s[:rank]) / columns[keep][:, None]
    moved = problem.difference[:, keep] + problem.X[:, keep]
    return float(np.linalg.norm(u[:, :rank].T @ (root * moved @ to_weights), 2))


def weighted_norm(problem: LinearProblem) -> float:
    """`‖P‖_D = ‖D^½ P D^{−½}‖₂`."""
    root = np.sqrt(problem.d)
    shape = problem.policy.shape

    def forward(v: Array) -> Array:
        return root * problem.apply_chain(v.ravel() / root)

    def backward(v: Array) -> Array:
        by_state = problem.mdp.push_forward((root * v.ravel()).reshape(shape))
        return (by_state[:, None] * problem.policy).reshape(-1) / root

    size = len(root)
    if size <= 300:
        return float(np.linalg.norm(np.column_stack([forward(e) for e in np.eye(size)]), 2))
    operator = LinearOperator((size, size), matvec=forward, rmatvec=backward, dtype=np.float64)
    return float(svds(operator, k=1, v0=root, return_singular_vectors=False, tol=1e-10)[0])


def _distance(vector: Array, direction: Array, d: Array) -> float:
    """`inf_c ‖vector + c·direction‖_D`."""
    length = float(np.sum(d * direction**2))
    c = -float(np.sum(d * direction * vector)) / length if length > 1e-20 else 0.0
    return float(np.sqrt(np.sum(d * (vector + c * direction) ** 2)))
