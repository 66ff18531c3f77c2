"""Validation shared by everything that takes arrays: one clear sentence per broken rule."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cesaro.errors import InputError, ToleranceError
from cesaro.text import nearest, shortened

Array = NDArray[np.float64]
P = ParamSpec("P")
R = TypeVar("R")

# Numbers of logs and features are zero or within these sizes: their squares, products of three, and sums of as many as a log has
# rows, are then numbers that a float64 holds.
SMALLEST, LARGEST = 1e-100, 1e100
# Step sizes, ridges and other numbers of methods stay below this.
LARGEST_SETTING = 1e30
# Relative rounding of an action at its bound.
_SLACK = 1e-6
# Threads or processes of one run, and actions drawn per state.
MOST_WORKERS, MOST_DRAWS = 1_024, 10_000


def row_sum_tolerance(dtype: np.dtype[Any]) -> float:
    """How far a row may be from summing to one: rounding of the caller's precision, nothing more."""
    return 1e-6 if dtype.kind == "f" and dtype.itemsize < 8 else 1e-9


def float_array(
    name: str, values: ArrayLike, axes: tuple[str, ...], shape: tuple[int | None, ...], *, largest: float = np.inf
) -> Array:
    """`values` as a fresh float64 array of the given shape (None: any positive length) with finite entries of at most a size."""
    try:
        raw = np.asarray(values)
        if raw.dtype.kind not in "biuf":
            raise TypeError
        array = np.array(raw, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"{name} must be a real array of shape [{', '.join(axes)}]. Got {_kind(values)}; convert it to floats first."
        ) from None
    expected = ", ".join(axis if size is None else f"{axis}={size}" for axis, size in zip(axes, shape))
    fits = array.ndim == len(shape) and all(
        n == size if size is not None else n >= 1 for n, size in zip(array.shape, shape)
    )
    if not fits:
        raise InputError(f"{name} must have shape [{expected}]. Got {array.shape}; check the order of its axes.")
    finite = np.isfinite(array)
    if np.ma.isMaskedArray(values):
        finite &= ~np.ma.getmaskarray(values)
    if not finite.all():
        index = first_index(~finite)
        raise InputError(
            f"{name} must be finite. Got {array[index]} at {locate(axes, index)}; replace or remove that entry."
        )
    if array.max() > largest or array.min() < -largest:
        index = first_index(np.abs(array) > largest)
        raise InputError(
            f"{name} must be at most {largest:g} in size, so that squares do not overflow. Got {array[index]:g} at "
            f"{locate(axes, index)}; scale it, or replace or remove that entry."
        )
    return array


def distributions(name: str, array: Array, axes: tuple[str, ...], tolerance: float, *, over: int) -> Array:
    """Check that `array` is non-negative and sums to one over its last `over` axes; return it normalized in place."""
    if (array < 0).any():
        index = first_index(array < 0)
        raise InputError(
            f"{name} must not be negative. Got {array[index]:g} at {locate(axes, index)}; "
            "probabilities lie between 0 and 1."
        )
    last = tuple(range(array.ndim - over, array.ndim))
    with np.errstate(over="ignore"):
        sums = array.sum(axis=last, keepdims=True)
    wrong = ~(np.abs(sums - 1) <= tolerance)
    if wrong.any():
        index = first_index(wrong)[: array.ndim - over]
        where = f" at {locate(axes, index)}" if index else ""
        raise InputError(
            f"{name} must sum to one over {' and '.join(axes[-over:])}. "
            f"Got {sums[first_index(wrong)]:.12g}{where}; add what is missing or divide by the sum."
        )
    array /= sums
    return array


def number(name: str, value: Any, *, low: float, low_open: bool = False, high: float = np.inf) -> float:
    """`value` as a float within `[low, high)` (or `(low, high)`)."""
    rule = (
        ""
        if low == -np.inf
        else f" {'>' if low_open else '≥'} {low:g}" + ("" if high == np.inf else f" and < {high:g}")
    )
    try:
        if isinstance(value, str | bytes | bool | np.bool_):
            raise TypeError
        result = float(value)
        ok = np.isfinite(result) and (result > low if low_open else result >= low) and result < high
    except (TypeError, ValueError, OverflowError):
        ok = False
    if not ok:
        raise InputError(f"{name} must be a number{rule}. Got {value!r}.")
    return result


def named_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with a sentence in place of Python's TypeError for keyword arguments that it does not have."""
    known = inspect.signature(function).parameters

    @wraps(function)
    def called(*given: P.args, **named: P.kwargs) -> R:
        for name in named:
            if name not in known:
                close = nearest(name, known)
                remedy = f"see help(cesaro.{function.__name__})." if close is None else f"did you mean {close!r}?"
                raise InputError(f"{function.__name__} has no argument {name!r}; {remedy}")
        return function(*given, **named)

    return called


def count(name: str, value: Any, *, low: int = 1, high: int | None = None) -> int:
    """`value` as an integer of at least `low`, and at most `high`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
    if not whole or value < low or (high is not None and value > high):
        rule = "" if high is None else f" and ≤ {high:,}"
        raise InputError(f"{name} must be an integer ≥ {low}{rule}. Got {shortened(value)}.")
    return int(value)


@contextmanager
def decomposing(what: str) -> Iterator[None]:
    """Turn a matrix that cannot be decomposed into a sentence; as a decorator, wherever in a function that happens."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise ToleranceError(
            f"{what} cannot be computed in double precision ({error}); scale rewards and features to moderate numbers, or take "
            "fewer features."
        ) from error


def frozen(array: Array) -> Array:
    """The same array, read-only: problems are values, and cached results depend on them."""
    array.flags.writeable = False
    return array


def beyond(actions: NDArray[Any], bound: NDArray[Any], sign: float) -> NDArray[np.bool_]:
    """Which entries lie above a bound per dimension (`sign` 1) or below it (−1) by more than rounding, `[n, d]`."""
    slack = np.where(np.isfinite(bound), _SLACK * np.maximum(1.0, np.abs(bound)), 0.0)
    return np.asarray(sign * actions > sign * bound + slack)


def first_index(mask: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def locate(axes: tuple[str, ...], index: tuple[int, ...]) -> str:
    return ", ".join(f"{axis} {i}" for axis, i in zip(axes, index))


def _kind(values: Any) -> str:
    dtype = getattr(values, "dtype", None)
    return f"dtype {dtype}" if dtype is not None else f"a {type(values).__name__}"
