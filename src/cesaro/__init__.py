"""What would this policy earn per step, in the long run? Average-reward off-policy evaluation from logs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from cesaro import exact as exact
    from cesaro import learning as learning
    from cesaro import problems as problems
    from cesaro.algorithms import Objective as Objective
    from cesaro.data import FeatureTransitions as FeatureTransitions
    from cesaro.errors import CesaroError as CesaroError
    from cesaro.errors import InputError as InputError
    from cesaro.errors import MultichainError as MultichainError
    from cesaro.errors import NoLimitError as NoLimitError
    from cesaro.errors import ToleranceError as ToleranceError
    from cesaro.learning import Sweep as Sweep
    from cesaro.learning import grid as grid
    from cesaro.learning import sweep as sweep
    from cesaro.linear import LinearProblem as LinearProblem
    from cesaro.mdp import TabularMDP as TabularMDP

# The map: public name -> module that defines it. A name that is a module itself maps to "".
_EXPORTS = {
    "TabularMDP": "mdp",
    "exact": "",
    "learning": "",
    "LinearProblem": "linear",
    "problems": "",
    "sweep": "learning",
    "grid": "learning",
    "Sweep": "learning",
    "Objective": "algorithms",
    "FeatureTransitions": "data",
    "CesaroError": "errors",
    "InputError": "errors",
    "MultichainError": "errors",
    "NoLimitError": "errors",
    "ToleranceError": "errors",
}
__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'cesaro' has no attribute {name!r}")
    module = _EXPORTS[name]
    value = getattr(import_module(f"cesaro.{module}"), name) if module else import_module(f"cesaro.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
