"""What could be wrong with a learned estimate."""

from typing import TYPE_CHECKING

import numpy as np

from cesaro.estimators.diagnostics import Diagnostic

if TYPE_CHECKING:
    from cesaro.estimators.learned import Learned


def findings(estimator: "Learned") -> tuple[Diagnostic, ...]:
    """Did it move from its start, did runs diverge, is the step stable?"""
    return _moved(estimator), diverged(estimator), _step(estimator)


def _moved(est: "Learned") -> Diagnostic:
    """The rate starts at zero."""
    value = est.reward_rate_
    spreads = abs(value) / est.spread_ if est.spread_ > 0 else float("nan")
    times = est.steps_ / est.time_constant_
    beside = f", {spreads:.3g} times its spread over seeds" if np.isfinite(spreads) else ""
    slowest = f" ({times:.2g} time constants of its slowest direction)" if np.isfinite(times) else ""
    said = f"After {est.steps_:,} steps{slowest} the rate has moved from 0 to {value:.4g}{beside}"
    name, measure = "moved from its start", spreads if np.isfinite(spreads) else None
    if not np.isfinite(est.limit_):
        return Diagnostic(
            name,
            measure,
            "ok" if spreads > 10 else "caution",
            f"{said}; its limit is not known.",
            "Compare with DiffLSTD.",
        )
    said = f"{said}; its limit is {est.limit_:.4g}."
    if est.reached_:
        return Diagnostic(name, measure, "ok", said)
    half_way = abs(value - est.limit_) <= 0.5 * abs(est.limit_)
    needed = "" if est.steps_needed_ is None else f" ({2 * est.steps_needed_:,} would do)"
    remedy = f"Take more steps{needed}, a larger ridge, fewer features, or DiffLSTD."
    return Diagnostic(name, measure, "caution" if half_way else "bad", said, remedy)


def diverged(est: "Learned") -> Diagnostic:
    lost = int(est.diverged_.sum())
    if not lost:
        return Diagnostic("diverged runs", 0.0, "ok", f"None of {est.seeds} runs diverged.")
    first = int(est.diverged_at_[est.diverged_].min())
    return Diagnostic(
        "diverged runs",
        float(lost),
        "bad" if 2 * lost >= est.seeds else "caution",
        f"{lost} of {est.seeds} runs diverged, the first at step {first:,}.",
        f"Take a step size below {est.step_size_:.3g}.",
    )


def _step(est: "Learned") -> Diagnostic:
    limit = est.plug_in_.max_step_sampled
    if limit is None:
        return Diagnostic("step size", est.step_size_, "caution", "No step size is known to be stable here.")
    share = est.step_size_ / limit
    said = f"The step size {est.step_size_:.3g} is {share:.3g} times the largest stable one, {limit:.3g}. {est.plug_in_.note}"
    if share <= 1:
        return Diagnostic("step size", est.step_size_, "ok", said)
    return Diagnostic("step size", est.step_size_, "caution", said, f"Take a step size of at most {limit:.3g}.")
