"""Scores against what they are by hand, and an estimator of one's own from a fit to a table."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import cesaro as cs
from cesaro.cli import app
from cesaro.errors import InputError
from cesaro.suite import design
from cesaro.suite.design import BASE, LARGE, Cell, Part
from cesaro.suite.methods import Answer, disagreement, methods, own
from cesaro.suite.scoreboard import Row, Scoreboard

ROW = Row(
    system="a",
    side="development",
    kind="continuous",
    fault=False,
    cell=BASE,
    part="main",
    log=0,
    target="main",
    method="m",
    rate=1.0,
    low=0.5,
    high=1.5,
    standard_error=0.25,
    verdict="ok",
    seconds=1.0,
    megabytes=1.0,
    truth=1.2,
    logged=3.2,
    scale=2.0,
)


def _board(*changes: dict[str, Any]) -> Scoreboard:
    return Scoreboard.of(replace(ROW, **change) for change in changes)


def test_a_row_by_hand() -> None:
    assert ROW.error == pytest.approx(-0.1)
    assert ROW.in_standard_errors == pytest.approx(-0.8)
    assert ROW.covers
    assert ROW.half_width == pytest.approx(0.25)
    assert ROW.interval_score == pytest.approx(0.5)
    missed = replace(ROW, truth=1.7)
    assert not missed.covers
    assert missed.interval_score == pytest.approx((1.0 + 40 * 0.2) / 2)


def test_a_score_by_hand() -> None:
    none = {"rate": math.nan, "low": math.nan, "high": math.nan, "verdict": "refused"}
    board = _board(
        {}, {"log": 1, "rate": 2.0, "low": 1.9, "high": 2.1}, {"log": 2, **none}, {"log": 3, "verdict": "bad"}
    )
    score = board.score("m", "a")
    assert score is not None
    assert (score.logs, score.answered, score.coverage) == (4, 0.75, 0.5)  # no interval is a miss
    assert score.error == pytest.approx(math.sqrt((0.1**2 + 0.4**2 + 0.1**2) / 3))
    assert (score.ok, score.oks, score.false_oks) == (0.5, 2, 1)
    assert score.coverage_low == pytest.approx(0.0676, abs=1e-4)  # of 2 in 4, by Clopper and Pearson
    assert score.coverage_high == pytest.approx(0.9324, abs=1e-4)
    assert board.score("m", "b") is None


def test_what_a_verdict_is_worth() -> None:
    wrong = {"rate": 2.0, "low": 1.9, "high": 2.1}
    board = _board({}, {"log": 1, **wrong}, {"system": "b", **wrong}, {"log": 2, "verdict": "bad"})
    found = board.judged("m", "ok")
    assert found is not None
    assert (found.answers, found.wrong, found.held) == (3, 2, 1)  # both systems together
    assert (found.wrong_low, found.wrong_high) == pytest.approx((0.0943, 0.9916), abs=1e-4)
    assert board.judged("m", "caution") is None
    assert "2 (67%; 9% to 99%)" in str(board)


def test_over_systems_errors_have_geometric_means() -> None:
    board = _board({}, {"system": "b", "rate": 2.0, "low": 1.9, "high": 2.1})
    overall = board.overall("m")
    assert overall is not None
    assert overall.error == pytest.approx(math.sqrt(0.1 * 0.4))
    assert (overall.coverage, overall.least_coverage) == (0.5, 0.0)
    assert (overall.false_ok, overall.oks) == (0.5, 2)


def test_ranks_and_regret() -> None:
    rates, truths = [3.0, 1.0, math.nan, 2.0, 2.5], [1.0, 2.0, 3.0, 4.0, 5.0]
    board = _board(
        *(
            {"part": "all", "target": str(k), "rate": rate, "truth": known}
            for k, (rate, known) in enumerate(zip(rates, truths))
        )
    )
    ranks = board.ranks("m", "a")
    assert ranks is not None
    # Places 5 2 1 3 4 of the estimates and 1 … 5 of the truths: 1 − 6 · (16 + 0 + 4 + 1 + 1) / (5 · 24).
    assert ranks.correlation == pytest.approx(1 - 6 * 22 / 120)
    assert ranks.regret == 1.0  # the worst came first
    tied = _board(*({"part": "all", "target": str(k), "rate": 0.0, "truth": known} for k, known in enumerate(truths)))
    ranks = tied.ranks("m", "a")
    assert ranks is not None
    assert (ranks.correlation, ranks.regret) == (0.0, 0.5)  # any of them could be first


def test_answers_too_close_to_the_log_count_for_ranks_alone() -> None:
    assert _board({"scale": 2.1}).score("m", "a") is None
    assert _board({"scale": 2.1}, {"log": 1}).score("m", "a") == _board({"log": 1}).score("m", "a")


def test_an_endless_interval_is_no_gift() -> None:
    score = _board({"low": -math.inf, "high": math.inf}, {"log": 1}).score("m", "a")
    assert score is not None
    assert score.coverage == 1.0
    assert math.isinf(score.half_width)
    assert math.isinf(score.interval_score)


def test_methods_without_intervals_or_verdicts_have_blanks() -> None:
    board = _board({"low": math.nan, "high": math.nan, "standard_error": math.nan, "verdict": "none"})
    score = board.score("m", "a")
    assert score is not None
    assert math.isnan(score.coverage)
    assert math.isnan(score.half_width)
    assert math.isnan(score.ok)
    assert math.isnan(score.standard_errors)


def test_faulty_systems_count_verdicts_alone() -> None:
    board = _board({}, {"system": "f", "fault": True, "truth": math.nan, "verdict": "bad"})
    assert board.systems == ["a"]
    assert board.faulty == ["f"]
    assert list(board.verdicts("m", faulty=True)) == ["bad"]
    assert "f" in str(board)


def test_what_could_be_ok_is_bounded_by_how_often_kinds_of_logs_have_close_answers() -> None:
    def answers(system: str, wrong: int, logs: int, verdict: str = "caution") -> list[dict[str, Any]]:
        rates = [2.0 if log < wrong else 1.0 for log in range(logs)]
        return [
            {"system": system, "log": log, "truth": 1.0, "rate": rate, "verdict": verdict}
            for log, rate in enumerate(rates)
        ]

    board = _board(*answers("a", 0, 20, "ok"), *answers("b", 10, 20), *answers("c", 0, 3, "ok"))
    # All of a, and of b so many that 5 % of all are wrong: 20 x of them with 10 x wrong, 10 x = 0.05 (20 + 20 x).
    found = board.attainable("m")
    assert found is not None
    assert found[:2] == (30, 20)
    assert found.could == pytest.approx(20 + 10 / 9)
    assert "ok on 20 of 30" in " ".join(str(board).split())
    none = _board(*answers("b", 10, 20)).attainable("m")
    assert none is not None
    assert none.could == 0.0
    assert _board({"verdict": "none"}).attainable("m") is None


def test_what_is_varied_has_a_name() -> None:
    assert (BASE.label, LARGE.label) == ("base", "base")
    assert Cell(shift="mild", mixing="slow").label == "mild shift, slow mixing"
    assert len({part.cell.key + part.targets for part in design.WHOLE}) == len(design.WHOLE)


class Mean:
    """The log's own rate: the simplest estimator there is."""

    def fit(self, log: Any, policy: Any) -> "Mean":
        self.reward_rate_ = float(np.mean(log.rewards))
        return self


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        design, "QUICK", (Part(Cell(rows=2_000), {"closed": 2}), Part(Cell(rows=2_000), {"closed": 1}, "all"))
    )


@pytest.mark.usefixtures("tiny")
def test_an_estimator_of_ones_own_is_scored(tmp_path: Path) -> None:
    where: dict[str, Any] = {"only": ["linear-quadratic-1", "drift"], "quick": True, "workers": 1, "quiet": True}
    board = cs.suite.score([Mean, "log", "linear"], **where, out=tmp_path / "board")
    cell = Cell(rows=2_000)
    mine, ours = (board.score(method, "linear-quadratic-1", cell) for method in ("Mean", "log"))
    assert mine is not None
    assert ours is not None
    assert mine.error == pytest.approx(ours.error)
    assert math.isnan(mine.coverage)
    assert 0 <= ours.coverage <= 1
    assert board.ranks("Mean", "linear-quadratic-1", cell) is not None
    assert {file.name for file in (tmp_path / "board").iterdir()} >= {
        "answers.csv",
        "scores.csv",
        "overall.csv",
        "faults.csv",
        "manifest.json",
        "development_coverage.png",
        "development_errors.png",
    }
    assert str(Scoreboard.read(tmp_path / "board")) == str(board)
    again = cs.suite.score({"mean": Mean()}, **where)
    assert again.rows[0].rate == board.rows[0].rate  # a log is the same whoever is asked about it


@pytest.mark.usefixtures("tiny")
def test_other_boards_are_shown_beside(tmp_path: Path) -> None:
    where: dict[str, Any] = {"only": ["linear-quadratic-1"], "quick": True, "workers": 1, "quiet": True}
    first = cs.suite.score(["log", "linear"], **where, out=tmp_path / "first")
    board = cs.suite.score([Mean, "log"], **where, beside=[tmp_path / "first"], out=tmp_path / "both")
    assert set(board.methods) == {"Mean", "log", "linear"}
    assert len(board.rows) == 1.5 * len(first.rows)  # the log's own rate stands once
    kept = [[row.rate for row in one.rows if row.method == "linear"] for one in (board, first)]
    assert kept[0] == pytest.approx(kept[1], rel=1e-5)
    assert "--beside" in json.loads((tmp_path / "both" / "manifest.json").read_text())["command"]
    again = cs.suite.score("log", **where, beside=tmp_path / "first")
    assert again.rows[0].method == "log"  # what was asked for comes first
    assert len(again.rows) == len(first.rows)
    with pytest.raises(InputError, match=r"board of the same logs.*seed is 0; here it is 1"):
        cs.suite.score("log", **where, seed=1, beside=[tmp_path / "first"])
    with pytest.raises(InputError, match=r"beside must be a folder of a finished scoreboard.*nowhere"):
        cs.suite.score("log", **where, beside=[tmp_path / "nowhere"])


@pytest.mark.usefixtures("tiny")
def test_the_command_takes_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Zero:\n    reward_rate_ = 0.0\n    def fit(self, log, policy):\n        return self\n", encoding="utf-8"
    )
    options = ["--only", "linear-quadratic-1", "--quick", "--quiet", "--workers", "1", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, ["suite", "--method", f"{tmp_path / 'mine.py'}:Zero", *options])
    assert result.exit_code == 0, result.output
    assert "mine.py:Zero" in (tmp_path / "out" / "overall.csv").read_text(encoding="utf-8")


@pytest.mark.usefixtures("tiny")
def test_fewer_logs_of_each_kind_where_fewer_will_do(tmp_path: Path) -> None:
    options = ["--only", "linear-quadratic-1", "--quick", "--quiet", "--workers", "1", "--logs", "1"]
    result = CliRunner().invoke(app, ["suite", "--method", "log", *options, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    found = cs.suite.Scoreboard.read(tmp_path / "out")
    assert found.rows
    assert {row.log for row in found.rows} == {0}
    with pytest.raises(InputError, match="logs must be"):
        cs.suite.score("log", quick=True, logs=0)


def test_logs_of_one_size_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sizes = tuple(Part(Cell(rows=rows), {"closed": 1}) for rows in (2_000, 5_000))
    monkeypatch.setattr(design, "QUICK", sizes)
    where: dict[str, Any] = {"only": ["linear-quadratic-1"], "quick": True, "workers": 1, "quiet": True}
    found = cs.suite.score("log", **where, rows=2_000)
    assert [row.cell.rows for row in found.rows] == [2_000]
    with pytest.raises(InputError, match="rows must be 2,000 or 5,000, as the logs of a glance here have"):
        cs.suite.score("log", **where, rows=3_000)
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["suite", "--quick", "--rows", "3000"]).exit_code == 2
    assert not any(tmp_path.iterdir())  # not even the folder of results


class Fails:
    """An estimator that breaks on every log."""

    def fit(self, log: Any, policy: Any) -> None:
        raise ValueError("no luck")


@pytest.mark.usefixtures("tiny")
def test_an_estimator_that_breaks_refuses_with_its_reason() -> None:
    board = cs.suite.score(Fails(), only=["linear-quadratic-1"], quick=True, workers=1, quiet=True)
    assert {(row.verdict, row.note) for row in board.rows} == {("refused", "ValueError: no luck")}


def test_another_estimator_of_the_same_name_is_asked_again() -> None:
    one, other = Mean(), Mean()
    other.more = 2  # type: ignore[attr-defined]
    assert own(one).digest != own(other).digest


def test_what_cannot_be_scored_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"estimators must have different names.*Got 'Mean' twice"):
        cs.suite.score([Mean, type("Mean", (Fails,), {})], quick=True)
    with pytest.raises(InputError, match="Got 'default' twice"):
        cs.suite.score({"default": Mean}, quick=True)
    with pytest.raises(InputError, match="dosing is an exam system"):
        cs.suite.score("log", only=["dosing"], quick=True)
    with pytest.raises(InputError, match=r"method must be one of default, closed form.* Got 'nothing'"):
        cs.suite.score("nothing", quick=True)
    with pytest.raises(InputError, match=r"estimator must have fit\(log, policy\)"):
        cs.suite.score([3], quick=True)
    with pytest.raises(InputError, match="system must be one of"):
        cs.suite.score("log", only=["nothing"], quick=True)
    assert list(tmp_path.iterdir()) == []


def test_every_candidate_of_today_is_there() -> None:
    groups = {
        group: [name for name, method in methods().items() if method.group == group]
        for group in ("closed", "default", "learned", "network")
    }
    assert groups["default"] == ["default"]
    assert {
        "closed form",
        "linear",
        "splines",
        "polynomial:2",
        "polynomial:3",
        "fourier:50",
        "fourier:200",
        "disagreement",
        "log",
    } == {*groups["closed"]}
    assert {"diff-sgq", "diff-gq1", "diff-gq2", "diff-gq3", "diff-gq4", "gradient-dice"} == {*groups["learned"]}
    assert {"neural diff-sgq", "last layer", "fitted q"} == {*groups["network"]}


def test_disagreement_widens_what_candidates_say() -> None:
    found = disagreement(
        [
            Answer(1.0, standard_error=0.3),
            Answer(2.0, standard_error=0.1),
            Answer(math.nan),
            Answer(4.0, standard_error=0.2),
        ]
    )
    error = math.hypot(0.2, np.std([1.0, 2.0, 4.0]))
    assert found.rate == 2.0
    assert found.low == pytest.approx(2 - 1.959964 * error)
    assert found.high == pytest.approx(2 + 1.959964 * error)
    assert disagreement([Answer(math.nan)]).verdict == "refused"


@pytest.mark.usefixtures("tiny")
def test_disagreement_is_put_together_from_the_others(tmp_path: Path) -> None:
    board = cs.suite.score("disagreement", only=["linear-quadratic-1"], quick=True, workers=1, quiet=True)
    assert {"disagreement", "polynomial:2", "polynomial:3", "fourier:200", "closed form"} == {*board.methods}
    rates = {row.method: row.rate for row in board.rows if row.log == 1 and row.part == "main"}
    assert rates["disagreement"] == pytest.approx(
        np.median([rate for name, rate in rates.items() if name != "disagreement"])
    )
