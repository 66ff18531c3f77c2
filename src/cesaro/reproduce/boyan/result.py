"""The result of the study of Boyan's chain: errors of every setting, and the comparison that the paper makes."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro.checks import Array
from cesaro.reproduce.boyan.config import BASELINE, PAPER_METHODS, BoyanConfig
from cesaro.reproduce.study import paired

if TYPE_CHECKING:
    from cesaro.learning.arguments import Setting

# A margin counts as clear from this many standard errors on.
CLEAR = 2.0


@dataclass(frozen=True)
class PanelFit:
    """The exact fit of the features in a panel.

    Attributes:
        value_error: `inf_c ‖Π_X q − q‖_D` over `q = q_π + c`.
        ratio_error: `‖Π_X ρ − ρ‖_D` of the density ratio `ρ`.
        rate_gap: `r_TD − r_π`, the error of the limit: of the value-based methods without ridge, and of GradientDICE too.
    """

    pi0: float
    mu0: float
    truth: float
    value_error: float
    ratio_error: float
    rate_gap: float


@dataclass(frozen=True)
class MethodRuns:
    """A method in a panel: every setting's final error, and the best setting's curve.

    Attributes:
        mean: mean final error over runs, `[settings]`; infinite where a run diverged.
        std: its standard deviation over runs; infinite where a run diverged.
        diverged: how many runs diverged, `[settings]`.
        first_divergence: the first sample at which one did; −1 where none did.
        best: number of the best setting; None if each had a diverged run.
        final: final errors of its runs, `[runs]`.
        samples, curve, band: samples, mean error and its standard deviation over runs at every record.
        max_step_expected, max_step_sampled: step limits of the expected update and in mean square at the best ridge and lam.
        time_constant: of its expected update, in samples; infinite where that diverges. These three are nan for projected
            variants, which a ball keeps from diverging, and nan limits mean none.
    """

    method: str
    settings: "list[Setting]"
    mean: Array
    std: Array
    diverged: Array
    first_divergence: Array
    best: int | None
    final: Array
    samples: Array
    curve: Array
    band: Array
    max_step_expected: float
    max_step_sampled: float
    time_constant: float

    @property
    def error(self) -> float:
        return math.inf if self.best is None else float(self.mean[self.best])

    @property
    def has_theory(self) -> bool:
        return not math.isnan(self.time_constant)

    @property
    def spread(self) -> float:
        return math.inf if self.best is None else float(self.std[self.best])


@dataclass(frozen=True)
class PanelTally:
    """Wins and losses of a method against GradientDICE over all panels; margins are GradientDICE's error minus its own."""

    method: str
    wins: int
    clear_wins: int
    clear_losses: int
    smallest: float
    largest: float


@dataclass(frozen=True)
class BoyanResult:
    """Everything the tables and figures show."""

    config: BoyanConfig
    panels: dict[tuple[float, float], PanelFit]
    cells: dict[tuple[tuple[float, float], str], MethodRuns]

    def margin(self, panel: tuple[float, float], method: str) -> tuple[float, float] | None:
        """GradientDICE's final error minus the method's, and the standard error of this mean of paired differences."""
        own, other = self.cells[panel, method], self.cells.get((panel, BASELINE))
        if method == BASELINE or other is None or own.best is None or other.best is None:
            return None
        return paired(other.final, own.final)

    @property
    def tallies(self) -> list[PanelTally]:
        """One per method that GradientDICE can be compared with."""
        found = []
        for method in self.config.methods:
            margins = [m for panel in self.panels if (m := self.margin(panel, method)) is not None]
            if margins:
                means = [mean for mean, _ in margins]
                found.append(
                    PanelTally(
                        method,
                        wins=sum(mean > 0 for mean in means),
                        clear_wins=sum(mean > CLEAR * error for mean, error in margins),
                        clear_losses=sum(mean < -CLEAR * error for mean, error in margins),
                        smallest=min(means),
                        largest=max(means),
                    )
                )
        return found

    @property
    def claim_holds(self) -> bool | None:
        """Whether the paper's value-based methods all beat GradientDICE in all panels; None if they were not all run."""
        tallies = [tally for tally in self.tallies if tally.method in PAPER_METHODS]
        return all(tally.wins == len(self.panels) for tally in tallies) if len(tallies) == 3 else None

    def summary(self) -> dict[str, Any]:
        """The comparison in JSON values."""
        tallies = {tally.method: tally for tally in self.tallies}
        methods = {}
        for method in self.config.methods:
            cells = [self.cells[panel, method] for panel in self.panels]
            entry: dict[str, Any] = {
                "mean_final_error": _rounded(float(np.mean([cell.error for cell in cells]))),
                "settings_with_divergence": int(sum((cell.diverged > 0).sum() for cell in cells)),
            }
            if tally := tallies.get(method):
                entry |= {name: getattr(tally, name) for name in ("wins", "clear_wins", "clear_losses")}
            methods[method] = entry
        gaps = [abs(panel.rate_gap) for panel in self.panels.values()]
        return {
            "panels": len(self.panels),
            "claim_holds": self.claim_holds,
            "methods": methods,
            "largest_error_of_the_td_fixed_point": round(max(gaps), 6),
        }


def _rounded(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
