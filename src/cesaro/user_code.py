"""Calling what users wrote: one place for all of it, one sentence when it fails, and which arguments it takes."""

import inspect
import os
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from cesaro.errors import CesaroError, InputError, UserMemoryError

Function = Callable[..., Any]

# Where files lie that no user wrote.
NOT_USERS = (
    *(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")),
    str(Path(__file__).parent),
    "<frozen",
)

_LONGEST = 300


class _Inside(threading.local):
    """Whether this thread runs users' code already."""

    depth = 0


class _Process:
    """Which process this is: forks are counted, because to ask the system takes longer."""

    forks = 0

    def fork(self) -> None:
        self.forks += 1


_INSIDE, _PROCESS = _Inside(), _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_PROCESS.fork)
# Users' code need not know of threads: it runs one call at a time.
ONE_AT_A_TIME = threading.RLock()


def call(failed: Callable[[str], str], function: Function, *arguments: Any) -> Any:
    """`function(*arguments)`, which a user wrote.

    Whatever it raises becomes one sentence; only an interruption passes, and a sentence of ours. It cannot end this program,
    change how NumPy treats overflow here, or take the working directory away; a process that it forked ends where it returns.

    Args:
        failed: makes the sentence from the type, place and message of what was raised (see `explain`).
        function: the user's own, or something that calls what is; a call inside another one costs next to nothing.
    """
    forks = _PROCESS.forks
    try:
        if _INSIDE.depth:
            result = function(*arguments)
        else:
            with _alone():
                result = copy_context().run(function, *arguments)
    except BaseException as error:
        if _PROCESS.forks != forks:
            _end_forked(error)
        if issubclass(type(error), KeyboardInterrupt) or _is_ours(error):
            raise
        kind = UserMemoryError if issubclass(type(error), MemoryError) else InputError
        raise kind(failed(explain(error))) from error
    if _PROCESS.forks != forks:
        _end_forked(None)
    return result


@contextmanager
def _alone() -> Iterator[None]:
    """One call at a time, after which the working directory is the one that paths were given in."""
    with ONE_AT_A_TIME:
        _INSIDE.depth += 1
        here = directory()
        try:
            yield
        finally:
            _INSIDE.depth -= 1
            if here is not None and directory() != here:
                with suppress(OSError):  # it is gone
                    os.chdir(here)


def directory() -> str | None:
    """The working directory; None where it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return None


def _is_ours(error: BaseException) -> bool:
    """Whether the error is a sentence that this package wrote."""
    own = issubclass(type(error), CesaroError) and type(error).__module__.startswith("cesaro.")
    return own and bool(error.args) and isinstance(error.args[0], str)


def _end_forked(error: BaseException | None) -> NoReturn:
    """End a process that users' code forked: what follows is the work of the one that called."""
    code: Any = 0
    if error is not None:
        code = getattr(error, "code", 1) if isinstance(error, SystemExit) else 1
        with suppress(BaseException):
            if not isinstance(error, SystemExit | KeyboardInterrupt):
                sys.excepthook(type(error), error, error.__traceback__)
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):
            stream.flush()
    os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))


def explain(error: BaseException) -> str:
    """`ValueError at policy.py, line 3: message`, on one line; the line is the last one in the user's own code."""
    place = _told(lambda: _place(error))
    message = _told(lambda: error.msg if isinstance(error, SyntaxError) and error.filename else str(error))
    message = message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…"
    if issubclass(type(error), MemoryError):
        message = f"out of memory ({message})" if message else "out of memory"
    return type_name(error) + (f" {place}" if place else "") + (f": {message.rstrip('.')}" if message else "")


def type_name(x: Any) -> str:
    """The name of the class of a user's object, which may hide it."""
    return _told(lambda: type.__dict__["__name__"].__get__(type(x)))


def _place(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"at {Path(error.filename).name}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(NOT_USERS)]
    return f"at {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""


def _told(tell: Callable[[], Any]) -> str:
    """The text that a user's object gives of itself, on one line; empty where that fails as well."""
    try:
        return " ".join(str.split(tell()))  # of `str` itself, whatever a subclass would do
    except KeyboardInterrupt:
        raise
    except BaseException:
        return ""


def shapes(observations: Any) -> str:
    """The observations that a policy receives, in words."""
    if isinstance(observations, dict):
        return "a dict of arrays with the keys " + ", ".join(map(repr, observations))
    return f"an array of {np.asarray(observations).dtype} with shape {np.shape(observations)}"


def copied(observations: Any) -> Any:
    """Fresh arrays, of the kind they are: a policy that works in place must not change the log."""
    if isinstance(observations, dict):
        return {name: np.array(column) for name, column in observations.items()}
    return np.array(observations, subok=True)


class _Sampler:
    """A function as `f(observations, rng)`; unlike one that is defined on the way it can be pickled where the function can."""

    def __init__(self, function: Function, *, by_name: bool) -> None:
        self.function, self.by_name = function, by_name

    def __call__(self, observations: Any, rng: Any) -> Any:
        return self.function(observations, rng=rng) if self.by_name else self.function(observations)


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
        return _Sampler(function, by_name=True), False
    if len(required) == 2:
        return function, False
    return _Sampler(function, by_name=False), True
