"""The sums of both passes on an accelerator, in double precision: the same protocol as NumPy's, another place.

A piece of rows is sent as the inputs of its features, which are made there, inside of the programs that multiply them, and never
leave. They are in double precision: in single precision a cosine or a sum of products has another last bit on every device; in
double precision rates agree to 1e-9 of a standard error. The host's own features are in single precision, which is faster there
and moves its rate by up to 8e-6 of a standard error in the tests. Ready features, those of users' functions and whatever else the
host alone can make are sent as they are.

The sums of a piece are left where they are, so that the next pieces are on their way before anybody waits; the sums of a block
come back once, and the series of the second pass piece by piece. Pieces are padded to one length with rows of weight zero, so
that each pass is compiled once.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cesaro.data import blocks
from cesaro.features.base import Base
from cesaro.features.formulas import Formula, base_of, features, padded, precision, sendable
from cesaro.features.maps import Pairs
from cesaro.passes.influence import ClosedForm, Influence, Series
from cesaro.passes.moments import Moments
from cesaro.passes.prepare import EncodedRows


class SentRows(NamedTuple):
    """A piece on the device, with rows of weight zero behind it; no `v` where the dual features are the primal ones."""

    formula: Formula | None  # of `x` and `x_next`
    x: Any
    x_next: Any
    dual: Formula | None  # of `v`
    v: Any
    rewards: Any
    weights: Any

    def features(self) -> tuple[Any, Any, Any]:
        """`x`, `x̄'` and `v` or None, `[n, size]` each."""
        x, x_next = features(self.formula, self.x, self.x_next)
        return x.T, x_next.T, None if self.v is None else features(self.dual, self.v)[0].T


class Accelerator:
    """A device of JAX, and the rows that it gets at a time.

    How many pieces are there at once is bounded by `run._blocks`, though nobody waits for a piece, which counts as done when it
    is sent: blocks are summed up in order, which takes what the device found, and at most two of them wait for that. So a fast
    host is ahead by these, by the block that it hands out, and by the `WAITING` pieces of each thread: of inputs, some megabytes.

    Args:
        device: of JAX.
        rows: the most of a piece.
    """

    def __init__(self, device: Any, rows: int) -> None:
        self.device, self.rows = device, min(rows, blocks.BLOCK_ROWS)  # pieces are parts of blocks
        # What is the same for all pieces is sent once, or twice where two threads come at the same time.
        self._formulas: dict[Base, Formula | None] = {}
        self._solution: tuple[ClosedForm, Any] | None = None

    def moments(self) -> "DeviceMoments":
        """Sums of no rows yet."""
        return DeviceMoments(self)

    def influence(self, rows: EncodedRows, solution: ClosedForm, per_weight: float) -> "DeviceInfluence":
        """The series of some rows, which may still be under way."""
        with jax.enable_x64(True):
            found = _influence(self.sent(rows)[0], *self._constants(solution), np.float64(per_weight))
        return DeviceInfluence(found, len(rows))

    def sent(self, rows: EncodedRows) -> tuple[SentRows, float]:
        """The rows on the device, and the precision that the host's features would have."""
        weights = np.ones(len(rows)) if rows.weights is None else rows.weights
        formula, dual = self._formula(rows.x), None if rows.v is None else self._formula(rows.v)

        def made(pairs: Pairs, formula: Formula | None) -> Any:
            return sendable(pairs, formula, len(rows), rows.tile, self.rows)

        x, x_next = made(rows.x, formula), made(rows.x_next, formula)
        v = None if rows.v is None else made(rows.v, dual)
        parts = self._put((x, x_next, v, padded(rows.rewards, self.rows), padded(weights, self.rows)))
        rounding = precision(x) if v is None else max(precision(x), precision(v))
        return SentRows(formula, parts[0], parts[1], dual, *parts[2:]), rounding

    def _formula(self, pairs: Pairs) -> Formula | None:
        base = base_of(pairs)
        if base is None:
            return None
        if base not in self._formulas:
            self._formulas[base] = self._put(Formula.of(base))
        return self._formulas[base]

    def _constants(self, solution: ClosedForm) -> Any:
        kept = self._solution
        if kept is None or kept[0] is not solution:
            dual, primal = solution.rate_row
            shift = solution.ridge * float(primal[1:] @ solution.weights)
            shift += solution.jitter * float(dual[1:] @ solution.residual[1:])
            sent = self._put((solution.reward_rate, solution.weights, solution.residual, dual, primal, shift))
            kept = self._solution = solution, sent
        return kept[1]

    def _put(self, arrays: Any) -> Any:
        return jax.device_put(arrays, self.device)


class DeviceMoments:
    """`Moments` whose sums stay on the device until they are fetched."""

    def __init__(self, place: Accelerator) -> None:
        self._place, self._known = place, Moments()
        self._sums: dict[str, Any] = {}

    def add(self, rows: EncodedRows) -> None:
        """Count rows in; this waits for nothing."""
        with jax.enable_x64(True):
            sent, rounding = self._place.sent(rows)
            found = _sums(sent)
            self._sums = _added(self._sums, found) if self._sums else found
        self._known.rows += len(rows)
        self._known.same &= rows.v is None
        # Not that of the features here: it decides what equations determine, and a log should be judged alike wherever it is
        # evaluated. The map itself, such as the loadings of its components, is in single precision, too.
        self._known.precision = max(self._known.precision, rounding)

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
def _sums(rows: SentRows) -> dict[str, Any]:
    """As `moments._sums`."""
    here, there, v = rows.features()
    rewards, weights = rows.rewards, rows.weights
    root = jnp.sqrt(weights)
    change = (there - here) * root[:, None]
    tests = (here if v is None else v) * root[:, None]
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
    rows: SentRows,
    rate: Any,
    values: Any,
    residual: Any,
    dual: Any,
    primal: Any,
    shift: Any,
    per_weight: Any,
) -> tuple[Any, ...]:
    """As `influence.influence_of`; a residual of zero takes nothing away."""
    here, there, v = rows.features()
    tests = here if v is None else v
    level = _matmul(here, values)
    errors = rows.rewards - rate + (_matmul(there, values) - level)
    ratio = _matmul(tests, dual[1:]) + dual[0]
    left = _matmul(tests, residual[1:]) + residual[0]
    found = ratio * errors - (ratio + _matmul(there - here, primal[1:]) - primal[0]) * left - shift
    return found * (rows.weights * per_weight), ratio, errors, _matmul(ratio * rows.weights, level)
