"""One browser per worker, the ways to look at a page, and pages to look at."""

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .chromium import NAMES, Chromium, executable
from .reports import REPORTS


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    path = executable()
    if path is None:
        reason = f"There is no Chromium (none of {', '.join(NAMES)} on the path); install Debian's package chromium."
        if os.environ.get("CESARO_REQUIRE_BROWSER"):
            pytest.fail(f"CESARO_REQUIRE_BROWSER is set. {reason}")
        pytest.skip(reason)
    with Chromium(path) as started:
        yield started


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """`written(body, style)`: a small page without faults, but for those in its arguments."""

    def write(body: str = "", style: str = "", head: str = "") -> Path:
        file = tmp_path / "page.html"
        file.write_text(
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>:root {{ color-scheme: light dark }} {style}</style>{head}</head>"
            f"<body><main><h1>A page</h1>{body}</main></body></html>",
            encoding="utf-8",
        )
        return file

    return write


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`report("evaluation")`, `"comparison"`, …: the folder of such a report, made once for all workers."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "reports"
    shared.mkdir(exist_ok=True)

    def get(name: str) -> Path:
        folder = shared / name
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "out/report.html").exists():
                folder.mkdir(exist_ok=True)
                REPORTS[name](folder / "out")
        return folder / "out"

    return get
