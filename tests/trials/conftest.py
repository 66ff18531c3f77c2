"""Runs a row of the table in a folder of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .table import Trial, run


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Callable[[Trial], None]:
    def attempt(trial: Trial) -> None:
        if trial.makes:
            request.getfixturevalue("blank_pictures")
        run(trial, tmp_path, monkeypatch)

    return attempt
