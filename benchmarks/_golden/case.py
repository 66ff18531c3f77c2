"""What a case is, and what cases record of results."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cesaro as cs
from benchmarks._golden.record import repeatable

METHODS = ("diff-sgq", "diff-gq1", "diff-gq2", "diff-gq3", "diff-gq4", "gradient-dice")
WAYS = ("memory", "streamed", "resumed")

Case = Callable[[], dict[str, Any]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Register a function as the case of its name."""
    CASES[function.__name__.replace("_", "-")] = function
    return function


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
    return {name: or_error(partial(getattr, estimator, name)) for name in names}


def of_sweep(sweep: cs.Sweep, name: str = "sweep.npz") -> dict[str, Any]:
    """All runs, and the file of them."""
    sweep.save(name)
    arrays = {key: getattr(sweep, key) for key in ("seeds", "samples", "reward_rate", "diverged_at", "records")}
    final: Any = sweep.final
    if final is not None:
        import jax

        final = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(final)}
    return {"settings": sweep.settings, **arrays, "final": final, "file": Path(name)}


def or_error(call: Callable[[], Any]) -> Any:
    """What the call gives, or class and sentence of the error that it raises."""
    try:
        return call()
    except (cs.CesaroError, ValueError, TypeError) as error:
        return {"error": type(error).__name__, "is_input_error": isinstance(error, cs.InputError), "says": str(error)}


def of_log(log: cs.Log) -> dict[str, Any]:
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
