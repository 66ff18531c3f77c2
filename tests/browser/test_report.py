"""`report.html` in a real browser: phone and desktop, light and dark, large letters, print."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from .checks import audit, findings, pdf_fills, pdf_operators, pdf_pages, said_and_asked
from .chromium import Chromium, Page
from .reports import REPORTS
from .views import DESKTOP, PHONE, VIEWS, View

Report = Callable[[str], Path]


# Pages take seconds: the demo's report in all views, others in those that differ most.
MAIN = ("evaluation", "comparison")
LOOKS = [
    (name, view)
    for name in REPORTS
    for view in VIEWS
    if name == "evaluation" or view in ("phone-light", "desktop-dark")
]


@pytest.mark.parametrize(("name", "look"), LOOKS)
def test_nothing_is_wrong_with_the_page(browser: Chromium, report: Report, name: str, look: str) -> None:
    view = VIEWS[look]
    with browser.open(report(name) / "report.html", view) as page:
        assert_pictures_are_drawn(page)
        found = findings(page)
        assert not found, "\n".join(found)
        brightness = audit(page)["page"]
        assert brightness < 0.1 if view.dark else brightness > 0.8
        page.scroll()
        assert said_and_asked(page) == []
        if not view.mobile and name != "comparison":
            assert_it_says(page, json.loads((report(name) / "evaluation.json").read_text(encoding="utf-8")))


def assert_pictures_are_drawn(page: Page) -> None:
    """Each takes its place and holds marks; an image file has decoded."""
    look = """[...document.querySelectorAll("main svg, main img")].filter((one) => one.checkVisibility()).map((one) => {
        const { width, height } = one.getBoundingClientRect();
        return [Math.min(width, height), one.naturalWidth ?? one.querySelectorAll("path, use, rect, image").length];
    }).filter(([side]) => side > 40)"""
    drawn = page.evaluate(look)
    assert len(drawn) >= 2
    assert all(side >= 80 and marks >= 3 for side, marks in drawn)


def assert_it_says(page: Page, answer: dict[str, Any]) -> None:
    """The words of the page, with all details opened, are those of the JSON document."""
    said = " ".join(page.evaluate("document.querySelector('main').innerText").replace("−", "-").split())
    for rate in ("reward_rate", "behavior_rate"):
        assert any(f"{answer[rate]['value']:.{decimals}f}" in said for decimals in (2, 3, 4))
    assert (answer["unit"] or "per step") in said
    for entry in answer["diagnostics"]:
        assert entry["name"] in said
        if entry["verdict"] != "ok":
            assert entry["remedy"] in said


@pytest.mark.parametrize("view", [replace(PHONE, width=320), replace(PHONE, text=1.5)], ids=["narrow", "large-letters"])
@pytest.mark.parametrize("name", MAIN)
def test_it_fits_small_windows_and_large_letters(browser: Chromium, report: Report, name: str, view: View) -> None:
    with browser.open(report(name) / "report.html", view) as page:
        found = audit(page)
        assert (found["overflow"], found["clipped"]) == ([], [])
        assert page.evaluate("parseFloat(getComputedStyle(document.querySelector('p')).fontSize)") >= 16 * view.text


@pytest.mark.parametrize("name", MAIN)
def test_it_prints_in_light_colors(browser: Chromium, report: Report, name: str) -> None:
    printed = {}
    with browser.open(report(name) / "report.html", DESKTOP) as page:
        for view in (DESKTOP, replace(DESKTOP, dark=True)):
            page.view = view
            page.emulate()
            printed[view.dark] = page.pdf()
            page.emulate(printed=True)
            found = audit(page)
            assert (found["contrast"], found["page"] > 0.9) == ([], True)
    data = printed[True]
    assert data.startswith(b"%PDF-")
    assert pdf_pages(data) >= 1
    assert pdf_operators(data).count(b"Tj") > 100
    assert pdf_fills(data) == pdf_fills(printed[False])
