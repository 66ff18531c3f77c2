"""Proposition 1: how far a TD fixed point can be from the truth, beside how far it is."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, svds

from cesaro import checks
from cesaro.checks import Array
from cesaro.linear.tabular import TabularSystem

# Feature means up to this share of the feature's root mean square count as zero.
CENTERED = 1e-9


@dataclass(frozen=True)
class ErrorBounds:
    """Bounds and errors of the TD fixed point; bounds are None where the proposition does not apply, errors where no
    fixed point exists.

    Attributes:
        applies: whether all assumptions of the proposition hold.
        reason: one sentence.
        value_bound: bound of `inf_c ‖Xw* − q_π − c‖_D`.
        value_error: its actual value.
        rate_bound: bound of `|r̂* − r_π|`.
        rate_error: its actual value.
        representation_error: `inf_c ‖Π_X q − q‖_D` over `q = q_π + c`, what the features cannot express.
    """

    applies: bool
    reason: str
    value_bound: float | None
    value_error: float | None
    rate_bound: float | None
    rate_error: float | None
    representation_error: float


def error_bounds(problem: TabularSystem, xi: float) -> ErrorBounds:
    """Evaluate both bounds at `ξ` and both errors."""
    xi = checks.number("xi", xi, low=0.0, low_open=True, high=1.0)
    d, q = problem.d, problem.exact.differential_values.reshape(-1)
    missing, one_missing = q - problem.project(q, problem.X), 1 - problem.project(np.ones_like(q), problem.X)
    representation = _distance(missing, one_missing, d)
    point = problem.td_fixed_point()
    value_error = rate_error = None
    if point.weights is not None and point.reward_rate is not None:
        value_error = _distance(problem.X @ point.weights - q, np.ones_like(q), d)
        rate_error = abs(point.reward_rate - problem.exact.reward_rate)
    norm = projected_norm(problem)
    if not is_centered(problem):
        reason = "The proposition does not apply: features must have mean zero under the sampling distribution; use p.centered()."
    elif (d == 0).any():
        reason = "The proposition does not apply: the sampling distribution must be positive for every pair."
    elif point.kind == "none":
        reason = "The proposition does not apply: there is no TD fixed point."
    elif not point.rate_is_unique or point.kind == "many":
        reason = "The proposition does not apply: features (with the constant) must be linearly independent."
    elif norm > xi:
        reason = f"The proposition does not apply: F ⪰ 0 needs ‖Π P Π‖_D ≤ ξ = {xi:g}, and it is {norm:.4g}."
    else:
        chain_norm = weighted_norm(problem)
        drift = problem.mdp.push_forward(problem.sampling)[:, None] * problem.policy - problem.sampling
        value_bound = (chain_norm + 1) / (1 - xi) * representation
        rate_bound = float(np.sqrt(np.sum(drift.reshape(-1) ** 2 / d))) * value_bound
        reason = "All assumptions of the proposition hold."
        return ErrorBounds(True, reason, value_bound, value_error, rate_bound, rate_error, representation)
    return ErrorBounds(False, reason, None, value_error, None, rate_error, representation)


def is_centered(problem: TabularSystem) -> bool:
    """Whether all feature means are zero to rounding."""
    return bool((np.abs(problem.c) <= CENTERED * np.sqrt(np.diag(problem.C2))).all())


def projected_norm(problem: TabularSystem) -> float:
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


def weighted_norm(problem: TabularSystem) -> float:
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
