"""The first pass: what the closed form needs to know of a log, and what is known of its rows beside that.

`Moments` are sums of products of features and rewards. With `v` the dual features, `z = x' − x` and `w` the weight of a row, the
sums over rows of `w`, `w v`, `w z`, `w R`, `w v zᵀ`, `w v vᵀ` and `w v R`. `RowFacts` are about the rows themselves: how many,
their weights and rewards, whether they follow each other, and how many are copies (`repeats.py`). Both are merged block by
block in the order of the log, so that every way of running gives the same bits.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import block_diag

from cesaro.checks import Array
from cesaro.data import Block
from cesaro.features.maps import ActionPairs, BasePairs, features_along
from cesaro.passes.prepare import EncodedRows, FeatureBlock, FeatureRows, Prepared, Rows
from cesaro.passes.repeats import Repeats


class Moments:
    """Sums over rows, dense or sparse as the features are."""

    def __init__(self) -> None:
        self.rows = 0
        self.precision = float(np.finfo(np.float64).eps)  # of the features
        self.same = True
        self._sums: dict[str, Any] = {}

    def add(self, rows: FeatureRows) -> None:
        """Count rows in; the sums of rows added before are changed in place."""
        for name, value in _sums(rows).items():
            if name not in self._sums:
                self._sums[name] = value
            elif isinstance(value, np.ndarray):
                self._sums[name] += value
            else:
                self._sums[name] = self._sums[name] + value
        self.rows += len(rows)
        self.same &= rows.v is rows.x
        self.precision = max(self.precision, precision_of(rows))

    @staticmethod
    def of(rows: int, precision: float, same: bool, sums: dict[str, Any]) -> "Moments":
        """The moments of rows whose sums were computed elsewhere, by the names of `_sums`."""
        result = Moments()
        result.rows, result.precision, result.same, result._sums = rows, precision, same, sums
        return result

    def merge(self, other: "Moments") -> None:
        """Count in what another accumulator holds, as if its blocks came next."""
        _accumulate(self._sums, other._sums)
        self.rows += other.rows
        self.same &= other.same
        self.precision = max(self.precision, other.precision)

    def state(self) -> dict[str, Any]:
        """Plain numbers and arrays, for a checkpoint."""
        sums = {
            name: (value.data, value.indices, value.indptr, value.shape) if isinstance(value, sp.csr_array) else value
            for name, value in self._sums.items()
        }
        return {"rows": self.rows, "precision": self.precision, "same": self.same, "sums": sums}

    @staticmethod
    def of_state(state: dict[str, Any]) -> "Moments":
        """The moments whose `state` this is."""
        sums = {
            name: sp.csr_array(value[:3], shape=value[3]) if isinstance(value, tuple) else value
            for name, value in state["sums"].items()
        }
        return Moments.of(state["rows"], state["precision"], state["same"], sums)

    @property
    def weight(self) -> float:
        """The sum of weights: the number of rows where there are none."""
        return float(self._sums["w"])

    def mean(self, name: str) -> Any:
        """One of `R`, `v`, `z`, `vz`, `vv`, `vR`, `xx` (squares, entry by entry) as a mean over rows."""
        return self._sums[name] / self.weight

    def with_features(self, chosen: NDArray[np.intp]) -> "Moments":
        """The moments of these primal features alone, which stay their own dual if they were."""
        part = Moments.of(self.rows, self.precision, self.same, dict(self._sums))
        if self.same:
            for name in ("v", "vz", "vR"):
                part._sums[name] = self._sums[name][chosen]
            part._sums["vv"] = self._sums["vv"][np.ix_(chosen, chosen)]
        for name in ("z", "xx"):
            part._sums[name] = self._sums[name][chosen]
        part._sums["vz"] = part._sums["vz"][:, chosen]
        return part

    @property
    def A(self) -> Array:
        """`mean v zᵀ` with the rate as first unknown and the constant as first dual feature, `[1 + L, 1 + K]`."""
        return np.block([[np.array([[-1.0]]), self.mean("z")[None]], [-self.mean("v")[:, None], self.mean("vz")]])

    @property
    def b(self) -> Array:
        """`[1 + L]`."""
        return np.concatenate([[self.mean("R")], self.mean("vR")])

    @property
    def C(self) -> Array:
        """`[1 + L, 1 + L]`."""
        mean = self.mean("v")
        return np.block([[np.array([[1.0]]), mean[None]], [mean[:, None], self.mean("vv")]])


def precision_of(rows: FeatureRows) -> float:
    """The coarsest rounding of features; those of sparse ones are exact."""
    if isinstance(rows.x, sp.csr_array):
        return 0.0
    return max(float(np.finfo(part.dtype).eps) for part in (rows.x, rows.v))


def _accumulate(total: dict[str, Any], sums: dict[str, Any]) -> None:
    for name, value in sums.items():
        total[name] = total[name] + value if name in total else value


def _sums(rows: FeatureRows) -> dict[str, Any]:
    x, v, rewards = rows.x, rows.v, rows.rewards
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    result: dict[str, Any] = {"w": weights.sum(), "R": np.dot(weights, rewards)}
    if isinstance(x, sp.csr_array):
        z = sp.csr_array(rows.x_next - x)
        weighted = v if rows.weights is None else sp.csr_array(sp.diags_array(weights) @ v)
        products = {"vz": sp.csr_array(weighted.T @ z), "vv": sp.csr_array(weighted.T @ v)}
        sums = {"v": v.T @ weights, "z": z.T @ weights, "vR": v.T @ (weights * rewards), "xx": (x * x).T @ weights}
        return result | products | sums
    # Features may be single precision; their products never are: in single precision, rounding moved rates by a standard error.
    tests, change = np.asarray(v, np.float64), np.array(rows.x_next, np.float64)
    change -= tests if v is x else x
    root = weights
    if rows.weights is not None:
        root = np.sqrt(weights)
        tests, change, rewards = root[:, None] * tests, root[:, None] * change, root * rewards
    square = tests.T @ tests  # of one array with itself, which halves its cost
    # A vector times a matrix is a `dot`: with `@` NumPy holds the interpreter meanwhile, and other threads would wait.
    return result | {
        "v": np.dot(root, tests),
        "vv": square,
        "z": np.dot(root, change),
        "vz": tests.T @ change,
        "vR": np.dot(rewards, tests),
        "xx": np.diag(square).copy() if v is x else np.dot(weights, np.square(x)),
    }


def _moments_by_action(rows: EncodedRows) -> Moments:
    """The moments of rows with finite actions, whose features are zero but for the action that was taken.

    Products are taken of the rows of each action with its own state features alone, so that of `A` actions some `A` times fewer
    products are needed than of features.
    """
    here, there = rows.x, rows.x_next
    assert isinstance(here, ActionPairs)
    assert isinstance(there, ActionPairs)
    codes, chances = here.codes, there.chances
    assert codes is not None
    assert chances is not None
    assert isinstance(here.states, BasePairs)
    assert isinstance(there.states, BasePairs)
    states, after = features_along(here.states, there.states, rows.tile)
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(here.num_actions + 1))
    tests, after, chances = states[order].astype(np.float64), after[order], chances[order].astype(after.dtype)
    rewards = rows.rewards[order]
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights[order]
    root = weights if rows.weights is None else np.sqrt(weights)
    if rows.weights is not None:
        tests, rewards = root[:, None] * tests, root * rewards
    size, count = tests.shape[1], here.num_actions
    v, vR, squares, products = (np.zeros((count, size, *more)) for more in ((), (), (size,), (count * size,)))
    z = np.zeros(count * size)
    for action, (start, stop) in enumerate(pairwise(ends.tolist())):
        own = slice(start, stop)
        test, expected = tests[own], chances[own][:, :, None] * after[own][:, None, :]
        change = expected.reshape(-1, count * size).astype(np.float64)
        if rows.weights is not None:
            change *= root[own, None]
        change[:, action * size : (action + 1) * size] -= test  # before sums are taken, or digits would be lost
        v[action], vR[action] = np.dot(root[own], test), np.dot(rewards[own], test)
        z += np.dot(root[own], change)
        squares[action], products[action] = test.T @ test, test.T @ change
    square = block_diag(*squares)
    sums = {
        "w": weights.sum(),
        "R": np.dot(root, rewards),
        "v": v.ravel(),
        "vv": square,
        "z": z,
        "vz": products.reshape(count * size, -1),
        "vR": vR.ravel(),
        "xx": np.diag(square).copy(),
    }
    return Moments.of(len(rows), float(np.finfo(states.dtype).eps), True, sums)


@dataclass
class RowFacts:
    """Counts, sums and bounds of the rows so far.

    Attributes:
        rows: how many.
        weight: sum of weights, or rows.
        rewards: sum of rewards.
        earned: sum of weight times reward.
        low, high: smallest and largest reward.
        same, pairs: how often a next state is the state of the row below, of how many looks.
        repeats: rows that the log holds more than once; of no rows where features came ready.
    """

    rows: int = 0
    weight: float = 0.0
    rewards: float = 0.0
    earned: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")
    same: int = 0
    pairs: int = 0
    repeats: Repeats = field(default_factory=Repeats)

    @staticmethod
    def of(block: Block | FeatureBlock, look: bool, num_rows: int) -> "RowFacts":
        """The facts of one block; `look`: whether rows follow each other is asked; `num_rows`: of the whole log."""
        rewards, weights = block.rewards, block.weights
        same = pairs = 0
        if look and isinstance(block, Block) and len(block) > 1:
            pairs = len(block) - 1
            after, here = block.next_observations.take(slice(0, pairs)), block.observations.take(slice(1, pairs + 1))
            same = int(after.equals(here).sum())
        total = float(rewards.sum())
        return RowFacts(
            len(block),
            float(len(block)) if weights is None else float(weights.sum()),
            total,
            total if weights is None else float(weights @ rewards),
            float(rewards.min()),
            float(rewards.max()),
            same,
            pairs,
            Repeats.of(block, num_rows) if isinstance(block, Block) else Repeats(),
        )

    def add(self, other: "RowFacts") -> None:
        """Count in the rows that follow."""
        for name in ("rows", "weight", "rewards", "earned", "same", "pairs"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.repeats.add(other.repeats)

    def state(self) -> dict[str, Any]:
        """Plain numbers and arrays, for a checkpoint."""
        return {**vars(self), "repeats": self.repeats.state()}

    @staticmethod
    def of_state(state: dict[str, Any]) -> "RowFacts":
        """The facts whose `state` this is."""
        return RowFacts(**{**state, "repeats": Repeats.of_state(state["repeats"])})

    @property
    def chained(self) -> float:
        """The share of rows whose next state is the state of the row below."""
        return self.same / self.pairs if self.pairs else 0.0

    @property
    def mean(self) -> float:
        """The mean logged reward, by weight."""
        return self.earned / self.weight

    @property
    def largest(self) -> float:
        """The largest size of a reward."""
        return max(abs(self.low), abs(self.high))

    @property
    def spread(self) -> float:
        """Largest minus smallest reward: zero where all are alike."""
        return self.high - self.low


@dataclass
class FirstPassSums:
    """The sums of the first pass; moments stay empty where there are no features."""

    moments: Moments
    facts: RowFacts

    def add(self, other: "FirstPassSums") -> None:
        """Count in the rows that follow."""
        self.moments.merge(other.moments)
        self.facts.add(other.facts)

    def state(self) -> dict[str, Any]:
        """Plain numbers and arrays, for a checkpoint."""
        return {"moments": self.moments.state(), "facts": self.facts.state()}


@dataclass(frozen=True)
class MomentsPass:
    """The first pass; without features it looks at rewards and the order of rows alone.

    Attributes:
        elsewhere: computes the moments of a block whose features were not made yet; None: they are computed here.
    """

    has_features: bool = True
    elsewhere: Callable[[EncodedRows], Moments] | None = None
    label = "moments"

    @property
    def whole_blocks(self) -> bool:
        return self.elsewhere is not None

    def zero(self) -> FirstPassSums:
        return FirstPassSums(Moments(), RowFacts())

    def restored(self, state: dict[str, Any]) -> FirstPassSums:
        return FirstPassSums(Moments.of_state(state["moments"]), RowFacts.of_state(state["facts"]))

    def of_piece(self, prepared: Prepared, part: Rows, number: int) -> Moments:
        """The moments of a piece, in a thread of its own."""
        if self.elsewhere is not None:
            return self.elsewhere(prepared.encoded_block(part))
        moments = Moments()
        if self.has_features:
            if isinstance(part, EncodedRows) and isinstance(part.x, ActionPairs) and part.v is None:
                return _moments_by_action(part)
            for rows in prepared.chunks_of(part, piece=number):
                moments.add(rows)
        return moments

    def collect(self, so_far: Moments | None, piece: Moments) -> Moments:
        """Pieces of a block, in order."""
        if so_far is None:
            return piece
        so_far.merge(piece)
        return so_far

    def of_block(self, prepared: Prepared, block: Block | FeatureBlock, pieces: Moments) -> FirstPassSums:
        facts = RowFacts.of(block, prepared.data.lengths is None, prepared.num_rows)
        return FirstPassSums(pieces, facts)
