"""The cases of `make golden`: run with one source tree, each writes what that tree gives into a JSON file.

The file is run once with the older and once with the newer tree, so that it takes nothing but what is public: names of
`import cesaro as cs`, paths that the documentation names, and the command line.
"""

import argparse
import inspect
import io
import json
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from fnmatch import fnmatch
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

import cesaro as cs
from benchmarks._golden_interrupt import CTRL_C, fast_clock, interrupt_when
from benchmarks._golden_record import plain, repeatable

METHODS = ("diff-sgq", "diff-gq1", "diff-gq2", "diff-gq3", "diff-gq4", "gradient-dice")
WAYS = ("memory", "streamed", "resumed")

Case = Callable[[], dict[str, Any]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Register a function as the case of its name."""
    CASES[function.__name__.replace("_", "-")] = function
    return function


# What a case records.


def of_evaluation(answer: cs.Evaluation) -> dict[str, Any]:
    """All that an evaluation says, with its pictures' numbers and the series that are kept in memory."""
    told = {"answer": repeatable(answer.to_dict()), "text": str(answer), "views": answer.views}
    return told | _of_series(answer.estimator)


def of_estimator(estimator: Any, name: str = "estimator.npz") -> dict[str, Any]:
    """All that a fitted estimator says, and its file."""
    estimator.save(name)
    learned = ("limit_", "seed_rates_", "spread_", "steps_", "step_size_", "ridge_", "learning_error_", "diverged_at_")
    return {
        "estimate": estimator.estimate_,
        "behavior": estimator.behavior_,
        "summary": estimator.summary_(),
        "diagnostics": [entry.to_dict() for entry in estimator.diagnostics_],
        "learned": {attribute: getattr(estimator, attribute, None) for attribute in learned},
        "file": Path(name),
        **_of_series(estimator),
    }


def _of_series(estimator: Any) -> dict[str, Any]:
    """The series over rows, or the reason why there is none."""
    names = ("influence_", "behavior_influence_", "density_ratio_")
    return {name: _or_error(partial(getattr, estimator, name)) for name in names}


def of_sweep(sweep: cs.Sweep, name: str = "sweep.npz") -> dict[str, Any]:
    """All runs, and the file of them."""
    sweep.save(name)
    arrays = {key: getattr(sweep, key) for key in ("seeds", "samples", "reward_rate", "diverged_at", "records")}
    final: Any = sweep.final
    if final is not None:
        import jax

        final = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(final)}
    return {"settings": sweep.settings, **arrays, "final": final, "file": Path(name)}


def _or_error(call: Callable[[], Any]) -> Any:
    """What the call gives, or class and sentence of the error that it raises."""
    try:
        return call()
    except (cs.CesaroError, ValueError, TypeError) as error:
        return {"error": type(error).__name__, "is_input_error": isinstance(error, cs.InputError), "says": str(error)}


# Logs, which are written once.


def write_logs() -> None:
    """All logs of the cases, as files in this folder."""
    _write_files(_continuous(72_000), "continuous", [70_000, 1_500, 500])  # the first file has two blocks
    _write_files(_discrete(4_000), "discrete", [700] * 5 + [500])
    _write_files(_episodes(3_000), "episodes", [1_000] * 3)
    _write_files(_weighted(2_400), "weighted", [400] * 6)
    Path("policy.py").write_text(POLICY_FILE, encoding="utf-8")


# A policy for the command line, which runs in this process.
POLICY_FILE = """
import numpy as np
from benchmarks._golden_interrupt import CTRL_C
from cesaro.policies import Finite


def chances(observations):
    CTRL_C()
    return np.where(observations["state"][:, None] > 1, [0.8, 0.2], [0.3, 0.7])


target = Finite(["go", "stay"], chances)
"""


def _write_files(table: pa.Table, name: str, sizes: Sequence[int]) -> None:
    Path(name).mkdir()
    start = 0
    for number, size in enumerate(sizes):
        pq.write_table(table.slice(start, size), f"{name}/{number}.parquet", row_group_size=333)
        start += size


def _continuous(rows: int) -> pa.Table:
    rng = np.random.default_rng(1)
    action, noise = rng.normal(size=rows), 0.4 * rng.normal(size=(rows, 2))
    state = np.zeros((rows + 1, 2))
    for t in range(rows):
        state[t + 1] = 0.8 * state[t] + noise[t]
        state[t + 1, 0] += 0.3 * np.tanh(action[t])
    reward = np.sin(state[:-1, 0]) - 0.1 * action**2
    return pa.table({"obs_0": state[:-1, 0], "obs_1": state[:-1, 1], "action": action, "reward": reward})


def _discrete(rows: int) -> pa.Table:
    rng = np.random.default_rng(2)
    go = rng.integers(0, 2, rows)
    state = np.cumsum(go * rng.integers(0, 2, rows)) % 5
    day = rng.choice(["mo", "tu"], rows)
    reward = (state == 2) - 0.1 * go + 0.2 * rng.normal(size=rows)
    return pa.table({"state": state, "day": day, "action": np.array(["stay", "go"])[go], "reward": reward})


def _episodes(rows: int) -> pa.Table:
    """Episodes of a walk that end by themselves or by a time limit, with ids, times and a gap."""
    rng = np.random.default_rng(3)
    action, level = rng.integers(0, 2, rows), rng.normal(size=rows).cumsum() / 10
    terminated = rng.random(rows) < 0.01
    truncated = (rng.random(rows) < 0.005) & ~terminated
    agent = np.repeat(np.arange(rows // 500), 500)
    when = np.arange(rows) + 100 * (np.arange(rows) >= 1_300)
    columns = {"level": np.sin(level), "action": action, "reward": np.cos(level) - 0.2 * action}
    return pa.table({**columns, "terminated": terminated, "truncated": truncated, "agent": agent, "time": when})


def _weighted(rows: int) -> pa.Table:
    rng = np.random.default_rng(4)
    state, action = rng.normal(size=rows), rng.integers(0, 2, rows)
    after = 0.5 * state + 0.8 * (action - 0.5) + 0.6 * rng.normal(size=rows)
    columns = {"obs": state, "action": action, "reward": 1 + state + 0.5 * action + 0.3 * rng.normal(size=rows)}
    return pa.table({**columns, "next_obs": after, "weight": rng.uniform(0.5, 2.0, rows)})


def drawn(observations: Any, rng: np.random.Generator) -> Any:
    """A target with continuous actions, which are drawn."""
    CTRL_C()
    return 0.5 * observations[:, 0] + 0.2 * rng.normal(size=len(observations))


class Often:
    """A target that takes the second of two actions four times in five."""

    actions = (0, 1)

    def probabilities(self, observations: Any) -> Any:
        CTRL_C()
        return np.tile([0.2, 0.8], (len(observations), 1))


class Going:
    """A target on named columns of labels."""

    actions = ("go", "stay")

    def probabilities(self, observations: Any) -> Any:
        CTRL_C()
        return np.where(observations["state"][:, None] > 1, [0.8, 0.2], [0.3, 0.7])


# Of each log: how it is read, and the target.
CATEGORIES = {"observation": ["state", "day"], "kinds": {"state": "category"}}
LOGS: dict[str, tuple[dict[str, Any], Any]] = {
    "continuous": ({}, drawn),
    "discrete": (CATEGORIES, Going()),
    "episodes": ({"observation": "level", "trajectory": "agent"}, Often()),
    "weighted": ({"weight": "weight"}, Often()),
}


def read(name: str, way: str = "memory", **changes: Any) -> cs.Log:
    return cs.read(name, **{**LOGS[name][0], "stream": way != "memory", **changes})


# Evaluations: in memory, streamed and resumed.


def evaluated(log: str, way: str, **settings: Any) -> dict[str, Any]:
    policy, kept = LOGS[log][1], Path("kept.npz")

    def evaluate(**more: Any) -> cs.Evaluation:
        return cs.evaluate(read(log, way), policy, name="target", quiet=True, **settings, **more)

    if way != "resumed":
        return of_evaluation(evaluate())
    CTRL_C.within(partial(evaluate, checkpoint=kept), evaluate)
    if not kept.exists():
        raise RuntimeError("the interrupted run left no checkpoint")
    return of_evaluation(evaluate(checkpoint=kept))


EVALUATED: dict[str, tuple[str, dict[str, Any]]] = {
    "one-hot": ("discrete", {}),
    "ridge": ("discrete", {"ridge": 0.01, "confidence": 0.9, "unit": "€ per minute"}),
    "fourier": ("continuous", {"features": "fourier:12"}),
    "polynomial": ("weighted", {"features": "polynomial:2", "ridge": 1e-3}),
    "linear": ("episodes", {"features": "linear", "standard_errors": "clustered", "dual_features": "polynomial:2"}),
}
for _name, (_log, _settings) in EVALUATED.items():
    for _way in WAYS:
        CASES[f"evaluate-{_name}-{_way}"] = partial(evaluated, _log, _way, **_settings)


@case
def evaluate_logged() -> dict[str, Any]:
    return {log: of_evaluation(cs.evaluate(read(log), "logged", quiet=True)) for log in ("discrete", "episodes")}


@case
def evaluate_rules_of_standard_errors() -> dict[str, Any]:
    rules = ("independent", "clustered", "long-run")
    return {
        rule: of_evaluation(cs.evaluate(read("episodes"), Often(), standard_errors=rule, features="linear", quiet=True))
        for rule in rules
    }


@case
def evaluate_seeds_and_draws() -> dict[str, Any]:
    log = cs.read(pq.read_table("continuous").slice(0, 3_000))
    settings: dict[str, Any] = {"features": "fourier:8", "draws": 3, "quiet": True}
    return {str(seed): of_evaluation(cs.evaluate(log, drawn, random_state=seed, **settings)) for seed in (0, 1)}


@case
def evaluate_constant_rewards() -> dict[str, Any]:
    states, actions = np.arange(60) % 3, np.arange(60) // 3 % 2
    return of_evaluation(cs.evaluate(cs.Transitions(states, actions, np.full(60, 0.1)), "uniform", quiet=True))


@case
def kinds_of_policies() -> dict[str, Any]:
    """Every form of a policy that needs no extra package."""
    Path("table.csv").write_text("state,go,stay\n0,0.5,0.5\n1,1,0\n2,0,1\n3,0.25,0.75\n4,0.5,0.5\n", encoding="utf-8")
    log = cs.read("discrete", observation="state", kinds={"state": "category"})
    given: dict[str, Any] = {
        "word": "uniform",
        "constant": "constant:go",
        "file of a table": "table.csv",
        "mapping": {0: "go", 1: "stay", 2: {"go": 0.5, "stay": 0.5}, 3: "go", 4: "go"},
        "function": lambda observations: np.where(observations > 2, "go", "stay"),
        "probabilities": cs.policies.Finite(["stay", "go"], lambda seen: np.tile([0.3, 0.7], (len(seen), 1))),
    }
    told = {name: repeatable(cs.evaluate(log, policy, quiet=True).to_dict()) for name, policy in given.items()}
    weights = [np.linspace(-1, 1, 6).reshape(3, 2), np.linspace(-1, 1, 3).reshape(1, 3)]
    cs.policies.save_actor(
        "actor.safetensors",
        weights,
        [np.zeros(3), np.ones(1)],
        activation="tanh",
        squash="tanh",
        low=[-2.0],
        high=[2.0],
    )
    told["actor"] = Path("actor.safetensors").read_bytes()
    seen = np.random.default_rng(0).normal(size=(7, 2))
    told["actor's actions"] = cs.policy("actor.safetensors").sample(seen, np.random.default_rng(0))
    return told


@case
def comparison() -> dict[str, Any]:
    found = cs.compare(read("discrete"), {"a": Going(), "b": "uniform", "c": "logged"}, quiet=True)
    return {"answer": repeatable(found.to_dict()), "text": str(found), "adjusted": found.adjusted}


@case
def comparison_resumed() -> dict[str, Any]:
    def compare(**more: Any) -> cs.Comparison:
        policies = {"a": Often(), "b": "constant:0"}
        return cs.compare(read("weighted", "streamed"), policies, features="linear", quiet=True, **more)

    CTRL_C.within(partial(compare, checkpoint="kept.npz"), compare)
    left = sorted(file.name for file in Path().glob("kept*"))
    return {"left": left, "answer": repeatable(compare(checkpoint="kept.npz").to_dict())}


# Reports.


@case
def report_of_an_evaluation() -> dict[str, Any]:
    answer = cs.evaluate(read("discrete"), Going(), name="<b>target</b>", unit="€", quiet=True)
    answer.run.clear()
    answer.save("report")
    return {"report": Path("report"), "notebook": answer._repr_html_().splitlines(keepends=True)}


@case
def report_of_a_comparison() -> dict[str, Any]:
    found = cs.compare(read("weighted"), {"often": Often(), "never": "constant:0"}, features="linear", quiet=True)
    for answer in found.evaluations.values():
        answer.run.clear()
    found.save("report")
    return {"report": Path("report")}


# Estimators.


def features(rows: int = 600) -> cs.FeatureTransitions:
    """Ready features of independent pairs."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(rows, 3))
    after = 0.5 * x[:, ::-1] + 0.5 * rng.normal(size=(rows, 3))
    rewards = 1 + x @ [1.0, 0.5, -0.5] + 0.1 * rng.normal(size=rows)
    return cs.FeatureTransitions(x, rewards, after, trajectory=np.arange(rows) // 60)


@case
def closed_form_of_ready_features() -> dict[str, Any]:
    fitted = cs.DiffLSTD(quiet=True).fit(features())
    return of_estimator(fitted) | {
        "values": fitted.predict(np.eye(3)),
        "loaded": cs.DiffLSTD.load("estimator.npz").summary_(),
    }


@case
def closed_form_saved() -> dict[str, Any]:
    told: dict[str, Any] = {}
    log = read("discrete")
    chosen: dict[str, dict[str, Any]] = {"one-hot": {}, "fourier": {"features": "fourier:6"}, "ridge": {"ridge": 0.1}}
    for name, settings in chosen.items():
        fitted = cs.DiffLSTD(**settings, quiet=True).fit(log, Going())
        seen = {"state": np.array([0, 3]), "day": np.array(["mo", "tu"])}
        told[name] = of_estimator(fitted) | {"values": fitted.predict(seen, np.array(["go", "stay"]))}
    return told


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


def network() -> dict[str, Any]:
    from cesaro.approximators import MLP

    small = MLP(widths=(6,), initializer="he")  # orthogonal weights take seconds to compile
    return {"method": "diff-gq2", "approximator": small, "steps": 400, "batch_size": 16, "step_size": 1e-3}


for _way in WAYS:
    CASES[f"learned-log-{_way}"] = partial(learned_log, _way, **LINEAR)


@case
def networks() -> dict[str, Any]:
    return learned_log("memory", **network())


@case
def networks_resumed() -> dict[str, Any]:
    return learned_log("resumed", **network())


@case
def closed_form_in_features_of_networks() -> dict[str, Any]:
    log = read("weighted")
    fitted = cs.Learned(**network(), seeds=2, quiet=True).fit(log, Often())
    return of_estimator(cs.DiffLSTD(features=fitted, quiet=True).fit(log, Often()))


# Sweeps.


def swept(method: str, **settings: Any) -> dict[str, Any]:
    chain = cs.problems.boyan_chain(pi0=0.1, mu0=0.5)
    grid = cs.grid(step_size=[0.03, 0.1], ridge=[0.0, 0.1])
    common: dict[str, Any] = {"settings": grid, "seeds": 3, "budget": 600, "record_every": 200, "quiet": True}
    return of_sweep(cs.sweep(method, chain, **(common | settings)))


for _method in METHODS:
    CASES[f"sweep-{_method}"] = partial(swept, _method, record=("weights", "last_reward_rate"))
for _method in ("diff-gq1", "diff-gq2"):
    CASES[f"sweep-projected-{_method}"] = partial(swept, _method, radius=0.5, schedule="robbins-monro")
CASES["sweep-diverging"] = partial(swept, "diff-sgq", settings=[{"step_size": 5.0}], dtype="float64")


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
        approximator=MLP(widths=(5, 4)),
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
        sizes: dict[str, Any] = {"seeds": 256, "budget": 2**17, "record_every": 2**12, "window": 2**12}
        return cs.sweep("diff-gq1", chain, settings=grid, **sizes, checkpoint=checkpoint, quiet=True)

    with fast_clock():
        interrupt_when(kept.exists, partial(sweep, kept))
        return of_sweep(sweep(kept))


# The exact layer.


@case
def exact() -> dict[str, Any]:
    told = {}
    for name, problem in _problems().items():
        mdp, policy = problem.mdp, problem.policy
        told[name] = {
            "rate": cs.exact.reward_rate(mdp, policy),
            "values": cs.exact.differential_values(mdp, policy),
            "law": cs.exact.stationary_distribution(mdp, policy),
            "ratio": _or_error(partial(cs.exact.density_ratio, mdp, policy, problem.sampling)),
        }
    return told


@case
def linear_problems() -> dict[str, Any]:
    return {name: _of_problem(problem) for name, problem in _problems().items()}


def _problems() -> dict[str, cs.LinearProblem]:
    problems = cs.problems
    return {
        "boyan": problems.boyan_chain(pi0=0.1, mu0=0.5),
        "counterexample": problems.two_state_counterexample(),
        "garnet": problems.garnet(8, 2, 3, seed=1),
        "queue": problems.access_control_queue(4),
        "birth-death": problems.birth_death_queue(20),
        "random": problems.random_problem(3),
    }


def _of_problem(problem: cs.LinearProblem) -> dict[str, Any]:
    matrices = ("A", "b", "C", "A2", "b2", "C2", "A3", "b3", "B", "c", "g")
    weights = np.linspace(-1, 1, problem.num_features)
    return {
        "matrices": {name: getattr(problem, name) for name in matrices},
        "fixed point": _or_error(problem.td_fixed_point),
        "errors": [problem.mspbe(kind, 0.5, weights) for kind in (1, 2, 3, 4)],
        "assumptions": list(problem.assumptions()),
        "bounds": _or_error(problem.centered().error_bounds),
        "methods": {
            f"{method}, ridge {ridge}": {
                "limit": _or_error(partial(problem.limit, method, ridge=ridge)),
                "stability": _of_stability(problem, method, ridge),
            }
            for method in METHODS
            for ridge in (0.0, 0.01)
        },
    }


def _of_stability(problem: cs.LinearProblem, method: str, ridge: float) -> Any:
    def told() -> dict[str, Any]:
        found = problem.stability(method, ridge=ridge)
        names = ("converges", "reason", "eigenvalues", "determined", "max_step_expected", "max_step_sampled")
        return {name: getattr(found, name) for name in names} | {"time": _or_error(lambda: found.time_constant(0.01))}

    return _or_error(told)


@case
def expected_updates() -> dict[str, Any]:
    chain = cs.problems.boyan_chain(pi0=0.1, mu0=0.5)
    methods = ("diff-sgq", "diff-gq2", "gradient-dice")
    return {method: cs.learning.dynamics(method, chain, ridge=0.1) for method in methods}


# Logs of every format.


@case
def formats() -> dict[str, Any]:
    table = pq.read_table("episodes").slice(0, 400)
    frame = table.to_pandas()
    frame.to_csv("log.csv", index=False)
    frame.to_csv("german.csv", index=False, sep=";", decimal=",")
    feather.write_feather(table, "log.feather")
    columns = {name: frame[name].to_numpy() for name in frame}
    np.savez("log.npz", **columns)
    with h5py.File("log.h5", "w") as stream:
        for name, values in columns.items():
            stream[name] = values
    for agent, rows in frame.drop(columns="agent").groupby(frame["agent"]):
        Path(f"parts/agent={agent}").mkdir(parents=True)
        rows.to_parquet(f"parts/agent={agent}/rows.parquet")
    sources: dict[str, Any] = {
        **{name: name for name in ("log.csv", "german.csv", "log.feather", "log.npz", "log.h5", "parts")},
        "table": table,
        "frame": frame,
        "arrays": columns,
    }
    return {name: _of_log(cs.read(source, **LOGS["episodes"][0])) for name, source in sources.items()}


@case
def continuing_semantics() -> dict[str, Any]:
    """Every choice for episodes that end, gaps and late rewards, in memory and streamed."""
    changes: list[dict[str, Any]] = [
        *({"on_termination": rule} for rule in ("restart", "keep", "drop")),
        *({"on_truncation": rule} for rule in ("restart", "keep", "drop")),
        {"gap": None},
        {"reward_lag": 1},
        {"trajectory": False, "time": False},
    ]
    return {
        f"{way}, {change}": _of_log(read("episodes", way, **change))
        for way in ("memory", "streamed")
        for change in changes
    }


def _of_log(log: cs.Log) -> dict[str, Any]:
    parts = [
        {
            "observations": block.observations.plain(),
            "actions": block.actions.plain(),
            "rewards": block.rewards,
            "next": block.next_observations.plain(),
            "trajectory": block.trajectory,
            "follows": block.follows,
        }
        for block in log.blocks()
    ]
    return {"blocks": parts, "counts": log.counts, "notes": log.notes, "schema": str(log.schema)}


@case
def simulation() -> dict[str, Any]:
    settings: dict[str, Any] = {"streams": 2, "workers": 1, "quiet": True}
    log = cs.collect("CartPole-v1", "uniform", 300, out="cart.parquet", seed=3, **settings)
    truth = repeatable(cs.monte_carlo_rate("Pendulum-v1", "uniform", 400, **settings).to_dict())
    return {"log": _of_log(log), "file": Path("cart.parquet"), "truth": truth}


# The command line.


def command(*words: str) -> dict[str, Any]:
    """The exit code of a command and what it prints."""
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["cesaro", *words]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code: Any = 0
            try:
                MAIN[0]()
            except SystemExit as ended:
                code = ended.code or 0
    finally:
        sys.argv = before
    lines = (stream.getvalue().splitlines(keepends=True) for stream in (out, err))
    return {"words": list(words), "code": code, **dict(zip(("stdout", "stderr"), lines))}


# The function behind the command `cesaro`, which its tree names in pyproject.toml.
MAIN: list[Callable[[], Any]] = []
COLUMNS = ("--observation", "state", "--observation", "day", "--kind", "state=category", "--quiet")


@case
def command_evaluate() -> dict[str, Any]:
    words = ("evaluate", "discrete", "--policy", "policy.py:target", *COLUMNS)
    return {
        "text": command(*words),
        "options": command(*words, "--ridge", "0.1", "--confidence", "0.8", "--seed", "3", "--unit", "€"),
        "compare": command("compare", *words[1:], "--policy", "uniform", "--policy", "old=logged"),
    }


@case
def command_evaluate_resumed() -> dict[str, Any]:
    """Interrupted with its progress in `OUT.partial`, and run again."""
    words = ("evaluate", "discrete", "--policy", "policy.py:target", *COLUMNS, "--stream", "--out")
    told: dict[str, Any] = {}

    def interrupted() -> None:
        told["interrupted"] = command(*words, "answer")

    CTRL_C.within(interrupted, lambda: command(*words[:-1]))
    told["left"] = sorted(file.name for file in Path("answer.partial").iterdir())
    told["resumed"] = command(*words, "answer")
    told |= {name: Path("answer") / name for name in ("evaluation.json", "report.txt")}
    return told | {"files": sorted(file.name for file in Path("answer").iterdir())}


@case
def command_sort() -> dict[str, Any]:
    table = pq.read_table("episodes")
    pq.write_table(table.take(np.random.default_rng(0).permutation(len(table))), "mixed.parquet")
    told = command(
        "sort", "mixed.parquet", "--out", "sorted.parquet", "--trajectory", "agent", "--time", "time", "--quiet"
    )
    return {"command": told, "rows": pq.read_table("sorted.parquet").to_pydict(), "file": Path("sorted.parquet")}


@case
def command_help() -> dict[str, Any]:
    names = ("evaluate", "compare", "collect", "truth", "train-target", "sort", "doctor", "reproduce")
    studies = ("assumption", "boyan", "counterexample", "rates", "coverage", "pendulum", "mujoco", "practice", "stall")
    asked = [(), *((name,) for name in names), *(("reproduce", study) for study in studies), ("--version",)]
    return {" ".join(words): command(*words, *(() if "--version" in words else ("--help",))) for words in asked}


@case
def wrong_commands() -> dict[str, Any]:
    asked = [
        "evaluate",
        "evaluate discrete",
        "evaluate nothing.parquet --policy uniform",
        "evaluate discrete --policy uniform --observation stat",
        "evaluate discrete --policy uniform --observation state,day",
        "evaluate discrete --policy nobody --observation state",
        "evaluate discrete --policy uniform --policy logged --observation state",
        "compare discrete --policy uniform --observation state",
        "evaluate discrete --policy uniform --observation state --method magic",
        "evaluate discrete --policy uniform --observation state --ridge -1",
        "evaluate discrete --policy uniform --observation state --confidence 2",
        "evaluate discrete --policy uniform --observation state --kind state=colour",
        "evaluate discrete --policy uniform --observation state --set wings=2",
        "evaluate discrete --policy constant:fly --observation state",
        "evaluate episodes --policy uniform --observation level --trajectory agents",
        "evaluate discrete --policy missing.py:target --observation state --out nowhere/answer",
        "reproduce",
        "reproduce boyan --quick --runs 3",
        "reproduce --from nothing.json",
        "sort discrete --out sorted.csv --time when",
        "fly",
    ]
    return {words: command(*words.split()) for words in asked}


@case
def wrong_inputs() -> dict[str, Any]:
    """Classes and sentences of errors."""
    states, actions = np.arange(40) % 4, np.arange(40) // 2 % 2
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
        "window": lambda: cs.sweep("diff-gq1", chain, record_every=100, window=30),
        "radius": lambda: cs.sweep("diff-gq3", chain, radius=1.0),
        "no sweep": lambda: cs.Sweep.load("policy.py"),
    }
    return {name: _or_error(call) for name, call in calls.items()}


# Names, and paths that the documentation names.

DOCUMENTED = (
    *("data.sort", "data.Block", "data.Values", "data.Categories", "data.Stretch", "data.Sample"),
    *("estimators.Estimate", "estimators.diagnostics.Diagnostic", "estimators.checks_support.Leverages"),
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


# Studies.


def study(name: str, *options: str) -> dict[str, Any]:
    told = command("reproduce", name, *options, "--quiet", "--workers", "1", "--out", "study")
    return {"command": told, "files": Path("study")}


STUDIES = {
    "assumption": ("--trials", "20"),
    "boyan": ("--quick",),
    "counterexample": ("--quick",),
    "rates": ("--quick",),
    "coverage": ("--logs", "4"),
}
for _name, _options in STUDIES.items():
    CASES[f"study-{_name}"] = partial(study, _name, *_options)


@case
def study_resumed() -> dict[str, Any]:
    """Interrupted after its first piece, and run again."""
    words = ("reproduce", "assumption", "--trials", "300", "--quiet", "--workers", "1", "--out", "study")
    interrupt_when(lambda: any(Path("study.partial").glob("pieces/*.npz")), lambda: command(*words))
    if not Path("study.partial").exists():
        raise RuntimeError("the study ended before it could be interrupted")
    return {"command": command(*words), "files": Path("study")}


def run(name: str) -> Any:
    """What a case gives and what it warns of; an error that no case expects is what it gives, and found by the comparison."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            given = plain(CASES[name]())
        except Exception:
            return {"failed": traceback.format_exc().splitlines()}
    said = [str(one.message) for one in caught if issubclass(one.category, cs.EvaluationWarning)]
    return given | ({"warnings": said} if said else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help="the folder that cesaro must come from")
    parser.add_argument("--command", required=True, help="module:function of the command line")
    parser.add_argument("--out", type=Path, required=True, help="a folder for a file per case")
    parser.add_argument("--only", default="*", help="a pattern of names")
    parser.add_argument("--except", default="", dest="left_out", help="a pattern of names")
    given = parser.parse_args()
    names = [name for name in CASES if fnmatch(name, given.only) and not fnmatch(name, given.left_out)]
    if not names:
        sys.exit(f"error: no case is left; there are {', '.join(CASES)}")
    found = Path(cs.__file__).resolve().parent
    if found.parent != given.source.resolve():
        sys.exit(f"error: cesaro comes from {found}, and not from {given.source}")
    module, _, function = given.command.partition(":")
    MAIN.append(getattr(import_module(module), function))
    out = given.out.resolve()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background, a shell lets processes ignore it
    start = time.perf_counter()
    write_logs()
    logs = [entry.name for entry in Path().iterdir()]
    for name in names:
        began = time.perf_counter()
        told = run(name)
        (out / f"{name}.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
        now = time.perf_counter()
        print(f"  {now - start:6.1f} s  {name} ({now - began:.1f} s)", flush=True)
        for entry in Path().iterdir():  # what the case has written
            if entry.name not in logs:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


if __name__ == "__main__":
    main()
