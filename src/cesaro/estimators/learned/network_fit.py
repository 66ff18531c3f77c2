"""A fit of `Learned` with networks: from a log to the median over seeds, and what the networks say at other pairs."""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cesaro import checks
from cesaro.approximators import MLP
from cesaro.checks import Array
from cesaro.data import FeatureTransitions, Log
from cesaro.errors import InputError
from cesaro.estimators.facts import Facts
from cesaro.estimators.influence import Estimate
from cesaro.estimators.learned.linear_run import seed_numbers, spread_over_runs
from cesaro.estimators.learned.network_run import NetworkRuns, run_networks
from cesaro.estimators.learned.rows import DRAWN_FROM, buffered, dense, draws_as_rows, is_dense, sampled
from cesaro.estimators.learned.settings import MIXING, NETWORK_STEP, NETWORK_STEPS, Settings, with_actions
from cesaro.estimators.learned.warnings import report_divergence
from cesaro.estimators.passes import run_pass
from cesaro.estimators.pipeline import Prepared
from cesaro.estimators.row_hashes import distinct, row_hashes
from cesaro.estimators.series import InfluencePass
from cesaro.features import FeatureMap
from cesaro.features.hidden_layer import Matrix
from cesaro.features.networks import NetworkInputs

if TYPE_CHECKING:
    from cesaro.estimators.learned import Learned


def fit_networks(est: "Learned", data: Any, policy: Any, settings: Settings) -> None:
    """Train all seeds and set what `fit` leaves on the estimator."""
    random_state = checks.count("random_state", est.random_state, low=0)
    draws = checks.count("draws", est.draws)
    features: Any = "auto"
    if isinstance(data, Log):
        data = data.opened()
        features = NetworkInputs.of(data, random_state)
    prepared = Prepared(data, policy, features=features, dual_features="same", draws=draws, random_state=random_state)
    running = est._running()
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
    est.batch_size_ = settings.batch_size
    est.ridge_ = 0.0 if isinstance(est.ridge, str) else float(est.ridge)
    est.step_size_ = NETWORK_STEP if isinstance(est.step_size, str) else float(est.step_size)
    rows, feed = _rows(prepared, data, plan.facts, settings.dtype)
    est.is_buffered_ = feed is not None
    runs = run_networks(
        rows,
        est.method,
        settings,
        feed=feed,
        step_size=est.step_size_,
        ridge=est.ridge_,
        lam=est.lam,
        steps=NETWORK_STEPS if isinstance(est.steps, str) else est.steps,
        seeds=seed_numbers(random_state, est.seeds),
        quiet=est.quiet,
    )
    _conclude(est, prepared, runs)
    est._summary = _used(est, settings)


def _rows(prepared: Prepared, data: Any, facts: Facts, dtype: str) -> tuple[FeatureTransitions, Any]:
    """All rows; or a sample of them, and what makes the feed that runs draw from."""
    if isinstance(data, FeatureTransitions):
        return data, None
    repeats = draws_as_rows(prepared)
    if is_dense(prepared, repeats):
        return dense(prepared, repeats), None
    return sampled(prepared), partial(buffered, prepared, facts, dtype)


def _conclude(est: "Learned", prepared: Prepared, runs: NetworkRuns) -> None:
    """The median of the runs that did not diverge; no standard error."""
    est.steps_, est.seed_rates_ = runs.steps, runs.rates
    est.diverged_at_, est.diverged_ = runs.diverged_at, runs.diverged_at >= 0
    report_divergence(
        est,
        " and ".join(dict.fromkeys(runs.reasons)),
        "take a smaller step_size" + (_other_target(est) if est.method == "diff-sgq" else ""),
    )
    kept = ~est.diverged_
    rates = est.seed_rates_[kept]
    est.spread_, est.learning_error_ = spread_over_runs(rates)
    est.limit_, est.reached_, est.steps_needed_, est.time_constant_ = float("nan"), False, None, float("nan")
    est.members_, est.levels_, est.scale_ = runs.members, runs.levels, runs.scale
    est.earlier_rates_ = runs.earlier
    if est.method == "gradient-dice":
        est.ratio_rates_ = runs.over_rows
    else:
        est.offline_rates_ = runs.over_rows
    est.level_ = 0.0 if est.method == "gradient-dice" else est.scale_ * float(est.levels_[kept].mean())
    est.rows_digest_ = np.empty(0, np.uint64) if prepared.log is None else distinct(row_hashes(prepared.log))
    est._known = None
    est.estimate_ = Estimate(float(np.median(rates)), float("nan"), 1.0)


def _other_target(est: "Learned") -> str:
    """What else than a smaller step keeps Diff-SGQ together."""
    if isinstance(est.target, str):
        return f" or a slower target (target=tracked({MIXING / 5:g}), say)"
    return (
        " or a slower target" if est.target.update is not None else f" or a target network (target=tracked({MIXING:g}))"
    )


def _used(est: "Learned", settings: Settings) -> dict[str, Any]:
    return {
        "method": f"{est.method} (learned, network)",
        "features": est.features_,
        **settings.words(est.optimizer, est.target),
        "ridge": est.ridge_,
        **({"lam": est.lam} if est.method == "gradient-dice" else {}),
        "step_size": est.step_size_,
        "steps": est.steps_,
        "batch_size": settings.batch_size,
        "seeds": est.seeds,
        "spread_over_seeds": est.spread_,
        "dtype": settings.dtype,
        "rewards": "standardized for the networks",
        **({"drawn_from": DRAWN_FROM} if est.is_buffered_ else {}),
        "standard_errors": "none for networks",
        **({"draws": est.draws} if est.prepared_.draws_are_used else {}),
        "random_state": est.random_state,
    }


def network_inputs(est: "Learned", observations: Any, actions: Any) -> Matrix:
    """Inputs of pairs; after a fit on ready features they are given."""
    est._fitted()
    if est._map is None or est._inputs is None:
        shape = (None, est.members_.num_inputs)
        return checks.float_array("x", observations, ("row", "feature"), shape)
    return np.asarray(est._map.pairs(*est._inputs.pairs(observations, actions)))


def over_members(est: "Learned", x: Matrix, levels: Array | None = None) -> Array:
    """The mean over seeds that did not diverge of what their networks say, less their levels, `[n]`."""
    kept = [int(seed) for seed in np.flatnonzero(~est.diverged_)]
    total = np.zeros(len(x))
    for seed in kept:
        total += est.members_.values(seed, x) - (0.0 if levels is None else levels[seed])
    return total / len(kept)


def hidden_maps(est: "Learned") -> list[FeatureMap | None]:
    """See `Learned.hidden_maps`."""
    est._fitted()
    remedy = "fit Learned(method='diff-sgq', approximator='mlp') on a log"
    if not hasattr(est, "members_"):
        raise InputError(f"features must be a Learned with networks. Got {est.approximator!r} functions; {remedy}.")
    if est.method == "gradient-dice":
        raise InputError(f"features must be networks of values. Got those of gradient-dice, a density ratio; {remedy}.")
    inputs = est._map
    if not isinstance(inputs, NetworkInputs):
        raise InputError(f"features must be networks on a log's columns. Got networks on ready features; {remedy}.")
    if not est.members_.has_hidden:
        raise InputError(
            "features must be networks with hidden layers. Got none; give widths, such as MLP((128, 128))."
        )
    return [None if est.diverged_[seed] else inputs.hidden(est.members_.layer(seed)) for seed in range(est.seeds)]
