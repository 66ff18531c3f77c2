"""A fit of `Learned` with networks: from a log to one network per seed and the median of their rates, and what the networks
say at other pairs.

Rewards are centered and divided by their standard deviation for the runs, and rates and values are turned back: settings then
work in any unit, and runs start at the rate of the log. Differential values do not change with the center; GradientDICE's rate
becomes `R̄ + mean τ(R − R̄)`, which is the same wherever the ratio has mean one.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from cesaro import checks
from cesaro.algorithms import FOR_NETWORKS
from cesaro.approximators import MLP, Network, squared_norm
from cesaro.checks import Array
from cesaro.data import FeatureTransitions, Log
from cesaro.diagnostics.subject import Runs
from cesaro.errors import InputError
from cesaro.estimators.learned.base import (
    MIXING,
    NETWORK_STEP,
    NETWORK_STEPS,
    LearnedBase,
    LearnedSettings,
    report_divergence,
    seed_numbers,
    spread_over_runs,
    with_actions,
)
from cesaro.estimators.learned.rows import DRAWN_FROM, buffered, dense, draws_as_rows, is_dense, sampled
from cesaro.features import FeatureMap
from cesaro.features.networks import Matrix, Members, NetworkInputs
from cesaro.learning import sweep
from cesaro.learning.arguments import as_objective
from cesaro.learning.source import Feed
from cesaro.passes.influence import InfluencePass
from cesaro.passes.moments import RowFacts
from cesaro.passes.prepare import Prepared
from cesaro.passes.repeats import distinct, row_hashes
from cesaro.passes.run import run_pass
from cesaro.passes.standard_errors import Estimate

# Records of a run, a little more where they do not divide its steps; the last quarter is its rate.
RECORDS, TAIL = 100, 4
# Steps of a record are a multiple of this, so that the compiled program cuts them into even blocks.
EVEN = 16
# Values, or a ratio, of this size (in standard deviations of the reward) count as diverged: Adam's rate alone cannot run away.
UNBOUNDED = 1e6


@dataclass(frozen=True, kw_only=True)
class NetworkEnds:
    """The ends of the runs of all seeds; rates in units of rewards, NaN where a run diverged.

    Attributes:
        rates: mean over the last quarter of each run, `[seeds]`.
        earlier: mean over the quarter before, `[seeds]`.
        over_rows: from the last network and all rows, or a sample of them, `[seeds]`: `mean R + q(x') − q(x)`, or `mean τR` of a
            density ratio.
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


def fit_networks(est: LearnedBase, data: Any, policy: Any, settings: LearnedSettings) -> None:
    """Train all seeds, and keep what they leave."""
    random_state = checks.count("random_state", est.random_state, low=0)
    draws = checks.count("draws", est.draws, high=checks.MOST_DRAWS)
    features: Any = "auto"
    if isinstance(data, Log):
        data = data.opened()
        features = NetworkInputs.of(data, random_state)
    prepared = Prepared(data, policy, features=features, dual_features="same", draws=draws, random_state=random_state)
    running = settings.running
    plan = est._begin(prepared)
    if prepared.is_logged:
        est._fit_logged(plan, running)
        return
    est._count(run_pass(InfluencePass(plan, None), prepared, running))
    network = settings.approximator
    assert isinstance(network, MLP)
    if isinstance(prepared.map, NetworkInputs):
        network = with_actions(network, prepared.map.num_actions)
    settings = settings._replace(approximator=network)
    check_function(settings, prepared.num_features)
    ridge = 0.0 if isinstance(est.ridge, str) else float(est.ridge)
    step_size = NETWORK_STEP if isinstance(est.step_size, str) else float(est.step_size)
    rows, feed = _rows(prepared, data, plan.facts, settings.dtype)
    ends = run_networks(
        rows,
        settings,
        feed=feed,
        numbers=settings.numbers(step_size=step_size, ridge=ridge, lam=est.lam),
        steps=NETWORK_STEPS if isinstance(est.steps, str) else est.steps,
        seeds=seed_numbers(random_state, est.seeds),
    )
    report_divergence(
        settings.label,
        ends.diverged_at,
        " and ".join(dict.fromkeys(ends.reasons)),
        "take a smaller step_size" + (_other_target(est) if settings.objective.bootstraps else ""),
    )
    kept = ends.diverged_at < 0
    spread, learning_error = spread_over_runs(ends.rates[kept])
    is_ratio = settings.objective.learns_ratio
    runs = Runs(
        seed_rates=ends.rates,
        diverged_at=ends.diverged_at,
        spread=spread,
        learning_error=learning_error,
        step_size=step_size,
        steps=ends.steps,
        ridge=ridge,
        batch_size=settings.batch_size,
        level=0.0 if is_ratio else ends.scale * float(ends.levels[kept].mean()),
        is_buffered=feed is not None,
        members=ends.members,
        levels=ends.levels,
        scale=ends.scale,
        earlier_rates=ends.earlier,
        offline_rates=None if is_ratio else ends.over_rows,
        ratio_rates=ends.over_rows if is_ratio else None,
        rows_digest=np.empty(0, np.uint64) if prepared.log is None else distinct(row_hashes(prepared.log)),
    )
    est._known = None
    estimate = Estimate(float(np.median(ends.rates[kept])), float("nan"), 1.0)
    est._conclude(runs, estimate, _used(est, settings, runs))


def check_function(settings: LearnedSettings, num_inputs: int) -> None:
    """The objective must hold a network where it says so; raises before anything is trained."""
    objective, label = as_objective(settings.method, settings.approximator, num_inputs)
    primal, _ = jax.eval_shape(objective.init, jax.random.key(0))
    if not (isinstance(primal, dict) and isinstance(primal.get(objective.function), Network)):
        raise InputError(
            f"{label} must keep a network of the approximator in the entry {objective.function!r} of primal. Got "
            f"{', '.join(map(repr, primal))}; name its entry: Objective(function=…)."
        )


def _rows(prepared: Prepared, data: Any, facts: RowFacts, dtype: str) -> tuple[FeatureTransitions, Any]:
    """All rows; or a sample of them, and what makes the feed that runs draw from."""
    if isinstance(data, FeatureTransitions):
        return data, None
    repeats = draws_as_rows(prepared)
    if is_dense(prepared, repeats):
        return dense(prepared, repeats), None
    return sampled(prepared), partial(buffered, prepared, facts, dtype)


def _other_target(est: LearnedBase) -> str:
    """A remedy beside a smaller step, for a method that bootstraps."""
    if isinstance(est.target, str):
        return f" or a slower target (target=tracked({MIXING / 5:g}), say)"
    return (
        " or a slower target" if est.target.update is not None else f" or a target network (target=tracked({MIXING:g}))"
    )


def _used(est: LearnedBase, settings: LearnedSettings, runs: Runs) -> dict[str, Any]:
    return {
        "method": f"{settings.label} (learned, network)",
        "features": est.features_,
        **settings.words(est.optimizer, est.target),
        "ridge": runs.ridge,
        **settings.numbers(lam=est.lam),
        "step_size": runs.step_size,
        "steps": runs.steps,
        "batch_size": settings.batch_size,
        "seeds": est.seeds,
        "spread_over_seeds": runs.spread,
        "dtype": settings.dtype,
        "rewards": "standardized for the networks",
        **({"drawn_from": DRAWN_FROM} if runs.is_buffered else {}),
        "standard_errors": "none for networks",
        **({"draws": est.draws} if est.prepared_.draws_are_used else {}),
        "random_state": est.random_state,
    }


def run_networks(
    rows: FeatureTransitions,
    settings: LearnedSettings,
    *,
    numbers: dict[str, float],
    steps: int,
    seeds: list[int],
    feed: Callable[[tuple[float, float]], Feed] | None = None,
) -> NetworkEnds:
    """All seeds; the networks are those of the last step.

    `feed`: of a log that is larger than memory, whose sample `rows` are: from shift and scale of rewards to what runs draw from.
    """
    per_record = max(1, steps // RECORDS)
    per_record -= per_record % EVEN if per_record > EVEN else 0
    records = -(-steps // per_record)
    per_step = settings.per_step
    if per_step * records * per_record >= 2**31:
        raise InputError(f"steps × batch_size must be below 2³¹ samples. Got {steps} × {per_step}; take fewer steps.")
    data, shift, scale = standardized(rows)
    draws_from = data if feed is None else feed((shift, scale))
    result = sweep(
        settings.method,
        draws_from,
        settings=[numbers],
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
        quiet=settings.run.quiet,
    )
    tail = max(1, records // TAIL)
    curves = shift + scale * result.reward_rate[0]
    rates = curves[:, -tail:].mean(axis=1)
    earlier = curves[:, -2 * tail : -tail].mean(axis=1) if records >= 2 * tail else rates.copy()
    num_actions = getattr(settings.approximator, "actions", 0)
    members = Members.of(result.final[settings.objective.function], num_actions)
    over_rows, levels, sizes = _at_rows(members, rows, settings.objective.learns_ratio, scale)
    diverged_at, reasons = _diverged(
        np.where(result.diverged_at[0] < 0, -1, result.diverged_at[0] // per_step),
        result.records["size"][0],
        sizes,
        per_record,
    )
    lost = diverged_at >= 0
    for series in (rates, earlier, over_rows, levels):
        series[lost] = np.nan
    return NetworkEnds(
        rates=rates,
        earlier=earlier,
        over_rows=over_rows,
        levels=levels,
        members=members,
        diverged_at=diverged_at,
        reasons=reasons,
        steps=records * per_record,
        shift=shift,
        scale=scale,
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
    """The rate of each member over all rows, its level, and the root mean square of its function, `[seeds]` each."""
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


def network_inputs(est: LearnedBase, observations: Any, actions: Any) -> Matrix:
    """Inputs of pairs; after a fit on ready features they are given."""
    est._fitted()
    if est._map is None or est._inputs is None:
        shape = (None, est.members_.num_inputs)
        return checks.float_array("x", observations, ("row", "feature"), shape)
    return np.asarray(est._map.pairs(*est._inputs.pairs(observations, actions)))


def over_members(est: LearnedBase, x: Matrix, levels: Array | None = None) -> Array:
    """The mean over seeds that did not diverge of what their networks say, less their levels, `[n]`."""
    kept = [int(seed) for seed in np.flatnonzero(~est.diverged_)]
    total = np.zeros(len(x))
    for seed in kept:
        total += est.members_.values(seed, x) - (0.0 if levels is None else levels[seed])
    return total / len(kept)


def hidden_maps(est: LearnedBase) -> list[FeatureMap | None]:
    """See `Learned.hidden_maps`."""
    est._fitted()
    remedy = f"fit Learned(method={FOR_NETWORKS!r}, approximator='mlp') on a log"
    if est.runs_ is None or est.runs_.members is None:
        raise InputError(f"features must be a Learned with networks. Got {est.approximator!r} functions; {remedy}.")
    if est.runs_.learns_ratio:
        raise InputError(f"features must be networks of values. Got those of {est.label}, a density ratio; {remedy}.")
    inputs = est._map
    if not isinstance(inputs, NetworkInputs):
        raise InputError(f"features must be networks on a log's columns. Got networks on ready features; {remedy}.")
    if not est.members_.has_hidden:
        raise InputError(
            "features must be networks with hidden layers. Got none; give widths, such as MLP((128, 128))."
        )
    return [None if est.diverged_[seed] else inputs.hidden(est.members_.layer(seed)) for seed in range(est.seeds)]
