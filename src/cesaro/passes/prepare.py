"""A log seen through a policy and feature maps: blocks of rows, as often as asked, the same bits each time.

Rows that come from no log, ready features and excerpts, take its form.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data import Block, FeatureTransitions, Log, Sample, Stretch, blocks
from cesaro.data.blocks import RowBlocks, taken
from cesaro.data.log import OpenedLog
from cesaro.data.values import Index
from cesaro.data.windows import ColumnDigests, rows_digest
from cesaro.engines.local import check_wanted
from cesaro.errors import InputError
from cesaro.features import FeatureMap, Features, OneHot, build
from cesaro.features.maps import Joint, NextActions, Pairs, ReadyPairs, base_of
from cesaro.passes.standard_errors import ENOUGH_CLUSTERS, RULES, Rule, Sampling, Spans
from cesaro.policies import Attached, attach
from cesaro.text import Sentence, argument


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


# Rows whose next state is the state of the row below, for a log without ids to count as one trajectory.
CHAINED = 0.99
# Numbers of one array in a piece of a block, and the least rows of one: a policy that draws is asked for a piece at a time.
PIECE, PIECE_ROWS = 2**19, 2_048
# The same of a tile, whose features are computed together, which decides how they round.
TILE, TILE_ROWS = 2**16, 1_024
# Numbers of a chunk, some tiles whose rows are features at the same time; half as many where products are taken of a long log,
# which are in double precision. In smaller ones threads would wait for the interpreter, which every step needs for a moment.
CHUNK = 2**19
# Rows of a long log that a policy that draws nothing is asked about at once: an interruption waits for its answer.
ASKED = 2**14
# Numbers of one array of features of a short log, at most: 32 MiB in single precision. The second pass over a longer one does not
# form components of smooth features.
HELD = 2**23
# A generator for policies that draw nothing: making one for each piece would keep all threads waiting for the interpreter.
ANY = np.random.default_rng(0)


class FeatureRows(NamedTuple):
    """A block of transitions as features; `v is x` where the dual features are the primal ones."""

    x: Features  # [n, K]
    rewards: Array  # [n]
    x_next: Features  # [n, K]
    v: Features  # [n, L]
    weights: Array | None = None  # [n]

    def __len__(self) -> int:
        return len(self.rewards)

    def multiplied(self, on_primal: Array, on_dual: Array) -> "MultipliedRows":
        """What vectors `[m, size]` give of these features."""
        x, x_next = ReadyPairs(self.x), ReadyPairs(self.x_next)
        of_rows = _multiplier(x, x_next, None if self.v is self.x else ReadyPairs(self.v), on_primal, on_dual)
        return MultipliedRows(*of_rows(slice(0, len(self)), len(self)), self.rewards, self.weights)


class MultipliedRows(NamedTuple):
    """A block of transitions by what a few vectors give of their features."""

    here: Array  # of x, [m, n]
    there: Array  # of x̄', [m, n]
    dual: Array  # of v, by the dual vectors, [m, n]
    rewards: Array  # [n]
    weights: Array | None  # [n]

    @staticmethod
    def joined(parts: "Sequence[MultipliedRows]") -> "MultipliedRows":
        """One after the other."""
        if len(parts) == 1:
            return parts[0]
        here, there, dual, rewards, weights = zip(*parts)
        x, x_next, v = (np.concatenate(each, axis=1) for each in (here, there, dual))
        weight = None if weights[0] is None else np.concatenate(weights)
        return MultipliedRows(x, x_next, v, np.concatenate(rewards), weight)


def _multiplier(
    x: Pairs, x_next: Pairs, v: Pairs | None, on_primal: Array, on_dual: Array
) -> Callable[[slice, int], tuple[Array, Array, Array]]:
    """Gives what vectors give of `x`, of `x̄'` and of dual features, of some rows, so many in a tile; no `v`: `x` is dual, too."""
    of_next = x_next.multiplier(on_primal)
    of_x = x.multiplier(on_primal if v is not None else np.concatenate([on_dual, on_primal]))
    of_v = None if v is None else v.multiplier(on_dual)

    def of_rows(rows: slice, tile: int) -> tuple[Array, Array, Array]:
        here, there = of_x(rows, tile), of_next(rows, tile)
        if of_v is not None:
            return here, there, of_v(rows, tile)
        return here[len(on_dual) :], there, here[: len(on_dual)]

    return of_rows


class EncodedRows(NamedTuple):
    """Rows on the way to features; no `v` where the dual features are the primal ones."""

    x: Pairs
    rewards: Array  # [n]
    x_next: Pairs
    v: Pairs | None
    weights: Array | None  # [n]
    tile: int  # rows whose features the host computes together

    def __len__(self) -> int:
        return len(self.rewards)

    def part(self, rows: slice) -> "EncodedRows":
        """Some of them."""
        v = None if self.v is None else self.v.part(rows)
        weights = taken(self.weights, rows)
        return EncodedRows(self.x.part(rows), self.rewards[rows], self.x_next.part(rows), v, weights, self.tile)


Rows: TypeAlias = Block | FeatureBlock | EncodedRows


class Prepared:
    """Blocks `(x, R, x̄', v)` of a log.

    Attributes:
        data: the log, or what stands for one.
        num_rows: transitions.
        map: features of pairs; None where they came ready.
        dual: dual features; None where they are the primal ones.
        policy: the target; None where features came ready.
        log: the log; None where features came ready.
        grows: whether the log decides how many components smooth features have.
    """

    grows = False
    _pieces_of: int | None = None  # rows of a piece that were settled before
    _held: dict[tuple[int, ...], list[FeatureRows]] | None = None  # chunks that were made before, by block and piece

    def __init__(
        self,
        data: Log | FeatureTransitions,
        policy: Any,
        *,
        features: Any,
        dual_features: Any,
        draws: int,
        random_state: int,
        most: int | None = None,
        quiet: bool = True,
    ) -> None:
        self.draws, self.random_state = draws, random_state
        self.log: OpenedLog | None = None
        self.map: FeatureMap | None = None
        self.dual: FeatureMap | None = None
        self.policy: Attached | None = None
        self.data: RowBlocks
        if isinstance(data, FeatureTransitions):
            if policy is not None:
                raise InputError(
                    "Ready features already hold the target's next features; call fit(data) without a policy."
                )
            self.data, self._given_size = FeatureLog(data), data.x.shape[1]
            self.num_rows = len(data)
            return
        if not isinstance(data, Log):
            raise InputError(
                f"The log must be a Log (cesaro.read), Transitions or FeatureTransitions. Got {type(data).__name__}."
            )
        if policy is None:
            raise InputError("A log needs a target policy: fit(log, policy).")
        self.data = self.log = data.opened(quiet=quiet)
        self.policy = attach(policy, self.log)
        self.num_rows = len(self.log)
        if self.policy.is_logged:
            return
        self.map = build(features, self.log, random_state=random_state, most=most, sample=self.sample)
        named = isinstance(features, str) and features in ("auto", "smooth")
        self.grows = named and most is None and not isinstance(self.map, OneHot)
        self._build_dual(dual_features)

    def _build_dual(self, dual_features: Any) -> None:
        """Features are their own dual unless others are named; Fourier features of the same seed begin alike."""
        assert self.log is not None
        if isinstance(dual_features, str) and dual_features in ("auto", "same"):
            return
        if isinstance(self.map, OneHot):
            raise InputError(
                "dual_features must be 'same' with one-hot features, which already hold everything in the log."
            )
        self.dual = build(dual_features, self.log, random_state=self.random_state, sample=self.sample)
        if isinstance(self.dual, OneHot):
            raise InputError("dual_features='one-hot' needs features='one-hot'; take another map for one of them.")

    @cached_property
    def sample(self) -> Sample:
        """The rows that maps were fitted on and diagnostics look at."""
        return self.whole.sample(self.random_state)

    @property
    def whole(self) -> OpenedLog | FeatureLog:
        """The data, where they are all that was given and no excerpt."""
        assert isinstance(self.data, OpenedLog | FeatureLog)
        return self.data

    @property
    def is_logged(self) -> bool:
        """Whether the target is the log itself."""
        return self.policy is not None and self.policy.is_logged

    @property
    def is_discrete(self) -> bool:
        """Whether states and actions are labels."""
        if self.log is None:
            return False
        rows = self.sample.rows
        return rows.observations.is_discrete and rows.actions.is_discrete

    @property
    def draws_are_used(self) -> bool:
        """Whether `a'` is drawn, because the policy gives no probabilities."""
        if self.policy is None or self.policy.has_probabilities or self.policy.deterministic:
            return False
        return not (isinstance(self.map, Joint) and self.policy.policy.actions is not None)

    @property
    def num_features(self) -> int:
        if self.log is None:
            return self._given_size
        return self.map.size if self.map is not None else 0

    @property
    def description(self) -> str:
        """Features and dual features in words."""
        if self.map is None:
            return f"{self.num_features} ready features"
        return self.map.description + (f"; dual: {self.dual.description}" if self.dual is not None else "")

    def with_map(self, chosen: FeatureMap, dual: FeatureMap | None = None) -> "Prepared":
        """The same rows in other features, which are their own dual unless one is given."""
        other = copy.copy(self)
        other.map, other.dual, other._pieces_of, other._held = chosen, dual, None, None
        return other

    def with_fewer(self, chosen: FeatureMap) -> "Prepared":
        """The same rows in fewer features, cut into the same pieces where actions are drawn, since draws depend on these."""
        other = self.with_map(chosen, self.dual)
        if self.draws_are_used:
            other._pieces_of = self.piece_rows
        return other

    def excerpt(self, rows: Block | FeatureBlock) -> "Prepared":
        """Other rows in the same features."""
        other = copy.copy(self)
        other.data, other.num_rows, other._held = Excerpt(rows), len(rows), None
        return other

    def holding(self) -> "Prepared":
        """The same rows, whose features stay once they are made, until they are let go: of a short log, for a second pass."""
        if self.log is None or isinstance(self.map, OneHot) or not self.is_short:
            return self
        other = copy.copy(self)
        other._held = {}
        return other

    @property
    def is_short(self) -> bool:
        """Whether features of all rows may stay in memory."""
        return self.num_rows * self.most_features <= HELD

    def let_go(self) -> None:
        """Make features anew from here on."""
        self._held = None

    def pieces(self, block: Rows) -> list[Any]:
        """The block in cache-sized pieces; rows of sparse features stay together."""
        size = self.piece_rows
        return [block.part(slice(start, start + size)) for start in range(0, len(block), size)]

    @property
    def piece_rows(self) -> int:
        """The most rows of a piece."""
        if self._pieces_of is not None:
            return self._pieces_of
        if isinstance(self.map, OneHot) or (self.map is None and self.log is not None):
            return blocks.BLOCK_ROWS
        return max(PIECE_ROWS, PIECE // max(self.most_features, 1))

    @property
    def most_features(self) -> int:
        """Primal features, or dual ones if these are more."""
        return max(self.num_features, 0 if self.dual is None else self.dual.size)

    def rows(self, repeat: int = 0) -> Iterator[FeatureRows]:
        """All rows as features, piece by piece, in order."""
        for block in self.data.blocks():
            for number, piece in enumerate(self.pieces(block)):
                yield self.features_of(piece, repeat, number)

    def features_of(self, block: Rows, repeat: int = 0, piece: int = 0) -> FeatureRows:
        """A piece of a block as features; draws of `a'` depend on the seed, block, piece and `repeat` alone."""
        return next(self._chunks(block, repeat, piece, [slice(0, len(block))], max(1, len(block))))

    def chunks_of(self, block: Rows, repeat: int = 0, piece: int = 0) -> Iterator[FeatureRows]:
        """The same in chunks that stay in the cache; of rows that are encoded, too."""
        parts, tile = self._parts(len(block), CHUNK if self.is_short else CHUNK // 2), self._tile
        if self._held is None or isinstance(block, EncodedRows):
            return self._chunks(block, repeat, piece, parts, tile)
        place = (*block.key, repeat, piece)
        if place not in self._held:
            self._held[place] = list(self._chunks(block, repeat, piece, parts, tile))
        return iter(self._held[place])

    def multiplied(self, block: Rows, on_primal: Array, on_dual: Array, piece: int = 0) -> Iterator[MultipliedRows]:
        """What vectors `[m, size]` give of a piece of a block, chunk by chunk; features of a long log need not be formed."""
        if self.is_short:
            for rows in self.chunks_of(block, piece=piece):
                yield rows.multiplied(on_primal, on_dual)
            return
        one = self._encoded(block, 0, piece)
        of_rows = _multiplier(one.x, one.x_next, one.v, on_primal, on_dual)
        for part in self._parts(len(block), CHUNK):
            yield MultipliedRows(*of_rows(part, one.tile), one.rewards[part], taken(one.weights, part))

    def _parts(self, rows: int, numbers: int) -> list[slice]:
        """The rows of the chunks of a piece: some tiles each, of so many numbers; those of sparse features stay together."""
        size = max(1, rows)
        if not isinstance(self.map, OneHot):
            size = self._tile * max(1, numbers // (self._tile * max(self.most_features, 1)))
        return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]

    @property
    def encodes_blocks(self) -> bool:
        """Whether blocks are best encoded whole, in few long steps: those of a long log, unless features are made on the way."""
        maps = (self.map,) if self.dual is None else (self.map, self.dual)
        return not self.is_short and all(base_of(one) is not None for one in maps)

    def encoded_block(self, block: Rows, asked: int = blocks.BLOCK_ROWS) -> EncodedRows:
        """A whole block on the way to features. Draws of `a'` are those of its pieces.

        `asked`: rows that a policy that draws nothing is asked about at once. Where nobody waits for the block any more, it ends
        before the next question (`check_wanted`).
        """
        if not isinstance(block, Block):
            return self._encoded(block, 0, 0)
        starts = range(0, len(block), asked)
        parts = self.pieces(block) if self.draws_are_used else [block.part(slice(at, at + asked)) for at in starts]
        actions = []
        for number, part in enumerate(parts):
            check_wanted()
            actions.append(self._next_actions(part, 0, number))
        return self._with_actions(block, NextActions.joined(actions))

    @property
    def _tile(self) -> int:
        """Rows whose features are computed together; those of sparse ones are never more than a block has."""
        if isinstance(self.map, OneHot):
            return blocks.BLOCK_ROWS
        return max(TILE_ROWS, TILE // max(self.most_features, 1))

    def _chunks(self, block: Rows, repeat: int, piece: int, parts: list[slice], tile: int) -> Iterator[FeatureRows]:
        """Part by part, whose features are computed in tiles."""
        one = self._encoded(block, repeat, piece)
        for part in parts:
            x = one.x.features(part, tile)
            v = x if one.v is None else one.v.features(part, tile)
            yield FeatureRows(x, one.rewards[part], one.x_next.features(part, tile), v, taken(one.weights, part))

    def _encoded(self, block: Rows, repeat: int, piece: int) -> EncodedRows:
        """A piece on the way to features; the policy is asked here."""
        if isinstance(block, EncodedRows):
            return block
        if isinstance(block, FeatureBlock):
            here, there = ReadyPairs(block.x), ReadyPairs(block.x_next)
            return EncodedRows(here, block.rewards, there, None, block.weights, self._tile)
        return self._with_actions(block, self._next_actions(block, repeat, piece))

    def _next_actions(self, block: Block, repeat: int, piece: int) -> NextActions:
        """What the policy does next in a piece of a block."""
        assert self.map is not None
        assert self.policy is not None
        rng = (
            ANY
            if self.policy.deterministic
            else np.random.default_rng([self.random_state, 2, *block.key, piece, repeat])
        )
        if block.available is not None:
            plain = block.observations.plain()
            exact = self.policy.probabilities(plain)
            chosen = self.policy.sample(plain, rng) if exact is None else exact
            self.policy.check_available(chosen, block.available, plain)
        return self.map.actions(block.next_observations, self.policy, rng, self.draws)

    def _with_actions(self, block: Block, actions: NextActions) -> EncodedRows:
        """The rows, given what the policy does next."""
        assert self.map is not None
        there = self.map.encoded_next(block.next_observations, actions)
        here = self.map.encoded(block.observations, block.actions)
        dual = None if self.dual is None else self.dual.encoded(block.observations, block.actions)
        return EncodedRows(here, block.rewards, there, dual, block.weights, self._tile)

    def sampling(self, wanted: str, chained: float) -> Sampling:
        """Which formula for standard errors, and why; `chained`: the share of rows whose next state is that of the row below."""
        if wanted not in ("auto", *RULES):
            raise InputError(f"standard_errors must be one of auto, {', '.join(RULES)}. Got {wanted!r}.")
        lengths = self.data.lengths
        if lengths is None and wanted == "clustered":
            raise InputError(
                Sentence(
                    "{clustered} needs a trajectory for every row; name its column ({trajectory}).",
                    clustered=argument("standard_errors", "clustered"),
                    trajectory=argument("trajectory"),
                )
            )
        in_order = lengths is not None or self.log is None or chained >= CHAINED
        if lengths is not None:
            effective = Spans.of(lengths).effective
            rule: Rule = "clustered" if effective >= ENOUGH_CLUSTERS else "long-run"
            reason = f"{len(lengths):,} trajectories"
            if len(lengths) >= ENOUGH_CLUSTERS > effective:
                reason += f", worth {effective:.2g} of equal length"
        else:
            none = "no trajectory ids, and ready features do not tell whether rows follow each other, so they"
            if self.log is not None:
                none = "no trajectory ids, and rows do not follow each other, so they"
            rule = "long-run" if chained >= CHAINED else "independent"
            reason = (
                "no trajectory ids, and rows follow each other, so the log is taken as one trajectory"
                if rule == "long-run"
                else f"{none} count as independent"
            )
        if wanted != "auto":
            rule, reason = next(rule for rule in RULES if rule == wanted), "as asked for"
        whole = np.array([self.num_rows]) if lengths is None else lengths
        return Sampling(rule, whole, reason, lengths is not None, in_order, wanted != "auto")
