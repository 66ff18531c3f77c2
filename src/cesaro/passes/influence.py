"""The second pass: the influence of every row on the rate, and what it adds up to.

`Plan` is what the pass has to know of the whole log before it starts, `ClosedForm` the answer that was solved for after the
first pass. Of every block it makes `Series`, one number per row; `Totals` adds them up, so that no series over rows need be
kept. Everything there is a sum, a maximum or a few sampled rows: blocks are merged in their order, in every mode alike.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data import Block
from cesaro.errors import InputError
from cesaro.passes.moments import RowFacts
from cesaro.passes.prepare import EncodedRows, FeatureBlock, MultipliedRows, Prepared, Rows
from cesaro.passes.run import map_pieces
from cesaro.passes.standard_errors import Projection, Sampling, Spans, project

# A reward this many robust standard deviations from the median is an outlier: of a million exponential ones the largest is at 13.
OUTLIER = 30.0
# Bins of rows, in the order of the log, that are shown, and rows that each should have.
BINS, ROWS_PER_BIN = 60, 20


@dataclass(frozen=True)
class Plan:
    """Numbers of the whole log that the second pass has to know.

    Attributes:
        facts: of the first pass.
        sampling: how rows depend on each other.
        unit: a power of two near the size of rewards, in which squares are taken, so that none overflows.
        median, width: of the sampled rewards: their median, and a robust standard deviation.
        edges: borders of the bins that are shown over time.
        sampled: rows whose series are kept.
        keeps: whether all series are kept, because the log is in memory.
    """

    facts: RowFacts
    sampling: Sampling
    unit: float
    median: float
    width: float
    edges: NDArray[np.int64]
    sampled: NDArray[np.int64]
    keeps: bool

    @cached_property
    def over_time(self) -> Sampling:
        """How rewards depend on each other."""
        return self.sampling.over_time()

    @staticmethod
    def of(prepared: Prepared, sampling: Sampling, facts: RowFacts) -> "Plan":
        rows = prepared.num_rows
        bins = max(1, min(BINS, rows // ROWS_PER_BIN))
        sample = prepared.sample
        median, width = robust(sample.rows.rewards)
        return Plan(
            facts,
            sampling,
            2.0 ** np.floor(np.log2(facts.largest)) if facts.largest > 0 else 1.0,
            median,
            width,
            np.linspace(0, rows, bins + 1).round().astype(np.int64),
            sample.index,
            not prepared.data.is_streamed,
        )


def robust(rewards: Array) -> tuple[float, float]:
    """Median and robust standard deviation: wide enough for rare but regular rewards, and both one for normal ones."""
    median = float(np.median(rewards))
    distance = np.abs(rewards - median)
    low, high = np.quantile(rewards, [0.005, 0.995])
    width = max(1.4826 * float(np.median(distance)), float(high - low) / 5.15)
    if width == 0 and distance.any():
        width = 1.4826 * float(np.median(distance[distance > 0]))
    return median, width


@dataclass(frozen=True)
class ClosedForm:
    """The estimate and what its influence series needs.

    Attributes:
        reward_rate: `r̂`.
        weights: `w`, `[K]`, of least norm where there are many.
        residual: `ν̂ = Ĉ⁺(Âû + b̂)`, `[1 + L]`; zero where the equations hold exactly.
        rate_row: `(p_ν, p_u)`: the row `−e_r̂ᵀ G⁺`, dual part `[1 + L]` and primal part `[1 + K]`. The density ratio is `vᵀp_ν`.
        unidentified: the part of the rate's unit vector in the null space; the rate is identified if it is zero.
        rank: of the equations, of `1 + K`.
        conditioning: smallest over largest singular value that counts.
        ridge: `η`.
        is_identified: whether `unidentified` is zero but for rounding.
        jitter: what was added to the diagonal of `Ĉ`.
        known: features whose weight the log determines, `[K]`; None: all of them, or none in particular.
        bare: for one-hot features with a ridge: the solution without it, or why there is none.
    """

    reward_rate: float
    weights: Array
    residual: Array
    rate_row: tuple[Array, Array]
    unidentified: float
    rank: int
    conditioning: float
    ridge: float
    jitter: float = 0.0
    known: NDArray[np.bool_] | None = None
    is_identified: bool = True
    bare: "ClosedForm | InputError | None" = None

    @cached_property
    def vectors(self) -> tuple[Array, Array]:
        """What the influence of rows multiplies primal and dual features with; one each where the equations hold exactly."""
        (dual, primal), residual = self.rate_row, self.residual
        if not residual.any():
            return self.weights[None], dual[None, 1:]
        return np.stack([self.weights, primal[1:]]), np.stack([dual[1:], residual[1:]])


class Series(NamedTuple):
    """One number per row.

    Attributes:
        influence: of each row on the rate, `[n]`, the row's weight over the mean weight counted in.
        ratio: the estimated density ratio `d_π/d_μ`, `[n]`.
        errors: TD errors, `[n]`.
    """

    influence: Array
    ratio: Array
    errors: Array

    @staticmethod
    def joined(parts: "list[Series]") -> "Series":
        """One after the other."""
        return parts[0] if len(parts) == 1 else Series(*(np.concatenate(part) for part in zip(*parts)))


class Influence(NamedTuple):
    """What the second pass knows of some rows.

    Attributes:
        series: one number per row; None: the estimator has none.
        level: the sum of weight times ratio times value.
    """

    series: Series | None
    level: float

    @staticmethod
    def joined(parts: "list[Influence]") -> "Influence":
        """One after the other."""
        found = [part.series for part in parts if part.series is not None]
        return Influence(Series.joined(found) if found else None, sum(part.level for part in parts))


# Of some rows: their influence, or what it is computed from.
Parts: TypeAlias = Influence | MultipliedRows


@dataclass
class Threefold:
    """A series over all rows, over the earlier half and over the later half, as its sampling divides them."""

    whole: Projection
    first: Projection
    second: Projection

    @staticmethod
    def zero(sampling: Sampling) -> "Threefold":
        return Threefold(*(Projection.zero(spans) for spans in _spans(sampling)))

    @staticmethod
    def of(sampling: Sampling, start: int, series: Array) -> "Threefold":
        squares = series * series
        return Threefold(*(project(spans, start, series, squares) for spans in _spans(sampling)))

    def add(self, other: "Threefold") -> None:
        for mine, theirs in zip(vars(self).values(), vars(other).values()):
            mine.add(theirs)

    def state(self) -> dict[str, Any]:
        return {name: {**vars(part), "spans": None} for name, part in vars(self).items()}

    @staticmethod
    def of_state(sampling: Sampling, state: dict[str, Any]) -> "Threefold":
        parts = zip(_spans(sampling), state.values())
        return Threefold(*(Projection(**{**part, "spans": spans}) for spans, part in parts))


def _spans(sampling: Sampling) -> tuple[Spans, Spans, Spans]:
    return sampling.spans, *sampling.halves


@dataclass
class Totals:
    """Over the rows counted so far.

    Attributes:
        target: the influence on the target's rate; None where the estimator has no series.
        behavior: the influence on the mean logged reward.
        sums: by name, see `_sums`.
        largest: by name: sizes of errors, and distance of a reward from the median.
        outlier: (row, reward) of the latter.
        half_weights: sums of weights in the halves of the target's series and in those of the rewards, where rows have weights.
        over_time: sums of weight times reward, of weight and of influence in the bins of the plan.
        sampled: influence, ratio and errors at sampled rows, `[3, m]`.
        ends: (error, whether the ratio is not zero, whether it goes on from the row before) of the first and of the last row.
        kept: the series themselves, where the plan keeps them.
    """

    plan: Plan
    target: Threefold | None
    behavior: Threefold
    sums: dict[str, float] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)
    outlier: tuple[int, float] = (0, 0.0)
    half_weights: Array = field(default_factory=lambda: np.zeros(4))
    over_time: Array = field(default_factory=lambda: np.zeros((3, 0)))
    sampled: list[Array] = field(default_factory=list)
    ends: tuple[tuple[float, bool, bool], tuple[float, bool, bool]] | None = None
    kept: list[Series] = field(default_factory=list)

    @staticmethod
    def zero(plan: Plan, has_target: bool) -> "Totals":
        """The totals of no rows yet."""
        target = Threefold.zero(plan.sampling) if has_target else None
        return Totals(plan, target, Threefold.zero(plan.over_time), over_time=np.zeros((3, len(plan.edges) - 1)))

    @staticmethod
    def of(plan: Plan, block: Block | FeatureBlock, series: Series | None, level: float = 0.0) -> "Totals":
        """The totals of one block; `level`: the sum over its rows of weight times ratio times value."""
        facts, start = plan.facts, block.start
        rows = slice(start, start + len(block))
        rewards, weights = block.rewards, block.weights
        behavior = rewards - facts.mean
        if weights is not None:
            behavior = behavior * (weights * (facts.rows / facts.weight))
        distance = np.abs(rewards - plan.median)
        far = distance > OUTLIER * plan.width if plan.width > 0 else np.zeros(len(block), dtype=np.bool_)
        deviations = (rewards - facts.rewards / facts.rows) / plan.unit
        row = int(np.argmax(distance))
        found = Totals(
            plan,
            None if series is None else Threefold.of(plan.sampling, start, series.influence),
            Threefold.of(plan.over_time, start, behavior),
            {
                "rewards2": _dot(deviations, deviations),
                "far": float(far.sum()),
                "far2": _dot(deviations[far], deviations[far]) if far.any() else 0.0,
                "level": level,
            },
            {"distance": float(distance[row])},
            (start + row, float(rewards[row])),
        )
        columns = (
            rewards if weights is None else rewards * weights,
            np.ones(len(block)) if weights is None else weights,
            np.zeros(len(block)) if series is None else series.influence,
        )
        found.over_time = np.stack([_binned(plan, rows, column) for column in columns])
        if weights is not None:
            halves = (*plan.sampling.halves, *plan.over_time.halves)
            found.half_weights = np.array([project(half, start, weights).sums.sum() for half in halves])
        if series is not None:
            found._count(block, series)
        return found

    def _count(self, block: Block | FeatureBlock, series: Series) -> None:
        """The sums over the series of the target; squares in units of the plan."""
        plan = self.plan
        weighted = series.ratio
        if block.weights is not None:  # over their mean, so that no power overflows
            weighted = series.ratio * (block.weights * (plan.facts.rows / plan.facts.weight))
        size = np.abs(weighted)
        errors, squares = series.errors / plan.unit, (series.influence / plan.unit) ** 2
        used = series.ratio != 0
        pairs = used[1:] & used[:-1] & block.follows[1:]
        first, second = np.where(pairs, errors[:-1], 0.0), np.where(pairs, errors[1:], 0.0)
        self.sums |= {
            "ratio": float(weighted.sum()),
            "ratio2": _dot(weighted, weighted),
            "ratio4": _dot(weighted**2, weighted**2),
            "ratio_size": float(size.sum()),
            "ratio_negative": float(size[weighted < 0].sum()),
            "influence3": _dot(squares, series.influence / plan.unit),
            "influence4": _dot(squares, squares),
            "errors2": _dot(errors, errors),
            **_pair_sums(first, second, int(pairs.sum())),
        }
        self.largest["error"] = float(np.abs(series.errors).max())
        low, high = np.searchsorted(plan.sampled, (block.start, block.start + len(block)))
        self.sampled = [np.stack(series)[:, plan.sampled[low:high] - block.start]] if low < high else []
        self.ends = (
            (float(errors[0]), bool(used[0]), bool(block.follows[0])),
            (float(errors[-1]), bool(used[-1]), bool(block.follows[-1])),
        )
        self.kept = [series] if plan.keeps else []

    def add(self, other: "Totals") -> None:
        """Count in the rows that follow, if there are any."""
        if not other.largest:
            return
        if self.target is not None and other.target is not None:
            self.target.add(other.target)
        self.behavior.add(other.behavior)
        for name, value in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        if self.ends is not None and other.ends is not None:
            (before, used, _), (after, also, follows) = self.ends[1], other.ends[0]
            if used and also and follows:
                for name, value in _pair_sums(np.array([before]), np.array([after]), 1).items():
                    self.sums[name] += value
        if other.largest["distance"] > self.largest.get("distance", -1.0):
            self.outlier = other.outlier
        for name, value in other.largest.items():
            self.largest[name] = max(self.largest.get(name, 0.0), value)
        self.over_time = self.over_time + other.over_time
        self.half_weights = self.half_weights + other.half_weights
        self.sampled.extend(other.sampled)
        self.kept.extend(other.kept)
        if other.ends is not None:
            self.ends = other.ends if self.ends is None else (self.ends[0], other.ends[1])

    def state(self) -> dict[str, Any]:
        """Plain numbers and arrays, for a checkpoint."""
        return {
            "target": None if self.target is None else self.target.state(),
            "behavior": self.behavior.state(),
            "sums": self.sums,
            "largest": self.largest,
            "outlier": self.outlier,
            "half_weights": self.half_weights,
            "over_time": self.over_time,
            "sampled": self.sampled,
            "ends": self.ends,
            "kept": [np.stack(part) for part in self.kept],
        }

    @staticmethod
    def of_state(plan: Plan, state: dict[str, Any]) -> "Totals":
        """The totals whose `state` this is."""
        target = None if state["target"] is None else Threefold.of_state(plan.sampling, state["target"])
        behavior = Threefold.of_state(plan.over_time, state["behavior"])
        kept = [Series(*part) for part in state["kept"]]
        return Totals(plan, **{**state, "target": target, "behavior": behavior, "kept": kept})

    @property
    def influence(self) -> Projection:
        """The influence on the target's rate, centered."""
        assert self.target is not None
        return self.target.whole.centered()

    def halves(self, series: Threefold) -> tuple[Projection, Projection]:
        """The projections of the earlier and the later half, as deviations from a mean over that half's weights."""
        facts, halves = self.plan.facts, (series.first, series.second)
        if not self.half_weights.any():
            return halves
        per_row, weights = (
            facts.weight / facts.rows,
            self.half_weights[:2] if series is self.target else self.half_weights[2:],
        )
        scales = [per_row * half.rows / weight if weight > 0 else 0.0 for half, weight in zip(halves, weights)]
        return halves[0].scaled(scales[0]), halves[1].scaled(scales[1])

    @property
    def correction(self) -> float:
        """The mean of the influence: what rounding of the moments left of the rate."""
        return 0.0 if self.target is None else self.target.whole.mean

    @property
    def at_sample(self) -> Series:
        """The series of the sampled rows, centered like the whole."""
        influence, ratio, errors = np.concatenate(self.sampled, axis=1)
        return Series(influence - self.correction, ratio, errors)


def _dot(one: Array, other: Array) -> float:
    """The sum of products; with `@` NumPy would hold the interpreter meanwhile, and other threads would wait."""
    return float(np.dot(one, other))


def _pair_sums(first: Array, second: Array, count: int) -> dict[str, float]:
    """Sums over pairs of successive errors."""
    product = first * second
    return {
        "pairs": float(count),
        "product": float(product.sum()),
        "product2": _dot(product, product),
        "first2": _dot(first, first),
        "second2": _dot(second, second),
    }


def _binned(plan: Plan, rows: slice, values: Array) -> Array:
    """Sums of some rows in the bins of the plan."""
    result = np.zeros(len(plan.edges) - 1)
    first = int(np.searchsorted(plan.edges, rows.start, side="right")) - 1
    last = int(np.searchsorted(plan.edges, rows.stop))
    inside = np.maximum(plan.edges[first:last] - rows.start, 0)
    result[first:last] = np.add.reduceat(values, inside)
    return result


@dataclass(frozen=True)
class InfluencePass:
    """`IF = v·p_ν (δ − v·ν̂) − z·p_u (v·ν̂) − η p_u·I0û` (and the jitter's part), times the row's weight over the mean weight.

    Without a solution it is a pass over rewards alone.

    Attributes:
        elsewhere: computes the influence of a block's rows whose features were not made yet; None: it is computed here.
    """

    plan: Plan
    solution: ClosedForm | None
    elsewhere: Callable[[EncodedRows, ClosedForm, float], Influence] | None = None
    label = "influence"

    @property
    def whole_blocks(self) -> bool:
        return self.elsewhere is not None

    @property
    def has_features(self) -> bool:
        return self.solution is not None

    def zero(self) -> Totals:
        return Totals.zero(self.plan, self.solution is not None)

    def restored(self, state: dict[str, Any]) -> Totals:
        return Totals.of_state(self.plan, state)

    @property
    def _per_weight(self) -> float:
        """Rows per unit of weight."""
        return self.plan.facts.rows / self.plan.facts.weight

    def of_piece(self, prepared: Prepared, part: Rows, number: int) -> list[Parts]:
        """The influence of a piece's rows, or what it is made of chunk by chunk, in a thread of its own."""
        if self.solution is None:
            return [Influence(None, 0.0)]
        if self.elsewhere is not None:
            return [self.elsewhere(prepared.encoded_block(part), self.solution, self._per_weight)]
        return list(prepared.multiplied(part, *self.solution.vectors, piece=number))

    def collect(self, so_far: list[Parts] | None, piece: list[Parts]) -> list[Parts]:
        """Pieces of a block, in order."""
        return piece if so_far is None else [*so_far, *piece]

    def of_block(self, prepared: Prepared, block: Block | FeatureBlock, pieces: list[Parts]) -> Totals:
        """All rows of a block at once: in short steps, threads would wait for the interpreter."""
        made_of = [part for part in pieces if isinstance(part, MultipliedRows)]
        if made_of:
            assert self.solution is not None
            found = influence_of(MultipliedRows.joined(made_of), self.solution, self._per_weight)
        else:
            found = Influence.joined([part for part in pieces if isinstance(part, Influence)])
        return Totals.of(self.plan, block, found.series, found.level)


def series_of(prepared: Prepared, solution: ClosedForm, per_weight: float) -> Series:
    """The series of all rows of a log that is small."""

    def of_piece(piece: Any, number: int) -> list[MultipliedRows]:
        return list(prepared.multiplied(piece, *solution.vectors, piece=number))

    rows = MultipliedRows.joined([part for parts in map_pieces(prepared, of_piece) for part in parts])
    found = influence_of(rows, solution, per_weight).series
    assert found is not None
    return found


def influence_of(rows: MultipliedRows, solution: ClosedForm, per_weight: float) -> Influence:
    """The influence of rows, by what `vectors` of the solution give of them; `per_weight`: rows per unit of weight."""
    (dual, primal), residual, weights = solution.rate_row, solution.residual, solution.weights
    here, there, on_dual = rows.here, rows.there, rows.dual
    errors = rows.rewards - solution.reward_rate + (there[0] - here[0])
    ratio = on_dual[0] + dual[0]
    found: Array = ratio * errors
    if len(on_dual) > 1:
        left = on_dual[1] + residual[0]
        found -= (ratio + (there[1] - here[1]) - primal[0]) * left
    found -= solution.ridge * float(primal[1:] @ weights) + solution.jitter * float(dual[1:] @ residual[1:])
    weighted = ratio
    if rows.weights is not None:
        found *= rows.weights * per_weight
        weighted = ratio * rows.weights
    return Influence(Series(found, ratio, errors), _dot(weighted, here[0]))
