"""What a fit of `Learned` says of its runs at once: which diverged, and whether the others got anywhere."""

import warnings
from typing import TYPE_CHECKING

import numpy as np

from cesaro.errors import EvaluationWarning, InputError

if TYPE_CHECKING:
    from cesaro.estimators.learned import Learned


def report_divergence(est: "Learned", why: str, remedy: str = "take a smaller step_size") -> None:
    """Raises where no run is left; warns where some are."""
    lost = np.flatnonzero(est.diverged_)
    if not len(lost):
        return
    where = ", ".join(f"run {i + 1} at step {est.diverged_at_[i]:,}" for i in lost[:3])
    where += ", …" if len(lost) > 3 else ""
    said = f"{len(lost)} of {est.seeds} runs of {est.method} diverged ({where}), because {why}; {remedy}."
    if len(lost) == est.seeds:
        raise InputError(said)
    warnings.warn(f"{said[:-1]}, or rely on the others, as this answer does.", EvaluationWarning, stacklevel=5)


def why_linear(est: "Learned") -> str:
    """The cause of divergence at a constant step."""
    limit = est.plug_in_.max_step_sampled
    if limit is not None and est.step_size_ > limit:
        return f"the step size {est.step_size_:.3g} is above the largest stable one, {limit:.3g}"
    return f"the step size {est.step_size_:.3g} is too large for the longest feature vectors"


def warn_unreached(est: "Learned", value: float) -> None:
    # Where the rate's own need is beyond what was computed, that of the slowest direction is an upper bound.
    bound = 20 * est.time_constant_
    needed = f"up to {bound:.1g}" if est.steps_needed_ is None else f"about {2 * est.steps_needed_:,}"
    where = f"rate {value:.4g}, limit {est.limit_:.4g}, which the standard error counts in"
    warnings.warn(
        f"{est.method} has not reached its limit after {est.steps_:,} steps ({where}): it would need {needed} at step "
        f"size {est.step_size_:.3g}, where its slowest direction has a time constant of {est.time_constant_:.3g} steps; "
        "take more steps, a larger ridge, fewer features, or DiffLSTD.",
        EvaluationWarning,
        stacklevel=5,
    )
