"""`DiffLSTD`: the closed form, from one pass of moments and one of influence."""

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from cesaro import checks
from cesaro.closed_forms import dense, tabular
from cesaro.closed_forms.growth import bounded, grown
from cesaro.devices import accelerator, check_device, device_words
from cesaro.diagnostics import Subject
from cesaro.diagnostics.subject import NetworkFeatures
from cesaro.errors import EvaluationWarning, InputError
from cesaro.estimators.base import Estimator
from cesaro.estimators.hidden_features import RELATIVE_RIDGE, Fit, NetworkMaps, network_maps, over_seeds
from cesaro.estimators.run import Run
from cesaro.features import OneHot
from cesaro.files import holding
from cesaro.fingerprints import fingerprint
from cesaro.passes.checkpoint import PassCheckpoint, identity
from cesaro.passes.influence import ClosedForm, InfluencePass, Plan
from cesaro.passes.moments import Moments, MomentsPass
from cesaro.passes.prepare import Prepared
from cesaro.passes.run import Running, run_pass
from cesaro.passes.support import not_identified, remedy
from cesaro.progress import stage
from cesaro.text import Sentence, argument

# Rows of a log from which on a GPU is taken where nobody asks for it. An immediate answer from so many, of four columns, took an
# H200 1.7 s and 16 cores 2.6 s, and with compilation, as the first of its kind, 5.5 and 3.1 s.
WORTH = 200_000


class DiffLSTD(Estimator):
    """Differential least-squares temporal differences: where Diff-GQ1 and Diff-GQ2 converge to, without iterating.

    Solves `mean v (R − r̂ + x̄'ᵀw − xᵀw) = 0` for the rate `r̂` and the weights `w`; with more dual features `v` than unknowns, or a
    ridge, it minimizes the residual in the norm of the inverse Gram matrix of `v`, plus `η‖w‖²`.

    Args:
        features: "auto" (one-hot for discrete logs, smooth for the rest), "one-hot", "smooth" (polynomials, splines and as many
            leading Fourier components as noise allows), "smooth:40", "splines", "linear", "fourier",
            "fourier:200", "polynomial:2", a scikit-learn transformer, a function, "file.py:name", or a `Learned` of a value
            method, fitted with networks: the last hidden layer of each seed's network, for each action where these are finite.
            There is then one closed form per seed, and the whole answer is that of the seed with the (lower) median rate. An
            interval does not cover that features were chosen by the same rows; networks fitted on another part of the log avoid
            that.
        dual_features: the same choice for `v`; "auto" and "same" take the primal features. Many more equations than unknowns
            pull the rate towards the log's unless there are thousands of rows to each.
        ridge: `η ≥ 0`; "auto" is none, and 1e-6 of the features' mean square in features of networks, whose units may be dead or
            alike.
        standard_errors: "auto", "independent", "clustered" or "long-run".
        draws: actions drawn per next state where the policy only samples.
        random_state: seed of random features, samples and draws.
        checkpoint: as in `run`.
        engine: as in `run`.
        address: as in `run`.
        quiet: as in `run`.
        device: where features and products are computed: "auto" (a GPU if JAX sees one and the log is long, else "cpu"), "cpu" or
            "gpu". Products are in double precision on both, features on a GPU alone; rates differ by the processor's rounding of
            features. One-hot features stay on the processor.
        run: how the fit is run, which changes nothing about its answer; progress is kept once a minute.

    Attributes:
        reward_rate_: the rate of the target policy.
        standard_error_: its standard error.
        ridge_: the ridge that was used.
        features_: the features that were used, in words.
        seed_rates_: in features of networks, the closed form's rate of each seed, `[seeds]`; NaN where its run diverged, or its
            features do not determine the rate.
        spread_: their standard deviation.
        density_ratio_: `d_π/d_μ` at every row, as the closed form implies it.
        diagnostics_: what could be wrong, with remedies.

    Example:
        >>> import numpy as np, cesaro as cs
        >>> rng = np.random.default_rng(0)
        >>> state = np.cumsum(rng.integers(0, 2, 5000)) % 3
        >>> log = cs.Transitions(state, rng.integers(0, 2, 5000), rewards=(state == 2).astype(float))
        >>> est = cs.DiffLSTD().fit(log, "uniform")
        >>> round(est.reward_rate_, 1)
        0.3
    """

    _STORED = (
        *Estimator._STORED,
        *("ridge_", "weights_", "level_", "seed_rates_", "spread_", "_known", "_inputs", "_map"),
    )

    _networks: NetworkMaps | None = None

    def __init__(
        self,
        features: Any = "auto",
        dual_features: Any = "auto",
        ridge: float | str = "auto",
        standard_errors: str = "auto",
        draws: int = 1,
        random_state: int = 0,
        checkpoint: str | os.PathLike[str] | None = None,
        engine: str = "local",
        address: str | None = None,
        quiet: bool = False,
        run: Run | None = None,
        device: str = "auto",
    ) -> None:
        self.features = features
        self.dual_features = dual_features
        self.ridge = ridge
        self.standard_errors = standard_errors
        self.draws = draws
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.engine = engine
        self.address = address
        self.quiet = quiet
        self.run = run
        self.device = device

    def fit(self, data: Any, policy: Any = None) -> Self:
        """Evaluate `policy` on a log, or on ready features without one."""
        given = (
            None
            if isinstance(self.ridge, str) and self.ridge == "auto"
            else checks.number("ridge", self.ridge, low=0.0, high=checks.LARGEST_SETTING)
        )
        run = self._run()
        with holding(run.checkpoint):
            maps = network_maps(self.features, data, self.dual_features)
            prepared = Prepared(
                data,
                policy,
                features=self.features if maps is None else maps.first,
                dual_features=self.dual_features,
                draws=checks.count("draws", self.draws, high=checks.MOST_DRAWS),
                random_state=checks.count("random_state", self.random_state, low=0),
                quiet=run.quiet,
            )
            running = self._running(run, prepared, maps)
            if prepared.is_logged:
                facts = run_pass(MomentsPass(has_features=False), prepared, running).facts
                return self._fit_logged(self._begin(prepared, facts), running)
            if maps is None:
                fit = self._closed_form(prepared, 0.0, given, running)
                plan = self._begin(fit.prepared, fit.facts)
            else:
                fits = over_seeds(
                    maps, lambda chosen: self._closed_form(prepared.with_map(chosen), RELATIVE_RIDGE, given, running)
                )
                fit = fits.median
                plan = self._begin(fit.prepared, fit.facts)
                self.seed_rates_, self.spread_, self._networks = fits.rates, fits.spread, maps
            self.ridge_, prepared, solution = fit.ridge, fit.prepared, fit.solution
            totals = run_pass(_influence_pass(plan, solution, prepared, running), prepared, running)
            prepared.let_go()
            self._count(totals)
            self.moments_, self.solution_ = fit.moments, solution
            self.weights_, self.level_ = solution.weights, totals.sums["level"] / fit.facts.weight
            self.estimate_ = self.sampling_.estimate(solution.reward_rate + totals.correction, totals.influence)
            if not np.isfinite(self.estimate_.standard_error):
                raise InputError("The standard error overflowed; scale rewards and features to moderate numbers.")
            self._summary = {
                "method": "DiffLSTD (closed form)",
                "features": self.features_,
                **({} if maps is None else maps.words(self.seed_rates_, self.spread_)),
                "ridge": self.ridge_,
                **({"dual_jitter": solution.jitter} if solution.jitter else {}),
                "standard_errors": self._sampling_words(),
                **({} if running.device is None else {"device": device_words(running.device)}),
                **({"draws": self.draws} if prepared.draws_are_used else {}),
                "random_state": self.random_state,
            }
            self._known = solution.known
            return self._end()

    def _device(self, run: Run, prepared: Prepared) -> Any:
        """The accelerator of the passes; None: NumPy. Sparse features and rewards alone gain nothing from one."""
        check_device(self.device)
        if run.engine != "local" and self.device == "gpu":
            raise InputError(
                Sentence(
                    "{device} needs {local}: workers of a cluster compute with NumPy. Got {engine}; leave out one of them.",
                    device=argument("device", "gpu"),
                    local=argument("engine", "local"),
                    engine=argument("engine", run.engine),
                )
            )
        if prepared.is_logged or isinstance(prepared.map, OneHot) or run.engine != "local":
            return None
        return None if self.device == "auto" and prepared.num_rows < WORTH else accelerator(self.device)

    def _running(self, run: Run, prepared: Prepared, maps: NetworkMaps | None) -> Running:
        """How passes are run; the file of a checkpoint depends on the networks of all seeds."""
        kept, device = None, self._device(run, prepared)
        if run.checkpoint is not None:
            settings = {name: getattr(self, name) for name in ("ridge", "standard_errors", "draws", "random_state")}
            if device is not None:
                settings["device"] = f"{device_words(device)} of features and products"
            if maps is not None:
                settings["networks"] = fingerprint(maps.maps)[:12]
            mine = identity(prepared, settings)
            kept = PassCheckpoint(Path(run.checkpoint), prepared.whole, mine, quiet=run.quiet)
        return Running(run.quiet, kept, run.engine, run.address, device)

    def _closed_form(self, prepared: Prepared, relative: float, given: float | None, running: Running) -> Fit:
        """Moments and solution; without a ridge that was given, it is `relative` to the features' mean square."""
        prepared = bounded(prepared).holding()
        sums = run_pass(_moments_pass(prepared, running), prepared, running)
        moments = sums.moments
        ridge = given
        if ridge is None:
            ridge = relative * float(np.mean(moments.mean("xx"))) if relative else 0.0
        with stage("solving", quiet=running.quiet):
            prepared, moments, known = grown(prepared, moments, ridge)
            solution = _solve(prepared, moments, ridge, known, chosen=given is not None)
        if not np.isfinite(solution.reward_rate):
            raise InputError("The closed form overflowed; scale rewards and features to moderate numbers.")
        return Fit(prepared, moments, sums.facts, solution, ridge)

    @classmethod
    def _inside(cls, name: str) -> type:
        if name != "Learned":
            return super()._inside(name)
        from cesaro.estimators.learned import Learned  # JAX takes a second to import

        return Learned

    @property
    def subject_(self) -> Subject:
        if self.prepared_.is_logged:
            return super().subject_
        maps = self._networks
        return replace(
            super().subject_,
            solution=self.solution_,
            moments=self.moments_,
            ridge=self.ridge_,
            networks=None
            if maps is None
            else NetworkFeatures(maps.shared, maps.repeated, self.seed_rates_, self.spread_),
        )


def _moments_pass(prepared: Prepared, running: Running) -> MomentsPass:
    """The first pass, where `running` has it run."""
    if running.device is None:
        return MomentsPass()
    from cesaro.passes.accelerator import Accelerator  # loads JAX

    return MomentsPass(elsewhere=Accelerator(running.device, prepared).moments)


def _influence_pass(plan: Plan, solution: ClosedForm, prepared: Prepared, running: Running) -> InfluencePass:
    """The second pass, where `running` has it run."""
    if running.device is None:
        return InfluencePass(plan, solution)
    from cesaro.passes.accelerator import Accelerator  # loads JAX

    return InfluencePass(plan, solution, Accelerator(running.device, prepared).influence)


def _solve(prepared: Prepared, moments: Moments, ridge: float, known: ClosedForm | None, chosen: bool) -> ClosedForm:
    """The closed form, which may be known, or the reason why there is none."""
    if isinstance(prepared.map, OneHot):
        return _tabular(prepared.map, moments, ridge)
    solution = dense.solve(moments, ridge) if known is None else known
    if solution.is_identified:
        return solution
    problem = not_identified(prepared)
    if chosen and ridge > 0:
        _warn_ridge(problem)
        return solution
    raise tabular.NotIdentified(Sentence("{problem}; {remedy}.", problem=problem, remedy=remedy(prepared)))


def _tabular(one_hot: OneHot, moments: Moments, ridge: float) -> ClosedForm:
    if ridge == 0:
        return tabular.solve(moments, 0.0, one_hot.label)
    bare = tabular.attempt(moments, one_hot.label)
    if isinstance(bare, tabular.NotIdentified):
        _warn_ridge(str(bare).partition(";")[0])
    return replace(tabular.solve(moments, ridge, one_hot.label), bare=bare)


def _warn_ridge(problem: str) -> None:
    warnings.warn(
        f"{problem}; the answer comes from the ridge, not from data, and its interval says nothing about that.",
        EvaluationWarning,
        stacklevel=4,
    )
