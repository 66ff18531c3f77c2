"""What the diagnostics look at: a fitted estimator, and at most 100,000 of its rows as features."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data import Block, FeatureTransitions, Transitions
from cesaro.estimators.closed_form import Solution
from cesaro.estimators.diagnostics import Diagnostic, Verdict
from cesaro.estimators.influence import Estimate, Sampling
from cesaro.estimators.moments import Moments, Rows
from cesaro.estimators.pipeline import Prepared
from cesaro.estimators.series import Series
from cesaro.features import FeatureMap, sample_rows
from cesaro.features.maps import Joint, PerAction

if TYPE_CHECKING:
    from cesaro.estimators.base import Estimator

# Numbers of one feature matrix of the sample: 20,971 rows of 800 features, all 100,000 rows up to 167.
SAMPLE_NUMBERS = 2**24
# Rows that are turned into features at a time.
CHUNK = 8_192


@dataclass(frozen=True)
class Subject:
    """A fitted estimator as the checks see it.

    Attributes:
        influence: of each row on the rate, `[n]`.
        ridge, lam: the settings of learned methods.
        solution, moments, series: of the closed form; None where the estimator has none.
        is_linear: whether values are linear in the features; networks are not.
        most: rows of the sample, at most.
    """

    prepared: Prepared
    sampling: Sampling
    estimate: Estimate
    behavior: Estimate
    influence: Array
    behavior_influence: Array
    features: object
    solution: Solution | None
    moments: Moments | None
    series: Series | None
    ridge: float
    lam: float
    is_linear: bool
    most: int = 100_000

    @staticmethod
    def of(estimator: "Estimator") -> "Subject":
        return Subject(
            estimator.prepared_,
            estimator.sampling_,
            estimator.estimate_,
            estimator.behavior_,
            estimator.influence_,
            estimator.behavior_influence_,
            getattr(estimator, "features", None),
            getattr(estimator, "solution_", None),
            getattr(estimator, "moments_", None),
            getattr(estimator, "series_", None),
            getattr(estimator, "ridge_", 0.0),
            getattr(estimator, "lam", 1.0),
            not hasattr(estimator, "members_"),
        )

    @property
    def log(self) -> Transitions | None:
        return self.prepared.log

    @property
    def num_rows(self) -> int:
        return self.prepared.num_rows

    @cached_property
    def scale(self) -> float:
        """The size of a rate: the larger of the target's and the log's."""
        return max(abs(self.estimate.value), abs(self.behavior.value))

    @cached_property
    def sampled(self) -> NDArray[np.int64]:
        """Row numbers of the sample."""
        most = SAMPLE_NUMBERS // max(1, self.prepared.num_features)
        return sample_rows(self.num_rows, self.prepared.random_state, max(1_000, min(self.most, most)))

    @cached_property
    def sample(self) -> Rows:
        """The sampled rows as dense features."""
        return gather(subset(self.prepared, self.sampled).rows())


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


class SecondMap(NamedTuple):
    """Features, and an extension of them for the dual; None: they are their own dual."""

    map: FeatureMap
    extension: PerAction | Joint | None


class Subset(Prepared):
    """Some rows of a log, with the same or another feature map."""

    def __init__(self, whole: Prepared, index: NDArray[np.int64], other: SecondMap | None) -> None:
        self.__dict__.update(whole.__dict__)
        assert self.log is not None
        self.num_rows, self._index = len(index), index
        self.rewards = whole.rewards[index]
        self.weights = None if whole.weights is None else whole.weights[index]
        if other is not None:
            self.map, self.dual, self._extension = other.map, other.extension, other.extension
        self._parts = self.log.observations, self.log.actions, self.log.next_observations

    def rows(self, repeat: int = 0) -> Iterator[Rows]:
        for number, start in enumerate(range(0, self.num_rows, CHUNK)):
            here = slice(start, start + CHUNK)
            index = self._index[here]
            observations, actions, after = (part.take(index) for part in self._parts)
            weights = None if self.weights is None else self.weights[here]
            segment = np.zeros(len(index), dtype=np.int64)
            block = Block((0, number), observations, actions, self.rewards[here], after, weights, None, segment, None)
            yield self.features_of(block, repeat)


def subset(prepared: Prepared, index: NDArray[np.int64], other: SecondMap | None = None) -> Prepared:
    """Rows `index` of what an estimator was fitted on."""
    if prepared.log is not None:
        return Subset(prepared, index, other)
    rows = gather(_chosen(prepared, index))
    data = FeatureTransitions(rows.x, rows.rewards, rows.x_next, weights=rows.weights)
    return Prepared(
        data, None, features="auto", dual_features="same", draws=prepared.draws, random_state=prepared.random_state
    )


def _chosen(prepared: Prepared, index: NDArray[np.int64]) -> Iterator[Rows]:
    """Rows `index`, in order, of every block that has some."""
    start = 0
    for block in prepared.rows():
        low, high = np.searchsorted(index, (start, start + len(block)))
        if low < high:
            here = index[low:high] - start
            x = block.x[here]
            weights = None if block.weights is None else block.weights[here]
            yield Rows(x, block.rewards[here], block.x_next[here], x, weights)
        start += len(block)


def at_most(value: float, caution: float, bad: float) -> Verdict:
    """Small is good; what is not a number is bad."""
    return "ok" if value <= caution else "caution" if value <= bad else "bad"


def at_least(value: float, caution: float, bad: float) -> Verdict:
    """Large is good; what is not a number is bad."""
    return "ok" if value >= caution else "caution" if value >= bad else "bad"


def finding(name: str, value: float | None, verdict: Verdict, sentence: str, remedy: str = "") -> Diagnostic:
    """What is ok needs no remedy."""
    return Diagnostic(name, value, verdict, sentence, "" if verdict == "ok" else remedy)


def percent(share: float) -> str:
    """`3.2 %`; small shares keep a digit."""
    return f"{100 * share:.2g} %" if 0 < share < 0.1 else f"{100 * share:.0f} %"


def spectrum(matrix: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues and vectors of a Gram matrix of features at unit size, and the scale that makes them so."""
    norms = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    scale = 1 / np.where(norms > 0, norms, 1.0)
    values, vectors = np.linalg.eigh(scale[:, None] * matrix * scale)
    return np.asarray(values), np.asarray(vectors), np.asarray(scale)
