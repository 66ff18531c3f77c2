"""Features of pairs `(s, a)`, and their mean under the target's next action.

Finite actions: state features per action, `x(s, a) = e_a ⊗ φ(s)`, so that `x̄' = π(·|s') ⊗ φ(s')` needs no draw. Continuous
actions: `φ(s, a)` of both together, averaged over draws of `a'`. Discrete states and actions: one unit vector per pair, sparse.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cesaro import checks, user_code
from cesaro.data.blocks import taken
from cesaro.data.log import state_codes, state_numbers, state_sizes
from cesaro.data.values import Categories, Values
from cesaro.errors import InputError
from cesaro.features.base import Base, Float32, Fourier, Linear, Polynomial, Smooth, times
from cesaro.features.encoder import MAX_DENSE, Encoder
from cesaro.policies import Attached
from cesaro.policies.observed import Observations
from cesaro.text import Sentence, Wording, argument

Features: TypeAlias = NDArray[np.floating] | sp.csr_array
# What vectors give of the features of some rows, so many in a tile, `[m, rows]`.
Multiplier: TypeAlias = Callable[[slice, int], checks.Array]


class NextActions(NamedTuple):
    """What a policy does at some states: asked once for many rows, whose features are then made in small groups.

    Attributes:
        chances: `[n, A]`, of the log's finite actions or of each of those `drawn`; None: these count alike.
        drawn: continuous actions, `[n, d]` each; none where the log's actions are finite.
    """

    chances: checks.Array | None
    drawn: tuple[NDArray[Any], ...] = ()

    @staticmethod
    def joined(parts: "list[NextActions]") -> "NextActions":
        """Of one state after the other."""
        if len(parts) == 1:
            return parts[0]
        chances = [part.chances for part in parts if part.chances is not None]
        drawn = zip(*(part.drawn for part in parts))
        return NextActions(np.concatenate(chances) if chances else None, tuple(map(np.concatenate, drawn)))


class Pairs(Protocol):
    """Rows of a log on the way to features, which are made of some rows at a time."""

    def features(self, rows: slice, tile: int | None = None) -> Features:
        """`[rows, size]`, as a base makes them of `tile` rows at a time; None: of all of these."""
        ...

    def multiplier(self, vectors: checks.Array) -> Multiplier:
        """Gives features times vectors `[m, size]`, multiplied in double precision."""
        ...

    def part(self, rows: slice) -> "Pairs":
        """Some of them, in the same memory."""
        ...


class ReadyPairs(NamedTuple):
    """Rows whose features were made at once."""

    table: Features  # [n, size]

    def features(self, rows: slice, tile: int | None = None) -> Features:
        return self.table if rows == slice(0, self.table.shape[0]) else self.table[rows]

    def multiplier(self, vectors: checks.Array) -> Multiplier:
        return lambda rows, _: times(self.features(rows), vectors)

    def part(self, rows: slice) -> "ReadyPairs":
        return ReadyPairs(self.table[rows])


class BasePairs(NamedTuple):
    """Rows as the inputs of a base, column by column: observations, and one action or several beside them."""

    base: Base
    states: Float32  # [inputs of states, n]
    actions: tuple[Float32, ...] = ()  # [inputs of actions, n] each
    chances: checks.Array | None = None  # [n, actions]; None: they count alike

    def features(self, rows: slice, tile: int | None = None) -> NDArray[np.floating]:
        """The mean over actions."""
        states = self.states[:, rows]
        if not self.actions:
            return self._made(states.T, tile)
        found: Any = (self._made(np.concatenate([states, action[:, rows]]).T, tile) for action in self.actions)
        if self.chances is not None:
            total = np.zeros((states.shape[1], self.base.size), np.float32)
            for chance, features in zip(self.chances[rows].T, found):
                total += chance.astype(np.float32)[:, None] * features
            return total
        total = next(found)
        for features in found:
            total += features
        return total if len(self.actions) == 1 else np.divide(total, len(self.actions), out=total)

    def multiplier(self, vectors: checks.Array) -> Multiplier:
        """Through the functions that smooth features are made of: no component is formed."""
        if not isinstance(self.base, Smooth):
            return lambda rows, tile: times(self.features(rows, tile), vectors)
        return partial(self._of_functions, self.base, self.base.on_functions(vectors))

    def part(self, rows: slice) -> "BasePairs":
        actions = tuple(action[:, rows] for action in self.actions)
        return BasePairs(self.base, self.states[:, rows], actions, taken(self.chances, rows))

    def _of_functions(self, base: Smooth, vectors: checks.Array, rows: slice, tile: int) -> checks.Array:
        """The mean over actions of functions times vectors."""
        parts = [slice(start, min(start + tile, rows.stop)) for start in range(rows.start, rows.stop, tile)]
        return np.concatenate([self._mean_of_functions(base, vectors, part) for part in parts], axis=1)

    def _mean_of_functions(self, base: Smooth, vectors: checks.Array, rows: slice) -> checks.Array:
        states = self.states[:, rows]
        if not self.actions:
            return base.products(states.T, vectors)
        total = np.zeros((len(vectors), states.shape[1]))
        chances: Any = [1 / len(self.actions)] * len(self.actions) if self.chances is None else self.chances[rows].T
        for chance, action in zip(chances, self.actions):
            total += chance * base.products(np.concatenate([states, action[:, rows]]).T, vectors)
        return total

    def _made(self, inputs: Float32, tile: int | None) -> Any:
        """The features of some rows, so many at a time."""
        if tile is None or len(inputs) <= tile:
            return self.base(inputs)
        if isinstance(self.base, Fourier):
            return self.base.in_tiles(inputs, tile)
        return np.concatenate([self.base(inputs[start : start + tile]) for start in range(0, len(inputs), tile)])


def features_along(here: BasePairs, there: BasePairs, tile: int) -> tuple[Any, Any]:
    """The features of all rows and of what follows each, of one base, which are made once where that is the row below."""
    every = slice(None)
    found = here.features(every, tile)
    is_below = (here.states[:, 1:] == there.states[:, :-1]).all(axis=0)
    others = np.append(np.flatnonzero(~is_below), len(is_below))
    following = np.empty_like(found)
    following[:-1] = found[1:]
    following[others] = there._replace(states=there.states[:, others]).features(every, tile)
    return found, following


class ActionPairs(NamedTuple):
    """Rows as features of states, and the chances of each action; `codes` where one is certain."""

    states: ReadyPairs | BasePairs
    num_actions: int
    codes: NDArray[Any] | None  # [n]
    chances: checks.Array | None  # [n, A]

    def features(self, rows: slice, tile: int | None = None) -> NDArray[np.floating]:
        states: Any = self.states.features(rows, tile)
        count, size = states.shape
        if self.codes is None:
            assert self.chances is not None
            found = self.chances[rows].astype(states.dtype)[:, :, None] * states[:, None, :]
        else:
            found = np.zeros((count, self.num_actions, size), dtype=states.dtype)
            found[np.arange(count), self.codes[rows]] = states
        return np.asarray(found.reshape(count, self.num_actions * size))

    def multiplier(self, vectors: checks.Array) -> Multiplier:
        """Of states times the vectors of all actions, those of the actions that count."""
        of_states = self.states.multiplier(vectors.reshape(len(vectors) * self.num_actions, -1))

        def of_rows(rows: slice, tile: int) -> checks.Array:
            each = of_states(rows, tile).reshape(len(vectors), self.num_actions, -1)
            if self.codes is None:
                assert self.chances is not None
                return np.asarray((each * self.chances[rows].T).sum(axis=1))
            return np.asarray(each[:, self.codes[rows], np.arange(each.shape[2])])

        return of_rows

    def part(self, rows: slice) -> "ActionPairs":
        codes, chances = taken(self.codes, rows), taken(self.chances, rows)
        return ActionPairs(self.states.part(rows), self.num_actions, codes, chances)


class FeatureMap(ABC):
    """Features of pairs, as estimators call them."""

    size: int
    description: str

    @abstractmethod
    def encoded(self, observations: Values, actions: Values) -> Pairs:
        """Rows of the log on the way to `x(s, a)`, `[n, size]`."""

    @abstractmethod
    def actions(self, observations: Values, policy: Attached, rng: np.random.Generator, draws: int) -> NextActions:
        """What the policy does at these states, in the form that `encoded_next` takes."""

    @abstractmethod
    def encoded_next(self, observations: Values, actions: NextActions) -> Pairs:
        """The same on the way to the mean of `x(s, A)` over a policy's actions."""

    def pairs(self, observations: Values, actions: Values) -> Features:
        """`x(s, a)`, `[n, size]`."""
        return self.encoded(observations, actions).features(slice(0, len(observations)))

    def expected(self, observations: Values, actions: NextActions) -> Features:
        """The mean of `x(s, A)`, `[n, size]`."""
        return self.encoded_next(observations, actions).features(slice(0, len(observations)))


def action_probabilities(
    observations: Values, policy: Attached, num_actions: int, rng: np.random.Generator, draws: int
) -> checks.Array:
    """`π(a|s)`, `[n, A]`: exact where the policy tells, the shares of its draws where it only samples."""
    if observations.is_discrete:  # one question per state
        _, first, back = np.unique(observations.joint().codes, return_index=True, return_inverse=True)
        few = policy.probabilities(observations.take(first).plain())
        if few is not None:
            return few[back]
    plain = observations.plain()
    exact = policy.probabilities(plain)
    if exact is not None:
        return exact
    return drawn_shares(plain, policy, (len(observations), num_actions), rng, draws)


def drawn_shares(
    observations: Observations, policy: Attached, shape: tuple[int, int], rng: np.random.Generator, draws: int
) -> checks.Array:
    """The shares of a policy's draws, `[n, A]`."""
    shares = np.zeros(shape)
    for _ in range(draws):
        shares[np.arange(len(shares)), policy.sample(observations, rng).astype(np.int64)] += 1 / draws
    return shares


class OneHot(FeatureMap):
    """One feature per logged state and action: the empirical MDP itself. Sparse, so that 10⁵ pairs are fine."""

    def __init__(self, observations: Values, states: NDArray[np.int64] | None, actions: Values) -> None:
        """`observations` and `actions` tell names and levels; `states` are the log's (`Log.states`)."""
        self._sizes = state_sizes(observations)
        if states is None:
            raise InputError(
                Sentence(
                    "The observation's {columns} columns have too many combinations for one-hot features; leave columns out, or "
                    "take {fourier}.",
                    columns=str(len(self._sizes)),
                    fourier=argument("features", "fourier"),
                )
            )
        # Combinations that occur, by number; of a lone column every level is one.
        self._occur = states if len(self._sizes) > 1 else None
        self._columns = [column.levels for column in observations.columns if isinstance(column, Categories)]
        self.num_states = self._sizes[0] if self._occur is None else len(self._occur)
        self.action_levels = actions.joint().levels
        self.num_actions = len(self.action_levels)
        self.size = self.num_states * self.num_actions
        self.description = f"one-hot, {self.num_states:,} states × {self.num_actions} actions"

    def numbers(self, states: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The code of each column at these states."""
        return state_codes(np.asarray(states if self._occur is None else self._occur[states]), self._sizes)

    def states(self, observations: Values) -> NDArray[np.int64]:
        """The number of each row's state, `[n]`."""
        number = state_numbers(observations)
        if self._occur is None:
            return number
        at = np.minimum(np.searchsorted(self._occur, number), len(self._occur) - 1)
        unknown = self._occur[at] != number
        if unknown.any():
            row = observations.take(np.flatnonzero(unknown)[:1])
            levels = ", ".join(str(c.labels()[0]) for c in row.columns if isinstance(c, Categories))
            raise InputError(
                f"The observation ({levels}) never occurs in the log, so that nothing is known of it; leave it out."
            )
        return at

    def encoded(self, observations: Values, actions: Values) -> ReadyPairs:
        rows = len(observations)
        columns = self.states(observations) * self.num_actions + actions.joint().codes
        return ReadyPairs(sp.csr_array((np.ones(rows), columns, np.arange(rows + 1)), shape=(rows, self.size)))

    def actions(self, observations: Values, policy: Attached, rng: np.random.Generator, draws: int) -> NextActions:
        return NextActions(action_probabilities(observations, policy, self.num_actions, rng, draws))

    def encoded_next(self, observations: Values, actions: NextActions) -> ReadyPairs:
        probabilities = actions.chances
        assert probabilities is not None
        rows, chosen = np.nonzero(probabilities)
        columns = self.states(observations)[rows] * self.num_actions + chosen
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(observations)))])
        shape = (len(observations), self.size)
        return ReadyPairs(sp.csr_array((probabilities[rows, chosen], columns, starts), shape=shape))

    def state_label(self, state: int) -> str:
        """Its levels in words."""
        return ", ".join(str(levels[code]) for levels, code in zip(self._columns, self.numbers(np.array(state))))

    def label(self, pair: int) -> str:
        """`(s, a)` in words."""
        state, action = divmod(int(pair), self.num_actions)
        return f"({self.state_label(state)}, {self.action_levels[action]})"


class States(Protocol):
    """State features, `[n, size]`."""

    size: int
    description: str

    def encoded(self, observations: Values) -> ReadyPairs | BasePairs: ...


class EncodedStates:
    """A map of standardized, one-hot encoded columns."""

    def __init__(self, encoder: Encoder, base: Base) -> None:
        self.encoder, self._base = encoder, base
        self.size, self.description = base.size, base.description

    def encoded(self, observations: Values) -> BasePairs:
        return BasePairs(self._base, self.encoder.columns(observations))

    @property
    def components(self) -> int:
        """The number of components of smooth features; zero for others."""
        return self._base.components if isinstance(self._base, Smooth) else 0

    def with_components(self, components: int) -> "EncodedStates":
        """The beginning of smooth features."""
        assert isinstance(self._base, Smooth)
        return EncodedStates(self.encoder, self._base.with_components(components))


class StateFunction:
    """The user's own function `f(observations) -> [n, K]`, on the log's own columns."""

    def __init__(self, function: Callable[..., Any], size: int) -> None:
        self._function, self.size = function, size
        self.description = f"{name_of(function)}, {size} state features of its own"

    def encoded(self, observations: Values) -> ReadyPairs:
        return ReadyPairs(checked_output(self._function, (observations.plain(),), len(observations), self.size))


class PerAction(FeatureMap):
    """State features for each action separately."""

    def first(self, features: Features, size: int) -> Features:
        """Those of these features that belong to the map of `size` features that this one extends."""
        blocks = features.reshape(len(features), self.num_actions, -1)[:, :, : size // self.num_actions]
        return blocks.reshape(len(features), size)

    def __init__(self, states: States, num_actions: int, column: str = "action") -> None:
        self.states, self.num_actions, self._column = states, num_actions, column
        self.size = states.size * num_actions
        self.description = f"{states.description}, for each of {num_actions} actions"
        check_size(self.size, self.description, f"group the levels of column '{column}', or take fewer state features")

    @property
    def components(self) -> int:
        """The number of components of smooth features; zero for others."""
        return self.states.components if isinstance(self.states, EncodedStates) else 0

    def with_components(self, components: int) -> "PerAction":
        """The beginning of smooth features."""
        assert isinstance(self.states, EncodedStates)
        return PerAction(self.states.with_components(components), self.num_actions, self._column)

    def encoded(self, observations: Values, actions: Values) -> ActionPairs:
        return ActionPairs(self.states.encoded(observations), self.num_actions, actions.joint().codes, None)

    def actions(self, observations: Values, policy: Attached, rng: np.random.Generator, draws: int) -> NextActions:
        return NextActions(action_probabilities(observations, policy, self.num_actions, rng, draws))

    def encoded_next(self, observations: Values, actions: NextActions) -> ActionPairs:
        return ActionPairs(self.states.encoded(observations), self.num_actions, None, actions.chances)


class Joint(FeatureMap):
    """Features of observation and continuous action together."""

    def __init__(self, encoders: tuple[Encoder, Encoder], base: Base) -> None:
        self.encoders, self._base = encoders, base
        self.size, self.description = base.size, f"{base.description}, of observation and action"
        check_size(self.size, self.description)

    def first(self, features: Features, size: int) -> Features:
        """Those of these features that belong to the map of `size` features that this one extends."""
        return features[:, :size]

    @property
    def components(self) -> int:
        """The number of components of smooth features; zero for others."""
        return self._base.components if isinstance(self._base, Smooth) else 0

    def with_components(self, components: int) -> "Joint":
        """The beginning of smooth features."""
        assert isinstance(self._base, Smooth)
        return Joint(self.encoders, self._base.with_components(components))

    def encoded(self, observations: Values, actions: Values) -> BasePairs:
        """One action beside each observation is an input like these, and written beside them."""
        state, action = self.encoders
        inputs = np.empty((state.size + action.size, len(observations)), np.float32)
        state.columns(observations, inputs[: state.size])
        action.columns(actions, inputs[state.size :])
        return BasePairs(self._base, inputs)

    def actions(self, observations: Values, policy: Attached, rng: np.random.Generator, draws: int) -> NextActions:
        plain = observations.plain()
        finite = policy.finite_actions(plain)
        if finite is not None:
            vectors, chances = finite
            rows = len(observations)
            return NextActions(chances, tuple(np.broadcast_to(vector, (rows, len(vector))) for vector in vectors))
        return NextActions(None, tuple(policy.sample(plain, rng) for _ in range(draws)))

    def encoded_next(self, observations: Values, actions: NextActions) -> BasePairs:
        if len(actions.drawn) == 1 and actions.chances is None:
            return self.encoded(observations, as_actions(actions.drawn[0]))
        state, action = self.encoders
        chosen = tuple(action.columns(as_actions(drawn)) for drawn in actions.drawn)
        return BasePairs(self._base, state.columns(observations), chosen, actions.chances)


def base_of(features: FeatureMap | None) -> Base | None:
    """What makes features of standardized inputs; None: they are made of something else."""
    states = features.states if isinstance(features, PerAction) else features
    return states._base if isinstance(states, EncodedStates | Joint) else None


def kind_of(features: FeatureMap | None) -> str:
    """The name that asks for features of this kind, such as "polynomial:2"; empty for kinds that no remedy names."""
    base = base_of(features)
    if isinstance(base, Polynomial):
        return f"polynomial:{len(base.terms[-1])}"
    return "linear" if isinstance(base, Linear) else "fourier" if isinstance(base, Fourier) else ""


def other_kinds(features: FeatureMap | None) -> tuple[Wording, Wording]:
    """Two kinds of features to compare with, neither of them the one in use."""
    first, second = [kind for kind in ("polynomial:2", "fourier", "smooth") if kind != kind_of(features)][:2]
    return argument("features", first), argument("features", second)


def fewer(features: FeatureMap | None) -> Sentence:
    """How to have fewer features than these."""
    if kind_of(features) == "linear":
        return Sentence("fewer columns in the observation")
    return Sentence("fewer features ({linear} has the fewest)", linear=argument("features", "linear"))


class PairFunction(FeatureMap):
    """The user's own function `f(observations, actions) -> [n, K]`, on the log's own columns."""

    def __init__(self, function: Callable[..., Any], size: int, levels: NDArray[Any] | None, is_lone: bool) -> None:
        self._function, self._levels, self.size, self._is_lone = function, levels, size, is_lone
        self.description = f"{name_of(function)}, {size} features of its own"
        check_size(size, self.description)

    def _call(self, observations: Any, actions: Any, rows: int) -> checks.Array:
        return checked_output(self._function, (observations, actions), rows, self.size)

    def encoded(self, observations: Values, actions: Values) -> ReadyPairs:
        return ReadyPairs(self._call(observations.plain(), actions.plain(), len(observations)))

    def actions(self, observations: Values, policy: Attached, rng: np.random.Generator, draws: int) -> NextActions:
        if self._levels is not None:
            return NextActions(action_probabilities(observations, policy, len(self._levels), rng, draws))
        plain = observations.plain()
        return NextActions(None, tuple(policy.sample(plain, rng) for _ in range(draws)))

    def encoded_next(self, observations: Values, actions: NextActions) -> ReadyPairs:
        plain, rows = observations.plain(), len(observations)
        probabilities = actions.chances
        if self._levels is None or probabilities is None:
            drawn = actions.drawn
            sums = sum(self._call(plain, a[:, 0] if self._is_lone else a, rows) for a in drawn)
            return ReadyPairs(np.asarray(sums) / len(drawn))
        total = np.zeros((rows, self.size))
        for code, label in enumerate(self._levels):
            total += probabilities[:, code, None] * self._call(plain, np.full(rows, label), rows)
        return ReadyPairs(total)


def checked_output(function: Callable[..., Any], inputs: tuple[Any, ...], rows: int, size: int | None) -> checks.Array:
    """The user's features, checked."""
    who = f"feature function '{name_of(function)}'"

    def check(result: Any) -> checks.Array:
        name = f"The output of the {who}"
        return checks.float_array(name, result, ("row", "feature"), (rows, size), largest=checks.LARGEST)

    def called() -> NDArray[Any]:
        result = function(*inputs)
        return result if type(result) is np.ndarray else check(result)

    return check(
        user_code.call(
            lambda error: (
                f"The {who} failed with {error}; it must accept the log's observations, {user_code.shapes(inputs[0])}."
            ),
            called,
        )
    )


def name_of(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def check_size(size: int, description: str, remedy: str = "take fewer") -> None:
    """More dense features than this would need matrices that no one waits for."""
    if size > MAX_DENSE:
        many = f"{size:,}" if size < 10**12 else "More than 10¹²"
        raise InputError(f"{many} features are too many ({description}): at most {MAX_DENSE:,} are possible; {remedy}.")


def as_actions(drawn: NDArray[Any]) -> Values:
    """Continuous actions of a policy as the log holds them."""
    return Values("vector", ("action",), (drawn if drawn.ndim == 2 else drawn[:, None],))
