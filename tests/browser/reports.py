"""Reports to look at: made as users make them, from the shipped log and from small ones."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

import cesaro as cs
from cesaro.diagnostics.worlds import Residual
from cesaro.rehearsal import Rehearsal

ROOT = Path(__file__).parents[2]
_COMMAND = (sys.executable, "-c", "from cesaro.cli import main; main()")
# What `make demo` runs.
_QUEUE = (
    *("examples/queue.parquet", "--observation", "free_servers", "--observation", "priority"),
    *("--kind", "free_servers=category", "--trajectory", "agent", "--unit", "per customer", "--quiet"),
)
_CANDIDATE = ("--policy", "candidate=examples/queue_policy.py:candidate")


def evaluation(out: Path) -> None:
    """The demo's."""
    _run("evaluate", *_QUEUE, *_CANDIDATE, "--out", str(out))


def comparison(out: Path) -> None:
    """Two rules and the log itself, from the other shipped log."""
    log = cs.read(
        ROOT / "examples/heating.csv",
        observation=["temperature", "tariff"],
        kinds={"temperature": "category"},
        trajectory="house",
    )
    rules = {name: f"{ROOT / 'examples/heating_policy.py'}:{name}" for name in ("preheat", "thrifty")}
    cs.compare(log, {**rules, "logged": "logged"}, unit="€ per hour", quiet=True).save(out)


def continuous(out: Path) -> None:
    """Numbers for states and actions, and one column of labels."""
    cs.evaluate(_noisy_log(), _damped, unit="€ per hour", name="damped", quiet=True).save(out)


def open_ended(out: Path) -> None:
    """An answer without an interval, as of networks."""
    answer = cs.evaluate(_noisy_log(1_000), _damped, features="polynomial:2", quiet=True)
    unknown = [replace(one, standard_error=float("nan")) for one in (answer.target, answer.difference)]
    replace(answer, target=unknown[0], difference=unknown[1]).save(out)


def rehearsed(out: Path) -> None:
    """With a rehearsal, as a full answer has it, in systems that do not resemble the log."""
    answer = cs.evaluate(
        _noisy_log(), lambda observations: -0.6 * observations[:, :1], name="firm", effort="none", quiet=True
    )
    rng, names = np.random.default_rng(0), ("polynomial:2", "polynomial:3", "fourier:50", "auto")
    truths = answer.reward_rate + 0.1 * rng.normal(size=20)
    found = Rehearsal(
        candidates=names,
        notes=("", "", "The log does not identify the rate of this policy in these features.", ""),
        rates=np.full(4, answer.reward_rate),
        standard_errors=np.array([0.1, 0.1, np.nan, 0.1]),
        truths=truths,
        noise=np.zeros(20),
        rehearsed=truths[:, None] + 0.15 * rng.normal(size=(20, 4)),
        rehearsed_standard_errors=np.full((20, 4), 0.1),
        logged=answer.behavior.value,
        own=answer.behavior.value + 1 + 0.1 * rng.normal(size=20),
        residual=Residual(0.5, 0.1, 100.0, 0.0, 0.05),
    )
    replace(answer, rehearsal=found).save(out)


REPORTS: dict[str, Callable[[Path], None]] = {
    "evaluation": evaluation,
    "comparison": comparison,
    "continuous": continuous,
    "open-ended": open_ended,
    "rehearsed": rehearsed,
}


def _run(*arguments: str) -> None:
    done = subprocess.run([*_COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _noisy_log(rows: int = 2_000) -> cs.Transitions:
    """A room whose heating fights the weather."""
    rng = np.random.default_rng(0)
    warmth, heat = np.zeros(rows), np.zeros(rows)
    for k in range(rows):
        heat[k] = -0.5 * warmth[k] + 0.7 * rng.standard_normal()
        if k + 1 < rows:
            warmth[k + 1] = 0.8 * warmth[k] + heat[k] + 0.5 * rng.standard_normal()
    wind = rng.standard_normal(rows)
    seen = np.column_stack([warmth, wind])
    return cs.Transitions(seen, heat[:, None], -(warmth**2) - 0.1 * heat**2 + 0.2 * wind)


def _damped(observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(-0.6 * observations[:, :1] + 0.3 * rng.standard_normal((len(observations), 1)))
