"""Every Python block of the README and of the pages below runs as printed, each page in a fresh process."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "docs/add_an_algorithm.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_page_runs(page: str, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    assert blocks, "a page without code needs no test"
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    script = []
    for block in blocks:
        named = re.match(r"# (\w+\.py)\n", block)
        if named:  # a file of its own
            (tmp_path / named[1]).write_text(block, encoding="utf-8")
        else:
            script.append(block)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_readme_prints_what_it_says(tmp_path: Path) -> None:
    """The numbers in the README's comments are the ones that its code prints."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```", text, flags=re.M | re.S)
    assert block
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    promised = re.findall(r"# ([0-9.]+)…?:", block[1])
    done = subprocess.run([sys.executable, "-c", block[1]], cwd=tmp_path, capture_output=True, text=True, check=True)
    printed = re.findall(r"^([0-9.]+)$", done.stdout, flags=re.M)
    assert len(promised) == len(printed) == 3
    for ours, theirs in zip(printed, promised):
        digits = len(theirs.partition(".")[2])
        assert abs(float(ours) - float(theirs)) < 10.0**-digits
