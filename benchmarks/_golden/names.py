"""Cases of public names and of the sentences that errors say."""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

import cesaro as cs
from benchmarks._golden.case import case, or_error


@case
def wrong_inputs() -> dict[str, Any]:
    """Classes and sentences of errors."""
    rng = np.random.default_rng(6)
    states, actions = rng.integers(0, 4, 400), rng.integers(0, 2, 400)
    log = cs.Transitions(states, actions, states.astype(float))
    chain = cs.problems.boyan_chain(pi0=0.1, mu0=0.5)
    mdp = chain.mdp
    nan = np.where(states == 3, np.nan, 1.0)

    def evaluate(policy: Any = "uniform", **settings: Any) -> Callable[[], Any]:
        return lambda: cs.evaluate(log, policy, quiet=True, **settings)

    calls: dict[str, Callable[[], Any]] = {
        "method": evaluate(method="magic"),
        "setting": evaluate(wings=2),
        "column": evaluate(reward="earned"),
        "confidence": evaluate(confidence=1.5),
        "features": evaluate(features="wavelet"),
        "ridge": evaluate(ridge=-1.0),
        "standard errors": evaluate(standard_errors="none"),
        "approximator": evaluate(approximator="mlp"),
        "policy": evaluate("sometimes"),
        "table": evaluate([[0.5, 0.6]] * 4),
        "unknown action": evaluate("constant:7"),
        "probabilities": evaluate(cs.policies.Finite([0, 1], lambda seen: np.ones((len(seen), 2)))),
        "not identified": lambda: cs.evaluate(cs.Transitions([0, 1, 2], [0, 0, 1], [1.0, 2.0, 0.5]), "constant:0"),
        "log": lambda: cs.evaluate(7, "uniform"),
        "file": lambda: cs.read("nothing.parquet"),
        "role": lambda: cs.read("policy.py"),
        "rewards": lambda: cs.Transitions(states, actions, nan),
        "lengths": lambda: cs.Transitions(states, actions[:-1], nan),
        "streamed arrays": lambda: cs.read({"state": states, "action": actions, "reward": states}, stream=True),
        "one policy": lambda: cs.compare(log, {"a": "uniform"}),
        "features in rows": lambda: cs.FeatureTransitions(np.ones((3, 2)), np.ones(2), np.ones((3, 2))),
        "not fitted": lambda: cs.DiffLSTD().reward_rate_,
        "probabilities of a chain": lambda: cs.TabularMDP(np.full((2, 1, 2), 0.6), np.ones((2, 1))),
        "policy of a chain": lambda: cs.exact.reward_rate(mdp, np.ones((3, 3))),
        "name of a limit": lambda: chain.limit("diff-gq9"),
        "sweep": lambda: cs.sweep("diff-gq1", chain, settings=cs.grid(wings=[1.0])),
        "window": lambda: cs.sweep("diff-gq1", chain, window=0),
        "radius": lambda: cs.sweep("diff-gq3", chain, radius=1.0),
        "no sweep": lambda: cs.Sweep.load("policy.py"),
    }
    told = {name: or_error(call) for name, call in calls.items()}
    for name, said in told.items():
        if not (isinstance(said, dict) and "error" in said):
            raise RuntimeError(f"{name} is no wrong input")
    return told


# Paths that the documentation names.
DOCUMENTED = (
    *("data.sort", "data.Block", "data.Values", "data.Categories", "data.Stretch", "data.Sample"),
    *("estimators.Estimate", "diagnostics.Diagnostic", "diagnostics.support.Leverages"),
    *("policies.Finite", "policies.Sampler", "policies.save_actor", "policies.parse", "policies.attach"),
    *("policies.Attached", "policies.LogInfo", "learning.Best", "learning.dynamics", "algorithms.dynamics.Dynamics"),
    *("algorithms.Objective", "algorithms.Batch", "algorithms.saddle_point.copied", "algorithms.saddle_point.tracked"),
    *("approximators.MLP", "approximators.squared_norm", "problems.random_problem", "simulation.shipped"),
    *("simulation.actor_path", "simulation.batch_means", "simulation.Job", "simulation.plan", "simulation.stream"),
    *("simulation.run_jobs", "views.Views", "reproduce.boyan.Config", "reproduce.boyan.learn", "cli.app"),
    *(f"linear.{name}" for name in ("EmpiricalProblem", "LinearSystem", "FixedPoint", "Limit", "Stability")),
    *(f"linear.{name}" for name in ("ErrorBounds", "AssumptionReport", "Assumption")),
)


@case
def public_names() -> dict[str, Any]:
    told: dict[str, Any] = {name: _signature(getattr(cs, name)) for name in sorted(cs.__all__)}
    for path in DOCUMENTED:
        module, _, name = path.rpartition(".")
        told[path] = _signature(getattr(import_module(f"cesaro.{module}"), name))
    return told


def _signature(value: Any) -> Any:
    if not callable(value) or (isinstance(value, type) and issubclass(value, BaseException)):
        return type(value).__name__
    parameters = inspect.signature(value).parameters.values()
    return [
        f"{one.kind.name} {one.name}{'' if one.default is one.empty else f' = {one.default!r}'}" for one in parameters
    ]
