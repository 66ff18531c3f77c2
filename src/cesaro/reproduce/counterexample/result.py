"""What came out of the counterexample study: exponents, trajectories and the exact facts behind them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.linear.stability import Stability
from cesaro.reproduce.counterexample.config import Config

# An exponent counts as positive or negative from this many standard errors on: one-sided error rate 0.0013 each.
CLEAR = 3.0
# Diff-GQ1 and Diff-GQ2 are promised to converge up to this step size.
PROMISED_STEP = 2.0**-6
# Step sizes at which the spectral radius of Diff-SGQ's expected update is evaluated.
EXPECTED_STEPS = tuple(2.0**k for k in range(-20, 11))


@dataclass(frozen=True)
class Cell:
    """A method at a step size. Exponents are per unit of `samples · α`.

    Attributes:
        samples: length of a run.
        exponent: mean over runs of the sampled exponent.
        standard_error: of that mean.
        expected: log ρ(I + αG) of the expected update, what its growth tends to.
        expected_so_far: the expected update's own growth from the same start over the same samples.
        lower_bound: of Diff-SGQ's sampled exponent in the long run; None for the others, and where the bound says nothing.
        log_distance: median over runs of log ‖(r̂, w)‖ at the end. At the start it is log √2.
        closer: share of the runs that end closer to the solution than they began.
    """

    method: str
    step_size: float
    samples: int
    runs: int
    exponent: float
    standard_error: float
    expected: float
    expected_so_far: float
    lower_bound: float | None
    log_distance: float
    closer: float

    @property
    def is_positive(self) -> bool:
        return self.exponent > CLEAR * self.standard_error

    @property
    def is_negative(self) -> bool:
        return self.exponent < -CLEAR * self.standard_error


@dataclass(frozen=True)
class Trajectories:
    """A method's runs at the shown step size.

    Attributes:
        samples: at the marks, `[marks]`.
        expected: log ‖(r̂, w)‖ of the expected update, `[marks]`.
        sampled: the same of every run, `[runs, marks]`.
    """

    method: str
    samples: NDArray[np.int64]
    expected: Array
    sampled: Array


@dataclass(frozen=True)
class Result:
    """Exponents, trajectories and the exact facts behind them.

    Attributes:
        cells: in the order method, step size.
        trajectories: one per method.
        stability: eigenvalues and step limits, by method.
        radii: spectral radius of Diff-SGQ's `I + αA` at `EXPECTED_STEPS`.
    """

    config: Config
    cells: tuple[Cell, ...]
    trajectories: tuple[Trajectories, ...]
    stability: dict[str, Stability]
    radii: Array

    def of(self, method: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.method == method]

    @property
    def expected_update_diverges(self) -> bool:
        """Whether every eigenvalue of A has a positive real part, and every radius exceeds one, as it must."""
        return bool((self.stability["diff-sgq"].eigenvalues.real > 0).all() and (self.radii > 1).all())

    @property
    def sampled_update_diverges(self) -> bool:
        """Whether Diff-SGQ's exponent is positive at every step size."""
        return all(cell.is_positive for cell in self.of("diff-sgq"))

    @property
    def gradient_methods_converge(self) -> bool | None:
        """Whether both exponents are negative up to the promised step size; None if no such step size was run."""
        cells = [cell for cell in self.cells if cell.method != "diff-sgq" and cell.step_size <= PROMISED_STEP]
        return all(cell.is_negative and cell.expected < 0 for cell in cells) if cells else None

    def summary(self) -> dict[str, Any]:
        """The findings in JSON values; complex eigenvalues as [real, imaginary]."""
        methods = {}
        for method, stability in self.stability.items():
            cells = self.of(method)
            methods[method] = {
                "eigenvalues": [
                    [round(value.real, 6), round(value.imag, 6)] for value in stability.eigenvalues.tolist()
                ],
                "max_step_expected": _rounded(stability.max_step_expected),
                "max_step_sampled": _rounded(stability.max_step_sampled),
                "exponents": {f"{cell.step_size:g}": round(cell.exponent, 6) for cell in cells},
                "standard_errors": {f"{cell.step_size:g}": round(cell.standard_error, 6) for cell in cells},
            }
        return {
            "expected_update_diverges": self.expected_update_diverges,
            "sampled_update_diverges": self.sampled_update_diverges,
            "gradient_methods_converge": self.gradient_methods_converge,
            "methods": methods,
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
