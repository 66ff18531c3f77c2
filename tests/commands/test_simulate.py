"""The commands `collect`, `truth` and `train-target`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import cesaro as cs
from cesaro.cli import app


def cesaro(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.slow
def test_collect_and_evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies.py").write_text("def swing(rows):\n    return -rows[:, 1:2]\n", encoding="utf-8")
    common = ("collect", "Pendulum-v1", "--policy", "policies.py:swing", "--steps", "900", "--streams", "3")
    result = cesaro(*common, "--sigma", "0.5", "--workers", "1", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith(
        "900 transitions in 3 streams; 0 episodes terminated, 3 cut by the time limit of 200 steps"
    )
    assert "not Markov in the observation" in lines[1]
    assert lines[2:] == ["Log: Pendulum-v1.parquet"]
    again = cesaro(*common, "--sigma", "0.5", "--workers", "1", "--quiet")
    assert (again.exit_code, again.stderr.count("\n")) == (2, 1)
    assert "--force" in again.stderr
    answer = cesaro("evaluate", "Pendulum-v1.parquet", "--policy", "policies.py:swing", "--json", "--quiet")
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["log"]["rows"] == 900


def test_a_log_without_a_time_limit_needs_no_note(tmp_path: Path) -> None:
    out = tmp_path / "free.parquet"
    arguments = ("--steps", "500", "--streams", "2", "--workers", "1", "--quiet", "--no-time-limit", "--out", out)
    result = cesaro("collect", "Pendulum-v1", "--policy", "constant:0.5", *arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1:] == [f"Log: {out}"]
    assert "0 episodes terminated, no time limit;" in result.stdout
    assert cs.read(out).num_rows == 500


def test_minari_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    arguments = ("collect", "CartPole-v1", "--policy", "uniform", "--steps", "200", "--streams", "2", "--workers", "1")
    result = cesaro(*arguments, "--quiet", "--format", "minari", "--out", "pole-v0")
    assert result.exit_code == 0, result.output
    assert "--on-truncation restart" in result.stdout
    assert result.stdout.endswith("Log: minari:pole-v0\n")
    assert cs.read("minari:pole-v0").num_rows == 200
    assert "--format minari needs --out" in cesaro(*arguments, "--format", "minari").stderr


def test_truth_as_text_and_as_json(tmp_path: Path) -> None:
    out = tmp_path / "truth.json"
    common = ("truth", "Pendulum-v1", "--policy", "constant:0", "--steps", "4000", "--workers", "1", "--quiet")
    result = cesaro(*common, "--out", out)
    assert (result.exit_code, result.stderr) == (0, "")
    first, second, *note, third = result.stdout.splitlines()
    assert "Note: a stream of 200 steps begins at a reset" in " ".join(note)
    stored = json.loads(out.read_text(encoding="utf-8"))
    assert first.startswith(f"Pendulum-v1, constant:0: {stored['value']:.6g} per step, standard error ")
    assert f"interval {stored['interval'][0]:.6g} to {stored['interval'][1]:.6g}" in first
    assert (
        "4,000 steps in 20 streams, 40 batches; 0 episodes terminated, 20 cut by the time limit of 200 steps." in second
    )
    assert third == f"Results: {out}"
    document = cesaro(*common, "--json", "--confidence", "0.9")
    data = json.loads(document.stdout)
    assert (data["value"], data["confidence"], data["schema"]) == (stored["value"], 0.9, "cesaro-truth/1")
    assert "exists; add --force" in cesaro(*common, "--out", out).stderr
    assert cesaro(*common, "--out", out, "--force").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["collect", "Nowhere-v0", "--policy", "uniform", "--steps", "100"], "env must be the name of a Gymnasium"),
        (["collect", "CartPole-v1", "--policy", "uniform", "--steps", "100", "--sigma", "1"], "take epsilon"),
        (["collect", "CartPole-v1", "--policy", "uniform", "--steps", "5"], "steps must be at least one per stream"),
        (
            ["collect", "CartPole-v1", "--policy", "uniform", "--steps", "99", "--format", "csv"],
            "format must be parquet",
        ),
        (
            ["collect", "CartPole-v1", "--policy", "uniform", "--steps", "99", "--out", "a.txt"],
            "out must end in .parquet",
        ),
        (
            ["collect", "CartPole-v1", "--policy", "uniform", "--steps", "99", "--workers", "0"],
            "workers must be an integer",
        ),
        (
            ["collect", "CartPole-v1", "--policy", "shipped", "--steps", "99"],
            "A shipped actor must be for one of these",
        ),
        (["truth", "CartPole-v1", "--policy", "nothing.csv", "--steps", "99"], "cannot be found"),
        (["truth", "CartPole-v1", "--policy", "uniform", "--steps", "99", "--confidence", "2"], "confidence must be"),
        (
            ["truth", "CartPole-v1", "--policy", "uniform", "--steps", "99", "--out", "no/a.json"],
            "does not exist; create",
        ),
        (["train-target", "Pendulum-v1", "--out", "actor.zip"], "out must end in .safetensors"),
        (["train-target", "Pendulum-v1", "--steps", "0"], "steps must be an integer ≥ 1"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cesaro(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []
