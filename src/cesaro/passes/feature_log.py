"""Rows that are not read from a log, in the form that passes take: ready features, and excerpts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data import Block, FeatureTransitions, Sample, Stretch, blocks
from cesaro.data.values import Index
from cesaro.data.windows import ColumnDigests, rows_digest
from cesaro.errors import InputError


@dataclass(frozen=True)
class FeatureBlock:
    """Rows whose features are ready; `follows` is not known of them."""

    key: tuple[int, int]
    start: int
    x: Array
    x_next: Array
    rewards: Array
    weights: Array | None

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def follows(self) -> NDArray[np.bool_]:
        return np.zeros(len(self), dtype=np.bool_)

    def part(self, rows: Index) -> "FeatureBlock":
        """Some of its rows."""
        start = self.start + ((rows.start or 0) if isinstance(rows, slice) else 0)
        weights = None if self.weights is None else self.weights[rows]
        return FeatureBlock(self.key, start, self.x[rows], self.x_next[rows], self.rewards[rows], weights)


class Excerpt:
    """One block as a log of its own."""

    is_streamed = False
    lengths: NDArray[np.int64] | None = None

    def __init__(self, rows: Block | FeatureBlock) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        return blocks.BlockLayout((len(self),)).stretches

    def blocks(self, stretch: Stretch | None = None) -> Iterator[Block | FeatureBlock]:
        for one in self.stretches if stretch is None else (stretch,):
            for number in one.blocks:
                part = self._rows.part(slice(number * blocks.BLOCK_ROWS, (number + 1) * blocks.BLOCK_ROWS))
                yield replace(part, key=(0, number))


class FeatureLog(Excerpt):
    """Ready features as a log."""

    def __init__(self, data: FeatureTransitions) -> None:
        self.lengths = None if data.trajectory is None else trajectory_lengths(data.trajectory)
        super().__init__(FeatureBlock((0, 0), 0, data.x, data.x_next, data.rewards, data.weights))

    stamps: Mapping[str, str] = MappingProxyType({})

    def digests(self) -> ColumnDigests:
        """Digests in the form of those of a log in memory."""
        return {"rows": rows_digest(self._rows)}

    def changed_since(self, before: ColumnDigests, *, reread: bool, quiet: bool = True) -> str | None:
        """A name for the rows where they are not those of the digests; None: they are."""
        return None if np.array_equal(before["rows"], self.digests()["rows"]) else "the ready features"

    def sample(self, random_state: int) -> Sample:
        index = blocks.sample_rows(len(self), random_state)
        return Sample(index, self._rows.part(index))  # type: ignore[arg-type] # a block in all that is asked of it


def trajectory_lengths(trajectory: NDArray[np.generic]) -> NDArray[np.int64]:
    """Rows of each trajectory; they must stand together."""
    change = np.flatnonzero(trajectory[1:] != trajectory[:-1]) + 1
    if len(np.unique(trajectory[np.concatenate([[0], change])])) != len(change) + 1:
        raise InputError(
            "The rows of a trajectory must stand together; sort them by trajectory, and by time within each."
        )
    return np.diff(change, prepend=0, append=len(trajectory))
