"""The page on diagnostics is made from the checks, and every finding comes from one of them."""

import ast
import re
from collections import Counter
from pathlib import Path

import findings_page
from cesaro.diagnostics import SECTIONS

ROOT = Path(__file__).parents[1]
NAMES = [check.name for checks in SECTIONS.values() for check in checks]


def test_the_tables_are_those_of_the_checks() -> None:
    """`python docs/hooks/findings_page.py` makes them so."""
    page = findings_page.PAGE.read_text(encoding="utf-8")
    assert findings_page.with_tables(page) == page
    assert len(NAMES) > 25
    assert [name for name, count in Counter(NAMES).items() if count > 1] == []


def test_every_finding_comes_from_a_check() -> None:
    """`Diagnostic` is made in one place, and every check of the package is in a section of the page."""
    made, declared = [], []
    for path in sorted((ROOT / "src" / "cesaro").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "Diagnostic(" in text or "Check(" in text:
            calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
            names = [call.func.id for call in calls if isinstance(call.func, ast.Name)]
            made += [path.name] * names.count("Diagnostic")
            declared += ["Check"] * names.count("Check")
    assert made == ["finding.py"]
    assert len(declared) == len(NAMES)


def test_findings_that_other_pages_name_exist() -> None:
    """Text in code style beside the word finding."""
    for page in (ROOT / "docs" / "reward_rate.md", ROOT / "docs" / "howto" / "intervals.md"):
        text = page.read_text(encoding="utf-8")
        named = set(re.findall(r"[Ff]indings? ((?:`[^`]+`(?:, | and )?)+)", text))
        names = {name for group in named for name in re.findall(r"`([^`]+)`", group)}
        assert names
        assert names <= set(NAMES)
