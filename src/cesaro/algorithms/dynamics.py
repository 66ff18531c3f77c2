"""`G` and `h` of a method's expected update `κ += α (G κ + h)`, by evaluating the step itself.

Column `i` of `G` is `step(e_i) − step(0)`. Differentiating the step instead would be wrong: `stop_gradient` would erase the very
blocks that make semi-gradient methods unstable. The expectation runs over every row of a known problem or of a data set; for
methods with two minibatches, over independent pairs of rows.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from cesaro import checks
from cesaro.algorithms.base import Batch, Objective, State
from cesaro.algorithms.saddle_point import saddle_point
from cesaro.errors import InputError

# Rows (or pairs of rows) evaluated at a time, at most, and numbers that come of it.
BLOCK, NUMBERS = 4096, 2**24
# Rows of one minibatch where an objective takes the mean over it, and how many of them are looked at to see whether it does.
MINIBATCH, CHECKED = 500, 8
# Up to this many pairs are enumerated; beyond, the second row is replaced by the mean row, which is the same if the update is
# affine in it (checked).
PAIRS = 250_000


class NoDynamicsError(InputError):
    """No matrix describes the expected update of the method."""


class Dynamics(NamedTuple):
    """The expected update of an affine method.

    Attributes:
        G: `[m, m]`.
        h: `[m]`.
        names: what each entry of `κ` is, such as `primal.rate` or `dual.weights[2]`.
    """

    G: checks.Array
    h: checks.Array
    names: tuple[str, ...]

    @property
    def eigenvalues(self) -> NDArray[np.complex128]:
        """The eigenvalues of `G`, by decreasing real part."""
        values = np.linalg.eigvals(self.G).astype(np.complex128)
        return values[np.argsort(-values.real, kind="stable")]


class WeightedRows(NamedTuple):
    """Weighted transitions, `[N, …]`."""

    x: checks.Array
    reward: checks.Array
    x_next: checks.Array
    probability: checks.Array


class _Moves:
    """The step of an objective as a function of all its variables in one vector `κ`, in float64 (within `enable_x64`)."""

    def __init__(self, objective: Objective, hyper: dict[str, float]) -> None:
        algorithm = saddle_point(objective)
        numbers = {name: jnp.asarray(value, jnp.float64) for name, value in _relative(hyper).items()}
        start = algorithm.init(jax.random.key(0), numbers)
        flat, unravel = ravel_pytree({"primal": start.primal, "dual": start.dual})
        self.size = flat.size
        # Few rows at a time where there are many variables.
        self.block = int(np.clip(NUMBERS // max(1, self.size**2), 1, BLOCK))

        def direction(kappa: jax.Array, batch: Batch) -> jax.Array:
            parts = unravel(kappa)
            state = State(parts["primal"], parts["dual"], start.target, start.average, start.optimizer, start.count)
            moved, _ = algorithm.step(state, batch, numbers)
            return ravel_pytree({"primal": moved.primal, "dual": moved.dual})[0] - kappa

        def each(points: jax.Array, batches: Batch) -> jax.Array:
            """`[points, rows, m]`."""
            return jax.vmap(jax.vmap(direction, in_axes=(None, 0)), in_axes=(0, None))(points, batches)

        self.direction, self.each = jax.jit(direction), jax.jit(each)
        self.weighted = jax.jit(lambda points, batches, w: jnp.einsum("n,pnm->pm", w, each(points, batches)))


def variables(objective: Objective) -> tuple[str, ...]:
    """The names of the entries of `κ`, such as `primal.rate` or `dual.weights[2]`."""
    primal, dual = objective.shapes
    return _names({"primal": primal, "dual": dual})


def mean_dynamics(objective: Objective, rows: WeightedRows, hyper: dict[str, float]) -> Dynamics:
    """Evaluate the expected step at zero and at every unit vector, in float64.

    Args:
        objective: one of the registry's with a linear approximator, or your own whose update is affine.
        rows: what to average over.
        hyper: its numbers; `step_size` is taken out (set to one), `rate_step_size` counts relative to it.
    """
    with jax.enable_x64(True):
        step = _Moves(objective, hyper)
        return _mean(objective, step, rows, _expectation(objective.minibatches, rows, step.block))


def batch_dynamics(objective: Objective, rows: WeightedRows, hyper: dict[str, float]) -> Dynamics:
    """The same from minibatches of many rows, which is faster, for an objective that takes the mean over its minibatch.

    Rows of different weights are repeated or left out in proportion. Others than such objectives are evaluated row by row.
    """
    count = len(rows.probability)
    places = (np.arange(-(-count // MINIBATCH) * MINIBATCH) + 0.5) / (-(-count // MINIBATCH) * MINIBATCH)
    chosen = np.minimum(np.searchsorted(np.cumsum(rows.probability), places), count - 1).reshape(-1, 1, MINIBATCH)
    table = rows
    if objective.minibatches == 2:
        table, chosen = _with_mean_row(rows), np.concatenate([chosen, np.full_like(chosen, count)], axis=1)
    with jax.enable_x64(True):
        step = _Moves(objective, hyper)
        point = jnp.asarray(np.random.default_rng(0).normal(size=(1, step.size)))
        few = chosen[:1, :, :CHECKED]
        together, apart = (
            np.mean([step.each(point, batch)[0].mean(axis=0) for batch, _ in _batches(table, indices, CHECKED)], axis=0)
            for indices in (few, few.reshape(objective.minibatches, -1).T[:, :, None])
        )
        if objective.minibatches > 2 or not np.allclose(
            together, apart, rtol=1e-9, atol=1e-9 * (1 + np.abs(apart).max())
        ):
            return mean_dynamics(objective, rows, hyper)
        shares = np.full(len(chosen), 1 / len(chosen))
        batches = ((batch, shares[part]) for batch, part in _batches(table, chosen, max(1, step.block // MINIBATCH)))
        return _mean(objective, step, rows, batches)


def _mean(objective: Objective, step: _Moves, rows: WeightedRows, expectation: Iterable[tuple[Batch, Any]]) -> Dynamics:
    """`G` and `h` from weighted batches; raises where the step is not affine."""
    size = step.size
    probe = np.random.default_rng(0).normal(size=size)
    points = jnp.asarray(np.concatenate([np.zeros((1, size)), np.eye(size), probe[None]]))
    total = np.zeros((size + 2, size))
    for batches, weights in expectation:
        total += np.asarray(step.weighted(points, batches, jnp.asarray(weights)))
    if objective.minibatches == 2 and len(rows.probability) ** 2 > PAIRS:
        _check_affine_in_second(step.direction, points[-1], rows)
    h = total[0]
    G = (total[1:-1] - h).T
    if not np.allclose(G @ probe + h, total[-1], rtol=1e-9, atol=1e-9 * (1 + np.abs(total).max())):
        raise NoDynamicsError(
            "The update is not affine in its variables, so that no matrix describes it; use a linear approximator."
        )
    return Dynamics(G, h, variables(objective))


def sample_dynamics(
    objective: Objective, rows: WeightedRows, hyper: dict[str, float]
) -> tuple[checks.Array, checks.Array]:
    """`G` of single steps, `[N, m, m]`, and their probabilities, `[N]`.

    Of a method with several minibatches, the other rows of a step are drawn (with a fixed seed).
    """
    count, rng = len(rows.probability), np.random.default_rng(0)
    others = [rng.choice(count, count, p=rows.probability) for _ in range(1, objective.minibatches)]
    indices = np.stack([np.arange(count), *others], axis=1)[:, :, None]
    with jax.enable_x64(True):
        step = _Moves(objective, hyper)
        points = jnp.asarray(np.concatenate([np.zeros((1, step.size)), np.eye(step.size)]))
        found = np.empty((count, step.size, step.size))
        for batches, part in _batches(rows, indices, step.block):
            moved = np.asarray(step.each(points, batches))
            found[part] = np.moveaxis(moved[1:] - moved[0], 0, 2)
    return found, rows.probability


def _relative(hyper: dict[str, float]) -> dict[str, float]:
    base = hyper.get("step_size", 1.0)
    steps = {name: value / base for name, value in hyper.items() if name in ("dual_step_size", "rate_step_size")}
    return {**hyper, **steps, "step_size": 1.0}


def _expectation(minibatches: int, rows: WeightedRows, block: int) -> Iterator[tuple[Batch, Any]]:
    """Blocks of (batches `[n, k, 1, …]`, weights `[n]`) whose weighted sum is the expectation."""
    count = len(rows.probability)
    if minibatches == 1:
        indices, weights = np.arange(count)[:, None], rows.probability
        table = rows
    elif minibatches == 2 and count**2 <= PAIRS:
        first, second = (grid.ravel() for grid in np.meshgrid(np.arange(count), np.arange(count), indexing="ij"))
        indices, weights = np.stack([first, second], axis=1), rows.probability[first] * rows.probability[second]
        table = rows
    elif minibatches == 2:
        table = _with_mean_row(rows)
        indices, weights = np.stack([np.arange(count), np.full(count, count)], axis=1), rows.probability
    else:
        raise NoDynamicsError(
            f"Objectives with {minibatches} minibatches have no mean dynamics here; 1 and 2 are possible."
        )
    for batch, part in _batches(table, indices[:, :, None], block):
        yield batch, weights[part]


def _batches(rows: WeightedRows, indices: NDArray[np.intp], block: int) -> Iterator[tuple[Batch, slice]]:
    """Minibatches `[n, k, b, …]` of the rows that `indices [N, k, b]` names, some at a time, and which they are."""
    for start in range(0, len(indices), block):
        part = slice(start, start + block)
        yield Batch(*(jnp.asarray(field[indices[part]]) for field in rows[:3])), part


def _with_mean_row(rows: WeightedRows) -> WeightedRows:
    def extend(values: checks.Array) -> checks.Array:
        return np.concatenate([values, np.tensordot(rows.probability, values, axes=1)[None]])

    return WeightedRows(extend(rows.x), extend(rows.reward), extend(rows.x_next), rows.probability)


def _check_affine_in_second(direction: Any, point: jax.Array, rows: WeightedRows) -> None:
    """`f(1, mean of 2 and 3)` must be the mean of `f(1, 2)` and `f(1, 3)`."""
    rng = np.random.default_rng(1)
    for _ in range(5):
        i, j, k = rng.integers(len(rows.probability), size=3)
        pairs = [
            Batch(*(jnp.asarray(np.stack([field[i], second])[:, None]) for field, second in zip(rows[:3], values)))
            for values in (
                [field[j] for field in rows[:3]],
                [field[k] for field in rows[:3]],
                [(field[j] + field[k]) / 2 for field in rows[:3]],
            )
        ]
        left, right, middle = (np.asarray(direction(point, batch)) for batch in pairs)
        if not np.allclose((left + right) / 2, middle, rtol=1e-8, atol=1e-8):
            raise NoDynamicsError(
                f"The update is not affine in its second sample, and {len(rows.probability)} rows are too many to enumerate "
                f"all pairs; use at most {int(PAIRS**0.5)} rows."
            )


def _names(tree: Any) -> tuple[str, ...]:
    names: list[str] = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = ".".join(str(getattr(part, "key", part)) for part in path)
        shape = np.shape(leaf)
        names += [name] if shape == () else [f"{name}[{', '.join(map(str, i))}]" for i in np.ndindex(shape)]
    return tuple(names)
