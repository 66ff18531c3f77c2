"""Every test that the page of promises names exists, and so does the row of a table that it names."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)(?:\[([^\]]+)\])?`")


def test_promises_name_tests_that_exist() -> None:
    page = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    named = NAMED.findall(page)
    assert len(named) == page.count("::test_") > 40
    for file, test, row in named:
        content = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {test}\(", content, flags=re.M), f"{file} has no {test}"
        assert not row or f'"{row}"' in content, f"{file} has no row {row!r}"
