"""Cases of learned methods, on logs and in sweeps."""

from functools import partial
from pathlib import Path
from typing import Any

import cesaro as cs
from benchmarks._golden.case import CASES, METHODS, WAYS, case, of_estimator, of_sweep
from benchmarks._golden.interrupt import fast_clock, interrupt_when
from benchmarks._golden.logs import Often, features, read


def learned_features(method: str) -> dict[str, Any]:
    return of_estimator(cs.Learned(method, steps=640, ridge=0.1, seeds=2, quiet=True).fit(features()))


for _method in METHODS:
    CASES[f"learned-{_method}"] = partial(learned_features, _method)


def learned_log(way: str, **settings: Any) -> dict[str, Any]:
    """A learned method on a log; what is streamed passes through a buffer that changes from record to record."""
    kept = Path("kept.npz")

    def fit(**more: Any) -> Any:
        return cs.Learned(**settings, seeds=2, quiet=True, **more).fit(read("weighted", way), Often())

    if way != "resumed":
        return of_estimator(fit())
    with fast_clock():
        interrupt_when(kept.exists, partial(fit, checkpoint=kept))
        return of_estimator(fit(checkpoint=kept))


LINEAR = {"method": "diff-gq1", "features": "polynomial:2", "ridge": 0.02, "steps": 1_600}


def network(method: str) -> dict[str, Any]:
    from cesaro.approximators import MLP

    small = MLP(widths=(6,), initializer="he")  # orthogonal weights take seconds to compile
    return {"method": method, "approximator": small, "steps": 400, "batch_size": 16, "step_size": 1e-3}


for _way in WAYS:
    CASES[f"learned-log-{_way}"] = partial(learned_log, _way, **LINEAR)


@case
def networks() -> dict[str, Any]:
    return learned_log("memory", **network("diff-sgq"))


@case
def networks_resumed() -> dict[str, Any]:
    return learned_log("resumed", **network("gradient-dice"))


@case
def closed_form_in_features_of_networks() -> dict[str, Any]:
    log = read("weighted")
    fitted = cs.Learned(**network("diff-sgq"), seeds=2, quiet=True).fit(log, Often())
    return of_estimator(cs.DiffLSTD(features=fitted, quiet=True).fit(log, Often()))


def swept(method: str, **settings: Any) -> dict[str, Any]:
    chain = cs.problems.boyan_chain(pi0=0.1, mu0=0.5)
    grid = cs.grid(step_size=[0.03, 5.0], ridge=[0.0, 0.1])  # the larger step diverges
    common: dict[str, Any] = {"settings": grid, "seeds": 3, "budget": 600, "record_every": 200, "quiet": True}
    return of_sweep(cs.sweep(method, chain, **(common | settings)))


for _method in METHODS:
    CASES[f"sweep-{_method}"] = partial(swept, _method, record=("weights", "last_reward_rate"))
for _method in ("diff-gq1", "diff-gq2"):
    CASES[f"sweep-projected-{_method}"] = partial(swept, _method, radius=0.5, schedule="robbins-monro", dtype="float64")


@case
def sweep_networks() -> dict[str, Any]:
    import optax

    from cesaro.algorithms.saddle_point import tracked
    from cesaro.approximators import MLP

    found = cs.sweep(
        "diff-sgq",
        features(),
        settings=cs.grid(step_size=[1e-3]),
        seeds=2,
        budget=1_600,
        record_every=400,
        window=400,
        batch_size=8,
        approximator=MLP(widths=(5,)),
        optimizer=optax.scale_by_adam(),
        target=tracked(0.01),
        keep_final=True,
        quiet=True,
    )
    return of_sweep(found)


@case
def sweep_resumed() -> dict[str, Any]:
    """Long enough that row numbers are drawn in two goes, between which a checkpoint is written."""
    kept = Path("kept.npz")

    def sweep(checkpoint: Path) -> cs.Sweep:
        chain, grid = cs.problems.two_state_counterexample(), cs.grid(step_size=[0.01])
        sizes: dict[str, Any] = {"seeds": 256, "budget": 3 * 2**15, "record_every": 2**12, "window": 2**12}
        return cs.sweep("diff-gq1", chain, settings=grid, **sizes, checkpoint=checkpoint, quiet=True)

    with fast_clock():
        interrupt_when(kept.exists, partial(sweep, kept))
        return of_sweep(sweep(kept))
