"""What came out of the pendulum study: the settings that were fitted, a cell for each, and scores over all cells."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.files import Arrays
from cesaro.reproduce.pendulum.config import Config

# The simulation that checks an exact rate must agree within so many standard errors.
CHECK = 4.0


class Setting(NamedTuple):
    """What a user chooses."""

    label: str
    features: str = "auto"
    dual_features: str = "auto"
    ridge: float | str = "auto"

    @property
    def is_default(self) -> bool:
        return self[1:] == Setting("")[1:]


def settings(config: Config) -> tuple[Setting, ...]:
    """The default first; Fourier features with as many dual ones, and with twice as many."""
    found, last = [Setting("default (smooth)")], config.maps[-1]
    duals = (1, 2)
    found += [_fourier(size, times) for times in duals for size in config.maps]
    found += [_fourier(last, times, ridge) for times in duals for ridge in config.ridges]
    found += [Setting(f"polynomial {degree}", f"polynomial:{degree}") for degree in config.degrees]
    return (*found, Setting("linear", "linear"))


def _fourier(size: int, times: int, ridge: float | str = "auto") -> Setting:
    label = f"Fourier {size}/{times * size}" + (f" ridge {ridge:.0e}" if isinstance(ridge, float) else "")
    return Setting(label, f"fourier:{size}", "same" if times == 1 else f"fourier:{times * size}", ridge)


class Truth(NamedTuple):
    """The rate of a controller.

    Attributes:
        rate: exact but for the grid of starts.
        shifted: the same with the grid shifted by a quarter of a cell.
        simulated, standard_error: by simulation.
    """

    rate: float
    shifted: float
    simulated: float
    standard_error: float

    @property
    def is_confirmed(self) -> bool:
        """Whether the simulation agrees."""
        return abs(self.simulated - self.rate) <= CHECK * self.standard_error


class Cell(NamedTuple):
    """What one setting gave for one controller and noise; numbers are over the logs that were answered.

    Attributes:
        answered: logs with an estimate; the others were refused, as they do not identify the rate.
        identified: logs that identify the rate in the features; a ridge answers for the others too.
        estimate, deviation: mean and standard deviation of the estimates (nan with fewer than two).
        standard_error: mean of the reported ones.
        covered: logs whose interval holds the truth.
        errors: of every log, `[logs]`, nan where refused.
        seconds: mean time of a fit.
    """

    controller: str
    noise: float
    setting: Setting
    truth: float
    answered: int
    identified: int
    estimate: float
    deviation: float
    standard_error: float
    covered: int
    errors: Array
    seconds: float


class Score(NamedTuple):
    """What one setting gave over all cells; errors are absolute and of single logs."""

    mean_error: float
    worst_error: float
    answered: int
    identified: int
    covered: int
    logs: int
    seconds: float


@dataclass(frozen=True)
class Result:
    """Every estimate.

    Attributes:
        truths: by controller.
        pieces: by controller, noise and seed: "estimate", "standard_error", "low", "high", each `[settings]`, nan where refused;
            "identified" and "seconds", `[settings]`; "behavior", the mean logged reward; "verdict" and "findings", the names of
            what is not ok with the default, worst first and with their verdicts.
    """

    config: Config
    truths: dict[str, Truth]
    pieces: dict[tuple[str, float, int], Arrays]

    def gathered(self, controller: str, noise: float, name: str) -> NDArray[Any]:
        """Of every log, in the order of seeds."""
        return np.stack([self.pieces[controller, noise, seed][name] for seed in self.config.seeds])

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """By controller and noise, then by setting."""
        found = []
        for controller, noise in self.config.cells:
            truth = self.truths[controller].rate
            names = ("estimate", "standard_error", "low", "high", "identified", "seconds")
            arrays = {name: self.gathered(controller, noise, name) for name in names}
            for i, setting in enumerate(settings(self.config)):
                estimates, standard_errors, low, high, identified, seconds = (arrays[name][:, i] for name in names)
                answered = np.isfinite(estimates)
                count = int(answered.sum())
                found.append(
                    Cell(
                        controller,
                        noise,
                        setting,
                        truth,
                        answered=count,
                        identified=int(identified.sum()),
                        estimate=float(estimates[answered].mean()) if count else math.nan,
                        deviation=float(estimates[answered].std(ddof=1)) if count > 1 else math.nan,
                        standard_error=float(standard_errors[answered].mean()) if count else math.nan,
                        covered=int(((low <= truth) & (truth <= high)).sum()),  # nan is not
                        errors=estimates - truth,
                        seconds=float(seconds.mean()),
                    )
                )
        return tuple(found)

    def of(self, setting: Setting) -> list[Cell]:
        """Its cells."""
        return [cell for cell in self.cells if cell.setting == setting]

    @cached_property
    def scores(self) -> dict[Setting, Score]:
        """By setting, over all cells."""
        found = {}
        for setting in settings(self.config):
            cells = self.of(setting)
            errors = np.abs(np.concatenate([cell.errors for cell in cells]))
            some = bool(np.isfinite(errors).any())
            found[setting] = Score(
                mean_error=float(np.nanmean(errors)) if some else math.nan,
                worst_error=float(np.nanmax(errors)) if some else math.nan,
                answered=sum(cell.answered for cell in cells),
                identified=sum(cell.identified for cell in cells),
                covered=sum(cell.covered for cell in cells),
                logs=len(errors),
                seconds=float(np.mean([cell.seconds for cell in cells])),
            )
        return found

    def behavior(self, controller: str, noise: float) -> float:
        """Mean logged reward over the logs."""
        return float(self.gathered(controller, noise, "behavior").mean())

    @property
    def behavior_error(self) -> float:
        """What taking the mean logged reward for the target's rate errs by: mean over cells and logs, absolute."""
        gaps = [self.gathered(c, noise, "behavior") - self.truths[c].rate for c, noise in self.config.cells]
        return float(np.abs(np.concatenate(gaps)).mean())

    def summary(self) -> dict[str, Any]:
        """The findings in JSON values; times are no part of them."""

        def shown(value: float, digits: int = 4) -> float | None:
            return round(value, digits) if math.isfinite(value) else None

        return {
            "truths": {
                name: {
                    "rate": round(truth.rate, 5),
                    "shifted_grid": round(truth.shifted, 5),
                    "simulated": round(truth.simulated, 5),
                    "simulated_standard_error": round(truth.standard_error, 5),
                    "is_confirmed": truth.is_confirmed,
                }
                for name, truth in self.truths.items()
            },
            "behavior": {f"{c} {noise:g}": round(self.behavior(c, noise), 4) for c, noise in self.config.cells},
            "behavior_mean_error": round(self.behavior_error, 4),
            "default": {
                f"{cell.controller} {cell.noise:g}": {
                    "estimate": shown(cell.estimate),
                    "standard_error": shown(cell.standard_error),
                    "covered": cell.covered,
                    "verdicts": [str(verdict) for verdict in self.gathered(cell.controller, cell.noise, "verdict")],
                }
                for cell in self.of(settings(self.config)[0])
            },
            "settings": {
                setting.label: {
                    "mean_error": shown(score.mean_error),
                    "worst_error": shown(score.worst_error),
                    "answered": score.answered,
                    "identified": score.identified,
                    "covered": score.covered,
                    "logs": score.logs,
                }
                for setting, score in self.scores.items()
            },
        }
