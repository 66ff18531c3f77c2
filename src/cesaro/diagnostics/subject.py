"""The subject of diagnostics: a fitted estimator, and at most 100,000 of its rows as features."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.closed_forms import dense, tabular
from cesaro.closed_forms.plug_in import PlugIn
from cesaro.data import Log
from cesaro.diagnostics.worlds import WorldFacts
from cesaro.engines.local import decomposing_threads
from cesaro.features import OneHot, sample_rows
from cesaro.features.networks import Members
from cesaro.passes.influence import ClosedForm, Series, Totals, series_of
from cesaro.passes.moments import Moments, MomentsPass, RowFacts
from cesaro.passes.prepare import FeatureRows, Prepared
from cesaro.passes.run import Running, joined_rows, run_pass
from cesaro.passes.standard_errors import Estimate, Sampling, autocorrelation_time

# Numbers of one feature matrix of the sample: 20,971 rows of 800 features, all 100,000 rows up to 167.
SAMPLE_NUMBERS = 2**24
# Rows that are turned into features at a time.
CHUNK = 8_192


@dataclass(frozen=True, kw_only=True)
class Runs:
    """The runs of all seeds. The attribute `NAME_` of a fitted `Learned` is the field `NAME`, which it says the meaning of.

    Attributes:
        seed_rates: `[seeds]`; NaN where a run diverged.
        diverged_at: the step at which a run diverged, `[seeds]`; −1 where it did not.
        spread, learning_error: over runs that did not diverge.
        step_size, steps, ridge, batch_size: what was used.
        limit, reached, steps_needed, time_constant: of linear functions; NaN, False, None and NaN where they are not known.
        level: the mean of values under the target.
        is_buffered: whether runs drew from a shuffle buffer.
        weights, ratio_weights: of linear functions, of values or of a density ratio, `[K]`; None where there are none.
        plug_in: convergence and stable steps of linear functions; files do not keep it.
        members: the networks; None for linear functions, and then so is everything below.
        levels: the mean of each network over pairs, in its own units, `[seeds]`.
        scale: what the rewards of networks were divided by.
        earlier_rates: of each run, the mean rate over the quarter before the last, `[seeds]`.
        offline_rates: `mean R + q(x') − q(x)` over all rows, `[seeds]`; None for a density ratio.
        ratio_rates: `mean τR` over all rows, `[seeds]`; None for values.
        rows_digest: which rows the networks were fitted on.
    """

    seed_rates: Array
    diverged_at: NDArray[np.int64]
    spread: float
    learning_error: float
    step_size: float
    steps: int
    ridge: float
    batch_size: int
    limit: float = float("nan")
    reached: bool = False
    steps_needed: int | None = None
    time_constant: float = float("nan")
    level: float = 0.0
    is_buffered: bool = False
    weights: Array | None = None
    ratio_weights: Array | None = None
    plug_in: PlugIn | None = None
    members: Members | None = None
    levels: Array | None = None
    scale: float | None = None
    earlier_rates: Array | None = None
    offline_rates: Array | None = None
    ratio_rates: Array | None = None
    rows_digest: NDArray[np.uint64] | None = None

    @property
    def diverged(self) -> NDArray[np.bool_]:
        """Which runs diverged, `[seeds]`."""
        return self.diverged_at >= 0

    @property
    def learns_ratio(self) -> bool:
        """Whether runs learned a density ratio and no values."""
        return self.ratio_weights is not None or self.ratio_rates is not None

    @classmethod
    def of_attributes(cls, attributes: dict[str, Any]) -> Self:
        """Make it from the attributes of a fitted estimator, as files keep them."""
        names = {field.name for field in fields(cls)}
        return cls(**{name[:-1]: value for name, value in attributes.items() if name[:-1] in names})


@dataclass(frozen=True)
class NetworkFeatures:
    """Networks whose last hidden layers are the features, one closed form per seed.

    Attributes:
        shared: the share of the log's rows that the networks were fitted on.
        repeated: whether most rows of the log equal others.
        rates: of each seed, `[seeds]`; NaN where it has no answer.
        spread: their standard deviation.
    """

    shared: float
    repeated: bool
    rates: Array
    spread: float


@dataclass(frozen=True)
class Subject:
    """A fitted estimator as the checks see it.

    Attributes:
        totals: what the second pass added up.
        ridge, lam: the settings of learned methods.
        solution, moments: of the closed form; None where the estimator has none.
        most: rows of the sample, at most.
        runs: of a learned method; None for the closed form and for the policy `logged`.
        label: what answers call that method.
        networks: whose last hidden layers are the features; None for other features.
        world: that the estimate comes from; None for other methods.
    """

    prepared: Prepared
    sampling: Sampling
    estimate: Estimate
    behavior: Estimate
    facts: RowFacts
    totals: Totals
    features: object
    solution: ClosedForm | None
    moments: Moments | None
    ridge: float
    lam: float
    most: int = 100_000
    runs: Runs | None = None
    label: str = ""
    networks: NetworkFeatures | None = None
    world: WorldFacts | None = None

    @property
    def is_linear(self) -> bool:
        """Whether values are linear in the features; networks and worlds are not."""
        return self.world is None and (self.runs is None or self.runs.members is None)

    @property
    def log(self) -> Log | None:
        return self.prepared.log

    @property
    def num_rows(self) -> int:
        return self.prepared.num_rows

    @property
    def has_series(self) -> bool:
        """Whether the influence of rows is known."""
        return self.totals.target is not None

    @property
    def in_rewards(self) -> str:
        """Words behind a rate with a sign where the log holds costs, which have the other one; empty for rewards."""
        return " in rewards" if self.log is not None and self.log.schema.settings.cost else ""

    @cached_property
    def length(self) -> float:
        """How many rows are worth one independent row of the estimate."""
        series = self.totals.target or self.totals.behavior
        return autocorrelation_time(series.whole)

    @cached_property
    def scale(self) -> float:
        """The size of a rate: the larger of the target's and the log's."""
        return max(abs(self.estimate.value), abs(self.behavior.value))

    @cached_property
    def sampled(self) -> NDArray[np.int64]:
        """Which rows of the log's sample the checks take features of."""
        most = SAMPLE_NUMBERS // max(1, self.prepared.num_features)
        size = max(1_000, min(self.most, most))
        return sample_rows(len(self.prepared.sample.index), self.prepared.random_state, size)

    @cached_property
    def sample(self) -> FeatureRows:
        """The sampled rows as dense features."""
        return joined_rows(excerpt(self.prepared, self.sampled))


def excerpt(prepared: Prepared, chosen: NDArray[np.int64]) -> Prepared:
    """Some rows of the log's sample, in the same features."""
    return prepared.excerpt(prepared.sample.rows.part(chosen))


def solved(prepared: Prepared, per_weight: float, relative_ridge: float = 0.0) -> tuple[ClosedForm, Series]:
    """The closed form of some rows and the series of each; the ridge is relative to the features' mean square."""
    moments = run_pass(MomentsPass(), prepared, Running(quiet=True)).moments
    if isinstance(prepared.map, OneHot):
        solution = tabular.solve(moments, 0.0, prepared.map.label)
    else:
        solution = dense.solve(moments, relative_ridge * float(np.mean(moments.mean("xx"))))
    return solution, series_of(prepared, solution, per_weight)


def spectrum(matrix: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues and vectors of a Gram matrix of features at unit size, and the scale that makes them so."""
    norms = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    scale = 1 / np.where(norms > 0, norms, 1.0)
    with decomposing_threads(len(matrix)):
        values, vectors = np.linalg.eigh(scale[:, None] * matrix * scale)
    return np.asarray(values), np.asarray(vectors), np.asarray(scale)
