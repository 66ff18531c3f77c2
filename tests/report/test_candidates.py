"""What reports say of an answer of several candidates: a made-up panel, so that every number is known."""

import csv
import math
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cesaro as cs
from cesaro import comparison, evaluation
from cesaro.diagnostics.panel import PanelFacts
from cesaro.evaluation import COVERS_CLOSED_FORMS, COVERS_COMMON_PAIRS, COVERS_PANEL
from cesaro.panel import Opinion, Panel, Parts
from cesaro.passes.standard_errors import Estimate
from cesaro.report import words
from cesaro.report.html import evaluation_page
from cesaro.report.pictures import pictures, rates_picture
from cesaro.report.rates import candidates_figure, comparison_rates
from cesaro.report.text import comparison_text, evaluation_text
from cesaro.views import Scarce, Shares, Views

DOCS = Path(__file__).parents[2] / "docs"
WORLD = Estimate(0.9, 0.1, math.inf)


@pytest.fixture(scope="module")
def log() -> cs.Transitions:
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(2, 1_000))
    return cs.Transitions(states, actions, rewards=states + 0.1 * actions)


@pytest.fixture(scope="module")
def alone(log: cs.Transitions) -> cs.Evaluation:
    """The closed form alone, of a target that does more than the log."""
    return cs.evaluate(log, lambda seen, rng: np.full(len(seen), 1.5), name="target", quiet=True)


def with_panel(alone: cs.Evaluation, world: Estimate | None = WORLD, wild: Estimate | None = None) -> cs.Evaluation:
    """An answer of 1 ± 0.2, where the log earned 0.5; one candidate has a weight of 1 %, and a wild answer."""
    target, wild = Estimate(1.0, 0.1, math.inf), wild or Estimate(-50.0, 30.0, math.inf)
    opinions = (
        Opinion("auto", "closed form", Estimate(1.1, 0.1, math.inf), weight=0.49),
        Opinion("polynomial:2", "closed form", wild, weight=0.01),
        Opinion("world", "world", world, weight=0.0 if world is None else 0.5, note="" if world else "No."),
    )
    difference = Estimate(0.5, 0.1, math.inf)
    facts = PanelFacts(
        target, difference, Estimate(0.5, 0.01, math.inf), closed_forms=target, world=world, note="", about_world=None
    )
    panel = Panel(opinions, target, difference, Parts(0.2, 0.1, 0.7), facts)
    settings = evaluation._panel_settings(alone, panel)
    changes: dict[str, Any] = {"behavior": Estimate(0.5, 0.01, math.inf), "limit": Estimate(1.2, 0.2, math.inf)}
    return replace(
        alone, panel=panel, target=target, difference=difference, settings=settings, effort="quick", **changes
    )


def test_the_answer_at_once_has_a_row_of_its_own_everywhere(alone: cs.Evaluation) -> None:
    answer = with_panel(alone)
    *_, last = words.candidate_rows(answer)
    assert (last.name, last.weight) == (words.AT_ONCE, "none")
    rate, low, high = words.numbers(answer.limit, 0.95, words.decimals_of(answer))
    assert (last.rate, last.interval) == (rate, f"{low} … {high}")
    page = evaluation_page(answer, [rates_picture(answer), *pictures(answer)])
    for shown in (evaluation_text(answer), evaluation_text(answer, full=True), page):
        assert words.AT_ONCE in shown
        assert last.interval in shown
    (axes,) = candidates_figure(answer).axes
    assert axes.get_yticklabels()[-1].get_text().replace("\n", " ") == words.AT_ONCE
    line = next(line for line in axes.lines if list(line.get_ydata()) == [4, 4])
    assert line.get_xdata()[0] == pytest.approx(answer.interval(of="limit")[0])


def test_candidates_without_weight_do_not_set_the_scale(alone: cs.Evaluation) -> None:
    answer = with_panel(alone)
    (axes,) = candidates_figure(answer).axes
    left, right = axes.get_xlim()
    assert 0.3 < left < 0.5 < 1.3 < right < 1.6  # the log's rate, and the answer and its candidates with some weight
    arrows = [(line.get_marker(), line.get_ydata()[0]) for line in axes.lines if line.get_marker() in ("<", ">")]
    assert ("<", 2) in arrows  # polynomials of degree 2 go on to the left
    paler = {int(line.get_ydata()[0]) for line in axes.lines if line.get_alpha() not in (None, 1.0)}
    assert paler == {2, 4}  # and the answer at once
    (axes,) = candidates_figure(replace(answer, behavior=Estimate(-99.0, 0.1, math.inf))).axes
    assert axes.get_xlim()[0] > 0.5
    assert "← the log" in [text.get_text() for text in axes.texts]


def test_what_the_interval_covers_depends_on_who_voted(alone: cs.Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = with_panel(alone)
    assert answer.covers == COVERS_PANEL
    assert answer.settings["method"] == "panel of 2 closed forms and a learned process"
    assert answer.settings["first_closed_form"] == alone.settings["method"]
    assert answer.settings["features"] == alone.settings["features"]
    silent = with_panel(alone, world=None)
    assert silent.covers == COVERS_CLOSED_FORMS
    assert silent.settings["method"] == "panel of 2 closed forms; the learned process has no vote"
    monkeypatch.setattr(evaluation, "posterior_rates", lambda *_, **__: None)
    rng = np.random.default_rng(0)
    states, actions = rng.integers(0, 3, 500), rng.integers(0, 2, 500)
    discrete = cs.Transitions(states, actions, rewards=states + 0.0)
    assert cs.evaluate(discrete, "uniform", effort="quick", quiet=True).covers == COVERS_COMMON_PAIRS


def test_where_rows_are_missing_is_what_the_target_has_more_often() -> None:
    over_time: Any = None
    number = Shares("x", None, np.array([0.0, 1.0, 2.0, 3.0, 4.0]), np.array([0.4, 0.4, 0.1, 0.1]), np.full(4, 0.25))
    whole = Shares(
        "n", None, np.array([0.5, 1.5, 2.5, 3.5]), np.array([0.4, 0.2, 0.4]), np.array([0.1, 0.8, 0.1]), True
    )
    labels = Shares("a", ("on", "off"), None, np.array([0.8, 0.2]), np.array([0.5, 0.5]))
    same = Shares("y", None, np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.5]), np.array([0.52, 0.48]))
    (state, action) = Views(over_time, actions=(labels,), occupancy=(number, whole)).scarce
    assert (state.column, state.low, state.high, state.is_action) == ("n", 2.0, 2.0, False)
    assert (state.logged, state.target) == pytest.approx((0.2, 0.8))
    assert (action.label, action.low, action.is_action) == ("off", None, True)
    (state,) = Views(over_time, actions=(same,), occupancy=(number,)).scarce
    assert (state.column, state.low, state.high) == ("x", 2.0, None)
    assert (state.logged, state.target) == pytest.approx((0.2, 0.5))
    assert Views(over_time, actions=(same,)).scarce == ()


@pytest.mark.parametrize(
    ("low", "high", "is_whole", "step", "said"),
    [
        (2017.0, None, True, 1.0, "year from 2017 on"),
        (2017.0, 2017.0, True, 1.0, "year 2017"),
        (None, 1234.0, True, 10.0, "year up to 1234"),
        (None, 101.325, False, 0.05, "year below 101.325"),
        (0.51, 0.7, False, 0.1, "year between 0.51 and 0.7"),
    ],
)
def test_places_are_told_exactly_enough(
    low: float | None, high: float | None, is_whole: bool, step: float, said: str
) -> None:
    assert words._place(Scarce("year", False, None, low, high, is_whole, step, 0.1, 0.5)) == said


@pytest.mark.parametrize("confidence", [0.95, 0.5])
def test_what_verdicts_were_worth_is_told_of_the_intervals_that_were_tested(
    alone: cs.Evaluation, confidence: float
) -> None:
    shown = words.expectation(replace(with_panel(alone), confidence=confidence))
    assert bool(shown) == (confidence == words.TESTED_CONFIDENCE)


def test_rows_that_would_help_are_named_everywhere(alone: cs.Evaluation, log: cs.Transitions) -> None:
    """The target's action is 1.5 in every state, and the log's is a normal number."""
    answer = with_panel(alone)
    (place,) = answer.scarce
    assert place.is_action
    assert place.low is not None
    assert place.high is not None
    assert place.low <= 1.5 <= place.high
    assert (place.target, place.logged) == pytest.approx((1.0, 0.05), abs=0.05)
    said = words.shrink_sentence(answer)
    assert "the learned process are apart" in said  # the largest of the parts
    page = evaluation_page(answer, [rates_picture(answer)])
    assert said.replace("'", "&#39;") in page
    assert said in " ".join(evaluation_text(answer).split())
    both = comparison.Comparison({"target": answer, "other": replace(answer, name="other")}, {})
    both = replace(both, differences={("target", "other"): Estimate(0.1, 0.1, math.inf)})
    assert f"other: {said}" in " ".join(comparison_text(both).split())
    document = answer.to_dict()["width"]
    page = (DOCS / "reference/json.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in page for name in (*document, *document["more_rows"][0]))
    assert (document["kinds"], document["held_out"]) == (0.7, 0.0)
    assert alone.to_dict()["width"] is None


@pytest.mark.parametrize(
    ("difference", "said"),
    [(0.5, "yes, by 0.30 to 0.70"), (-0.5, "no, worse by 0.30 to 0.70"), (0.1, "not decided")],
)
def test_what_can_be_decided(alone: cs.Evaluation, difference: float, said: str) -> None:
    answer = replace(with_panel(alone), difference=Estimate(difference, 0.1, math.inf))
    for cost in (None, "price"):  # better is better, whatever is counted
        assert f"Better than the log: {said}" in words.decision(replace(answer, cost=cost, diagnostics=()))


def test_verdicts_were_worth_what_the_boards_say() -> None:
    found = {verdict: [0, 0, 0] for verdict in words.TESTED}
    for board in words.TESTED_BOARDS:
        with (DOCS / "results/suite" / board / "verdicts.csv").open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["method"] == "default":
                    counted = [int(row[name]) for name in words.Tested._fields]
                    found[row["verdict"]] = [a + b for a, b in zip(found[row["verdict"]], counted)]
    assert {verdict: words.Tested(*counts) for verdict, counts in found.items()} == words.TESTED


def test_only_answers_as_they_were_tested_say_what_to_expect(alone: cs.Evaluation) -> None:
    answer = with_panel(alone)
    assert words.expectation_of(answer.verdict) in " ".join(evaluation_text(answer).split())
    for other in (alone, replace(answer, effort="full"), replace(answer, is_logged=True)):
        assert words.expectation(other) == ""


def test_differences_keep_both_names(alone: cs.Evaluation) -> None:
    long = ["a policy with a very long name for its first version", "a policy with a very long name for its other one"]
    long += [f"{'x' * 60}{middle}{'y' * 60}" for middle in "ab"]
    answers = {name: replace(alone, name=name, diagnostics=()) for name in long}
    pairs = {pair: Estimate(0.1, 0.1, math.inf) for pair in combinations(long, 2)}
    _, axes = comparison_rates(comparison.Comparison(answers, pairs)).axes
    labels = [text.get_text() for text in axes.get_yticklabels()]
    partners = [part for label in labels for part in label.split(" −\n")]
    assert len(labels) == len(set(labels)) == 6
    assert len(partners) == 12
    assert len(set(partners)) == 4
    assert max(map(len, partners)) <= 16


def test_a_comparison_says_once_how_long_it_takes(
    log: cs.Transitions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(comparison, "with_effort", lambda answer, *_: answer)
    cs.compare(log, {"a": lambda seen, rng: 0 * seen, "b": lambda seen, rng: seen}, effort="quick")
    said = capsys.readouterr().err
    assert said.count("on two cores") == 1
    assert "checking two answers in five other ways each: about 20 seconds" in said
