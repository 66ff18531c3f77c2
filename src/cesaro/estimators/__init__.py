"""Reward rates from logs: the closed form and the learned methods, with standard errors."""

from typing import TYPE_CHECKING

from cesaro.lazy import lazily

if TYPE_CHECKING:
    from cesaro.estimators.diff_lstd import DiffLSTD as DiffLSTD
    from cesaro.estimators.learned import Learned as Learned
    from cesaro.estimators.run import Run as Run
    from cesaro.passes.standard_errors import Estimate as Estimate

# JAX, which `Learned` needs, takes a second to import.
_EXPORTS = {
    "DiffLSTD": "cesaro.estimators.diff_lstd",
    "Estimate": "cesaro.passes.standard_errors",
    "Learned": "cesaro.estimators.learned",
    "Run": "cesaro.estimators.run",
}
__all__ = list(_EXPORTS)
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, _EXPORTS)
