"""The assumption study."""

from cesaro.reproduce.assumption.run import (
    PUBLISHED,
    QUICK_TRIALS,
    Cell,
    Config,
    Result,
    norms,
    plot,
    projected_norms,
    run,
)

__all__ = ["PUBLISHED", "QUICK_TRIALS", "Cell", "Config", "Result", "norms", "plot", "projected_norms", "run"]
