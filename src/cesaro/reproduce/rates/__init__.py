"""The rates study."""

from cesaro.reproduce.rates.run import METHODS, QUICK, Chosen, Config, Result, choose, run, slope

__all__ = ["METHODS", "QUICK", "Chosen", "Config", "Result", "choose", "run", "slope"]
