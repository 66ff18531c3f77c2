"""The counterexample study."""

from cesaro.reproduce.counterexample.run import (
    METHODS,
    QUICK,
    Config,
    Result,
    expected_exponent,
    expected_trajectory,
    lower_bound,
    run,
    spectral_radius,
    trajectories,
)

__all__ = [
    "METHODS",
    "QUICK",
    "Config",
    "Result",
    "expected_exponent",
    "expected_trajectory",
    "lower_bound",
    "run",
    "spectral_radius",
    "trajectories",
]
