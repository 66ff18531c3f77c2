"""What came out of the assumption study: our shares beside the published ones."""

import math
from dataclasses import dataclass
from typing import Any

from cesaro.reproduce.assumption.config import PUBLISHED_SIGMAS, Config

# Zhang, Wan, Sutton, Whiteson, "Average-Reward Off-Policy Policy Evaluation with Function Approximation", ICML 2021,
# appendix, Table 1 (ξ = 0.9) and Table 2 (ξ = 0.99): ξ -> number of pairs -> one probability per σ in PUBLISHED_SIGMAS.
PUBLISHED: dict[float, dict[int, tuple[float, ...]]] = {
    0.9: {
        5: (0.70, 0.69, 0.70, 0.65, 0.52),
        10: (0.64, 0.65, 0.63, 0.56, 0.42),
        50: (0.55, 0.50, 0.44, 0.41, 0.36),
        100: (0.52, 0.42, 0.43, 0.38, 0.35),
    },
    0.99: {
        5: (0.92, 0.92, 0.91, 0.77, 0.58),
        10: (0.92, 0.92, 0.84, 0.68, 0.50),
        50: (0.93, 0.68, 0.53, 0.48, 0.42),
        100: (0.93, 0.51, 0.49, 0.45, 0.42),
    },
}
# What this package promises for the full study (stick-breaking, 10,000 trials or more).
PROMISED_MAX, PROMISED_RMS = 0.03, 0.01


@dataclass(frozen=True)
class Cell:
    """One entry of the tables: the share of `trials` in which F ⪰ 0, beside the published one (if there is one)."""

    pairs: int
    sigma: float
    xi: float
    probability: float
    trials: int

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.probability * (1 - self.probability) / self.trials)

    @property
    def published(self) -> float | None:
        row = PUBLISHED.get(self.xi, {}).get(self.pairs)
        return row[PUBLISHED_SIGMAS.index(self.sigma)] if row and self.sigma in PUBLISHED_SIGMAS else None

    @property
    def difference(self) -> float | None:
        return None if self.published is None else self.probability - self.published


@dataclass(frozen=True)
class Result:
    """The tables: `cells` in the order ξ, size, σ."""

    config: Config
    cells: tuple[Cell, ...]

    @property
    def max_difference(self) -> float:
        """The largest absolute difference from a published value; nan if no cell was published."""
        return max(self._differences, default=math.nan)

    @property
    def rms_difference(self) -> float:
        """The root mean square difference over the published cells; nan if there is none."""
        differences = self._differences
        return math.sqrt(sum(d * d for d in differences) / len(differences)) if differences else math.nan

    @property
    def is_full(self) -> bool:
        """Whether this is the study that the promise is made for; any seed will do."""
        full = Config(trials=self.config.trials, seed=self.config.seed)
        return self.config == full and self.config.trials >= Config.trials

    @property
    def is_within_promise(self) -> bool:
        return self.max_difference <= PROMISED_MAX and self.rms_difference <= PROMISED_RMS

    def summary(self) -> dict[str, Any]:
        """The comparison in JSON values: null for what does not apply."""
        promise = {"max_difference": PROMISED_MAX, "rms_difference": PROMISED_RMS}
        return {
            "max_difference": round(self.max_difference, 6) if self._differences else None,
            "rms_difference": round(self.rms_difference, 6) if self._differences else None,
            "promise": promise if self.is_full else None,
        }

    @property
    def _differences(self) -> list[float]:
        return [abs(cell.difference) for cell in self.cells if cell.difference is not None]
