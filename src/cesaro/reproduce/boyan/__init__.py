"""The boyan study."""

from cesaro.reproduce.boyan.run import QUICK, Config, learn, misfit_features, run

__all__ = ["QUICK", "Config", "learn", "misfit_features", "run"]
