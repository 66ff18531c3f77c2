"""The sums of both passes on an accelerator, in double precision: the same protocol as NumPy's, another place.

Features come from the host as NumPy makes them: in single precision a cosine or a sum of products has another last bit on every
device, which moves rates by 1e-7 of a standard error, while products of the same features in double precision agree to rounding.
A piece of rows is sent and its sums are left where they are, so that the next pieces are on their way before anybody waits; the
sums of a block come back once, and the series of the second pass piece by piece. Pieces are padded to one length with rows of
weight zero, so that each pass is compiled once.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from cesaro.passes.influence import ClosedForm, Influence, Series
from cesaro.passes.moments import Moments, precision_of
from cesaro.passes.prepare import FeatureRows


class Accelerator:
    """A device of JAX, and the rows that it gets at a time.

    Args:
        device: of JAX.
        rows: the most of a piece.
    """

    def __init__(self, device: Any, rows: int) -> None:
        self.device, self.rows = device, rows

    def moments(self) -> "DeviceMoments":
        """Sums of no rows yet."""
        return DeviceMoments(self)

    def influence(self, rows: FeatureRows, solution: ClosedForm, per_weight: float) -> "DeviceInfluence":
        """The series of some rows, which may still be under way."""
        dual, primal = solution.rate_row
        constants = (solution.reward_rate, solution.weights, solution.residual, dual, primal)
        shift = solution.ridge * float(primal[1:] @ solution.weights)
        shift += solution.jitter * float(dual[1:] @ solution.residual[1:])
        with jax.enable_x64(True):
            found = _influence(*self.sent(rows), *self._put((*constants, shift, per_weight)))
        return DeviceInfluence(found, len(rows))

    def sent(self, rows: FeatureRows) -> "tuple[Any, ...]":
        """`x`, `x̄'`, `v` or None where that is `x`, rewards and weights, on the device."""
        weights = np.ones(len(rows)) if rows.weights is None else rows.weights
        dual = None if rows.v is rows.x else self._padded(rows.v)
        parts = (self._padded(rows.x), self._padded(rows.x_next), dual, self._padded(rows.rewards))
        return self._put((*parts, self._padded(weights)))

    def _padded(self, array: Any) -> NDArray[np.floating]:
        missing = self.rows - len(array)
        if not missing:
            return np.asarray(array)
        return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])

    def _put(self, arrays: tuple[Any, ...]) -> Any:
        return jax.device_put(arrays, self.device)


class DeviceMoments:
    """`Moments` whose sums stay on the device until they are fetched."""

    def __init__(self, place: Accelerator) -> None:
        self._place, self._known = place, Moments()
        self._sums: dict[str, Any] = {}

    def add(self, rows: FeatureRows) -> None:
        """Count rows in; this waits for nothing."""
        with jax.enable_x64(True):
            found = _sums(*self._place.sent(rows))
            self._sums = _added(self._sums, found) if self._sums else found
        self._known.rows += len(rows)
        self._known.same &= rows.v is rows.x
        self._known.precision = max(self._known.precision, precision_of(rows))

    def merge(self, other: Any) -> None:
        """Count in what another accumulator holds, as if its rows came next."""
        with jax.enable_x64(True):
            self._sums = _added(self._sums, other._sums)
        self._known.merge(other._known)

    def fetched(self) -> Moments:
        """The sums on the host."""
        self._known.set_sums({name: np.array(value)[()] for name, value in self._sums.items()})
        return self._known


class DeviceInfluence(NamedTuple):
    """`Influence` on the device, of rows and padding behind them: influence, ratio, errors and the level."""

    found: tuple[Any, ...]
    rows: int

    def fetched(self) -> Influence:
        """The series on the host."""
        *series, level = self.found
        return Influence(Series(*(np.asarray(part)[: self.rows] for part in series)), float(level))


_matmul = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


@jax.jit
def _sums(x: Any, x_next: Any, v: Any, rewards: Any, weights: Any) -> dict[str, Any]:
    """As `moments._sums`."""
    here, root = x.astype(jnp.float64), jnp.sqrt(weights)
    change = (x_next.astype(jnp.float64) - here) * root[:, None]
    tests = (here if v is None else v.astype(jnp.float64)) * root[:, None]
    square = _matmul(tests.T, tests)
    return {
        "w": weights.sum(),
        "R": _matmul(weights, rewards),
        "v": _matmul(root, tests),
        "vv": square,
        "z": _matmul(root, change),
        "vz": _matmul(tests.T, change),
        "vR": _matmul(root * rewards, tests),
        "xx": jnp.diag(square) if v is None else _matmul(weights, here * here),
    }


@jax.jit
def _added(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {name: value + other[name] for name, value in one.items()}


@jax.jit
def _influence(
    x: Any,
    x_next: Any,
    v: Any,
    rewards: Any,
    weights: Any,
    rate: Any,
    values: Any,
    residual: Any,
    dual: Any,
    primal: Any,
    shift: Any,
    per_weight: Any,
) -> tuple[Any, ...]:
    """As `influence.influence_of`; a residual of zero takes nothing away."""
    here, there = x.astype(jnp.float64), x_next.astype(jnp.float64)
    tests = here if v is None else v.astype(jnp.float64)
    level = _matmul(here, values)
    errors = rewards - rate + (_matmul(there, values) - level)
    ratio = _matmul(tests, dual[1:]) + dual[0]
    left = _matmul(tests, residual[1:]) + residual[0]
    found = ratio * errors - (ratio + _matmul(there - here, primal[1:]) - primal[0]) * left - shift
    return found * (weights * per_weight), ratio, errors, _matmul(ratio * weights, level)
