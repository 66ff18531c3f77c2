"""Names out of a log or of a user stay text: nothing runs, nothing is asked for, nothing is added to the page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cesaro as cs
from cesaro.report.html import evaluation_page
from cesaro.report.pictures import pictures, rates_picture
from cesaro.text import visible

from .checks import ROOM, findings, pdf_pages
from .chromium import Chromium
from .views import PHONE, VIEWS, View

HOSTILE = {
    "script": "<script>window.planted=1</script>",
    "image": "\"><img src=x onerror='window.planted=1'>",
    "attribute": "' onmouseover='window.planted=1' x='",
    "style": "</style><style>*{display:none}</style>",
    "svg": "</svg></text><svg onload=window.planted=1>",
    "cdata": "]]><script>window.planted=1</script><![CDATA[",
    "comment": "--><iframe src='https://example.org'></iframe><!--",
    "textarea": "</title></textarea></pre><h1>Another answer</h1>",
    "entity": "Bread & butter &lt;b&gt; &#60;b&#62; \"double\" 'single' `tick`",
    "direction": "abc\u202egpj.exe\u2066\u200f",
    "lines": "first\nsecond\tthird\r\x1b[31m",
    "formula": "$\\frac{1}{2}$ and $x_1^2$, or $broken{",
    "template": "{{ 7 * 7 }} {% raw %} {# note #} {{ config }}",
    "picture": 'id="a" href="#b" url(#c) #1b2733 var(--ink)',
    "link": "javascript:window.planted=1 https://example.org/a?b=1&c=2",
    "scripts": "سلام Привет 你好 ✓ 🂡 é",
    "long": "word" * 125,
    "words": "many words " * 45 + "end",
}
# Several on one page, since each page takes seconds.
PAGES = {
    "runs": ("script", "image", "attribute"),
    "closes": ("style", "svg", "cdata"),
    "embeds": ("comment", "textarea", "entity", "link"),
    "means": ("direction", "lines", "formula", "template", "picture", "scripts"),
    "long": ("long", "words"),
}


def log_of(texts: Sequence[str], file: Path) -> cs.Log:
    """A walk over three places, with `texts` in turn as names of columns, levels, actions and agents."""
    rng = np.random.default_rng(0)
    moves = rng.random(600) < 0.5
    place = np.concatenate([[0], np.cumsum(moves)[:-1]]) % 3
    columns = [f"{texts[k % len(texts)]} {k}" for k in range(5)]
    levels = np.array([f"{texts[k % len(texts)]} at {k}" for k in range(3)], dtype=object)
    table: dict[str, Any] = {
        columns[0]: levels[place],
        columns[1]: rng.choice(["left", texts[-1]], size=600),
        columns[2]: np.where(moves, texts[0], "stay"),
        columns[3]: (place == 2) + 0.1 * rng.normal(size=600),
        columns[4]: [f"{texts[0]} agent {k // 200}" for k in range(600)],
    }
    pq.write_table(pa.table(table), file)
    return cs.read(file, observation=columns[:2], action=columns[2], reward=columns[3], trajectory=columns[4])


def write_page(text: str, folder: Path) -> Path:
    """A report with `text` wherever text comes from outside, also as the name of the log, of the policy and of the unit."""
    log = log_of([text], folder / f"{visible(text).replace('/', '∕')[:60]}.parquet")
    answer = cs.evaluate(log, f"constant:{text}", name=f"{text} one", unit=f"{text} per step", quiet=True)
    file = folder / "report.html"
    file.write_text(evaluation_page(answer, [rates_picture(answer), *pictures(answer)]), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def elements(tmp_path_factory: pytest.TempPathFactory, browser: Chromium) -> dict[str, int]:
    """How many elements of each kind the same report has with a plain word."""
    with browser.open(write_page("plain", tmp_path_factory.mktemp("plain")), PHONE) as page:
        return dict(page.evaluate(COUNT))


# Within pictures the number of lines of a label depends on its length.
COUNT = """(() => {
    const counts = {};
    for (const one of document.querySelectorAll("*")) {
        if (!one.parentElement?.closest("svg")) counts[one.localName] = (counts[one.localName] ?? 0) + 1;
    }
    return counts;
})()"""


@pytest.mark.parametrize("name", PAGES)
def test_text_stays_text(browser: Chromium, elements: dict[str, int], tmp_path: Path, name: str) -> None:
    text = " ".join(HOSTILE[part] for part in PAGES[name])
    shown = " ".join(visible(text).split())
    with browser.open(write_page(text, tmp_path), PHONE) as page:
        found = findings(page, but=ROOM)
        assert not found, "\n".join(found)
        assert page.evaluate("typeof window.planted") == "undefined"
        assert page.evaluate(COUNT) == elements
        said = " ".join(page.evaluate("document.querySelector('main').innerText").split())
        assert f"{shown} one" in said  # the policy
        assert f"{shown} per step" in said
        assert f"{shown} 0" in said  # a column
        assert said.isprintable()
        labels = page.evaluate("[...document.querySelectorAll('svg text')].map((one) => one.textContent)")
        assert any(label.startswith(shown.split()[0][:8]) for label in labels)
        assert pdf_pages(page.pdf()) >= 1


@pytest.mark.parametrize("view", [PHONE, VIEWS["desktop-dark"]], ids=["phone", "desktop"])
def test_text_stays_text_in_a_comparison(browser: Chromium, comparison: Path, view: View) -> None:
    with browser.open(comparison, view) as page:
        found = findings(page, but=ROOM)
        assert not found, "\n".join(found)
        assert page.evaluate("typeof window.planted") == "undefined"
        said = " ".join(page.evaluate("document.querySelector('main').innerText").split())
        for name in ("script", "image", "long"):
            assert visible(HOSTILE[name]) in said
        assert page.evaluate("document.querySelectorAll('h1').length") == 1


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    log = log_of([HOSTILE["svg"], HOSTILE["template"], HOSTILE["entity"]], folder / "log.parquet")
    policies = {HOSTILE["script"]: "uniform", HOSTILE["image"]: f"constant:{HOSTILE['svg']}", HOSTILE["long"]: "logged"}
    found = cs.compare(log, policies, unit=HOSTILE["style"], quiet=True)
    found.save(folder / "out")
    return folder / "out" / "report.html"


def test_every_text_is_tried() -> None:
    assert sorted(part for parts in PAGES.values() for part in parts) == sorted(HOSTILE)
