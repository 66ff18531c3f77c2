"""Would a learned method converge on this log, how fast, and with which steps? The analysis of `LinearProblem`, on its rows."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import checks
from cesaro.checks import Array
from cesaro.linear import EmpiricalProblem, Stability
from cesaro.linear.methods import AffineForm, form_of
from cesaro.linear.methods.base import settings
from cesaro.linear.stability import stability

MAX_ROWS = 100_000
# Above this many features nothing is computed unless asked for: eigenvalues cost the cube of it.
MAX_FEATURES = 256
# Of the sampled limit, and rows whose lengths give a rough one.
ACCURACY, ROUGH_ROWS = 0.02, 20_000


@dataclass(frozen=True)
class PlugIn:
    """The long-run behavior of one method on the empirical distribution of a log.

    Attributes:
        method: its name.
        converges: whether its expected update converges for small steps; None: not computed.
        reason: one sentence that says why.
        eigenvalues: of the mean update; empty where not computed.
        max_step_expected: largest constant step of the expected update; None if there is none, or not computed.
        max_step_sampled: largest constant step at which the sampled update stays bounded in mean square; None if there is none.
        note: what the numbers rest on.
        stability: the whole analysis; None where not computed.
    """

    method: str
    converges: bool | None
    reason: str
    eigenvalues: NDArray[np.complex128]
    max_step_expected: float | None
    max_step_sampled: float | None
    note: str
    stability: Stability | None = field(repr=False)

    def time_constant(self, step_size: float) -> float:
        """Updates after which the slowest determined direction has shrunk by `e`; infinite without convergence, NaN unknown."""
        return float("nan") if self.stability is None else self.stability.time_constant(step_size)


def plug_in(
    rows: Any,
    method: str | AffineForm,
    *,
    ridge: float = 0.0,
    lam: float = 1.0,
    batch_size: int = 1,
    max_rows: int = MAX_ROWS,
    max_features: int = MAX_FEATURES,
) -> PlugIn:
    """Analyze a method on `rows` with `x`, `rewards`, `x_next` and `weights` (`FeatureTransitions`), or an `EmpiricalProblem`.

    Example:
        >>> import numpy as np, cesaro as cs
        >>> from cesaro.closed_forms.plug_in import plug_in
        >>> x = np.random.default_rng(0).normal(size=(1000, 2))
        >>> plug_in(cs.FeatureTransitions(x, x[:, 0], 0.5 * x), "diff-gq1").converges
        True
    """
    form, chosen = form_of(method), settings(ridge, lam, 1.0, batch_size)
    whole = rows if isinstance(rows, EmpiricalProblem) else problem_of(rows)
    sampled_rows = form.sampled_rows(whole.num_features)
    problem = whole.thinned(checks.count("max_rows", max_rows))
    used = f"{problem.num_samples:,} of {whole.num_samples:,} rows" if problem is not whole else "all rows"
    if problem.num_features > max_features:
        reason = f"Eigenvalues are not computed above {max_features} features."
        note = f"From {used}; the step is a rough value from the lengths of feature vectors."
        nothing = np.zeros(0, dtype=np.complex128)
        return PlugIn(form.name, None, reason, nothing, None, rough_step(problem, chosen.lam), note, None)
    few = problem.thinned(max(1, sampled_rows))
    found = stability(
        problem,
        form,
        ridge=chosen.ridge,
        lam=chosen.lam,
        batch_size=batch_size,
        sampled=few,
        tolerance=ACCURACY,
    )
    if not found.converges:
        step, note = None, f"From {used}."
    elif sampled_rows == 0:
        step = min(rough_step(problem, chosen.lam), found.max_step_expected or np.inf)
        note = f"From {used}; the sampled limit is a rough value from the lengths of feature vectors."
    else:
        step = found.max_step_sampled
        if step is None:  # the few rows alone do not converge
            step = min(rough_step(problem, chosen.lam), found.max_step_expected or np.inf)
        note = f"From {used}; the sampled limit from {few.num_samples:,} of them."
    return PlugIn(
        form.name, found.converges, found.reason, found.eigenvalues, found.max_step_expected, step, note, found
    )


def problem_of(rows: Any) -> EmpiricalProblem:
    """Rows as a problem of their own."""
    x, x_next, rewards = (np.asarray(part, dtype=np.float64) for part in (rows.x, rows.x_next, rows.rewards))
    weights: Array | None = rows.weights
    return EmpiricalProblem(x, rewards, x_next, weights)


def rough_step(problem: EmpiricalProblem, lam: float = 1.0) -> float:
    """`E[s]/E[s²]` with `s = 1 + λ² + ‖x‖² + 2‖x' − x‖²`, which bounds the size of one update's matrix up to a factor."""
    x, change, _, probability = problem.thinned(ROUGH_ROWS).samples
    size = 1 + lam**2 + np.einsum("nk,nk->n", x, x) + 2 * np.einsum("nk,nk->n", change, change)
    largest = size.max()
    return float((probability @ (size / largest)) / (probability @ (size / largest) ** 2) / largest)
