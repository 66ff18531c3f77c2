"""What would this policy earn per step, in the long run? Average-reward off-policy evaluation from logs."""

from typing import TYPE_CHECKING

from cesaro.lazy import lazily

__version__ = "0.4.0"

if TYPE_CHECKING:
    from cesaro import exact as exact
    from cesaro import learning as learning
    from cesaro import policies as policies
    from cesaro import problems as problems
    from cesaro import simulation as simulation
    from cesaro import suite as suite
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
    from cesaro.errors import StartError as StartError
    from cesaro.errors import ToleranceError as ToleranceError
    from cesaro.errors import UserMemoryError as UserMemoryError
    from cesaro.estimators import DiffLSTD as DiffLSTD
    from cesaro.estimators import Learned as Learned
    from cesaro.estimators import Run as Run
    from cesaro.evaluation import Evaluation as Evaluation
    from cesaro.evaluation import evaluate as evaluate
    from cesaro.inspection import Inspection as Inspection
    from cesaro.inspection import inspect as inspect
    from cesaro.learning import Sweep as Sweep
    from cesaro.learning import grid as grid
    from cesaro.learning import sweep as sweep
    from cesaro.linear import LinearProblem as LinearProblem
    from cesaro.mdp import TabularMDP as TabularMDP
    from cesaro.policies import Policy as Policy
    from cesaro.policies import policy as policy
    from cesaro.rehearsal import Rehearsal as Rehearsal
    from cesaro.rehearsal import rehearse as rehearse
    from cesaro.simulation import MonteCarloRate as MonteCarloRate
    from cesaro.simulation import collect as collect
    from cesaro.simulation import monte_carlo_rate as monte_carlo_rate
    from cesaro.worlds import World as World

# The map: public name -> module that defines it. A name that is a module itself maps to "".
_EXPORTS = {
    "TabularMDP": "cesaro.mdp",
    "exact": "",
    "learning": "",
    "LinearProblem": "cesaro.linear",
    "problems": "",
    "sweep": "cesaro.learning",
    "grid": "cesaro.learning",
    "Sweep": "cesaro.learning",
    "Objective": "cesaro.algorithms",
    "inspect": "cesaro.inspection",
    "Inspection": "cesaro.inspection",
    "read": "cesaro.data",
    "Log": "cesaro.data",
    "Transitions": "cesaro.data",
    "FeatureTransitions": "cesaro.data",
    "policies": "",
    "simulation": "",
    "suite": "",
    "policy": "cesaro.policies",
    "Policy": "cesaro.policies",
    "DiffLSTD": "cesaro.estimators",
    "Learned": "cesaro.estimators",
    "Run": "cesaro.estimators",
    "World": "cesaro.worlds",
    "evaluate": "cesaro.evaluation",
    "compare": "cesaro.comparison",
    "Evaluation": "cesaro.evaluation",
    "Comparison": "cesaro.comparison",
    "rehearse": "cesaro.rehearsal",
    "Rehearsal": "cesaro.rehearsal",
    "collect": "cesaro.simulation",
    "monte_carlo_rate": "cesaro.simulation",
    "MonteCarloRate": "cesaro.simulation",
    "CesaroError": "cesaro.errors",
    "ClusterError": "cesaro.errors",
    "InputError": "cesaro.errors",
    "MultichainError": "cesaro.errors",
    "NoLimitError": "cesaro.errors",
    "StartError": "cesaro.errors",
    "ToleranceError": "cesaro.errors",
    "UserMemoryError": "cesaro.errors",
    "EvaluationWarning": "cesaro.errors",
}
__all__ = ["__version__", *_EXPORTS]
if not TYPE_CHECKING:  # a type checker would take any name for one of ours
    __getattr__, __dir__ = lazily(__name__, _EXPORTS)
