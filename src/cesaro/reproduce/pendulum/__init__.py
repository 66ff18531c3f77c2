"""What `DiffLSTD` makes of continuous logs: two pendulum controllers, logged with noise, in several feature maps.

The target is a fixed controller, the log comes from the same controller plus Gaussian noise, and the rate of the target is known
(`model`). Every setting is fitted as a user would, on logs that nothing was tuned on; the default is one of them, and
none is chosen by the truth. Intervals cover the limit in the features that were taken, so that misses tell what features
cannot express, or what the log does not determine.
"""

from cesaro.reproduce.pendulum.config import QUICK, Config
from cesaro.reproduce.pendulum.result import Result, Truth, settings
from cesaro.reproduce.pendulum.run import run
from cesaro.reproduce.pendulum.show import plot

__all__ = [
    "QUICK",
    "Config",
    "Result",
    "Truth",
    "plot",
    "run",
    "settings",
]
