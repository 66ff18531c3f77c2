"""A fit of `Learned` with linear functions: step size, steps, the limit on all rows, and what the seeds ended at."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import checks
from cesaro.checks import Array
from cesaro.data import FeatureTransitions
from cesaro.errors import EvaluationWarning, InputError
from cesaro.estimators.facts import Plan
from cesaro.estimators.gathering import Gathering
from cesaro.estimators.influence import Estimate
from cesaro.estimators.learned.base import LearnedBase, report_divergence, seed_numbers, spread_over_runs
from cesaro.estimators.learned.limit import LogProblem, MethodLimit, MethodPass
from cesaro.estimators.learned.rows import (
    DRAWN_FROM,
    buffered,
    check_identified,
    check_size,
    default_ridge,
    dense,
    is_dense,
    sampled,
)
from cesaro.estimators.learned.settings import Settings
from cesaro.estimators.passes import Running, run_pass
from cesaro.estimators.pipeline import Prepared
from cesaro.estimators.plug_in import PlugIn, plug_in, problem_of
from cesaro.estimators.series import InfluencePass
from cesaro.features import OneHot
from cesaro.learning import sweep
from cesaro.learning.feed import Feed
from cesaro.linear import EmpiricalProblem
from cesaro.linear.mean_update import MeanUpdate

# Up to this many features the mean update is analyzed and the standard error computed.
MAX_ANALYZED = 1_024
# Rows whose single updates are looked at; everything else about the limit is known from all of them.
MOST_SAMPLED = 20_000
# Fourier features by default: with many that nearly depend on each other, learned methods do not reach their limits.
MOST_AUTO = 64
# `step_size="auto"` is this share of the largest stable step.
SHARE_OF_LIMIT = 0.5
# The rate itself forgets as 1 − α does, whatever the features are.
LARGEST_STEP = 1.0
# The start counts as forgotten once the expected rate is this share of the standard error from its limit.
FORGOTTEN = 0.1
# Fewest and most steps of `steps="auto"`; in between they double. The second half of a run is averaged.
FEWEST_STEPS, MOST_STEPS = 25_600, 204_800
# Records of a run: at least as many, at most twice.
RECORDS = 100
# Squarings of the expected update: up to 2³⁴ steps, up to 2¹⁸ where there are many variables.
SQUARINGS, FEW_SQUARINGS, MANY_VARIABLES = 34, 18, 600


@dataclass(frozen=True)
class Runs:
    """What the seeds ended at.

    Attributes:
        rates: mean rate over the second half of each run, `[seeds]`; NaN where it diverged.
        weights: mean weights over the second half, then over seeds, `[K]`.
        diverged_at: the step at which a run diverged, `[seeds]`; −1 where it did not.
        steps: of each run.
    """

    rates: Array
    weights: Array
    diverged_at: NDArray[np.int64]
    steps: int


def fit_linear(est: LearnedBase, data: Any, policy: Any, settings: Settings) -> None:
    """Analyze the method on the log, run all seeds, and set what `fit` leaves on the estimator."""
    prepared = Prepared(
        data,
        policy,
        features=est.features,
        dual_features="same",
        draws=checks.count("draws", est.draws, high=checks.MOST_DRAWS),
        random_state=checks.count("random_state", est.random_state, low=0),
        most=MOST_AUTO,
        quiet=est.quiet,
    )
    running = est._running()
    if prepared.is_logged:
        est._fit_logged(est._begin(prepared), running)
        return
    check_size(prepared)
    is_analyzed = prepared.num_features <= MAX_ANALYZED
    gathered = run_pass(Gathering(is_analyzed or isinstance(prepared.map, OneHot)), prepared, running)
    plan = est._begin(prepared, gathered.facts)
    est.batch_size_ = settings.batch_size
    sample = data if isinstance(data, FeatureTransitions) else sampled(prepared, MOST_SAMPLED)
    problem = LogProblem(sample, gathered.moments) if gathered.moments.rows else problem_of(sample)
    est.ridge_ = default_ridge(problem, prepared) if isinstance(est.ridge, str) else float(est.ridge)
    est.plug_in_ = _analyze(est, problem, prepared)
    est.step_size_ = _step_size(est)
    est.time_constant_ = est.plug_in_.time_constant(est.step_size_)
    limit = _limit(est, problem, plan, running)
    automatic = automatic_steps(est.steps_needed_, prepared.num_rows, est.seeds)
    runs = run(
        _rows(est, data, settings),
        est.method,
        step_size=est.step_size_,
        ridge=est.ridge_,
        lam=est.lam,
        steps=automatic if isinstance(est.steps, str) else est.steps,
        batch_size=settings.batch_size,
        seeds=est.seeds,
        random_state=est.random_state,
        approximator=str(est.approximator),
        dtype=settings.dtype,
        checkpoint=settings.checkpoint,
        quiet=est.quiet,
    )
    _conclude(est, problem, runs, limit)
    est._summary = _used(est, settings)
    est._end()


def _rows(est: LearnedBase, data: Any, settings: Settings) -> FeatureTransitions | Feed:
    """What runs draw from."""
    if isinstance(data, FeatureTransitions):
        return data
    est.is_buffered_ = not is_dense(est.prepared_)
    if est.is_buffered_:
        return buffered(est.prepared_, est.facts_, settings.dtype)
    return dense(est.prepared_)


def _limit(
    est: LearnedBase, problem: EmpiricalProblem, plan: Plan, running: Running
) -> tuple[MethodLimit, Estimate] | None:
    """Where runs tend to on all rows, and the steps that they need; None where that is not computed."""
    found, est.steps_needed_ = est.plug_in_.stability, None
    if found is None:
        est._count(run_pass(InfluencePass(plan, None), est.prepared_, running))
        return None
    limit = MethodLimit.of(problem, found, ridge=est.ridge_, lam=est.lam)
    if not np.isfinite(limit.reward_rate):
        raise InputError("The limit of the method overflowed; scale rewards and features to moderate numbers.")
    totals = run_pass(MethodPass(plan, limit), est.prepared_, running)
    est._count(totals)
    estimate = est.sampling_.estimate(limit.reward_rate + totals.correction, totals.influence)
    tolerance = max(FORGOTTEN * estimate.standard_error, 1e-6 * abs(limit.reward_rate))
    est.steps_needed_ = steps_needed(found.mean, est.step_size_, -limit.point, tolerance)
    return limit, estimate


def _analyze(est: LearnedBase, problem: EmpiricalProblem, prepared: Prepared) -> PlugIn:
    """Convergence and steps on the rows; raises where the method has no answer here."""
    found = plug_in(
        problem,
        est.method,
        ridge=est.ridge_,
        lam=est.lam,
        batch_size=est.batch_size_,
        max_rows=len(problem.r),
        max_features=MAX_ANALYZED,
    )
    if found.stability is None:
        warnings.warn(
            f"With more than {MAX_ANALYZED:,} features neither convergence nor standard errors of a learned method are "
            "computed; DiffLSTD gives them.",
            EvaluationWarning,
            stacklevel=3,
        )
        return found
    check_identified(problem, prepared, est.ridge)
    if not found.converges:
        raise InputError(
            f"{est.method} does not converge on this log: {found.reason.rstrip('.')}; take diff-gq1 or diff-gq2, which "
            "converge on every log, or the closed form (DiffLSTD)."
        )
    if not found.stability.determined["reward_rate"]:
        raise InputError(
            f"The rate that {est.method} ends at depends on its start, because several rates solve its equations here; "
            f"take {'ridge > 0' if est.ridge_ == 0 else 'fewer features'}, or another method."
        )
    return found


def _step_size(est: LearnedBase) -> float:
    if not isinstance(est.step_size, str):
        return float(est.step_size)
    limit = est.plug_in_.max_step_sampled
    if limit is None:
        raise InputError(f"{est.method} has no stable step on this log; give step_size a number.")
    return SHARE_OF_LIMIT * min(limit, LARGEST_STEP)


def _conclude(
    est: LearnedBase, problem: EmpiricalProblem, runs: Runs, limit: tuple[MethodLimit, Estimate] | None
) -> None:
    """The answer from runs that did not diverge, with what is known of the limit."""
    est.steps_, est.seed_rates_ = runs.steps, runs.rates
    est.diverged_at_, est.diverged_ = runs.diverged_at, runs.diverged_at >= 0
    report_divergence(est, _why(est))
    kept = est.seed_rates_[~est.diverged_]
    value = float(np.median(kept))
    est.spread_, noise = spread_over_runs(kept)
    weights = None if est.method == "gradient-dice" else runs.weights
    if weights is None:
        est.ratio_weights_ = runs.weights
    else:
        est.weights_ = weights
    est.limit_, est.reached_ = float("nan"), False
    est.learning_error_ = noise
    est._known = problem.c > 0 if isinstance(est._map, OneHot) else None
    if limit is None:
        est.estimate_ = Estimate(value, float("nan"), 1.0)
        est.level_ = 0.0 if weights is None else float(problem.c @ weights)
        return
    found, at_limit = limit
    est.limit_, est.level_ = at_limit.value, 0.0 if weights is None else float(found.level @ weights)
    est.reached_ = est.steps_needed_ is not None and 2 * est.steps_needed_ <= est.steps_
    if not est.reached_:
        est.learning_error_ = float(np.hypot(noise, value - est.limit_))
        _warn_unreached(est, value)
    elif est.is_buffered_:  # what all runs drew from is no part of the spread over them
        est.learning_error_ = max(noise, abs(value - est.limit_))
    est.estimate_ = _together(value, at_limit, est.learning_error_, len(kept))


def _together(value: float, at_limit: Estimate, learning: float, runs: int) -> Estimate:
    """Both errors, with Welch's degrees of freedom."""
    one, other = at_limit.standard_error**2, learning**2
    total = one + other
    if other == 0 or not np.isfinite(total):
        return Estimate(value, float(np.sqrt(total)), at_limit.degrees_of_freedom)
    # Relative to the total, so that no square underflows.
    freedom = 1 / ((one / total) ** 2 / at_limit.degrees_of_freedom + (other / total) ** 2 / max(1, runs - 1))
    return Estimate(value, float(np.sqrt(total)), float(freedom))


def _used(est: LearnedBase, settings: Settings) -> dict[str, Any]:
    return {
        "method": f"{est.method} (learned, {est.approximator})",
        "features": est.features_,
        "ridge": est.ridge_,
        **({"lam": est.lam} if est.method == "gradient-dice" else {}),
        "step_size": est.step_size_,
        "steps": est.steps_,
        "batch_size": settings.batch_size,
        "seeds": est.seeds,
        "dtype": settings.dtype,
        **({"drawn_from": DRAWN_FROM} if est.is_buffered_ else {}),
        "standard_errors": est._sampling_words(),
        **({"draws": est.draws} if est.prepared_.draws_are_used else {}),
        "random_state": est.random_state,
    }


def _why(est: LearnedBase) -> str:
    """The cause of divergence at a constant step."""
    limit = est.plug_in_.max_step_sampled
    if limit is not None and est.step_size_ > limit:
        return f"the step size {est.step_size_:.3g} is above the largest stable one, {limit:.3g}"
    return f"the step size {est.step_size_:.3g} is too large for the longest feature vectors"


def _warn_unreached(est: LearnedBase, value: float) -> None:
    # Where the rate's own need is beyond what was computed, that of the slowest direction is an upper bound.
    bound = 20 * est.time_constant_
    needed = f"up to {bound:.1g}" if est.steps_needed_ is None else f"about {2 * est.steps_needed_:,}"
    where = f"rate {value:.4g}, limit {est.limit_:.4g}, which the standard error includes"
    warnings.warn(
        f"{est.method} has not reached its limit after {est.steps_:,} steps ({where}): it would need {needed} at step "
        f"size {est.step_size_:.3g}, where its slowest direction has a time constant of {est.time_constant_:.3g} steps; "
        "take more steps, a larger ridge, fewer features, or DiffLSTD.",
        EvaluationWarning,
        stacklevel=5,
    )


def steps_needed(mean: MeanUpdate, step_size: float, gap: Array, tolerance: float) -> int | None:
    """Steps after which the expected rate is within `tolerance` of its limit, as a power of two; None: more than can be said.

    The expected update is affine, so that after `N` steps a gap `κ − κ*` has become `(I + αG)^N` times it, exactly.
    """
    power = np.eye(mean.layout.size) + step_size * mean.G
    inside = 0
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range((FEW_SQUARINGS if len(power) > MANY_VARIABLES else SQUARINGS) + 1):
            left = abs(float(power[mean.layout.rate] @ gap))
            inside = inside + 1 if left <= tolerance else 0
            if inside == 2:  # twice, because an oscillation may pass through zero
                return int(2 ** (k - 1))
            if not np.isfinite(left):
                return None
            power = power @ power
    return None


def automatic_steps(needed: int | None, num_rows: int, seeds: int) -> int:
    """The start is forgotten well within half of them, and all seeds draw as many samples as there are rows, if affordable."""
    steps = FEWEST_STEPS
    while steps < MOST_STEPS and (needed is None or steps < 4 * needed or steps * seeds < 2 * num_rows):
        steps *= 2
    return steps


def run(
    data: FeatureTransitions | Feed,
    method: str,
    *,
    step_size: float,
    ridge: float,
    lam: float,
    steps: int,
    batch_size: int,
    seeds: int,
    random_state: int,
    approximator: str,
    dtype: str,
    checkpoint: Path | None = None,
    quiet: bool,
) -> Runs:
    """All seeds side by side."""
    # Powers of two, so that the compiled program cuts them into even blocks.
    per_record = 2 ** max(0, int(np.log2(max(1.0, steps / RECORDS))))
    records = -(-steps // per_record)
    per_step = batch_size * (2 if method == "diff-gq2" else 1)
    setting = {"step_size": step_size, "ridge": ridge} | ({"lam": lam} if method == "gradient-dice" else {})
    if per_step * records * per_record >= 2**31:
        raise InputError(f"steps × batch_size must be below 2³¹ samples. Got {steps} × {per_step}; take fewer steps.")
    result = sweep(
        method,
        data,
        settings=[setting],
        seeds=seed_numbers(random_state, seeds),
        budget=records * per_record * per_step,
        record_every=per_record * per_step,
        window=per_record * per_step,
        record=("weights",),
        batch_size=batch_size,
        approximator=approximator,
        dtype=dtype,
        checkpoint=checkpoint,
        quiet=quiet,
    )
    tail = slice(records // 2, None)
    diverged_at = result.diverged_at[0]
    kept = diverged_at < 0
    rates = np.where(kept, result.reward_rate[0][:, tail].mean(axis=1), np.nan)
    weights = result.records["weights"][0]
    weights = weights[kept][:, tail].mean(axis=(0, 1)) if kept.any() else np.zeros(weights.shape[-1])
    return Runs(rates, weights, np.where(kept, -1, diverged_at // per_step), records * per_record)
