"""The assumptions of the theory, each with whether it holds, by how much, and what that means in practice."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cesaro import checks
from cesaro.errors import InputError, MultichainError, ToleranceError
from cesaro.linear.error_bounds import is_centered, projected_norm
from cesaro.linear.fixed_point import RANK_TOLERANCE
from cesaro.linear.tabular import TabularSystem
from cesaro.mdp import recurrent_classes
from cesaro.solvers import Krylov, choose

# Up to this many states the margin of the chain is computed exactly.
EXACT_STATES = 2_000


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


def assumptions(problem: TabularSystem, xi: float) -> AssumptionReport:
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


def _chain(problem: TabularSystem) -> Assumption:
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


def _coverage(problem: TabularSystem) -> Assumption:
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


def _independent(problem: TabularSystem) -> Assumption:
    rank, margin = _rank(problem.X)
    if rank == problem.num_features:
        text = f"The {rank} features are linearly independent: no feature repeats what the others say."
        return Assumption("independent-columns", True, margin, text)
    text = (
        f"The features are rank-deficient (rank {rank} of {problem.num_features}): some weights are not determined, "
        "the predictions can still be."
    )
    return Assumption("independent-columns", False, (rank - problem.num_features) / problem.num_features, text)


def _non_constant(problem: TabularSystem) -> Assumption:
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


def _fixed_point(problem: TabularSystem) -> Assumption:
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


def _contraction(problem: TabularSystem, xi: float) -> Assumption:
    norm = projected_norm(problem)
    if norm <= xi:
        text = f"One step of the target policy shrinks projected values (norm {norm:.4g} ≤ ξ = {xi:g}): error bounds apply."
    else:
        text = (
            f"One step of the target policy can stretch projected values (norm {norm:.4g} > ξ = {xi:g}): sampling is too far "
            "from the target, or values are too persistent, for the error bounds."
        )
    return Assumption("F-positive", bool(norm <= xi), xi - norm, text)


def _zero_mean(problem: TabularSystem) -> Assumption:
    size = np.sqrt(np.diag(problem.C2))
    worst = float(np.max(np.abs(problem.c) / np.where(size > 0, size, 1.0)))
    if is_centered(problem):
        return Assumption("zero-mean", True, 0.0, "All features have mean zero under sampling.")
    text = f"Features have means up to {worst:.2g} of their size under sampling: Proposition 1 needs p.centered()."
    return Assumption("zero-mean", False, -worst, text)


def _rank(columns: "checks.Array") -> tuple[int, float]:
    norms = np.linalg.norm(columns, axis=0)
    s = np.linalg.svd(columns / np.where(norms > 0, norms, 1.0), compute_uv=False)
    s = np.pad(s, (0, columns.shape[1] - len(s)))
    return int(np.sum(s > RANK_TOLERANCE * max(s[0], 1.0))), float(s[-1] / max(s[0], 1e-300))
