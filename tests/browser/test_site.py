"""The site as readers open it, from a disk: `make docs` builds it and runs these."""

import os
import time
from pathlib import Path

import pytest

from .chromium import Chromium, Page
from .views import DESKTOP

SITE = Path(__file__).parents[2] / "site"
# The page for an address that does not exist is made for a server.
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html") if path.name != "404.html")
WIDE = """[...document.querySelectorAll(".md-typeset table")]
    .filter((table) => table.scrollWidth > table.closest(".md-typeset__scrollwrap, .md-typeset").clientWidth + 1)
    .map((table) => table.rows[0].innerText)"""
FOUND = "[...(document.activeElement.shadowRoot?.querySelectorAll('a') ?? [])].map((link) => link.href)"

pytestmark = pytest.mark.skipif(not PAGES and not os.environ.get("CESARO_ALL_PAGES"), reason="the site is not built")


def said_and_asked(page: Page) -> list[str]:
    """Messages of the console, and requests to other places."""
    return page.messages + [url for url in page.requests if not url.startswith((SITE.as_uri(), "data:"))]


def test_pages_ask_nobody_and_no_table_loses_a_column(browser: Chromium) -> None:
    assert PAGES
    wrong = {}
    for name in PAGES:
        with browser.open(SITE / name, DESKTOP) as page:
            if found := [*said_and_asked(page), *page.evaluate(WIDE)]:
                wrong[name] = found
    assert not wrong


def test_the_search_works_from_a_disk(browser: Chromium) -> None:
    with browser.open(SITE / "howto/log.html", DESKTOP) as page:
        page.evaluate("document.querySelector('.md-search__button').click()")
        for letter in "density ratio":
            page.send("Input.dispatchKeyEvent", type="keyDown", text=letter, key=letter)
        for _ in range(100):
            if found := page.evaluate(FOUND):
                break
            time.sleep(0.1)
        assert any("reference/known.html?h=density+ratio#cesaro.exact" in link for link in found)
        assert not said_and_asked(page)
