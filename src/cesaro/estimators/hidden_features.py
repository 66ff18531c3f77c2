"""The closed form on what networks learned: one fit per seed, the answer from the one with the median rate. No JAX."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from cesaro.checks import Array
from cesaro.closed_forms.tabular import NotIdentified
from cesaro.data import FeatureTransitions, Log
from cesaro.diagnostics.finding import nearly
from cesaro.errors import InputError
from cesaro.estimators.pairs import Inputs, Role
from cesaro.features import FeatureMap
from cesaro.passes.influence import ClosedForm
from cesaro.passes.moments import Moments, RowFacts
from cesaro.passes.prepare import Prepared
from cesaro.passes.repeats import distinct, overlap, row_hashes

# The ridge of hidden units, relative to their mean square: some are dead, others nearly alike.
RELATIVE_RIDGE = 1e-6
DEAD = "Every unit of the networks' last hidden layer is zero on all rows; train other networks, with a smaller step_size, say."
# Rows of which fewer are different repeat: equal ones may have been logged apart.
REPEATED = 0.5


class Fit(NamedTuple):
    """A closed form and what it came from."""

    prepared: Prepared
    moments: Moments
    facts: RowFacts
    solution: ClosedForm
    ridge: float


class Fits(NamedTuple):
    """The fits of all seeds: their rates, NaN where there is none, and the fit with the median rate (the lower of two)."""

    rates: Array
    spread: float
    median: Fit


@dataclass(frozen=True)
class NetworkMaps:
    """Feature maps of fitted networks, one per seed; None where the run diverged.

    Attributes:
        maps: `[seeds]`.
        method: that the networks were fitted with.
        shared: the share of rows that the networks were fitted on.
        repeated: whether most rows of the log equal others.
    """

    maps: tuple[FeatureMap | None, ...]
    method: str
    shared: float
    repeated: bool

    @property
    def first(self) -> FeatureMap:
        return next(chosen for chosen in self.maps if chosen is not None)

    def words(self, rates: Array, spread: float) -> dict[str, Any]:
        """Method, rows and spread of the networks, for the summary."""
        used = int(np.isfinite(rates).sum())
        rows = {0.0: "other rows", 1.0: "these rows"}.get(self.shared, f"{nearly(self.shared)} of these rows")
        return {
            "networks": f"{self.method} on {rows}; the answer is that of the median rate of {used} seeds",
            "spread_over_seeds": spread,
        }


class GivesFeatures(ABC):
    """A fitted estimator whose networks may be features.

    Attributes:
        rows_digest_: which rows they were fitted on.
    """

    rows_digest_: NDArray[np.uint64]
    _inputs: Inputs | None

    @property
    @abstractmethod
    def label(self) -> str:
        """The name of its method in answers."""

    @abstractmethod
    def hidden_maps(self) -> list[FeatureMap | None]:
        """The last hidden layer of each seed's value network, as features of pairs; None where the run diverged."""


def network_maps(features: Any, data: Any, dual_features: Any) -> NetworkMaps | None:
    """The maps of a fitted `Learned`; None where `features` is something else. Raises where it does not fit the log."""
    if not isinstance(features, GivesFeatures):
        return None
    if isinstance(data, FeatureTransitions):
        raise InputError("features must not be networks where features come ready; take the log itself.")
    if not (isinstance(dual_features, str) and dual_features in ("auto", "same")):
        raise InputError(f"dual_features must be 'auto' or 'same' beside features of networks. Got {dual_features!r}.")
    try:
        maps = tuple(features.hidden_maps())
    except NotFittedError:
        raise InputError(
            "features must be a fitted Learned. Got one that is not; call its fit(log, policy) first (a clone forgets it)."
        ) from None
    if not isinstance(data, Log):
        return NetworkMaps(maps, features.label, 0.0, False)  # refused with what it should be
    log = data.opened()
    assert features._inputs is not None  # they were fitted on a log
    _check_columns(features._inputs, Inputs.of(next(iter(log.blocks()))))
    hashes = row_hashes(log)
    repeated = len(distinct(hashes)) < REPEATED * len(hashes)
    return NetworkMaps(maps, features.label, overlap(hashes, features.rows_digest_), repeated)


def _check_columns(fitted: Inputs, found: Inputs) -> None:
    """Networks know the columns and labels of their own log, by number."""
    for one, other in ((fitted.observations, found.observations), (fitted.actions, found.actions)):
        if not _alike(one, other):
            raise InputError(
                f"features must be networks that were fitted on a log with the same columns and labels. Got other {one.role}; "
                "fit them on this log, or read both parts as one log and split it."
            )


def _alike(one: Role, other: Role) -> bool:
    same = one.form == other.form and one.names == other.names and len(one.columns) == len(other.columns)
    return same and all(np.array_equal(a, b) for a, b in zip(one.columns, other.columns))


def over_seeds(maps: NetworkMaps, fit: Callable[[FeatureMap], Fit]) -> Fits:
    """One fit per network; raises where none has an answer."""
    rates = np.full(len(maps.maps), np.nan)
    found: dict[int, Fit] = {}
    refusal: NotIdentified | None = None
    for seed, chosen in enumerate(maps.maps):
        if chosen is None:
            continue
        try:
            made = fit(chosen)
            if not np.any(made.moments.mean("xx")):
                raise NotIdentified(DEAD)
        except NotIdentified as problem:
            refusal = problem
            continue
        found[seed], rates[seed] = made, made.solution.reward_rate
    if not found:
        assert refusal is not None
        raise refusal
    order = sorted(found, key=lambda seed: rates[seed])
    kept = rates[order]
    return Fits(rates, float(kept.std(ddof=1)) if len(kept) > 1 else float("nan"), found[order[(len(order) - 1) // 2]])
