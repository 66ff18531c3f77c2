"""Learning runs: many seeds and settings of a method in one compiled program."""

from cesaro.learning.affine import affine_form, dynamics
from cesaro.learning.arguments import grid
from cesaro.learning.result import Best, Sweep
from cesaro.learning.sweeps import sweep

__all__ = ["Best", "Sweep", "affine_form", "dynamics", "grid", "sweep"]
