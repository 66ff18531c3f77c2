"""The sums of both passes on an accelerator, in double precision: as NumPy's, another place.

A block of rows is sent as the inputs of its features, which are made there, inside of the programs that multiply them, and never
leave. They are in double precision: in single precision a cosine or a sum of products has another last bit on every device; in
double precision rates agree to 1e-9 of a standard error. The host's own features are in single precision, which is faster there
and moves its rate by up to 8e-6 of a standard error in the tests. Ready features, those of users' functions and whatever else the
host alone can make are sent as they are.

A program takes a whole block, since every call costs the host the interpreter, which all its threads share; it goes through the
block in tiles, so that features never take much memory. Each thread of the host waits for its own block, while others encode
theirs. The last block is padded with rows of weight zero, so that each pass is compiled once.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cesaro.data import blocks
from cesaro.features.base import Base, Smooth
from cesaro.features.formulas import Formula, base_of_pairs, features, padded, precision, products, sendable
from cesaro.features.maps import Pairs, base_of
from cesaro.passes.influence import ClosedForm, Influence, Series
from cesaro.passes.moments import Moments
from cesaro.passes.prepare import EncodedRows, Prepared

# Numbers of one array of features, or of the functions that they are made of, on the device at a time: 64 MiB.
NUMBERS = 2**23


class Formulas(NamedTuple):
    """What features are made by; None where the host made them."""

    primal: Formula | None
    dual: Formula | None


class SentRows(NamedTuple):
    """Rows on the device; no `v` where the dual features are the primal ones."""

    x: Any
    x_next: Any
    v: Any
    rewards: Any  # [n]
    weights: Any  # [n], zero behind the rows of the block

    def features(self, formulas: Formulas) -> tuple[Any, Any, Any]:
        """`x`, `x̄'` and `v` or None, `[n, size]` each."""
        x, x_next = features(formulas.primal, self.x, self.x_next)
        return x.T, x_next.T, None if self.v is None else features(formulas.dual, self.v)[0].T

    def products(self, formulas: Formulas, on_primal: Any, on_dual: Any) -> tuple[Any, Any, Any]:
        """What vectors `[m, size]` give of `x`, of `x̄'`, and others of the dual features, `[m, n]` each."""
        if self.v is None:  # one product for all
            here, there = products(formulas.primal, jnp.concatenate([on_primal, on_dual]), self.x, self.x_next)
            return here[: len(on_primal)], there[: len(on_primal)], here[len(on_primal) :]
        here, there = products(formulas.primal, on_primal, self.x, self.x_next)
        return here, there, products(formulas.dual, on_dual, self.v)[0]

    def tiles(self, count: int) -> "SentRows":
        """So many parts of equal length, one after the other along a first axis of every array."""
        x, x_next, v = (None if pairs is None else pairs.tiles(count) for pairs in self[:3])
        return SentRows(x, x_next, v, self.rewards.reshape(count, -1), self.weights.reshape(count, -1))


class Accelerator:
    """A device of JAX that computes what passes ask of blocks.

    Args:
        device: of JAX.
        prepared: whose blocks these are.
    """

    def __init__(self, device: Any, prepared: Prepared) -> None:
        self.device = device
        rows = min(prepared.num_rows, blocks.BLOCK_ROWS)
        made_of = (base.functions for base in map(base_of, (prepared.map, prepared.dual)) if isinstance(base, Smooth))
        # A power of two, as the rows of a block are, which then need no padding.
        self._tiles = 2 ** max(0, math.ceil(math.log2(rows * max(prepared.most_features, *made_of, 1) / NUMBERS)))
        self._rows = -(-rows // self._tiles) * self._tiles
        # What is the same for all blocks is sent once, or twice where two threads come at the same time.
        self._formulas: dict[Base, Formula | None] = {}
        self._solution: tuple[ClosedForm, Any] | None = None

    def moments(self, rows: EncodedRows) -> Moments:
        """Sums over the rows of a block."""
        with jax.enable_x64(True):
            sent = self.sent(rows)
            found = jax.device_get(_sums(self._formulas_of(rows), sent, self._tiles))
        sums = {name: np.array(value)[()] for name, value in found.items()}
        # Not the precision of the features here: it decides what equations determine, and a log should be judged alike wherever
        # it is evaluated. The map itself, such as the loadings of its components, is in single precision, too.
        rounding = max(precision(pairs) for pairs in (sent.x, sent.v) if pairs is not None)
        return Moments.of(len(rows), rounding, rows.v is None, sums)

    def influence(self, rows: EncodedRows, solution: ClosedForm, per_weight: float) -> Influence:
        """The series of the rows of a block."""
        with jax.enable_x64(True):
            constants = (*self._constants(solution), np.float64(per_weight))
            found = _influence(self._formulas_of(rows), self.sent(rows), constants, self._tiles)
            *series, level = jax.device_get(found)
        return Influence(Series(*(part[: len(rows)] for part in series)), float(level))

    def sent(self, rows: EncodedRows) -> SentRows:
        """The rows on the device."""
        weights = np.ones(len(rows)) if rows.weights is None else rows.weights
        formulas = self._formulas_of(rows)

        def made(pairs: Pairs, formula: Formula | None) -> Any:
            return sendable(pairs, formula, len(rows), rows.tile, self._rows)

        x, x_next = made(rows.x, formulas.primal), made(rows.x_next, formulas.primal)
        v = None if rows.v is None else made(rows.v, formulas.dual)
        return self._put(SentRows(x, x_next, v, padded(rows.rewards, self._rows), padded(weights, self._rows)))

    def _formulas_of(self, rows: EncodedRows) -> Formulas:
        return Formulas(self._formula(rows.x), None if rows.v is None else self._formula(rows.v))

    def _formula(self, pairs: Pairs) -> Formula | None:
        base = base_of_pairs(pairs)
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


_matmul = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


@partial(jax.jit, static_argnames="tiles")
def _sums(formulas: Formulas, sent: SentRows, tiles: int) -> dict[str, Any]:
    """As `moments._sums`."""

    def of(rows: SentRows) -> dict[str, Any]:
        here, there, v = rows.features(formulas)
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

    def add(total: dict[str, Any], rows: SentRows) -> tuple[dict[str, Any], None]:
        return jax.tree.map(jnp.add, total, of(rows)), None

    every = sent.tiles(tiles)
    nothing = jax.tree.map(jnp.zeros_like, jax.eval_shape(of, jax.tree.map(lambda part: part[0], every)))
    return jax.lax.scan(add, nothing, every)[0]


@partial(jax.jit, static_argnames="tiles")
def _influence(formulas: Formulas, sent: SentRows, constants: tuple[Any, ...], tiles: int) -> tuple[Any, ...]:
    """As `influence.influence_of`; a residual of zero takes nothing away."""
    rate, values, residual, dual, primal, shift, per_weight = constants
    on_primal, on_dual = jnp.stack([values, primal[1:]]), jnp.stack([dual[1:], residual[1:]])

    def of(rows: SentRows) -> tuple[Any, ...]:
        (level, gain), (later, later_gain), (ratio, left) = rows.products(formulas, on_primal, on_dual)
        errors = rows.rewards - rate + (later - level)
        ratio, left = ratio + dual[0], left + residual[0]
        found = ratio * errors - (ratio + (later_gain - gain) - primal[0]) * left - shift
        return found * (rows.weights * per_weight), ratio, errors, _matmul(ratio * rows.weights, level)

    *series, levels = jax.lax.map(of, sent.tiles(tiles))
    return *(part.reshape(-1) for part in series), levels.sum()
