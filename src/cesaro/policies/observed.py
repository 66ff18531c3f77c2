"""Observations as a policy sees them: the log's columns, by name in every case, as arrays, as a matrix or as a data frame."""

import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import user_code
from cesaro.errors import InputError
from cesaro.policies import labels
from cesaro.text import Sentence, argument, nearest, visible

Observations = Any  # a `Column` or a plain array, `[n]` or `[n, d]`, or a dict of arrays `[n]` by name

_LIBRARIES = ("pandas", "polars")
_WORD = re.compile(r"[^\W\d_](?:[\w .-]*[\w.-])?")
_LONGEST, _LONGEST_VALUE, _MOST_NUMBERS = 160, 40, 24


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


def count(observations: Observations) -> int:
    """The number of observations."""
    return len(next(iter(observations.values()))) if isinstance(observations, dict) else len(observations)


def matrix(who: str, observations: Observations, width: int | None, dtype: Any) -> NDArray[Any]:
    """Observations as a network takes them, `[n, width]`: numbers only, named columns in the log's order."""
    columns = list(observations.values()) if isinstance(observations, dict) else [np.asarray(observations)]
    names = [repr(name) for name in observations] if isinstance(observations, dict) else ["observation"]
    for name, column in zip(names, columns):
        if column.dtype.kind not in "iuf":
            raise InputError(
                f"{who} takes numbers only, and the log's column {name} holds {labels.kind(column[:1])}; "
                "write a function in a Python file that encodes it, and pass file.py:name."
            )
    result = np.column_stack(columns) if isinstance(observations, dict) else columns[0]
    result = result[:, None] if result.ndim == 1 else result
    if width is not None and result.shape[1:] != (width,):
        raise InputError(
            f"{who} takes {width} numbers per observation, and the log has {result.shape[1]}; "
            "give the log's observation columns that the policy was made for."
        )
    if np.dtype(dtype).kind in "iu" and (np.floor(result) != result).any():
        row = int(np.argmax((np.floor(result) != result).any(axis=1)))
        raise InputError(f"{who} takes whole numbers only. Got others {place(observations, row)}.")
    with np.errstate(over="ignore"):
        return np.asarray(result, dtype=dtype)


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


def remedy_for_missing(error: KeyError, observations: Observations) -> str:
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


def place(observations: Observations, row: int, what: str = "at the observation") -> str:
    """The observation at which a rule is broken: rows have other numbers in a block, among distinct states and in a file.

    Example: `at the observation {free_servers: 3, priority: gold}`.
    """
    if isinstance(observations, dict):
        seen = "{" + ", ".join(f"{_text(name)}: {_text(column[row])}" for name, column in observations.items()) + "}"
    else:
        seen = _text(np.asarray(observations)[row])
    return f"{what} {_short(seen, _LONGEST)}"


def _text(value: Any) -> str:
    """A number or a word as it is, other text in quotes, so that 3 and '3' differ."""
    if isinstance(value, np.ndarray):
        numbers = value.ravel()
        more = ", …" if len(numbers) > _MOST_NUMBERS else ""
        return "[" + ", ".join(map(_text, numbers[:_MOST_NUMBERS])) + more + "]"
    if isinstance(value, str):
        plain = str(value)
        return _short(plain if _WORD.fullmatch(plain) else visible(repr(plain)), _LONGEST_VALUE)
    return _short(visible(str(value)), _LONGEST_VALUE)


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
