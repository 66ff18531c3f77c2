"""The first pass: moments of features, and facts about the rows."""

from dataclasses import dataclass
from typing import Any

from cesaro.data import Block
from cesaro.estimators.facts import Facts
from cesaro.estimators.moments import Moments
from cesaro.estimators.pipeline import Prepared
from cesaro.estimators.ready import ReadyBlock


@dataclass
class Gathered:
    """What the first pass adds up; moments stay empty where there are no features."""

    moments: Moments
    facts: Facts

    def add(self, other: "Gathered") -> None:
        """Count in the rows that follow."""
        self.moments.merge(other.moments)
        self.facts.add(other.facts)

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"moments": self.moments.state(), "facts": self.facts.state()}


@dataclass(frozen=True)
class Gathering:
    """The first pass; without features it looks at rewards and the order of rows alone."""

    has_features: bool = True
    label = "moments"

    def zero(self) -> Gathered:
        return Gathered(Moments(), Facts())

    def restored(self, state: dict[str, Any]) -> Gathered:
        return Gathered(Moments.of_state(state["moments"]), Facts.of_state(state["facts"]))

    def of_piece(self, prepared: Prepared, part: Block | ReadyBlock, number: int) -> Moments:
        """In a thread of its own."""
        moments = Moments()
        if self.has_features:
            moments.add(prepared.features_of(part, piece=number))
        return moments

    def collect(self, so_far: Moments | None, piece: Moments) -> Moments:
        """Pieces of a block, in order."""
        if so_far is None:
            return piece
        so_far.merge(piece)
        return so_far

    def of_block(self, prepared: Prepared, block: Block | ReadyBlock, pieces: Moments) -> Gathered:
        return Gathered(pieces, Facts.of(block, prepared.data.lengths is None, prepared.num_rows))
