"""`cesaro doctor`: what is there, how fast it is, and what to do."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cesaro.cli import app
from cesaro.commands import installation


def cesaro(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def _no_stage_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stderr holds must not depend on how busy the machine is."""
    monkeypatch.setattr("cesaro.progress._SECONDS_BEFORE_A_STAGE", 600.0)


@pytest.mark.slow
def test_doctor_says_what_is_there_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_OPTIONAL", (("no_such_module", "magic", "magic"),))
    monkeypatch.setattr(installation, "_SLOW_ROWS", 1e15)
    monkeypatch.setattr(installation, "_load", lambda: 0.0)
    result = cesaro("doctor")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    for word in (
        "cesaro",
        "python",
        "jax",
        "numpy",
        "scikit-learn",
        "pyarrow",
        "cores",
        "device of JAX",
        "rows/s",
        "updates/s",
    ):
        assert word in said
    assert "'cesaro[magic]'" in said
    assert "slow:" in said
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize(("load", "advice"), [(99.0, ""), (0.0, "reinstall numpy")])
def test_a_busy_machine_says_nothing_about_the_installation(
    monkeypatch: pytest.MonkeyPatch, load: float, advice: str
) -> None:
    monkeypatch.setattr(installation, "_load", lambda: load)
    monkeypatch.setattr(installation, "_cores", lambda: 2)
    monkeypatch.setattr(installation, "_device", lambda: [installation.Finding("device of JAX", "none")])
    monkeypatch.setattr(
        installation, "_moments_speed", lambda: installation.Finding("closed form", "", "reinstall numpy")
    )
    *_, last = installation._findings()
    assert last.advice == advice


@pytest.mark.parametrize(("rate", "shown"), [(3.4e4, "0.034"), (1.25e6, "1.2"), (2.5e8, "250")])
def test_speeds_have_two_digits(rate: float, shown: str) -> None:
    assert installation._millions(rate) == f"{shown} million"


def test_doctor_is_not_silent_while_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow() -> Iterator[installation.Finding]:
        time.sleep(0.2)
        yield installation.Finding("sleep", "enough")

    monkeypatch.setattr(installation, "_findings", slow)
    monkeypatch.setattr("cesaro.progress._SECONDS_BEFORE_A_STAGE", 0.0)
    result = cesaro("doctor")
    assert result.stderr == "looking at this machine and measuring its speed …\n"
    assert "enough" in result.stdout
    quiet = cesaro("doctor", "--quiet")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, result.stdout, "")
