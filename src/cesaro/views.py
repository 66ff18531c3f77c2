"""The numbers that pictures and reports show of a fitted estimator: the log over time, values by state, gains, actions,
leverage; and of a learned world what the target earns and where it is.

Everything here is small: at most 60 bins of rows, 12 or 24 per column, and the states with the most rows.

Where the target gains: by the performance difference identity, the target's rate minus the log's is the mean over logged states
of `v(s) − q(s, a)`, with `q` the target's differential values, `a` the logged action and `v(s)` the mean of `q(s, ·)` over the
target's actions. Grouped by state, this says where the difference comes from.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data.blocks import Block
from cesaro.data.values import Categories, Column, Values
from cesaro.diagnostics import Subject
from cesaro.diagnostics.support import Leverages, leverages
from cesaro.estimators.base import Estimator
from cesaro.features import OneHot, sample_rows
from cesaro.features.maps import action_probabilities
from cesaro.passes.support import logged_weight, pair_table
from cesaro.policies import Attached
from cesaro.worlds.process import Rates

# Borders between trajectories are shown up to this many.
BORDERS = 12
# Pairs of states and actions that are asked for their value, and rows where states are not discrete.
MOST_PAIRS, MOST_ROWS = 20_000, 20_000
# Draws per discrete state from a policy that gives no probabilities.
MOST_DRAWS = 200
# Bins of a column, columns in front, and dimensions of an action.
BINS, LEADING, DIMENSIONS = 12, 4, 4
# Bins of a histogram.
FINE_BINS = 24
# Bins of steps of rollouts.
STEP_BINS = 60
# What sums of shares may lose.
ROUNDING = 1e-9
# By how much the target's share of a place exceeds the log's where rows are called missing.
SCARCE = 0.1
# A bin with more of the log than this is no place.
WIDEST = 0.3


@dataclass(frozen=True)
class OverTime:
    """The log in bins of as many rows, in its order.

    Attributes:
        edges: row numbers at which bins begin, and the end, `[bins + 1]`.
        reward: mean reward of each, `[bins]`; NaN where all its rows have weight zero.
        influence: by how much each moves the target's rate, `[bins]`; NaN where the method has no influence.
        borders: row numbers at which a trajectory begins, the first aside; none where there are many.
        trajectories: how many there are.
    """

    edges: NDArray[np.int64]
    reward: Array
    influence: Array
    borders: tuple[int, ...]
    trajectories: int


@dataclass(frozen=True)
class StateTable:
    """Discrete states and actions, the states with most rows first where there are too many.

    Attributes:
        columns: names of the observation's columns.
        states: the labels of each state, a tuple with an entry per column.
        actions: labels.
        values: `q(s, a)`, `[states, actions]`; NaN where the log determines none.
        logged: how often the log took each action there, `[states, actions]`.
        target: the target's probabilities there, `[states, actions]`.
        share: of the log's rows, `[states]`.
        left_out: states that are not shown.
    """

    columns: tuple[str, ...]
    states: tuple[tuple[Any, ...], ...]
    actions: tuple[Any, ...]
    values: Array
    logged: Array
    target: Array
    share: Array
    left_out: int


@dataclass(frozen=True)
class Along:
    """Values along one column.

    Attributes:
        column: its name.
        labels: of the bins, in words.
        centers: of the bins of a column of numbers, `[bins]`; None for labels.
        value: mean of `v(s)` in each bin.
        low: its 10 % quantile.
        high: its 90 % quantile.
        share: of the log's rows in each.
        gain: what the bin contributes to the difference of the rates.
        explains: the share of the variance of `v` that the bins explain.
    """

    column: str
    labels: tuple[str, ...]
    centers: Array | None
    value: Array
    low: Array
    high: Array
    share: Array
    gain: Array
    explains: float


@dataclass(frozen=True)
class Place:
    """A place, a state or a bin of a column, where the target gains or loses.

    Attributes:
        where: the state or the bin, in words.
        share: of the log's rows.
        logged: what the log does there, in words; empty for bins of states.
        target: what the target does there.
        gain: contribution to the difference of the rates.
    """

    where: str
    share: float
    logged: str
    target: str
    gain: float


@dataclass(frozen=True)
class Shares:
    """How the log and the target share out over the labels or bins of one column.

    Attributes:
        name: of the column, or of one entry of a vector.
        labels: in words; None for a column of numbers.
        edges: of the bins of numbers; None for a column of labels. The outer bins hold what lies further out.
        logged: the log's shares, which sum to one.
        target: the target's.
        is_whole: whether all numbers are whole, so that edges lie between them.
    """

    name: str
    labels: tuple[str, ...] | None
    edges: Array | None
    logged: Array
    target: Array
    is_whole: bool = False

    @property
    def common(self) -> float:
        """The share that both have in common: one where the shares are equal, zero where they never meet."""
        return float(np.minimum(self.logged, self.target).sum())


@dataclass(frozen=True)
class Scarce:
    """A label, or a range of numbers, of one column that the target has clearly more often than the log.

    Attributes:
        column: its name.
        is_action: whether it is a column of the action, where both are asked at the same states; else of the observation.
        label: in words; None for a range.
        low, high: ends of the range; None where it goes on to that side, and for a label.
        is_whole: whether all numbers are whole; then both ends belong to the range.
        step: the width of a bin at its ends; zero for a label.
        logged: its share of the log.
        target: its share of what the target does, or of where it is.
    """

    column: str
    is_action: bool
    label: str | None
    low: float | None
    high: float | None
    is_whole: bool
    step: float
    logged: float
    target: float


@dataclass(frozen=True)
class Rollouts:
    """The target's rewards in every member of a learned world, from the first step on.

    Attributes:
        edges: steps at which bins begin, and the end, `[bins + 1]`.
        reward: mean reward of each, `[members, bins]`.
        rates: the rate of each member, `[members]`.
        burn_in: steps that rates leave out.
        logged: the log's rate.
    """

    edges: NDArray[np.int64]
    reward: Array
    rates: Array
    burn_in: int
    logged: float


@dataclass(frozen=True)
class Views:
    """All numbers that pictures show of one fitted estimator; what it does not have is None or empty.

    Attributes:
        over_time: bins of the log's rows.
        table: discrete states and actions.
        along: other observations, the column that explains most first, at most four.
        places: where the target gains and loses, largest gain first.
        total_gain: the sum over all places, which is near the difference of the rates.
        actions: what the log did and what the target does at the same states.
        leverage: of the log's pairs and of the target's.
        rollouts: of the target in a learned world, whose rate is not exact.
        occupancy: where the log is, and where the target is in that world: the columns that differ most, at most four.
    """

    over_time: OverTime
    table: StateTable | None = None
    along: tuple[Along, ...] = ()
    places: tuple[Place, ...] = ()
    total_gain: float | None = None
    actions: tuple[Shares, ...] = ()
    leverage: Leverages | None = None
    rollouts: Rollouts | None = None
    occupancy: tuple[Shares, ...] = ()

    @property
    def scarce(self) -> tuple[Scarce, ...]:
        """Where rows are missing most: a place of the observation's columns and one of the action's, if there are any."""
        found = (
            max(
                (_scarcest(shares, is_action) for shares in columns),
                key=lambda one: one.target - one.logged,
                default=None,
            )
            for columns, is_action in ((self.occupancy, False), (self.actions, True))
        )
        return tuple(one for one in found if one is not None and one.target - one.logged >= SCARCE)


def views(estimator: Estimator, rates: Rates | None = None) -> Views:
    """Collect what can be shown of a fitted estimator.

    Args:
        rates: of the target in a learned world, if it was run there.
    """
    found = _views(estimator, rates)
    return _no_gains(found) if estimator.facts_.spread == 0 else found


def _views(estimator: Estimator, rates: Rates | None) -> Views:
    subject = replace(estimator.subject_, most=MOST_ROWS)
    over_time = _over_time(subject)
    policy = subject.prepared.policy
    if subject.log is None or policy is None or policy.is_logged:
        return Views(over_time)
    leverage = leverages(subject)
    table = pair_table(subject.prepared)
    if table is not None:
        states, shares = _table(estimator, subject, table, policy)
        places, total = _table_places(states)
        found = Views(over_time, states, (), places, total, (shares,), leverage)
    else:
        along, shares_of, total = _along(estimator, subject, policy)
        found = Views(over_time, None, along, _bin_places(along), total, shares_of, leverage)
    if rates is None or rates.seen is None:
        return found
    return replace(found, rollouts=_rollouts(rates, subject), occupancy=_occupancy(rates.seen[0], subject))


def _scarcest(shares: Shares, is_action: bool) -> Scarce:
    """The label, or the range of bins, by which the target's share exceeds the log's most."""
    surplus = shares.target - shares.logged
    if shares.labels is not None:
        first = last = int(np.argmax(surplus))
        label, low, high = shares.labels[first], None, None
    else:
        assert shares.edges is not None
        sums = np.concatenate([[0.0], np.cumsum(surplus)])
        over = sums[None, :] - sums[:, None]  # [bins + 1, bins + 1], from one edge to another
        over[np.tril_indices(len(sums))] = -np.inf
        first, end = divmod(int(np.argmax(over)), len(sums))
        last, inside = end - 1, 0.5 if shares.is_whole else 0.0
        label = None
        low = None if first == 0 else float(shares.edges[first]) + inside  # outer bins hold what lies further out
        high = None if end == len(surplus) else float(shares.edges[end]) - inside
    part = slice(first, last + 1)
    logged, target = float(shares.logged[part].sum()), float(shares.target[part].sum())
    step = 0.0 if shares.edges is None else float(np.diff(shares.edges)[part].min())
    return Scarce(shares.name, is_action, label, low, high, shares.is_whole, step, logged, target)


def _rollouts(rates: Rates, subject: Subject) -> Rollouts:
    edges = np.linspace(0, rates.steps, min(STEP_BINS, rates.steps) + 1).astype(np.int64)
    reward = np.add.reduceat(rates.trace, edges[:-1], axis=1) / np.diff(edges)
    return Rollouts(edges, reward, rates.by_member, rates.burn_in, subject.behavior.value)


def _occupancy(seen: Values, subject: Subject) -> tuple[Shares, ...]:
    rows, weights = _sampled(subject)
    each = np.full(len(seen), 1 / len(seen))
    found = [
        _shares(name, column, other, weights, each)
        for (name, column), (_, other) in zip(_columns(rows.observations), _columns(seen))
    ]
    varied = [one for one in found if np.minimum(one.logged, one.target).max() < 1 - ROUNDING]
    return tuple(sorted(varied, key=lambda one: one.common)[:LEADING])


def _no_gains(views: Views) -> Views:
    """The views without gains, for a log whose rewards are all alike: what is left of influence and gains is rounding."""
    over_time = replace(views.over_time, influence=np.zeros_like(views.over_time.influence))
    return replace(views, over_time=over_time, places=(), total_gain=None, rollouts=None)


def _over_time(subject: Subject) -> OverTime:
    totals, rows = subject.totals, subject.num_rows
    edges = totals.plan.edges
    earned, weight, influence = totals.over_time
    if not subject.has_series:
        influence = np.full(len(earned), np.nan)
        if subject.prepared.is_logged:
            influence = earned - subject.behavior.value * weight
            influence = influence * (subject.facts.rows / subject.facts.weight)
    else:
        influence = influence - totals.correction * np.diff(edges)
    named = subject.sampling.is_named
    borders = subject.sampling.spans.starts[1:] if named else np.zeros(0, dtype=np.int64)
    return OverTime(
        edges,
        np.where(weight > 0, earned / np.where(weight > 0, weight, 1.0), np.nan),
        influence / rows,
        tuple(borders.tolist()) if len(borders) <= BORDERS else (),
        len(borders) + 1,
    )


def _values(estimator: Estimator, observations: Values, actions: Any) -> Array:
    """`q` of pairs; NaN for a method that learns a density ratio instead."""
    if not estimator.has_values:
        return np.full(len(observations), np.nan)
    return estimator.predict(observations.plain(), actions)


def _table(estimator: Estimator, subject: Subject, table: OneHot, policy: Attached) -> tuple[StateTable, Shares]:
    rows = subject.prepared.sample.rows
    counts = logged_weight(subject.prepared, table, subject.moments).reshape(table.num_states, table.num_actions)
    share = counts.sum(axis=1) / counts.sum()
    found = shown = np.flatnonzero(share > 0)
    most = max(1, MOST_PAIRS // table.num_actions)
    if len(found) > most:
        shown = np.sort(found[np.argsort(-share[found], kind="stable")[:most]])
    observations = _states(rows.observations, table, shown)
    chance = _chances(observations, policy, table.num_actions, subject.prepared.random_state)
    levels = table.action_levels
    values = np.stack([_values(estimator, observations, np.full(len(shown), one)) for one in levels], axis=1)
    logged = counts[shown] / np.maximum(counts[shown].sum(axis=1, keepdims=True), np.finfo(float).tiny)
    names = tuple(zip(*(column.labels().tolist() for column in observations.columns if isinstance(column, Categories))))
    labels = tuple(levels.tolist())
    states = StateTable(
        observations.names, names, labels, values, logged, chance, share[shown], len(found) - len(shown)
    )
    here = share[shown] / share[shown].sum()
    shares = Shares(rows.actions.names[0], tuple(map(str, labels)), None, here @ logged, here @ chance)
    return states, shares


def _states(like: Values, table: OneHot, states: NDArray[np.int64]) -> Values:
    """States by number, in the form of the log's observations."""
    columns = [column for column in like.columns if isinstance(column, Categories)]
    codes = table.numbers(states)
    return Values(like.form, like.names, tuple(Categories(code, c.levels) for code, c in zip(codes, columns)))


def _chances(observations: Values, policy: Attached, actions: int, seed: int) -> Array:
    """The target's probabilities at each state: exact, or the shares of many draws, as many as `MOST_ROWS` allows."""
    rng = np.random.default_rng([seed, 5])
    if policy.has_probabilities:
        return action_probabilities(observations, policy, actions, rng, 1)
    count = len(observations)
    repeat = max(1, min(MOST_DRAWS, 10 * MOST_ROWS // count))
    drawn = np.zeros((count, actions))
    for _ in range(repeat):
        drawn[np.arange(count), policy.sample(observations.plain(), rng).astype(np.int64)] += 1
    return drawn / repeat


def _table_places(table: StateTable) -> tuple[tuple[Place, ...], float | None]:
    gain = table.share * (_mean(table.target, table.values) - _mean(table.logged, table.values))
    if not np.isfinite(gain).any():
        return (), None
    places = [
        Place(
            ", ".join(f"{name} {label}" for name, label in zip(table.columns, table.states[k])),
            float(table.share[k]),
            _preferred(table.logged[k], table.actions),
            _preferred(table.target[k], table.actions),
            float(gain[k]),
        )
        for k in np.argsort(-gain, kind="stable")
        if np.isfinite(gain[k])
    ]
    return tuple(places), float(np.nansum(gain))


def _mean(chance: Array, values: Array) -> Array:
    """Over actions that are taken at all; values of the others may be unknown."""
    return np.where(chance > 0, chance * values, 0.0).sum(axis=1)


def _preferred(chance: Array, actions: tuple[Any, ...]) -> str:
    best = int(np.argmax(chance))
    return f"{actions[best]}" if chance[best] >= 0.995 else f"{actions[best]} ({100 * chance[best]:.0f} %)"


def _sampled(subject: Subject) -> tuple[Block, Array]:
    """Rows of the log, and their weights, which sum to one."""
    whole = subject.prepared.sample.rows
    rows = whole.part(sample_rows(len(whole), subject.prepared.random_state, MOST_ROWS))
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    return rows, weights / weights.sum()


def _along(
    estimator: Estimator, subject: Subject, policy: Attached
) -> tuple[tuple[Along, ...], tuple[Shares, ...], float | None]:
    seed, (rows, weights) = subject.prepared.random_state, _sampled(subject)
    observations, actions = rows.observations, rows.actions
    q = _values(estimator, observations, actions.plain())
    if actions.is_discrete:
        levels = actions.joint().levels
        chance = action_probabilities(observations, policy, len(levels), np.random.default_rng([seed, 5]), 1)
        each = [_values(estimator, observations, np.full(len(rows), level)) for level in levels]
        v = _mean(chance, np.stack(each, axis=1))
        counts = np.asarray(np.bincount(actions.joint().codes, weights, len(levels)), dtype=np.float64)
        names = tuple(map(str, levels.tolist()))
        shares: tuple[Shares, ...] = (Shares(actions.names[0], names, None, counts, weights @ chance),)
    else:
        drawn = np.asarray(policy.sample(observations.plain(), np.random.default_rng([seed, 5])), dtype=np.float64)
        flat = drawn[:, 0] if actions.form == "lone" and drawn.ndim == 2 else drawn
        v = _values(estimator, observations, flat)
        taken = drawn.reshape(len(rows), -1)
        shares = tuple(
            _shares(name, column, taken[:, number], weights, weights)
            for number, (name, column) in enumerate(list(_columns(actions))[:DIMENSIONS])
        )
    gain = weights * (v - q)
    total = float(np.nansum(gain)) if np.isfinite(gain).any() else None
    if total is None:
        return (), shares, None
    found = [_binned(name, column, v, gain, weights) for name, column in _columns(observations)]
    return tuple(sorted(found, key=lambda one: -one.explains)[:LEADING]), shares, total


def _columns(values: Values) -> Iterator[tuple[str, Column]]:
    """Every column, and every entry of a vector, with a name."""
    for name, column in zip(values.names, values.columns):
        if isinstance(column, Categories) or column.ndim == 1:
            yield name, column
            continue
        width = column.shape[1]
        names = values.names if len(values.names) == width else tuple(f"{name}[{j}]" for j in range(width))
        yield from ((names[j], column[:, j]) for j in range(width))


def _binned(name: str, column: Column, v: Array, gain: Array, weights: Array) -> Along:
    """Quantiles of numbers, the most frequent labels."""
    if isinstance(column, Categories):
        counts = np.bincount(column.codes, minlength=len(column.levels))
        often = np.sort(np.argsort(-counts, kind="stable")[: min(BINS, np.count_nonzero(counts))])
        place = np.full(len(column.levels), -1)
        place[often] = np.arange(len(often))
        bins, centers = place[column.codes], None
        labels = tuple(str(level) for level in column.levels[often].tolist())
    else:
        numbers = column.astype(np.float64)
        edges = np.unique(np.quantile(numbers, np.linspace(0, 1, BINS + 1)))
        bins = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, max(0, len(edges) - 2))
        bins = np.unique(bins, return_inverse=True)[1]
        inside = [numbers[bins == k] for k in range(int(bins.max()) + 1)]
        centers = np.array([np.median(part) for part in inside])
        labels = _ranges(inside)
    parts = [bins == k for k in range(len(labels))]
    share = np.array([weights[part].sum() for part in parts])
    known = np.maximum(share, np.finfo(float).tiny)
    mean = np.array([weights[part] @ v[part] for part in parts]) / known
    middle = float(weights @ v)
    spread = float(weights @ (v - middle) ** 2)
    return Along(
        name,
        labels,
        centers,
        mean,
        *_quantiles(v, [part & (weights > 0) for part in parts]),
        share,
        np.array([gain[part].sum() for part in parts]),
        float(share @ (mean - middle) ** 2) / spread if spread > 0 else 0.0,
    )


def _quantiles(v: Array, parts: list[NDArray[np.bool_]]) -> tuple[Array, Array]:
    low, high = np.array([np.quantile(v[part], [0.1, 0.9]) if part.any() else [np.nan] * 2 for part in parts]).T
    return low, high


def _ranges(parts: list[Array]) -> tuple[str, ...]:
    """`0.98 to 2.7`, with as many digits as tell the ranges apart."""
    for digits in range(3, 16):
        ends = [(f"{part.min():.{digits}g}", f"{part.max():.{digits}g}") for part in parts]
        plain = [f"{float(low):,.10g} to {float(high):,.10g}" for low, high in ends]
        apart = all(low != high or part.min() == part.max() for (low, high), part in zip(ends, parts))
        if apart and len(set(plain)) == len(plain):
            break
    return tuple(plain)


def _bin_places(along: tuple[Along, ...]) -> tuple[Place, ...]:
    """Bins of different columns overlap, so that they do not add up."""
    places = [
        Place(f"{one.column} {label}", float(share), "", "", float(gain))
        for one in along
        for label, share, gain in zip(one.labels, one.share, one.gain)
        if np.isfinite(gain)
    ]
    narrow = [place for place in places if place.share <= WIDEST]  # what holds half the log says little of where
    return tuple(sorted(narrow or places, key=lambda place: -place.gain))


def _shares(name: str, logged: Column, target: Column, of_log: Array, of_target: Array) -> Shares:
    """The shares of a column in both, with the weights of the rows: labels one by one, or bins that both share."""
    if isinstance(logged, Categories):
        assert isinstance(target, Categories)
        one, other = (
            np.bincount(column.codes, weights, len(logged.levels)).astype(np.float64)
            for column, weights in ((logged, of_log), (target, of_target))
        )
        return Shares(name, tuple(map(str, logged.levels.tolist())), None, one, other)
    assert not isinstance(target, Categories)
    both = np.concatenate([logged, target]).astype(np.float64)
    edges = _edges(both)
    one, other = (
        np.histogram(np.clip(column, edges[0], edges[-1]), edges, weights=weights)[0]
        for column, weights in ((logged, of_log), (target, of_target))
    )
    return Shares(name, None, edges, one, other, _are_whole(both))


def _edges(numbers: Array) -> Array:
    """Bins of one width between the thousandths; each holds as many whole numbers, where all are whole."""
    low, high = np.quantile(numbers, [0.001, 0.999])
    if _are_whole(numbers):
        low, high = np.rint(low), np.rint(high)
        width = -(-(high - low + 1) // FINE_BINS)
        return np.asarray(low - 0.5 + width * np.arange((high - low) // width + 2))
    if not low < high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, FINE_BINS + 1)


def _are_whole(numbers: Array) -> bool:
    return bool((numbers == np.rint(numbers)).all())
