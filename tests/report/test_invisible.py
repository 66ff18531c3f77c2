"""Control codes and marks that turn text around are spelled out wherever a page shows data; no browser is needed to see it."""

from dataclasses import replace
from html import unescape
from typing import Any

import numpy as np
import pytest

import cesaro as cs
from cesaro.diagnostics import Diagnostic
from cesaro.report.html import comparison_page, comparison_picture, evaluation_page
from cesaro.report.pictures import rates_picture
from cesaro.report.style import svg
from cesaro.text import visible

# Colors of a terminal, text from right to left, an isolate, nothing, delete, a line of its own.
HOSTILE = "x\x1b[31my\u202ez\u2066\x00\x7f\u2028"


def invisible(page: str) -> set[str]:
    """Characters of a page that nobody sees, its own line breaks aside."""
    return {character for character in page if not character.isprintable()} - {"\n"}


@pytest.fixture(scope="module")
def log() -> cs.Transitions:
    rng = np.random.default_rng(0)
    state, action = rng.integers(0, 3, 400), rng.integers(0, 2, 400)
    return cs.Transitions(state, action, (state == 2) + rng.normal(size=400), trajectory=np.arange(400) // 10)


@pytest.fixture(scope="module")
def answer(log: cs.Transitions) -> cs.Evaluation:
    return cs.evaluate(log, "constant:1", quiet=True)


def test_pages_spell_out_what_nobody_sees(answer: cs.Evaluation) -> None:
    """In every place that shows text from data: each has words of its own in front, so that none can stand for another."""
    places = (
        "name",
        "unit",
        "log",
        "note",
        "role",
        "column",
        "setting",
        "value",
        "warning",
        "command",
        "made",
        "machine",
    )
    texts = {place: f"{place} {HOSTILE}" for place in (*places, "package", "version", "finding", "sentence", "remedy")}
    odd = replace(
        answer,
        name=texts["name"],
        unit=texts["unit"],
        log={
            **answer.log,
            "name": texts["log"],
            "notes": [texts["note"]],
            "columns": {texts["role"]: [texts["column"]]},
        },
        settings={texts["setting"]: texts["value"]},
        warnings=(texts["warning"],),
        run={
            "command": texts["command"],
            "made": texts["made"],
            "versions": {texts["package"]: texts["version"]},
            "platform": texts["machine"],
        },
        diagnostics=(Diagnostic(texts["finding"], 1.0, "bad", texts["sentence"], texts["remedy"]),),
    )
    page = evaluation_page(odd, [rates_picture(odd)])
    assert invisible(page) == set()
    assert [place for place, text in texts.items() if visible(text) not in unescape(page)] == []
    fragment = odd._repr_html_()
    assert invisible(fragment) == set()
    shown = ("name", "unit", "log", "finding", "sentence", "remedy")
    assert [place for place in shown if visible(texts[place]) not in unescape(fragment)] == []


def test_comparisons_spell_out_what_nobody_sees(log: cs.Transitions) -> None:
    found = cs.compare(log, {HOSTILE: "uniform", "plain": "constant:1"}, unit=HOSTILE, quiet=True)
    for page in (comparison_page(found, [comparison_picture(found)], {}), found._repr_html_()):
        assert invisible(page) == set()
        assert unescape(page).count(visible(HOSTILE)) >= 6


def test_pictures_spell_out_what_nobody_sees(answer: cs.Evaluation) -> None:
    """In the words of the picture itself, and in those for who does not see it."""
    picture = rates_picture(replace(answer, name=HOSTILE, unit=HOSTILE))
    drawn = svg(picture.figure, "p", f"Of {HOSTILE}.")
    assert invisible(drawn) == set()
    assert f'aria-label="Of {visible(HOSTILE)}."' in drawn
    assert visible("x\x1b") in drawn.partition("aria-label")[2].partition(">")[2]


def test_sweeps_spell_out_what_nobody_sees() -> None:
    settings: list[Any] = [{f"name {HOSTILE}": 1.0}, {"step": f"value {HOSTILE}"}]
    rates, stayed = np.linspace(0, 1, 12).reshape(2, 2, 3), np.full((2, 2), -1)
    page = cs.Sweep(f"method {HOSTILE}", settings, np.arange(2), np.arange(1, 4), rates, stayed)._repr_html_()
    assert invisible(page) == set()
    for text in (f"name {HOSTILE}", f"value {HOSTILE}", f"method {HOSTILE}"):
        assert visible(text) in unescape(page)
