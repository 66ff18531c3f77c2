"""The closed form on what networks learned: one fit per seed, the answer from the one with the median rate. No JAX."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError

from cesaro.checks import Array
from cesaro.data import FeatureTransitions, Log
from cesaro.errors import InputError
from cesaro.estimators.closed_form import Solution
from cesaro.estimators.diagnostics import Diagnostic, Verdict
from cesaro.estimators.facts import Facts
from cesaro.estimators.influence import Estimate
from cesaro.estimators.inputs import Inputs, Role
from cesaro.estimators.moments import Moments
from cesaro.estimators.pipeline import Prepared
from cesaro.estimators.row_hashes import distinct, overlap, row_hashes
from cesaro.estimators.tabular import NotIdentified
from cesaro.features import FeatureMap

# The ridge of hidden units, relative to their mean square: some are dead, others nearly alike.
RELATIVE_RIDGE = 1e-6
DEAD = "Every unit of the networks' last hidden layer is zero on all rows; train other networks, with a smaller step_size, say."
# A spread over seeds beyond so many standard errors is outside of the interval.
SPREAD_CAUTION, SPREAD_BAD = 1.0, 3.0
# A share of rows that networks were fitted on from which the interval is in doubt.
SHARED_CAUTION = 0.01
# Rows of which fewer are different repeat: equal ones may have been logged apart.
REPEATED = 0.5


class Fit(NamedTuple):
    """A closed form and what it came from."""

    prepared: Prepared
    moments: Moments
    facts: Facts
    solution: Solution
    ridge: float


class Fits(NamedTuple):
    """Of all seeds: their rates, NaN where there is none, and the fit with the median rate (the lower of two)."""

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
        """For the summary."""
        used = int(np.isfinite(rates).sum())
        rows = {0.0: "other rows", 1.0: "these rows"}.get(self.shared, f"{_percent(self.shared)} of these rows")
        return {
            "networks": f"{self.method} on {rows}; the answer is that of the median rate of {used} seeds",
            "spread_over_seeds": spread,
        }

    def _learned(self) -> Diagnostic:
        if not self.shared:
            return Diagnostic("learned features", 0.0, "ok", "Features were learned from other rows.")
        said = f"Features were learned from {_percent(self.shared)} of the same rows"
        if self.shared <= SHARED_CAUTION:
            return Diagnostic("learned features", self.shared, "ok", f"{said}, too few to matter.")
        return Diagnostic(
            "learned features",
            self.shared,
            "caution",
            f"{said}, and the interval does not cover that choice."
            + (" Rows of this log repeat, so equal ones may be separate events." if self.repeated else ""),
            "Fit the networks on one part of the log's trajectories, and DiffLSTD on the other.",
        )

    def findings(self, estimate: Estimate, rates: Array, spread: float) -> tuple[Diagnostic, ...]:
        """Whose features, and do seeds agree? `rates` and `spread`: of all seeds."""
        learned = self._learned()
        if not np.isfinite(spread):
            return (learned,)
        error = estimate.standard_error
        errors = spread / error if error > 0 else np.inf * spread
        verdict: Verdict = "ok" if errors <= SPREAD_CAUTION else "caution" if errors <= SPREAD_BAD else "bad"
        if spread <= 1e-6 * abs(estimate.value):
            verdict = "ok"
        lost = int((~np.isfinite(rates)).sum())
        without = f" ({lost} of {len(rates)} without an answer)" if lost else ""
        return (
            learned,
            Diagnostic(
                "spread over seeds",
                spread,
                verdict,
                f"Between the features of different seeds the rate has a standard deviation of {spread:.2g}{without}, "
                f"against a standard error of {error:.2g}.",
                ""
                if verdict == "ok"
                else "Train the networks longer, or wider ones; the interval covers one seed's features.",
            ),
        )


def network_maps(features: Any, data: Any, dual_features: Any) -> NetworkMaps | None:
    """The maps of a fitted `Learned`; None where `features` is something else. Raises where it does not fit the log."""
    if not hasattr(features, "hidden_maps"):
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
        return NetworkMaps(maps, features.method, 0.0, False)  # refused with what it should be
    log = data.opened()
    _check_columns(features._inputs, Inputs.of(next(iter(log.blocks()))))
    hashes = row_hashes(log)
    repeated = len(distinct(hashes)) < REPEATED * len(hashes)
    return NetworkMaps(maps, features.method, overlap(hashes, features.rows_digest_), repeated)


def _percent(share: float) -> str:
    """Never "0 %" of some, nor "100 %" of not quite all."""
    return f"{100 * share:.3g} %" if share == 1 or share < 0.999 else "99.9 %"


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
