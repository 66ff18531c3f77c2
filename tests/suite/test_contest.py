"""Contestants against numbers by hand, and evidence that comes back from its files."""

import math
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

import cesaro as cs
from cesaro.diagnostics.worlds import Residual
from cesaro.errors import InputError
from cesaro.files import write_values
from cesaro.panel import QUANTILE
from cesaro.rehearsal import Rehearsal
from cesaro.suite import contest, make, truths
from cesaro.suite.contest import (
    SCHEMA,
    Evidence,
    averaged,
    board,
    doubly_robust,
    hull,
    kinds,
    median,
    read,
    rehearsed,
    world,
)
from cesaro.suite.design import BASE
from cesaro.suite.methods import Answer
from cesaro.suite.scoreboard import Row, Scoreboard

FOUND = Rehearsal(
    candidates=("a", "b", "c"),
    notes=("", "", ""),
    rates=np.array([1.0, 2.0, 4.0]),
    standard_errors=np.array([0.3, 0.2, 0.1]),
    truths=np.array([1.0, 2.0, 3.0, 6.0]),
    noise=np.zeros(4),
    rehearsed=np.array([[1.5, 2.0, 3.0], [1.5, 3.0, 4.0], [3.5, 4.0, 1.0], [6.5, 5.0, 8.0]]),
    rehearsed_standard_errors=np.full((4, 3), 0.5),
    logged=0.0,
    own=np.zeros(4),
    residual=Residual(0.5, 0.2, 100.0, 0.0, 0.0),
)
ONE = Evidence(
    "linear-quadratic-1",
    BASE,
    0,
    "main",
    "main",
    {
        name: contest._answer(rate, QUANTILE * error)
        for name, rate, error in zip(FOUND.candidates, FOUND.rates.tolist(), FOUND.standard_errors.tolist())
    }
    | {"last layer": Answer(3.0, standard_error=0.5), "neural diff-sgq": Answer(7.0)},
    FOUND,
)

ANSWERS = {name: answer._asdict() for name, answer in ONE.answers.items()}


def _with(**changes: Any) -> Evidence:
    return ONE._replace(rehearsal=replace(FOUND, **changes))


def _half(answer: Answer) -> float:
    return (answer.high - answer.low) / 2


def test_the_median_by_hand() -> None:
    answer = median(ONE)
    assert answer.rate == 2.0
    assert _half(answer) == pytest.approx(QUANTILE * math.hypot(0.2, math.sqrt(14 / 9)))  # deviations −4/3, −1/3, 5/3


def test_the_average_by_hand() -> None:
    """Errors of 0.3, 0.2 and 0.1, and what the three differ by beyond them."""
    answer = averaged(ONE)
    weights = np.array([100 / 9, 25, 100])
    mean = weights @ [1, 2, 4] / weights.sum()
    beyond = weights @ (np.array([1, 2, 4]) - mean) ** 2 - 2
    apart = beyond / (weights.sum() - weights @ weights / weights.sum())
    weights = 1 / (np.array([0.3, 0.2, 0.1]) ** 2 + apart)
    weights /= weights.sum()
    rate = weights @ [1, 2, 4]
    assert answer.rate == pytest.approx(rate)
    spread = weights @ (np.array([1, 2, 4]) - rate) ** 2
    assert _half(answer) == pytest.approx(QUANTILE * math.hypot(weights @ [0.3, 0.2, 0.1], math.sqrt(spread)))


def test_the_world_by_hand() -> None:
    answer = world(ONE)
    assert answer.rate == 2.5
    spread = math.sqrt(14 / 3)  # deviations −2, −1, 0, 3
    assert _half(answer) == pytest.approx(student.ppf(0.975, 3) * spread * math.sqrt(1 + math.pi / 8) + 0.3)


def test_kinds_lie_between_and_hulls_hold_both() -> None:
    one, other, between, both = (make(ONE) for make in (averaged, world, kinds, hull))
    share = other.standard_error**2 / (one.standard_error**2 + other.standard_error**2)
    assert between.rate == pytest.approx(share * one.rate + (1 - share) * other.rate)
    both_sizes = share * one.standard_error, (1 - share) * other.standard_error
    within = both_sizes[0] ** 2 + both_sizes[1] ** 2 + both_sizes[0] * both_sizes[1]  # a correlation of one half
    apart = share * (1 - share) * (one.rate - other.rate) ** 2
    assert _half(between) == pytest.approx(QUANTILE * math.sqrt(within + apart))
    assert (both.low, both.high) == (min(one.low, other.low), max(one.high, other.high))
    far = _with(truths=FOUND.truths + 100)
    assert _half(kinds(far)) > 20  # where kinds disagree, the answer says so
    weights = np.array([one.standard_error, other.standard_error, 0.5]) ** -2.0
    assert kinds(ONE, networks=True).rate == pytest.approx(weights @ [one.rate, other.rate, 3.0] / weights.sum())


def test_without_a_world_closed_forms_speak_alone() -> None:
    alone = ONE._replace(rehearsal=None, refused="No.")
    assert kinds(alone).rate == averaged(ONE).rate
    assert hull(alone).high == pytest.approx(averaged(ONE).high)
    for contestant in (world, doubly_robust, partial(rehearsed, guard=True)):
        assert contestant(alone).verdict == "refused"
    assert kinds(alone._replace(answers={})).verdict == "refused"


def test_pivots_are_of_weights_from_other_worlds() -> None:
    """Two candidates that are right in one world each: weighed by the other three worlds, each is worst where it counts."""
    mistakes = np.array([[0.1, 2.0], [1.0, 1.0], [1.0, 1.0], [2.0, 0.1]])
    found = _with(
        candidates=("a", "b"),
        rates=np.array([1.0, 1.0]),
        standard_errors=np.array([0.5, 0.5]),
        truths=np.zeros(4),
        rehearsed=mistakes,
        rehearsed_standard_errors=np.full((4, 2), 0.5),
    )
    pivots = []
    for world_ in range(4):
        others = np.delete(mistakes, world_, axis=0)
        weights = 1 / (others**2).mean(axis=0)
        weights /= weights.sum()
        rate = weights @ mistakes[world_]
        pivots.append(abs(rate) / math.sqrt(0.25 + weights @ (mistakes[world_] - rate) ** 2))
    assert max(pivots) > QUANTILE * 1.01  # and so decides
    assert _half(rehearsed(found, guard=False)) == pytest.approx(max(pivots) * 0.5)
    assert found.rehearsal is not None
    silent = found.rehearsal.rehearsed_standard_errors.copy()
    silent[2, 0] = np.nan
    assert replace(found.rehearsal, rehearsed_standard_errors=silent).eligible.tolist() == [False, True]


def test_rehearsal_by_hand() -> None:
    """In every world a is off by a half, b by 1 and c by 2."""
    weights = np.array([4.0, 1.0, 1 / 4])
    weights /= weights.sum()
    rate = weights @ FOUND.rates
    error = math.sqrt((weights @ FOUND.standard_errors) ** 2 + weights @ (FOUND.rates - rate) ** 2)
    plain, guarded = rehearsed(ONE, guard=False), rehearsed(ONE, guard=True)
    assert plain.rate == guarded.rate == pytest.approx(rate)
    assert _half(plain) >= QUANTILE * error - 1e-12
    assert _half(guarded) - _half(plain) == pytest.approx(0.5 + QUANTILE * 0.2)
    wild = _with(rehearsed=FOUND.rehearsed + 50)  # in worlds nobody was right
    assert _half(rehearsed(wild, guard=False)) > 5 * _half(plain)
    silent = np.where(np.arange(3) == 2, np.nan, FOUND.rehearsed)
    assert 1.0 < rehearsed(_with(rehearsed=silent), guard=False).rate < 2.0  # c is not eligible


def test_the_correction_by_hand() -> None:
    answer = doubly_robust(ONE)
    assert answer.rate == 3.0
    assert _half(answer) == pytest.approx(QUANTILE * math.hypot(0.2, math.sqrt(14 / 3) / 2))


def test_evidence_comes_back_and_is_judged(tmp_path: Path) -> None:
    """A file as `collect` writes it; the kernel's set is of the log itself, and holds a truth that its features can express."""
    name = "linear-quadratic-1"
    main = make(name).main
    about = {"system": name, **asdict(BASE), "part": "main", **contest._made()}
    kept = {**about, "log": 3, "targets": {main: {"answers": ANSWERS, "rehearsal": asdict(FOUND)}}}
    write_values(tmp_path / "log.npz", SCHEMA, kept)
    (one,) = read(tmp_path / "log.npz")
    assert (one.system, one.cell, one.log, one.target) == (name, BASE, 3, main)
    assert one.rehearsal is not None
    np.testing.assert_array_equal(one.rehearsal.rehearsed, FOUND.rehearsed)
    assert one.rehearsal.residual == FOUND.residual
    assert one.answers["c"] == ONE.answers["c"]
    found = {row.method: row for row in board([tmp_path]).rows}
    assert found["A median"].rate == 2.0
    assert found["only c"].half_width * found["only c"].scale == pytest.approx(QUANTILE * 0.1)
    kernel, truth = found["D kernel Bellman"], truths(name).targets[main].rate
    assert kernel.truth == truth
    assert kernel.low < truth < kernel.high
    assert abs(kernel.error) < 0.2
    write_values(
        tmp_path / "refused.npz", SCHEMA, {**about, "log": 4, "targets": {main: {"answers": ANSWERS, "refused": "No."}}}
    )
    score = board([tmp_path]).score("B world", name)
    assert score is not None
    assert (score.logs, score.answered) == (2, 0.5)  # a refusal counts
    write_values(tmp_path / "other.npz", SCHEMA, {**kept, "worlds": 3})
    with pytest.raises(InputError, match="number of worlds; collect it again"):
        board([tmp_path])


def test_exam_systems_are_not_collected_by_accident(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.argv", ["contest", "collect", "--only", "dosing", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="exam system"):
        contest.main()
    monkeypatch.setattr("sys.argv", ["contest", "collect", "--only", "garnet-20", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="a system with numbers"):
        contest.main()


def test_a_map_that_was_not_asked_about_a_system_is_compared_on_the_others() -> None:
    cases = [
        ("one", "a", 0.1),
        ("one", "b", 0.4),
        (contest.FIXED, "a", 0.2),
        ("closed form", "a", 0.1),
        ("B world", "b", 0.2),
    ]
    row: dict[str, Any] = {field.name: math.nan for field in fields(Row)}
    row |= {
        "side": "exam",
        "kind": "continuous",
        "fault": False,
        "cell": BASE,
        "part": "main",
        "log": 0,
        "target": "main",
    }
    row |= {"standard_error": 0.5, "verdict": "none", "truth": 0.0, "logged": -1.0, "scale": 1.0}
    rows = Scoreboard.of(
        Row(**(row | {"system": system, "method": method, "rate": error, "low": error - 1, "high": error + 1}))
        for method, system, error in cases
    )
    found = {one.method: one for one in contest.standings(rows, BASE)}
    assert {name: one.systems for name, one in found.items()} == {
        "one": 2,
        contest.FIXED: 1,
        "closed form": 1,
        "B world": 1,
    }
    assert found["one"].excess == pytest.approx(
        math.sqrt(0.1 / 0.2 * 0.4 / 0.2)
    )  # the best candidates: FIXED on a, B on b
    assert found["one"].gain == pytest.approx(1.0)  # on a alone, the only system of the immediate answer
    assert f"{contest.FIXED} (1 systems)" in contest.text(rows)


def test_the_kernel_has_as_many_features_however_many_actions() -> None:
    """Twenty of them had 6,000 test functions, which is refused."""
    rng = np.random.default_rng(0)
    seen, actions = rng.normal(size=401), rng.permutation(np.arange(400) % 20)
    log = cs.Transitions(seen[:-1], actions, seen[1:] + 0.1 * actions, seen[1:])
    answer = contest.kernel_bellman(log, "uniform", 0)
    assert math.isfinite(answer.rate)
