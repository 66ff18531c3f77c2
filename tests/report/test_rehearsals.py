"""The rehearsal of a full answer: in its JSON, its text, its page and its pictures; and that there is none."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import cesaro as cs
from cesaro import candidates, evaluation
from cesaro import panel as panels
from cesaro.errors import InputError
from cesaro.report.html import evaluation_page
from cesaro.report.pictures import pictures, rates_picture
from cesaro.report.text import evaluation_text, render_evaluation
from cesaro.worlds import networks, process, training

ROWS, WORLDS = 1_000, 3


def _log(rows: int = ROWS) -> cs.Transitions:
    """x' = 0.7 x + 0.5 a + noise."""
    rng = np.random.default_rng(0)
    x, actions = np.zeros((10, rows // 10)), rng.normal(size=(10, rows // 10))
    for t in range(rows // 10 - 1):
        x[:, t + 1] = 0.7 * x[:, t] + 0.5 * actions[:, t] + 0.3 * rng.normal(size=10)
    return cs.Transitions(x.ravel(), actions.ravel(), -(x**2).ravel(), trajectory=np.repeat(np.arange(10), rows // 10))


def _target(observations: Any) -> Any:
    return -0.5 * observations


def _full(**settings: Any) -> cs.Evaluation:
    return cs.evaluate(_log(), _target, effort="full", quiet=True, **settings)


@pytest.fixture(scope="module")
def quick(adam_is_allowed: None) -> Iterator[None]:
    """Badly learned, which the shape of an answer does not mind; and a world of three members that has a vote."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "MOST_STEPS", 400)
        patch.setattr(networks, "GLANCE", 200)
        patch.setattr(candidates, "STEPS", 100)
        patch.setattr(candidates, "MAPS", ("polynomial:2", "auto"))
        patch.setattr(panels, "_unlike", lambda *given: "")
        patch.setitem(evaluation.EFFORTS, "full", WORLDS)
        for name, few in (("PARTICLES", 40), ("FIRST", 50), ("MOST_STEPS", 350)):
            patch.setattr(process, name, few)
        yield


@pytest.fixture(scope="module")
def answer(quick: None) -> cs.Evaluation:
    return _full(unit="€ per hour")


def _said(parts: Any) -> str:
    console = Console(width=100, record=True, file=StringIO())
    for part in parts:
        console.print(part)
    return " ".join(console.export_text().split())


@pytest.mark.slow
def test_programs_get_the_rehearsal_and_parts_of_the_width(answer: cs.Evaluation) -> None:
    document = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
    found = document["rehearsal"]
    assert found["schema"] == "cesaro-rehearsal/1"
    assert [row["candidate"] for row in found["table"]] == ["polynomial:2", "auto", "together"]
    assert len(found["worlds"]["truths"]) == WORLDS
    assert (found["unit"], found["cost"]) == ("€ per hour", None)
    assert found["logged"] == answer.behavior.value
    assert found["logged_standard_error"] == answer.behavior.standard_error
    assert sum(document["width"][name] for name in ("noise", "features", "kinds")) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("blank_pictures")
def test_readers_get_the_rehearsal(answer: cs.Evaluation, tmp_path: Path) -> None:
    assert answer.rehearsal is not None
    answer.save(tmp_path / "answer")
    assert (tmp_path / "answer/rehearsal.png").exists()
    page = (tmp_path / "answer/report.html").read_text(encoding="utf-8")
    assert re.findall(r'id="p1-(\w+)"', page)[:2] == ["candidates", "rehearsal"]
    told = [
        _said(render_evaluation(answer)),
        " ".join(evaluation_text(answer, full=True).split()),
        " ".join(re.sub(r"<[^>]+>", " ", page.partition("<main>")[2]).split()),
    ]
    assert " ".join((tmp_path / "answer/report.txt").read_text(encoding="utf-8").split()) == told[1]
    title = f"Rehearsal on {WORLDS} systems learned from the log (reward, € per hour)"
    assert f'aria-label="{title}"' in page
    assert title in told[0]
    assert title in told[1]
    for text in told:
        assert "all closed forms together" in text
        assert "cannot be rehearsed in itself" in text
        assert "Do these systems resemble the log?" in text
        for entry in answer.rehearsal.findings:
            assert entry.sentence[:40] in text.replace("&#39;", "'")


@pytest.mark.slow
def test_a_picture_of_a_rehearsal(answer: cs.Evaluation) -> None:
    assert answer.rehearsal is not None
    (axes,) = answer.plot("rehearsal").axes
    points = sum(len(line.get_xdata()) for line in axes.lines[:-1])
    assert points == WORLDS * 3
    (shown,) = pictures(answer, ("rehearsal",))
    assert shown.alt == answer.rehearsal.summary
    assert answer.rehearsal.covers in shown.caption


@pytest.mark.slow
def test_costs_have_one_sign_in_rehearsals(answer: cs.Evaluation) -> None:
    assert answer.rehearsal is not None
    bill = replace(answer, cost="bill", rehearsal=replace(answer.rehearsal, cost="bill"))
    table, _, findings = evaluation_text(bill).partition("Do these systems resemble the log?")
    assert f"{-answer.rehearsal.logged:.4g}" in table
    assert f"{answer.rehearsal.logged:.4g}" not in table
    assert findings.count("Findings speak of rewards, which are minus 'bill'.") == 2
    page = evaluation_page(bill, [rates_picture(bill)])
    assert "(cost &#39;bill&#39;, € per hour)" in page


@pytest.mark.slow
def test_a_full_answer_goes_on_in_the_middle_of_its_rehearsal(
    answer: cs.Evaluation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files that a result folder knows of hold it; the same bits."""
    plain, asked = candidates.ask, list[int]()

    def interrupted(make: Any, log: Any, policy: Any, seed: int) -> Any:
        asked.append(seed)
        if len(asked) == 5:  # two candidates on the log and on the first world
            raise KeyboardInterrupt
        return plain(make, log, policy, seed)

    monkeypatch.setattr("cesaro.rehearsal.ask", interrupted)
    monkeypatch.setattr("cesaro.engines.local.cores", lambda: 1)
    file = tmp_path / "passes.npz"
    with pytest.raises(KeyboardInterrupt):
        _full(unit="€ per hour", run=cs.Run(checkpoint=file, quiet=True))
    assert {*tmp_path.glob("*.npz")} <= {file, *panels.progress_files(file)}
    assert (tmp_path / "passes_rehearsal.npz").exists()
    again = _full(unit="€ per hour", run=cs.Run(checkpoint=file, quiet=True))
    assert sorted(asked[5:]) == [2, 2, 3, 3]
    assert {**again.to_dict(), "run": None} == {**answer.to_dict(), "run": None}


@pytest.mark.usefixtures("quick")
def test_what_is_not_rehearsed_is_said() -> None:
    """A log that is too short for a world, and a discrete one."""
    short = cs.evaluate(_log(80), _target, effort="full", quiet=True)
    rng = np.random.default_rng(0)
    state = rng.integers(0, 3, 500)
    discrete = cs.evaluate(
        cs.Transitions(state, rng.integers(0, 2, 500), 1.0 * (state == 2)), "uniform", effort="full", quiet=True
    )
    for one, verdict, why in (
        (short, "caution", "A learned process needs 50 rows"),
        (discrete, "ok", "the log is discrete"),
    ):
        (found,) = (entry for entry in one.diagnostics if entry.name == "rehearsal")
        assert (found.value, found.verdict) == (None, verdict)
        assert found.sentence.startswith(f"Not rehearsed: {why}")
        assert one.rehearsal is None
        assert one.to_dict()["rehearsal"] is None
        assert "Not rehearsed" in evaluation_text(one, full=True)
        with pytest.raises(InputError, match="There is no picture of rehearsal: the question was not rehearsed"):
            one.plot("rehearsal")
    assert discrete.to_dict()["width"] is None
    assert "Not rehearsed" in evaluation_text(short)
    quick = cs.evaluate(_log(80), _target, effort="quick", quiet=True)
    assert "rehearsal" not in {entry.name for entry in quick.diagnostics}
