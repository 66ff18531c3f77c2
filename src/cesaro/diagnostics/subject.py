"""What the diagnostics look at: a fitted estimator, and at most 100,000 of its rows as features."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.closed_forms import dense, tabular
from cesaro.data import Log
from cesaro.features import OneHot, sample_rows
from cesaro.passes.influence import Series, Solution, Totals, influence
from cesaro.passes.moments import Facts, Moments, MomentsPass
from cesaro.passes.prepare import Prepared, Rows
from cesaro.passes.run import Running, run_pass
from cesaro.passes.standard_errors import Estimate, Sampling, autocorrelation_time

# Numbers of one feature matrix of the sample: 20,971 rows of 800 features, all 100,000 rows up to 167.
SAMPLE_NUMBERS = 2**24
# Rows that are turned into features at a time.
CHUNK = 8_192


@dataclass(frozen=True)
class Subject:
    """A fitted estimator as the checks see it.

    Attributes:
        totals: what the second pass added up.
        ridge, lam: the settings of learned methods.
        solution, moments: of the closed form; None where the estimator has none.
        is_linear: whether values are linear in the features; networks are not.
        most: rows of the sample, at most.
    """

    prepared: Prepared
    sampling: Sampling
    estimate: Estimate
    behavior: Estimate
    facts: Facts
    totals: Totals
    features: object
    solution: Solution | None
    moments: Moments | None
    ridge: float
    lam: float
    is_linear: bool
    most: int = 100_000

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
    def sample(self) -> Rows:
        """The sampled rows as dense features."""
        return gather(excerpt(self.prepared, self.sampled).rows())


def excerpt(prepared: Prepared, chosen: NDArray[np.int64]) -> Prepared:
    """Some rows of the log's sample, in the same features."""
    return prepared.excerpt(prepared.sample.rows.part(chosen))


def gather(blocks: Iterator[Rows]) -> Rows:
    """Several blocks as one, dense."""
    parts = list(blocks)
    x = np.concatenate([_dense(part.x) for part in parts])
    return Rows(
        x,
        np.concatenate([part.rewards for part in parts]),
        np.concatenate([_dense(part.x_next) for part in parts]),
        x if all(part.v is part.x for part in parts) else np.concatenate([_dense(part.v) for part in parts]),
        None if parts[0].weights is None else np.concatenate([p.weights for p in parts if p.weights is not None]),
    )


def _dense(features: NDArray[np.floating] | sp.csr_array) -> NDArray[np.floating]:
    return np.asarray(features.toarray()) if isinstance(features, sp.csr_array) else features


def solved(prepared: Prepared, per_weight: float, relative_ridge: float = 0.0) -> tuple[Solution, Series]:
    """The closed form of some rows and the series of each; the ridge is relative to the features' mean square."""
    moments = run_pass(MomentsPass(), prepared, Running(quiet=True)).moments
    if isinstance(prepared.map, OneHot):
        solution = tabular.solve(moments, 0.0, prepared.map.label)
    else:
        solution = dense.solve(moments, relative_ridge * float(np.mean(moments.mean("xx"))))
    parts = [
        influence(prepared, solution, part, number, per_weight)[0]
        for block in prepared.data.blocks()
        for number, part in enumerate(prepared.parts(block))
    ]
    return solution, Series.joined(parts)


def spectrum(matrix: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues and vectors of a Gram matrix of features at unit size, and the scale that makes them so."""
    norms = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    scale = 1 / np.where(norms > 0, norms, 1.0)
    values, vectors = np.linalg.eigh(scale[:, None] * matrix * scale)
    return np.asarray(values), np.asarray(vectors), np.asarray(scale)
