"""The expected update and the affine form of any method with linear functions, a user's own as well, from its step on rows."""

from functools import cache
from typing import Any

import numpy as np

from cesaro.algorithms import Objective
from cesaro.algorithms.dynamics import Dynamics, WeightedRows, batch_dynamics, mean_dynamics, sample_dynamics, variables
from cesaro.approximators import Approximator
from cesaro.data import FeatureTransitions
from cesaro.errors import InputError
from cesaro.learning.arguments import Method, all_settings, as_method, as_objective, label_of
from cesaro.learning.source import rows_of
from cesaro.linear import LinearProblem
from cesaro.linear.expectations import Expectations
from cesaro.linear.methods import FORMS, AffineForm
from cesaro.linear.methods.base import Layout, MeanUpdate, MethodSettings, SampleUpdates, check_samples

# The names of `κ` where the exact layer has one of its own.
RATE, OURS = "primal.rate", "reward_rate"
# Rows × variables² up to which the step is evaluated row by row.
WORK = 20_000_000
# The sampled step limit of a log: features at most, rows × variables³ that it may cost (samples are of full rank), fewest and
# most rows.
MAX_SAMPLED, SAMPLED_WORK, FEWEST_ROWS, MOST_ROWS = 32, 2e7, 200, 5_000


def dynamics(
    method: Method,
    data: LinearProblem | FeatureTransitions,
    *,
    approximator: str | Approximator = "linear",
    **hyper: float,
) -> Dynamics:
    """`G` and `h` of a method's expected update, exactly on a known problem, as a plug-in on transitions.

    Example:
        >>> import cesaro as cs
        >>> cs.learning.dynamics("diff-sgq", cs.problems.two_state_counterexample()).eigenvalues.real.round(9).tolist()
        [3.0, 2.0]
    """
    rows = rows_of(data)
    objective, label = as_objective(method, approximator, rows.x.shape[1])
    chosen = all_settings(objective, [{"step_size": 1.0, **hyper}], "constant", None, label)
    return mean_dynamics(objective, rows, {name: float(values[0]) for name, values in chosen.items()})


def affine_form(method: Method, **hyper: float) -> AffineForm:
    """The form of a method that `LinearProblem.stability` and `.limit` take: closed, or one that evaluates the step itself.

    Args:
        method: as in `sweep`.
        **hyper: numbers of a method of your own beside `ridge`, `lam` and the step sizes; what is not named takes its default.

    Example:
        >>> import cesaro as cs
        >>> from cesaro.algorithms import diff_gq1
        >>> chain = cs.problems.boyan_chain()
        >>> own = cs.learning.affine_form(diff_gq1.objective)
        >>> bool(abs(chain.limit(own).reward_rate - chain.limit("diff-gq1").reward_rate) < 1e-6)
        True
    """
    if isinstance(method, str) and method in FORMS and not hyper:
        return FORMS[method]
    return StepForm(method, **hyper)


class StepForm(AffineForm):
    """A method whose `G` and `h` come from evaluating its step on the samples of a problem.

    The influence of rows on its limit is not known, and neither is a ridge that stabilizes it.
    """

    def __init__(self, method: Method, **hyper: float) -> None:
        self._method, self._hyper = as_method(method), hyper
        self.name = label_of(self._method)
        self._objective = cache(self._built)

    @property
    def learns_ratio(self) -> bool:  # type: ignore[override]
        return self._objective(1).learns_ratio

    def _built(self, num_features: int) -> Objective:
        return as_objective(self._method, "linear", num_features)[0]

    def layout(self, num_features: int) -> Layout:
        objective = self._objective(num_features)
        names = variables(objective)
        mine = [i for i, name in enumerate(names) if name.startswith(f"primal.{objective.function}.")]
        if RATE not in names or len(mine) != num_features:
            raise InputError(
                f"{self.name} must keep its rate in the entry 'rate' of primal, and a weight per feature in the entry "
                f"{objective.function!r}. Got {', '.join(names[:8])}; name that entry: Objective(function=…)."
            )
        dual = sum(name.startswith("dual") for name in names)
        return Layout(
            size=len(names),
            rate=names.index(RATE),
            weights=slice(mine[0], mine[-1] + 1),
            dual=slice(0, dual),
            names=tuple(OURS if name == RATE else name for name in names),
        )

    def _numbers(self, objective: Objective, s: MethodSettings) -> dict[str, float]:
        """The settings that the method takes; steps count relative to its own."""
        known = {"step_size": 1.0, "ridge": s.ridge, "lam": s.lam, "rate_step_size": s.rate_step_ratio}
        given = {name: value for name, value in known.items() if name in objective.defaults} | self._hyper
        return {
            name: float(value[0])
            for name, value in all_settings(objective, [given], "constant", None, self.name).items()
        }

    def mean(self, p: Expectations, s: MethodSettings) -> MeanUpdate:
        objective = self._objective(p.num_features)
        order, rows = self.layout(p.num_features), _rows(p)
        evaluate = mean_dynamics if p.num_samples * order.size**2 <= WORK else batch_dynamics
        found = evaluate(objective, rows, self._numbers(objective, s))
        return MeanUpdate(found.G, found.h, order)

    def samples(self, p: Expectations, s: MethodSettings) -> SampleUpdates:
        objective, size = self._objective(p.num_features), self.layout(p.num_features).size
        check_samples(p.num_samples, size, size)
        found, probability = sample_dynamics(objective, _rows(p), self._numbers(objective, s))
        # A matrix as a sum of products: its columns times unit vectors.
        right = np.broadcast_to(np.eye(size), found.shape)
        return SampleUpdates(probability, found.mT, right, np.zeros((size, size)), batch_size=s.batch_size)

    def sampled_rows(self, num_features: int) -> int:
        if num_features > MAX_SAMPLED:
            return 0
        return int(np.clip(SAMPLED_WORK / self.layout(num_features).size ** 3, FEWEST_ROWS, MOST_ROWS))

    def safe_ridge(self, p: Expectations) -> float:
        return float("nan")

    def __getstate__(self) -> dict[str, Any]:
        return {"method": self._method, "hyper": self._hyper}

    def __setstate__(self, state: dict[str, Any]) -> None:
        StepForm.__init__(self, state["method"], **state["hyper"])


def _rows(p: Expectations) -> WeightedRows:
    x, change, rewards, probability = p.samples
    return WeightedRows(x, rewards, x + change, probability)
