"""Learning runs: many seeds and settings of a method in one compiled program."""

from cesaro.learning.affine import affine_form
from cesaro.learning.result import Best, Sweep
from cesaro.learning.settings import grid
from cesaro.learning.sweeps import dynamics, sweep

__all__ = ["Best", "Sweep", "affine_form", "dynamics", "grid", "sweep"]
