"""Findings on answers of several kinds, on discrete logs with rare pairs, and on worlds: what each verdict needs."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cesaro as cs
from cesaro.diagnostics import Diagnostic
from cesaro.diagnostics.panel import PanelFacts, panel_findings, rare_pairs, table_findings, width
from cesaro.diagnostics.worlds import Residual, WorldFacts, hidden_state, over_time
from cesaro.passes.standard_errors import Estimate
from cesaro.policies import attach
from cesaro.worlds.residual import _trend, _worth

SURE = Residual(0.0, 0.01, 1_000.0, 0.0, 0.0)


def _facts(**changed: Any) -> PanelFacts:
    """A rate of 1 with a half width of 0.1, where the log earned nothing."""
    rate = Estimate(1.0, 0.1 / 1.96, np.inf)
    world = WorldFacts(0.0, 0.01, SURE, None, 0.0, 0.0, 0.0)
    logged = Estimate(0.0, 0.01, np.inf)
    facts = PanelFacts(rate, rate, logged, closed_forms=rate, world=rate, note="", about_world=world)
    return replace(facts, **changed)


def _verdicts(facts: PanelFacts, *of_closed_form: Diagnostic) -> dict[str, str]:
    return {entry.name: entry.verdict for entry in panel_findings(facts, of_closed_form)}


@pytest.mark.parametrize(("difference", "verdict"), [(0.9, "ok"), (0.8, "caution"), (0.11, "caution"), (0.09, "bad")])
def test_a_width_is_measured_by_the_difference(difference: float, verdict: str) -> None:
    """0.1 to each side: 11 %, 12.5 %, 91 % and 111 % of it."""
    assert _verdicts(_facts(difference=Estimate(difference, 0.01, np.inf)))["width of the interval"] == verdict


@pytest.mark.parametrize(
    ("off", "error", "verdict"), [(0.04, 0.01, "ok"), (0.1, 0.06, "ok"), (0.1, 0.01, "caution"), (0.2, 0.01, "bad")]
)
def test_held_out_rows_that_contradict_the_world(off: float, error: float, verdict: str) -> None:
    """A half width of 0.1: off by less than half of it, within noise, by all of it, and by twice as much."""
    facts = _facts()
    assert facts.about_world is not None
    world = replace(facts.about_world, residual=replace(SURE, value=off, standard_error=error))
    assert _verdicts(replace(facts, about_world=world))["held-out rows"] == verdict


def test_an_interval_as_narrow_as_the_log_s_own_is_not_bad_beside_a_small_difference() -> None:
    rate = Estimate(1.0, 0.1, np.inf)
    assert width(rate, 0.01, replace(rate, standard_error=0.06)).verdict == "caution"
    assert width(rate, 0.01, replace(rate, standard_error=0.04)).verdict == "bad"
    assert width(rate, 10.0, rate).verdict == "ok"


def test_a_width_names_both_sides_where_they_differ() -> None:
    even = Estimate(1.0, 0.1 / 1.96, np.inf)
    assert "reaches 0.1 to each side, 10 % of the difference from the log, 1." in width(even, 1.0, even).sentence
    assert "reaches 0.1 down and 0.4 up" in width(replace(even, above=0.3), 1.0, even).sentence


def test_kinds_that_are_apart_or_alone_deserve_caution() -> None:
    assert _verdicts(_facts())["agreement of kinds"] == "ok"
    assert (
        _verdicts(_facts(world=Estimate(1.2, 0.05, np.inf)))["agreement of kinds"] == "caution"
    )  # 2.8 standard errors
    assert _verdicts(_facts(world=None, about_world=None, note="Too few rows."))["agreement of kinds"] == "caution"


@pytest.mark.parametrize(("remembered", "verdict"), [(0.0, None), (0.7, "caution"), (0.98, "bad")])
def test_a_start_that_is_never_forgotten_is_bad(remembered: float, verdict: str | None) -> None:
    assert _verdicts(_facts(remembered=remembered)).get("dependence on the start") == verdict


@pytest.mark.parametrize(
    ("value", "before", "after"),
    [(0.05, "caution", "caution"), (-0.2, "caution", "bad"), (0.2, "ok", "ok"), (0.05, "bad", "bad")],
)
def test_a_change_that_the_interval_does_not_hold_is_bad(value: float, before: Any, after: str) -> None:
    """And a change of rewards alone is told where the rate changes, too."""
    found = _verdicts(
        _facts(), Diagnostic("drift", value, before, "It changed."), Diagnostic("reward drift", 1.0, "caution", "So.")
    )
    assert found["drift"] == after
    assert ("reward drift" in found) == (before != "ok")


def test_what_the_interval_holds_is_no_finding() -> None:
    held = ["negative density ratio", "influential rows", "effective sample size", "agreement of features", "memory"]
    of_closed_form = [Diagnostic(name, 1.0, "bad", "Oh.") for name in [*held, "contradiction"]]
    found = _verdicts(_facts(), *of_closed_form)
    assert not set(held) & set(found)
    assert found["contradiction"] == "bad"
    assert "memory" in _verdicts(_facts(about_world=None), *of_closed_form)  # which only a world could have answered


@pytest.mark.parametrize(
    ("share", "before", "after"), [(0.02, "caution", "ok"), (0.04, "caution", "caution"), (0.2, "bad", "bad")]
)
def test_a_few_actions_outside_of_the_log_are_held(share: float, before: Any, after: str) -> None:
    assert _verdicts(_facts(), Diagnostic("support", share, before, "Outside.", "Collect."))["support"] == after


def test_rows_per_pair_are_told_where_rare_pairs_are_not() -> None:
    rate = Estimate(1.0, 0.01, np.inf)
    of_closed_form = [Diagnostic("rows per pair", 0.5, "bad", "Few."), Diagnostic("contradiction", 0.0, "ok", "None.")]
    rare = rare_pairs(rate, np.array([0.9, 1.1]), 0.95)
    assert rare.verdict == "caution"
    names = [entry.name for entry in table_findings(rate, rate, rate, of_closed_form, rare)]
    assert names == ["contradiction", "width of the interval", "rare pairs"]
    names = [entry.name for entry in table_findings(rate, rate, rate, of_closed_form, None)]
    assert names == ["rows per pair", "contradiction", "width of the interval"]


@pytest.mark.parametrize(("part", "verdict"), [(0.003, "ok"), (0.005, "caution"), (0.007, "bad")])
def test_time_that_tells_more_than_the_columns(part: float, verdict: str) -> None:
    assert over_time(replace(SURE, trend=part)).verdict == verdict


@pytest.mark.parametrize(("part", "verdict"), [(0.005, "ok"), (0.015, "caution"), (0.03, "bad")])
def test_a_row_before_that_tells_more_than_the_columns(part: float, verdict: str) -> None:
    assert hidden_state(replace(SURE, memory=part)).verdict == verdict


@pytest.mark.parametrize("grows", ["in the log", "in trajectories"])
def test_a_trend_is_the_variance_along_a_line(grows: str) -> None:
    """Residuals of unit noise and a line of standard deviation 0.5: a quarter, up to noise of 1 % at 4,000 rows."""
    rng = np.random.default_rng(0)
    count, length = 4_000, 100
    place = np.arange(count) if grows == "in the log" else np.arange(count) % length
    line = (place - place.mean()) / place.std()
    flat, rising = rng.normal(size=count), rng.normal(size=count) + 0.5 * line
    follows = np.arange(count) % length > 0

    def found(*columns: Any) -> float:
        model = SimpleNamespace(rows=np.arange(count), residuals=np.stack(columns, axis=1))
        process: Any = SimpleNamespace(model=model, rewards=np.zeros(count), follows=follows)
        return _trend(process)

    assert found(flat) < 0.003
    assert found(flat, rising) == pytest.approx(0.25, abs=0.04)


@pytest.mark.parametrize("gives", ["labels", "probabilities"])
def test_values_of_a_target_that_takes_few_of_many_labels(gives: str) -> None:
    """The log has six labels and rollouts of the target two: its values are those of the labels that it takes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=2_001)

    def log(actions: Any) -> cs.Transitions:
        return cs.Transitions(x[:-1], actions, -(x[:-1] ** 2) + actions, x[1:])

    whole = log(rng.integers(0, 6, 2_000))
    taken = np.where(x[:-1] > 0, 4, 2)
    values = cs.DiffLSTD("fourier:10", ridge=1e-6, quiet=True).fit(log(taken), _by_sign(gives))
    worth = _worth(values, whole.action_levels, attach(_by_sign(gives), whole), rng)
    np.testing.assert_allclose(worth(whole.observations), values.predict(x[:-1], taken))


def _by_sign(gives: str) -> Any:
    def labels(seen: Any) -> Any:
        return np.where(np.asarray(seen) > 0, 4, 2)

    if gives == "labels":
        return labels
    return cs.policies.Finite([2, 4], lambda seen: np.eye(2)[(np.asarray(seen) > 0).astype(int)])
