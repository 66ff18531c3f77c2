"""The base of every estimator: parameters, the answer, values, files."""

import os
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from cesaro import checks
from cesaro.checks import Array
from cesaro.diagnostics import Diagnostic, Subject, diagnose
from cesaro.engines import check_engine
from cesaro.errors import EvaluationWarning, InputError
from cesaro.estimators import stored
from cesaro.estimators.pairs import Inputs
from cesaro.estimators.registry import Kind
from cesaro.estimators.run import Run
from cesaro.features import FeatureMap
from cesaro.passes.influence import InfluencePass, Plan, Series, Totals
from cesaro.passes.moments import MomentsPass, RowFacts
from cesaro.passes.prepare import Prepared
from cesaro.passes.run import Running, run_pass
from cesaro.passes.standard_errors import Estimate, Sampling
from cesaro.text import Sentence, Wording, argument


class Estimator(BaseEstimator, stored.Storable):  # type: ignore[misc] # scikit-learn has no types
    """A reward rate from a log. Constructors store their arguments; `fit` validates; learned attributes end in `_`.

    Attributes:
        kind: how the estimate comes about.
        reward_rate_: the estimate.
        standard_error_: of it, from the influence series; NaN for methods that have none.
        sampling_: the formula of the standard error, and why.
        features_: the features that were used, in words.
        rates_: what the target earns in a learned world; None where it was run in none.
    """

    kind: Kind = "closed form"
    rates_: Any = None
    run: Run | None
    checkpoint: str | os.PathLike[str] | None
    engine: str
    address: str | None
    quiet: bool
    prepared_: Prepared
    facts_: RowFacts
    totals_: Totals
    estimate_: Estimate
    behavior_: Estimate
    sampling_: Sampling
    features_: str
    standard_errors: str
    weights_: Array
    level_: float
    features: Any
    _summary: dict[str, Any]
    _diagnostics: tuple[Diagnostic, ...] | None = None
    _known: NDArray[np.bool_] | None
    _map: FeatureMap | None
    _inputs: Inputs | None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimate_")

    def _fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit(log, policy) first.")

    @property
    def reward_rate_(self) -> float:
        """The estimate of the target's reward rate."""
        self._fitted()
        return self.estimate_.value

    @property
    def standard_error_(self) -> float:
        """The standard error of `reward_rate_`; NaN for methods that have none."""
        self._fitted()
        return self.estimate_.standard_error

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Two-sided interval for the limit in the chosen features at the chosen ridge; representation error is not covered."""
        self._fitted()
        return self.estimate_.interval(confidence)

    def _run(self) -> Run:
        """How the fit is run: `run`, or the parameters that it stands for."""
        single = {name: getattr(self, name) for name in vars(Run())}
        if self.run is None:
            chosen = Run(**single)
        elif not isinstance(self.run, Run):
            raise InputError(f"run must be a cesaro.Run, such as Run(quiet=True). Got {self.run!r}.")
        elif twice := [name for name, value in single.items() if value != getattr(Run(), name)]:
            raise InputError(f"{twice[0]} must be given once, in run or beside it. Got both; leave out one of them.")
        else:
            chosen = self.run
        check_engine(chosen.engine, chosen.address)
        return chosen

    def _sampling_words(self) -> str:
        return f"{self.sampling_.rule} ({self.sampling_.reason})"

    def _begin(self, prepared: Prepared, facts: RowFacts | None = None) -> Plan:
        """Forget an earlier fit, and keep what is known from the start; `facts`: of the first pass, if there was one."""
        for name in set(vars(self)) - set(self.get_params(deep=False)):
            delattr(self, name)
        if facts is None:
            facts = run_pass(MomentsPass(has_features=False), prepared, Running(quiet=True)).facts
        self.facts_, self.sampling_ = facts, prepared.sampling(self.standard_errors, facts.chained)
        self.prepared_, self.features_ = prepared, prepared.description
        self._map = prepared.map
        self._inputs = None if prepared.log is None else Inputs.of(prepared.sample.rows)
        return Plan.of(prepared, self.sampling_, facts)

    def _count(self, totals: Totals) -> None:
        """Keep the second pass, and what the log earned."""
        self.totals_ = totals
        earned = totals.behavior.whole
        self.behavior_ = self.sampling_.over_time().estimate(self.facts_.mean + earned.mean, earned.centered())

    def _end(self) -> Self:
        if self.sampling_.rule == "independent" and self.standard_errors == "auto":
            warnings.warn(
                Sentence(
                    "Standard errors take rows as independent ({reason}); if they come from one system over time, name the "
                    "columns that order them ({trajectory}, {time}), or use {long_run}.",
                    reason=self.sampling_.reason,
                    trajectory=Wording("trajectory=COLUMN", "--trajectory COLUMN"),
                    time=Wording("time=COLUMN", "--time COLUMN"),
                    long_run=argument("standard_errors", "long-run"),
                ),
                EvaluationWarning,
                stacklevel=3,
            )
        return self

    def _fit_logged(self, plan: Plan, running: Running) -> Self:
        """The policy `logged`: what the log earned."""
        self._count(run_pass(InfluencePass(plan, None), self.prepared_, running))
        self.estimate_ = self.behavior_
        self._summary = {"method": "mean logged reward", "standard_errors": self._sampling_words()}
        warnings.warn(
            "'logged' is the mean logged reward. It is the rate of the logging policies only if the log is stationary (nothing "
            "changes over time), or complete from restart to restart.",
            EvaluationWarning,
            stacklevel=3,
        )
        return self

    # What a file keeps beside the parameters; enough for the answer and for values, not for the series.
    _STORED: tuple[str, ...] = ("estimate_", "behavior_", "features_", "_summary", "_diagnostics")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file, without pickle; features must be our own."""
        stored.save(path, type(self).__name__, self.stored_content())

    def stored_content(self) -> dict[str, Any]:
        """The content of a file: parameters, and what was fitted."""
        self._fitted()
        self._diagnostics = self.diagnostics_
        fitted = {name: getattr(self, name) for name in self._STORED if hasattr(self, name)}
        return {"parameters": self.get_params(deep=False), "fitted": fitted}

    def _restore(self, fitted: dict[str, Any]) -> None:
        """Set what a file kept."""
        for name, value in fitted.items():
            setattr(self, name, value)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load what `save` wrote: rate, interval, diagnostics and `predict`; the series over rows are not kept."""
        result: Self = stored.restored(cls, stored.load(path, cls.__name__, cls._inside))
        return result

    @classmethod
    def _inside(cls, name: str) -> type:
        """The class of an estimator that this one takes as its features."""
        raise ValueError(f"an estimator {name!r} inside another")

    def summary_(self) -> dict[str, Any]:
        """Settings and sizes of the fit, in words and numbers."""
        self._fitted()
        return dict(self._summary)

    @property
    def diagnostics_(self) -> tuple[Diagnostic, ...]:
        """Findings on what could be wrong with the estimate."""
        self._fitted()
        if self._diagnostics is None:
            self._diagnostics = diagnose(self.subject_)
        return self._diagnostics

    @property
    def subject_(self) -> Subject:
        """The subject of diagnostics and views."""
        self._fitted()
        return Subject(
            prepared=self.prepared_,
            sampling=self.sampling_,
            estimate=self.estimate_,
            behavior=self.behavior_,
            facts=self.facts_,
            totals=self.totals_,
            features=self.features,
            solution=None,
            moments=None,
            ridge=0.0,
            lam=1.0,
        )

    @property
    def has_values(self) -> bool:
        """Whether `predict` gives values: 'logged' has none, and neither has a density ratio."""
        return getattr(self, "weights_", None) is not None

    def fit(self, data: Any, policy: Any = None) -> Self:
        """Estimate the rate of `policy` from `data`, a log; ready features need no policy."""
        raise NotImplementedError

    @property
    def influence_(self) -> Array:
        """The influence of every row on the rate, `[n]`, with mean zero; NaN for a method that has none."""
        totals = self._kept("influence of rows")
        if self.prepared_.is_logged:
            return self.behavior_influence_
        if totals.target is None:
            return np.full(self.prepared_.num_rows, np.nan)
        return Series.joined(totals.kept).influence - totals.correction

    @property
    def behavior_influence_(self) -> Array:
        """The influence of every row on the mean logged reward, `[n]`, with mean zero."""
        self._kept("influence of rows")
        influence = []
        for block in self.prepared_.data.blocks():
            weights = 1.0 if block.weights is None else block.weights * (self.facts_.rows / self.facts_.weight)
            influence.append((block.rewards - self.behavior_.value) * weights)
        return np.concatenate(influence)

    @property
    def density_ratio_(self) -> Array:
        """`d_π/d_μ` at every row, as the limit implies it, `[n]`."""
        totals = self._kept("density ratio")
        if totals.target is None:
            raise InputError("There is no density ratio here: 'logged' and networks have none.")
        return Series.joined(totals.kept).ratio

    def _kept(self, what: str) -> Totals:
        """The second pass, with series over rows; raises where they are not kept."""
        self._fitted()
        if not hasattr(self, "totals_"):
            raise InputError(f"There is no {what} here, because files do not keep series over rows; fit again.")
        if not self.totals_.plan.keeps:
            raise InputError(
                f"There is no {what} here, because the {self.prepared_.num_rows:,} rows of the log are streamed; fit on a part "
                "of it, or read it into memory (read(…, stream=False))."
            )
        return self.totals_

    def predict(self, observations: Any, actions: Any = None) -> Array:
        """Differential values `q(s, a)` with mean zero under the target, `[n]`; NaN where the log determines none.

        After a fit on ready features, `observations` are features `[n, K]`.
        """
        x, weights = self._features(observations, actions, "weights_")
        values = np.asarray(x @ weights - self.level_)
        return values if self._known is None else np.where(x @ self._known > 0.5, values, np.nan)

    def _features(self, observations: Any, actions: Any, name: str) -> tuple[Any, Array]:
        """Features of pairs, and the fitted weights of that name."""
        self._fitted()
        weights = getattr(self, name, None)
        if weights is None:
            raise InputError("The policy 'logged' has a rate and nothing else; give a policy to evaluate.")
        if self._map is None or self._inputs is None:
            return checks.float_array("x", observations, ("row", "feature"), (None, len(weights))), weights
        return self._map.pairs(*self._inputs.pairs(observations, actions)), weights
