"""Calling what users wrote: which arguments it takes, and one sentence when it fails."""

import inspect
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cesaro.errors import CesaroError, InputError

Function = Callable[..., Any]

# Where files lie that no user wrote.
NOT_USERS = (
    *(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")),
    str(Path(__file__).parent),
    "<frozen",
)


# Users' code need not know of threads: it runs one call at a time.
ONE_AT_A_TIME = threading.RLock()


def call(who: str, function: Function, *arguments: Any) -> Any:
    """`function(*arguments)`; whatever it raises becomes one sentence with type, message, file and line."""
    try:
        with ONE_AT_A_TIME:
            return function(*arguments)
    except (CesaroError, MemoryError):
        raise
    except Exception as error:
        raise InputError(
            f"{who} failed with {explain(error)}; it must accept the log's observations, {shapes(arguments[0])}."
        ) from error


@contextmanager
def named(who: str) -> Iterator[None]:
    """Code of the user's own within: one call at a time; whatever it raises gets the name of what was called."""
    try:
        with ONE_AT_A_TIME:
            yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{who} failed with {type(error).__name__}: {error}") from error


def explain(error: BaseException) -> str:
    """`ValueError at policy.py, line 3: message`, on one line; the line is the last one in the user's own code."""
    if isinstance(error, SyntaxError) and error.filename:
        where, message = f" at {Path(error.filename).name}, line {error.lineno}", error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if not frame.filename.startswith(NOT_USERS)]
        where = f" at {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""
        message = str(error)
    message = " ".join(message.split())
    message = message if len(message) <= 300 else f"{message[:300]}…"
    return f"{type(error).__name__}{where}" + (f": {message.rstrip('.')}" if message else "")


def shapes(observations: Any) -> str:
    """What a policy receives, in words."""
    if isinstance(observations, dict):
        return "a dict of arrays with the keys " + ", ".join(map(repr, observations))
    return f"an array of {np.asarray(observations).dtype} with shape {np.shape(observations)}"


def copied(observations: Any) -> Any:
    """Fresh arrays: a policy that works in place must not change the log."""
    if isinstance(observations, dict):
        return {name: np.array(column) for name, column in observations.items()}
    return np.array(observations)


def sampler(who: str, function: Function) -> tuple[Function, bool]:
    """The function as `f(observations, rng)`, and whether it is deterministic: it takes no generator.

    The generator goes to the parameter `rng`, whatever its place and default, or else to the second of two required
    parameters. Other parameters must have defaults.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise InputError(
            f"{who} has parameters that cannot be read; wrap it: def f(observations, rng): return …"
        ) from None
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty and p.name != "rng"]
    by_name = any(p.name == "rng" and p.kind is not p.POSITIONAL_ONLY for p in parameters if p not in positional[:1])
    swapped = bool(positional) and positional[0].name == "rng"
    taken = by_name and len(required) == 2 and required[1].name != "rng"
    if len(required) not in (1, 2) or swapped or keywords or taken:
        raise InputError(
            f"{who} must be a function of (observations) or (observations, rng), other parameters with defaults. "
            f"Got ({', '.join(map(str, parameters))}); wrap it: def f(observations, rng): return …"
        )
    if by_name:
        return lambda observations, rng: function(observations, rng=rng), False
    if len(required) == 2:
        return function, False
    return lambda observations, rng: function(observations), True
