"""Features as programs of JAX, in double precision: the formulas of `base` and the means of `maps`, for a device that multiplies.

Inputs and parameters are those of the host, in single precision, and only what is computed of them is more precise. All of these
are tuples of arrays, so that a program takes parameters as arguments: it is compiled once for each kind and size of a map. Inputs
and features have a row each, and rows of the log stand beside each other.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from cesaro.features.base import Base, Fourier, Linear, Polynomial, Smooth, Splines, product_steps, spline_pieces
from cesaro.features.maps import ActionPairs, BasePairs, Pairs

_matmul = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


class Products(NamedTuple):
    """`Polynomial`, of which `Linear` is a case: each product of a degree is one of the degree before, times an input."""

    steps: tuple[tuple[Any, Any], ...]  # those before and inputs, [products] each, from degree 1 on

    @staticmethod
    def of(terms: list[tuple[int, ...]]) -> "Products":
        """From the inputs in each product, ordered by degree."""
        steps = product_steps(tuple(terms))
        return Products(tuple((before.astype(np.int32), factor.astype(np.int32)) for before, factor in steps))

    def __call__(self, inputs: Any) -> Any:
        found = jnp.ones_like(inputs[:1])
        for before, factor in self.steps:
            found = jnp.concatenate([found, found[before] * inputs[factor]])
        return found


class Curves(NamedTuple):
    """`Splines`: of each input, the cubic of the piece that it lies in."""

    columns: Any  # [curves]
    lefts: Any  # [curves, pieces]
    cubics: Any  # [4, curves, splines, pieces]

    @staticmethod
    def of(base: Splines) -> "Curves":
        lefts, cubics = spline_pieces(base.knots.tobytes(), len(base.inputs))
        tables = cubics.reshape(len(lefts), 4, lefts.shape[1], -1)
        return Curves(base.inputs.astype(np.int32), lefts, tables.transpose(1, 0, 3, 2))

    def __call__(self, inputs: Any) -> Any:
        own = inputs[self.columns]
        piece = jnp.sum(own[:, None] >= self.lefts[:, 1:, None], axis=1)
        beyond = (own - jnp.take_along_axis(self.lefts, piece, axis=1, mode="clip"))[:, None]
        found: Any = 0.0
        for table in self.cubics[::-1]:
            found = found * beyond + jnp.take_along_axis(table, piece[:, None], axis=2, mode="clip")
        return found.reshape(-1, inputs.shape[1])


class Waves(NamedTuple):
    """`Fourier`."""

    frequencies: Any  # [inputs, waves]
    phases: Any  # [waves]

    @staticmethod
    def of(base: Fourier) -> "Waves":
        return Waves(base.frequencies.astype(np.float64), base.phases.astype(np.float64))

    def __call__(self, inputs: Any) -> Any:
        return jnp.sqrt(2.0) * jnp.cos(_matmul(self.frequencies.T, inputs) + self.phases[:, None])


class Formula(NamedTuple):
    """Functions of the inputs, and components that are linear in these: the former alone have means to be taken."""

    core: tuple[Products | Curves | Waves, ...]
    waves: Waves | None = None  # no features themselves
    loadings: Any = None  # [core + waves, components]

    @staticmethod
    def of(base: Base) -> "Formula | None":
        """What a base computes; None: it is none of ours, and the host alone can tell."""
        if isinstance(base, Linear):
            return Formula((Products.of([(), *((column,) for column in range(base.size - 1))]),))
        if isinstance(base, Polynomial):
            return Formula((Products.of(base.terms),))
        if isinstance(base, Splines):
            return Formula((Curves.of(base),))
        if isinstance(base, Fourier):
            return Formula((Waves.of(base),))
        if not isinstance(base, Smooth):
            return None
        curves = () if base.splines is None else (Curves.of(base.splines),)
        core = (Products.of(base.polynomial.terms), *curves)
        if base.fourier is None or not base.components:
            return Formula(core)
        return Formula(core, Waves.of(base.fourier), base.loadings.astype(np.float64))

    @property
    def degree(self) -> int:
        """Inputs in a product, at most."""
        return max(len(part.steps) if isinstance(part, Products) else 0 for part in self.core)

    def functions(self, inputs: Any) -> Any:
        """`[core + waves, n]`, of `[inputs, n]`."""
        return jnp.concatenate([part(inputs) for part in (*self.core, *filter(None, (self.waves,)))])

    def features(self, functions: Any) -> Any:
        """`[size, n]`, of the functions or of their means."""
        if self.waves is None:
            return functions
        core = functions[: len(functions) - len(self.waves.phases)]
        return jnp.concatenate([core, _matmul(self.loadings.T, functions)])

    def on_functions(self, vectors: Any) -> Any:
        """What gives of the functions what these vectors `[m, size]` give of the features."""
        if self.waves is None:
            return vectors
        core = vectors.shape[1] - self.loadings.shape[1]
        return _matmul(vectors[:, core:], self.loadings.T).at[:, :core].add(vectors[:, :core])


class Table(NamedTuple):
    """Features that the host made."""

    table: Any  # [n, size]

    def tiles(self, count: int) -> "Table":
        """As many parts, along a first axis."""
        return Table(_tiles(self.table, count, 0))


class Inputs(NamedTuple):
    """`BasePairs`."""

    states: Any  # [inputs of states, n]
    actions: Any = None  # [actions, inputs of actions, n]
    chances: Any = None  # [n, actions]

    def tiles(self, count: int) -> "Inputs":
        """As many parts, along a first axis."""
        return Inputs(_tiles(self.states, count, 1), _tiles(self.actions, count, 2), _tiles(self.chances, count, 0))

    def functions(self, formula: Formula) -> Any:
        """The mean over actions, one after the other, so that memory is that of one."""
        states = self.states.astype(jnp.float64)
        if self.actions is None:
            return formula.functions(states)

        def of(action: Any) -> Any:
            return formula.functions(jnp.concatenate([states, action.astype(jnp.float64)]))

        def add(total: Any, one: tuple[Any, Any]) -> tuple[Any, None]:
            action, chance = one
            return total + chance[None] * of(action), None

        count = len(self.actions)
        alike = jnp.full((count, states.shape[1]), 1 / count)
        chances = alike if self.chances is None else self.chances.T.astype(jnp.float64)
        nothing = jnp.zeros(jax.eval_shape(of, self.actions[0]).shape)
        return jax.lax.scan(add, nothing, (self.actions, chances))[0]


class Blocks(NamedTuple):
    """`ActionPairs`."""

    states: Inputs | Table
    actions: Any  # their codes, [A]
    codes: Any = None  # [n]
    chances: Any = None  # [n, A]

    def tiles(self, count: int) -> "Blocks":
        """As many parts, along a first axis."""
        actions = jnp.broadcast_to(self.actions, (count, *self.actions.shape))
        return Blocks(self.states.tiles(count), actions, _tiles(self.codes, count, 0), _tiles(self.chances, count, 0))

    def chances_of_actions(self) -> Any:
        """`[A, n]`."""
        chances = self.codes[None] == self.actions[:, None] if self.chances is None else self.chances.T
        return chances.astype(jnp.float64)

    def spread(self, states: Any) -> Any:
        """`[A · size, n]`, of `[size, n]`."""
        return (self.chances_of_actions()[:, None] * states[None]).reshape(-1, states.shape[1])


Sendable = Table | Inputs | Blocks


def _tiles(array: Any, count: int, axis: int) -> Any:
    """Rows, which lie along an axis, in as many parts, along a first axis."""
    if array is None:
        return None
    shape = array.shape
    return jnp.moveaxis(array.reshape(*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :]), axis, 0)


def features(formula: Formula | None, *pairs: Any) -> list[Any]:
    """`[size, n]` of each of some pairs of one map, in double precision."""
    first = pairs[0]
    if isinstance(first, Blocks):
        return [one.spread(made) for one, made in zip(pairs, features(formula, *(one.states for one in pairs)))]
    if isinstance(first, Table):
        return [one.table.T.astype(jnp.float64) for one in pairs]
    assert formula is not None
    return jnp.split(formula.features(_functions(formula, *pairs)), len(pairs), axis=1)


def products(formula: Formula | None, vectors: Any, *pairs: Any) -> list[Any]:
    """`[m, n]`: features of each of some pairs of one map times vectors `[m, size]`, without the features."""
    first, count = pairs[0], len(vectors)
    if isinstance(first, Blocks):
        of_actions = vectors.reshape(count * len(first.actions), -1)
        made = products(formula, of_actions, *(one.states for one in pairs))
        return [
            jnp.sum(part.reshape(count, len(first.actions), -1) * one.chances_of_actions()[None], axis=1)
            for one, part in zip(pairs, made)
        ]
    if isinstance(first, Table):
        return [_matmul(vectors, one.table.T.astype(jnp.float64)) for one in pairs]
    assert formula is not None
    return jnp.split(_matmul(formula.on_functions(vectors), _functions(formula, *pairs)), len(pairs), axis=1)


def _functions(formula: Formula, *pairs: Inputs) -> Any:
    """Functions of all pairs beside each other: where one evaluation does for all, there is one."""
    if all(one.actions is None for one in pairs):
        return Inputs(jnp.concatenate([one.states for one in pairs], axis=1)).functions(formula)
    return jnp.concatenate([one.functions(formula) for one in pairs], axis=1)


# What the host does.


def base_of_pairs(pairs: Pairs) -> Base | None:
    """What makes features of some pairs; None where they are ready."""
    states = pairs.states if isinstance(pairs, ActionPairs) else pairs
    return states.base if isinstance(states, BasePairs) else None


def sendable(pairs: Pairs, formula: Formula | None, rows: int, tile: int, length: int) -> Sendable:
    """What a device needs for features of some pairs, with zeros behind the rows; without a formula these are features.

    Args:
        pairs: of these rows.
        formula: of their base.
        rows: how many.
        tile: of the host's features.
        length: of what is sent.
    """
    if isinstance(pairs, ActionPairs):
        states = sendable(pairs.states, formula, rows, tile, length)
        assert not isinstance(states, Blocks)
        actions = np.arange(pairs.num_actions, dtype=np.int32)
        if pairs.codes is None:
            return Blocks(states, actions, chances=padded(pairs.chances, length))
        return Blocks(states, actions, padded(pairs.codes.astype(np.int32), length))
    if formula is None or not isinstance(pairs, BasePairs):
        return Table(padded(pairs.features(slice(0, rows), tile), length))
    _check_products(pairs, formula.degree, rows)
    chosen = padded(np.stack(pairs.actions), length, 2) if pairs.actions else None
    chances = None if pairs.chances is None else padded(pairs.chances, length)
    return Inputs(padded(pairs.states, length, 1), chosen, chances)


def padded(array: Any, length: int, axis: int = 0) -> NDArray[Any]:
    """The array with zeros behind it, so long."""
    rows = array.shape[axis]
    if rows == length:
        return np.asarray(array)
    found = np.zeros((*array.shape[:axis], length, *array.shape[axis + 1 :]), array.dtype)
    found[(*(slice(None),) * axis, slice(0, rows))] = array
    return found


def _check_products(pairs: BasePairs, degree: int, rows: int) -> None:
    """What overflows in single precision is refused wherever it is computed, in the same words: those of the host's features."""
    largest = max(float(np.abs(part).max(initial=1.0)) for part in (pairs.states, *pairs.actions))
    if degree * np.log2(largest) >= np.finfo(np.float32).maxexp:
        pairs.features(slice(0, rows))


def precision(pairs: Sendable) -> float:
    """How the host's features would be rounded."""
    states = pairs.states if isinstance(pairs, Blocks) else pairs
    return float(np.finfo(states.table.dtype if isinstance(states, Table) else np.float32).eps)
