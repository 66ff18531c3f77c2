"""Candidates: closed forms in maps of several families, asked the same question about a log."""

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cesaro.data import FeatureTransitions, Log, read
from cesaro.data.values import Categories, Values
from cesaro.errors import CesaroError, InputError
from cesaro.estimators import DiffLSTD, registry

# Maps of different families; one with more features than this, over all actions, takes minutes, and is left out.
MAPS = ("polynomial:2", "polynomial:3", "fourier:50", "fourier:200", "auto")
MOST_FEATURES = 1_000

# From a seed to something with `fit(log, policy)`, and then `reward_rate_` and `standard_error_`.
Candidate: TypeAlias = Callable[[int], Any]


def closed_forms(log: Log) -> dict[str, Candidate]:
    """Candidates for a log: the closed form in every map that suits it; one for a discrete log, which needs no map."""
    if log.opened(quiet=True).states() is not None:
        return {"auto": _closed("auto")}
    return {name: _closed(name) for name in MAPS if name == "auto" or count_features(name, log) <= MOST_FEATURES}


def count_features(features: str, log: Log) -> int:
    """Features of a map over all actions, roughly."""
    block = log.part(np.arange(1))
    inputs = sum(_width(values) for values in (block.observations, block.actions))
    family, _, size = features.partition(":")
    sizes = {"linear": inputs, "fourier": int(size or 0), "polynomial": math.comb(inputs + int(size or 0), inputs)}
    each = sizes.get(family, 0)  # splines choose their number themselves
    return each * (1 if log.action_levels is None else len(log.action_levels))


def _width(values: Values) -> int:
    """Numbers among some columns."""
    arrays = [np.asarray(column) for column in values.columns if not isinstance(column, Categories)]
    return sum(array[0].size for array in arrays)


def named(name: str) -> Candidate:
    """A method of the registry, or the closed form in a map."""
    if name in registry.METHODS:
        return lambda seed: registry.METHODS[name].estimator(random_state=seed, quiet=True)
    return _closed(name)


def _closed(features: str) -> Candidate:
    return lambda seed: DiffLSTD(features, random_state=seed, quiet=True)


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


def as_log(log: Any) -> Log:
    """The log that a question is about: as it was read, or read from a path as it is."""
    if isinstance(log, Log):
        return log
    if isinstance(log, FeatureTransitions):
        raise InputError("evaluate needs a log; ready features go to an estimator: cesaro.DiffLSTD().fit(data).")
    if isinstance(log, str | Path):
        return read(log)
    raise InputError(f"log must be a Log, Transitions or a path. Got {type(log).__name__}; see cesaro.read.")
