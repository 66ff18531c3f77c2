"""A fit of `Learned` with linear functions: step size, steps, the limit on all rows, and what the seeds ended at."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cesaro import checks
from cesaro.algorithms.dynamics import NoDynamicsError
from cesaro.checks import Array
from cesaro.closed_forms.plug_in import PlugIn, plug_in, problem_of
from cesaro.data import FeatureTransitions
from cesaro.diagnostics.subject import Runs
from cesaro.errors import EvaluationWarning, InputError
from cesaro.estimators.learned.base import (
    LearnedBase,
    LearnedSettings,
    report_divergence,
    seed_numbers,
    spread_over_runs,
)
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
from cesaro.features import OneHot
from cesaro.learning import affine_form, sweep
from cesaro.learning.arguments import as_objective
from cesaro.learning.source import Feed
from cesaro.linear import EmpiricalProblem
from cesaro.linear.methods import ALWAYS_CONVERGE, AffineForm, LimitPoint
from cesaro.linear.methods.base import MeanUpdate
from cesaro.linear.stability import limit_point
from cesaro.linear.system import LinearSystem
from cesaro.passes.influence import Influence, InfluencePass, Parts, Plan, Series
from cesaro.passes.moments import Moments, MomentsPass
from cesaro.passes.prepare import FeatureRows, Prepared, Rows
from cesaro.passes.run import Running, run_pass
from cesaro.passes.standard_errors import Estimate

# Up to this many features the mean update is analyzed and the standard error computed.
MAX_ANALYZED = 1_024
# The same of a method without a closed form, whose step is evaluated once per row and variable.
MAX_EVALUATED = 100
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


class LogProblem(EmpiricalProblem):
    """A whole log as a distribution of its own: expectations are those of all rows, from their moments; single rows are those
    of a sample.

    Args:
        sample: some rows.
        moments: of all rows, with the features as their own dual.
    """

    def __init__(self, sample: FeatureTransitions, moments: Moments) -> None:
        super().__init__(sample.x, sample.rewards, sample.x_next, sample.weights)
        self._moments = moments

    def _mean(self, name: str) -> Array:
        mean = self._moments.mean(name)
        return np.asarray(mean.toarray() if isinstance(mean, sp.sparray) else mean)

    @cached_property
    def B(self) -> Array:
        return self._mean("vz")

    @cached_property
    def c(self) -> Array:
        return self._mean("v")

    @cached_property
    def g(self) -> Array:
        return self._mean("z")

    @cached_property
    def C2(self) -> Array:
        return self._mean("vv")

    @cached_property
    def b3(self) -> Array:
        return self._mean("vR")

    @cached_property
    def squares(self) -> Array:
        return self._mean("xx")

    @property
    def mean_reward(self) -> float:
        return float(self._moments.mean("R"))

    @cached_property
    def A2(self) -> Array:
        return self.B - np.outer(self.c, self.g)

    @cached_property
    def b2(self) -> Array:
        return self.b3 - self.c * self.mean_reward


@dataclass(frozen=True)
class MethodLimit:
    """Where a method ends on the rows of a log.

    Attributes:
        form: of the method.
        at: the limit, and what turns the update of a row into its influence on the rate.
        level: the mean of the features under the target, as the limit implies it, `[K]`; zero for a method without values.
    """

    form: AffineForm
    at: LimitPoint
    level: Array

    @staticmethod
    def of(problem: LinearSystem, form: AffineForm, at: LimitPoint) -> "MethodLimit":
        """The limit of a method that has the influence of rows in closed form."""
        return MethodLimit(form, at, form.level(at, problem))

    def series(self, rows: FeatureRows, per_weight: float = 1.0) -> Series:
        """Influence, density ratio (what the method multiplies TD errors with) and TD errors of some rows.

        `per_weight`: rows per unit of weight, in the whole log.
        """
        x = rows.x
        z = sp.csr_array(rows.x_next - x) if isinstance(x, sp.csr_array) else np.subtract(rows.x_next, x, dtype=float)
        found = Series(*self.form.influence(self.at, x, z, rows.rewards))
        if rows.weights is None:
            return found
        return found._replace(influence=found.influence * (rows.weights * per_weight))


@dataclass(frozen=True)
class MethodPass(InfluencePass):
    """The second pass for a learned method: the influence of every row on its limit. Levels are known from moments."""

    solution: Any  # a MethodLimit

    def of_piece(self, prepared: Prepared, part: Rows, number: int) -> list[Parts]:
        rows = prepared.features_of(part, piece=number)
        return [Influence(self.solution.series(rows, self._per_weight), 0.0)]


@dataclass(frozen=True)
class LinearEnds:
    """The ends of the runs of all seeds.

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


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """A method on a log before it runs.

    Attributes:
        ridge, step_size: what is used.
        plug_in: convergence and stable steps.
        level: the mean of the features under the target, `[K]`; under the log where that is not known.
        limit: where runs tend to on all rows (on sampled ones without a closed form); None where that is not computed.
        at_limit: the estimate there; None where the influence of rows is not known.
        steps_needed: by the rate; None where that is not known.
    """

    ridge: float
    step_size: float
    plug_in: PlugIn
    level: Array
    limit: float | None = None
    at_limit: Estimate | None = None
    steps_needed: int | None = None

    @property
    def time_constant(self) -> float:
        """The time constant of the slowest direction, in steps."""
        return self.plug_in.time_constant(self.step_size)


def fit_linear(est: LearnedBase, data: Any, policy: Any, settings: LearnedSettings) -> None:
    """Analyze the method on the log, run all seeds, and keep what they leave."""
    prepared = Prepared(
        data,
        policy,
        features=est.features,
        dual_features="same",
        draws=checks.count("draws", est.draws, high=checks.MOST_DRAWS),
        random_state=checks.count("random_state", est.random_state, low=0),
        most=MOST_AUTO,
        quiet=settings.run.quiet,
    )
    running = settings.running
    if prepared.is_logged:
        est._fit_logged(est._begin(prepared), running)
        return
    check_size(prepared)
    form = affine_form(settings.method)
    form.layout(prepared.num_features)  # raises where the objective keeps its function elsewhere
    most = MAX_ANALYZED if form.has_influence else MAX_EVALUATED
    moments = run_pass(
        MomentsPass(prepared.num_features <= most or isinstance(prepared.map, OneHot)), prepared, running
    )
    plan = est._begin(prepared, moments.facts)
    sample = data if isinstance(data, FeatureTransitions) else sampled(prepared, MOST_SAMPLED)
    problem = LogProblem(sample, moments.moments) if moments.moments.rows else problem_of(sample)
    tuned = _tuned(est, settings, problem, _analyzed(est, settings, form, most, problem), plan, running)
    rows = data if isinstance(data, FeatureTransitions) else _rows(est, settings)
    automatic = automatic_steps(tuned.steps_needed, prepared.num_rows, est.seeds)
    ends = run(
        rows,
        settings,
        numbers=settings.numbers(step_size=tuned.step_size, ridge=tuned.ridge, lam=est.lam),
        steps=automatic if isinstance(est.steps, str) else est.steps,
        seeds=seed_numbers(est.random_state, est.seeds),
        num_features=prepared.num_features,
    )
    report_divergence(settings.label, ends.diverged_at, _why(tuned))
    est._known = problem.c > 0 if isinstance(est._map, OneHot) else None
    runs, estimate = _concluded(settings, tuned, ends, is_buffered=isinstance(rows, Feed))
    est._conclude(runs, estimate, _used(est, settings, form, runs))
    est._end()


def _rows(est: LearnedBase, settings: LearnedSettings) -> FeatureTransitions | Feed:
    """The rows that runs draw from."""
    if is_dense(est.prepared_):
        return dense(est.prepared_)
    return buffered(est.prepared_, est.facts_, settings.dtype)


def _analyzed(
    est: LearnedBase, settings: LearnedSettings, form: AffineForm, most: int, problem: EmpiricalProblem
) -> tuple[float, PlugIn]:
    """The ridge, and convergence and steps on the rows; raises where the method has no answer here."""
    label, prepared = settings.label, est.prepared_
    ridge = default_ridge(problem, prepared) if isinstance(est.ridge, str) else float(est.ridge)
    ridge = settings.numbers(ridge=ridge).get("ridge", 0.0)
    found = _plug_in(problem, form, most, ridge=ridge, lam=est.lam, batch_size=settings.batch_size)
    if found.stability is None:
        why = f"With more than {most:,} features" if problem.num_features > most else found.reason.rstrip(".") + ":"
        warnings.warn(
            f"{why} neither convergence nor standard errors of a learned method are computed; DiffLSTD gives them.",
            EvaluationWarning,
            stacklevel=3,
        )
        return ridge, found
    check_identified(problem, prepared, est.ridge)
    if not found.converges:
        raise InputError(
            f"{label} does not converge on this log: {found.reason.rstrip('.')}; take {' or '.join(ALWAYS_CONVERGE)}, which "
            "converge on every log, or the closed form (DiffLSTD)."
        )
    if not found.stability.determined["reward_rate"]:
        raise InputError(
            f"The rate that {label} ends at depends on its start, because several rates solve its equations here; "
            f"take {'ridge > 0' if ridge == 0 else 'fewer features'}, or another method."
        )
    return ridge, found


def _plug_in(problem: EmpiricalProblem, form: AffineForm, most: int, **settings: Any) -> PlugIn:
    """Convergence and steps; not computed for a method of the user's own that no matrix describes."""
    try:
        return plug_in(problem, form, **settings, max_rows=len(problem.r), max_features=most)
    except NoDynamicsError as error:
        found = plug_in(problem, form, **settings, max_rows=len(problem.r), max_features=0)
        return replace(found, reason=str(error).partition(";")[0] + ".")


def _tuned(
    est: LearnedBase,
    settings: LearnedSettings,
    problem: EmpiricalProblem,
    analyzed: tuple[float, PlugIn],
    plan: Plan,
    running: Running,
) -> Tuned:
    """The step size, where runs tend to on all rows, and the steps that they need; makes the second pass."""
    ridge, plugged = analyzed
    step_size = _step_size(est, settings, plugged)
    found = plugged.stability
    tuned = Tuned(ridge=ridge, step_size=step_size, plug_in=plugged, level=problem.c)
    if found is None:
        est._count(run_pass(InfluencePass(plan, None), est.prepared_, running))
        return tuned
    at = limit_point(problem, found)
    if not np.isfinite(at.reward_rate):
        raise InputError("The limit of the method overflowed; scale rewards and features to moderate numbers.")
    if found.form.has_influence:
        limit = MethodLimit.of(problem, found.form, at)
        totals = run_pass(MethodPass(plan, limit), est.prepared_, running)
        est._count(totals)
        at_limit = est.sampling_.estimate(at.reward_rate + totals.correction, totals.influence)
        error = at_limit.standard_error
        tuned = replace(tuned, limit=at_limit.value, level=limit.level, at_limit=at_limit)
    else:
        est._count(run_pass(InfluencePass(plan, None), est.prepared_, running))
        error = est.behavior_.standard_error  # of about that size
        tuned = replace(tuned, limit=at.reward_rate)
    tolerance = max(FORGOTTEN * error, 1e-6 * abs(at.reward_rate))
    return replace(tuned, steps_needed=steps_needed(found.mean, step_size, -at.point, tolerance))


def _step_size(est: LearnedBase, settings: LearnedSettings, plugged: PlugIn) -> float:
    if not isinstance(est.step_size, str):
        return float(est.step_size)
    limit = plugged.max_step_sampled
    if limit is None:
        raise InputError(f"{settings.label} has no stable step on this log; give step_size a number.")
    return SHARE_OF_LIMIT * min(limit, LARGEST_STEP)


def _concluded(
    settings: LearnedSettings, tuned: Tuned, ends: LinearEnds, *, is_buffered: bool
) -> tuple[Runs, Estimate]:
    """The answer from runs that did not diverge, with what is known of the limit."""
    kept = ends.rates[ends.diverged_at < 0]
    value = float(np.median(kept))
    spread, noise = spread_over_runs(kept)
    is_ratio = settings.objective.learns_ratio
    runs = Runs(
        seed_rates=ends.rates,
        diverged_at=ends.diverged_at,
        spread=spread,
        learning_error=noise,
        step_size=tuned.step_size,
        steps=ends.steps,
        ridge=tuned.ridge,
        batch_size=settings.batch_size,
        steps_needed=tuned.steps_needed,
        time_constant=tuned.time_constant,
        level=0.0 if is_ratio else float(tuned.level @ ends.weights),
        is_buffered=is_buffered,
        weights=None if is_ratio else ends.weights,
        ratio_weights=ends.weights if is_ratio else None,
        plug_in=tuned.plug_in,
    )
    if tuned.limit is None:
        return runs, Estimate(value, float("nan"), 1.0)
    reached = tuned.steps_needed is not None and 2 * tuned.steps_needed <= ends.steps
    runs = replace(runs, limit=tuned.limit, reached=reached)
    if not reached:
        runs = replace(runs, learning_error=float(np.hypot(noise, value - tuned.limit)))
        counted = "" if tuned.at_limit is None else ", which the standard error includes"
        _warn_unreached(settings.label, runs, value, counted)
    elif is_buffered:  # what all runs drew from is no part of the spread over them
        runs = replace(runs, learning_error=max(noise, abs(value - tuned.limit)))
    if tuned.at_limit is None:
        return runs, Estimate(value, float("nan"), 1.0)
    return runs, _together(value, tuned.at_limit, runs.learning_error, len(kept))


def _together(value: float, at_limit: Estimate, learning: float, runs: int) -> Estimate:
    """Both errors, with Welch's degrees of freedom."""
    one, other = at_limit.standard_error**2, learning**2
    total = one + other
    if other == 0 or not np.isfinite(total):
        return Estimate(value, float(np.sqrt(total)), at_limit.degrees_of_freedom)
    # Relative to the total, so that no square underflows.
    freedom = 1 / ((one / total) ** 2 / at_limit.degrees_of_freedom + (other / total) ** 2 / max(1, runs - 1))
    return Estimate(value, float(np.sqrt(total)), float(freedom))


def _used(est: LearnedBase, settings: LearnedSettings, form: AffineForm, runs: Runs) -> dict[str, Any]:
    return {
        "method": f"{settings.label} (learned, {est.approximator})",
        "features": est.features_,
        "ridge": runs.ridge,
        **settings.numbers(lam=est.lam),
        "step_size": runs.step_size,
        "steps": runs.steps,
        "batch_size": settings.batch_size,
        "seeds": est.seeds,
        "dtype": settings.dtype,
        **({"drawn_from": DRAWN_FROM} if runs.is_buffered else {}),
        "standard_errors": est._sampling_words() if form.has_influence else "none for a method of one's own",
        **({"draws": est.draws} if est.prepared_.draws_are_used else {}),
        "random_state": est.random_state,
    }


def _why(tuned: Tuned) -> str:
    """The cause of divergence at a constant step."""
    limit = tuned.plug_in.max_step_sampled
    if limit is not None and tuned.step_size > limit:
        return f"the step size {tuned.step_size:.3g} is above the largest stable one, {limit:.3g}"
    return f"the step size {tuned.step_size:.3g} is too large for the longest feature vectors"


def _warn_unreached(label: str, runs: Runs, value: float, counted: str) -> None:
    # Where the rate's own need is beyond what was computed, that of the slowest direction is an upper bound.
    bound = 20 * runs.time_constant
    needed = f"up to {bound:.1g}" if runs.steps_needed is None else f"about {2 * runs.steps_needed:,}"
    where = f"rate {value:.4g}, limit {runs.limit:.4g}{counted}"
    warnings.warn(
        f"{label} has not reached its limit after {runs.steps:,} steps ({where}): it would need {needed} at step "
        f"size {runs.step_size:.3g}, where its slowest direction has a time constant of {runs.time_constant:.3g} steps; "
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
    settings: LearnedSettings,
    *,
    numbers: dict[str, float],
    steps: int,
    seeds: list[int],
    num_features: int,
) -> LinearEnds:
    """All seeds side by side."""
    # Powers of two, so that the compiled program cuts them into even blocks.
    per_record = 2 ** max(0, int(np.log2(max(1.0, steps / RECORDS))))
    records = -(-steps // per_record)
    per_step = settings.per_step
    if per_step * records * per_record >= 2**31:
        raise InputError(f"steps × batch_size must be below 2³¹ samples. Got {steps} × {per_step}; take fewer steps.")
    result = sweep(
        settings.method,
        data,
        settings=[numbers],
        seeds=seeds,
        budget=records * per_record * per_step,
        record_every=per_record * per_step,
        window=per_record * per_step,
        record=("weights",),
        batch_size=settings.batch_size,
        approximator=settings.approximator,
        dtype=settings.dtype,
        checkpoint=settings.checkpoint,
        quiet=settings.run.quiet,
    )
    tail = slice(records // 2, None)
    diverged_at = result.diverged_at[0]
    kept = diverged_at < 0
    rates = np.where(kept, result.reward_rate[0][:, tail].mean(axis=1), np.nan)
    objective, _ = as_objective(settings.method, settings.approximator, num_features)
    weights = result.records["weights"][0][..., objective.recorded]
    weights = weights[kept][:, tail].mean(axis=(0, 1)) if kept.any() else np.zeros(weights.shape[-1])
    return LinearEnds(rates, weights, np.where(kept, -1, diverged_at // per_step), records * per_record)
