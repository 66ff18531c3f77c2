"""Feature maps of state-action pairs, from a name, a scikit-learn transformer, a function or `file.py:name`."""

import inspect
import math
from pathlib import Path
from typing import Any

import numpy as np

from cesaro import checks
from cesaro.data import Log, Sample
from cesaro.data.blocks import SAMPLE, sample_rows
from cesaro.data.values import Values
from cesaro.errors import InputError
from cesaro.features.base import Base, Fourier, Linear, Polynomial, Smooth, Splines, Transformer
from cesaro.features.encoder import Encoder
from cesaro.features.maps import (
    EncodedStates,
    FeatureMap,
    Features,
    Joint,
    OneHot,
    PairFunction,
    PerAction,
    StateFunction,
    check_size,
    checked_output,
    name_of,
)
from cesaro.features.networks import NetworkInputs
from cesaro.policies import python_file
from cesaro.text import Sentence, Wording

__all__ = ["SAMPLE", "FeatureMap", "Features", "OneHot", "build", "sample_rows"]

# The most Fourier features where no number is named, fewer on long logs to bound the time; and the rows that each must have.
AUTO_FEATURES, LONG_LOG, LONG_LOG_FEATURES = 800, 500_000, 560
ROWS_PER_FEATURE = 50
# The same of the components of smooth features, and of what comes before them.
COMPONENTS, ROWS_PER_COMPONENT = 320, 25


def build(
    spec: Any,
    log: Log,
    *,
    random_state: int,
    multiple: int = 1,
    most: int | None = None,
    sample: Sample | None = None,
) -> FeatureMap:
    """A feature map, fitted on a seeded sample of the log's rows.

    Args:
        spec: "auto", "one-hot", "smooth", "smooth:40", "splines", "linear", "fourier", "fourier:200", "polynomial:2", a scikit-learn
            transformer, a function of (observations) or (observations, actions), or "file.py:name" of one; a map is taken as it is.
        log: the log.
        random_state: seed of the sample and of random features.
        multiple: how many times as many Fourier features; the first ones stay the same.
        most: for methods that slow down with many features: so many Fourier features are their default; None: it is "smooth".
        sample: the log's, where it is known already.
    """
    if isinstance(spec, NetworkInputs | PerAction | Joint):
        return spec
    rows = (log.sample(random_state) if sample is None else sample).rows
    observations, actions = rows.observations, rows.actions
    finite = actions.is_discrete
    discrete = finite and observations.is_discrete
    name, argument = "", ""
    if isinstance(spec, str):
        name, _, argument = spec.partition(":")
        if name.endswith(".py"):
            return build(python_file.load(Path(name), argument)[0], log, random_state=random_state, sample=sample)
        if name == "auto":
            name = "one-hot" if discrete else "smooth" if most is None else "fourier"
        if name == "one-hot":
            if not discrete:
                raise InputError(
                    Sentence(
                        "features='one-hot' needs discrete observations and actions; this log has numbers there: take 'fourier', "
                        "or declare columns as categories ({kind}).",
                        kind=Wording("kinds={'column': 'category'}", "--kind COLUMN=category"),
                    )
                )
            return OneHot(observations, log.states(), actions)
        if name not in _NAMED:
            known = ", ".join(("auto", "one-hot", *_NAMED))
            raise InputError(
                f"features must be one of {known}, a transformer, a function or file.py:name. Got {spec!r}."
            )
    elif not hasattr(spec, "fit") and not callable(spec):
        raise InputError(f"features must be a name, a transformer or a function. Got {type(spec).__name__}.")
    if not isinstance(spec, str) and not hasattr(spec, "fit"):
        return _from_function(spec, observations, actions)
    state = Encoder(observations)
    action = None if finite else Encoder(actions)
    inputs = state(observations)
    if action is not None:
        inputs = np.concatenate([inputs, action(actions)], axis=1)
    num_actions = len(actions.joint().levels) if finite else 1
    if isinstance(spec, str):
        base = _named(name, argument, inputs, num_actions, len(log), random_state, multiple, most)
    else:
        base = Transformer(spec, inputs, random_state)
    return (
        PerAction(EncodedStates(state, base), num_actions, actions.names[0])
        if action is None
        else Joint((state, action), base)
    )


_NAMED = ("smooth", "splines", "linear", "fourier", "polynomial")


def _named(
    name: str,
    argument: str,
    sample: Any,
    num_actions: int,
    num_rows: int,
    random_state: int,
    multiple: int,
    most: int | None,
) -> Base:
    number = _count(name, argument)
    if name == "linear":
        return Linear(sample)
    if name == "polynomial":
        check_size(math.comb(sample.shape[1] + (number or 2), number or 2) * num_actions, f"{name}:{number or 2}")
        return Polynomial(sample, number or 2)
    if name == "splines":
        if number is not None and number < 2:
            raise InputError(f"features='splines:{number}' is not understood; splines have at least 2 knots.")
        return Splines(sample, number or 6)
    if name == "smooth":
        each = num_rows // ROWS_PER_COMPONENT // num_actions
        components = min(COMPONENTS // num_actions, each) if number is None else number
        check_size(components * num_actions, f"{name}:{components}")
        return Smooth(sample, components, random_state, most=max(1, each))
    allowed = AUTO_FEATURES if num_rows <= LONG_LOG else LONG_LOG_FEATURES
    size = number or max(1, min(most or allowed, num_rows // ROWS_PER_FEATURE) // num_actions)
    return Fourier(sample, size * multiple, random_state)


def _count(name: str, argument: str) -> int | None:
    if not argument:
        return None
    if not argument.isascii() or not argument.isdigit() or name == "linear":
        raise InputError(f"features must be '{name}' or '{name}:<whole number>'. Got '{name}:{argument}'.")
    return checks.count(name, int(argument))


def _from_function(function: Any, observations: Values, actions: Values) -> FeatureMap:
    """One parameter: state features; two: features of pairs."""
    try:
        parameters = [
            p
            for p in inspect.signature(function).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
        ]
    except (TypeError, ValueError):
        parameters = []
    finite = actions.is_discrete
    rows = min(2, len(observations))
    plain = observations.take(slice(0, rows)).plain()
    if len(parameters) == 2:
        size = checked_output(function, (plain, actions.take(slice(0, rows)).plain()), rows, None).shape[1]
        return PairFunction(function, size, actions.joint().levels if finite else None, actions.form == "lone")
    if len(parameters) == 1 and finite:
        return PerAction(
            StateFunction(function, checked_output(function, (plain,), rows, None).shape[1]),
            len(actions.joint().levels),
        )
    raise InputError(
        f"The feature function '{name_of(function)}' must take (observations, actions), or (observations) where actions are "
        f"finite. Got {len(parameters)} parameters."
    )
