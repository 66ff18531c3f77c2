"""The tables of `docs/howto/diagnostics.md`, made from what each check says of itself: `python docs/hooks/findings_page.py`.

Text around the tables is written by hand; a table stands under the heading of its section.
"""

import re
from pathlib import Path

from cesaro.diagnostics import SECTIONS
from cesaro.diagnostics.finding import Check

PAGE = Path(__file__).parents[1] / "howto" / "diagnostics.md"
HEAD = "| name | number | caution | bad | meaning | what to do |\n|---|---|---|---|---|---|\n"


def table(checks: tuple[Check, ...]) -> str:
    """A row per check."""
    rows = ((f"`{c.name}`", c.number, c.caution, c.bad, c.meaning, c.remedy) for c in checks)
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def with_tables(page: str) -> str:
    """The page with the tables of today; raises where a section of the code has no heading in it."""
    for heading, checks in SECTIONS.items():
        pattern = re.compile(rf"(^### {re.escape(heading)}\n(?:(?!^#).*\n)*?)(^\|.*\n)+", re.MULTILINE)
        tables = pattern.findall(page)
        if len(tables) != 1:
            raise ValueError(f'{PAGE.name} must have one table under the heading "### {heading}". Got {len(tables)}.')
        found = pattern.search(page)
        assert found is not None
        page = page[: found.end(1)] + table(checks) + page[found.end() :]
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
