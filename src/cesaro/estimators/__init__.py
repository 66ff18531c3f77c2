"""Reward rates from logs: the closed form and the learned methods, with standard errors."""

from typing import TYPE_CHECKING, Any

from cesaro.estimators.diff_lstd import DiffLSTD
from cesaro.estimators.influence import Estimate

if TYPE_CHECKING:
    from cesaro.estimators.learned import Learned

__all__ = ["DiffLSTD", "Estimate", "Learned"]


def __getattr__(name: str) -> Any:
    if name == "Learned":  # JAX takes a second to import
        from cesaro.estimators.learned import Learned

        return Learned
    raise AttributeError(f"module 'cesaro.estimators' has no attribute {name!r}")
