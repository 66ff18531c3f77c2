"""Figure 2: Boyan's chain, four methods with the whole grid of settings, in 13 panels.

Panels: π(a0) = π0 in {.1, .3, .5, .7, .9} by sampling with μ0 = π0, ½ and 1 − π0. Every setting of every method learns from 30
streams of 5,000 samples; what counts is |r_π − mean of the last 100 r̂|, and each method shows its best setting, by the truth.

The paper's features contain q_π, so that there is no representation error. `misfit` takes features that do not:
`misfit_features` says which and why.
"""

from typing import TYPE_CHECKING

from cesaro.lazy import lazily
from cesaro.reproduce.boyan.config import BoyanConfig as Config

if TYPE_CHECKING:
    from cesaro.reproduce.boyan.run import learn as learn

__all__ = ["Config", "learn"]
if not TYPE_CHECKING:  # a type checker would take any name for one of ours
    __getattr__, __dir__ = lazily(__name__, {"learn": "cesaro.reproduce.boyan.run"})
