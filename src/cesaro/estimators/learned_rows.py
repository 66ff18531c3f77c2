"""The rows that `Learned` draws from: dense, and enough to identify the rate."""

import warnings
from typing import Any

import numpy as np

from cesaro.data import FeatureTransitions
from cesaro.errors import EvaluationWarning, InputError
from cesaro.estimators.closed_form import IDENTIFIED
from cesaro.estimators.pipeline import Prepared
from cesaro.estimators.support import REMEDY, not_identified
from cesaro.estimators.tabular import NotIdentified
from cesaro.features.encoder import MAX_DENSE
from cesaro.features.maps import Joint, PerAction
from cesaro.features.network_inputs import NetworkInputs
from cesaro.linear import EmpiricalProblem
from cesaro.linear.fixed_point import feature_scale, reduce

# The ridge of features of our own, relative to their mean square.
RELATIVE_RIDGE = 1e-6
# Numbers of one feature matrix.
MAX_NUMBERS = 65_000_000
REDUCE = "take fewer features (features='fourier:100', say), a part of the log, or DiffLSTD"


def dense(prepared: Prepared, repeats: int = 1, remedy: str = REDUCE) -> FeatureTransitions:
    """All rows at once, because runs draw them at random; `repeats` times, each with its own draws of `a'`."""
    rows, size = prepared.num_rows, prepared.num_features
    if size > MAX_DENSE:
        raise InputError(
            f"Learned methods take at most {MAX_DENSE:,} features. Got {size:,} ({prepared.description}); {remedy}."
        )
    if rows * repeats * size > MAX_NUMBERS:
        raise InputError(
            f"Learned methods keep all features in memory, at most {MAX_NUMBERS:,} numbers. Got {rows * repeats:,} rows × "
            f"{size:,}; {remedy}."
        )
    x, x_next, start = np.empty((rows * repeats, size)), np.empty((rows * repeats, size)), 0
    for repeat in range(repeats):
        for block in prepared.rows(repeat):
            part = slice(start, start + len(block))
            for matrix, features in ((x, block.x), (x_next, block.x_next)):
                matrix[part] = features if isinstance(features, np.ndarray) else features.toarray()
            start = part.stop
    weights = None if prepared.weights is None else np.tile(prepared.weights, repeats)
    return FeatureTransitions(x, np.tile(prepared.rewards, repeats), x_next, weights=weights)


def network_rows(prepared: Prepared, data: Any) -> FeatureTransitions:
    """The rows that networks draw from: with continuous actions that are drawn, every row once per draw."""
    if isinstance(data, FeatureTransitions):
        return data
    chosen = prepared.map
    drawn = isinstance(chosen, NetworkInputs) and chosen.num_actions == 0 and prepared.draws_are_used
    return dense(prepared, prepared.draws if drawn else 1, "take a part of the log, fewer columns, or fewer draws")


def default_ridge(problem: EmpiricalProblem, prepared: Prepared) -> float:
    """A little for features of our own, which nearly depend on each other: the limit is unique then."""
    own = isinstance(prepared.map, PerAction | Joint)
    return RELATIVE_RIDGE * float(np.mean(problem.d @ problem.X**2)) if own else 0.0


def check_identified(problem: EmpiricalProblem, prepared: Prepared, ridge: float | str) -> None:
    """The rate must follow from the equations themselves, as for the closed form."""
    scale = np.concatenate([[1.0], feature_scale(problem)])
    ones = np.ones(len(scale))
    null = reduce(scale[:, None] * problem.A * scale, ones, ones).null
    if float(np.linalg.norm(null[0])) <= IDENTIFIED:
        return
    said = not_identified(prepared)
    if isinstance(ridge, str) or ridge == 0:
        raise NotIdentified(f"{said}; {REMEDY}.")
    warnings.warn(
        f"{said}; the answer comes from the ridge, not from data, and its interval says nothing about that.",
        EvaluationWarning,
        stacklevel=4,
    )
