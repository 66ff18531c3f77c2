"""What pictures and reports show of a fitted estimator: stretches of the log, values by state, gains, actions, leverage.

Everything here is small: at most 60 stretches, 12 bins per column, and the states with the most rows.

Where the target gains: by the performance difference identity, the target's rate minus the log's is the mean over logged states
of `v(s) − q(s, a)`, with `q` the target's differential values, `a` the logged action and `v(s)` the mean of `q(s, ·)` over the
target's actions. Grouped by state, this says where the difference comes from.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array

if TYPE_CHECKING:
    from cesaro.estimators.diagnostics.support import Leverages


@dataclass(frozen=True)
class OverTime:
    """The log in stretches of as many rows, in its order.

    Attributes:
        edges: row numbers at which stretches begin, and the end, `[bins + 1]`.
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
    """Where the target gains or loses.

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
class ActionShares:
    """What the log did and what the target does at the same states.

    Attributes:
        name: of the action, or of one of its dimensions.
        labels: of discrete actions; None for numbers.
        edges: of the bins of numbers; None for labels.
        logged: the log's shares, which sum to one.
        target: the target's.
    """

    name: str
    labels: tuple[str, ...] | None
    edges: Array | None
    logged: Array
    target: Array


@dataclass(frozen=True)
class Views:
    """All of it; what an estimator does not have is None or empty.

    Attributes:
        over_time: stretches of the log.
        table: discrete states and actions.
        along: other observations, the column that explains most first, at most four.
        places: where the target gains and loses, largest gain first.
        total_gain: the sum over all places, which is near the difference of the rates.
        actions: of the log and of the target.
        leverage: of the log's pairs and of the target's.
    """

    over_time: OverTime
    table: StateTable | None = None
    along: tuple[Along, ...] = ()
    places: tuple[Place, ...] = ()
    total_gain: float | None = None
    actions: tuple[ActionShares, ...] = ()
    leverage: "Leverages | None" = None
