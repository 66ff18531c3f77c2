"""Answers of the command line to a newcomer who mixes options."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cesaro.cli import app

QUEUE = Path(__file__).parents[1] / "examples" / "queue.parquet"


def refusal(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, ["evaluate", str(QUEUE), *map(str, arguments)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize("method", [(), ("--method", "diff-lstd")])
def test_options_of_learned_methods_name_them(method: tuple[str, ...]) -> None:
    said = refusal("--policy", "uniform", *method, "--approximator", "mlp")
    assert "--approximator is for learned methods" in said
    assert "Got --approximator mlp; add --method and one of diff-sgq, diff-gq1, " in said
    assert "gradient-dice" in said


def test_shipped_needs_its_environment() -> None:
    said = refusal("--policy", "shipped")
    assert "policy 'shipped' must name its environment" in said
    assert "shipped:HalfCheetah-v5" in said
