"""Every Python and shell block of the README and of the pages under docs/ runs as printed, and prints what its comments say.

`make docs` runs all of them, `make test` those where people start. Each page runs in a fresh folder with a copy of examples/;
`page_runner.py` has the rules. Lines that install (`make`, `pip install`) are not run. A block that takes minutes or needs an
extra is ```console or ```text on its page, and says why beside it.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RUNNER = Path(__file__).with_name("page_runner.py")
# Records of studies: their commands take minutes to hours, and their numbers are kept beside them in docs/results.
RECORDS = {"docs/reproduction.md", "docs/benchmarks.md", "docs/why_gq1_stays.md"}


def _has_code(page: str) -> bool:
    return re.search(r"^```(python|sh)$", (ROOT / page).read_text(encoding="utf-8"), flags=re.M) is not None


ALL = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in ALL if page not in RECORDS and _has_code(page)]
# `make test` runs the README, `make slow` this page too, and `make docs` every page, which takes minutes.
FIRST = ["README.md", "docs/add_an_algorithm.md", "docs/suite.md"]
CHOSEN = PAGES if os.environ.get("CESARO_ALL_PAGES") else FIRST


def _run(page: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(Path(sys.executable).parent)  # as `make demo` leaves it
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",  # `cesaro` is the one under test
        "JAX_PLATFORMS": "cpu",
        "JAX_NUMPY_DTYPE_PROMOTION": "standard",  # as users have it: Adam needs it
        "MPLBACKEND": "agg",
    }
    command = [sys.executable, "-W", "error", str(RUNNER), str(page)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def _compared(done: "subprocess.CompletedProcess[str]") -> int:
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return int(done.stdout.splitlines()[-1].split()[0])


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in CHOSEN if page != "README.md"])
def test_the_page_runs(page: str, tmp_path: Path) -> None:
    _compared(_run(ROOT / page, tmp_path))


@pytest.mark.slow
def test_the_readme_runs_and_prints_its_three_numbers(tmp_path: Path) -> None:
    """The rate, its standard error and the truth."""
    assert _compared(_run(ROOT / "README.md", tmp_path)) >= 3


def test_the_pages_are_found() -> None:
    assert {*FIRST, "docs/index.md", "docs/howto/report.md"} <= set(PAGES)
    assert set(ALL) >= RECORDS, "a record that is no page any more"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("```python\nprint(2.7314)  # 2.72…: wrong\n```\n", "promises 2.72"),
        ("```python\nprint(\n    1.0,\n    -2.5,\n)  # (1.0, -2.4)\n```\n", r"line 5: promises 1.0, -2.4"),
        ("```python\nif False:\n    print(1)  # 1\n```\n", "prints nothing"),
        ("```python\nprint('caution')  # bad\n```\n", "promises bad and prints"),
        ("```python\nprint('no number')  # 3\n```\n", "promises 3"),
        ("```sh\nmake nothing\nfalse\ntrue\n```\n", "CalledProcessError"),
        ("```python\nimport warnings\n\nwarnings.warn('look')\n```\n", "UserWarning: look"),
    ],
    ids=["digits", "several", "silent", "verdict", "words", "shell", "warning"],
)
def test_a_page_that_is_wrong_fails(text: str, reason: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    done = _run(page, tmp_path)
    assert done.returncode != 0
    assert re.search(reason, done.stderr)


def test_a_page_runs_in_order_and_its_numbers_count(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```csv\n# numbers.csv\nx\n1\n2\n```\n"
        "```python\n# helper.py\nTWICE = 2\n```\n"
        "```sh\nmake \\\n  nothing\npip install nothing\n"
        "tail -n 1 numbers.csv \\\n  > last.txt  # written before Python reads it\n```\n"
        "```python\nfrom helper import TWICE\n\nlast = int(open('last.txt').read()) * TWICE\n```\n"
        "```python\nprint(f'{last:.3f} and {1 / 3}')  # 4, 0.33…: both\nprint(12_000.4)  # 12,000 rows\n"
        "print(last)  # four\nprint(1e-5)  # 1e-5\n```\n"
        "```console\nfalse\n```\n",
        encoding="utf-8",
    )
    assert _compared(_run(page, tmp_path)) == 3
