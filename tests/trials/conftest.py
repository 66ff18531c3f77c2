"""Runs a row of the table in a folder of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .table import Trial, run


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blank_pictures: None) -> Callable[[Trial], None]:
    return lambda trial: run(trial, tmp_path, monkeypatch)
