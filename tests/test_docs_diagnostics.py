"""The page on diagnostics has a row for each finding that the code can make, and no other."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

from cesaro.diagnostics import OTHERS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "howto" / "diagnostics.md"
METHOD = "<method>"


def assigned(function: ast.AST) -> dict[str, ast.expr]:
    """What a function's names are set to, also beside others: `value, name = solution.rank, "ridge"`."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts))
            else:
                pairs = [(target, node.value)]
            found |= {name.id: value for name, value in pairs if isinstance(name, ast.Name)}
    return found


def text_of(value: ast.expr | None, known: dict[str, ast.expr], place: str) -> str:
    """A name of a finding: text, a name that is set to text, or `f"{OTHERS}{method}"`, with a word for the method."""
    if isinstance(value, ast.Constant):
        return str(value.value)
    if isinstance(value, ast.Name):
        return {"OTHERS": OTHERS, "method": METHOD}.get(value.id) or text_of(known.get(value.id), {}, place)
    if isinstance(value, ast.FormattedValue):
        return text_of(value.value, {}, place)
    assert isinstance(value, ast.JoinedStr), f"{place}: the name of a finding that this test cannot read"
    return "".join(text_of(part, {}, place) for part in value.values)


@cache
def emitted() -> frozenset[str]:
    """The first argument of every finding(…) and Diagnostic(…) under src/cesaro, whatever way it is written."""
    names = set()
    for path in sorted((ROOT / "src" / "cesaro").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "finding(" not in text and "Diagnostic(" not in text:
            continue
        for function in ast.walk(ast.parse(text)):
            if not isinstance(function, ast.FunctionDef) or function.name == "finding":
                continue
            known = assigned(function)
            for call in ast.walk(function):
                if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                    continue
                if call.func.id in ("finding", "Diagnostic"):
                    first = [*call.args, *(word.value for word in call.keywords if word.arg in ("name", None))]
                    names.add(text_of(first[0], known, f"{path.name}, line {call.lineno}"))
    return frozenset(names)


def test_the_table_names_exactly_what_the_code_emits() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.M)
    code = emitted()
    assert len(code) > 25
    assert sorted(set(rows) - code) == []
    assert sorted(code - set(rows)) == []
    assert [name for name, count in Counter(rows).items() if count > 1] == []


def test_findings_that_other_pages_name_exist() -> None:
    """Text in code style beside the word finding."""
    code = emitted()
    for page in (ROOT / "docs" / "reward_rate.md", ROOT / "docs" / "howto" / "intervals.md"):
        text = page.read_text(encoding="utf-8")
        named = set(re.findall(r"[Ff]indings? ((?:`[^`]+`(?:, | and )?)+)", text))
        names = {name for group in named for name in re.findall(r"`([^`]+)`", group)}
        assert names
        assert names <= code
