"""The rows that `Learned` draws from: dense, and enough to identify the rate."""

import warnings

import numpy as np

from cesaro.data import FeatureTransitions
from cesaro.errors import EvaluationWarning, InputError
from cesaro.estimators.closed_form import IDENTIFIED
from cesaro.estimators.pipeline import Prepared
from cesaro.estimators.support import REMEDY, not_identified
from cesaro.estimators.tabular import NotIdentified
from cesaro.features.encoder import MAX_DENSE
from cesaro.features.maps import Joint, PerAction
from cesaro.linear import EmpiricalProblem
from cesaro.linear.fixed_point import feature_scale, reduce

# The ridge of features of our own, relative to their mean square.
RELATIVE_RIDGE = 1e-6
# Numbers of one feature matrix.
MAX_NUMBERS = 65_000_000


def dense(prepared: Prepared) -> FeatureTransitions:
    """All rows at once, because runs draw them at random."""
    rows, size = prepared.num_rows, prepared.num_features
    remedy = "take fewer features (features='fourier:100', say), a part of the log, or DiffLSTD"
    if size > MAX_DENSE:
        raise InputError(
            f"Learned methods take at most {MAX_DENSE:,} features. Got {size:,} ({prepared.description}); {remedy}."
        )
    if rows * size > MAX_NUMBERS:
        raise InputError(
            f"Learned methods keep all features in memory, at most {MAX_NUMBERS:,} numbers. Got {rows:,} rows × {size:,}; "
            f"{remedy}."
        )
    x, x_next, start = np.empty((rows, size)), np.empty((rows, size)), 0
    for block in prepared.rows():
        part = slice(start, start + len(block))
        for matrix, features in ((x, block.x), (x_next, block.x_next)):
            matrix[part] = features if isinstance(features, np.ndarray) else features.toarray()
        start = part.stop
    return FeatureTransitions(x, prepared.rewards, x_next, weights=prepared.weights)


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
