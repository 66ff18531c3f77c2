"""What would this policy earn per step, in the long run? Average-reward off-policy evaluation from logs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from cesaro import exact as exact
    from cesaro import learning as learning
    from cesaro import policies as policies
    from cesaro import problems as problems
    from cesaro import simulation as simulation
    from cesaro.algorithms import Objective as Objective
    from cesaro.comparison import Comparison as Comparison
    from cesaro.comparison import compare as compare
    from cesaro.data import FeatureTransitions as FeatureTransitions
    from cesaro.data import Log as Log
    from cesaro.data import Transitions as Transitions
    from cesaro.data import read as read
    from cesaro.errors import CesaroError as CesaroError
    from cesaro.errors import ClusterError as ClusterError
    from cesaro.errors import EvaluationWarning as EvaluationWarning
    from cesaro.errors import InputError as InputError
    from cesaro.errors import MultichainError as MultichainError
    from cesaro.errors import NoLimitError as NoLimitError
    from cesaro.errors import ToleranceError as ToleranceError
    from cesaro.estimators import DiffLSTD as DiffLSTD
    from cesaro.estimators import Learned as Learned
    from cesaro.evaluation import Evaluation as Evaluation
    from cesaro.evaluation import evaluate as evaluate
    from cesaro.learning import Sweep as Sweep
    from cesaro.learning import grid as grid
    from cesaro.learning import sweep as sweep
    from cesaro.linear import LinearProblem as LinearProblem
    from cesaro.mdp import TabularMDP as TabularMDP
    from cesaro.policies import Policy as Policy
    from cesaro.policies import policy as policy
    from cesaro.simulation import MonteCarloRate as MonteCarloRate
    from cesaro.simulation import collect as collect
    from cesaro.simulation import monte_carlo_rate as monte_carlo_rate

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
    "read": "data",
    "Log": "data",
    "Transitions": "data",
    "FeatureTransitions": "data",
    "policies": "",
    "simulation": "",
    "policy": "policies",
    "Policy": "policies",
    "DiffLSTD": "estimators",
    "Learned": "estimators",
    "evaluate": "evaluation",
    "compare": "comparison",
    "Evaluation": "evaluation",
    "Comparison": "comparison",
    "collect": "simulation",
    "monte_carlo_rate": "simulation",
    "MonteCarloRate": "simulation",
    "CesaroError": "errors",
    "ClusterError": "errors",
    "InputError": "errors",
    "MultichainError": "errors",
    "NoLimitError": "errors",
    "ToleranceError": "errors",
    "EvaluationWarning": "errors",
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
