"""Runs the code of one Markdown page: `python page_runner.py PAGE`, in a folder that holds a copy of examples/.

- ```python blocks run in this process, one after the other, in one namespace. A block with `title="name"` behind its kind is
  written to that file instead. So is one whose first line is `# name.py`, or `# name.csv`, which goes without that line.
- ```sh blocks run in bash, which stops at the first error. Lines that install are left out: what `make` and `pip install`
  do has been done before any test runs.
- A verdict in the comment behind a `print(…)`, `# bad`, is the word that is printed.
- A number in the comment behind a `print(…)`, such as `# 2.731…: the rate` or `# (2.70, 2.76)`, is compared with what that
  line prints: up to the digits given with `…`, rounded to them without.

The last line of the output says how many of these were compared. Needs the standard library only.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

BLOCK = re.compile(r'^```(python|sh|csv)(?: title="([\w.-]+)")?\n(.*?)^```$', flags=re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# ([\w.-]+\.(?:py|csv))\n")
INSTALLS = re.compile(r"\s*(make|pip install|python3? -m (venv|pip))\b")
NUMBER = r"[-−]?\d[\d,_]*(?:\.\d+)?(?:e[-+]?\d+)?"
PROMISE = re.compile(rf"#\s*[(\[]?({NUMBER}…?(?:, {NUMBER}…?)*)[)\]]?(?=[\s:;.]|$)")
VERDICT = re.compile(r"#\s*(ok|caution|bad)(?=[:;.]|$)")
PRINTED = re.compile(rf"(?<![\w.]){NUMBER}")

Blocks = list[tuple[str, str | None, int, str]]


def blocks_of(text: str) -> Blocks:
    """Kind, title, number of the lines before it, and text of every block that runs."""
    return [(found[1], found[2], text.count("\n", 0, found.start(3)), found[3]) for found in BLOCK.finditer(text)]


def run(page: Path) -> int:
    """Run the page; the number of promises that were kept."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    kept = 0
    for kind, title, before, text in blocks_of(page.read_text(encoding="utf-8")):
        if title:
            Path(title).write_text(text, encoding="utf-8")
        elif named := NAMED.match(text):
            Path(named[1]).write_text(text[named.end() :] if kind == "csv" else text, encoding="utf-8")
        elif kind == "python":
            kept += run_python(page.name, before, text, namespace)
        elif kind == "sh" and (lines := to_run(text)):
            sys.stdout.flush()
            subprocess.run(["bash", "-euo", "pipefail", "-c", lines], check=True)
    return kept


def to_run(text: str) -> str:
    """The commands of a block without those that install."""
    commands = text.replace("\\\n", "\0").splitlines()
    return "\n".join(line.replace("\0", "\\\n") for line in commands if line.strip() and not INSTALLS.match(line))


def run_python(page: str, before: int, text: str, namespace: dict[str, Any]) -> int:
    """Run a block and compare what it prints with what its comments promise."""
    printed: dict[int, list[str]] = {}

    def recorded(*values: Any, sep: str = " ", **options: Any) -> None:
        printed.setdefault(sys._getframe(1).f_lineno, []).append(sep.join(map(str, values)))
        print(*values, sep=sep, **options)

    namespace["print"] = recorded
    source = "\n" * before + text  # line numbers are those of the page
    exec(compile(source, page, "exec"), namespace)
    kept = 0
    lines = source.splitlines()
    for statement in prints(ast.parse(source)):
        last = statement.end_lineno or statement.lineno
        comment = lines[last - 1][statement.end_col_offset or 0 :]
        if (verdict := VERDICT.search(comment)) and printed.get(statement.lineno, [""])[0] != verdict[1]:
            raise AssertionError(
                f"{page}, line {last}: promises {verdict[1]} and prints {printed.get(statement.lineno)}."
            )
        promise = PROMISE.search(comment)
        kept += verdict is not None
        if promise:
            words = printed.get(statement.lineno)
            if words is None:
                raise AssertionError(f"{page}, line {last}: promises {promise[1]} and prints nothing.")
            compare(f"{page}, line {last}", promise[1], words[0])
            kept += 1
    return kept


def prints(tree: ast.Module) -> list[ast.Call]:
    """The calls of `print`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]


def compare(place: str, promised: str, printed: str) -> None:
    """Every number that the comment starts with against the numbers of the printed line."""
    found = PRINTED.findall(printed)
    promises = re.findall(rf"({NUMBER})(…?)", promised)
    if len(found) < len(promises):
        raise AssertionError(f"{place}: promises {promised} and prints {printed!r}.")
    for (number, more), got in zip(promises, found):
        digits = len(number.partition("e")[0].partition(".")[2])
        exponent = int(number.partition("e")[2] or 0)
        allowed = (1.0 if more else 0.5) * 10.0 ** (exponent - digits) * (1 + 1e-9)
        if not abs(value(got) - value(number)) <= allowed:
            raise AssertionError(f"{place}: promises {promised} and prints {printed!r}.")


def value(number: str) -> float:
    """A number as people write it."""
    return float(number.replace("−", "-").replace(",", "").replace("_", ""))


if __name__ == "__main__":
    sys.path[0] = ""  # as for somebody who pastes the page into a prompt
    print(f"{run(Path(sys.argv[1]))} numbers compared")
