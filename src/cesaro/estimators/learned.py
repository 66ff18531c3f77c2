"""`Learned`: the methods of the registry on a log, with the standard error of their limit."""

import warnings
from typing import Any, Self

import numpy as np

from cesaro import checks
from cesaro.checks import Array
from cesaro.data import FeatureTransitions
from cesaro.errors import EvaluationWarning, InputError
from cesaro.estimators.base import Estimator
from cesaro.estimators.diagnostics import Diagnostic, diagnose
from cesaro.estimators.influence import Estimate
from cesaro.estimators.learned_findings import findings
from cesaro.estimators.learned_rows import check_identified, default_ridge, dense
from cesaro.estimators.learned_run import Runs, automatic_steps, run, steps_needed
from cesaro.estimators.method_series import LimitSeries, limit_series
from cesaro.estimators.pipeline import Prepared
from cesaro.estimators.plug_in import PlugIn, plug_in, problem_of
from cesaro.estimators.series import Series
from cesaro.features import OneHot
from cesaro.linear import METHODS, EmpiricalProblem

# Up to this many features the mean update is analyzed and the standard error computed.
MAX_ANALYZED = 1_024
# Fourier features by default: with many that nearly depend on each other, learned methods do not reach their limits.
MOST_AUTO = 64
# `step_size="auto"` is this share of the largest stable step.
SHARE_OF_LIMIT = 0.5
# The rate itself forgets as 1 − α does, whatever the features are.
LARGEST_STEP = 1.0
# The start counts as forgotten once the expected rate is this share of the standard error from its limit.
FORGOTTEN = 0.1
# Variance of a median over that of a mean, of many normal numbers.
MEDIAN = np.pi / 2
APPROXIMATORS = ("linear", "linear-random")


class Learned(Estimator):
    """A method that learns from single transitions, drawn from the log again and again; the median over several seeds.

    Each run averages the second half of its steps. The standard error is that of the method's limit on the log, from the
    influence of every row on it, together with the spread over seeds.

    Args:
        method: diff-sgq, diff-gq1, diff-gq2, diff-gq3, diff-gq4 or gradient-dice.
        features: see `DiffLSTD`; by default at most 64 Fourier features, since learning slows down with many.
        approximator: "linear" (started at zero) or "linear-random" (started uniformly in ±1/√inputs).
        step_size: a number, or "auto": half of the largest step at which the sampled update is stable on this log.
        ridge: `η ≥ 0`; "auto" is 1e-6 of the features' mean square for our own dense features, which nearly depend on each
            other, and none for others.
        lam: GradientDICE's weight of the normalization.
        steps: updates of each run, or "auto": until the start is forgotten, at most 204,800.
        batch_size: transitions per update.
        seeds: runs.
        standard_errors: "auto", "independent", "clustered" or "long-run".
        draws: actions drawn per next state where the policy only samples.
        random_state: seed of random features, samples and draws.
        dtype: "float64", or "float32" for speed where steps are not tiny (small updates of a large number are lost there).
        quiet: no progress bar.

    Attributes:
        reward_rate_: the median over seeds.
        seed_rates_: of each seed, `[seeds]`; NaN where it diverged.
        standard_error_: of the limit and of the spread over seeds.
        learning_error_: the part of it that more steps or seeds would remove.
        limit_: the rate that the runs tend to on this log; NaN above 1,024 features.
        step_size_, steps_, ridge_: what was used.
        steps_needed_: steps after which the start is forgotten; None where unknown.
        time_constant_: of the slowest direction, in steps.
        plug_in_: convergence and stable steps on this log.
        diverged_: which seeds diverged, `[seeds]`; `diverged_at_`: at which step.

    Example:
        >>> import numpy as np, cesaro as cs
        >>> rng = np.random.default_rng(0)
        >>> x, noise = rng.normal(size=(2, 2000, 1))
        >>> data = cs.FeatureTransitions(x, 1 + x[:, 0], 0.5 * x + noise)
        >>> est = cs.Learned("diff-gq1", standard_errors="independent", quiet=True).fit(data)
        >>> bool(abs(est.reward_rate_ - cs.DiffLSTD(standard_errors="independent").fit(data).reward_rate_) < 0.05)
        True
    """

    _OWN = (
        *("ridge_", "step_size_", "steps_", "steps_needed_", "time_constant_", "limit_", "learning_error_", "reached_"),
        *(
            "seed_rates_",
            "diverged_",
            "diverged_at_",
            "weights_",
            "ratio_weights_",
            "level_",
            "_known",
            "_inputs",
            "_map",
        ),
    )
    _STORED = (*Estimator._STORED, *_OWN)

    def __init__(
        self,
        method: str = "diff-gq1",
        features: Any = "auto",
        approximator: str = "linear",
        step_size: float | str = "auto",
        ridge: float | str = "auto",
        lam: float = 1.0,
        steps: int | str = "auto",
        batch_size: int = 1,
        seeds: int = 5,
        standard_errors: str = "auto",
        draws: int = 1,
        random_state: int = 0,
        dtype: str = "float64",
        quiet: bool = False,
    ) -> None:
        self.method = method
        self.features = features
        self.approximator = approximator
        self.step_size = step_size
        self.ridge = ridge
        self.lam = lam
        self.steps = steps
        self.batch_size = batch_size
        self.seeds = seeds
        self.standard_errors = standard_errors
        self.draws = draws
        self.random_state = random_state
        self.dtype = dtype
        self.quiet = quiet

    def fit(self, data: Any, policy: Any = None) -> Self:
        """Evaluate `policy` on a log, or on ready features without one."""
        self._check()
        prepared = Prepared(
            data,
            policy,
            features=self.features,
            dual_features="same",
            draws=checks.count("draws", self.draws),
            random_state=checks.count("random_state", self.random_state, low=0),
            most=MOST_AUTO,
        )
        sampling = self._begin(prepared)
        if prepared.is_logged:
            return self._fit_logged()
        rows = data if isinstance(data, FeatureTransitions) else dense(prepared)
        problem = problem_of(rows)
        self.ridge_ = default_ridge(problem, prepared) if isinstance(self.ridge, str) else float(self.ridge)
        self.plug_in_ = self._analyze(problem, prepared)
        self.step_size_ = self._step_size()
        self.time_constant_ = self.plug_in_.time_constant(self.step_size_)
        found = self.plug_in_.stability
        series, at_limit, self.steps_needed_ = None, None, None
        if found is not None:
            series = limit_series(problem, found, ridge=self.ridge_, lam=self.lam)
            if not np.isfinite(series.reward_rate):
                raise InputError("The limit of the method overflowed; scale rewards and features to moderate numbers.")
            at_limit = sampling.estimate(series.reward_rate, series.influence)
            tolerance = max(FORGOTTEN * at_limit.standard_error, 1e-6 * abs(series.reward_rate))
            self.steps_needed_ = steps_needed(found.mean, self.step_size_, -series.point, tolerance)
        automatic = automatic_steps(self.steps_needed_, len(rows), self.seeds)
        del problem, found
        runs = run(
            rows,
            self.method,
            step_size=self.step_size_,
            ridge=self.ridge_,
            lam=self.lam,
            steps=automatic if isinstance(self.steps, str) else self.steps,
            batch_size=self.batch_size,
            seeds=self.seeds,
            random_state=self.random_state,
            approximator=self.approximator,
            dtype=self.dtype,
            quiet=self.quiet,
        )
        self._conclude(rows, runs, series, at_limit)
        self._summary = self._used()
        return self._end()

    def _check(self) -> None:
        if str(self.method) not in METHODS:
            raise InputError(f"method must be one of {', '.join(METHODS)}. Got {self.method!r}.")
        if str(self.approximator) not in APPROXIMATORS:
            raise InputError(f"approximator must be one of {', '.join(APPROXIMATORS)}. Got {self.approximator!r}.")
        for name, low_open in (("step_size", True), ("ridge", False)):
            value = getattr(self, name)
            if not (isinstance(value, str) and value == "auto"):
                checks.number(name, value, low=0.0, low_open=low_open)
        if not (isinstance(self.steps, str) and self.steps == "auto"):
            checks.count("steps", self.steps)
        checks.number("lam", self.lam, low=0.0, low_open=self.method == "gradient-dice")
        checks.count("batch_size", self.batch_size)
        checks.count("seeds", self.seeds)
        if self.dtype not in ("float32", "float64"):
            raise InputError(f"dtype must be 'float32' or 'float64'. Got {self.dtype!r}.")

    def _analyze(self, problem: EmpiricalProblem, prepared: Prepared) -> PlugIn:
        """Convergence and steps on the rows; raises where the method has no answer here."""
        found = plug_in(
            problem,
            self.method,
            ridge=self.ridge_,
            lam=self.lam,
            batch_size=self.batch_size,
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
        check_identified(problem, prepared, self.ridge)
        if not found.converges:
            raise InputError(
                f"{self.method} does not converge on this log: {found.reason.rstrip('.')}; take diff-gq1 or diff-gq2, which "
                "converge on every log, or the closed form (DiffLSTD)."
            )
        if not found.stability.determined["reward_rate"]:
            raise InputError(
                f"The rate that {self.method} ends at depends on its start, because several rates solve its equations here; "
                f"take {'ridge > 0' if self.ridge_ == 0 else 'fewer features'}, or another method."
            )
        return found

    def _step_size(self) -> float:
        if not isinstance(self.step_size, str):
            return float(self.step_size)
        limit = self.plug_in_.max_step_sampled
        if limit is None:
            raise InputError(f"{self.method} has no stable step on this log; give step_size a number.")
        return SHARE_OF_LIMIT * min(limit, LARGEST_STEP)

    def _used(self) -> dict[str, Any]:
        return {
            "method": f"{self.method} (learned, {self.approximator})",
            "features": self.features_,
            "ridge": self.ridge_,
            **({"lam": self.lam} if self.method == "gradient-dice" else {}),
            "step_size": self.step_size_,
            "steps": self.steps_,
            "batch_size": self.batch_size,
            "seeds": self.seeds,
            "dtype": self.dtype,
            "standard_errors": self._sampling_words(),
            **({"draws": self.draws} if self.prepared_.draws_are_used else {}),
            "random_state": self.random_state,
        }

    def _conclude(
        self, rows: FeatureTransitions, runs: Runs, series: LimitSeries | None, at_limit: Estimate | None
    ) -> None:
        """The answer from runs that did not diverge, with what is known of the limit."""
        self.steps_, self.seed_rates_ = runs.steps, runs.rates
        self.diverged_at_, self.diverged_ = runs.diverged_at, runs.diverged_at >= 0
        self._report_divergence()
        kept = self.seed_rates_[~self.diverged_]
        value = float(np.median(kept))
        self.spread_ = float(kept.std(ddof=1)) if len(kept) > 1 else float("nan")
        share = (MEDIAN if len(kept) > 2 else 1.0) / len(kept)
        noise = np.nan_to_num(self.spread_) * np.sqrt(share)
        weights = None if self.method == "gradient-dice" else runs.weights
        if weights is None:
            self.ratio_weights_ = runs.weights
        else:
            self.weights_ = weights
        self.limit_, self.reached_ = float("nan"), False
        self.learning_error_ = float(noise)
        self._known = np.asarray(rows.x.any(axis=0)) if isinstance(self._map, OneHot) else None
        if series is None or at_limit is None:
            self.estimate_, self.influence_ = Estimate(value, float("nan"), 1.0), np.full(len(rows), np.nan)
            self.level_ = 0.0 if weights is None else float(np.mean(rows.x @ weights))
            return
        self.limit_, self.influence_ = series.reward_rate, series.influence
        self.reached_ = self.steps_needed_ is not None and 2 * self.steps_needed_ <= self.steps_
        if not self.reached_:
            self.learning_error_ = float(np.hypot(noise, value - self.limit_))
            self._warn_unreached(value)
        self.estimate_ = _together(value, at_limit, self.learning_error_, len(kept))
        self.level_ = 0.0
        if weights is not None:
            ratio = series.ratio if rows.weights is None else series.ratio * (rows.weights / rows.weights.mean())
            self.level_ = float(ratio @ (rows.x @ weights) / ratio.sum())
        self.series_ = Series(series.influence, series.ratio, series.errors, 0.0, self.level_)

    def _report_divergence(self) -> None:
        lost = np.flatnonzero(self.diverged_)
        if not len(lost):
            return
        limit = self.plug_in_.max_step_sampled
        where = ", ".join(f"run {i + 1} at step {self.diverged_at_[i]:,}" for i in lost[:3])
        where += ", …" if len(lost) > 3 else ""
        why = (
            f"the step size {self.step_size_:.3g} is above the largest stable one, {limit:.3g}"
            if limit is not None and self.step_size_ > limit
            else f"the step size {self.step_size_:.3g} is too large for the longest feature vectors"
        )
        runs = f"{len(lost)} of {self.seeds} runs of {self.method}"
        said = f"{runs} diverged ({where}), because {why}; take a smaller step_size."
        if len(lost) == self.seeds:
            raise InputError(said)
        warnings.warn(f"{said[:-1]}, or rely on the others, as this answer does.", EvaluationWarning, stacklevel=4)

    def _warn_unreached(self, value: float) -> None:
        # Where the rate's own need is beyond what was computed, that of the slowest direction is an upper bound.
        bound = 20 * self.time_constant_
        needed = f"up to {bound:.1g}" if self.steps_needed_ is None else f"about {2 * self.steps_needed_:,}"
        where = f"rate {value:.4g}, limit {self.limit_:.4g}, which the standard error counts in"
        warnings.warn(
            f"{self.method} has not reached its limit after {self.steps_:,} steps ({where}): it would need {needed} at step "
            f"size {self.step_size_:.3g}, where its slowest direction has a time constant of {self.time_constant_:.3g} steps; "
            "take more steps, a larger ridge, fewer features, or DiffLSTD.",
            EvaluationWarning,
            stacklevel=4,
        )

    @property
    def diagnostics_(self) -> tuple[Diagnostic, ...]:
        self._fitted()
        if not hasattr(self, "_diagnostics"):
            own = () if self.prepared_.is_logged else findings(self)
            self._diagnostics = (*diagnose(self), *own)
        return self._diagnostics

    def predict(self, observations: Any, actions: Any = None) -> Array:
        """Differential values `q(s, a)` with mean zero under the target, `[n]`; NaN for one-hot pairs without data.

        After a fit on ready features, `observations` are features `[n, K]`.
        """
        if self.method == "gradient-dice":
            self._fitted()
            raise InputError("gradient-dice learns a density ratio and no values; take density_ratio() instead.")
        return super().predict(observations, actions)

    def density_ratio(self, observations: Any, actions: Any = None) -> Array:
        """GradientDICE's `d_π/d_μ` at these pairs, `[n]`; after a fit on ready features, `observations` are features."""
        self._fitted()
        if self.method != "gradient-dice":
            raise InputError(f"{self.method} learns values and no density ratio; take method='gradient-dice'.")
        x, weights = self._features(observations, actions, "ratio_weights_")
        return np.asarray(x @ weights)


def _together(value: float, at_limit: Estimate, learning: float, runs: int) -> Estimate:
    """Both errors, with Welch's degrees of freedom."""
    one, other = at_limit.standard_error**2, learning**2
    total = one + other
    if other == 0 or not np.isfinite(total):
        return Estimate(value, float(np.sqrt(total)), at_limit.degrees_of_freedom)
    # Relative to the total, so that no square underflows.
    freedom = 1 / ((one / total) ** 2 / at_limit.degrees_of_freedom + (other / total) ** 2 / max(1, runs - 1))
    return Estimate(value, float(np.sqrt(total)), float(freedom))
