"""The client and the checks on small pages: each fault is noticed, and a page without faults has none."""

import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from .checks import audit, findings, nameless_images, pdf_fills, pdf_operators, pdf_pages, said_and_asked
from .chromium import BrowserError, Chromium, Page, executable
from .views import DESKTOP, PHONE, VIEWS, View

Written = Callable[..., Path]


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.fixture(scope="module")
def phone(browser: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One window for many small pages: to open it takes longer than to load them."""
    file = tmp_path_factory.mktemp("phone") / "empty.html"
    file.touch()
    with browser.open(file, PHONE) as page:
        yield page


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_good_page_has_no_findings(browser: Chromium, written: Written, view: View) -> None:
    body = (
        "<h2 id='a'>One</h2><p>Words, and <a href='#a'>a link</a>.</p>"
        "<table><tr><th scope='col'>x<tr><td>1</table><details><summary>More</summary><p>hidden words</p></details>"
        "<svg viewBox='0 0 9 9' role='img' aria-label='a dot' width='90'><circle r='9'/></svg>"
        "<img src='data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=' alt='a point'>"
        "<div style='overflow-x: auto' tabindex='0'><p style='width: 3000px'>Wide: it scrolls in a box.</p></div>"
    )
    with browser.open(written(body, "summary { line-height: 2 }"), view) as page:
        found = findings(page)
        assert not found, "\n".join(found)
        assert (audit(page)["page"] < 0.2) is view.dark
        assert page.requests[0].endswith("/page.html")


@pytest.mark.parametrize(
    ("rule", "body", "sentence"),
    [
        ("contrast", "<p style='color: #888; background: #fff'>faint</p>", '"faint" has contrast 3.54'),
        ("contrast", "<p style='color: oklch(60% 0 0); background: #fff'>faint</p>", '"faint" has contrast 3.95'),
        ("contrast", "<p style='color: #000; background: #fff; opacity: 0.4'>faint</p>", '"faint" has contrast'),
        ("contrast", "<p style='background: #fff; color: #bbb; font-size: 40px'>faint</p>", '"faint" has contrast 1.9'),
        ("contrast", "<svg><text y='20' fill='#ddd'>faint</text></svg>", '"faint" has contrast'),
        ("contrast", "<p style='background: linear-gradient(red, blue)'>x</p>", "stands on a background image"),
        ("contrast", "<details><summary>s</summary><p style='color: #eee'>faint</p></details>", '"faint" has contrast'),
        ("contrast", "<style>p::before { content: 'faint'; color: #eee }</style><p>x</p>", "faint"),
        ("overflow", "<div style='width: 2000px'>wide</div>", "the page is 2008 px wide, the window 360 px"),
        ("overflow", f"<div style='overflow: hidden'>{'w' * 300}</div>", "reaches from 8 to"),
        ("size", "<p style='font-size: 11px'>small</p>", '"small" has letters of 11.0 px'),
        ("size", "<svg viewBox='0 0 100 9' width='50'><text y='8' font-size='16'>s</text></svg>", "letters of 8.0 px"),
        (
            "clipped",
            "<svg viewBox='0 0 9 9' width='90'><text y='9'>beyond it</text></svg>",
            '"beyond it" reaches beyond',
        ),
        ("overlap", "<svg><text y='20'>one</text><text y='24'>two</text></svg>", '"one" lies over "two"'),
        ("squeezed", "<p style='width: 2em; overflow-wrap: anywhere'>long words</p>", '"long words" has 2 words on'),
        ("keyboard", "<div style='overflow: auto'><p style='width: 999px'>far</p></div>", "no key reaches it"),
        ("headings", "<h1>Another</h1>", "not exactly one h1"),
        ("headings", "<h3>Deep</h3>", '<h3> "Deep" follows a heading of level 1'),
        ("headings", "<h2> </h2>", "is empty"),
        ("tables", "<table><tr><td>1</table>", "has no th"),
        ("tables", "<table><tr><th>a<tr><td>1</table>", "has no scope"),
        ("references", "<p id='a'>1</p><p id='a'>2</p>", 'the id "a" is used more than once'),
        ("references", "<a href='#no'>x</a>", "href=#no, which is nowhere"),
        ("references", "<svg aria-label='x'><g clip-path='url(#no)'/></svg>", "clip-path=url(#no), which is nowhere"),
        ("references", "<svg aria-label='x'><use xlink:href='#no'/></svg>", "which is nowhere"),
        ("links", "<a href='https://example.org'></a>", "has no name"),
        ("links", "<a href='https://example.org' target='_blank' rel='opener'>there</a>", "can reach back"),
        ("links", "<button style='all: unset; line-height: 1'>go</button>", "too small for a finger"),
        ("markup", "<p onclick='go()'>x</p>", "has onclick"),
        ("markup", "<script>1</script>", "there is a script"),
        ("markup", "<iframe srcdoc='x'></iframe>", "there is a iframe"),
        ("markup", "<a href=' JavaScript:go()'>x</a>", "JavaScript:go()"),
        ("markup", "<link rel='preconnect' href='https://example.org'>", "preconnect"),
    ],
)
def test_each_fault_is_found(phone: Page, written: Written, rule: str, body: str, sentence: str) -> None:
    phone.load(written(body))
    found = audit(phone)
    assert [one for one in found[rule] if sentence in one], found


def test_faults_of_the_document(browser: Chromium, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text("<html><body></body></html>")
    with browser.open(file, PHONE) as page:
        found = audit(page)
    for sentence in ("no text", "no lang", "no title", "no doctype", "character set", "main"):
        assert any(sentence in one for one in found["document"]), sentence
    file.write_text("<!doctype html><title>No viewport</title><main><h1>Small on a phone</h1></main>")
    with browser.open(file, PHONE) as page:
        assert any("zoomed out to 980 px" in one for one in audit(page)["overflow"])


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("<img src='data:,' alt=''>", 1),
        ("<svg width='9' height='9'><circle r='9'/></svg>", 1),
        ("<svg width='9' height='9' role='img'><title> </title></svg>", 1),
        ("<svg width='9' height='9' role='img'><title>a dot</title></svg>", 0),
        ("<p id='name'>a dot</p><svg width='9' height='9' role='img' aria-labelledby='name'></svg>", 0),
        ("<svg width='9' height='9' aria-hidden='true'></svg>", 0),
    ],
)
def test_pictures_without_a_name_are_found(phone: Page, written: Written, body: str, count: int) -> None:
    phone.load(written(body))
    assert len(nameless_images(phone)) == count


NOISY = [
    ("<script>console.error('a', 1)</script>", "said: console.error: a 1"),
    ("<script>console.log('b')</script>", "said: console.log: b"),
    ("<script>nothing.at.all</script>", "said: exception: ReferenceError: nothing is not defined"),
    ("<script>setTimeout(() => { throw Error('late') }, 10)</script>", "said: exception: Error: late"),
    ("<script>alert('c')</script>", "said: alert: c"),
    ("<img src='https://example.org/a.png' alt='a'>", "asked for: https://example.org/a.png"),
    ("<img src='https://example.org/a.png' alt='a'>", "said: network error: Failed to load resource"),
    ("<img src='missing.png' alt='a'>", "/missing.png"),
    ("<style>@import 'https://example.org/a.css';</style>", "asked for: https://example.org/a.css"),
    ("<style>p { background: url(https://example.org/b.png) }</style><p>x</p>", "asked for: https://example.org/b"),
    ("<script>fetch('http://127.0.0.1:9/c')</script>", "asked for: http://127.0.0.1:9/c"),
]


@pytest.mark.parametrize(("body", "sentence"), NOISY)
def test_what_a_page_says_and_asks_for_is_heard(browser: Chromium, written: Written, body: str, sentence: str) -> None:
    with browser.open(written(body), DESKTOP) as page:
        assert any(sentence in one for one in said_and_asked(page)), said_and_asked(page)


def test_a_page_hears_nothing_of_others(browser: Chromium, written: Written, tmp_path: Path) -> None:
    """Neither of one that is open beside it nor of one that was before."""
    quiet = written().rename(tmp_path / "quiet.html")
    with browser.open(quiet, DESKTOP) as page:
        with browser.open(written("".join(body for body, _ in NOISY)), DESKTOP) as other:
            assert len(said_and_asked(other)) > len(NOISY)
        assert said_and_asked(page) == []
    with browser.open(quiet, DESKTOP) as page:
        assert said_and_asked(page) == []


def test_what_waits_for_being_seen_is_asked_for(browser: Chromium, written: Written) -> None:
    picture = "<img loading='lazy' src='https://example.org/a.png' alt='a' style='display: block; margin-top: 30000px'>"
    with browser.open(written(picture), DESKTOP) as page:
        assert said_and_asked(page) == []
        page.scroll()
        assert "asked for: https://example.org/a.png" in said_and_asked(page)


def test_values_errors_and_missing_files(browser: Chromium, written: Written, tmp_path: Path) -> None:
    with browser.open(written(), DESKTOP) as page:
        assert page.evaluate("({a: [1, 'ä']})") == {"a": [1, "ä"]}
        assert page.evaluate("Promise.resolve(2)") == 2
        assert page.evaluate("typeof planted") == "undefined"
        with pytest.raises(BrowserError, match="TypeError"):
            page.evaluate("null.a")
        with pytest.raises(BrowserError, match=r"Nothing\.here"):
            page.send("Nothing.here")
    with pytest.raises(BrowserError, match="ERR_FILE_NOT_FOUND"), browser.open(tmp_path / "none.html", DESKTOP):
        pass


def test_the_view_is_what_was_asked_for(browser: Chromium, written: Written) -> None:
    look = "[innerWidth, innerHeight, devicePixelRatio, matchMedia('(prefers-color-scheme: dark)').matches]"
    letters = "parseFloat(getComputedStyle(document.body).fontSize)"
    file = written("<div style='height: 3000px'></div>")
    with browser.open(file, PHONE) as page:
        assert page.evaluate(look) == [360, 740, 2, False]
        assert page.evaluate(letters) == 16
        assert size(page.screenshot(whole=False)) == (720, 1480)
        wide, high = size(page.screenshot())
        assert wide == 720
        assert high > 6000
    with browser.open(file, View(1280, 900, dark=True, text=2)) as page:
        assert page.evaluate(look) == [1280, 900, 1, True]
        assert page.evaluate(letters) == 32


def test_printing(browser: Chromium, written: Written) -> None:
    style = "main { background: rgb(255, 0, 0) } @media print { main { background: rgb(0, 0, 255) } } p { break-after: page }"
    with browser.open(written("<p>1</p><p>2</p><p>3</p>", style), DESKTOP) as page:
        data = page.pdf()
        page.emulate(printed=True)
        assert page.evaluate("getComputedStyle(document.querySelector('main')).backgroundColor") == "rgb(0, 0, 255)"
    assert data.startswith(b"%PDF-")
    assert pdf_pages(data) == 3
    assert b"Tj" in pdf_operators(data)
    assert (0, 0, 1) in pdf_fills(data)
    assert (1, 0, 0) not in pdf_fills(data)


def test_the_browser_ends_with_its_context(written: Written) -> None:
    path = executable()
    if path is None:
        pytest.skip("There is no Chromium.")
    folder = None
    with suppress(ZeroDivisionError), Chromium(path) as own, own.open(written(), DESKTOP):
        folder = own.profile
        assert str(folder) in _processes()
        raise ZeroDivisionError
    assert folder is not None
    assert str(folder) not in _processes()
    assert not folder.exists()


def test_a_browser_that_does_not_start(tmp_path: Path) -> None:
    file = tmp_path / "chromium"
    file.write_text("#!/bin/sh\necho no display >&2\nexit 3\n")
    file.chmod(0o755)
    with pytest.raises(BrowserError, match=r"did not start \(exit code 3\). It said: no display"):
        Chromium(str(file))


def _processes() -> str:
    return subprocess.run(["ps", "-eo", "args", "ww"], capture_output=True, text=True, check=True).stdout
