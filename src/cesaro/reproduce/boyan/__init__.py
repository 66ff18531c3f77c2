"""Figure 2: Boyan's chain with linear features, four methods, the whole grid of settings.

Panels: π(a0) = π0 in {.1, .3, .5, .7, .9} by sampling with μ0 = π0, ½ and 1 − π0. Every setting of every method learns from 30
streams of 5,000 samples; what counts is |r_π − mean of the last 100 r̂|, and each method shows its best setting, by the truth.

The paper's features contain q_π, so that there is no representation error. `misfit` takes features that do not:
`misfit_features` says which and why.
"""

from cesaro.reproduce.boyan.config import BASELINE, EXTRA_METHODS, PAPER_METHODS, QUICK, Config, misfit_features
from cesaro.reproduce.boyan.result import LABELS, Cell, Panel, Result
from cesaro.reproduce.boyan.run import learn, run
from cesaro.reproduce.boyan.show import plot, plot_step_sizes

__all__ = [
    "BASELINE",
    "EXTRA_METHODS",
    "LABELS",
    "PAPER_METHODS",
    "QUICK",
    "Cell",
    "Config",
    "Panel",
    "Result",
    "learn",
    "misfit_features",
    "plot",
    "plot_step_sizes",
    "run",
]
