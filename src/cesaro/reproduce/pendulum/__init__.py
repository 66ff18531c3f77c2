"""The pendulum study."""

from cesaro.reproduce.pendulum.run import QUICK, Config, run

__all__ = ["QUICK", "Config", "run"]
