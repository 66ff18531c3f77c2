"""`Learned`: the methods of the registry on a log, with the standard error of their limit."""

import os
import warnings
from typing import Any, Self

import numpy as np

from cesaro import checks
from cesaro.algorithms.saddle_point import Target
from cesaro.approximators import MLP
from cesaro.checks import Array
from cesaro.data import FeatureTransitions
from cesaro.engines import check_engine
from cesaro.errors import EvaluationWarning, InputError
from cesaro.estimators.base import Estimator
from cesaro.estimators.diagnostics import Diagnostic, diagnose
from cesaro.estimators.facts import Plan
from cesaro.estimators.gathering import Gathering
from cesaro.estimators.influence import Estimate
from cesaro.estimators.learned.findings import findings
from cesaro.estimators.learned.limit import MethodLimit, MethodPass
from cesaro.estimators.learned.linear_run import Runs, automatic_steps, run, spread_over_runs, steps_needed
from cesaro.estimators.learned.log_problem import LogProblem
from cesaro.estimators.learned.network_findings import network_findings
from cesaro.estimators.learned.network_fit import fit_networks, hidden_maps, network_inputs, over_members
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
from cesaro.estimators.learned.settings import Settings, check, is_network
from cesaro.estimators.learned.warnings import report_divergence, warn_unreached, why_linear
from cesaro.estimators.passes import Running, run_pass
from cesaro.estimators.pipeline import Prepared
from cesaro.estimators.plug_in import PlugIn, plug_in, problem_of
from cesaro.estimators.series import InfluencePass
from cesaro.features import FeatureMap, OneHot
from cesaro.features.members import Members
from cesaro.learning.feed import Feed
from cesaro.linear import EmpiricalProblem

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


class Learned(Estimator):
    """A method that learns from single transitions, drawn from the log again and again; the median over several seeds.

    Linear functions: each run averages the second half of its steps, and the standard error is that of the method's limit on the
    log, from the influence of every row on it, together with the spread over seeds. Networks: each run averages the last quarter
    of its steps; their limit has no formula, so that there is the spread over seeds and no standard error (`DiffLSTD` on the
    fitted estimator gives an interval in the features that the networks found).

    Logs that are read in blocks, and those whose features are too many to be kept, pass through a shuffle buffer of random row
    groups that all runs draw from. Limit and standard error are those of all rows there too, and the distance of the answer from
    the limit is part of the learning error; what the networks say of all rows is said of a sample of them.

    Args:
        method: diff-sgq, diff-gq1, diff-gq2, diff-gq3, diff-gq4 or gradient-dice.
        features: see `DiffLSTD`; by default at most 64 Fourier features, since learning slows down with many. Networks take
            "auto" alone: columns standardized, labels one-hot, and the action or the probabilities of finite actions.
        approximator: "linear" (started at zero), "linear-random" (started uniformly in ±1/√inputs), "mlp" (two layers of 128 ReLU
            units) or `cesaro.approximators.MLP(widths=…)`.
        step_size: a number, or "auto": half of the largest step at which the sampled update is stable on this log; networks 3e-4.
        ridge: `η ≥ 0`; "auto" is 1e-6 of the features' mean square for our own dense features, which nearly depend on each
            other, and none for others and for networks.
        lam: GradientDICE's weight of the normalization.
        steps: updates of each run, or "auto": until the start is forgotten, at most 204,800; networks 40,000.
        batch_size: transitions per update; "auto" is 1, networks 512.
        optimizer: "auto" ("sgd"; for networks Adam, without momentum where there is a dual), "sgd", "adam", or for networks an
            Optax transformation without learning rate.
        target: "auto", or for networks `CURRENT`, `copied(every)` or `tracked(mixing)` of `cesaro.algorithms.saddle_point`;
            "auto" is a target network tracked at 0.005 for Diff-SGQ with networks, and none for others.
        seeds: runs.
        standard_errors: "auto", "independent", "clustered" or "long-run".
        draws: actions drawn per next state where the policy only samples; to a network of continuous actions, each is a row.
        random_state: seed of random features, samples and draws.
        dtype: "float64", or "float32" for speed where steps are not tiny (small updates of a large number are lost there);
            "auto" is the first, for networks the second.
        checkpoint: a file to keep progress in; the same fit resumes from it, bit for bit.
        engine: "local", or "ray": the passes over the log become tasks of a cluster, with the same bits; runs stay here.
        address: of the Ray cluster; None: one on this machine.
        quiet: no progress bar.

    Attributes:
        reward_rate_: the median over seeds that did not diverge.
        seed_rates_: of each seed, `[seeds]`; NaN where it diverged.
        spread_: their standard deviation.
        standard_error_: of the limit and of the spread over seeds; NaN for networks.
        learning_error_: the part of it that more steps or seeds would remove.
        limit_: the rate that the runs tend to on this log; NaN above 1,024 features and for networks.
        step_size_, steps_, ridge_, batch_size_: what was used.
        steps_needed_: steps after which the start is forgotten; None where unknown.
        time_constant_: of the slowest direction, in steps.
        is_buffered_: whether runs drew from a shuffle buffer.
        plug_in_: convergence and stable steps on this log; not for networks.
        diverged_: which seeds diverged, `[seeds]`; `diverged_at_`: at which step.
        members_: the networks, one per seed; `earlier_rates_`: of each, the mean rate over the quarter before the last.
        offline_rates_: of networks, `mean R + q(x') − q(x)` over all rows, `[seeds]`; not of GradientDICE.
        ratio_rates_: of networks of GradientDICE, `mean τR` over all rows, `[seeds]`.

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
        *("seed_rates_", "spread_", "diverged_", "diverged_at_", "weights_", "ratio_weights_", "level_", "batch_size_"),
        *("members_", "levels_", "scale_", "earlier_rates_", "offline_rates_", "ratio_rates_", "rows_digest_"),
        *("is_buffered_", "_known", "_inputs", "_map"),
    )
    _STORED = (*Estimator._STORED, *_OWN)
    is_buffered_ = False
    members_: Members
    levels_: Array
    scale_: float

    def __init__(
        self,
        method: str = "diff-gq1",
        features: Any = "auto",
        approximator: str | MLP = "linear",
        step_size: float | str = "auto",
        ridge: float | str = "auto",
        lam: float = 1.0,
        steps: int | str = "auto",
        batch_size: int | str = "auto",
        optimizer: Any = "auto",
        target: str | Target = "auto",
        seeds: int = 5,
        standard_errors: str = "auto",
        draws: int = 1,
        random_state: int = 0,
        dtype: str = "auto",
        checkpoint: str | os.PathLike[str] | None = None,
        engine: str = "local",
        address: str | None = None,
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
        self.optimizer = optimizer
        self.target = target
        self.seeds = seeds
        self.standard_errors = standard_errors
        self.draws = draws
        self.random_state = random_state
        self.dtype = dtype
        self.checkpoint = checkpoint
        self.engine = engine
        self.address = address
        self.quiet = quiet

    def fit(self, data: Any, policy: Any = None) -> Self:
        """Evaluate `policy` on a log, or on ready features without one."""
        settings = check(self)
        check_engine(self.engine, self.address)
        if is_network(self.approximator):
            fit_networks(self, data, policy, settings)
            return self
        return self._fit_linear(data, policy, settings)

    def _fit_linear(self, data: Any, policy: Any, settings: Settings) -> Self:
        prepared = Prepared(
            data,
            policy,
            features=self.features,
            dual_features="same",
            draws=checks.count("draws", self.draws),
            random_state=checks.count("random_state", self.random_state, low=0),
            most=MOST_AUTO,
            quiet=self.quiet,
        )
        running = self._running()
        if prepared.is_logged:
            return self._fit_logged(self._begin(prepared), running)
        check_size(prepared)
        is_analyzed = prepared.num_features <= MAX_ANALYZED
        gathered = run_pass(Gathering(is_analyzed or isinstance(prepared.map, OneHot)), prepared, running)
        plan = self._begin(prepared, gathered.facts)
        self.batch_size_ = settings.batch_size
        sample = data if isinstance(data, FeatureTransitions) else sampled(prepared, MOST_SAMPLED)
        problem = LogProblem(sample, gathered.moments) if gathered.moments.rows else problem_of(sample)
        self.ridge_ = default_ridge(problem, prepared) if isinstance(self.ridge, str) else float(self.ridge)
        self.plug_in_ = self._analyze(problem, prepared)
        self.step_size_ = self._step_size()
        self.time_constant_ = self.plug_in_.time_constant(self.step_size_)
        limit = self._limit(problem, plan, running)
        automatic = automatic_steps(self.steps_needed_, prepared.num_rows, self.seeds)
        runs = run(
            self._rows(data, settings),
            self.method,
            step_size=self.step_size_,
            ridge=self.ridge_,
            lam=self.lam,
            steps=automatic if isinstance(self.steps, str) else self.steps,
            batch_size=settings.batch_size,
            seeds=self.seeds,
            random_state=self.random_state,
            approximator=str(self.approximator),
            dtype=settings.dtype,
            checkpoint=settings.checkpoint,
            quiet=self.quiet,
        )
        self._conclude(problem, runs, limit)
        self._summary = self._used(settings)
        return self._end()

    def _running(self) -> Running:
        """How passes over the log are run; the file of a checkpoint belongs to the runs."""
        return Running(self.quiet, engine=self.engine, address=self.address)

    def _rows(self, data: Any, settings: Settings) -> FeatureTransitions | Feed:
        """What runs draw from."""
        if isinstance(data, FeatureTransitions):
            return data
        self.is_buffered_ = not is_dense(self.prepared_)
        if self.is_buffered_:
            return buffered(self.prepared_, self.facts_, settings.dtype)
        return dense(self.prepared_)

    def _limit(self, problem: EmpiricalProblem, plan: Plan, running: Running) -> tuple[MethodLimit, Estimate] | None:
        """Where runs tend to on all rows, and the steps that they need; None where that is not computed."""
        found, self.steps_needed_ = self.plug_in_.stability, None
        if found is None:
            self._count(run_pass(InfluencePass(plan, None), self.prepared_, running))
            return None
        limit = MethodLimit.of(problem, found, ridge=self.ridge_, lam=self.lam)
        if not np.isfinite(limit.reward_rate):
            raise InputError("The limit of the method overflowed; scale rewards and features to moderate numbers.")
        totals = run_pass(MethodPass(plan, limit), self.prepared_, running)
        self._count(totals)
        estimate = self.sampling_.estimate(limit.reward_rate + totals.correction, totals.influence)
        tolerance = max(FORGOTTEN * estimate.standard_error, 1e-6 * abs(limit.reward_rate))
        self.steps_needed_ = steps_needed(found.mean, self.step_size_, -limit.point, tolerance)
        return limit, estimate

    def _analyze(self, problem: EmpiricalProblem, prepared: Prepared) -> PlugIn:
        """Convergence and steps on the rows; raises where the method has no answer here."""
        found = plug_in(
            problem,
            self.method,
            ridge=self.ridge_,
            lam=self.lam,
            batch_size=self.batch_size_,
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

    def _used(self, settings: Settings) -> dict[str, Any]:
        return {
            "method": f"{self.method} (learned, {self.approximator})",
            "features": self.features_,
            "ridge": self.ridge_,
            **({"lam": self.lam} if self.method == "gradient-dice" else {}),
            "step_size": self.step_size_,
            "steps": self.steps_,
            "batch_size": settings.batch_size,
            "seeds": self.seeds,
            "dtype": settings.dtype,
            **({"drawn_from": DRAWN_FROM} if self.is_buffered_ else {}),
            "standard_errors": self._sampling_words(),
            **({"draws": self.draws} if self.prepared_.draws_are_used else {}),
            "random_state": self.random_state,
        }

    def _conclude(self, problem: EmpiricalProblem, runs: Runs, limit: tuple[MethodLimit, Estimate] | None) -> None:
        """The answer from runs that did not diverge, with what is known of the limit."""
        self.steps_, self.seed_rates_ = runs.steps, runs.rates
        self.diverged_at_, self.diverged_ = runs.diverged_at, runs.diverged_at >= 0
        report_divergence(self, why_linear(self))
        kept = self.seed_rates_[~self.diverged_]
        value = float(np.median(kept))
        self.spread_, noise = spread_over_runs(kept)
        weights = None if self.method == "gradient-dice" else runs.weights
        if weights is None:
            self.ratio_weights_ = runs.weights
        else:
            self.weights_ = weights
        self.limit_, self.reached_ = float("nan"), False
        self.learning_error_ = noise
        self._known = problem.c > 0 if isinstance(self._map, OneHot) else None
        if limit is None:
            self.estimate_ = Estimate(value, float("nan"), 1.0)
            self.level_ = 0.0 if weights is None else float(problem.c @ weights)
            return
        found, at_limit = limit
        self.limit_, self.level_ = at_limit.value, 0.0 if weights is None else float(found.level @ weights)
        self.reached_ = self.steps_needed_ is not None and 2 * self.steps_needed_ <= self.steps_
        if not self.reached_:
            self.learning_error_ = float(np.hypot(noise, value - self.limit_))
            warn_unreached(self, value)
        elif self.is_buffered_:  # what all runs drew from is no part of the spread over them
            self.learning_error_ = max(noise, abs(value - self.limit_))
        self.estimate_ = _together(value, at_limit, self.learning_error_, len(kept))

    @property
    def diagnostics_(self) -> tuple[Diagnostic, ...]:
        self._fitted()
        if not hasattr(self, "_diagnostics"):
            own = network_findings if hasattr(self, "members_") else findings
            self._diagnostics = (*diagnose(self), *(() if self.prepared_.is_logged else own(self)))
        return self._diagnostics

    def predict(self, observations: Any, actions: Any = None) -> Array:
        """Differential values `q(s, a)` with mean zero under the target, `[n]`; NaN for one-hot pairs without data.

        Networks: the mean over seeds, each with mean zero over the target's pairs at the logged next states, as there is no
        density ratio. After a fit on ready features, `observations` are features `[n, K]`.
        """
        if self.method == "gradient-dice":
            self._fitted()
            raise InputError("gradient-dice learns a density ratio and no values; take density_ratio() instead.")
        if hasattr(self, "members_"):
            return self.scale_ * over_members(self, network_inputs(self, observations, actions), self.levels_)
        return super().predict(observations, actions)

    def density_ratio(self, observations: Any, actions: Any = None) -> Array:
        """GradientDICE's `d_π/d_μ` at these pairs, `[n]`; after a fit on ready features, `observations` are features."""
        self._fitted()
        if self.method != "gradient-dice":
            raise InputError(f"{self.method} learns values and no density ratio; take method='gradient-dice'.")
        if hasattr(self, "members_"):
            return over_members(self, network_inputs(self, observations, actions))
        x, weights = self._features(observations, actions, "ratio_weights_")
        return np.asarray(x @ weights)

    def hidden_maps(self) -> list[FeatureMap | None]:
        """The last hidden layer of each seed's value network, as features of pairs; None where the run diverged."""
        return hidden_maps(self)


def _together(value: float, at_limit: Estimate, learning: float, runs: int) -> Estimate:
    """Both errors, with Welch's degrees of freedom."""
    one, other = at_limit.standard_error**2, learning**2
    total = one + other
    if other == 0 or not np.isfinite(total):
        return Estimate(value, float(np.sqrt(total)), at_limit.degrees_of_freedom)
    # Relative to the total, so that no square underflows.
    freedom = 1 / ((one / total) ** 2 / at_limit.degrees_of_freedom + (other / total) ** 2 / max(1, runs - 1))
    return Estimate(value, float(np.sqrt(total)), float(freedom))
