"""What came out of the coverage study: a cell per kind of log and series."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from cesaro.checks import Array
from cesaro.reproduce.coverage import default
from cesaro.reproduce.coverage.chains import SERIES, Known
from cesaro.reproduce.coverage.config import PROMISED, Config, rows

RULES = ("default", "batches", "independent")
# Independent rows must cover less than this on the sticky chain with misfit features, or the study proves nothing.
CONTRAST = 0.8


class Cell(NamedTuple):
    """What was found for one series in logs of one kind.

    Attributes:
        rows: of a log.
        answered: share of logs with an estimate; the rest was refused, as the log did not identify the rate.
        coverage: share of all logs whose interval holds the truth, by rule.
        half_width: mean of the intervals' half widths, by rule.
        bias: mean error of the estimates.
        deviation: standard deviation of the estimates.
    """

    chain: str
    trajectories: int
    length: int
    rows: int
    features: str
    quantity: str
    answered: float
    coverage: dict[str, float]
    half_width: dict[str, float]
    bias: float
    deviation: float


@dataclass(frozen=True)
class Result:
    """Estimates and half widths of every log.

    Attributes:
        problems: the chains, by name.
        estimates: by (chain, trajectories), `[lengths, series, logs]`; nan where refused.
        half_widths: the same by rule, `[lengths, series, rules, logs]`.
        systems: the default on systems with numbers for states.
    """

    config: Config
    problems: dict[str, Known]
    estimates: dict[tuple[str, int], Array]
    half_widths: dict[tuple[str, int], Array]
    systems: default.Result

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell, shortest logs first."""
        found = []
        for i, length in enumerate(self.config.lengths):
            for (chain, trajectories), estimates in self.estimates.items():
                problem = self.problems[chain]
                for j, key in enumerate(SERIES):
                    errors, halves = estimates[i, j] - problem.truths[key], self.half_widths[chain, trajectories][i, j]
                    answered = np.isfinite(errors)
                    covered = np.abs(errors) <= halves  # nan is not
                    some = bool(answered.any())
                    found.append(
                        Cell(
                            chain,
                            trajectories,
                            length,
                            rows(self.config, problem)[i],
                            *key,
                            answered=float(answered.mean()),
                            coverage={rule: float(covered[k].mean()) for k, rule in enumerate(RULES)},
                            half_width={
                                rule: float(halves[k, answered].mean()) if some else math.nan
                                for k, rule in enumerate(RULES)
                            },
                            bias=float(errors[answered].mean()) if some else math.nan,
                            deviation=float(errors[answered].std()) if some else math.nan,
                        )
                    )
        return tuple(found)

    def cells_at(self, length: int) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if cell.length == length)

    @property
    def promised(self) -> tuple[Cell, ...]:
        """Those of the longest logs."""
        return self.cells_at(self.config.lengths[-1])

    @property
    def outside(self) -> tuple[Cell, ...]:
        """Cells of the longest logs whose default intervals cover too little or too much."""
        low, high = PROMISED
        return tuple(cell for cell in self.promised if not low <= cell.coverage["default"] <= high)

    @property
    def contrast(self) -> tuple[Cell, ...]:
        """Single rates and differences of targets with misfit features on the sticky chain, longest logs."""
        return tuple(
            cell
            for cell in self.promised
            if (cell.chain, cell.features) == ("sticky", "misfit") and cell.quantity in ("rate", "difference")
        )

    @property
    def is_telling(self) -> bool:
        """Whether the study could have failed: independent rows cover too little where they should."""
        return all(cell.coverage["independent"] < CONTRAST for cell in self.contrast)

    def summary(self) -> dict[str, Any]:
        """The findings in JSON values."""

        def span(cells: tuple[Cell, ...], rule: str) -> list[float]:
            shares = [cell.coverage[rule] for cell in cells]
            return [round(min(shares), 4), round(max(shares), 4)]

        return {
            "autocorrelation_times": {
                name: round(problem.autocorrelation_time, 4) for name, problem in self.problems.items()
            },
            "rows": {name: list(rows(self.config, problem)) for name, problem in self.problems.items()},
            "cells": len(self.promised),
            "cells_outside": len(self.outside),
            "coverage": {str(length): span(self.cells_at(length), "default") for length in self.config.lengths},
            "coverage_batches": {str(length): span(self.cells_at(length), "batches") for length in self.config.lengths},
            "coverage_independent_contrast": span(self.contrast, "independent"),
            "is_telling": self.is_telling,
            "answered": round(min(cell.answered for cell in self.cells), 4),
            "systems": self.systems.summary(),
        }
