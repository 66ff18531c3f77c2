"""Learned processes: what the system does next, from its log; and what a policy earns there."""

from typing import TYPE_CHECKING

from cesaro.lazy import lazily

if TYPE_CHECKING:
    from cesaro.worlds.estimator import WorldRate as WorldRate
    from cesaro.worlds.world import World as World
    from cesaro.worlds.world import posterior_rates as posterior_rates

_EXPORTS = {
    "World": "cesaro.worlds.world",
    "WorldRate": "cesaro.worlds.estimator",
    "posterior_rates": "cesaro.worlds.world",
}
__all__ = list(_EXPORTS)
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, _EXPORTS)
