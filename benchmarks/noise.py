"""Which noise makes worlds resemble systems: residuals of like rows, by a tree; of all rows; or normal ones of a leaf's size.

`python -m benchmarks noise [--logs N] [--only SYSTEM …]`. Networks are trained once per log of a development system; then each
kind of noise gets the same ones. Worlds are compared with the system itself: what its behavior and its targets earn, how far
targets are apart (medians), how much the means of trajectories vary and how rewards are correlated over steps.
"""

import argparse
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import cesaro as cs
from cesaro.checks import Array
from cesaro.suite.systems import make
from cesaro.suite.truth import Truths, truths
from cesaro.worlds import ensemble
from cesaro.worlds.ensemble import Ensemble

SYSTEMS = ("linear-quadratic-1", "linear-quadratic-4", "inventory", "heating", "pendulum")
ROWS, TRAJECTORIES, MANY = 5_000, 20, 400
LAGS = (1, 5, 20)
# Rows to a leaf as a part of all, of which one leaf has all.
SHARES = {"pooled": 1.0, "tree": ensemble.LEAF_SHARE}
KINDS = (*SHARES, "normal")
COLUMNS = ("behavior", "targets", "contrasts", "deviation", *(f"lag {lag}" for lag in LAGS))


def with_noise(model: Ensemble, inputs: Any, times: Any, kind: str) -> Ensemble:
    """The same networks with other noise; `normal` has the covariances of the tree's leaves."""
    residuals = model.residuals
    if kind == "normal":
        leaf, rng = model.tree.apply(inputs[model.rows]), np.random.default_rng(0)
        residuals = np.zeros_like(residuals)
        for one in np.unique(leaf):
            rows = np.flatnonzero(leaf == one)
            own = model.residuals[rows]
            residuals[rows] = rng.multivariate_normal(own.mean(axis=0), np.atleast_2d(np.cov(own.T)), len(rows))
        return replace(model, residuals=residuals)
    found = ensemble.leaves_of(inputs[model.rows], residuals, times[:, model.rows], SHARES[kind])
    tree, order, starts, ends = found
    return replace(model, tree=tree, order=order, starts=starts, ends=ends)


def habits(log: cs.Transitions) -> Array:
    """The deviation of trajectories' means, and autocorrelations of rewards within them."""
    rewards = log.rewards.reshape(MANY, -1)
    around = rewards - rewards.mean()
    size = (around**2).mean()
    return np.array([rewards.mean(axis=1).std(), *((around[:, lag:] * around[:, :-lag]).mean() / size for lag in LAGS)])


def compared(world: cs.World, system: Any, known: Truths, real: Array) -> Array:
    """How far the world is off: errors in scales, the deviation as a logarithm of a ratio, correlations as they are."""
    scale = known.scale(system.main, "medium", "one", ROWS)
    behavior = world.rate("logged").rate - known.logged("medium", "one")[0]
    errors = np.array([world.rate(policy).rate - known.targets[name].rate for name, policy in system.targets.items()])
    apart = (errors[:, None] - errors)[np.triu_indices(len(errors), 1)]
    mine = habits(world.simulate("logged", MANY, ROWS // TRAJECTORIES, np.random.default_rng(0)))
    return np.array(
        [
            behavior / scale,
            np.median(np.abs(errors)) / scale,
            np.median(np.abs(apart)) / scale,
            math.log(mine[0] / real[0]),
            *(mine[1:] - real[1:]),
        ]
    )


def study(names: list[str], logs: int) -> Iterator[tuple[str, str, Array]]:
    """System, kind of noise, and how far its worlds are off, log by log."""
    for name in names:
        system, known = make(name), truths(name)
        rng = np.random.default_rng(100)
        many = system.logs(1, ROWS // TRAJECTORIES * MANY, rng, trajectories=MANY)[0]
        for number, log in enumerate(system.logs(logs, ROWS, rng)):
            world = cs.World(random_state=number, quiet=True).fit(log)
            process: Any = world.process_
            inputs = process.inputs(process.now, process.taken)
            for kind in KINDS:
                world.process_ = replace(process, model=with_noise(process.model, inputs, process.bag.times, kind))
                try:
                    yield name, kind, compared(world, system, known, habits(many))
                except cs.CesaroError:
                    yield name, kind, np.full(len(COLUMNS), np.nan)


def shown(name: str, kind: str, rows: list[Array]) -> str:
    """Root mean squares over logs."""
    values = np.sqrt(np.nanmean(np.square(rows), axis=0))
    failed = int(np.isnan(rows).any(axis=1).sum())
    return f"{name:20s} {kind:8s}" + "".join(f"{value:10.3f}" for value in values) + f"{failed:8d}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(SYSTEMS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[tuple[str, str], list[Array]] = {}
    print(f"{'':29s}" + "".join(f"{name:>10s}" for name in COLUMNS) + f"{'refused':>8s}", flush=True)
    for name, kind, values in study(given.only, given.logs):
        found.setdefault((name, kind), []).append(values)
        if len(found[name, kind]) == given.logs:
            print(shown(name, kind, found[name, kind]), flush=True)
    for kind in KINDS:
        print(shown("all", kind, [row for (_, own), rows in found.items() if own == kind for row in rows]))


if __name__ == "__main__":
    main()
