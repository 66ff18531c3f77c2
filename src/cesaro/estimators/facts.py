"""What the first pass learns of the rows beside the moments, and what the second pass has to know before it starts."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data import Block
from cesaro.estimators.influence import Sampling
from cesaro.estimators.pipeline import Prepared
from cesaro.estimators.ready import ReadyBlock
from cesaro.estimators.repeats import Repeats

# Stretches of the log that are shown, and rows that each should have.
STRETCHES, ROWS_PER_STRETCH = 60, 20


@dataclass
class Facts:
    """Of the rows counted so far.

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
    def of(block: Block | ReadyBlock, look: bool, num_rows: int) -> "Facts":
        """Of one block; `look`: whether rows follow each other is asked; `num_rows`: of the whole log."""
        rewards, weights = block.rewards, block.weights
        same = pairs = 0
        if look and isinstance(block, Block) and len(block) > 1:
            pairs = len(block) - 1
            after, here = block.next_observations.take(slice(0, pairs)), block.observations.take(slice(1, pairs + 1))
            same = int(after.equals(here).sum())
        total = float(rewards.sum())
        return Facts(
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

    def add(self, other: "Facts") -> None:
        """Count in the rows that follow."""
        for name in ("rows", "weight", "rewards", "earned", "same", "pairs"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.repeats.add(other.repeats)

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {**vars(self), "repeats": self.repeats.state()}

    @staticmethod
    def of_state(state: dict[str, Any]) -> "Facts":
        """What `state` gave."""
        return Facts(**{**state, "repeats": Repeats(**state["repeats"])})

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


@dataclass(frozen=True)
class Plan:
    """What the second pass has to know of the whole log.

    Attributes:
        facts: of the first pass.
        sampling: how rows depend on each other.
        unit: a power of two near the size of rewards, in which squares are taken, so that none overflows.
        median, width: of the sampled rewards: their median, and a robust standard deviation.
        edges: borders of the stretches that are shown over time.
        sampled: rows whose series are kept.
        keeps: whether all series are kept, because the log is in memory.
    """

    facts: Facts
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
    def of(prepared: Prepared, sampling: Sampling, facts: Facts) -> "Plan":
        rows = prepared.num_rows
        bins = max(1, min(STRETCHES, rows // ROWS_PER_STRETCH))
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
