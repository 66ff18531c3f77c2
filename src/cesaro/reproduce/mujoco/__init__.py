"""The mujoco study."""

from cesaro.reproduce.mujoco.run import ENVS, QUICK, Config, collect, run

__all__ = ["ENVS", "QUICK", "Config", "collect", "run"]
