"""Observations as a policy sees them: the log's columns, by name in every case, as arrays or as a data frame."""

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import user_code
from cesaro.errors import InputError
from cesaro.text import Sentence, argument, nearest

Observations = Any  # a `Column` or a plain array, `[n]` or `[n, d]`, or a dict of arrays `[n]` by name

_LIBRARIES = ("pandas", "polars")


class Column(np.ndarray[Any, Any]):
    """The observations of a log with one column `[n]`, or with a vector `[n, d]`: an array that also knows its names.

    Several named columns are a dict of arrays, so that `observations["temperature"]` is that column in every case.

    Attributes:
        names: the name of the column, or those of the d entries.

    Example:
        >>> import numpy as np
        >>> from cesaro.policies.observed import named
        >>> seen = named(np.array([18.5, 21.0]), ("temperature",))
        >>> seen["temperature"] < 19, seen < 19
        (array([ True, False]), array([ True, False]))
    """

    names: tuple[str, ...]

    def __array_finalize__(self, other: Any) -> None:
        self.names = getattr(other, "names", ())

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        plain = self.view(np.ndarray)
        if key not in self.names:
            raise KeyError(key)
        return plain if len(self.names) == 1 else plain[:, self.names.index(key)]

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Return a plain array for what is computed from it."""
        return array[()] if return_scalar else np.asarray(array)

    def __reduce__(self) -> Any:
        return named, (np.asarray(self), self.names)


def named(observations: Observations, names: tuple[str, ...]) -> Observations:
    """An array with the names of the log's columns; a dict has them already."""
    if isinstance(observations, dict) or not names:
        return observations
    column = np.asarray(observations).view(Column)
    column.names = names
    return column


def columns(observations: Observations) -> dict[str, NDArray[Any]]:
    """Every column `[n]` by its name; what has no names is numbered."""
    if isinstance(observations, dict):
        return observations
    plain, names = np.asarray(observations), getattr(observations, "names", ())
    if plain.ndim == 1:
        return {names[0] if names else "observation": plain}
    if len(names) != plain.shape[1]:
        names = tuple(f"{names[0] if names else 'observation'}_{k}" for k in range(plain.shape[1]))
    return {name: plain[:, k] for k, name in enumerate(names)}


def frame(observations: Observations, library: str = "pandas") -> Any:
    """A data frame with a column for each of the log's."""
    found = {name: np.array(column) for name, column in columns(observations).items()}
    try:
        return __import__(library).DataFrame(found)
    except ImportError:
        raise InputError(
            f"A policy that takes a {library} frame needs {library}; run: pip install {library}."
        ) from None


def frame_library(function: Callable[..., Any]) -> str | None:
    """The library whose data frame the function asks for, by the annotation of its first parameter; None: arrays."""
    try:
        first = next(iter(inspect.signature(function, eval_str=True).parameters.values()), None)
    except Exception:  # an annotation that cannot be read, or no signature
        return None
    asked = None if first is None else first.annotation
    for library in _LIBRARIES:
        kind = getattr(sys.modules.get(library), "DataFrame", None)
        if kind is not None and asked is kind:
            return library
    return None


def of_missing(error: KeyError, observations: Observations) -> str:
    """A remedy where a policy asks for a column that it is not given; empty where it failed otherwise."""
    name, known = error.args[0] if error.args else None, columns(observations)
    if not isinstance(name, str) or name in known:
        return ""
    close = nearest(name, known)
    if close is not None:
        return f" Did you mean {close!r}?"
    return Sentence(" If the log has that column, add {it}.", it=argument("observation", name))


def given(observations: Observations, library: str | None) -> Any:
    """The argument that a function is called with: fresh, so that one that works in place does not change the log."""
    return user_code.copied(observations) if library is None else frame(observations, library)


def described(observations: Observations, library: str | None) -> str:
    """The argument that a function is called with, in words."""
    if library is None:
        return user_code.shapes(observations)
    return f"a {library} frame with the columns {', '.join(map(repr, columns(observations)))}"
