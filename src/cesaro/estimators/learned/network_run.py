"""Networks behind `Learned`: rows in, one network per seed out, with the rate that each ended at.

Rewards are centered and divided by their standard deviation for the runs, and rates and values are turned back: settings then
work in any unit, and runs start at the rate of the log. Differential values do not change with the center; GradientDICE's rate
becomes `R̄ + mean τ(R − R̄)`, which is the same wherever the ratio has mean one.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from cesaro import checks
from cesaro.approximators import squared_norm
from cesaro.checks import Array
from cesaro.data import FeatureTransitions
from cesaro.errors import InputError
from cesaro.estimators.learned.settings import Settings
from cesaro.features.members import Members
from cesaro.learning import sweep
from cesaro.learning.feed import Feed

# Records of a run, a little more where they do not divide its steps; the last quarter is its rate.
RECORDS, TAIL = 100, 4
# Steps of a record are a multiple of this, so that the compiled program cuts them into even blocks.
EVEN = 16
# Values, or a ratio, of this size (in standard deviations of the reward) count as diverged: Adam's rate alone cannot run away.
UNBOUNDED = 1e6


@dataclass(frozen=True)
class NetworkRuns:
    """What the seeds ended at; rates in units of rewards, NaN where a run diverged.

    Attributes:
        rates: mean over the last quarter of each run, `[seeds]`.
        earlier: mean over the quarter before, `[seeds]`.
        over_rows: from the last network and all rows, or a sample of them, `[seeds]`: `mean R + q(x') − q(x)`, or `mean τR` of
            GradientDICE.
        levels: the mean of `q` over next pairs, or of `τ` over pairs, in the network's own units, `[seeds]`.
        members: the networks.
        diverged_at: the step at which a run diverged, `[seeds]`; −1 where it did not.
        reasons: why, one for each run that did.
        steps: of each run.
        shift, scale: rewards were `(R − shift)/scale` for the networks.
    """

    rates: Array
    earlier: Array
    over_rows: Array
    levels: Array
    members: Members
    diverged_at: NDArray[np.int64]
    reasons: tuple[str, ...]
    steps: int
    shift: float
    scale: float


def run_networks(
    rows: FeatureTransitions,
    method: str,
    settings: Settings,
    *,
    feed: Callable[[tuple[float, float]], Feed] | None = None,
    step_size: float,
    ridge: float,
    lam: float,
    steps: int,
    seeds: list[int],
    quiet: bool,
) -> NetworkRuns:
    """All seeds; the networks are those of the last step.

    `feed`: of a log that is larger than memory, whose sample `rows` are: from shift and scale of rewards to what runs draw from.
    """
    per_record = max(1, steps // RECORDS)
    per_record -= per_record % EVEN if per_record > EVEN else 0
    records = -(-steps // per_record)
    per_step = settings.batch_size * (2 if method == "diff-gq2" else 1)
    if per_step * records * per_record >= 2**31:
        raise InputError(f"steps × batch_size must be below 2³¹ samples. Got {steps} × {per_step}; take fewer steps.")
    data, shift, scale = standardized(rows)
    draws_from = data if feed is None else feed((shift, scale))
    setting = {"step_size": step_size, "ridge": ridge} | ({"lam": lam} if method == "gradient-dice" else {})
    result = sweep(
        method,
        draws_from,
        settings=[setting],
        seeds=seeds,
        budget=records * per_record * per_step,
        record_every=per_record * per_step,
        window=per_record * per_step,
        record={"size": _size},
        batch_size=settings.batch_size,
        approximator=settings.approximator,
        optimizer=settings.optimizer,
        target=settings.target,
        dtype=settings.dtype,
        keep_final=True,
        checkpoint=settings.checkpoint,
        quiet=quiet,
    )
    tail = max(1, records // TAIL)
    curves = shift + scale * result.reward_rate[0]
    rates = curves[:, -tail:].mean(axis=1)
    earlier = curves[:, -2 * tail : -tail].mean(axis=1) if records >= 2 * tail else rates.copy()
    num_actions = getattr(settings.approximator, "actions", 0)
    members = Members.of(result.final["ratio" if method == "gradient-dice" else "values"], num_actions)
    over_rows, levels, sizes = _at_rows(members, rows, method == "gradient-dice", scale)
    diverged_at, reasons = _diverged(
        np.where(result.diverged_at[0] < 0, -1, result.diverged_at[0] // per_step),
        result.records["size"][0],
        sizes,
        per_record,
    )
    lost = diverged_at >= 0
    for series in (rates, earlier, over_rows, levels):
        series[lost] = np.nan
    return NetworkRuns(
        rates, earlier, over_rows, levels, members, diverged_at, reasons, records * per_record, shift, scale
    )


def standardized(rows: FeatureTransitions) -> tuple[FeatureTransitions, float, float]:
    """The same rows with rewards of mean zero and unit variance, their mean and standard deviation."""
    shares = _shares(rows)
    shift = float(shares @ rows.rewards)
    deviations = rows.rewards - shift
    largest = float(np.abs(deviations).max()) or 1.0  # no square overflows
    scale = largest * float(np.sqrt(shares @ (deviations / largest) ** 2))
    if scale <= 1e-12 * abs(shift):  # constant rewards: what is left is rounding
        scale, deviations = 1.0, np.zeros_like(deviations)
    result = copy.copy(rows)
    result.rewards = checks.frozen(deviations / scale)
    return result, shift, scale


def _shares(rows: FeatureTransitions) -> Array:
    return np.full(len(rows), 1 / len(rows)) if rows.weights is None else rows.weights / rows.weights.sum()


def _size(state: Any) -> Any:
    """The length of everything that the run minimizes over."""
    return jnp.sqrt(squared_norm(state.primal))


def _at_rows(members: Members, rows: FeatureTransitions, is_ratio: bool, scale: float) -> tuple[Array, Array, Array]:
    """Of each member: its rate over all rows, its level, and the root mean square of its function, `[seeds]` each."""
    shares = _shares(rows)
    over_rows, levels, sizes = np.full((3, len(members)), np.nan)
    for seed in np.flatnonzero(members.are_finite):
        with np.errstate(over="ignore", invalid="ignore"):
            here = members.values(int(seed), rows.x)
            if is_ratio:
                over_rows[seed], levels[seed] = shares @ (here * rows.rewards), shares @ here
            else:
                there = members.values(int(seed), rows.x_next)
                over_rows[seed] = shares @ (rows.rewards + scale * (there - here))
                levels[seed] = shares @ there
            sizes[seed] = np.sqrt(shares @ (here - (0.0 if is_ratio else levels[seed])) ** 2)
    return over_rows, levels, sizes


def _diverged(
    by_rate: NDArray[np.int64], lengths: Array, sizes: Array, per_record: int
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Step and reason of every run that diverged: by its rate, by weights that are no numbers, by what its network says."""
    at, reasons = by_rate.copy(), []
    for seed, (length, size) in enumerate(zip(lengths, sizes)):
        broken = np.flatnonzero(~np.isfinite(length))
        if at[seed] >= 0:
            reasons.append("the rate left all bounds")
        elif len(broken) or not np.isfinite(size):
            at[seed] = (int(broken[0]) + 1 if len(broken) else len(length)) * per_record
            reasons.append("weights overflowed")
        elif size > UNBOUNDED:
            at[seed] = len(length) * per_record
            reasons.append(f"what the network says grew to a size of {size:.1g}")
    return at, tuple(reasons)
