"""A log seen through a policy and feature maps: blocks of rows, as often as asked, the same bits each time."""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.data import Block, FeatureTransitions, Log, Transitions
from cesaro.data.log import BLOCK_ROWS
from cesaro.errors import InputError
from cesaro.estimators.influence import ENOUGH_CLUSTERS, RULES, Rule, Sampling
from cesaro.estimators.moments import Rows
from cesaro.features import FeatureMap, OneHot, build
from cesaro.features.encoder import MAX_DENSE
from cesaro.features.maps import Joint, PerAction
from cesaro.policies import Attached, attach

# Rows whose next state is the state of the row below, for a log without ids to count as one trajectory.
CHAINED = 0.99
# Dual features per primal one, of random Fourier features.
DUAL_MULTIPLE = 2
# Extra dual features get their own random numbers.
DUAL_SEED = 7_919


class Prepared:
    """Blocks `(x, R, x̄', v)` of a log.

    Attributes:
        num_rows: transitions.
        map: features of pairs; None where they came ready.
        dual: dual features; None where they are the primal ones.
        policy: the target; None where features came ready.
        log: the log; None where features came ready.
    """

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
    ) -> None:
        self.draws, self.random_state = draws, random_state
        self.log: Transitions | None = None
        self.map: FeatureMap | None = None
        self.dual: FeatureMap | None = None
        self._extension: PerAction | Joint | None = None
        self.policy: Attached | None = None
        if isinstance(data, FeatureTransitions):
            self._ready: FeatureTransitions | None = data
            self.num_rows = len(data)
            self.rewards, self.weights, self._trajectory = data.rewards, data.weights, data.trajectory
            if policy is not None:
                raise InputError(
                    "Ready features already hold the target's next features; call fit(data) without a policy."
                )
            return
        if not isinstance(data, Log):
            raise InputError(
                f"The log must be a Log (cesaro.read), Transitions or FeatureTransitions. Got {type(data).__name__}."
            )
        if policy is None:
            raise InputError("A log needs a target policy: fit(log, policy).")
        self._ready = None
        self.log = data.load()
        self.policy = attach(policy, self.log)
        self.num_rows = len(self.log)
        self.rewards, self.weights, self._trajectory = self.log.rewards, self.log.weights, self.log.trajectory
        if self.policy.is_logged:
            return
        self.map = build(features, self.log, random_state=random_state, most=most)
        self._build_dual(features, dual_features)

    def _build_dual(self, features: Any, dual_features: Any) -> None:
        """By default Fourier features get twice as many dual ones, an extension of themselves; others are their own dual."""
        assert self.log is not None
        named = isinstance(dual_features, str)
        if named and dual_features == "auto":
            is_fourier = isinstance(features, str) and features.partition(":")[0] in ("auto", "fourier")
            if is_fourier and isinstance(self.map, PerAction | Joint) and DUAL_MULTIPLE * self.map.size <= MAX_DENSE:
                extended = build(features, self.log, random_state=self.random_state, multiple=DUAL_MULTIPLE)
                assert isinstance(extended, PerAction | Joint)
                self.dual = self._extension = extended
            return
        if named and dual_features == "same":
            return
        if isinstance(self.map, OneHot):
            raise InputError(
                "dual_features must be 'same' beside one-hot features, which already hold all the log tells."
            )
        self.dual = build(dual_features, self.log, random_state=self.random_state + DUAL_SEED)
        if isinstance(self.dual, OneHot):
            raise InputError("dual_features='one-hot' needs features='one-hot'; take another map for one of them.")

    @property
    def is_logged(self) -> bool:
        """Whether the target is the log itself."""
        return self.policy is not None and self.policy.is_logged

    @property
    def draws_are_used(self) -> bool:
        """Whether `a'` is drawn, because the policy gives no probabilities."""
        if self.policy is None or self.policy.has_probabilities or self.policy.deterministic:
            return False
        return not (isinstance(self.map, Joint) and self.policy.policy.actions is not None)

    @property
    def num_blocks(self) -> int:
        """About how many blocks `rows` gives, for progress."""
        return -(-self.num_rows // BLOCK_ROWS)

    @property
    def num_features(self) -> int:
        return self._ready.x.shape[1] if self._ready is not None else self.map.size if self.map is not None else 0

    @property
    def description(self) -> str:
        """Features and dual features in words."""
        if self.map is None:
            return f"{self.num_features} ready features"
        return self.map.description + (f"; dual: {self.dual.description}" if self.dual is not None else "")

    def with_map(self, chosen: FeatureMap) -> "Prepared":
        """The same rows in other features, which are their own dual."""
        other = copy.copy(self)
        other.map, other.dual, other._extension = chosen, None, None
        return other

    def rows(self, repeat: int = 0) -> Iterator[Rows]:
        """The blocks in order."""
        if self._ready is not None:
            data = self._ready
            whole = Rows(data.x, data.rewards, data.x_next, data.x, data.weights)
            for start in range(0, self.num_rows, BLOCK_ROWS):
                yield whole.part(slice(start, start + BLOCK_ROWS))
            return
        assert self.log is not None
        for block in self.log.blocks():
            yield self.features_of(block, repeat)

    def features_of(self, block: Block, repeat: int = 0) -> Rows:
        """One block as features; draws of `a'` depend on the seed, the block's number and `repeat` alone."""
        assert self.map is not None
        assert self.policy is not None
        rng = np.random.default_rng([self.random_state, 2, *block.key, *([repeat] if repeat else [])])
        if block.available is not None:
            plain = block.observations.plain()
            exact = self.policy.probabilities(plain)
            chosen = self.policy.sample(plain, rng) if exact is None else exact
            self.policy.check_available(chosen, block.available, plain)
        x_next = self.map.expected(block.next_observations, self.policy, rng, self.draws)
        if self._extension is not None:
            v = self._extension.pairs(block.observations, block.actions)
            x = self._extension.first(v, self.map.size)
        else:
            x = self.map.pairs(block.observations, block.actions)
            v = x if self.dual is None else self.dual.pairs(block.observations, block.actions)
        return Rows(x, block.rewards, x_next, v, block.weights)

    def own_duals(self) -> NDArray[np.intp] | None:
        """Which dual features are the primal ones, where the dual map extends the primal one."""
        if self._extension is None or self.map is None:
            return None
        return np.asarray(self._extension.first(np.arange(self._extension.size)[None], self.map.size)[0])

    def sampling(self, wanted: str) -> Sampling:
        """Which formula for standard errors, and why."""
        if wanted not in ("auto", *RULES):
            raise InputError(f"standard_errors must be one of auto, {', '.join(RULES)}. Got {wanted!r}.")
        groups = None if self._trajectory is None else contiguous(self._trajectory)
        if groups is None and wanted == "clustered":
            raise InputError(
                "standard_errors='clustered' needs a trajectory for every row; name its column (trajectory=)."
            )
        if groups is not None:
            count = int(groups[-1]) + 1
            rule: Rule = "clustered" if count >= ENOUGH_CLUSTERS else "long-run"
            reason = f"{count:,} trajectories"
        else:
            chained = self._chained()
            none = "no trajectory ids, and ready features do not tell whether rows follow each other, so that they"
            if self.log is not None:
                none = "no trajectory ids, and rows do not follow each other, so that they"
            rule = "long-run" if chained >= CHAINED else "independent"
            reason = (
                "no trajectory ids; each row's next state is the next row's state, so that the log is one trajectory"
                if rule == "long-run"
                else f"{none} count as independent"
            )
        if wanted != "auto":
            return Sampling(_rule(wanted), groups, "as asked for")
        return Sampling(rule, groups, reason)

    def _chained(self) -> float:
        if self.log is None:
            return 0.0
        same = total = 0
        for block in self.log.blocks():
            rows = len(block.rewards)
            after, here = block.next_observations.take(slice(0, rows - 1)), block.observations.take(slice(1, rows))
            same, total = same + int(after.equals(here).sum()), total + rows - 1
        return same / total if total else 0.0


def _rule(name: str) -> Rule:
    return next(rule for rule in RULES if rule == name)


def contiguous(trajectory: NDArray[Any]) -> NDArray[np.int64]:
    """Ids as numbers from zero; rows of one trajectory must stand together."""
    change = np.flatnonzero(trajectory[1:] != trajectory[:-1]) + 1
    codes = np.zeros(len(trajectory), dtype=np.int64)
    codes[change] = 1
    codes = np.cumsum(codes)
    if len(np.unique(trajectory[np.concatenate([[0], change])])) != len(change) + 1:
        raise InputError(
            "The rows of a trajectory must stand together; sort them by trajectory, and by time within each."
        )
    return codes
