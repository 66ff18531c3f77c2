"""Candidates: closed forms in maps of several families, and networks, asked the same question about a log."""

import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cesaro.data import Log
from cesaro.data.values import Categories, Column
from cesaro.errors import CesaroError
from cesaro.estimators import DiffLSTD, registry
from cesaro.estimators.run import Run
from cesaro.features.encoder import clocks
from cesaro.linear.methods import FOR_NETWORKS

# Maps of different families; one with more features than this, over all actions, takes minutes, and is left out.
MAPS = ("polynomial:2", "polynomial:3", "fourier:50", "fourier:200", "auto")
MOST_FEATURES = 1_000
# Rows that tell whether a column comes round by itself, which makes two inputs of it.
CLOCK_ROWS = 10_000
# Settings of networks: one for all logs, as somebody who tunes nothing would take.
WIDTHS, STEPS, BATCH, STEP_SIZE, TRACKING = (64, 64), 20_000, 256, 1e-3, 0.005

# From a seed to something with `fit(log, policy)`, and then `reward_rate_` and `standard_error_`.
Candidate: TypeAlias = Callable[[int], Any]


def closed_forms(log: Log) -> dict[str, Candidate]:
    """Candidates for a log: the closed form in every map that suits it; one for a discrete log, which needs no map."""
    maps = ["auto"] if log.opened(quiet=True).states() is not None else suitable_maps(log)
    return {name: _closed(name) for name in maps}


def suitable_maps(log: Log) -> list[str]:
    """Those of `MAPS` that do not take minutes on a log that is not discrete; "auto", which sees to it itself, is the last."""
    inputs = _count_inputs(log)
    return [name for name in MAPS if name == "auto" or _count_features(name, log, inputs) <= MOST_FEATURES]


def count_features(features: str, log: Log) -> int:
    """Features over all actions of a map with a size, such as "polynomial:2"; "linear" has one per input."""
    return _count_features(features, log, _count_inputs(log))


def _count_inputs(log: Log) -> int:
    """What an encoder makes of the columns that features are of."""
    block = log.part(np.arange(min(len(log), CLOCK_ROWS)))
    inputs = sum(map(_width, block.observations.columns)) + len(clocks(block.observations, block.next_observations))
    return inputs + (sum(map(_width, block.actions.columns)) if log.action_levels is None else 0)


def _count_features(features: str, log: Log, inputs: int) -> int:
    family, _, size = features.partition(":")
    sizes = {"linear": inputs, "fourier": int(size or 0), "polynomial": math.comb(inputs + int(size or 0), inputs)}
    return sizes.get(family, 0) * (1 if log.action_levels is None else len(log.action_levels))


def _width(column: Column) -> int:
    """Inputs that a column gives: its numbers in a row, or one per label."""
    return len(column.levels) if isinstance(column, Categories) else column[0].size


def named(name: str) -> Candidate:
    """A method of the registry, or the closed form in a map."""
    if name in registry.METHODS:
        return lambda seed: registry.METHODS[name].estimator(random_state=seed, quiet=True)
    return _closed(name)


def _closed(features: str) -> Candidate:
    """On the processor: there are many of them, and logs of rehearsals are short."""
    return lambda seed: DiffLSTD(features, random_state=seed, device="cpu", quiet=True)


def networks(random_state: int, run: Run) -> Any:
    """Diff-SGQ with networks, whose last layer gives features to a closed form."""
    from cesaro.approximators import MLP  # JAX takes a second to import
    from cesaro.estimators.learned import Learned

    return Learned(
        FOR_NETWORKS,
        approximator=MLP(WIDTHS),
        step_size=STEP_SIZE,
        steps=STEPS,
        batch_size=BATCH,
        target=tracking(),
        seeds=1,
        random_state=random_state,
        run=run,
    )


@cache
def tracking() -> Any:
    """How the target of networks follows them: one object, so that compiled programs are found again."""
    from cesaro.algorithms.saddle_point import tracked

    return tracked(TRACKING)


class Answered(NamedTuple):
    """A rate with its standard error; nan where a candidate refuses or fails, and then `note` says why."""

    rate: float
    standard_error: float
    note: str = ""


def ask(make: Candidate, log: Log, policy: Any, seed: int) -> Answered:
    """What a candidate says about a policy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            estimator = make(seed)
            estimator.fit(log, policy)
            return Answered(float(estimator.reward_rate_), float(getattr(estimator, "standard_error_", math.nan)))
        except MemoryError:
            raise
        except CesaroError as error:
            return Answered(math.nan, math.nan, str(error))
        except Exception as error:  # of an estimator of one's own
            return Answered(math.nan, math.nan, f"{type(error).__name__}: {error}")
