"""Cases of evaluations, in memory, streamed and resumed; of closed forms, comparisons, reports and formats of logs."""

from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as pq
from pyarrow import feather

import cesaro as cs
from benchmarks._golden.case import CASES, WAYS, case, of_estimator, of_evaluation, of_log
from benchmarks._golden.interrupt import CTRL_C
from benchmarks._golden.logs import LOGS, Going, Often, drawn, features, read
from benchmarks._golden.record import repeatable


def evaluated(log: str, way: str, **settings: Any) -> dict[str, Any]:
    policy, kept = LOGS[log][1], Path("kept.npz")

    def evaluate(**more: Any) -> cs.Evaluation:
        return cs.evaluate(read(log, way), policy, name="target", quiet=True, **settings, **more)

    if way != "resumed":
        return of_evaluation(evaluate())
    CTRL_C.within(partial(evaluate, checkpoint=kept), evaluate, "kept")
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

    CTRL_C.within(partial(compare, checkpoint="kept.npz"), compare, "kept")
    left = sorted(file.name for file in Path().glob("kept*"))
    return {"left": left, "answer": repeatable(compare(checkpoint="kept.npz").to_dict())}


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
    return {name: of_log(cs.read(source, **LOGS["episodes"][0])) for name, source in sources.items()}


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
        f"{way}, {change}": of_log(read("episodes", way, **change))
        for way in ("memory", "streamed")
        for change in changes
    }


@case
def simulation() -> dict[str, Any]:
    settings: dict[str, Any] = {"streams": 2, "workers": 1, "quiet": True}
    log = cs.collect("CartPole-v1", "uniform", 300, out="cart.parquet", seed=3, **settings)
    truth = repeatable(cs.monte_carlo_rate("Pendulum-v1", "uniform", 400, **settings).to_dict())
    return {"log": of_log(log), "file": Path("cart.parquet"), "truth": truth}
