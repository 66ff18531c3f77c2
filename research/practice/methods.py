"""The methods of the practice study: each with one fixed setting, fitted as a user would; none sees a truth."""

import time
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from cesaro.algorithms.saddle_point import Target, tracked
from cesaro.approximators import MLP
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.estimators import DiffLSTD, Learned
from cesaro.files import Arrays
from cesaro.suite.fitted_q import fitted_q, inputs_of
from cesaro.worlds import World
from research.practice.config import PracticeConfig
from research.practice.logs import Case

SGQ, HIDDEN, GQ1, FQE, WORLD = "diff-sgq", "hidden", "diff-gq1", "fitted-q", "world"
# Feature maps that are drawn at random, so that seeds differ.
RANDOM_MAPS = ("auto", "fourier")


class Method(NamedTuple):
    """A column of the table."""

    name: str
    label: str


def methods(config: PracticeConfig) -> tuple[Method, ...]:
    """Closed forms first."""
    closed = tuple(Method(name, f"DiffLSTD {name}") for name in config.maps)
    networks = (
        Method(SGQ, "neural Diff-SGQ"),
        Method(HIDDEN, "DiffLSTD on last layer"),
        Method(GQ1, "neural Diff-GQ1"),
        Method(FQE, f"fitted Q {config.discount:g}"),
        Method(WORLD, "learned world"),
    )
    return closed + networks


def is_random(features: str) -> bool:
    return features.partition(":")[0] in RANDOM_MAPS


def fits(config: PracticeConfig) -> dict[str, Callable[[Case], Arrays]]:
    """The pieces of work on a log, by name. A piece holds, for each method in it, an array `NAME` of rates by seed (nan where
    there is no answer) and `NAME.note`, which says why; for networks also `NAME.moved`, how far the rate went in the last
    quarter of steps, and `NAME.offline`, the rate read off all rows. The longest come first."""
    found: dict[str, Callable[[Case], Arrays]] = {
        SGQ: partial(_sgq, config),
        GQ1: partial(_gq1, config),
        FQE: partial(_fqe, config),
        WORLD: partial(_world, config),
    }
    for name in config.maps:
        for seed in range(config.map_seeds if is_random(name) else 1):
            found[f"{name.replace(':', '')}_{seed}"] = partial(_closed, config, name, seed)
    return found


def _closed(config: PracticeConfig, features: str, seed: int, case: Case) -> Arrays:
    def fit() -> Found:
        fitted = DiffLSTD(features, random_state=config.seed + seed, quiet=True).fit(case.log, case.policy)
        return Found(np.array([fitted.reward_rate_]))

    return _answer(features, fit)


def _sgq(config: PracticeConfig, case: Case) -> Arrays:
    """Diff-SGQ, and the closed form on the last hidden layer of what it learned."""
    fitted = _network(config, SGQ)

    def hidden() -> Found:
        if not np.isfinite(first[SGQ]).any():
            raise InputError("There is no network whose last layer could serve.")
        return Found(DiffLSTD(fitted, random_state=config.seed, quiet=True).fit(case.log, case.policy).seed_rates_)

    first = _answer(SGQ, lambda: _learned(fitted, case), config.seeds)
    return first | _answer(HIDDEN, hidden, config.seeds)


def _gq1(config: PracticeConfig, case: Case) -> Arrays:
    return _answer(GQ1, lambda: _learned(_network(config, GQ1), case), config.seeds)


def _network(config: PracticeConfig, method: str) -> Learned:
    return Learned(
        method,
        approximator=_mlp(config),
        step_size=config.step_size,
        steps=config.steps,
        batch_size=config.batch_size,
        target=_slowly(config.mixing) if method == SGQ else "auto",
        seeds=config.seeds,
        random_state=config.seed,
        quiet=True,
    )


def _learned(estimator: Learned, case: Case) -> "Found":
    fitted = estimator.fit(case.log, case.policy)
    return Found(fitted.seed_rates_, fitted.seed_rates_ - fitted.earlier_rates_, fitted.offline_rates_)


def _fqe(config: PracticeConfig, case: Case) -> Arrays:
    def fit() -> Found:
        found = fitted_q(
            inputs_of(case.log, case.policy, config.seed),
            approximator=_mlp(config),
            discount=config.discount,
            steps=config.steps,
            batch_size=config.batch_size,
            step_size=config.step_size,
            target=_slowly(config.fitted_q_mixing),
            seeds=config.seeds,
            random_state=config.seed,
        )
        return Found(found.rates, moved(found.tracked))

    return _answer(FQE, fit, config.seeds)


def moved(curves: Array) -> Array:
    """The distance of the mean over the last quarter of records from that over the quarter before, `[seeds]`."""
    quarter = max(1, curves.shape[1] // 4)
    return np.asarray(curves[:, -quarter:].mean(axis=1) - curves[:, -2 * quarter : -quarter].mean(axis=1))


def _world(config: PracticeConfig, case: Case) -> Arrays:
    """The target's rate in every member, each of which counts as a seed."""

    def fit() -> Found:
        world = World(config.members, config.world_widths, config.batch_size, config.seed, quiet=True).fit(case.log)
        return Found(world.rate(case.policy).by_member)

    return _answer(WORLD, fit, config.members)


class Found(NamedTuple):
    """The numbers that a fit gave, by seed; see `fits`."""

    rates: Array
    moved: Array | None = None
    offline: Array | None = None


def _answer(name: str, fit: Callable[[], Found], seeds: int = 1) -> Arrays:
    """A fit as a piece; one that is refused, or diverged with all seeds, is a piece too."""
    start, note = time.perf_counter(), ""
    try:
        found = fit()
    except InputError as error:
        found, note = Found(np.full(seeds, np.nan)), str(error)
    arrays = {name: found.rates, f"{name}.moved": found.moved, f"{name}.offline": found.offline}
    arrays |= {f"{name}.note": np.array(note), f"{name}.seconds": np.array(time.perf_counter() - start)}
    return {key: np.asarray(array) for key, array in arrays.items() if array is not None}


def _mlp(config: PracticeConfig) -> MLP:
    return MLP(config.widths)


@cache
def _slowly(mixing: float) -> Target:
    """One object per number, so that compiled programs are found again."""
    return tracked(mixing)
