"""Feature maps of state-action pairs, from a name, a scikit-learn transformer, a function or `file.py:name`."""

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cesaro import checks, python_file, user_code
from cesaro.data import Log, Sample
from cesaro.data.blocks import SAMPLE, sample_rows
from cesaro.data.values import Values
from cesaro.errors import InputError
from cesaro.features.base import Base, Fourier, Linear, Polynomial, Smooth, Splines, Transformer
from cesaro.features.encoder import MAX_DENSE, Encoder
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
from cesaro.text import Sentence, Wording, nearest

__all__ = ["FAMILIES", "SAMPLE", "FeatureMap", "Features", "OneHot", "build", "sample_rows"]

# Names of features, of which some may be followed by their number.
FAMILIES = ("auto", "one-hot", "smooth", "splines", "linear", "fourier", "polynomial")
# The most Fourier features where no number is named, fewer on long logs to bound the time; and the rows that each must have.
AUTO_FEATURES, LONG_LOG, LONG_LOG_FEATURES = 800, 500_000, 560
ROWS_PER_FEATURE = 50
# The same of the components of smooth features; and the rows of each feature that comes before them.
COMPONENTS, ROWS_PER_COMPONENT, ROWS_PER_FIRST = 320, 25, 12
# Of splines.
KNOTS, MOST_KNOTS = 6, 100


def build(
    spec: Any,
    log: Log,
    *,
    random_state: int,
    most: int | None = None,
    sample: Sample | None = None,
) -> FeatureMap:
    """A feature map, fitted on a seeded sample of the log's rows.

    Args:
        spec: "auto", "one-hot", "smooth", "smooth:40", "splines", "linear", "fourier", "fourier:200", "polynomial:2", a
            scikit-learn transformer, a function of (observations) or (observations, actions), or "file.py:name" of one; a map
            is taken as it is.
        log: the log.
        random_state: seed of the sample and of random features.
        most: "auto" means so many Fourier features at most, for methods that learn slowly with many; None: smooth features.
        sample: the log's, where it is known already.
    """
    if type(spec) in (NetworkInputs, PerAction, Joint):
        found: FeatureMap = spec
        return found
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
                        "{one_hot} needs discrete observations and actions; this log has numbers there: take {smooth}, or "
                        "declare columns as categories ({kind}).",
                        one_hot=Wording("features='one-hot'", "--features one-hot"),
                        smooth=Wording("features='smooth'", "--features smooth"),
                        kind=Wording("kinds={'column': 'category'}", "--kind COLUMN=category"),
                    )
                )
            return OneHot(observations, log.states(), actions)
        if name not in FAMILIES:
            close = nearest(name, FAMILIES)
            raise InputError(
                f"features must be one of {', '.join(FAMILIES)}, a transformer, a function or file.py:name. Got {spec!r}"
                + (f"; did you mean {close}?" if close else ".")
            )
    elif not user_code.call(_unreadable(spec), hasattr, spec, "fit"):
        made: FeatureMap = user_code.call(_unreadable(spec), _from_function, spec, observations, actions)
        return made
    state = Encoder(observations, rows.next_observations)
    action = None if finite else Encoder(actions)
    parts = [state(observations), *([] if action is None else [action(actions)])]
    inputs = np.concatenate(parts, axis=1)
    num_actions = len(actions.joint().levels) if finite else 1
    if isinstance(spec, str):
        base = _named(name, argument, inputs, num_actions, len(log), random_state, most)
    else:
        base = Transformer(spec, inputs, random_state)
    return (
        PerAction(EncodedStates(state, base), num_actions, actions.names[0])
        if action is None
        else Joint((state, action), base)
    )


def _named(
    name: str,
    argument: str,
    sample: Any,
    num_actions: int,
    num_rows: int,
    random_state: int,
    most: int | None,
) -> Base:
    number = _count(name, argument)
    if name == "linear":
        return Linear(sample)
    each = f", for each of {num_actions} actions" if num_actions > 1 else ""
    if name == "polynomial":
        degree = number or 2
        check_size(math.comb(sample.shape[1] + degree, degree) * num_actions, f"{name}:{degree}{each}")
        return Polynomial(sample, degree)
    if name == "splines":
        if number is not None and not 2 <= number <= MOST_KNOTS:
            raise InputError(f"N in splines:N must be an integer ≥ 2 and ≤ {MOST_KNOTS}. Got {number}.")
        found = Splines(sample, number or KNOTS)
        check_size(max(1, found.size) * num_actions, f"{name}{each}")
        if not found.size:
            raise InputError(
                Sentence(
                    "Splines need inputs with many values, and this log has none; take {polynomial} or {linear}.",
                    polynomial=Wording("features='polynomial:2'", "--features polynomial:2"),
                    linear=Wording("features='linear'", "--features linear"),
                )
            )
        return found
    if name == "smooth":
        allowed = num_rows // ROWS_PER_COMPONENT // num_actions
        components = min(COMPONENTS // num_actions, allowed) if number is None else number
        made = Smooth(sample, components, random_state, most=max(1, num_rows // ROWS_PER_FIRST // num_actions))
        check_size(made.size * num_actions, f"{name}:{components}{each}")
        return made
    allowed = AUTO_FEATURES if num_rows <= LONG_LOG else LONG_LOG_FEATURES
    size = number or max(1, min(most or allowed, num_rows // ROWS_PER_FEATURE) // num_actions)
    check_size(size * num_actions, f"{name}:{size}{each}")
    return Fourier(sample, size, random_state)


def _count(name: str, argument: str) -> int | None:
    if not argument:
        return None
    if not argument.isascii() or not argument.isdigit() or name == "linear":
        raise InputError(f"features must be '{name}' or '{name}:<whole number>'. Got '{name}:{argument}'.")
    # Python reads no numbers of thousands of digits; twenty are too many already.
    return checks.count(f"N in {name}:N", int(argument[:20]), low=0 if name == "smooth" else 1, high=MAX_DENSE)


def _unreadable(spec: Any) -> Callable[[str], str]:
    return lambda error: (
        f"features must be an object that can be read. Got a {user_code.type_name(spec)}, which failed with {error}."
    )


def _from_function(function: Any, observations: Values, actions: Values) -> FeatureMap:
    """One parameter: state features; two: features of pairs."""
    if not callable(function):
        raise InputError(f"features must be a name, a transformer or a function. Got {user_code.type_name(function)}.")
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
