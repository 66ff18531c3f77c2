"""Networks that tell a distribution: means of numbers and probabilities of labels, one network per bootstrap of the log.

Each member learns from trajectories (or blocks) drawn with replacement, and stops by those that it was not given. What these
rows leave unexplained is the noise: a draw adds the residual of a row whose inputs are alike, found by a tree that tells where
residuals are large. Nothing of it comes from rows that a network has learned by heart.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.worlds.space import Codes
from cesaro.worlds.training import Float32, Kept, Rows, Training, outputs_of, outputs_of_one, trained

# Held-out rows that a look takes, of each member.
LOOKED_AT = 4_096
# The tree of residuals: rows to a leaf, at least so many and this part of all; and leaves. Others: `python -m benchmarks noise`.
LEAF_ROWS, LEAF_SHARE, LEAVES = 30, 0.01, 64
# Rows that it learns from, spread evenly; scikit-learn takes a minute for 400,000.
TREE_ROWS = 20_000
# At least this part of held-out residuals' variance is noise.
LEAST_NOISE = 0.25
# Squared residuals count for at most so many times their mean where the tree looks for differences.
WINSOR = 25.0


class Bags(NamedTuple):
    """Rows of each member, and rows that it never sees.

    Attributes:
        own: `[members, rows]`.
        held_out: some of them, `[members, m]`.
        is_held_out: `[members, rows]`.
        times: how often each row was drawn, `[members, rows]`.
    """

    own: Codes
    held_out: Codes
    is_held_out: NDArray[np.bool_]
    times: NDArray[np.int32]

    def first(self) -> "Bags":
        """The rows of the first member alone."""
        return Bags(self.own[:1], self.held_out[:1], self.is_held_out[:1], self.times[:1])


def bags(groups: Codes, members: int, rng: np.random.Generator) -> Bags:
    """Groups drawn with replacement, as many as there are; those not drawn are held out."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    parts = np.split(order, starts[1:])
    own, out = [], []
    for _ in range(members):
        drawn = rng.integers(len(parts), size=len(parts))
        if len(np.unique(drawn)) == len(parts):  # of two groups or so, one has to be held out
            drawn[drawn == drawn[0]] = drawn[-1] if drawn[-1] != drawn[0] else (drawn[0] + 1) % len(parts)
        own.append(rng.permutation(np.concatenate([parts[k] for k in drawn])))
        out.append(rng.permutation(np.concatenate([parts[k] for k in np.setdiff1d(np.arange(len(parts)), drawn)])))
    times = np.stack([np.bincount(rows, minlength=len(groups)) for rows in own]).astype(np.int32)
    size, looked_at = len(groups), min(LOOKED_AT, max(1, len(groups) // 3))  # programs are compiled for these numbers
    return Bags(
        np.stack([np.resize(rows, size) for rows in own]),
        np.stack([np.resize(rows, looked_at) for rows in out]),
        times == 0,
        times,
    )


def blocks_of(trajectory: Codes | None, rows: int, least: int) -> Codes:
    """Groups of rows: trajectories where there are enough of them, else consecutive blocks."""
    if trajectory is not None and len(np.unique(trajectory)) >= least:
        return trajectory
    return np.arange(rows) * (2 * least) // rows


@dataclass(frozen=True)
class Ensemble:
    """Fitted networks.

    Attributes:
        networks: of all members, leaves `[members, …]`.
        count: of numbers.
        sizes: of the columns of labels, in levels.
        residuals: of held-out rows, `[pool, k]`.
        rows: which rows these are, `[pool]`.
        tree: tells where residuals are large.
        order: places in the pool, those of each member's own rows by leaf, as often as they were drawn: members differ in their
            noise as bootstraps of the log do.
        starts, ends: of each member's leaves in it, `[members, nodes]`.
        r_squared: the share of the variance that is explained held out, `[k]`.
        losses: of each member, held out, `[members]`.
        steps: until training ended.
    """

    networks: Any
    count: int
    sizes: tuple[int, ...]
    residuals: Float32
    rows: Codes
    tree: Any
    order: Codes
    starts: Codes
    ends: Codes
    r_squared: Array
    losses: Array
    steps: int

    @property
    def members(self) -> int:
        return len(self.losses)

    def outputs(self, inputs: Float32) -> Float32:
        """The outputs of all members, `[members, n, d]` to `[members, n, out]`."""
        return np.asarray(outputs_of(self.networks, inputs))

    def near(self, inputs: Float32, member: Codes, chance: Array) -> Codes:
        """Places in the pool of residuals, each near its inputs `[n, d]` and of its member `[n]`, by uniform numbers `[n]`."""
        leaf = self.tree.tree_.apply(_with_one(inputs))  # its own checks take longer than the tree
        node = member * self.starts.shape[1] + leaf
        start, end = self.starts.take(node), self.ends.take(node)
        return self.order.take(start + (chance * (end - start)).astype(np.int64))

    def numbers(self, outputs: Float32, near: Codes, scale: Array, shift: Array) -> Array:
        """Outputs `[n, out]` with the residuals at these places, scaled and shifted, `[n, k]`, column by column in memory."""
        found = np.add(outputs[:, : self.count].T, self.residuals.take(near, axis=0).T, order="C") * scale[:, None]
        found += shift[:, None]
        return np.asarray(found.T)

    def labels(self, outputs: Float32, rng: np.random.Generator, count: int) -> Codes:
        """The first so many columns of labels, drawn from the members' probabilities, `[n, count]`; outputs `[n, out]`."""
        drawn, at = np.empty((len(outputs), count), np.int64), self.count
        for column, size in enumerate(self.sizes):
            logits = outputs[:, at : at + size]
            if column < count:
                drawn[:, column] = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
            else:  # as many random numbers, so that those after them stay the same
                rng.random(logits.shape)
            at += size
        return drawn


def fit(rows: Rows, sizes: tuple[int, ...], bag: Bags, *, training: Training, kept: Kept) -> Ensemble:
    """Train all members, and gather what held-out rows leave unexplained."""
    networks, losses, steps = trained(rows, sizes, bag.own, bag.held_out, training, kept)
    count = rows.numbers.shape[1]
    total, times = np.zeros(rows.numbers.shape), bag.is_held_out.sum(axis=0)
    for member in range(len(bag.own)):
        held = np.flatnonzero(bag.is_held_out[member])
        total[held] += outputs_of_one(networks, member, rows.inputs[held])[:, :count]
    pool = np.flatnonzero(times > 0)
    residuals = (rows.numbers[pool] - total[pool] / times[pool, None]).astype(np.float32)
    residuals = np.where(rows.known[pool], residuals, 0.0).astype(np.float32)
    explained = _explained(rows.numbers[pool], residuals, rows.known[pool])
    residuals *= _without_error(networks, rows.inputs[pool[:LOOKED_AT]], residuals, float(times[pool].mean()))
    tree, order, starts, ends = leaves_of(rows.inputs[pool], residuals, bag.times[:, pool])
    return Ensemble(networks, count, sizes, residuals, pool, tree, order, starts, ends, explained, losses, steps)


def _with_one(inputs: Float32) -> Float32:
    """Inputs, or a column of zeros where there are none: scikit-learn's trees need one."""
    return inputs if inputs.shape[1] else np.zeros((len(inputs), 1), np.float32)


def _explained(numbers: Float32, residuals: Float32, known: NDArray[np.bool_]) -> Array:
    """The share of each column's variance, `[k]`."""
    with np.errstate(invalid="ignore", divide="ignore"):
        left = np.where(known, residuals**2, 0.0).sum(axis=0) / known.sum(axis=0)
        return np.asarray(1 - left / np.nanvar(np.where(known, numbers, np.nan), axis=0))


def _without_error(networks: Any, inputs: Float32, residuals: Float32, times: float) -> Float32:
    """Factors of residuals, `[k]`, that make them as large as the noise alone.

    Held out, they also hold the error of the prediction: a mean over `times` bootstraps errs by the variance of one, which is
    what the log's own sampling does to all of them, and by that over `times`. One network alone cannot tell.
    """
    members = len(jax.tree.leaves(networks)[0])
    if members < 2 or not residuals.size:
        return np.ones(residuals.shape[1], np.float32)
    outputs = np.stack([outputs_of_one(networks, k, inputs)[:, : residuals.shape[1]] for k in range(members)])
    between = outputs.var(axis=0, ddof=1).mean(axis=0)
    size = np.maximum((residuals**2).mean(axis=0), 1e-12)
    return np.asarray(np.sqrt(np.clip(1 - between * (1 + 1 / times) / size, LEAST_NOISE, 1.0)), np.float32)


def leaves_of(
    inputs: Float32, residuals: Float32, times: NDArray[np.int32], share: float = LEAF_SHARE
) -> tuple[Any, Codes, Codes, Codes]:
    """A tree that tells where residuals are large, and which rows of the pool lie in its leaves, for each member."""
    from sklearn.tree import DecisionTreeRegressor

    inputs = _with_one(inputs)
    few = np.arange(0, len(inputs), -(-len(inputs) // TREE_ROWS))
    sizes = np.zeros((len(few), 1))
    if residuals.shape[1]:
        sizes = np.minimum(residuals[few] ** 2 / np.maximum((residuals[few] ** 2).mean(axis=0), 1e-12), WINSOR)
    least = max(LEAF_ROWS, int(share * len(few)))
    tree = DecisionTreeRegressor(min_samples_leaf=least, max_leaf_nodes=LEAVES, random_state=0).fit(inputs[few], sizes)
    leaf, nodes = tree.apply(inputs), np.arange(tree.tree_.node_count)
    by_leaf, before = np.argsort(leaf, kind="stable"), 0
    orders: list[Codes] = []
    starts: list[Codes] = []
    ends: list[Codes] = []
    for drawn in times:
        is_there = np.bincount(leaf, drawn, len(nodes)) > 0
        order = np.repeat(
            by_leaf, np.where(is_there[leaf[by_leaf]], drawn[by_leaf], 1)
        )  # a leaf without own rows takes all
        starts.append(before + np.searchsorted(leaf[order], nodes))
        ends.append(before + np.searchsorted(leaf[order], nodes, side="right"))
        orders.append(order)
        before += len(order)
    return tree, np.concatenate(orders), np.stack(starts), np.stack(ends)
