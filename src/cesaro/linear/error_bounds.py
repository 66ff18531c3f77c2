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


def error_bounds(problem: TabularSystem, xi: float) -> ErrorBounds:
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
