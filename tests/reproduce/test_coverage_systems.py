"""Systems with numbers for states: their exact rates against simulated logs, limits, and what the study counts."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cesaro as cs
from cesaro.closed_forms.tabular import NotIdentified
from cesaro.reproduce.coverage import Config, systems
from cesaro.reproduce.coverage.systems import (
    JUDGED,
    METHODS,
    SYSTEMS,
    VERDICTS,
    ContinuousSystem,
    LinearGaussian,
    SystemsResult,
)

pytestmark = pytest.mark.slow

CONFIG = Config(rows=(500,), rows_logs=(10,), limits=(0,))


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_exact_rates_are_those_of_simulated_logs(system: ContinuousSystem) -> None:
    """The log's rate over 200 logs within 5 standard errors (error rate 6e-7), and the target's by logs of its own."""
    seen, _, rewards, after = (np.stack(column) for column in zip(*system.logs(200, 300, np.random.default_rng(1))))
    assert after[:, :-1] == pytest.approx(seen[:, 1:])
    target = replace(system, gains=system.gains[::-1]) if isinstance(system, LinearGaussian) else _swapped(system)
    for rate, earned in (
        (system.logged, rewards),
        (system.truth, np.stack([log[2] for log in target.logs(200, 300, np.random.default_rng(2))])),
    ):
        means = earned.mean(axis=1)
        assert abs(means.mean() - rate) < 5 * means.std() / math.sqrt(len(means))
    assert abs(system.truth - system.logged) > 0.05 * abs(system.logged)


def _swapped(system: Any) -> Any:
    """Logged by the target."""

    class Swapped(type(system)):  # type: ignore[misc] # a class that is known at run time
        def chances(self, x: Any, which: int) -> Any:
            return super().chances(x, 1 - which)

    return Swapped(**vars(replace(system)))


def test_quadratic_values_are_in_the_span_of_the_default() -> None:
    """So that the limit is the truth: 40 times the rows, five standard errors."""
    system = next(system for system in SYSTEMS if system.name == "two inputs")
    assert system.is_expressible
    parts = [cs.Transitions(*log) for log in system.logs(1, 2_000, np.random.default_rng(3))]
    fitted = systems.fit("default", parts[0], system.policy)
    columns = [np.concatenate(column) for column in zip(*system.logs(400, 200, np.random.default_rng(4)))]
    long = cs.Transitions(*columns, trajectory=np.repeat(np.arange(400), 200))
    found, error = systems.limit(fitted, long, system.policy)
    assert abs(found - system.truth) < 5 * error
    assert error < fitted.standard_error_ / 3


def test_doubled_dual_features_extend_the_primal_ones() -> None:
    system = SYSTEMS[0]
    log = cs.Transitions(*system.logs(1, 1_000, np.random.default_rng(0))[0])
    fitted = systems.fit("doubled", log, system.policy)
    rows = next(iter(fitted.prepared_.rows()))
    assert (rows.x.shape[1], rows.v.shape[1]) == (20, 40)
    np.testing.assert_array_equal(rows.v[:, :20], rows.x)


def result(low: float, high: float, verdict: str = "ok", limit: float = math.nan) -> SystemsResult:
    """The result of logs whose estimates are the truth, with intervals from truth − low to truth + high gaps."""
    found = {}
    for system in SYSTEMS:
        gap = abs(system.truth - system.logged)
        ends = {"low": system.truth - low * gap, "high": system.truth + high * gap}
        values = {"estimate": system.truth, **ends, **{f"answer_{key}": end for key, end in ends.items()}}
        values |= {"limit": system.truth + limit * gap, "limit_error": 0.0}
        arrays: dict[str, Any] = {key: np.full((len(METHODS), 10), value) for key, value in values.items()}
        found[system.name, 500] = {**arrays, "verdict": np.full(10, VERDICTS.index(verdict))}
    return SystemsResult(CONFIG, found)


def test_counts_of_coverage_scores_and_verdicts() -> None:
    held = systems.over(result(1, 1).over("default", is_judged=True))
    expected = {"covers": 1, "half_width": 1, "score": 2, "bias": 0, "ok": 1, "ok_misses": 0, "ok_of_close": 1}
    assert {key: held[key] for key in expected} == pytest.approx(expected)
    missed = systems.over(result(-0.5, 1).over("default", is_judged=True))
    assert (missed["covers"], missed["ok_misses"], missed["score"]) == pytest.approx((0, 1, 0.5 + 40 * 0.5))
    assert systems.over(result(1, 1, "bad").over("default", is_judged=True))["ok"] == 0
    assert systems.over(result(1, 1, limit=0.9).over("default", is_judged=True))["covers_limit"] == 1
    assert systems.over(result(1, 1, limit=1.1).over("default", is_judged=True))["covers_limit"] == 0
    assert len(result(1, 1).over("default", is_judged=True)) == len(JUDGED)


def test_what_is_promised() -> None:
    good = result(1, 1, limit=0.5)
    assert not good.is_as_promised  # the others score as well
    for name, (low, high) in {"better": (0.9, 0.9), "worse": (1.1, 1.1), "off": (-0.1, 0.9)}.items():
        other = result(low, high, limit=0.5)
        mixed = {
            key: {
                what: np.concatenate([other.found[key][what][:1], values[1:]]) if values.ndim == 2 else values
                for what, values in arrays.items()
            }
            for key, arrays in good.found.items()
        }
        assert SystemsResult(CONFIG, mixed).is_as_promised == (name == "better")


def test_a_refusal_covers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise NotIdentified("no data")

    monkeypatch.setattr(systems, "fit", refuse)
    piece = systems._piece(CONFIG, 0, 300, 0, 2)
    cell = systems._cell(SYSTEMS[0], 300, piece, 0)
    assert (cell.answered, cell.covers, cell.ok) == (0, 0, 0)
    assert math.isnan(cell.score)
