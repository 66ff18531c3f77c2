"""Rules of a page, as lists of sentences about what it is not; an empty list is a good page."""

import json
import re
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from .chromium import Page

_AUDIT = (Path(__file__).parent / "audit.js").read_text(encoding="utf-8")
_SEEN = "function() { return this.checkVisibility() && this.closest('[aria-hidden=true]') === null }"


def audit(page: Page) -> dict[str, Any]:
    """Findings by rule, with all details opened, and under "page" the luminance of the page's background."""
    found: dict[str, Any] = page.evaluate(f"({_AUDIT})({page.view.width}, {json.dumps(page.view.mobile)})")
    return found


# Rules that names of any length may break: how labels of pictures and words of tables find room.
ROOM = ("size", "clipped", "overlap", "squeezed")


def findings(page: Page, but: Collection[str] = ()) -> list[str]:
    """Everything that is wrong with the page, rules `but` these."""
    by_rule = {rule: found for rule, found in audit(page).items() if rule not in ("page", *but)}
    of_rules = [f"{rule}: {sentence}" for rule, found in by_rule.items() for sentence in found]
    return [*of_rules, *nameless_images(page), *said_and_asked(page)]


def said_and_asked(page: Page) -> list[str]:
    """Console messages, log entries and exceptions, and requests other than the page itself and data in it."""
    own = page.evaluate("location.href.split('#')[0]")
    asked = [url for url in page.requests if url != own and not url.startswith("data:")]
    return [f"said: {message}" for message in page.messages] + [f"asked for: {url}" for url in asked]


def nameless_images(page: Page) -> list[str]:
    """Visible pictures for which a screen reader has no name, by the browser's own rules for names."""
    page.send("Accessibility.enable")
    root = page.send("DOM.getDocument")["root"]["nodeId"]
    found = []
    for node in page.send("DOM.querySelectorAll", nodeId=root, selector="img, svg")["nodeIds"]:
        picture = page.send("DOM.resolveNode", nodeId=node)["object"]["objectId"]
        seen = page.send("Runtime.callFunctionOn", objectId=picture, functionDeclaration=_SEEN, returnByValue=True)
        if seen["result"]["value"]:
            told = page.send("Accessibility.getPartialAXTree", nodeId=node, fetchRelatives=False)["nodes"][0]
            if not str(told.get("name", {}).get("value", "")).strip():
                html = page.send("DOM.getOuterHTML", nodeId=node)["outerHTML"]
                found.append(f"images: {html[:80]} has no name")
    return found


def pdf_pages(data: bytes) -> int:
    """How many pages a PDF has."""
    return len(re.findall(rb"/Type\s*/Page\b", data))


def pdf_operators(data: bytes) -> bytes:
    """The operators by which a PDF draws: its compressed streams, unpacked."""
    parts = []
    for match in re.finditer(rb"stream\r?\n", data):
        try:
            parts.append(zlib.decompressobj().decompress(data[match.end() :]))
        except zlib.error:  # not compressed, such as a picture
            continue
    return b"\n".join(parts)


def pdf_fills(data: bytes) -> set[tuple[float, ...]]:
    """The colors, red green blue from 0 to 1, in which a PDF fills shapes and letters."""
    number = rb"(-?\d*\.?\d+)"
    found = re.findall(rb"\s" + rb"\s+".join([number] * 3) + rb"\s+rg\s", pdf_operators(data))
    return {tuple(float(part) for part in color) for color in found}
