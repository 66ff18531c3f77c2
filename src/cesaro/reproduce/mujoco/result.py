"""What came out of the MuJoCo study: a cell per environment, noise and method, and the claim of the paper."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.learning.settings import Setting
from cesaro.reproduce.mujoco.config import BASELINE, CLAIMED, METHODS, Config, Place

LABELS = {"diff-sgq": "Diff-SGQ", CLAIMED: "Diff-GQ1", "diff-gq2": "Diff-GQ2", BASELINE: "GradientDICE"}
# A margin counts as clear from this many standard errors on.
CLEAR = 2.0


class Rate(NamedTuple):
    """A mean reward by simulation, with its standard error from batch means."""

    value: float
    standard_error: float


@dataclass(frozen=True)
class Cell:
    """A method on one log.

    Attributes:
        settings: the paper's `lr`, and `lam` for GradientDICE.
        truth: the target's rate.
        reward_rate: mean r̂ over the last 100 minibatches at every record, `[settings, runs, records]`; nan once diverged.
        diverged_at: the sample at which a run diverged, `[settings, runs]`; −1 where it did not.
        minibatches: at every record.
        best: number of the setting with the lowest mean final error; None if each had a diverged run.
        offline: its second estimate, `[runs]`: what the final networks give over all rows.
        seconds: that learning and the second estimate took.
    """

    method: str
    settings: list[Setting]
    truth: float
    reward_rate: Array
    diverged_at: NDArray[np.int64]
    minibatches: Array
    best: int | None
    offline: Array
    seconds: float

    @cached_property
    def errors(self) -> Array:
        """Final errors, `[settings, runs]`; infinite for the settings of which some run diverged."""
        final = np.abs(self.reward_rate[:, :, -1] - self.truth)
        return np.where((self.diverged_at >= 0).any(axis=1, keepdims=True), np.inf, final)

    @property
    def diverged(self) -> NDArray[np.int64]:
        """How many runs diverged, `[settings]`."""
        return np.asarray((self.diverged_at >= 0).sum(axis=1))

    @property
    def mean(self) -> Array:
        """Of the final errors over runs, `[settings]`."""
        return np.asarray(self.errors.mean(axis=1))

    @property
    def std(self) -> Array:
        """Of the final errors over runs, `[settings]`; infinite where a run diverged."""
        runs = np.where(np.isinf(self.errors), 0.0, self.errors).std(axis=1)
        return np.where(np.isinf(self.mean), np.inf, runs)

    @property
    def final(self) -> Array:
        """Final errors at the best setting, `[runs]`; none if there is no best."""
        return self.errors[0, :0] if self.best is None else self.errors[self.best]

    @property
    def error(self) -> float:
        return math.inf if self.best is None else float(self.mean[self.best])

    @property
    def spread(self) -> float:
        return math.inf if self.best is None else float(self.std[self.best])

    @property
    def rates(self) -> Array:
        """Rates at the best setting, `[runs, records]`; none if there is no best."""
        return self.reward_rate[0, :0] if self.best is None else self.reward_rate[self.best]

    @property
    def curve(self) -> tuple[Array, Array]:
        """Mean error over runs at every record, and its standard deviation; for the best setting, which must exist."""
        errors = np.abs(self.rates - self.truth)
        return errors.mean(axis=0), errors.std(axis=0)

    @property
    def rate(self) -> Rate:
        """Mean final r̂ at the best setting."""
        return _mean(self.rates[:, -1])

    @property
    def second(self) -> Rate:
        """Mean second estimate."""
        return _mean(self.offline)

    @property
    def second_error(self) -> tuple[float, float]:
        """Mean and standard deviation over runs of the second estimate's error."""
        if self.best is None:
            return math.nan, math.nan
        errors = np.abs(self.offline - self.truth)
        return float(errors.mean()), float(errors.std())


@dataclass(frozen=True)
class Claim:
    """Whether the paper's method is best somewhere; clearly: against every other method.

    Attributes:
        rival: the best of the other methods.
        margin, standard_error: the rival's final error minus the claimed method's, paired over runs.
        is_best: whether its error is the lowest of all.
        is_clearly_best: by more than two standard errors against every other method.
        is_clearly_beaten: some other method is better by more than two standard errors.
    """

    rival: str
    margin: float
    standard_error: float
    is_best: bool
    is_clearly_best: bool
    is_clearly_beaten: bool


@dataclass(frozen=True)
class Result:
    """Everything the tables and figures show.

    Attributes:
        truths: rates of the targets, by environment.
        behaviors: mean logged rewards, by environment and noise.
        cells: by environment and noise, and method.
        actors, data: checksums, by environment, and by recording.
    """

    config: Config
    truths: dict[str, Rate]
    behaviors: dict[Place, Rate]
    cells: dict[tuple[Place, str], Cell]
    actors: dict[str, str]
    data: dict[str, str]

    def margin(self, place: Place, method: str) -> tuple[float, float] | None:
        """Another method's final error minus Diff-GQ1's, and the standard error of this mean of paired differences.

        None where every setting of either diverged.
        """
        own, other = self.cells[place, CLAIMED], self.cells[place, method]
        if own.best is None or other.best is None:
            return None
        difference = other.final - own.final
        return float(difference.mean()), float(difference.std(ddof=1) / math.sqrt(len(difference)))

    def claim(self, place: Place) -> Claim:
        """How Diff-GQ1 compares in a place. A method of which every setting diverged loses to any other."""
        own = self.cells[place, CLAIMED]
        others = [method for method in METHODS if method != CLAIMED]
        rival = min(others, key=lambda method: self.cells[place, method].error)
        margins = {method: self.margin(place, method) for method in others}
        if own.best is None:
            beaten = self.cells[place, rival].best is not None
            return Claim(rival, math.nan, math.nan, False, False, beaten)
        found = [margin for margin in margins.values() if margin is not None]
        rivals = margins[rival]
        return Claim(
            rival,
            *((math.inf, math.nan) if rivals is None else rivals),
            is_best=own.error < self.cells[place, rival].error,
            is_clearly_best=all(mean > CLEAR * error for mean, error in found),
            is_clearly_beaten=any(mean < -CLEAR * error for mean, error in found),
        )

    @cached_property
    def claims(self) -> dict[Place, Claim]:
        return {place: self.claim(place) for place in self.config.places}

    @property
    def claim_holds(self) -> bool:
        """Whether Diff-GQ1 is best in every place."""
        return all(claim.is_best for claim in self.claims.values())

    def behavior_error(self, place: Place) -> float:
        """What taking the mean logged reward for the target's rate errs by."""
        return abs(self.behaviors[place].value - self.truths[place[0]].value)

    def lowest(self, place: Place) -> str:
        """The method with the lowest final error."""
        return min(METHODS, key=lambda method: self.cells[place, method].error)

    def seconds(self, place: Place) -> float:
        return sum(self.cells[place, method].seconds for method in METHODS)

    def summary(self) -> dict[str, Any]:
        """The findings in JSON values; times are no part of them."""
        claims = self.claims.values()
        return {
            "truths": {env: _rounded(*rate) for env, rate in self.truths.items()},
            "claim_holds": self.claim_holds,
            "best": sum(claim.is_best for claim in claims),
            "clearly_best": sum(claim.is_clearly_best for claim in claims),
            "clearly_beaten": sum(claim.is_clearly_beaten for claim in claims),
            "places": {
                f"{place[0]} {place[1]:g}": {
                    "behavior": _rounded(*self.behaviors[place]),
                    "lowest": self.lowest(place),
                    "methods": {method: self._summary(self.cells[place, method]) for method in METHODS},
                }
                for place in self.config.places
            },
            "actors": self.actors,
            "data": self.data,
        }

    def _summary(self, cell: Cell) -> dict[str, Any]:
        return {
            "setting": None if cell.best is None else cell.settings[cell.best],
            "final_error": _rounded(cell.error, cell.spread),
            "second_error": _rounded(*cell.second_error),
            "settings_with_divergence": int((cell.diverged > 0).sum()),
        }


def _mean(values: Array) -> Rate:
    if not len(values):
        return Rate(math.nan, math.nan)
    return Rate(float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values))))


def _rounded(*values: float) -> list[float | None]:
    return [round(value, 4) if math.isfinite(value) else None for value in values]
