"""Learned processes: what the system does next, from its log; and what a policy earns there."""

from typing import TYPE_CHECKING

from cesaro.lazy import lazily

if TYPE_CHECKING:
    from cesaro.worlds.estimator import WorldRate as WorldRate
    from cesaro.worlds.world import World as World

_EXPORTS = {"World": "cesaro.worlds.world", "WorldRate": "cesaro.worlds.estimator"}
__all__ = list(_EXPORTS)
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, _EXPORTS)
