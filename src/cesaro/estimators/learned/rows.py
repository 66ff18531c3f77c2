"""The rows that `Learned` draws from: all of them, dense, or a buffer that a larger log passes through."""

import warnings
from typing import Any

import numpy as np

from cesaro.checks import Array
from cesaro.closed_forms.dense import IDENTIFIED
from cesaro.closed_forms.tabular import NotIdentified
from cesaro.data import Block, FeatureTransitions
from cesaro.data.blocks import SAMPLE, sample_rows
from cesaro.data.shuffled import ShuffleBuffer
from cesaro.diagnostics.learned import CLOSED_FORM
from cesaro.errors import EvaluationWarning, InputError
from cesaro.features.encoder import MAX_DENSE
from cesaro.features.maps import Joint, PerAction
from cesaro.features.networks import NetworkInputs
from cesaro.fingerprints import fingerprint
from cesaro.learning.source import Feed
from cesaro.linear import EmpiricalProblem
from cesaro.linear.fixed_point import feature_scale, reduce
from cesaro.passes.moments import RowFacts
from cesaro.passes.prepare import Prepared
from cesaro.passes.support import not_identified, remedy
from cesaro.text import Sentence, argument

# The ridge of features of our own, relative to their mean square.
RELATIVE_RIDGE = 1e-6
# Numbers of one feature matrix that is kept whole, and of one of sampled rows; bytes of a buffer, both matrices together.
MAX_NUMBERS, SAMPLE_NUMBERS = 65_000_000, 2**23
BUFFER_BYTES = 100_000_000
# In words, for a summary.
DRAWN_FROM = "a shuffle buffer of random row groups"
# Sampled rows, however many features they have.
FEWEST_SAMPLED = 1_000


def check_size(prepared: Prepared) -> None:
    """Raises where there are more features than anyone waits for."""
    if prepared.num_features > MAX_DENSE:
        raise InputError(
            Sentence(
                "Learned methods take at most {most} features. Got {number} ({what}); take fewer features, such as {fewer}, a "
                "part of the log, or {closed_form}.",
                most=f"{MAX_DENSE:,}",
                number=f"{prepared.num_features:,}",
                what=prepared.description,
                fewer=argument("features", "fourier:100"),
                closed_form=CLOSED_FORM,
            )
        )


def is_dense(prepared: Prepared, repeats: int = 1) -> bool:
    """Whether all rows are kept as features; otherwise they pass through a buffer."""
    if prepared.log is None:
        return True
    return not prepared.log.is_streamed and prepared.num_rows * repeats * prepared.num_features <= MAX_NUMBERS


def dense(prepared: Prepared, repeats: int = 1) -> FeatureTransitions:
    """All rows at once, because runs draw them at random; `repeats` times, each with its own draws of `a'`."""
    rows, size = prepared.num_rows * repeats, prepared.num_features
    x, x_next, rewards, weights = np.empty((rows, size)), np.empty((rows, size)), np.empty(rows), np.empty(rows)
    start, is_weighted = 0, False
    for repeat in range(repeats):
        for block in prepared.rows(repeat):
            part = slice(start, start + len(block))
            x[part], x_next[part], rewards[part] = _dense(block.x), _dense(block.x_next), block.rewards
            is_weighted = block.weights is not None
            if block.weights is not None:
                weights[part] = block.weights
            start = part.stop
    return FeatureTransitions(x, rewards, x_next, weights=weights if is_weighted else None)


def buffered(prepared: Prepared, facts: RowFacts, dtype: str, rewards: tuple[float, float] = (0.0, 1.0)) -> Feed:
    """Rows of a larger log through a buffer, with rewards `(R − shift)/scale`; every visit draws its own `a'`."""
    assert prepared.log is not None
    shift, scale = rewards

    def turn(group: Block, visit: int) -> tuple[Any, Array]:
        found = prepared.features_of(group, visit)
        return np.stack([_dense(found.x), _dense(found.x_next)], axis=1), (found.rewards - shift) / scale

    buffer = ShuffleBuffer(
        prepared.log,
        turn,
        rows=max(1, BUFFER_BYTES // (2 * prepared.num_features * np.dtype(dtype).itemsize)),
        seed=prepared.random_state,
        weight=None if prepared.sample.rows.weights is None else facts.weight / facts.rows,
    )
    log, policy = prepared.log, prepared.policy and prepared.policy.policy
    return Feed(buffer.after, lambda: fingerprint((sorted(log.digests().items()), policy, prepared.map)))


def sampled(prepared: Prepared, most: int = SAMPLE) -> FeatureTransitions:
    """At most so many of the log's sampled rows as dense features, fewer where these are many."""
    rows = prepared.sample.rows
    most = min(most, max(FEWEST_SAMPLED, SAMPLE_NUMBERS // max(1, prepared.num_features)))
    if len(rows) > most:
        rows = rows.part(sample_rows(len(rows), prepared.random_state, most))
    return dense(prepared.excerpt(rows))


def draws_as_rows(prepared: Prepared) -> int:
    """Rows that networks see of each transition: with continuous actions that are drawn, one per draw."""
    chosen = prepared.map
    drawn = isinstance(chosen, NetworkInputs) and chosen.num_actions == 0 and prepared.draws_are_used
    return prepared.draws if drawn else 1


def _dense(features: Any) -> Any:
    return features if isinstance(features, np.ndarray) else features.toarray()


def default_ridge(problem: EmpiricalProblem, prepared: Prepared) -> float:
    """A little for features of our own, which nearly depend on each other: the limit is unique then."""
    own = isinstance(prepared.map, PerAction | Joint)
    return RELATIVE_RIDGE * float(np.mean(problem.squares)) if own else 0.0


def check_identified(problem: EmpiricalProblem, prepared: Prepared, ridge: float | str) -> None:
    """The rate must follow from the equations themselves, as for the closed form."""
    scale = np.concatenate([[1.0], feature_scale(problem)])
    ones = np.ones(len(scale))
    null = reduce(scale[:, None] * problem.A * scale, ones, ones).null
    if float(np.linalg.norm(null[0])) <= IDENTIFIED:
        return
    said = not_identified(prepared)
    if isinstance(ridge, str) or ridge == 0:
        raise NotIdentified(Sentence("{problem}; {remedy}.", problem=said, remedy=remedy(prepared)))
    warnings.warn(
        f"{said}; the answer comes from the ridge, not from data, and its interval says nothing about that.",
        EvaluationWarning,
        stacklevel=4,
    )
